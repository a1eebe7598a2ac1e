"""Samplers with a seed: positions, epochs, states."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from checks.orders import whole
from sluicegate.sampler import (
    BlockShuffleSampler,
    MixtureSampler,
    RandomSampler,
    RepeatSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

WEIGHTS = [0.1, 3.0, 0.0, 2.0, 0.7] * 60
SEEDED: dict[str, Any] = {
    "sequential": lambda seed: SequentialSampler(range(5000), seed=seed),
    "random": lambda seed: RandomSampler(range(5000), seed=seed),
    "more": lambda seed: RandomSampler(range(300), num_samples=1000, seed=seed),
    "replacement": lambda seed: RandomSampler(range(300), True, 1000, seed=seed),
    "subset": lambda seed: SubsetRandomSampler(range(900, 0, -3), seed=seed),
    "weighted": lambda seed: WeightedRandomSampler(WEIGHTS, 500, seed=seed),
    "weighted once": lambda seed: WeightedRandomSampler(WEIGHTS, 200, False, seed=seed),
    "blocks": lambda seed: BlockShuffleSampler(range(1001), 10, 7, seed=seed),
    "repeat": lambda seed: RepeatSampler(RandomSampler(range(300)), 3, seed=seed),
    "interleaved": lambda seed: RepeatSampler(
        RandomSampler(range(300), seed=seed), 3, interleaved=True, num_samples=500
    ),
    "mixture": lambda seed: MixtureSampler([300, 20, 1000], [1.0, 1.0, 5.0], seed=seed),
}
RANDOM = [name for name in SEEDED if name != "sequential"]


@pytest.fixture(params=SEEDED)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_iteration_positions_and_orders_agree(name: str) -> None:
    sampler = SEEDED[name](7)
    for epoch in (0, 3):
        sampler.set_epoch(epoch)
        read = list(sampler)
        assert all(type(index) is int for index in read)
        assert len(read) == len(sampler)
        assert whole(sampler.order(epoch)) == read
        places = [0, 1, len(read) // 2, len(read) - 1]
        assert [sampler.index_at(place) for place in places] == [read[place] for place in places]
        with pytest.raises(IndexError, match=f"position {len(read)}"):
            sampler.index_at(len(read))


@pytest.mark.parametrize("name", RANDOM)
def test_orders_belong_to_seed_and_epoch(name: str) -> None:
    sampler = SEEDED[name](7)
    assert list(sampler) == list(sampler) == list(SEEDED[name](7)), "an epoch does not advance by itself"
    orders = [whole(SEEDED[name](seed).order(epoch)) for seed in (7, 8, 2**64 - 1, 0) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == len(orders)


@pytest.mark.parametrize("name", RANDOM)
def test_the_loaders_seed_counts_where_there_is_no_own(name: str) -> None:
    without, own = SEEDED[name](None), SEEDED[name](7)
    expected = whole(own.order(2))
    assert whole(without.order(2, 7)) == expected
    assert whole(without.order(2, 8)) != expected
    assert whole(without.order(2, 7)) == expected
    assert whole(own.order(2, 8)) == expected
    with pytest.raises(ValueError, match="pass seed= to the sampler or to the loader"):
        without.order(0)
    with pytest.raises(ValueError, match="pass seed= to the sampler or to the loader"):
        without.index_at(0)


def test_global_generators_are_left_alone(name: str) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    list(SEEDED[name](7))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("read", [0, 1, 137])
def test_a_state_is_json_and_resumes_where_it_was_taken(name: str, read: int) -> None:
    sampler = SEEDED[name](7)
    sampler.set_epoch(5)
    iterator = iter(sampler)
    for _ in range(read):
        next(iterator)
    state = json.loads(json.dumps(sampler.state_dict()))
    assert (state["epoch"], state["yielded"]) == (5, read)
    other = SEEDED[name](7)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert list(other) == list(iterator)
    assert len(list(other)) == len(other), "a state is used once"
    iter(other)
    assert (other.state_dict()["epoch"], other.state_dict()["yielded"]) == (5, 0)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_samplers_can_be_copied_and_pickled(name: str, copied: Any) -> None:
    sampler = SEEDED[name](7)
    expected = [list(sampler), sampler.index_at(3)]
    twin = copied(sampler)
    assert [list(twin), twin.index_at(3)] == expected


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "7"])
def test_seeds_have_64_bits(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed should be an integer from 0"):
        RandomSampler(range(3), seed=seed)
    with pytest.raises(ValueError, match="seed should be an integer from 0"):
        RandomSampler(range(3)).order(0, seed)


def test_the_length_of_the_data_source_is_read_when_an_epoch_begins() -> None:
    samples = [0] * 10
    for sampler in (
        RandomSampler(samples, seed=7),
        SequentialSampler(samples),
        BlockShuffleSampler(samples, 3, 2, seed=7),
    ):
        del samples[10:]
        assert sorted(sampler) == list(range(10))
        samples += [0] * 5
        assert sorted(sampler) == list(range(15))
        assert len(sampler.order(0)) == len(sampler) == 15


def test_orders_of_any_length_take_no_time() -> None:
    sampler = RandomSampler(range(10**15), seed=7)
    assert 0 <= sampler.index_at(10**15 - 1) < 10**15
    assert next(iter(sampler)) == sampler.index_at(0)


def test_a_subset_sampler_accepts_only_flat_sequences_of_integers() -> None:
    expected = list(SubsetRandomSampler([5, 9, 2**40], seed=7))
    assert sorted(expected) == [5, 9, 2**40]
    indices: Any
    for indices in (
        np.array([5, 9, 2**40]),
        torch.tensor([5, 9, 2**40]),
        torch.tensor([5, 9, 2**40, 5]).as_strided((3,), (1,)),
    ):
        assert list(SubsetRandomSampler(indices, seed=7)) == expected
    assert list(SubsetRandomSampler([], seed=7)) == []
    with pytest.raises(ValueError, match="-1 is negative"):
        list(SubsetRandomSampler([3, -1], seed=7))
    with pytest.raises(ValueError, match="flat sequence of integers"):
        list(SubsetRandomSampler([0.5], seed=7))  # type: ignore[list-item]


@pytest.mark.parametrize(("block", "window"), [(0, 1), (1, 0), (True, 1), (1.5, 1)])
def test_blocks_and_windows_are_positive(block: Any, window: Any) -> None:
    with pytest.raises(ValueError, match="should be a positive integer value"):
        BlockShuffleSampler(range(3), block, window)
