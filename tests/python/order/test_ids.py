"""`with_ids`: which samples a batch contains, without help from the dataset."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import MAP_KINDS, SIZE, STREAM_KINDS, make, plain, take
from doubles.datasets import ManyAtOnce
from doubles.stateful import GeneratorStream, Indices, StatefulBatchSampler

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]


class SlowFirst(Indices):
    def __getitem__(self, index: int) -> Any:
        if index == 0:
            time.sleep(0.3)
        return index


class Documents(GeneratorStream):
    """A stream of dicts with their own names."""

    def __iter__(self) -> Any:
        return ({"name": f"document {item}", "length": item} for item in super().__iter__())


def pairs(loader: Any, **arguments: Any) -> list[tuple[Any, Any]]:
    return [(plain(batch), ids) for batch, ids in loader.with_ids(**arguments)]


def flat(batch: Any) -> list[int]:
    """Return the indices in a batch of `Indices`."""
    return batch if isinstance(batch, list) else [batch]


def check(found: list[tuple[Any, Any]], epoch: int = 0, first: int = 0) -> None:
    """Check that the ids of each batch are those of its samples, and that batches are numbered from `first`."""
    for number, (batch, ids) in enumerate(found, start=first):
        assert len(ids) == len(flat(batch)), "before the indices are made"
        assert isinstance(ids.sample_indices, numpy.ndarray)
        assert ids.sample_indices.dtype == numpy.int64
        assert ids.sample_indices.tolist() == flat(batch)
        assert len(ids) == len(flat(batch))
        assert ids.batch_index == number
        assert ids.epoch == epoch
        assert ids.valid.dtype == numpy.bool_
        assert ids.valid.tolist() == [True] * len(flat(batch))
        assert isinstance(ids.batch_id, str)


STATELESS = [kind for kind in MAP_KINDS if not kind.startswith("dataset state")]


@pytest.mark.parametrize("mode", [{}, {"seed": 5}], ids=["torch mode", "seed mode"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", STATELESS)
def test_ids_are_of_the_batch(kind: str, num_workers: int, mode: dict[str, Any]) -> None:
    if mode and ("generator" in kind or (num_workers and "shuffle" not in kind)):
        pytest.skip("no such loader, or as with the others")
    loader = make(kind, num_workers, **mode)
    # Workers are slow to start.
    for epoch in range(1 if num_workers and "shuffle" not in kind else 2):
        found = pairs(loader)
        check(found, epoch)
        assert len(found) == len(loader)
        if "batch sampler" not in kind:
            sizes = [len(flat(batch)) for batch, _ in found]
            positions = [ids.position for _, ids in found]
            assert positions == list(itertools.accumulate([0, *sizes[:-1]]))
        workers = [ids.worker for _, ids in found]
        if kind != "native":
            assert workers == [number % max(num_workers, 1) for number in range(len(found))]


def test_asking_for_ids_changes_nothing() -> None:
    for mode in ({}, {"seed": 2}):
        epochs, states = [], []
        for asks in (False, True):
            torch.manual_seed(3)
            loader = make("shuffle", **mode)
            epochs.append([[batch for batch, _ in pairs(loader)] if asks else take(loader) for _ in range(2)])
            states.append((loader.state_dict(), torch.get_rng_state().tolist()))
        assert epochs[0] == epochs[1]
        assert states[0] == states[1]


@pytest.mark.parametrize("mode", [{}, {"seed": 5}], ids=["torch mode", "seed mode"])
def test_ids_are_right_when_batches_come_as_completed(mode: dict[str, Any]) -> None:
    loader = make("shuffle", 2, dataset=SlowFirst(20), in_order=False, **mode)
    for epoch in range(2):
        found = pairs(loader)
        for batch, ids in found:
            assert ids.sample_indices.tolist() == batch
            assert ids.position == 2 * ids.batch_index
            assert ids.epoch == epoch
        assert sorted(ids.batch_index for _, ids in found) == list(range(10))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("mode", [{}, {"seed": 5}], ids=["torch mode", "seed mode"])
def test_ids_continue_after_a_resume(num_workers: int, mode: dict[str, Any]) -> None:
    loader = make("shuffle", num_workers, **mode)
    take(loader)
    iterator = loader.with_ids()
    before = list(itertools.islice(iterator, 2))
    state = loader.state_dict()
    rest = [(plain(batch), ids) for batch, ids in iterator]
    fresh = make("shuffle", 2 - num_workers, **mode)
    fresh.load_state_dict(state)
    found = pairs(fresh)
    check(found, epoch=1, first=2)
    assert [batch for batch, _ in found] == [batch for batch, _ in rest]
    assert [ids.position for _, ids in found] == [ids.position for _, ids in rest]
    assert [ids.batch_id for _, ids in found] == [ids.batch_id for _, ids in rest]
    assert len({ids.batch_id for _, ids in before + rest}) == 6
    check(pairs(fresh), epoch=2)


def test_batch_ids_are_stable_and_unique() -> None:
    names = []
    for num_workers in (0, 2):
        loader = make("shuffle", num_workers, seed=9)
        names.append([ids.batch_id for _ in range(3) for _, ids in loader.with_ids()])
    assert names[0] == names[1]
    assert len(set(names[0])) == 18
    other = [ids.batch_id for _, ids in make("shuffle", seed=10).with_ids()]
    assert not set(other) & set(names[0])


def test_ids_of_a_stateful_batch_sampler_continue_after_a_resume() -> None:
    loader = make("stateful batch sampler")
    iterator = loader.with_ids()
    list(itertools.islice(iterator, 2))
    fresh = make("stateful batch sampler", dataset=Indices(SIZE), batch_sampler=StatefulBatchSampler(SIZE))
    fresh.load_state_dict(loader.state_dict())
    found = pairs(fresh)
    check(found, first=2)
    assert [batch for batch, _ in found] == [[5, 6], [7, 8, 9], [10]]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", STREAM_KINDS)
def test_ids_of_a_stream_are_worker_and_ordinal(kind: str, num_workers: int) -> None:
    loader = make(kind, num_workers)
    found = pairs(loader)
    assert len(found) > 0
    for batch, ids in found:
        assert ids.sample_indices.dtype == numpy.int64
        assert [ids.worker * 1000 + ordinal for ordinal in ids.sample_indices.tolist()] == flat(batch)
        assert ids.valid.all()
        assert ids.sample_ids is None
    assert [ids.batch_index for _, ids in found] == list(range(len(found)))
    assert {ids.batch_id for _, ids in found} == {None}


@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize("kind", ["stateful stream", "own iterator", "stream without state"])
def test_ordinals_of_a_stream_continue_after_a_resume(kind: str, num_workers: int) -> None:
    loader = make(kind, num_workers)
    iterator = loader.with_ids()
    list(itertools.islice(iterator, 2))
    state = loader.state_dict()
    rest = [ids for _, ids in iterator]
    fresh = make(kind, num_workers)
    fresh.load_state_dict(state)
    found = [ids for _, ids in fresh.with_ids()]
    for one, other in zip(found, rest, strict=True):
        assert one.sample_indices.tolist() == other.sample_indices.tolist()
        assert (one.worker, one.batch_index, one.batch_id) == (other.worker, other.batch_index, other.batch_id)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("by", ["function", "field"])
def test_sample_id_identifies_the_samples_of_a_stream(num_workers: int, batch_size: int | None, by: str) -> None:
    loader = make("stateful stream", num_workers, dataset=Documents([7, 4]), batch_size=batch_size)
    sample_id = name_of if by == "function" else "name"
    for _ in range(2):
        found = pairs(loader, sample_id=sample_id)
        assert len(found) > 0
        for batch, ids in found:
            assert isinstance(ids.sample_ids, list)
            assert ids.sample_ids == flat(batch["name"])
            assert isinstance(ids.batch_id, str)


def test_the_batch_id_of_a_stream_identifies_its_samples() -> None:
    def by_content(stream: Any, **more: Any) -> dict[str | None, Any]:
        loader = sluicegate.DataLoader(stream, 2, **more)
        return {ids.batch_id: plain(batch) for batch, ids in loader.with_ids(sample_id=torch.tensor)}

    first = by_content(GeneratorStream([6]))
    assert first == by_content(GeneratorStream([6]))
    assert len(first) == 3
    for other in (by_content(GeneratorStream([5])), by_content(GeneratorStream([4, 4]), num_workers=2)):
        assert all(other[name] == first[name] for name in first.keys() & other.keys())


class ManyNumbers(torch.utils.data.IterableDataset[Any]):
    def __init__(self, middle: int) -> None:
        self.middle = middle

    def __iter__(self) -> Iterator[Any]:
        array = numpy.zeros(5000)
        array[2500] = self.middle
        yield array


def test_the_batch_id_of_a_stream_is_of_all_of_its_sample_ids() -> None:
    names = {ids.batch_id for n in (1, 2) for _, ids in sluicegate.DataLoader(ManyNumbers(n)).with_ids(lambda x: x)}
    assert len(names) == 2


class NamedRows(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"name": f"row {index}", "value": torch.tensor(index)}


class ManyNamedRows(ManyAtOnce, NamedRows):
    pass


# With worker processes, every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("workers", "batch_size", "rows", "by"),
    [
        *itertools.product(
            [{}, {"num_workers": 2, "worker_type": "thread"}],
            [None, 3],
            [NamedRows, ManyNamedRows],
            ["function", "field"],
        ),
        ({"num_workers": 2}, None, NamedRows, "function"),
        ({"num_workers": 2}, None, ManyNamedRows, "field"),
        ({"num_workers": 2}, 3, NamedRows, "field"),
        ({"num_workers": 2}, 3, ManyNamedRows, "function"),
    ],
)
def test_map_style_samples_are_identified_as_those_of_a_stream(
    workers: dict[str, Any], batch_size: int | None, rows: Any, by: str
) -> None:
    loader = sluicegate.DataLoader(rows(), batch_size, shuffle=True, seed=3, **workers)
    found = list(loader.with_ids(sample_id=name_of if by == "function" else "name"))
    for batch, ids in found:
        assert ids.sample_ids == flat(batch["name"]) == [f"row {index}" for index in ids.sample_indices]
    assert [ids.sample_ids for _, ids in loader.with_ids()] == [None] * len(found)


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}], ids=str)
def test_samples_of_a_native_dataset_are_identified_too(workers: dict[str, Any]) -> None:
    dataset = sluicegate.TensorDataset(torch.arange(14).reshape(7, 2), torch.arange(7))
    loader = sluicegate.DataLoader(dataset, 3, **workers)
    expected = [plain(batch) for batch in loader]
    found = list(loader.with_ids(sample_id=1))
    assert [plain(batch) for batch, _ in found] == expected
    for (_, labels), ids in found:
        assert [int(each) for each in ids.sample_ids] == labels.tolist()
    assert [plain(batch) for batch in loader] == expected


class Whole(NamedRows):
    def __getitems__(self, indices: list[int]) -> Any:
        return {"name": indices}


def test_sample_id_requires_getitems_to_return_a_list_of_samples() -> None:
    loader = sluicegate.DataLoader(Whole(), 3, collate_fn=dict)
    with pytest.raises(
        TypeError, match=r"sample_id: Whole.__getitems__ should return a list with one sample per index, but got a dict"
    ):
        next(loader.with_ids(sample_id="name"))


def test_indices_can_be_used_by_torch_without_a_warning() -> None:
    features = torch.randn(20, 3)
    samplers: list[Any] = [
        {"shuffle": True},
        {"sampler": range(19)},
        {"seed": 7, "shuffle": True},
        {"seed": 7, "shard": (1, 2)},
        {"sampler": sluicegate.RandomSampler(features, seed=3)},
    ]
    for arguments in samplers:
        loader = sluicegate.DataLoader(features, 4, **arguments)
        loader.skip_samples([5])
        for batch, ids in loader.with_ids():
            assert torch.equal(batch, features[ids.sample_indices])
            indices = loader.samples_of(ids.batch_index, ids.epoch)
            assert torch.equal(features[indices], batch)
            expected = ids.batch_id
            indices[:] = 0
            assert ids.batch_id == expected
    batches = sluicegate.BalancedBatchSampler([0, 1] * 10, 2, 2, seed=1)
    cut = sluicegate.BatchSampler(sluicegate.RandomSampler(features, seed=3), 4, False)
    assert features[batches.batch_at(0)].shape == features[cut.batch_at(0)].shape == (4, 3)
    assert features[batches.index.samples_of(0)].shape == (10, 3)


def test_the_repr_of_ids_has_all_of_them() -> None:
    ((_, ids),) = sluicegate.DataLoader(["a", "b"], 2).with_ids(sample_id=str.upper)
    shown = repr(ids)
    public = [name for name in dir(ids) if not name.startswith("_") and not callable(getattr(ids, name))]
    told = {"request", "end", "is_of_stream", "sampler_state"}
    assert all(f"{name}=" in shown for name in set(public) - told)
    assert "sample_ids=['A', 'B']" in shown
    assert f"batch_id={ids.batch_id!r}" in shown


class Unpicklable:
    """Identifies a sample, but can't be sent to other processes."""

    def __init__(self, sample: Any) -> None:
        self.sample = sample

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 1, "worker_type": "thread"}])
def test_sample_ids_may_be_unpicklable_in_the_same_process(workers: dict[str, Any]) -> None:
    loader = sluicegate.DataLoader(GeneratorStream([5]), 2, **workers)
    told = [[each.sample for each in ids.sample_ids] for _, ids in loader.with_ids(sample_id=Unpicklable)]
    assert told == [plain(batch) for batch in loader]


