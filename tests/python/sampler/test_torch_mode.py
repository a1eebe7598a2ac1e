"""Samplers without a seed yield what torch's own classes yield, draw for draw."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from sluicegate import sampler as ours

Make = Callable[[ModuleType, Any], Any]
WEIGHTS = [0.1, 3.0, 0.0, 2.0, 0.7] * 8

# Samplers that draw, created from either module.
DRAWING: dict[str, Make] = {
    "random": lambda package, generator: package.RandomSampler(range(40), generator=generator),
    "fewer": lambda package, generator: package.RandomSampler(range(40), False, 7, generator),
    "more": lambda package, generator: package.RandomSampler(range(40), num_samples=100, generator=generator),
    "twice": lambda package, generator: package.RandomSampler(range(40), num_samples=80, generator=generator),
    "replacement": lambda package, generator: package.RandomSampler(range(40), True, 70, generator),
    "subset": lambda package, generator: package.SubsetRandomSampler(range(100, 140), generator),
    "subset of anything": lambda package, generator: package.SubsetRandomSampler("abcdefgh", generator),
    "weighted": lambda package, generator: package.WeightedRandomSampler(WEIGHTS, 50, generator=generator),
    "weighted once": lambda package, generator: package.WeightedRandomSampler(WEIGHTS, 20, False, generator),
    "batches": lambda package, generator: package.BatchSampler(
        package.RandomSampler(range(40), generator=generator), 7, False
    ),
    "full batches": lambda package, generator: package.BatchSampler(
        package.SubsetRandomSampler(range(9), generator), 4, True
    ),
}
PACKAGES: list[Any] = [torch.utils.data, ours]


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 - 1])
def test_passes_and_the_generator_after_them_are_torchs(name: str, seed: int) -> None:
    seen = []
    for package in PACKAGES:
        generator = torch.Generator().manual_seed(seed)
        sampler = DRAWING[name](package, generator)
        passes = [list(sampler) for _ in range(3)]
        seen.append((len(sampler), passes, generator.get_state().tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", DRAWING)
def test_the_global_generator_is_drawn_from_as_torch_draws(name: str) -> None:
    seen = []
    for package in PACKAGES:
        torch.manual_seed(5)
        sampler = DRAWING[name](package, None)
        iterator = iter(sampler)
        states = [torch.get_rng_state()]
        first = next(iterator)
        states.append(torch.get_rng_state())
        rest = list(iterator)
        states.append(torch.get_rng_state())
        seen.append(([first, *rest], [state.tolist() for state in states]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", DRAWING)
def test_nothing_is_drawn_before_the_first_next_and_interleaving_does_not_matter(name: str) -> None:
    seen = []
    for package in PACKAGES:
        sampler = DRAWING[name](package, None)
        torch.manual_seed(1)
        untouched = torch.get_rng_state()
        one, other = iter(sampler), iter(sampler)
        assert torch.equal(torch.get_rng_state(), untouched)
        both = []
        for iterator in (one, other):
            torch.manual_seed(9)
            both.append([next(iterator)])
        for pair in itertools.zip_longest(one, other):
            both[0].append(pair[0])
            both[1].append(pair[1])
            torch.rand(3)
        assert both[0] == both[1]
        seen.append(both)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("length", "world_size"), [(0, 1), (10, 3), (12, 4), (2, 5), (100, 3)])
def test_distributed_ranks_read_the_indices_of_torchs_ranks(
    length: int, world_size: int, shuffle: bool, drop_last: bool
) -> None:
    for rank in range(world_size):
        seen: list[Any] = []
        for package in PACKAGES:
            try:
                sampler = package.DistributedSampler(range(length), world_size, rank, shuffle, 3, drop_last)
                passes = [list(sampler)]
                sampler.set_epoch(4)
                passes.append(list(sampler))
                seen.append((len(sampler), sampler.num_samples, sampler.total_size, passes))
            except Exception as error:
                seen.append((type(error), str(error)))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("change", ["grow", "shrink", "num_replicas", "num_samples", "total_size", "rank"])
def test_a_loader_reads_a_changed_distributed_sampler_as_torchs_does(change: str, drop_last: bool) -> None:
    seen: list[Any] = []
    for package in (torch.utils.data, sluicegate):
        dataset = list(range(21))
        sampler = torch.utils.data.DistributedSampler(dataset, 3, 1, drop_last=drop_last)
        loader = package.DataLoader(dataset, 2, sampler=sampler)
        before = [batch.tolist() for batch in loader]
        if change in ("grow", "shrink"):
            dataset[15:] = range(15, 30 if change == "grow" else 17)
        else:
            setattr(sampler, change, getattr(sampler, change) + 2)
        try:
            seen.append((before, [batch.tolist() for batch in loader]))
        except Exception as error:
            seen.append((before, type(error), str(error)))
    assert seen[0] == seen[1]


def test_a_distributed_iterator_has_the_epoch_of_its_beginning() -> None:
    seen = []
    for package in PACKAGES:
        sampler = package.DistributedSampler(range(20), 2, 0)
        iterator = iter(sampler)
        sampler.set_epoch(1)
        seen.append(list(iterator))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("RandomSampler", ([1], 0)),
        ("RandomSampler", ([1], False, 0)),
        ("RandomSampler", ([],)),
        ("WeightedRandomSampler", ([1.0], True)),
        ("WeightedRandomSampler", ([[1.0]], 1)),
        ("WeightedRandomSampler", ([1.0], 1, 1)),
        ("DistributedSampler", ([1], 2, 2)),
        ("DistributedSampler", ([1], 2, -1)),
        ("BatchSampler", ([1], 0, False)),
        ("BatchSampler", ([1], 1, 0)),
        ("SequentialSampler", ()),
    ],
)
def test_arguments_are_refused_in_torchs_words(name: str, arguments: tuple[Any, ...]) -> None:
    errors = []
    for package in PACKAGES:
        with pytest.raises((TypeError, ValueError)) as caught:
            getattr(package, name)(*arguments)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("name", ours.__all__)
def test_samplers_that_torch_has_are_subclasses_with_torchs_arguments_first(name: str) -> None:
    import inspect

    torchs, cls = getattr(torch.utils.data, name, None), getattr(ours, name)
    if torchs is None:
        return
    assert issubclass(cls, torchs)
    theirs, own = (list(inspect.signature(package).parameters.values()) for package in (torchs, cls))
    assert [(p.name, p.kind, p.default) for p in own[: len(theirs)]] == [(p.name, p.kind, p.default) for p in theirs]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in own[len(theirs) :])


@pytest.mark.parametrize(
    "make",
    [
        lambda generator: ours.BlockShuffleSampler(range(50), 4, 3, generator),
        lambda generator: ours.MixtureSampler([30, 20], [1.0, 2.0], generator=generator),
        lambda generator: ours.RepeatSampler(ours.RandomSampler(range(9), generator=generator), 3),
    ],
)
def test_samplers_that_torch_lacks_draw_from_the_generator_at_the_first_next(make: Any) -> None:
    one, other = (make(torch.Generator().manual_seed(3)) for _ in range(2))
    passes = [list(one), list(one)]
    assert passes == [list(other), list(other)]
    assert passes[0] != passes[1]
    torch.manual_seed(0)
    sampler = make(None)
    untouched = torch.get_rng_state()
    iterator = iter(sampler)
    assert torch.equal(torch.get_rng_state(), untouched)
    next(iterator)
    assert not torch.equal(torch.get_rng_state(), untouched)
