"""`DistributedSampler`: positions in seed mode, and its state."""

from __future__ import annotations

import pytest
import torch

import sluicegate
from checks.orders import whole
from sluicegate import DistributedSampler, RandomSampler


def test_its_type_of_indices_can_be_given_as_with_torch() -> None:
    class Own(DistributedSampler[int]):
        pass

    assert list(Own(range(6), num_replicas=2, rank=1, shuffle=False)) == [1, 3, 5]


def test_ranks_share_the_order_of_the_loaders_seed() -> None:
    whole_order = whole(RandomSampler(range(103)).order(4, 7))
    for rank in range(4):
        padded = DistributedSampler(range(103), 4, rank).order(4, 7)
        assert whole(padded) == (whole_order + whole_order)[rank:104:4]
        dropped = DistributedSampler(range(103), 4, rank, drop_last=True).order(4, 7)
        assert whole(dropped) == whole_order[rank:100:4]
        plain = DistributedSampler(range(103), 4, rank, shuffle=False)
        assert whole(plain.order(0)) == list(plain)
    with pytest.raises(ValueError, match="pass seed= to the sampler or to the loader"):
        DistributedSampler(range(3), 2, 0).order(0)


def test_a_stateful_distributed_sampler_has_the_words_of_torchdatas() -> None:
    sampler = DistributedSampler(range(100), num_replicas=3, rank=1)
    assert (sampler.num_replicas, sampler.rank, sampler.shuffle, sampler.seed, sampler.drop_last) == (
        3,
        1,
        True,
        0,
        False,
    )
    expected = list(sampler)
    assert sampler.state_dict()["yielded"] == 34
    sampler.load_state_dict({"yielded": 5})
    assert sampler.next_yielded == 5
    iterator = iter(sampler)
    assert next(iterator) == expected[5]
    assert sampler.yielded == 6
    assert list(iterator) == expected[6:]
    assert list(sampler) == expected
    for bad in ({"yielded": -1}, {}, {"yielded": None}):
        with pytest.raises(ValueError, match="yielded"):
            sampler.load_state_dict(bad)


@pytest.mark.parametrize("shuffle", [False, True])
def test_positions_of_torchs_order(shuffle: bool) -> None:
    sampler = sluicegate.DistributedSampler(range(23), 3, 1, shuffle=shuffle, seed=5)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        order = list(torch.utils.data.DistributedSampler.__iter__(sampler))
        assert [sampler.index_at(position) for position in range(len(sampler))] == order == list(sampler)
    for position in (-1, len(sampler)):
        with pytest.raises(IndexError, match="0 <= position < 8"):
            sampler.index_at(position)
