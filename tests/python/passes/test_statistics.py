"""`statistics` against exact fractions: the same bits however samples are divided, and wherever a pass is killed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate
from checks.programs import exit_code
from sluicegate import DataLoader, FieldStatistics, IterableDataset, StackDataset, TensorDataset, statistics
from sluicegate.system.exclusive_lock import ExclusiveLock
from sluicegate.system.record_file import RecordFile

MODULE = sys.modules["sluicegate.passes.statistics"]

DTYPES = {
    torch.bool,
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


def nearest_root(square: Fraction) -> float:
    """Return the float nearest to the root of `square`."""
    scale = 2**1200
    guess = float(Fraction(math.isqrt(int(square * scale**2)), scale))
    near = [math.nextafter(guess, 0), guess, math.nextafter(guess, math.inf)]
    # The root is below the midpoint of two floats if the square is below the midpoint's square.
    for low, high in itertools.pairwise(near):
        if square < ((Fraction(low) + Fraction(high)) / 2) ** 2:
            return low
    return near[-1]


def expected(values: Any) -> FieldStatistics:
    """Return the statistics by definition, in fractions."""
    elements = [Fraction(value) for value in values if value == value]
    count = len(elements)
    if not count:
        return FieldStatistics(0, len(values), *[math.nan] * 4)
    mean = sum(elements) / count
    square = sum((each - mean) ** 2 for each in elements) / count
    return FieldStatistics(
        count=count,
        missing=len(values) - count,
        mean=float(mean),
        std=nearest_root(square),
        min=float(min(elements)),
        max=float(max(elements)),
    )


def flat(tensor: torch.Tensor) -> list[Any]:
    return (tensor.double() if tensor.dtype.is_floating_point else tensor).flatten().tolist()


def numbers(dtype: torch.dtype, size: tuple[int, ...] = (37, 5)) -> torch.Tensor:
    """Return numbers of all magnitudes of `dtype`, including its extremes."""
    generator = torch.Generator().manual_seed(7)
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) < 0.3
    if dtype.is_floating_point:
        exponents = torch.rand(size, generator=generator, dtype=torch.float64) * 30 - 20
        values = (torch.randn(size, generator=generator, dtype=torch.float64) * 2**exponents).to(dtype)
        limits = torch.finfo(dtype)
        values.view(-1)[3:7] = torch.tensor([limits.max, limits.min, limits.smallest_normal, math.nan], dtype=dtype)
        return values
    limits = torch.iinfo(dtype)
    values = torch.from_numpy(
        np.random.default_rng(7).integers(limits.min, limits.max, size, str(dtype)[6:], endpoint=True)
    )
    values[0, 0], values[0, 1] = limits.min, limits.max
    return values


@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
def test_statistics_are_exact(dtype: torch.dtype) -> None:
    values = numbers(dtype)
    assert statistics(values) == expected(flat(values))
    # With a different memory layout, and with a different order of the values.
    assert statistics(values.t()) == expected(flat(values))
    assert statistics(iter([values[:, ::2], values[:, 1::2]])) == expected(flat(values))
    if dtype is not torch.bfloat16:
        array = values.numpy()
        assert statistics(iter([array.astype(array.dtype.newbyteorder(">"))])) == expected(flat(values))


def test_sums_that_cancel_are_exact() -> None:
    values = np.array([1e300, 1.0, -1e300, 1e-300, 3.0, -1e-300, 2.0**-1074], np.float64)
    found = statistics(values)
    assert found == expected(values.tolist())
    assert found.mean == 4 / 7
    # With a large mean, the mean of squares minus the square of the mean would be 0 or negative.
    values = 1e9 + np.arange(4) * 2.0**-20
    assert statistics(values).std == expected(values.tolist()).std > 0
    assert np.std(values - 1e9) == pytest.approx(statistics(values).std, rel=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 3, 37])
def test_neither_threads_nor_batches_change_a_bit(threads: int, batch_size: int) -> None:
    dataset = StackDataset(x=numbers(torch.float32), y=numbers(torch.int64))
    found = statistics(DataLoader(dataset, batch_size=batch_size), threads=threads)
    assert found == {"x": expected(flat(dataset[:]["x"])), "y": expected(flat(dataset[:]["y"]))}
    assert list(found) == ["x", "y"]
    shuffled = DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=2)
    assert statistics(shuffled, threads=threads) == found
    assert statistics(dataset, num_workers=2, threads=threads) == found


def test_fields_have_names_or_are_alone() -> None:
    x, y = torch.arange(4.0), torch.tensor([1, 2, 2, 3])
    assert list(statistics(TensorDataset(x, y))) == ["0", "1"]
    assert statistics(StackDataset(x=x, y=y), fields=["y"]) == {"y": expected(y.tolist())}
    assert statistics(StackDataset(x=x, y=y), fields="y") == expected(y.tolist())
    assert statistics(x) == expected(x.tolist())


def test_nan_is_missing() -> None:
    array = np.array([[1.0, math.nan], [math.nan, 4.0]], np.float32)
    assert statistics(array) == FieldStatistics(count=2, missing=2, mean=2.5, std=1.5, min=1.0, max=4.0)
    found = statistics(np.full((3, 2), math.nan))
    assert (found.count, found.missing) == (0, 6)
    assert all(math.isnan(getattr(found, name)) for name in ("mean", "std", "min", "max"))
    found = statistics(np.array([1.0, math.inf]))
    assert (found.mean, found.min, found.max) == (math.inf, 1.0, math.inf)
    assert math.isnan(found.std)


def test_overlapping_windows_count_twice() -> None:
    # The example of the docstring.
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2).copy()
    assert statistics(windows).mean == 1.5
    assert statistics(windows).count == 6


def test_values_are_those_of_xarray_that_skips_nan(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20, 6, 5)).astype(np.float32) * 10 + 280
    values[rng.random(values.shape) < 0.1] = np.nan
    data = xarray.Dataset({"t2m": (["time", "y", "x"], values)})
    data["packed"] = data["t2m"].fillna(280)
    data["packed"].encoding = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -1}
    data.to_zarr(tmp_path / "store", zarr_format=3, consolidated=False)
    found = statistics(sluicegate.ZarrDataset(tmp_path / "store", ["t2m", "packed"]), num_workers=2)
    read = xarray.open_zarr(tmp_path / "store", chunks=None, consolidated=False)
    for name, field in found.items():
        assert field == expected(read[name].values.astype(float).ravel().tolist())
        assert field.mean == pytest.approx(float(read[name].astype(float).mean()))
        assert field.std == pytest.approx(float(read[name].astype(float).std()))
        assert field.min == float(read[name].min())
        assert field.count == int(read[name].count())


def test_normalized_values_have_mean_0_and_deviation_1() -> None:
    values = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 5 + 7
    field = statistics(values)
    normal = field.normalize(values)
    assert normal.dtype == torch.float32
    assert statistics(normal).mean == pytest.approx(0, abs=1e-6)
    assert statistics(normal).std == pytest.approx(1)
    torch.testing.assert_close(field.denormalize(normal), values)
    np.testing.assert_array_equal(field.normalize(values.numpy()), normal.numpy())
    constant = statistics(torch.full((3,), 2.0))
    assert constant.normalize(torch.tensor([2.0])).item() == 0
    assert constant.denormalize(torch.tensor([0.0])).item() == 2
    assert FieldStatistics(**json.loads(json.dumps(dataclasses.asdict(field)))) == field


class Rows:
    """Kills its process at a sample, once the progress is in the file."""

    def __init__(self, values: torch.Tensor, killed_at: int | None = None) -> None:
        self.values = values
        self.killed_at = killed_at
        self.reads = [0] * len(values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> torch.Tensor:
        self.reads[index] += 1
        if index == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.values[index]


def count_and_die(path: Path, killed_at: int) -> None:
    MODULE._INTERVAL = 0
    statistics(Rows(numbers(torch.float64, (1000, 3)), killed_at), state=path)


@pytest.mark.parametrize("killed_at", [0, 1, 700, 999])
def test_a_killed_pass_resumes_and_counts_each_sample_once(tmp_path: Path, killed_at: int) -> None:
    path = tmp_path / "state.json"
    assert exit_code(count_and_die, path, killed_at) == -signal.SIGKILL
    found = RecordFile(str(path)).read()
    # Batches have 1, 256, 256, 256, and 231 samples; of those read, at most the last two are not in the file yet.
    begun = 0 if found is None else found["samples"]
    assert begun >= {0: 0, 1: 1, 700: 257, 999: 513}[killed_at]
    assert begun <= killed_at
    values = numbers(torch.float64, (1000, 3))
    rows = Rows(values)
    assert statistics(rows, state=path) == expected(flat(values))
    assert rows.reads == [0] * begun + [1] * (1000 - begun)
    # Counted samples are not read again.
    assert statistics(rows, state=path) == expected(flat(values))
    assert sum(rows.reads) == 1000 - begun
    statistics(DataLoader(rows, batch_size=9), state=tmp_path / "other")
    assert statistics(Interrupted(values, 0), state=path.with_name("other")) == expected(flat(values))
    (tmp_path / "other").unlink()
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


class Interrupted(IterableDataset[Any]):
    def __init__(self, values: torch.Tensor, stop: int) -> None:
        self.values = values
        self.stop = stop

    def __iter__(self) -> Iterator[Any]:
        for index, value in enumerate(self.values):
            if index == self.stop:
                raise ZeroDivisionError
            yield {"x": value}


@pytest.mark.parametrize("kind", ["stream", "iterable", "function"])
@pytest.mark.parametrize("stop", [0, 63, 64, 300, 399])
def test_interrupted_anywhere_it_counts_each_sample_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, stop: int
) -> None:
    monkeypatch.setattr(MODULE, "_INTERVAL", 0)
    values = numbers(torch.float32, (400, 2))

    def dataset(stop: int) -> Any:
        if kind == "stream":
            return Interrupted(values, stop)
        if kind == "iterable":
            return DataLoader(Interrupted(values, stop), batch_size=7)
        return lambda start: DataLoader(Interrupted(values[start:], stop - start), batch_size=7)

    with pytest.raises(ZeroDivisionError):
        statistics(dataset(stop), state=tmp_path / "state", threads=3)
    assert statistics(dataset(-1), state=tmp_path / "state") == {"x": expected(flat(values))}


def test_a_state_of_other_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    x = torch.arange(5.0)
    statistics(x, state=path)
    with pytest.raises(ValueError, match=r"state: .*' was written with length=5, but got 6; .*remove the file"):
        statistics(torch.arange(6.0), state=path)
    with pytest.raises(ValueError, match=r"state: .* was written with fields=None, but got 'y'"):
        statistics(x, fields="y", state=path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-9], whole.replace(b'"samples": 5', b'"samples": 4'), b"{}"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"state: .*is damaged; remove the file"):
            statistics(x, state=path)
    record = json.loads(whole)
    del record["digest"]
    for name, value in (("version", 2), ("moments", {"data": "00"}), ("moments", {"data": "x"})):
        RecordFile(str(path)).write({**record, name: value})
        with pytest.raises(ValueError, match=r"state: .*remove the file"):
            statistics(x, state=path)
    path.unlink()
    assert statistics(x, state=path).count == 5


def test_a_state_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        ExclusiveLock(f"{tmp_path / 'state'}.lock", "uses it", "state"),
        pytest.raises(RuntimeError, match=r"uses the state .*; wait for it, or pass a different state"),
    ):
        statistics(torch.arange(3), state=tmp_path / "state")


def test_a_lock_whose_file_was_removed_is_released(tmp_path: Path) -> None:
    lock = ExclusiveLock(str(tmp_path / "state.lock"), "uses it", "state")
    with lock:
        (tmp_path / "state.lock").unlink()
    assert lock.descriptor is None


@pytest.mark.parametrize(
    ("dataset", "error", "words"),
    [
        ([], ValueError, "dataset: expected at least one sample"),
        (iter([]), ValueError, "dataset: expected at least one sample"),
        (np.array([1 + 2j]), TypeError, "field 'data': expected real numbers, but got complex128"),
        (torch.zeros(2, dtype=torch.complex64), TypeError, "field 'data': expected real numbers, but got complex64"),
        (
            iter([{"x": torch.zeros(2)}, {"y": torch.zeros(2)}]),
            ValueError,
            r"expected the fields \['x'\] in each batch",
        ),
        (["a"], TypeError, "field '0'|field 'data'"),
    ],
)
def test_fields_that_can_not_be_summed_are_named(dataset: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        statistics(dataset)


def test_invalid_threads_and_states_are_refused() -> None:
    with pytest.raises(ValueError, match="threads should be 1 or more"):
        statistics([1], threads=0)
    with pytest.raises(ValueError, match="only local files are read"):
        statistics([1], state="s3://bucket/state")
