"""Streams whose iterator also has a state, and changes the stream's."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate


class CountingIterator:
    """Increments the epoch of its stream at the end; both have a state."""

    def __init__(self, stream: CountedByItsIterator) -> None:
        self.stream, self.at = stream, 0
        self.order = random.Random(stream.epoch).sample(range(6), 6)

    def __iter__(self) -> CountingIterator:
        return self

    def __next__(self) -> int:
        if self.at == len(self.order):
            self.stream.epoch += 1
            raise StopIteration
        self.at += 1
        return self.order[self.at - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "order": self.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.order = state["at"], state["order"]


class CountedByItsIterator(torch.utils.data.IterableDataset):
    epoch = 0

    def __iter__(self) -> CountingIterator:
        return CountingIterator(self)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]


# With a batch size of 4, the end is noticed with the last batch. With workers, every two values of different parameters
# occur together.
@pytest.mark.parametrize(
    ("arguments", "received", "batch_size"),
    [
        *itertools.product([{}, {"seed": 7}], [1, 2, None], [3, 4]),
        ({"num_workers": 1}, 1, 3),
        ({"num_workers": 1}, 2, 4),
        ({"num_workers": 1}, None, 3),
        ({"num_workers": 1, "persistent_workers": True}, 1, 4),
        ({"num_workers": 1, "persistent_workers": True}, 2, 3),
        ({"num_workers": 1, "persistent_workers": True}, None, 4),
    ],
    ids=str,
)
def test_an_iterator_counts_the_epochs_of_its_stream_once(
    arguments: dict[str, Any], received: int | None, batch_size: int
) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(CountedByItsIterator(), batch_size, **arguments)

    def numbers(batches: Any) -> list[Any]:
        return [batch.tolist() for batch in batches]

    made = make()
    iterator = iter(made)
    for _ in range(received or 0):
        next(iterator)
    if received is None:
        numbers(iterator)
    state = json.loads(json.dumps(made.state_dict()))
    rest = [numbers(iterator if received is not None else made), numbers(made)]
    resumed = make()
    resumed.load_state_dict(state)
    assert [numbers(resumed), numbers(resumed)] == rest
