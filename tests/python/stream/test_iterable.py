"""Iterable-style datasets."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest
import torch

from checks.equality import assert_same, error_of
from doubles.datasets import BrokenStream, Plain, SizedStream, Stream, UnevenStream, UninitializedStream

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

SIZES = [0, 4, 20]


def flat(batches: list[torch.Tensor]) -> list[int]:
    return [item for batch in batches for item in batch.tolist()]


def test_items_come_in_the_datasets_order(data: ModuleType) -> None:
    assert_same(list(data.DataLoader(Stream(4), batch_size=None)), [0, 1, 2, 3])
    assert_same(list(data.DataLoader(Stream(3))), [torch.tensor([0]), torch.tensor([1]), torch.tensor([2])])


def test_the_last_batch_is_short_or_dropped(data: ModuleType) -> None:
    batches = list(data.DataLoader(Stream(20), batch_size=7))
    assert [len(batch) for batch in batches] == [7, 7, 6]
    assert flat(batches) == list(range(20))
    assert [len(batch) for batch in data.DataLoader(Stream(20), batch_size=7, drop_last=True)] == [7, 7]


def test_every_epoch_creates_a_new_iterator(data: ModuleType) -> None:
    loader = data.DataLoader(Stream(3), batch_size=2)
    assert_same(list(loader), list(loader))


def test_the_base_class_constructor_need_not_run(data: ModuleType) -> None:
    assert list(data.DataLoader(UninitializedStream(3), batch_size=None)) == [0, 1, 2]


def test_a_dataset_that_is_its_own_iterator_continues_at_its_position(data: ModuleType) -> None:
    class Once(data.IterableDataset):
        def __init__(self) -> None:
            self.items = iter(range(5))

        def __iter__(self) -> Any:
            return self.items

    loader = data.DataLoader(Once(), batch_size=2)
    assert flat([next(iter(loader))]) == [0, 1]
    assert flat(list(loader)) == [2, 3, 4]
    assert list(loader) == []


@pytest.mark.parametrize("prefetch_factor", [2, 4])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_uneven_workers_deliver_all_items(data: ModuleType, prefetch_factor: int, persistent_workers: bool) -> None:
    loader = data.DataLoader(
        UnevenStream(SIZES),
        batch_size=None,
        num_workers=3,
        prefetch_factor=prefetch_factor,
        persistent_workers=persistent_workers,
    )
    expected = [worker * 1000 + position for worker, size in enumerate(SIZES) for position in range(size)]
    for _ in range(2 if persistent_workers else 1):
        assert sorted(loader) == expected


@pytest.mark.parametrize("prefetch_factor", [2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_never_mixed_between_workers(data: ModuleType, prefetch_factor: int, drop_last: bool) -> None:
    loader = data.DataLoader(
        UnevenStream(SIZES), batch_size=7, num_workers=3, prefetch_factor=prefetch_factor, drop_last=drop_last
    )
    batches = list(loader)
    assert all(len({item // 1000 for item in batch.tolist()}) == 1 for batch in batches)
    sizes: dict[int, list[int]] = {1: [], 2: []}
    for batch in batches:
        sizes[batch[0].item() // 1000].append(len(batch))
    assert sizes == ({1: [], 2: [7, 7]} if drop_last else {1: [4], 2: [7, 7, 6]})


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_batches_alternate_between_workers_and_every_epoch_starts_at_the_first(
    data: ModuleType, persistent_workers: bool
) -> None:
    loader = data.DataLoader(UnevenStream([6, 6]), batch_size=2, num_workers=2, persistent_workers=persistent_workers)
    for _ in range(3):
        assert [batch[0].item() // 1000 for batch in loader] == [0, 1, 0, 1, 0, 1]


def test_without_order_a_stalled_worker_does_not_hold_up_the_other(data: ModuleType) -> None:
    loader = data.DataLoader(UnevenStream([5, 5], stall=1.5), batch_size=1, num_workers=2, in_order=False)
    assert [batch.item() // 1000 for batch in loader] == [0] * 5 + [1] * 5


@pytest.mark.parametrize("num_workers", [0, 1])
def test_added_and_chained_datasets_follow_each_other(data: ModuleType, num_workers: int) -> None:
    for chained in (Stream(2) + Stream(1), data.ChainDataset([Stream(2), Stream(1)])):
        batches = list(data.DataLoader(chained, batch_size=1, num_workers=num_workers))
        assert_same(batches, [torch.tensor([0]), torch.tensor([1]), torch.tensor([0])])


def test_chained_length_is_the_sum(data: ModuleType) -> None:
    assert len(data.DataLoader(data.ChainDataset([SizedStream(2), SizedStream(3)]), batch_size=2)) == 3


def test_chaining_a_map_style_dataset_fails_when_iterated(data: ModuleType) -> None:
    loader = data.DataLoader(data.ChainDataset([Stream(1), Plain(2)]), batch_size=1)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        next(iterator)


def test_no_length_warning_unless_len_was_called(data: ModuleType) -> None:
    loader = data.DataLoader(SizedStream(5), batch_size=None, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 10


def test_every_item_past_the_reported_length_warns(data: ModuleType) -> None:
    loader = data.DataLoader(SizedStream(5), batch_size=None, num_workers=2)
    before_len = iter(loader)
    assert len(loader) == 5
    iterator = iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            next(iterator)
        assert len(list(before_len)) == 10
    for count in range(6, 11):
        text = f"but {count} samples have been fetched. For multiprocessing data-loading, this"
        with pytest.warns(UserWarning, match=text):
            next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_length_warning_without_workers_blames_no_worker(data: ModuleType) -> None:
    class Understated(SizedStream):
        def __len__(self) -> int:
            return 2

    loader = data.DataLoader(Understated(3), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2\(when accessing len\(dataloader\)\)") as caught:
        assert list(loader) == [0, 1, 2]
    assert len(caught) == 1
    assert str(caught[0].message).endswith("but 3 samples have been fetched. ")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_in_iter_reaches_the_consumer(data: ModuleType, num_workers: int) -> None:
    loader = data.DataLoader(BrokenStream(), num_workers=num_workers)
    error = error_of(lambda: next(iter(loader)))
    assert type(error) is ValueError
    assert "no stream today" in str(error)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_in_the_stream_reaches_the_consumer_and_ends_the_stream(data: ModuleType, num_workers: int) -> None:
    iterator = iter(data.DataLoader(Stream(6, fail_at=3), batch_size=2, num_workers=num_workers))
    assert next(iterator).tolist() == [0, 1]
    error = error_of(lambda: next(iterator))
    assert type(error) is ValueError
    assert "item 3 is broken" in str(error)
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_exhausted_iterator_stays_exhausted(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(Stream(2), batch_size=4))
    next(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