@pytest.mark.parametrize("batch_size", [None, 2])
def test_sample_ids_from_worker_processes_must_be_picklable(batch_size: int | None) -> None:
    loader = sluicegate.DataLoader(GeneratorStream([4]), batch_size, num_workers=1)
    found = loader.with_ids(sample_id=Unpicklable)
    for _ in range(4 // (batch_size or 1)):
        with pytest.raises(TypeError, match=r"sample_id: .* must be picklable .* it stays here"):
            next(found)
    assert next(found, None) is None


def name_of(sample: Any) -> str:
    return sample["name"]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("mode", [{}, {"seed": 5}], ids=["torch mode", "seed mode"])
@pytest.mark.parametrize("kind", ["native", "shuffle", "stateful stream"])
def test_last_ids_are_of_the_batch_that_was_received_last(kind: str, num_workers: int, mode: dict[str, Any]) -> None:
    if mode and kind == "stateful stream":
        pytest.skip("a stream has an order of its own")
    loader = make(kind, num_workers, **mode)
    assert loader.last_ids is None
    for number, batch in enumerate(loader):
        ids = loader.last_ids
        assert ids.batch_index == number
        assert [ids.worker * 1000 * (kind == "stateful stream") + index for index in ids.sample_indices] == plain(batch)


def test_ids_that_are_kept_do_not_change() -> None:
    found = pairs(make("shuffle", 2, seed=1))
    check(found)
    facts = [(ids.batch_index, ids.batch_id, ids.sample_indices.tolist()) for _, ids in found]
    assert len(set(map(str, facts))) == len(facts)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ids_skip_nothing_when_a_batch_fails(num_workers: int) -> None:
    loader = sluicegate.DataLoader(FailingOnFive(12), batch_size=2, num_workers=num_workers)
    found = []
    iterator = iter(loader)
    for _ in range(6):
        try:
            batch = plain(next(iterator))
        except ValueError:
            continue
        found.append((batch, loader.last_ids.batch_index, loader.last_ids.sample_indices.tolist()))
    assert found == [([2 * n, 2 * n + 1], n, [2 * n, 2 * n + 1]) for n in (0, 1, 3, 4, 5)]


class FailingOnFive(Indices):
    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise ValueError("sample 5 is broken")
        return index
