"""`BatchSampler` in seed mode: positions and states."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from checks.orders import whole
from sluicegate import BatchSampler, BlockShuffleSampler, MixtureSampler, RandomSampler


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 5000, 9999])
def test_batches_of_positions_are_those_of_iteration(batch_size: int, drop_last: bool) -> None:
    sampler = BatchSampler(RandomSampler(range(5000), seed=7), batch_size, drop_last)
    sampler.set_epoch(2)
    batches = list(sampler)
    assert len(batches) == len(sampler) == len(sampler.batches(2))
    assert batches == list(torch.utils.data.BatchSampler(whole(sampler.sampler.order(2)), batch_size, drop_last))
    for position in {0, len(batches) // 2, len(batches) - 1} if batches else ():
        assert sampler.index_at(position).tolist() == sampler.batch_at(position).tolist()
        found = sampler.batch_at(position)
        assert found.dtype == np.int64
        assert found.tolist() == batches[position]
    with pytest.raises(IndexError, match="batch"):
        sampler.batch_at(len(batches))
    iterator = iter(sampler)
    read = [next(iterator) for _ in range(len(batches) // 2)]
    resumed = BatchSampler(RandomSampler(range(5000)), batch_size, drop_last, seed=7)
    resumed.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert read + list(resumed) == batches


def test_batches_of_a_foreign_sampler_have_no_positions() -> None:
    with pytest.raises(
        ValueError, match=r"sampler: with seed=, expected one of sluicegate's index samplers, but got range"
    ):
        BatchSampler(range(5), 2, False, seed=7).batch_at(0)


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: BlockShuffleSampler(range(100), block=4, window=3),
        lambda: MixtureSampler([60, 40], [0.7, 0.3], num_samples=80),
    ],
    ids=["blocks", "mixture"],
)
def test_a_resumed_batch_sampler_keeps_the_seed_that_was_drawn(sampler: Any) -> None:
    batches = BatchSampler(sampler(), 6, drop_last=False)
    iterator = iter(batches)
    read = [next(iterator) for _ in range(5)]
    state = json.loads(json.dumps(batches.state_dict()))
    assert state["drawn_seed"] is not None
    rest = list(iterator)
    resumed = BatchSampler(sampler(), 6, drop_last=False)
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert list(resumed) != read + rest, "the next pass draws again"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: BatchSampler(RandomSampler(range(50), seed=8), 4, False), "with seed=8, but got one with seed=7"),
        (lambda: BatchSampler(RandomSampler(range(50)), 4, False, seed=8), "with seed=8, but got one with seed=7"),
        (lambda: BatchSampler(RandomSampler(range(51), seed=7), 4, False), "expected the state of this BatchSampler"),
        (lambda: BatchSampler(RandomSampler(range(50), seed=7), 5, False), "expected the state of this BatchSampler"),
        (lambda: BatchSampler(RandomSampler(range(50), seed=7), 4, True), "expected the state of this BatchSampler"),
    ],
)
def test_a_state_of_other_batches_is_refused(other: Any, words: str) -> None:
    sampler = BatchSampler(RandomSampler(range(50), seed=7), 4, False)
    next(iter(sampler))
    state = sampler.state_dict()
    refusing = other()
    with pytest.raises(ValueError, match=words):
        refusing.load_state_dict(state)
    assert refusing.next_yielded is None
    # As in states of older versions, which lack it.
    refusing.load_state_dict({name: state[name] for name in ("epoch", "yielded")})
    assert refusing.next_yielded == 1


def test_batches_of_any_iterable_resume() -> None:
    sampler = BatchSampler([4, 2, 0, 1, 3], 2, False)
    next(iter(sampler))
    resumed = BatchSampler([4, 2, 0, 1, 3], 2, False)
    resumed.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert list(resumed) == [[0, 1], [3]]
