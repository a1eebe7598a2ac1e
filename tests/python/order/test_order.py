"""Order and content of map-style loading."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest
import torch

import sluicegate
from cases.pairs import in_pairs
from checks.equality import assert_same
from doubles.datasets import BatchedRows, IndexTypes, Plain, Rows, WorkerProbe

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

WORKERS = [{}, {"num_workers": 2}, {"num_workers": 1, "prefetch_factor": 3}]


def name_of(value: Any) -> str | None:
    return ",".join(f"{key}={part}" for key, part in value.items()) or "default" if isinstance(value, dict) else None


def rows_of(data: ModuleType, native: bool, size: int = 10) -> Any:
    """Return the same samples as a Python dataset and as a native one."""
    plain = Rows(size)
    return data.TensorDataset(plain.values, torch.arange(size)) if native else plain


@pytest.mark.parametrize(("workers", "batch_size", "native"), in_pairs(WORKERS, [1, 2, 4], [False, True]), ids=name_of)
def test_sequential_batches_are_exact(data: ModuleType, native: bool, workers: dict[str, int], batch_size: int) -> None:
    dataset = rows_of(data, native)
    values = Rows(10).values
    batches = list(data.DataLoader(dataset, batch_size=batch_size, **workers))
    starts = range(0, 10, batch_size)
    expected = [[values[s : s + batch_size].clone(), torch.arange(10)[s : s + batch_size].clone()] for s in starts]
    assert_same(batches, expected)


@pytest.mark.parametrize("workers", WORKERS, ids=name_of)
def test_unbatched_samples_are_not_collated(data: ModuleType, workers: dict[str, int]) -> None:
    samples = list(data.DataLoader(Rows(5), batch_size=None, **workers))
    assert [type(sample) for sample in samples] == [list] * 5
    assert [label for _, label in samples] == [0, 1, 2, 3, 4]
    assert all(type(label) is int for _, label in samples)
    assert all(torch.equal(row, Rows(5).values[label]) for row, label in samples)


@pytest.mark.parametrize(
    ("workers", "batch_size", "native"), in_pairs(WORKERS, [1, 2, None], [False, True]), ids=name_of
)
def test_shuffle_yields_every_sample_once_with_its_fields_together(
    data: ModuleType, native: bool, workers: dict[str, int], batch_size: int | None
) -> None:
    loader = data.DataLoader(rows_of(data, native), batch_size=batch_size, shuffle=True, **workers)
    labels: list[int] = []
    for rows, label in loader:
        found = torch.atleast_1d(torch.as_tensor(label))
        assert torch.equal(torch.atleast_2d(rows), Rows(10).values[found])
        labels += found.tolist()
    assert labels != list(range(10))
    assert sorted(labels) == list(range(10))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=name_of)
def test_sampler_is_any_sized_iterable_and_batch_sampler_any_iterable_of_tuples(
    data: ModuleType, native: bool, workers: dict[str, int]
) -> None:
    dataset = rows_of(data, native)
    labels = [label.tolist() for _, label in data.DataLoader(dataset, sampler=range(7, 2, -1), batch_size=2, **workers)]
    assert labels == [[7, 6], [5, 4], [3]]
    uneven = [(0, 1), (2, 3, 4, 9), (5,)]
    labels = [label.tolist() for _, label in data.DataLoader(dataset, batch_sampler=uneven, **workers)]
    assert labels == [[0, 1], [2, 3, 4, 9], [5]]


class RestartingSampler:
    """Its own iterator, which starts again whenever an iterator is requested."""

    def __iter__(self) -> RestartingSampler:
        self.following = 0
        return self

    def __next__(self) -> int:
        self.following += 1
        if self.following > 10:
            raise StopIteration
        return self.following - 1


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=name_of)
def test_a_sampler_that_restarts_in_iter_is_asked_as_often_as_by_torch(
    data: ModuleType, native: bool, workers: dict[str, int]
) -> None:
    loader = data.DataLoader(
        rows_of(data, native), batch_size=3, sampler=RestartingSampler(), drop_last=True, **workers
    )
    for _ in range(2):
        labels = [label.tolist() for _, label in itertools.islice(loader, 5)]
        assert labels == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_sampler_that_restarts_in_iter_is_listed_once_with_a_seed() -> None:
    loader = sluicegate.DataLoader(Rows(10), batch_size=3, sampler=RestartingSampler(), drop_last=True, seed=5)
    assert list(itertools.islice(loader.sampler, 12)) == list(range(10))


def test_workers_that_inherit_nothing_take_list_samplers_and_a_bound_method(data: ModuleType) -> None:
    dataset = WorkerProbe(6)
    uneven = [(0, 1), (2, 3, 4), (5,)]
    loader = data.DataLoader(
        dataset, batch_sampler=uneven, num_workers=1, multiprocessing_context="forkserver", worker_init_fn=dataset.mark
    )
    batches = list(loader)
    assert [batch[0].tolist() for batch in batches] == [[0, 1], [2, 3, 4], [5]]
    assert [batch[2].tolist() for batch in batches] == [[0, 0], [0, 0, 0], [0]]
    assert dataset.marked_by == -1


DATASETS = [[0, 10, 20, 30, 40], range(0, 50, 10), torch.arange(0, 50, 10), Plain(5)]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("dataset", DATASETS, ids=["list", "range", "tensor", "plain object"])
def test_a_dataset_needs_no_base_class(data: ModuleType, dataset: Any, num_workers: int) -> None:
    batches = list(data.DataLoader(dataset, batch_size=2, num_workers=num_workers))
    assert_same(batches, [torch.tensor([0, 10]), torch.tensor([20, 30]), torch.tensor([40])])


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("shuffle", [False, True])
def test_indices_through_random_split_are_python_ints(data: ModuleType, num_workers: int, shuffle: bool) -> None:
    part, _ = data.random_split(IndexTypes(10), [6, 4])
    for batch in data.DataLoader(part, batch_size=2, shuffle=shuffle, num_workers=num_workers):
        assert batch == ["builtins.int"] * 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_unbatched_lists_from_the_sampler_are_one_index(data: ModuleType, num_workers: int) -> None:
    sampler = data.BatchSampler(data.SequentialSampler(range(10)), 4, False)
    loader = data.DataLoader(torch.arange(10) * 2, batch_size=None, sampler=sampler, num_workers=num_workers)
    batches = list(loader)
    assert_same(batches, [torch.arange(0, 8, 2), torch.arange(8, 16, 2), torch.arange(16, 20, 2)])
    assert not any(batch.is_pinned() for batch in batches)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_expert_idiom_of_a_batch_sampler_as_sampler(data: ModuleType, num_workers: int) -> None:
    dataset = data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    sampler = data.BatchSampler(range(10), 4, True)
    loader = data.DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=num_workers)
    expected = [[torch.arange(20.0).view(10, 2)[s : s + 4].clone(), torch.arange(s, s + 4)] for s in (0, 4)]
    assert_same([list(batch) for batch in loader], expected)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_ints_stay_ints_unbatched_and_become_int64_in_batches(data: ModuleType, num_workers: int) -> None:
    assert_same(list(data.DataLoader([1, 2], batch_size=None, num_workers=num_workers)), [1, 2])
    expected = (torch.tensor([1, 2]), torch.tensor([3]))
    assert_same(tuple(data.DataLoader([1, 2, 3], batch_size=2, num_workers=num_workers)), expected)


@pytest.mark.parametrize("batch_size", [8, 32, 64])
def test_batch_i_is_made_by_worker_i_modulo_their_number(data: ModuleType, batch_size: int) -> None:
    dataset = WorkerProbe(batch_size * 7)
    loader = data.DataLoader(
        dataset,
        batch_size=batch_size,
        num_workers=3,
        timeout=5,
        worker_init_fn=dataset.mark,
        multiprocessing_context="fork",
    )
    for number, (indices, makers, marks, _) in enumerate(loader):
        assert indices.tolist() == list(range(number * batch_size, (number + 1) * batch_size))
        assert set(makers.tolist()) == set(marks.tolist()) == {number % 3}
    assert dataset.marked_by == -1


def test_order_is_kept_although_the_first_worker_is_slow(data: ModuleType) -> None:
    batches = list(data.DataLoader(WorkerProbe(6, slow_first=0.5), batch_size=1, num_workers=2, in_order=True))
    assert [batch[0].item() for batch in batches] == [0, 1, 2, 3, 4, 5]
    assert [batch[1].item() for batch in batches] == [0, 1, 0, 1, 0, 1]


@pytest.mark.prefetch
def test_without_order_tasks_go_to_workers_that_have_room(data: ModuleType) -> None:
    loader = data.DataLoader(
        WorkerProbe(10, slow_first=1.5), batch_size=1, num_workers=2, prefetch_factor=2, in_order=False
    )
    assert [batch[0].item() for batch in loader] == [1, 3, 4, 5, 6, 7, 8, 9, 0, 2]


def test_collate_fn_gets_exactly_what_getitems_returns(data: ModuleType) -> None:
    seen: list[Any] = []

    def collate(samples: Any) -> Any:
        seen.append(samples)
        return samples

    batches = list(data.DataLoader(BatchedRows(4), batch_size=2, collate_fn=collate))
    assert [label for batch in batches for _, label in batch] == [0, 1, 2, 3]
    assert all(batch is samples for batch, samples in zip(batches, seen, strict=True))
    assert torch.equal(batches[0][1][0], Rows(4).values[1] + 0.5)


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_nested_dicts_keep_their_keys_and_batch_their_leaves(data: ModuleType, arguments: dict[str, Any]) -> None:
    samples = [{"a": torch.tensor([index]), "b": {"c": index, "d": str(index)}} for index in range(4)]
    loader = data.DataLoader(samples, batch_size=2, **arguments)
    for _ in range(2):
        first, second = list(loader)
        assert_same(first, {"a": torch.tensor([[0], [1]]), "b": {"c": torch.tensor([0, 1]), "d": ["0", "1"]}})
        assert_same(second["b"]["d"], ["2", "3"])
