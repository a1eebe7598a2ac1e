"""`BatchSampler` in seed mode: positions and states."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate import BatchSampler, RandomSampler


def whole(order: Any) -> list[int]:
    return np.frombuffer(order.indices(0, len(order)), np.int64).tolist()


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
    with pytest.raises(ValueError, match="positions of a range can't be computed"):
        BatchSampler(range(5), 2, False, seed=7).batch_at(0)
