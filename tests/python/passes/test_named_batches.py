"""`NamedBatches`: the same samples by name, for every kind of dataset, starting at any sample."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate import DataLoader, IterableDataset, StackDataset, TensorDataset
from sluicegate.passes import named_batches
from sluicegate.passes.named_batches import NamedBatches, sample_count

X = torch.arange(700.0).reshape(350, 2)
Y = torch.arange(350)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return ({"x": X[index], "y": Y[index]} for index in range(350))


class Rows:
    """Counts how often each row was read."""

    def __init__(self, shape: tuple[int, ...] = (2,)) -> None:
        self.reads = [0] * 350
        self.shape = shape

    def __len__(self) -> int:
        return 350

    def __getitem__(self, index: int) -> torch.Tensor:
        self.reads[index] += 1
        return torch.full(self.shape, float(index))


def by_batch(start: int) -> Iterator[Any]:
    return ({"x": X[first : first + 9], "y": Y[first : first + 9]} for first in range(start, 350, 9))


DATASETS = {
    "map-style": lambda: StackDataset(x=X, y=Y),
    "stream": Stream,
    "loader": lambda: DataLoader(StackDataset(x=X, y=Y), batch_size=100),
    "generator": lambda: by_batch(0),
    "list of batches in an iterator": lambda: iter([{"x": X.numpy(), "y": Y.numpy()}]),
    "function": lambda: by_batch,
}


def joined(batches: Iterator[dict[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for batch in batches:
        for name, array in batch.items():
            found.setdefault(name, []).extend(array.tolist())
    return found


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("start", [0, 1, 9, 99, 100, 349])
def test_samples_come_in_order_from_any_on(kind: str, start: int) -> None:
    batches = NamedBatches(DATASETS[kind]())
    assert batches.length == (350 if kind == "map-style" else None)
    assert joined(batches.starting_at(start)) == {"x": X[start:].tolist(), "y": Y[start:].tolist()}
    assert not batches.is_one_array


@pytest.mark.parametrize("kind", DATASETS)
def test_after_the_last_sample_there_is_nothing(kind: str) -> None:
    assert list(NamedBatches(DATASETS[kind]()).starting_at(350)) == []
    if kind != "function":
        with pytest.raises(ValueError, match="expected the 351 samples that were read before, but got 350"):
            list(NamedBatches(DATASETS[kind]()).starting_at(351))


def test_each_sample_is_read_once_and_none_before_the_first() -> None:
    rows = Rows()
    assert sum(map(sample_count, NamedBatches(rows).starting_at(120))) == 230
    assert rows.reads == [0] * 120 + [1] * 230


def test_batches_are_as_large_as_the_samples_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_batches, "_BATCH_BYTES", 4000)
    sizes = [sample_count(batch) for batch in NamedBatches(Rows((100,))).starting_at(0)]
    assert sizes == [1, *[10] * 34, 9]
    assert max(map(sample_count, NamedBatches(Rows((2000,))).starting_at(0))) == 1
    assert max(map(sample_count, NamedBatches(Rows((1,))).starting_at(0))) == 256


Pair = namedtuple("Pair", ["first", "second"])


@pytest.mark.parametrize(
    ("dataset", "fields", "expected"),
    [
        (TensorDataset(X, Y), None, {"0": X, "1": Y}),
        (TensorDataset(X, Y), ["image", "label"], {"image": X, "label": Y}),
        (iter([Pair(X, Y)]), None, {"0": X, "1": Y}),
        (X, None, {"data": X}),
        (X.numpy(), "t2m", {"t2m": X}),
        (StackDataset(x=X, y=Y), "y", {"y": Y}),
        (StackDataset(x=X, y=Y), ["y", "x"], {"y": Y, "x": X}),
        ([1, 2, 3], None, {"data": torch.tensor([1, 2, 3])}),
    ],
)
def test_fields_are_named(dataset: Any, fields: Any, expected: dict[str, torch.Tensor]) -> None:
    batches = NamedBatches(dataset, fields)
    found = joined(batches.starting_at(0))
    assert found == {name: values.tolist() for name, values in expected.items()}
    assert list(found) == list(expected)
    assert batches.is_one_array == (isinstance(fields, str) or "data" in expected)


def test_an_array_without_a_length_has_one() -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array({}, shape=(5, 2), dtype="int16")
    array[:] = np.arange(10).reshape(5, 2)
    batches = NamedBatches(array)
    assert batches.length == 5
    assert joined(batches.starting_at(2)) == {"data": [[4, 5], [6, 7], [8, 9]]}


@pytest.mark.parametrize(
    ("dataset", "fields", "error", "words"),
    [
        ({"x": X}, None, TypeError, r"dataset: .* got the dict \['x'\]; pass StackDataset"),
        (3, None, TypeError, "dataset: expected a dataset, an iterable of batches, or a function, but got int"),
        (StackDataset(x=X), ["z"], ValueError, r"fields: expected names among \['x'\], but got \['z'\]"),
        (TensorDataset(X, Y), ["x"], ValueError, r"fields: expected 2 names, one for each element, but got \['x'\]"),
        (X, ["x", "y"], ValueError, r"fields: expected 1 names"),
        ([{"name": "a"}], None, TypeError, "field 'name': .* got list; name other fields in fields="),
        (iter([{"x": {"y": X}}]), None, TypeError, "field 'x': .* got dict"),
        (iter([{"x": np.array(["a"])}]), None, TypeError, "field 'x': .* got an array of <U1"),
        (iter([{"x": torch.tensor(1)}]), None, TypeError, "field 'x': .* got a number"),
        (iter([{"x": X, "y": Y[:3]}]), None, ValueError, "dataset: expected the same number of samples in each field"),
        (iter([{}]), None, ValueError, "dataset: expected at least one field"),
    ],
)
def test_items_that_are_not_batches_of_arrays_are_named(
    dataset: Any, fields: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        list(NamedBatches(dataset, fields).starting_at(0))
