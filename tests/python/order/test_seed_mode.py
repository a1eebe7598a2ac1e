"""Seed mode: order and augmentation depend on (seed, epoch, index), not on the worker that reads a sample."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, StackDataset, Subset, random_split

import sluicegate
from cases.loader_kinds import plain, take
from checks.global_draws import seed_globals
from doubles.datasets import ManyAtOnce
from doubles.drawing_rows import OwnDrawingRows
from doubles.stateful import DrawingRows, Indices

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZE = 29


class BatchedDrawingRows(ManyAtOnce, DrawingRows):
    pass


class LazyRows(Indices):
    """Draws from only one of its generators, and only for every third sample."""

    def __getitem__(self, index: int) -> Any:
        return index, float(sluicegate.sample_rng().numpy.random()) if index % 3 == 0 else 0.0


class FailingRows(DrawingRows):
    def __getitem__(self, index: int) -> Any:
        drawn = super().__getitem__(index)
        if index == 3:
            raise ValueError("sample 3 is broken")
        return drawn


def noisy(samples: list[Any]) -> Any:
    return plain(samples), random.random(), float(numpy.random.rand()), torch.rand(1).item()


def loader(dataset: Any = None, **changes: Any) -> Any:
    arguments = {"batch_size": 4, "shuffle": True, "seed": 7} | changes
    return sluicegate.DataLoader(DrawingRows(SIZE) if dataset is None else dataset, **arguments)


def indices(epoch: list[Any]) -> list[int]:
    return [index for batch in epoch for index in batch[0]]


def by_index(epoch: list[Any]) -> dict[int, Any]:
    """Return the draws of each sample."""
    return {sample[0]: sample[1:] for batch in epoch for sample in zip(*batch, strict=True)}


def global_states() -> Any:
    name, keys, *others = numpy.random.get_state()
    return random.getstate(), [name, keys.tolist(), *others], torch.get_rng_state().tolist()


# The order does not depend on the workers, so the draws of eight are enough in one order.
@pytest.mark.parametrize(
    ("shuffle", "workers"), [(False, [(0, None), (1, 4), (3, 1)]), (True, [(0, None), (3, 1), (8, 2)])], ids=str
)
def test_an_epoch_is_bit_equal_for_any_number_of_workers(shuffle: bool, workers: list[tuple[int, int | None]]) -> None:
    expected = None
    for seed, (num_workers, prefetch_factor) in enumerate(workers):
        seed_globals(seed)
        made = loader(shuffle=shuffle, num_workers=num_workers, prefetch_factor=prefetch_factor)
        found = [take(made), take(made)]
        assert sorted(indices(found[0])) == list(range(SIZE))
        assert expected is None or found == expected
        expected = found
    assert expected is not None
    assert (expected[0] == expected[1]) is False
    assert (indices(expected[0]) == list(range(SIZE))) is not shuffle


def test_every_sample_draws_something_of_its_own_in_every_epoch() -> None:
    made = loader()
    first, second = by_index(take(made)), by_index(take(made))
    for position in range(2):  # Python's, NumPy's
        drawn = [sample[position] for epoch in (first, second) for sample in epoch.values()]
        assert len(set(drawn)) == 2 * SIZE
    assert by_index(take(loader(seed=8)))[5] != first[5]


def test_draws_of_a_sample_do_not_depend_on_order_or_batch() -> None:
    shuffled = by_index(take(loader()))
    for changes in ({"shuffle": False}, {"batch_size": 1}, {"batch_size": 29, "num_workers": 2}):
        assert by_index(take(loader(**changes))) == shuffled


def in_part(rows: Dataset[Any]) -> Any:
    return random_split(rows, [SIZE - 3, 3], generator=torch.Generator().manual_seed(1))[0]


@pytest.mark.parametrize(
    "wrap",
    [
        in_part,
        lambda rows: StackDataset(rows, torch.arange(SIZE)),
        lambda rows: StackDataset(row=rows, index=Subset(rows, range(SIZE))),
        lambda rows: ConcatDataset([Subset(rows, range(5)), rows]),
    ],
    ids=["random_split", "stack", "named stack", "concat"],
)
def test_draws_of_a_sample_in_torchs_combinators_do_not_depend_on_order(wrap: Callable[[Dataset[Any]], Any]) -> None:
    def drawn(**changes: Any) -> list[Any]:
        batches = take(loader(wrap(DrawingRows(SIZE)), collate_fn=plain, **changes))
        return sorted(map(str, itertools.chain.from_iterable(batches)))

    expected = drawn(batch_size=1)
    for changes in ({"batch_size": 3}, {"batch_size": 5, "num_workers": 2}):
        assert drawn(**changes) == expected
    ranks = [drawn(batch_size=2, shard=(rank, 2), remainder="drop") for rank in range(2)]
    assert set(itertools.chain(*ranks)) <= set(expected)


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_any_kind_of_workers_draws_the_same(persistent_workers: bool, in_order: bool) -> None:
    plain_loader = loader()
    made = loader(num_workers=2, persistent_workers=persistent_workers, in_order=in_order)
    for _ in range(3):
        assert by_index(take(made)) == by_index(take(plain_loader))


@pytest.mark.parametrize(
    "changes", [{}, {"batch_size": None}, {"collate_fn": noisy}], ids=["default", "unbatched", "collate_fn"]
)
@pytest.mark.parametrize("dataset", [DrawingRows, BatchedDrawingRows])
def test_collate_and_unbatched_samples_are_bit_equal_too(dataset: type[Any], changes: dict[str, Any]) -> None:
    seed_globals(1)
    expected = take(loader(dataset(SIZE), **changes))
    seed_globals(2)
    assert take(loader(dataset(SIZE), num_workers=2, **changes)) == expected
    assert take(loader(dataset(SIZE), **changes)) == expected


@pytest.mark.parametrize(
    "dataset", [DrawingRows, BatchedDrawingRows, torch.arange(SIZE)], ids=["rows", "batch", "native"]
)
@pytest.mark.parametrize(
    "changes", [{}, {"batch_size": None}, {"collate_fn": noisy}], ids=["default", "unbatched", "collate_fn"]
)
def test_without_workers_the_global_generators_are_put_back(dataset: Any, changes: dict[str, Any]) -> None:
    made = loader(dataset if isinstance(dataset, torch.Tensor) else dataset(SIZE), **changes)
    seed_globals(3)
    before = global_states()
    iterator = iter(made)
    for _ in iterator:
        assert global_states() == before
    assert global_states() == before


def test_global_generators_are_restored_after_an_error() -> None:
    made = loader(FailingRows(8), batch_size=2, shuffle=False)
    before = global_states()
    iterator = iter(made)
    next(iterator)
    with pytest.raises(ValueError, match="sample 3 is broken"):
        next(iterator)
    assert global_states() == before
    assert plain(next(iterator)) == take(loader(DrawingRows(8), batch_size=2, shuffle=False))[2]


def test_global_generators_may_be_used_between_batches() -> None:
    expected = take(loader())
    seed_globals(5)
    alone = [random.random(), numpy.random.rand(), torch.rand(1).item()] * 1 + [random.random()]
    seed_globals(5)
    found, drawn = [], []
    for batch in loader():
        found.append(plain(batch))
        if len(found) == 1:
            drawn = [random.random(), numpy.random.rand(), torch.rand(1).item()]
        elif len(found) == 2:
            drawn.append(random.random())
    assert found == expected
    assert drawn == alone


@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (2, False), (2, True)])
def test_epochs_count_up_by_themselves_and_set_epoch_sets_them(num_workers: int, persistent_workers: bool) -> None:
    made = loader()
    epochs = [take(made) for _ in range(5)]
    assert len({str(epoch) for epoch in epochs}) == 5
    made = loader(num_workers=num_workers, persistent_workers=persistent_workers)
    assert take(made) == epochs[0]
    made.set_epoch(3)
    assert [take(made), take(made)] == epochs[3:5]
    made.set_epoch(1)
    assert [take(made), take(made)] == epochs[1:3]


def test_set_epoch_refuses_invalid_epochs() -> None:
    with pytest.raises((ValueError, TypeError)):
        loader().set_epoch(-1)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_without_seed_samples_only_the_order_follows_from_the_seed(num_workers: int) -> None:
    seed_globals(1)
    first = take(loader(seed_samples=False, num_workers=num_workers))
    seed_globals(2)
    second = take(loader(seed_samples=False, num_workers=num_workers))
    assert indices(first) == indices(second) == indices(take(loader()))
    if num_workers == 0:
        assert by_index(first) != by_index(second)


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("dataset", [OwnDrawingRows, LazyRows])
def test_the_samples_own_generators_are_the_same_in_every_kind_of_worker(dataset: type[Any], worker_type: str) -> None:
    without = loader(dataset(SIZE))
    expected = [take(without), take(without)]
    for num_workers in (1, 3):
        made = loader(dataset(SIZE), num_workers=num_workers, worker_type=worker_type)
        assert [take(made), take(made)] == expected
    drawn = by_index(expected[0])
    assert drawn == by_index(take(loader(dataset(SIZE), shuffle=False)))
    assert drawn != by_index(expected[1])
    if dataset is OwnDrawingRows:
        assert len({sample[1] for sample in drawn.values()}) == SIZE
        assert len({str(sample[2]) for sample in drawn.values()}) == SIZE


def test_the_samples_own_generators_do_not_need_seed_samples() -> None:
    assert take(loader(OwnDrawingRows(SIZE), seed_samples=False)) == take(loader(OwnDrawingRows(SIZE)))


def test_threads_warn_once_of_draws_from_global_generators() -> None:
    made = loader(num_workers=2, worker_type="thread")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epochs = [take(made), take(made)]
    said = [warning for warning in caught if "sample_rng" in str(warning.message)]
    assert len(said) == 1
    assert issubclass(said[0].category, UserWarning)
    assert indices(epochs[0]) == indices(take(loader()))


def test_threads_do_not_warn_for_datasets_that_do_not_draw() -> None:
    for dataset in (Indices(SIZE), OwnDrawingRows(SIZE)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(take(loader(dataset, num_workers=2, worker_type="thread"))) == 8


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_every_seed_is_a_seed_mode(seed: int) -> None:
    orders = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        orders.append(indices(take(loader(seed=seed))))
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(SIZE))
    assert orders[0] != indices(take(loader(seed=seed ^ 3)))


@pytest.mark.parametrize("seed", [-1, 2**64, "7", 1.5])
def test_other_seeds_are_refused(seed: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="seed"):
        loader(seed=seed)


def test_seed_and_generator_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"seed.*generator|generator.*seed"):
        loader(generator=torch.Generator())


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_epochs_of_few_samples_have_the_right_batches(size: int, drop_last: bool) -> None:
    made = loader(Indices(size), batch_size=2, drop_last=drop_last, shuffle=size > 0)
    for _ in range(3):
        epoch = take(made)
        assert len(epoch) == len(made) == (size // 2 if drop_last else -(-size // 2))
        assert len({index for batch in epoch for index in batch}) == sum(map(len, epoch))


def test_the_samplers_order_is_the_loaders() -> None:
    sampler = sluicegate.RandomSampler(range(SIZE), seed=7)
    for epoch in (0, 1, 5):
        made, own = (
            loader(Indices(SIZE), batch_size=None),
            loader(Indices(SIZE), batch_size=None, shuffle=None, sampler=sampler),
        )
        sampler.set_epoch(epoch)
        made.set_epoch(epoch)
        own.set_epoch(epoch)
        assert take(made) == take(own) == list(sampler)
