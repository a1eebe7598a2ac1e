"""Datasets that the core may read give torch's batches; test_lifetime.py tests how long these are valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same, error_of
from checks.native import Build, array_of, assert_as_torch
from checks.programs import Run
from doubles.datasets import Marked, OwnTensorDataset, summed

pytestmark = [
    pytest.mark.slots,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]


INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool"]
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"]
FLOATS += ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


class Negated(torch.utils.data.Subset[Any]):
    def __getitem__(self, index: Any) -> Any:
        return -super().__getitem__(index)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class TooFew(list[int]):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices][1:]


def bytes_as(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return random bits of this dtype, including NaNs with payloads, infinities, and denormals."""
    count = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
    return raw.view(dtype).view(shape)


@pytest.mark.parametrize("name", INTEGERS + FLOATS)
def test_every_dtype_keeps_its_bits(name: str) -> None:
    dtype = getattr(torch, name)

    def build(package: ModuleType) -> Any:
        return package.TensorDataset(bytes_as(dtype, 7), bytes_as(dtype, 7, 3), bytes_as(dtype, 7, 2, 2))

    assert_as_torch(sluicegate, build, batch_size=3, shuffle=True, epochs=2)
    assert_as_torch(sluicegate, build, batch_size=None)


STRIDES: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.randn(3, 8).t(),
    "rows transposed": lambda: torch.randn(8, 3, 4).transpose(1, 2),
    "step over rows": lambda: torch.randn(16, 3)[::2],
    "step within rows": lambda: torch.randn(8, 9)[:, ::3],
    "scalars with a step": lambda: torch.randn(16)[1::2],
    "offset view": lambda: torch.randn(12, 5)[3:11, 1:4],
    "expanded rows": lambda: torch.randn(1, 3).expand(8, 3),
    "expanded within rows": lambda: torch.randn(8, 1, 3).expand(8, 4, 3),
    "expanded scalar": lambda: torch.randn(1).expand(8),
    "channels_last": lambda: torch.randn(8, 3, 4, 2).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda: torch.randn(8, 3, 4, 2, 2).to(memory_format=torch.channels_last_3d),
    "channels_last samples": lambda: torch.randn(8, 2, 4, 2, 3).permute(0, 1, 4, 2, 3),
    "channels_last samples of one": lambda: torch.randn(8, 1, 4, 2, 3).permute(0, 1, 4, 2, 3),
    "channels_last_3d samples": lambda: torch.randn(8, 2, 4, 2, 2, 3).permute(0, 1, 5, 2, 3, 4),
    "all dimensions reversed": lambda: torch.randn(2, 3, 4, 8).permute(3, 2, 1, 0),
    "empty rows": lambda: torch.randn(8, 0),
    "empty inner rows": lambda: torch.randn(8, 2, 0, 3),
    "one element": lambda: torch.randn(8, 1, 1),
    "conjugated": lambda: torch.randn(8, 3, dtype=torch.complex64).conj(),
    "negated view": lambda: torch._neg_view(torch.randn(8, 3)),
}


@pytest.mark.parametrize("kind", STRIDES)
def test_every_layout_of_the_source_gives_torchs_layout(kind: str) -> None:
    for arguments in ({"batch_size": 3, "shuffle": True}, {"batch_size": 1}, {"batch_size": None}):
        assert_as_torch(
            sluicegate, lambda package: package.TensorDataset(STRIDES[kind](), torch.arange(8)), **arguments
        )
    assert_as_torch(sluicegate, lambda package: STRIDES[kind](), batch_size=8)


@pytest.mark.parametrize("kind", ["rows transposed", "channels_last samples", "empty rows", "conjugated"])
def test_with_workers_every_layout_matches_torchs_workers(kind: str) -> None:
    assert_as_torch(sluicegate, lambda package: package.TensorDataset(STRIDES[kind]()), batch_size=3, num_workers=1)


