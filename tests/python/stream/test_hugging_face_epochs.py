"""Epochs of a stream of `datasets`, whose number processes share, in persistent workers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from typing import Any

import pytest

from sluicegate import DataLoader, ShuffleBuffer, shard_iterable

datasets = pytest.importorskip("datasets")

SIZE = 24
WRAPPERS = {
    "alone": lambda stream: stream,
    "sharded": shard_iterable,
    "shuffled": lambda stream: ShuffleBuffer(stream, 4),
}


def stream() -> Any:
    return datasets.Dataset.from_dict({"x": list(range(SIZE))}).to_iterable_dataset(num_shards=4)


def numbers(batches: Iterable[Any]) -> list[int]:
    return [number for batch in batches for number in batch["x"].tolist()]


def loader(wrapper: str, workers: int, **arguments: Any) -> Any:
    given = WRAPPERS[wrapper](stream())
    return DataLoader(given, 3, num_workers=workers, persistent_workers=workers > 0, **arguments)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_workers_have_an_epoch_of_their_own(wrapper: str) -> None:
    whole = stream()
    made = DataLoader(WRAPPERS[wrapper](whole), 3, num_workers=2, persistent_workers=True, seed=7)
    for _ in range(4):
        assert sorted(numbers(made)) == list(range(SIZE))
    # Each worker sets its own epoch: incrementing a shared one, they would skip epochs and mix their shards.
    assert whole.epoch == 0


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("wrapper", "workers", "snapshot", "seed", "epochs"),
    [
        ("alone", 0, 2, None, 1),
        ("sharded", 0, 2, 7, 2),
        ("alone", 1, 2, 7, 2),
        ("sharded", 1, 2, None, 1),
        ("alone", 2, 1, 7, 1),
        ("sharded", 2, 1, None, 2),
        ("alone", 2, 2, None, 2),
        ("sharded", 2, 2, 7, 1),
        ("alone", 2, 3, None, 1),
        ("sharded", 2, 3, 7, 2),
    ],
)
def test_a_state_between_two_epochs(wrapper: str, workers: int, snapshot: int, seed: int | None, epochs: int) -> None:
    def make() -> Any:
        return loader(wrapper, workers, snapshot_every_n_steps=snapshot, seed=seed)

    made = make()
    for _ in range(epochs):
        numbers(made)
    state = json.loads(json.dumps(made.state_dict()))
    rest = [numbers(made) for _ in range(2)]
    assert [sorted(epoch) for epoch in rest] == [list(range(SIZE))] * 2
    resumed = make()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*forward.*")
        resumed.load_state_dict(state)
        assert [numbers(resumed) for _ in range(2)] == rest
