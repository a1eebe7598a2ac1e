"""States that do not fit, are invalid, or come from a newer version."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import make, take
from doubles.stateful import GeneratorStream, Indices, IteratorSampler, PlainStream

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]


def saved(kind: str, stop: int = 2, num_workers: int = 0, **changes: Any) -> dict[str, Any]:
    loader = make(kind, num_workers, **changes)
    take(iter(loader), stop)
    state: dict[str, Any] = loader.state_dict()
    return state


MISMATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "length": ({"dataset": Indices(41)}, {"dataset": Indices(57)}, ["41", "57"]),
    "length in seed mode": (
        {"dataset": Indices(41), "seed": 3},
        {"dataset": Indices(57), "seed": 3},
        ["41", "57"],
    ),
    "batch_size": ({"batch_size": 5}, {"batch_size": 7}, ["5", "7", "batch_size"]),
    "batch_size and none": ({"batch_size": 5}, {"batch_size": None}, ["5", "None", "batch_size"]),
    "drop_last": ({"drop_last": True}, {"drop_last": False}, ["True", "False", "drop_last"]),
    "shuffle": ({"shuffle": True}, {"shuffle": False}, ["RandomSampler", "SequentialSampler"]),
    "shuffle in seed mode": (
        {"shuffle": True, "seed": 3},
        {"shuffle": False, "seed": 3},
        ["RandomSampler", "SequentialSampler"],
    ),
    "sampler": (
        {"shuffle": None, "sampler": IteratorSampler(11)},
        {"shuffle": None, "sampler": torch.utils.data.SubsetRandomSampler(range(11))},
        ["IteratorSampler", "SubsetRandomSampler"],
    ),
    "seed": ({"seed": 1234567}, {"seed": 7654321}, ["1234567", "7654321", "seed"]),
    "seed and none": ({"seed": 1234567}, {}, ["1234567", "None", "seed"]),
    "none and seed": ({}, {"seed": 1234567}, ["1234567", "None", "seed"]),
    "seed_samples": (
        {"seed": 3, "seed_samples": True},
        {"seed": 3, "seed_samples": False},
        ["seed_samples", "True", "False"],
    ),
    "remainder": (
        {"seed": 3, "shard": (0, 2), "remainder": "pad"},
        {"seed": 3, "shard": (1, 2), "remainder": "drop"},
        ["remainder", "'pad'", "'drop'"],
    ),
    "drop_last in seed mode": (
        {"seed": 3, "drop_last": True},
        {"seed": 3, "drop_last": False},
        ["drop_last", "True", "False"],
    ),
    "kind": ({}, {"shuffle": None, "dataset": GeneratorStream([20])}, ["map", "iterable"]),
    "other kind": ({"shuffle": None, "dataset": GeneratorStream([20])}, {}, ["map", "iterable"]),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_state_of_another_order_is_refused_with_both_sides_named(name: str) -> None:
    there, here, words = MISMATCHES[name]
    state = saved("shuffle", **there)
    loader = make("shuffle", **here)
    with pytest.raises(ValueError) as caught:
        loader.load_state_dict(state)
    for word in words:
        assert word in str(caught.value)
    assert "strict=False" in str(caught.value)
    assert len(take(loader)) > 0, "a refused state leaves the loader as it was"


ROWS = range(41)
LABELS = [index % 3 for index in ROWS]
LENGTHS = [1 + index * 7 % 20 for index in ROWS]
SUBSET = list(range(0, 41, 2))
OTHERS = [1 + index for index in SUBSET[:-1]] + [0]
WEIGHTS = [1.0 + index % 5 for index in ROWS]

# By name: functions that create a sampler, and a different one of the same length, given a seed.
SAMPLERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "replacement": (
        lambda seed: sluicegate.RandomSampler(ROWS, seed=seed),
        lambda seed: sluicegate.RandomSampler(ROWS, True, seed=seed),
    ),
    "subset": (
        lambda seed: sluicegate.SubsetRandomSampler(SUBSET, seed=seed),
        lambda seed: sluicegate.SubsetRandomSampler(OTHERS, seed=seed),
    ),
    "tensor of a subset": (
        lambda seed: sluicegate.SubsetRandomSampler(torch.tensor(SUBSET), seed=seed),
        lambda seed: sluicegate.SubsetRandomSampler(torch.tensor(OTHERS), seed=seed),
    ),
    "weights": (
        lambda seed: sluicegate.WeightedRandomSampler(WEIGHTS, 41, seed=seed),
        lambda seed: sluicegate.WeightedRandomSampler(WEIGHTS[::-1], 41, seed=seed),
    ),
    "block": (
        lambda seed: sluicegate.BlockShuffleSampler(ROWS, block=4, window=2, seed=seed),
        lambda seed: sluicegate.BlockShuffleSampler(ROWS, block=8, window=2, seed=seed),
    ),
    "window": (
        lambda seed: sluicegate.BlockShuffleSampler(ROWS, block=4, window=2, seed=seed),
        lambda seed: sluicegate.BlockShuffleSampler(ROWS, block=4, window=3, seed=seed),
    ),
    "classes": (
        lambda seed: sluicegate.ClassSampler(LABELS, [0, 1], seed=seed),
        lambda seed: sluicegate.ClassSampler(LABELS, [1, 0], seed=seed),
    ),
    "labels": (
        lambda seed: sluicegate.ClassSampler(LABELS, [1], seed=seed),
        lambda seed: sluicegate.ClassSampler(LABELS[::-1], [1], seed=seed),
    ),
    "mixture": (
        lambda seed: sluicegate.MixtureSampler([21, 20], [0.7, 0.3], num_samples=41, seed=seed),
        lambda seed: sluicegate.MixtureSampler([21, 20], [0.3, 0.7], num_samples=41, seed=seed),
    ),
    "repeated": (
        lambda seed: sluicegate.RepeatSampler(sluicegate.RandomSampler(ROWS, seed=seed), 2),
        lambda seed: sluicegate.RepeatSampler(sluicegate.RandomSampler(ROWS, seed=seed), 2, interleaved=True),
    ),
}

BATCH_SAMPLERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "balanced": (
        lambda seed: sluicegate.BalancedBatchSampler(LABELS, 2, 2, num_batches=9, seed=seed),
        lambda seed: sluicegate.BalancedBatchSampler(LABELS, 1, 4, num_batches=9, seed=seed),
    ),
    "stratified": (
        lambda seed: sluicegate.StratifiedBatchSampler(LABELS, 4, seed=seed),
        lambda seed: sluicegate.StratifiedBatchSampler(LABELS[::-1], 4, seed=seed),
    ),
    "lengths": (
        lambda seed: sluicegate.LengthBucketBatchSampler(LENGTHS, batch_size=4, seed=seed),
        lambda seed: sluicegate.LengthBucketBatchSampler(LENGTHS[::-1], batch_size=4, seed=seed),
    ),
    "packed": (
        lambda seed: sluicegate.PackedBatchSampler(LENGTHS, length=16, rows_per_batch=2, seed=seed),
        lambda seed: sluicegate.PackedBatchSampler(LENGTHS[::-1], length=16, rows_per_batch=2, seed=seed),
    ),
}


def samplers_of(name: str, own_seed: int | None) -> list[dict[str, Any]]:
    if name in SAMPLERS:
        return [{"sampler": sampler(own_seed), "batch_size": 4} for sampler in SAMPLERS[name]]
    return [{"batch_sampler": sampler(own_seed)} for sampler in BATCH_SAMPLERS[name]]


@pytest.mark.parametrize(("own_seed", "seed"), [(None, 5), (9, None), (9, 5), (None, None)])
@pytest.mark.parametrize("name", [*SAMPLERS, *BATCH_SAMPLERS])
def test_a_state_of_a_sampler_with_other_arguments_is_refused(
    name: str, own_seed: int | None, seed: int | None
) -> None:
    there, here = (sluicegate.DataLoader(Indices(41), seed=seed, **each) for each in samplers_of(name, own_seed))
    iterator = iter(there)
    take(iterator, 2)
    state = there.state_dict()
    with pytest.raises(ValueError, match=r"different loader \(order: \w+\(.* in the state, \w+\(.* in this loader"):
        here.load_state_dict(state)
    again = sluicegate.DataLoader(Indices(41), seed=seed, **samplers_of(name, own_seed)[0])
    again.load_state_dict(json.loads(json.dumps(state)))
    assert take(again) == take(iterator), "a sampler made from the same arguments resumes"


@pytest.mark.parametrize("cls", [*SAMPLERS, *BATCH_SAMPLERS])
def test_a_sampler_refuses_the_state_of_another(cls: str) -> None:
    there, here = (next(iter(each.values())) for each in samplers_of(cls, 9))
    take(iter(there), 2)
    state = json.loads(json.dumps(there.state_dict()))
    with pytest.raises(ValueError, match=f"expected the state of this {type(there).__name__}"):
        here.load_state_dict(state)
    del state["order"]  # As in states of older versions, which lack it.
    here.load_state_dict(state)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_sampler_that_has_changed_refuses_its_earlier_state(in_place: bool) -> None:
    sampler = sluicegate.WeightedRandomSampler(WEIGHTS, 41)
    loader = sluicegate.DataLoader(Indices(41), 4, sampler=sampler)
    take(iter(loader), 2)
    state = loader.state_dict()
    if in_place:
        sampler.weights[3] = 50.0
    else:
        sampler.weights = sampler.weights.flip(0)
    with pytest.raises(ValueError, match=r"different loader \(order: WeightedRandomSampler"):
        sluicegate.DataLoader(Indices(41), 4, sampler=sampler).load_state_dict(state)


def test_states_distinguish_torchs_samplers_by_their_arguments() -> None:
    data = torch.utils.data
    pairs: list[tuple[Any, Any]] = [
        (data.SubsetRandomSampler(SUBSET), data.SubsetRandomSampler(OTHERS)),
        (data.WeightedRandomSampler(WEIGHTS, 41), data.WeightedRandomSampler(WEIGHTS[::-1], 41)),
        (data.WeightedRandomSampler(WEIGHTS, 41), data.WeightedRandomSampler(WEIGHTS, 41, replacement=False)),
        (data.RandomSampler(ROWS), data.RandomSampler(ROWS, replacement=True)),
        (data.DistributedSampler(ROWS, 2, 0, seed=1), data.DistributedSampler(ROWS, 2, 0, seed=2)),
    ]
    for there, here in pairs:
        for seed in (None, 5) if not isinstance(there, data.DistributedSampler) else (None,):
            loader = sluicegate.DataLoader(Indices(41), 4, sampler=there, seed=seed)
            take(iter(loader), 2)
            with pytest.raises(ValueError, match="order"):
                sluicegate.DataLoader(Indices(41), 4, sampler=here, seed=seed).load_state_dict(loader.state_dict())
            sluicegate.DataLoader(Indices(41), 4, sampler=there, seed=seed).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("count", [3, 30])
def test_a_list_an_array_and_a_tensor_of_the_same_numbers_are_the_same_order(count: int, seed: int | None) -> None:
    numbers = [index * 3 % 41 for index in range(count)]
    loaders = [
        sluicegate.DataLoader(Indices(41), 2, sampler=torch.utils.data.SubsetRandomSampler(indices), seed=seed)
        for indices in (numbers, numpy.array(numbers, numpy.int32), torch.tensor(numbers), tuple(numbers))
    ]
    take(iter(loaders[0]), 1)
    for loader in loaders[1:]:
        loader.load_state_dict(loaders[0].state_dict())


@pytest.mark.parametrize("weights", [[1.0] * 41, torch.ones(41), torch.ones(41, dtype=torch.bfloat16)])
def test_weights_of_any_type_have_a_state(weights: Any) -> None:
    sampler = torch.utils.data.WeightedRandomSampler([2.0] * 41, 41)
    sampler.weights = weights
    loader = sluicegate.DataLoader(Indices(41), 2, sampler=sampler)
    assert loader.state_dict()["fingerprint"]["order"].startswith("WeightedRandomSampler(")


@pytest.mark.parametrize("seed", [None, 5])
def test_every_rank_may_load_the_state_of_one(seed: int | None) -> None:
    def make_rank(rank: int, ranks: int = 2) -> Any:
        sampler = torch.utils.data.DistributedSampler(ROWS, ranks, rank)
        return sluicegate.DataLoader(Indices(41), 4, sampler=sampler, seed=seed)

    loader = make_rank(0)
    take(iter(loader), 2)
    state = loader.state_dict()
    other = make_rank(1)
    iterator = iter(other)
    take(iterator, 2)
    again = make_rank(1)
    again.load_state_dict(state)
    assert take(again) == take(iterator)
    if seed is not None:
        make_rank(1, 3).load_state_dict(state)
        sluicegate.DataLoader(Indices(41), 4, True, seed=seed).load_state_dict(state)


def test_a_state_of_a_version_without_named_orders_resumes() -> None:
    loader = sluicegate.DataLoader(Indices(41), 4, True, seed=3)
    iterator = iter(loader)
    take(iterator, 2)
    state = loader.state_dict()
    for name in ("order", "remainder", "seed_samples", "drop_last"):
        del state["fingerprint"][name]
    again = sluicegate.DataLoader(Indices(41), 4, True, seed=3)
    again.load_state_dict(state)
    assert take(again) == take(iterator)


def test_a_refused_state_does_not_disturb_the_epoch_that_runs() -> None:
    loader = make("shuffle", seed=3)
    epoch = take(make("shuffle", seed=3))
    iterator = iter(loader)
    found = take(iterator, 2)
    with pytest.raises(ValueError):
        loader.load_state_dict(saved("shuffle", seed=4))
    assert found + take(iterator) == epoch


@pytest.mark.parametrize("num_workers", [0, 2])
def test_without_strict_a_loader_resumes_at_the_same_position_of_the_new_order(num_workers: int) -> None:
    loader = make("sequential", num_workers, dataset=Indices(16))
    loader.load_state_dict(saved("sequential", 3, dataset=Indices(12)), strict=False)
    assert take(loader) == [[6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]
    assert len(take(loader)) == 8


def test_without_strict_another_seed_gives_the_other_order() -> None:
    other = make("shuffle", seed=8)
    expected = [take(other), take(other)]
    fresh = make("shuffle", seed=8)
    fresh.load_state_dict(saved("shuffle", 3, seed=7), strict=False)
    assert [take(fresh), take(fresh)] == [expected[0][3:], expected[1]]


def test_in_seed_mode_the_batch_size_may_change() -> None:
    whole = [index for batch in take(make("shuffle", seed=7, dataset=Indices(30))) for index in batch]
    for batch_size in (1, 3, 7, None):
        fresh = make("shuffle", seed=7, dataset=Indices(30), batch_size=batch_size)
        fresh.load_state_dict(saved("shuffle", 4, seed=7, dataset=Indices(30)))
        rest = take(fresh)
        assert (rest if batch_size is None else [index for batch in rest for index in batch]) == whole[8:]
        assert len(take(fresh)) == len(fresh)


@pytest.mark.parametrize(
    "state",
    [None, [], {}, "state", 3, b"", {"version": 1}, {"epoch": 1, "position": 3}, {"a": {"b": "c"}}],
    ids=repr,
)
@pytest.mark.parametrize("seed", [None, 5])
def test_objects_that_are_not_states_are_refused(state: Any, seed: int | None) -> None:
    loader = make("shuffle", seed=seed)
    with pytest.raises((ValueError, TypeError), match=r"state"):
        loader.load_state_dict(state)
    assert len(take(loader)) == len(loader)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("strict", [True, False])
def test_a_newer_version_is_refused(seed: int | None, strict: bool) -> None:
    state = saved("shuffle", seed=seed)
    assert isinstance(state["version"], int)
    newer = copy.deepcopy(state) | {"version": state["version"] + 1000}
    with pytest.raises(ValueError, match=rf"version.*{newer['version']}"):
        make("shuffle", seed=seed).load_state_dict(newer, strict=strict)


@pytest.mark.parametrize("seed", [None, 5])
def test_a_state_that_lost_a_part_is_refused_or_does_without(seed: int | None) -> None:
    state = json.loads(json.dumps(saved("shuffle", seed=seed)))
    for name in state:
        broken = {key: value for key, value in state.items() if key != name}
        loader = make("shuffle", seed=seed)
        # Not every order needs every part.
        with contextlib.suppress(ValueError):
            loader.load_state_dict(broken)
        assert len(take(loader)) in (4, 6)


def test_load_state_dict_copies_the_state() -> None:
    state = saved("shuffle", seed=5)
    expected = take(make("shuffle", seed=5))[2:]
    loader = make("shuffle", seed=5)
    loader.load_state_dict(state)
    for value in state.values():
        if isinstance(value, dict | list):
            value.clear()
    state.clear()
    assert take(loader) == expected


@pytest.mark.parametrize("dataset", [GeneratorStream, PlainStream])
def test_a_stream_with_another_number_of_workers_is_refused_even_without_strict(dataset: type[Any]) -> None:
    state = saved("stateful stream", num_workers=2, dataset=dataset([5, 5, 5]))
    loader = make("stateful stream", 3, dataset=dataset([5, 5, 5]))
    loader.load_state_dict(state, strict=False)
    with pytest.raises(AssertionError, match=r"\b2\b.*\b3\b|\b3\b.*\b2\b"):
        iter(loader)
