"""The default collate function on Python samples: the core stacks some, torch the others, with equal results."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy
import pytest
import torch
import torch.utils.data
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

import sluicegate
from checks.equality import assert_same, assert_same_outcome, outcome_of
from checks.operations import operations
from doubles.datasets import Items, Point, Tags
from sluicegate import _core
from sluicegate.fetch.collate import KINDS, SCALARS, stacking

pytestmark = pytest.mark.slots

SIDE = 64  # Torch stacks tensors of less than 64 * 64 * 4 bytes.
NESTED_IS_NEW = "ignore:The PyTorch API of nested tensors is in prototype stage"
HAS_EXCHANGE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")

DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
]


def collate_of(engine: _core.Engine) -> Callable[[Any], Any]:
    return stacking(torch.utils.data.default_collate, engine)


def taken(samples: Any) -> bool:
    """Return True if the core stacks these samples."""
    return _core.Engine(0, 4).stack(KINDS, samples) is not None


def outcomes_agree(samples: Any) -> None:
    ours, torchs = collate_of(_core.Engine(0, 4)), torch.utils.data.default_collate
    assert_same_outcome(outcome_of(lambda: [ours(samples)]), outcome_of(lambda: [torchs(samples)]))
    loaders = (cls(samples, batch_size=len(samples)) for cls in (sluicegate.DataLoader, torch.utils.data.DataLoader))
    ours_by_loader, torchs_by_loader = (outcome_of(lambda each=each: each) for each in loaders)
    assert_same_outcome(ours_by_loader, torchs_by_loader)


def random_tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    data = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape)


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_every_data_type(name: str) -> None:
    samples = [random_tensor(getattr(torch, name), 4 * SIDE, SIDE) for _ in range(3)]
    assert taken(samples) == HAS_EXCHANGE
    outcomes_agree(samples)


@pytest.mark.parametrize("name", ["uint1", "uint4", "int4"])
def test_packed_integers_are_no_bytes(name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip("not in this version of torch")
    bytes_ = torch.zeros(2 * 16384, dtype=torch.uint8)
    packed = torch.empty(2 * 16384, dtype=dtype)
    assert not taken([packed, packed])
    assert not taken([bytes_, packed])


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda t: t,
    "transposed": lambda t: t.mT,
    "permuted": lambda t: t.permute(2, 0, 1),
    "every other": lambda t: t[:, ::2],
    "inner steps": lambda t: t[..., ::2],
    "cropped": lambda t: t[3:40, 5:60],
    "flipped": lambda t: t.flip(0),
    "expanded": lambda t: t[:1].expand(8, -1, -1),
    "broadcast": lambda t: t[0, 0, 0].expand(128, 64),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex64])
def test_tensors_of_every_layout_stack_as_in_torch(name: str, dtype: torch.dtype) -> None:
    samples = [LAYOUTS[name](random_tensor(dtype, 96, 128, 4)) for _ in range(3)]
    outcomes_agree(samples)
    outcomes_agree([samples[0], samples[1].contiguous(), samples[2]])
    if HAS_EXCHANGE and samples[0].nbytes >= 16384:
        assert taken(samples)


@pytest.mark.parametrize("axes", [4, 5])
def test_channels_last_is_kept(axes: int) -> None:
    last = torch.channels_last if axes == 4 else torch.channels_last_3d
    shape = (2, 3, *([32] * (axes - 2)))
    samples = [torch.randn(shape).to(memory_format=last) for _ in range(3)]
    assert not taken(samples)
    outcomes_agree(samples)
    outcomes_agree([samples[0], samples[1].contiguous()])
    outcomes_agree([samples[0].contiguous(), samples[1]])
    outcomes_agree([torch.randn(2, 1, *shape[2:]).to(memory_format=last)] * 2)


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_workers_of_both_types_stack_in_c_order(worker_type: Literal["process", "thread"]) -> None:
    samples = [torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last) for _ in range(4)]
    expected = next(iter(torch.utils.data.DataLoader(samples, 4, num_workers=1)))
    loader = sluicegate.DataLoader(samples, 4, num_workers=1, worker_type=worker_type)
    assert_same(next(iter(loader)), expected)
    assert_same(loader.replay(0), expected)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_layouts_of_many_axes(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 1, 2, 3, 8]), min_size=3, max_size=6))
    # A few thousand values are enough: native code takes only large samples, but larger ones test nothing more.
    wanted = data.draw(st.sampled_from([1 << 12, 1 << 16]))
    shape[data.draw(st.integers(0, len(shape) - 1))] *= max(1, wanted // math.prod(shape))
    samples = []
    for _ in range(data.draw(st.integers(1, 3))):
        order = data.draw(st.permutations(range(len(shape))))
        tensor = torch.empty([shape[axis] for axis in order], dtype=torch.int16).random_()
        samples.append(tensor.permute([order.index(axis) for axis in range(len(shape))]))
    expected = torch.utils.data.default_collate(samples)
    assert_same(collate_of(_core.Engine(0, 4))(samples), expected)


class Sub(torch.Tensor):
    """A subclass without additions."""


def odd_tensors() -> dict[str, list[torch.Tensor]]:
    plain = torch.randn(128, SIDE)
    wide = torch.randn(128, SIDE, dtype=torch.complex64)
    return {
        "requires grad": [plain, plain.clone().requires_grad_()],
        "grad function": [plain.clone().requires_grad_() * 2, plain],
        "parameter": [torch.nn.Parameter(plain)] * 2,
        "parameter behind": [plain, torch.nn.Parameter(plain, requires_grad=False)],
        "subclass": [plain.as_subclass(Sub)] * 2,
        "subclass behind": [plain, plain.as_subclass(Sub)],
        "conjugated": [wide, wide.conj()],
        "negative": [plain, wide.conj().imag],
        "negative bytes": [plain, torch._neg_view(plain)],
        "other type": [plain, plain.double()],
        "other shape": [plain, plain[:100]],
        "other rank": [plain, plain.view(-1)],
        "meta": [plain.to("meta")] * 2,
        "meta behind": [plain, plain.to("meta")],
        "number behind": [plain, 1],
        "array behind": [plain, plain.numpy()],
    }


@pytest.mark.parametrize("name", odd_tensors())
def test_odd_tensors_are_for_torch(name: str) -> None:
    samples = odd_tensors()[name]
    assert not taken(samples)
    if "meta" not in name:
        outcomes_agree(samples)


@pytest.mark.filterwarnings("ignore:.*quantize.*", NESTED_IS_NEW, "ignore:Sparse.*")
def test_tensors_without_plain_memory_are_for_torch() -> None:
    plain = torch.randn(128, SIDE)
    freed = torch.zeros(128, SIDE)
    freed.untyped_storage().resize_(0)
    odd = [
        plain.to_sparse(),
        plain.to_sparse_csr(),
        torch.quantize_per_tensor(plain, 0.1, 0, torch.quint8),
        torch.nested.nested_tensor([plain, plain]),
        freed,
    ]
    for tensor in odd:
        assert not taken([tensor, tensor])
        assert not taken([plain, tensor])
    for tensor in odd[:2]:
        outcomes_agree([tensor, tensor])


# Modules that `torch.func` imports emit it.
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:FutureWarning")
def test_dual_and_wrapped_tensors_are_for_torch() -> None:
    plain = torch.randn(128, SIDE)
    collate = collate_of(_core.Engine(0, 4))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(plain, torch.ones_like(plain))
        assert_same(forward_ad.unpack_dual(collate([dual, dual])).tangent, torch.ones(2, 128, SIDE))
    assert torch.equal(torch.func.vmap(lambda row: collate([row, row]))(plain), torch.stack([plain, plain], 1))


def test_modes_see_every_operation() -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    loader = sluicegate.DataLoader([(torch.randn(128, SIDE), 1)] * 2, batch_size=2)
    with operations() as seen:
        next(iter(loader))
    assert seen
    with FakeTensorMode(allow_non_fake_inputs=True):
        numbers = collate_of(_core.Engine(0, 4))([1, 2])
    assert type(numbers) is FakeTensor
    with torch.device("meta"):
        numbers = collate_of(_core.Engine(0, 4))([1, 2])
    assert numbers.device.type == "meta"
    with torch.inference_mode():
        ours, theirs = next(iter(loader)), next(iter(torch.utils.data.DataLoader(loader.dataset, batch_size=2)))
        assert [t.is_inference() for t in ours] == [t.is_inference() for t in theirs]


@pytest.mark.parametrize("code", "?bBhHiIlLqQefdgFDGSUMmOV")
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (4, 5)])
def test_arrays_of_every_data_type(code: str, shape: tuple[int, ...]) -> None:
    dtype = numpy.dtype("V8") if code == "V" else numpy.dtype("M8[s]" if code == "M" else code)
    samples = [numpy.zeros(shape, dtype), numpy.ones(shape, dtype) if code in "?bBhHiIlLqefdFD" else None]
    samples = [each for each in samples if each is not None] * 2
    outcomes_agree(samples)
    if code in "?bBhHiIlLqefdFD":
        assert taken(samples)


ARRAYS: dict[str, tuple[Callable[[numpy.ndarray], numpy.ndarray], bool]] = {
    "plain": (lambda a: a, True),
    "fortran": (numpy.asfortranarray, True),
    "transposed": (lambda a: a.T, True),
    "every other": (lambda a: a[:, ::2], True),
    "negative strides": (lambda a: a[::-1], False),
    "broadcast": (lambda a: numpy.broadcast_to(a[0], a.shape), True),
    "empty": (lambda a: a[:0], True),
    "scalar array": (lambda a: a[0, 0, ...].sum().reshape(()), True),
    "other byte order": (lambda a: a.astype(a.dtype.newbyteorder()), False),
    "unaligned": (lambda a: numpy.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape), False),
    "field of records": (lambda a: numpy.zeros(a.shape, [("a", "u1"), ("b", a.dtype)])["b"], False),
    "subclass": (lambda a: a.view(numpy.recarray), False),
    "masked": (lambda a: numpy.ma.masked_array(a, a > 0), False),
    "matrix": (lambda a: numpy.asmatrix(a[0]), False),
}


@pytest.mark.filterwarnings("ignore:.*matrix subclass.*", "ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_layout(name: str) -> None:
    layout, is_taken = ARRAYS[name]
    samples = [layout(numpy.random.default_rng(seed).integers(0, 99, (3, 4, 6), numpy.int32)) for seed in range(3)]
    assert taken(samples) == is_taken
    outcomes_agree(samples)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_read_only_and_mapped_arrays(tmp_path: Path) -> None:
    locked = numpy.arange(6.0)
    locked.flags.writeable = False
    assert taken([locked, locked])
    outcomes_agree([locked, locked])
    numpy.save(tmp_path / "rows.npy", numpy.arange(24.0).reshape(4, 6))
    rows = numpy.load(tmp_path / "rows.npy", mmap_mode="r")
    assert taken(list(rows))
    outcomes_agree(list(rows))


def test_unlike_arrays_are_for_torch() -> None:
    plain = numpy.arange(6.0)
    for other in (plain[:5], plain.astype("f4"), plain.reshape(2, 3), torch.ones(6), 1.0, [1.0], None):
        assert not taken([plain, other])
        outcomes_agree([plain, other])


class MyInt(int):
    pass


class MyFloat(float):
    pass


NUMBERS: list[tuple[list[Any], bool]] = [
    ([1, -2, 2**63 - 1, -(2**63)], True),
    ([1, 2**63], False),
    ([2**64], False),
    ([-(2**63) - 1], False),
    ([True, False], True),
    ([True, 2], False),
    ([2, True], False),
    ([1.5, -0.0, float("nan"), float("inf")], True),
    ([1.5, 2], False),
    ([2, 1.5], False),
    ([MyInt(1), MyInt(2)], False),
    ([1, MyInt(2)], False),
    ([MyFloat(1), MyFloat(2)], False),
    ([1.0, MyFloat(2)], False),
    ([1j, 2j], False),
    ([None, None], False),
    ([1, "a"], False),
    (["a", "b"], False),
    ([b"a", b"b"], False),
    ([numpy.float64(1), 1.0], False),
    ([1.0, numpy.float64(1)], False),
    ([numpy.float32(1), numpy.float64(1e300)], False),
    ([numpy.int32(1), numpy.int64(1)], False),
    ([numpy.datetime64("2020")], False),
    ([numpy.str_("a")], False),
    ([numpy.uint64(2**63)], False),
    ([numpy.longdouble(1)], False),
]


@pytest.mark.parametrize(("samples", "is_taken"), NUMBERS)
def test_numbers_stack_as_in_torch(samples: list[Any], is_taken: bool) -> None:
    assert taken(samples) == is_taken
    assert taken(tuple(samples)) == is_taken
    outcomes_agree(samples)


@pytest.mark.parametrize("kind", SCALARS)
def test_numpy_scalars(kind: type) -> None:
    dtype = numpy.dtype(kind)
    values = [0, 1] if dtype.kind == "b" else [0, 1, 99]
    if dtype.kind in "iu":
        values += [numpy.iinfo(dtype).min, numpy.iinfo(dtype).max]
    if dtype.kind in "fc":
        values += [-0.0, float("nan"), float("-inf"), 1.1, 6e-8]
    samples = [kind(value) for value in values]
    assert taken(samples)
    outcomes_agree(samples)


@pytest.mark.parametrize("samples", [[], (), {}, iter([1]), Items([1, 2]), "ab", None, 3])
def test_only_lists_and_tuples_are_taken(samples: Any) -> None:
    assert not taken(samples)


LEAVES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.randn(65, SIDE),
    "transposed": lambda: torch.randn(SIDE, 65).T,
    "small": lambda: torch.randn(3),
    "array": lambda: numpy.random.default_rng(0).random((2, 3)).astype("f4"),
    "int": lambda: int(torch.randint(99, ())),
    "float": lambda: float(torch.randn(())),
    "bool": lambda: bool(torch.randint(2, ())),
    "scalar": lambda: numpy.float32(torch.randn(()).item()),
    "grad": lambda: torch.randn(65, SIDE).requires_grad_(),
    "string": lambda: "text",
    "none": lambda: None,
}

structures = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(lambda a: Tags(a=a), inner),
    ),
    max_leaves=6,
)


def sample_of(structure: Any) -> Any:
    if isinstance(structure, str):
        return LEAVES[structure]()
    if isinstance(structure, Point):
        return Point(*map(sample_of, structure))
    if isinstance(structure, dict):
        return type(structure)({key: sample_of(inner) for key, inner in structure.items()})
    return type(structure)(map(sample_of, structure))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(structures, min_size=1, max_size=2), st.integers(1, 3))
def test_random_structures(kinds: list[Any], copies: int) -> None:
    # Usually of one structure; samples of two do not match, and torch raises the error.
    outcomes_agree([sample_of(kind) for kind in kinds for _ in range(copies)])


class Endless(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for index in itertools.count():
            yield torch.full((128, SIDE), float(index)), numpy.full(3, index), index


def test_streams_are_stacked_too() -> None:
    loaders = (cls(Endless(), batch_size=3) for cls in (sluicegate.DataLoader, torch.utils.data.DataLoader))
    ours, theirs = (list(itertools.islice(loader, 3)) for loader in loaders)
    assert_same(ours, theirs)


def test_batches_are_memory_of_their_own() -> None:
    samples = [(torch.full((128, SIDE), float(index)), numpy.full(4, index), index) for index in range(6)]
    kept = list(sluicegate.DataLoader(samples, batch_size=2))
    for batch in kept:
        for field in batch:
            field.fill_(-1)
    for index, (tensor, array, _) in enumerate(samples):
        assert (tensor == index).all()
        assert (array == index).all()
    addresses = [field.data_ptr() for batch in kept for field in batch]
    assert len(set(addresses)) == len(addresses)
    again = list(sluicegate.DataLoader(samples, batch_size=2))
    assert all((field == -1).all() for batch in kept for field in batch)
    assert_same(again, list(torch.utils.data.DataLoader(samples, batch_size=2)))


def test_a_batch_outlives_its_samples_and_its_engine() -> None:
    engine = _core.Engine(0, 4)
    batch = engine.stack(KINDS, [numpy.full(100_000, index) for index in range(3)])
    del engine
    gc.collect()
    assert batch is not None
    assert batch[:, -1].tolist() == [0, 1, 2]


def test_stacking_reuses_memory() -> None:
    engine = _core.Engine(0, 4)
    collate = collate_of(engine)
    samples = [(numpy.zeros(100_000), index) for index in range(4)]
    collate(samples)
    mapped = engine.mapped_bytes
    for _ in range(50):
        collate(samples)
    assert engine.mapped_bytes == mapped


def test_references_are_given_back() -> None:
    import sys

    array, tensor = numpy.zeros(70_000), torch.zeros(128, SIDE)
    before = sys.getrefcount(array), sys.getrefcount(tensor)
    for other in (array, numpy.zeros(3), 1):
        for _ in range(5):
            _core.Engine(0, 4).stack(KINDS, [array, other])
            _core.Engine(0, 4).stack(KINDS, [tensor, other])
    _core.Engine(0, 4).stack(KINDS, [tensor, tensor])
    assert (sys.getrefcount(array), sys.getrefcount(tensor)) == before
    array.resize(80_000, refcheck=False)


def test_unequal_shapes_are_named() -> None:
    samples = [numpy.zeros(2), numpy.zeros(3)]
    with pytest.raises(RuntimeError, match=r"the sample at index 1 has shape \(3,\)"):
        list(sluicegate.DataLoader(samples, batch_size=2))


def test_a_sample_too_large_to_count_is_for_torch() -> None:
    endless = torch.zeros(1).expand(1 << 40)
    assert not taken([endless] * (1 << 10))


def test_a_changed_map_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.collate import default_collate_fn_map

    iterator = iter(sluicegate.DataLoader([1, 2, 3, 4], batch_size=2))
    assert_same(next(iterator), torch.tensor([1, 2]))
    monkeypatch.setitem(default_collate_fn_map, int, lambda samples, *, collate_fn_map=None: sum(samples))
    assert next(iterator) == 7


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    "dataset", [[1, 2], torch.utils.data.TensorDataset(torch.tensor([1, 2]))], ids=["list", "tensor"]
)
@pytest.mark.parametrize("name", ["default_collate", "collate"])
def test_a_function_in_place_of_torchs_default_is_called(
    data: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, dataset: Any, num_workers: int
) -> None:
    from torch.utils.data._utils import collate

    plain = getattr(collate, name)
    monkeypatch.setattr(collate, name, lambda samples, **named: ["changed", plain(samples, **named)])
    (batch,) = data.DataLoader(dataset, batch_size=2, num_workers=num_workers)
    assert batch[0] == "changed"
