"""Which component draws from which generator, and when."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from checks.equality import assert_same
from doubles.datasets import RandomRows, Rows, WorkerProbe, is_even, seed_of_worker, times_ten

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SAMPLERS = ["random", "random with replacement", "weighted", "weighted without replacement", "subset"]


def make_sampler(data: ModuleType, kind: str, generator: torch.Generator | None = None) -> Any:
    weights = [1.0 + index % 3 for index in range(70)]
    return {
        "random": lambda: data.RandomSampler(range(70), generator=generator),
        "random with replacement": lambda: data.RandomSampler(range(70), replacement=True, generator=generator),
        "weighted": lambda: data.WeightedRandomSampler(weights, 70, True, generator=generator),
        "weighted without replacement": lambda: data.WeightedRandomSampler(weights, 70, False, generator=generator),
        "subset": lambda: data.SubsetRandomSampler(range(70), generator=generator),
    }[kind]()


def labels_of(loader: Any) -> list[int]:
    return [label for batch in loader for label in batch[1].tolist()]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_equal_generators_give_equal_shuffles(data: ModuleType, num_workers: int) -> None:
    orders = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(7)
        loader = data.DataLoader(Rows(20), batch_size=3, shuffle=True, generator=generator, num_workers=num_workers)
        orders.append([labels_of(loader), labels_of(loader)])
        torch.rand(3)
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]


@pytest.mark.parametrize("native", [False, True])
def test_default_shuffle_follows_the_global_seed(data: ModuleType, native: bool) -> None:
    dataset = data.TensorDataset(Rows(20).values, torch.arange(20)) if native else Rows(20)
    orders = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        orders.append(labels_of(data.DataLoader(dataset, batch_size=3, shuffle=True)))
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
def test_shuffled_epochs_are_torchs_and_leave_the_generators_where_torch_does(
    native: bool, num_workers: int, own: bool
) -> None:
    traces = []
    for package in (sluicegate, torch.utils.data):
        torch.manual_seed(11)
        generator = torch.Generator().manual_seed(5) if own else None
        dataset = package.TensorDataset(Rows(9).values, torch.arange(9)) if native else Rows(9)
        loader = package.DataLoader(dataset, 4, True, num_workers=num_workers, generator=generator)
        trace: list[Any] = []
        for _ in range(2):
            trace += [labels_of(loader), torch.get_rng_state(), generator.get_state() if own else None]
        traces.append(trace)
    assert_same(traces[0], traces[1])


@pytest.mark.parametrize("native", [False, True])
def test_without_workers_the_generators_move_at_the_same_steps_as_torchs(native: bool) -> None:
    traces = []
    for package in (sluicegate, torch.utils.data):
        torch.manual_seed(3)
        dataset = package.TensorDataset(Rows(5).values, torch.arange(5)) if native else Rows(5)
        loader = package.DataLoader(dataset, 2, shuffle=True)
        iterator = iter(loader)
        trace = [torch.get_rng_state()]
        for _ in range(3):
            next(iterator)
            trace.append(torch.get_rng_state())
        with pytest.raises(StopIteration):
            next(iterator)
        trace.append(torch.get_rng_state())
        traces.append(trace)
    assert_same(traces[0], traces[1])


def test_iter_draws_the_base_seed_and_the_first_next_the_sampler_seed(data: ModuleType) -> None:
    def after(draws: int) -> torch.Tensor:
        torch.manual_seed(0)
        for _ in range(draws):
            torch.empty((), dtype=torch.int64).random_()
        return torch.get_rng_state()

    expected = [after(1), after(2), after(2)]
    torch.manual_seed(0)
    iterator = iter(data.DataLoader(data.TensorDataset(torch.arange(9)), shuffle=True))
    found = [torch.get_rng_state()]
    for _ in range(2):
        next(iterator)
        found.append(torch.get_rng_state())
    assert_same(found, expected)


def test_base_seed_comes_from_the_generator_and_worker_seeds_follow_it(data: ModuleType) -> None:
    seeds = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(13)
        loader = data.DataLoader(WorkerProbe(4), batch_size=1, num_workers=2, generator=generator)
        seeds.append({batch[3].item() for batch in loader})
        torch.rand(1)
    base = torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(13)).item()
    assert seeds[0] == seeds[1] == {base, base + 1}


def test_each_worker_has_its_own_seed(data: ModuleType) -> None:
    batches = list(data.DataLoader(WorkerProbe(6), batch_size=1, num_workers=6))
    assert len({batch[3].item() for batch in batches}) == 6


def test_worker_init_fn_runs_after_seeding(data: ModuleType) -> None:
    loader = data.DataLoader(WorkerProbe(4), batch_size=1, num_workers=2, worker_init_fn=seed_of_worker)
    assert [batch[3].item() for batch in loader] == [1000, 1001, 1000, 1001]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_random_samples_are_torchs(num_workers: int) -> None:
    traces = []
    for package in (sluicegate, torch.utils.data):
        torch.manual_seed(21)
        numpy.random.seed(21)
        loader = package.DataLoader(RandomRows(7), batch_size=2, shuffle=True, num_workers=num_workers)
        traces.append([list(loader), list(loader), torch.get_rng_state(), float(numpy.random.rand())])
    assert_same(traces[0], traces[1])


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samplers_draw_at_the_first_next_and_never_again(data: ModuleType, kind: str) -> None:
    sampler = make_sampler(data, kind)
    before = torch.get_rng_state()
    first, second = iter(sampler), iter(sampler)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    pairs = [(next(first), None)]
    assert not torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    pairs[0] = (pairs[0][0], next(second))
    if kind == "random with replacement":
        # Past 32 draws, it takes the next chunk from its own generator.
        torch.manual_seed(99)
    for left, right in itertools.zip_longest(first, second):
        torch.rand(1)
        pairs.append((left, right))
    assert len(pairs) == 70
    assert all(left == right for left, right in pairs)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samplers_repeat_with_the_seed_and_advance_with_the_generator(data: ModuleType, kind: str) -> None:
    passes = []
    for _ in range(2):
        torch.manual_seed(17)
        sampler = make_sampler(data, kind)
        passes.append([list(sampler), list(sampler)])
    assert passes[0] == passes[1]
    assert passes[0][0] != passes[0][1]
    own = [list(make_sampler(data, kind, torch.Generator().manual_seed(3))) for _ in range(2)]
    assert own[0] == own[1]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samplers_through_a_native_loader_are_torchs(kind: str) -> None:
    traces = []
    for package in (sluicegate, torch.utils.data):
        torch.manual_seed(8)
        loader = package.DataLoader(package.TensorDataset(torch.arange(70)), 9, sampler=make_sampler(package, kind))
        traces.append([list(loader), torch.get_rng_state(), list(loader), torch.get_rng_state()])
    assert_same(traces[0], traces[1])


DATAPIPE_WORKERS = [{}, {"num_workers": 1}, {"num_workers": 2, "persistent_workers": True}]


@pytest.mark.parametrize("workers", DATAPIPE_WORKERS, ids=["0", "1", "2 persistent"])
def test_a_shuffled_datapipe_follows_the_global_seed(data: ModuleType, workers: dict[str, Any]) -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    def epochs(seed: int | None) -> list[list[int]]:
        if seed is not None:
            torch.manual_seed(seed)
        pipe = IterableWrapper(range(20)).shuffle().sharding_filter()
        loader = data.DataLoader(pipe, batch_size=None, shuffle=True, **workers)
        return [list(loader), list(loader)]

    first, again, other, unseeded = epochs(1), epochs(1), epochs(2), epochs(None)
    assert first == again != other
    assert first[0] != first[1]
    for epoch in first + other + unseeded:
        assert sorted(epoch) == list(range(20))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_datapipe_with_map_and_filter_runs_in_workers(data: ModuleType, method: str) -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper(range(6)).filter(is_even).map(times_ten).shuffle()
    loader = data.DataLoader(pipe, batch_size=None, shuffle=True, num_workers=1, multiprocessing_context=method)
    assert sorted(loader) == [0, 20, 40]
