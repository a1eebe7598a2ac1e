"""Errors of a batch: torch's type and text, with the sample, the sampler, and the shapes added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sluicegate import BatchSampler, ConcatDataset, DataLoader, Dataset, Subset, TensorDataset


class Ragged(Dataset[Any]):
    """Samples with lengths from a list."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.zeros(self.lengths[index])}


class Eleven:
    """A sampler for a larger dataset than the one it is used with."""

    def __iter__(self) -> Any:
        return iter([0, 11])

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (TensorDataset(torch.arange(10)), "index 11 is out of bounds for dimension 0 with size 10"),
        (np.arange(10), "index 11 is out of bounds for axis 0 with size 10"),
        (Subset(torch.arange(20), list(range(10))), "list index out of range"),
        (ConcatDataset([torch.arange(5), torch.arange(5)]), "list index out of range"),
    ],
    ids=["TensorDataset", "ndarray", "Subset", "ConcatDataset"],
)
def test_an_index_out_of_range_names_index_and_sampler(dataset: Any, words: str, num_workers: int) -> None:
    iterator = iter(DataLoader(dataset, sampler=Eleven(), num_workers=num_workers))
    assert len(next(iterator)) == 1
    with pytest.raises(IndexError, match=words) as caught:
        next(iterator)
    whose = f"index 11 came from Eleven, but the dataset, a {type(dataset).__name__}, has 10 samples"
    assert whose in str(caught.value)
    with pytest.raises(StopIteration):
        next(iterator)


def test_the_sampler_inside_a_batch_sampler_is_named() -> None:
    loader = DataLoader(list(range(10)), batch_sampler=BatchSampler(Eleven(), 2, False))
    with pytest.raises(IndexError, match="index 11 came from Eleven"):
        next(iter(loader))


def test_the_datasets_own_index_error_is_left_alone() -> None:
    class Broken(Ragged):
        def __getitem__(self, index: int) -> Any:
            raise IndexError("no such box")

    with pytest.raises(IndexError) as caught:
        next(iter(DataLoader(Broken([1, 2]))))
    assert str(caught.value) == "no such box"


def test_samples_of_unequal_shape_are_named_with_their_shapes() -> None:
    loader = DataLoader(Ragged([4, 4, 4, 7]), sampler=[2, 0, 3, 1], batch_size=4)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size") as caught:
        next(iter(loader))
    assert "the sample at index 2 has shapes {'x': (4,)}, the sample at index 3 has shapes {'x': (7,)}" in str(
        caught.value
    )


@pytest.mark.parametrize(("length", "shown"), [(998, f"{'x' * 998!r}"), (999, f"'{'x' * 999}...")])
def test_an_index_of_more_than_1000_characters_is_cut_in_the_note(length: int, shown: str) -> None:
    with pytest.raises(KeyError) as caught:
        next(iter(DataLoader({}, batch_size=None, sampler=["x" * length])))
    assert getattr(caught.value, "__notes__", []) == [f"raised by the sample at index {shown} of the dataset"]


def test_an_error_of_a_users_collate_is_left_alone() -> None:
    def collate(samples: list[Any]) -> Any:
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError) as caught:
        next(iter(DataLoader(Ragged([1, 2]), collate_fn=collate)))
    assert str(caught.value) == "not today"


def test_negative_indices_count_from_the_end() -> None:
    assert [batch.tolist() for batch in DataLoader(torch.arange(5), sampler=[-1, -5], batch_size=2)] == [[4, 0]]


def test_an_empty_dataset_has_no_batch() -> None:
    assert list(DataLoader(TensorDataset(torch.empty(0, 3)), batch_size=2)) == []
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        DataLoader(TensorDataset(torch.empty(0, 3)), shuffle=True)


def test_a_timeout_names_the_batches_that_threads_read() -> None:
    rows = torch.zeros(64, 1 << 20)
    loader = DataLoader(TensorDataset(rows), batch_size=64, num_workers=1, timeout=1e-4)  # type: ignore[arg-type]
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"timed out after 0\.0001 seconds: 1 threads were reading 1 batches"):
        next(iterator)
    iterator._timeout = 0
    assert next(iterator)[0].shape == (64, 1 << 20)
