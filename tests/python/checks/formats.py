"""Checks that every format passes with torch's loader and ours: it is a map-style dataset like any other."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same
from sluicegate.recognition.native_source import native_source


def check_format(dataset: Any, samples: list[Any]) -> None:
    """Assert that `dataset` has these samples, alone and in batches, with every way of reading it.

    Args:
        dataset: a native dataset of at least five samples.
        samples: the expected `dataset[i]`.
    """
    assert native_source(dataset, in_worker=False) is not None, "the core does not read it"
    _is_a_list(dataset, samples)
    _is_a_list(pickle.loads(pickle.dumps(dataset)), samples)
    _batches_are_torchs(dataset, samples)
    _combines(dataset, samples)
    _resumes(dataset)


def _is_a_list(dataset: Any, samples: list[Any]) -> None:
    length = len(samples)
    assert len(dataset) == length
    assert_same([dataset[index] for index in range(length)], samples)
    assert_same(dataset[np.int64(1)], samples[1])
    assert_same(dataset[-length], samples[0])
    order = [4, 0, -1, 4]
    assert_same(dataset.__getitems__(order), [samples[index] for index in order])
    for beyond in (length, -length - 1, 2**70):
        with pytest.raises(IndexError, match=f"index {beyond} is out of range"):
            dataset[beyond]
        with pytest.raises(IndexError, match=f"index {beyond} is out of range"):
            dataset.__getitems__([0, beyond])
    for wrong in (1.5, "a", None):
        with pytest.raises(TypeError, match="index: expected an integer"):
            dataset[wrong]


def _batches_are_torchs(dataset: Any, samples: list[Any]) -> None:
    """Assert that batches are equal with any number of workers, in torch's order and in ours."""
    expected = [dataset.collate([samples[index] for index in batch]) for batch in ([0, 1], [2, 3])]
    torch.manual_seed(3)
    order = [index for (index,) in torch.utils.data.DataLoader(range(len(dataset)), shuffle=True, collate_fn=list)]
    # Both kinds of worker read the dataset as it is; only our loader has threads.
    ours: list[dict[str, Any]] = [{}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}]
    torchs = [{"collate_fn": dataset.collate, "num_workers": num_workers} for num_workers in (0, 1)]
    for loader_cls, kinds in ((torch.utils.data.DataLoader, torchs), (sluicegate.DataLoader, ours)):
        for kind in kinds:
            batches = list(loader_cls(dataset, batch_size=2, **kind))
            assert_same(batches[:2], expected)
            torch.manual_seed(3)
            shuffled = next(iter(loader_cls(dataset, batch_size=2, shuffle=True, **kind)))
            assert_same(shuffled, dataset.collate([samples[index] for index in order[:2]]))
    # A Python dataset, in a worker process.
    in_python = torch.utils.data.Subset(Plain(dataset), [1, 2, 3])
    for num_workers in (0, 1):
        loader = sluicegate.DataLoader(in_python, batch_size=3, num_workers=num_workers, collate_fn=dataset.collate)
        assert_same(next(iter(loader)), dataset.collate(samples[1:4]))


class Plain(torch.utils.data.Dataset[Any]):
    """The same dataset as a Python dataset, so that it is read through its methods."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]


def _combines(dataset: Any, samples: list[Any]) -> None:
    subset = torch.utils.data.Subset(dataset, [3, 1])
    both = torch.utils.data.ConcatDataset([subset, dataset])
    stacked = torch.utils.data.StackDataset(left=both, right=both)
    assert native_source(stacked, in_worker=False) is not None
    (batch,) = sluicegate.DataLoader(stacked, batch_size=9, sampler=[0, 2, 1])
    expected = dataset.collate([samples[3], samples[0], samples[1]])
    assert_same(batch, {"left": expected, "right": expected})


def _resumes(dataset: Any) -> None:
    make: Callable[..., Any] = lambda **more: sluicegate.DataLoader(  # noqa: E731
        dataset, batch_size=2, shuffle=True, seed=7, **more
    )
    whole = list(make().with_ids())
    assert sorted(index for _, ids in whole for index in ids.sample_indices.tolist()) == list(range(len(dataset)))
    for stop in range(len(whole)):
        first = make(num_workers=2 * (stop % 2))
        iterator = iter(first)
        for _ in range(stop):
            next(iterator)
        state = first.state_dict()
        resumed = make(num_workers=2 - 2 * (stop % 2))
        resumed.load_state_dict(state)
        assert_same(list(resumed), [batch for batch, _ in whole[stop:]])
        del iterator
