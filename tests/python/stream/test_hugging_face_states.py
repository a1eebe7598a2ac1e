"""Streams of Hugging Face's `datasets` that are made of several parts, resumed in workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate import DataLoader

datasets = pytest.importorskip("datasets")
BUFFER = 10

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def part(start: int, length: int, shards: int) -> Any:
    return datasets.Dataset.from_dict({"i": list(range(start, start + length))}).to_iterable_dataset(num_shards=shards)


STREAMS: dict[str, Callable[[], Any]] = {
    "concatenated": lambda: datasets.concatenate_datasets([part(0, 20, 2), part(100, 24, 2)]),
    "interleaved": lambda: datasets.interleave_datasets([part(0, 20, 2), part(100, 23, 3)]),
    "drawn": lambda: datasets.interleave_datasets([part(0, 20, 2), part(100, 23, 3)], probabilities=[0.3, 0.7], seed=3),
    "mapped": lambda: part(0, 46, 4).map(lambda sample: {"i": sample["i"] * 2}),
}


def halves(make: Callable[[], Any], received: int, **arguments: Any) -> tuple[list[int], list[int], list[int]]:
    """Return the samples received, those that follow, and those that follow after a resume."""

    def samples(batches: Any) -> list[int]:
        return [sample for batch in batches for sample in batch["i"].tolist()]

    loaders = [DataLoader(make(), 4, **arguments) for _ in range(2)]
    iterator = iter(loaders[0])
    first = samples(next(iterator) for _ in range(received))
    loaders[1].load_state_dict(json.loads(json.dumps(loaders[0].state_dict())))
    return first, samples(iterator), samples(loaders[1])


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("received", [1, 2, 5])
@pytest.mark.parametrize("stream", STREAMS)
def test_streams_of_several_parts_resume_in_workers(stream: str, received: int, persistent_workers: bool) -> None:
    _, rest, resumed = halves(STREAMS[stream], received, num_workers=2, persistent_workers=persistent_workers)
    assert resumed == rest


@pytest.mark.filterwarnings("ignore:load_state_dict. the states of datasets.IterableDataset")
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_shuffle_buffer_over_several_shards_resumes_without_its_content(num_workers: int) -> None:
    first, rest, resumed = halves(
        lambda: part(0, 46, 4).shuffle(seed=3, buffer_size=BUFFER), 5, num_workers=num_workers
    )
    assert sorted(first + rest) == list(range(46))
    assert len(rest) - BUFFER * max(num_workers, 1) <= len(resumed) < len(rest)
    assert len(set(resumed)) == len(resumed)


def test_states_of_concatenated_streams_that_do_not_fit_are_refused() -> None:
    """The state of the third worker is after samples that it has not yielded."""

    def make() -> Any:
        return datasets.concatenate_datasets([part(0, 20, 2).map(dict), part(100, 23, 3)])

    with pytest.raises(KeyError, match="shard_idx"):
        halves(make, 3, num_workers=3)
