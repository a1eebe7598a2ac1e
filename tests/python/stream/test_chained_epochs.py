"""Streams of this package in torch's `ChainDataset`: the loader sets their epoch, as it does for one alone."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from torch.utils.data import ChainDataset

from doubles.streams import GeneratorStream, Plain
from sluicegate import DataLoader, ShuffleBuffer, shard_iterable, split_by_class

WORKERS: dict[str, dict[str, Any]] = {
    "none": {},
    "thread": {"num_workers": 1, "worker_type": "thread"},
    "process": {"num_workers": 1},
    "persistent": {"num_workers": 1, "persistent_workers": True},
}


def buffers() -> ChainDataset[Any]:
    first, second = ShuffleBuffer(GeneratorStream(12), size=6, seed=5), ShuffleBuffer(Plain(9), size=4, seed=6)
    return ChainDataset([ChainDataset([first]), second])


STREAMS = {"chain": buffers, "shards of a chain": lambda: shard_iterable(buffers())}


def epoch_of(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.filterwarnings("ignore:.* is fast-forwarded")
@pytest.mark.filterwarnings("ignore:.*ChainDataset has no state_dict")
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("workers", WORKERS)
def test_a_chain_resumes_in_a_later_epoch(workers: str, stream: str, seed: int | None) -> None:
    def made() -> DataLoader[Any]:
        return DataLoader(STREAMS[stream](), batch_size=6, seed=seed, **WORKERS[workers])

    loader = made()
    whole, between = [], []
    for _ in range(3):
        between.append(json.loads(json.dumps(loader.state_dict())))
        whole.append(epoch_of(loader))
    assert whole[0] != whole[1] != whole[2]
    loader = made()
    epoch_of(loader)
    iterator = iter(loader)
    head = next(iterator).tolist()
    within = json.loads(json.dumps(loader.state_dict()))
    del iterator
    again = made()
    again.load_state_dict(within)
    assert [[head, *epoch_of(again)], epoch_of(again)] == whole[1:]
    again = made()
    again.load_state_dict(between[2])
    assert epoch_of(again) == whole[2]
    again = made()
    again.set_epoch(1)
    assert [epoch_of(again), epoch_of(again)] == whole[1:]


def test_an_iterator_of_streams_is_left_to_the_chain() -> None:
    def made() -> ChainDataset[Any]:
        chained: Any = iter([ShuffleBuffer(range(4), size=2, seed=5)])
        return ChainDataset(chained)

    # Not `list`, which asks for the length first, and that reads the iterator.
    assert sorted(number for number in DataLoader(made(), batch_size=None)) == [0, 1, 2, 3]
    loaders = split_by_class(made(), lambda number: number % 2, None, classes=[0, 1])
    assert [sorted(number for number in loaders[name]) for name in (0, 1)] == [[0, 2], [1, 3]]


def test_other_streams_in_a_chain_get_no_epoch() -> None:
    class Told(Plain):
        def set_epoch(self, epoch: int) -> None:
            raise AssertionError

    loader = DataLoader(ChainDataset([Told(2), ShuffleBuffer(range(1), size=2, seed=5)]), batch_size=None, seed=3)
    assert [list(loader), list(loader)] == [[0, 1, 0]] * 2


def test_split_by_class_resumes_in_a_later_pass_over_a_chain() -> None:
    def made() -> Any:
        return split_by_class(buffers(), lambda number: number % 2, None, classes=[0, 1])

    def read(loaders: Any) -> list[list[int]]:
        return [list(loaders[name]) for name in (0, 1)]

    loaders = made()
    first, second = read(loaders), read(loaders)
    assert first != second
    loaders = made()
    read(loaders)
    iterator = iter(loaders[0])
    head = next(iterator)
    again = made()
    again.load_state_dict(json.loads(json.dumps(loaders.state_dict())))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the stream of a split_by_class is fast-forwarded")
        rest = read(again)
    assert [[head, *rest[0]], rest[1]] == second