@pytest.mark.parametrize("kind", ["channels_last samples", "channels_last_3d samples"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_that_python_makes_have_the_same_layout(kind: str, num_workers: int) -> None:
    """The core does not take these indices."""
    batches = [[numpy.array(0), numpy.array(5)], [True, False], [1, 2]]
    assert_as_torch(
        sluicegate,
        lambda package: package.TensorDataset(STRIDES[kind]()),
        batch_sampler=batches,
        num_workers=num_workers,
    )


NUMPY_DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D"]
NUMPY_DTYPES += [">i4", ">f8", "S3", "U3", "O", "V4", "M8[s]", "m8[s]", "i4,f4"]


@pytest.mark.parametrize("batch_size", [3, None])
@pytest.mark.parametrize("code", NUMPY_DTYPES)
def test_every_numpy_dtype_gives_torchs_batch_or_error(code: str, batch_size: int | None) -> None:
    for shape in ((7,), (7, 2), (7, 2, 3)):
        assert_as_torch(sluicegate, lambda package, shape=shape: array_of(code, *shape), batch_size=batch_size)


ARRAYS: dict[str, Callable[[], numpy.ndarray]] = {
    "fortran order": lambda: numpy.asfortranarray(array_of("f4", 6, 3, 2)),
    "rows backwards": lambda: array_of("f4", 6, 3)[::-1],
    "within rows backwards": lambda: array_of("f4", 6, 3)[:, ::-1],
    "scalars backwards": lambda: array_of("f4", 6)[::-1],
    "step": lambda: array_of("f4", 12, 6)[::2, ::3],
    "broadcast": lambda: numpy.broadcast_to(array_of("f4", 3), (6, 3)),
    "unaligned field": lambda: numpy.zeros(6, "i1,(3,)f4")["f1"],
    "unaligned scalars": lambda: numpy.zeros(6, "i1,f4")["f1"],
    "strides that are not multiples of the element": lambda: numpy.zeros((6, 2), "i1,f4")["f1"],
    "empty rows": lambda: array_of("f4", 6, 0),
    "masked": lambda: numpy.ma.masked_array(array_of("f4", 6, 2)),
    "recarray": lambda: numpy.rec.array(array_of("f4", 6, 2)),
    "no dimension": lambda: numpy.array(1.0),
    "no rows": lambda: array_of("f4", 0, 2),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_every_numpy_layout_gives_torchs_batch_or_error(kind: str) -> None:
    assert_as_torch(sluicegate, lambda package: ARRAYS[kind](), batch_size=4, epochs=2)
    assert_as_torch(sluicegate, lambda package: ARRAYS[kind](), batch_size=None)


def test_a_read_only_array_is_read(data: ModuleType) -> None:
    for shape in ((6,), (6, 3)):
        source = array_of("f4", *shape)
        source.flags.writeable = False
        loader = data.DataLoader(source, batch_size=4)
        for batch, rows in zip(loader, (source[:4], source[4:]), strict=True):
            assert_same(batch, torch.tensor(rows.copy()))
            batch.zero_()
        assert source.any()


def test_a_read_only_array_warns_once_per_process(run: Run, data: ModuleType) -> None:
    program = (
        "import numpy\n"
        "rows = numpy.zeros((6, 3)); rows.flags.writeable = False\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(2): list(data.DataLoader(rows, batch_size=2))\n"
        "    list(data.DataLoader(rows[:, 0], batch_size=2))\n"
        "print([(w.category.__name__, str(w.message)[:42]) for w in caught])\n"
    )
    done = run(program, data.__name__.partition(".")[0])
    done.check()
    assert done.stdout.strip() == "[('UserWarning', 'The given NumPy array is not writable, and')]"


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memmap_gives_its_rows_as_they_are_now(data: ModuleType, tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "rows.bin"
    array_of("f4", 6, 3).tofile(path)
    rows = numpy.memmap(path, dtype="f4", mode=mode, shape=(6, 3))
    iterator = iter(data.DataLoader(rows, batch_size=3))
    first = next(iterator)
    with path.open("r+b") as file:
        file.seek(3 * 12)
        file.write(numpy.full(3, 77, "f4").tobytes())
    second = next(iterator)
    assert_same(first, torch.tensor(array_of("f4", 6, 3)[:3]))
    assert second[0].tolist() == [77.0] * 3


TENSOR_FLAGS: dict[str, Build] = {
    "requires grad": lambda package: package.TensorDataset(torch.randn(6, 2, requires_grad=True), torch.arange(6)),
    "integer beside one that requires grad": lambda package: package.StackDataset(
        torch.randn(6, requires_grad=True), [0] * 6
    ),
    "parameter": lambda package: package.TensorDataset(torch.nn.Parameter(torch.randn(6, 2))),
    "frozen parameter": lambda package: package.TensorDataset(
        torch.nn.Parameter(torch.randn(6, 2), requires_grad=False)
    ),
    "tensor subclass": lambda package: package.TensorDataset(torch.randn(6, 2).as_subclass(Marked)),
    "own __getitem__": lambda package: OwnTensorDataset(torch.randn(6, 2)),
    "subset of own __getitem__": lambda package: package.Subset(OwnTensorDataset(torch.randn(6, 2)), [3, 1]),
    "mixed with a subclass": lambda package: package.StackDataset(torch.randn(6), torch.randn(6).as_subclass(Marked)),
}


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", TENSOR_FLAGS)
def test_tensors_that_only_torch_can_stack_are_stacked_by_torch(kind: str, num_workers: int) -> None:
    assert_as_torch(sluicegate, TENSOR_FLAGS[kind], batch_size=4, num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_subset_that_reads_its_samples_itself_is_read_as_by_torch(num_workers: int) -> None:
    assert_as_torch(sluicegate, lambda package: Negated(torch.arange(4), [3, 2]), batch_size=2, num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_part_of_a_stack_that_returns_too_few_samples_is_an_error(data: ModuleType, num_workers: int) -> None:
    loader = data.DataLoader(data.StackDataset(TooFew(range(4))), batch_size=4, num_workers=num_workers)
    assert "Expected 4, got 3" in str(error_of(lambda: list(loader)))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_no_grad_is_honored(num_workers: int) -> None:
    with torch.no_grad():
        build = TENSOR_FLAGS["requires grad"]
        assert_as_torch(sluicegate, build, batch_size=4, num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("batch_size", [2, None])
def test_inference_mode_marks_batches(batch_size: int | None, num_workers: int) -> None:
    for build in (lambda package: package.TensorDataset(torch.randn(6, 2)), lambda package: array_of("f4", 6, 2)):
        with torch.inference_mode():
            assert_as_torch(sluicegate, build, batch_size=batch_size, num_workers=num_workers)


def test_the_mode_at_next_counts(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(data.TensorDataset(torch.randn(6, 2)), batch_size=2))
    flags = [next(iterator)[0].is_inference()]
    with torch.inference_mode():
        flags.append(next(iterator)[0].is_inference())
        inside = data.DataLoader(data.TensorDataset(torch.randn(2, 2)))
    flags += [next(iterator)[0].is_inference(), next(iter(inside))[0].is_inference()]
    assert flags == [False, True, False, False]


EPOCHS = [
    ({}, True),
    ({"num_workers": 1}, True),
    ({"num_workers": 3}, False),
    ({"num_workers": 1, "persistent_workers": True}, False),
    ({"num_workers": 3, "persistent_workers": True, "prefetch_factor": 3}, True),
]


# With workers, each number and kind of them with and without the last batch.
@pytest.mark.parametrize(("workers", "drop_last"), [({}, False), *EPOCHS])
def test_epochs_with_workers_are_torchs(workers: dict[str, Any], drop_last: bool) -> None:
    def build(package: ModuleType) -> Any:
        return package.TensorDataset(torch.randn(11, 3), torch.arange(11))

    assert_as_torch(sluicegate, build, 2, batch_size=3, shuffle=True, drop_last=drop_last, **workers)


@pytest.mark.parametrize("collate", [list, tuple, summed, torch.utils.data.default_convert])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_custom_collate_gets_the_samples(collate: Any, num_workers: int) -> None:
    def build(package: ModuleType) -> Any:
        return package.TensorDataset(torch.randn(5, 2), torch.arange(5))

    assert_as_torch(sluicegate, build, batch_size=2, collate_fn=collate, num_workers=num_workers)
