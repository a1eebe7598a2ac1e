"""Loaders whose states were recorded from torchdata, recreated to resume them.

Each case has everything that determined its state: dataset, arguments, seeds, and the batches received before.
`package` is a namespace with `DataLoader` and `RandomSampler`: torchdata's when recording, ours when reading.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset, Sampler, get_worker_info

# The global seed before a recorded loader is created, and before the loader that resumes.
SEED, OTHER_SEED = 3, 77


class Numbers(Dataset):
    """Sample i is i."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return index


class NoisyNumbers(Numbers):
    """Sample i is i and a draw from the global generator of the process that fetches it."""

    def __getitem__(self, index: int) -> Any:
        return [index, int(torch.randint(1 << 30, ()))]


class CountingNumbers(Numbers):
    """Sample i is i and the number of samples this copy of the dataset has fetched so far, which is its state."""

    fetched = 0

    def __getitem__(self, index: int) -> Any:
        self.fetched += 1
        return [index, self.fetched]

    def state_dict(self) -> dict[str, Any]:
        return {"fetched": self.fetched, "by": {7: [self.fetched]}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["by"][7] == [state["fetched"]]
        self.fetched = state["fetched"]


def lengths_of(worker_lengths: list[int]) -> tuple[int, int]:
    """Return the id of the calling worker, and the length of its part."""
    info = get_worker_info()
    worker = info.id if info is not None else 0
    return worker, worker_lengths[worker]


class Stream(IterableDataset):
    """Worker w yields 100 * w, 100 * w + 1, … up to its length, and keeps no state."""

    def __init__(self, *worker_lengths: int) -> None:
        self.worker_lengths = list(worker_lengths)

    def __iter__(self) -> Any:
        return self.samples(*lengths_of(self.worker_lengths))

    def samples(self, worker: int, length: int) -> Iterator[int]:
        for ordinal in range(length):
            yield 100 * worker + ordinal


class CountingIterator:
    def __init__(self, worker: int, length: int) -> None:
        self.worker, self.length, self.yielded = worker, length, 0

    def __iter__(self) -> CountingIterator:
        return self

    def __next__(self) -> int:
        if self.yielded == self.length:
            raise StopIteration
        self.yielded += 1
        return 100 * self.worker + self.yielded - 1

    def state_dict(self) -> dict[str, Any]:
        return {"yielded": self.yielded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.yielded = state["yielded"]


class StreamOfStatefulIterators(Stream):
    """The same samples from an iterator that has a state; the dataset has none."""

    def samples(self, worker: int, length: int) -> CountingIterator:
        return CountingIterator(worker, length)


class StatefulStream(Stream):
    """The same samples from a generator; the dataset has the state, from which the next `__iter__` continues."""

    yielded = 0

    def samples(self, worker: int, length: int) -> Iterator[int]:
        while self.yielded < length:
            self.yielded += 1
            yield 100 * worker + self.yielded - 1
        self.yielded = 0

    def state_dict(self) -> dict[str, Any]:
        return {"yielded": self.yielded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.yielded = state["yielded"]


class OwnIterator(Stream):
    """The same samples from a dataset that is its own iterator, with a state that depends on objects of `__iter__`."""

    def __iter__(self) -> OwnIterator:
        self.iterator = CountingIterator(*lengths_of(self.worker_lengths))
        return self

    def __next__(self) -> int:
        return next(self.iterator)

    def state_dict(self) -> dict[str, Any]:
        return {"yielded": self.iterator.yielded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.iterator.yielded = state["yielded"]


class StatefulSampler(Sampler):
    """Yields n - 1 down to 0; the sampler has the state, from which the next `__iter__` continues."""

    def __init__(self, length: int) -> None:
        self.length, self.drawn = length, 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        while self.drawn < self.length:
            self.drawn += 1
            yield self.length - self.drawn
        self.drawn = 0

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = state["drawn"]


class SamplerOfStatefulIterators(Sampler):
    """Yields 0 to n - 1 from an iterator that has the state."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        return CountingIterator(0, self.length)


class StatefulBatchSampler(StatefulSampler):
    """Yields pairs, the last samples first."""

    def __iter__(self) -> Iterator[Any]:
        for index in super().__iter__():
            yield [2 * index, 2 * index + 1]


@dataclasses.dataclass
class Case:
    """How a loader was created, and its position when its state was taken.

    Args:
        make: creates the loader, given a module.
        received: batches received in the epoch before the state was taken; None for all, and the end of the epoch too.
        epochs: whole epochs before that.
    """

    make: Callable[[Any], Any]
    received: int | None
    epochs: int = 0


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def sequential(package: Any, length: int = 20, **arguments: Any) -> Any:
    return package.DataLoader(Numbers(length), batch_size=3, **arguments)


def shuffled(package: Any, **arguments: Any) -> Any:
    return package.DataLoader(Numbers(10), **{"batch_size": 3, "shuffle": True, **arguments})


def sampled(package: Any, num_workers: int = 0, **arguments: Any) -> Any:
    sampler = package.RandomSampler(Numbers(10), generator=generator(), **arguments)
    return package.DataLoader(Numbers(10), batch_size=4, sampler=sampler, num_workers=num_workers)


CASES = {
    "sequential": Case(lambda package: sequential(package, 10), received=2),
    "sequential, 2 workers, between snapshots": Case(
        lambda package: sequential(package, num_workers=2, snapshot_every_n_steps=3), received=5
    ),
    "sequential, no snapshots": Case(
        lambda package: sequential(package, num_workers=2, snapshot_every_n_steps=0), received=5
    ),
    "shuffled": Case(shuffled, received=2),
    "shuffled, 2 workers": Case(lambda package: shuffled(package, num_workers=2), received=3),
    "shuffled, samples as they are": Case(lambda package: shuffled(package, batch_size=None), received=4),
    "shuffled, drop_last, 3 workers": Case(
        lambda package: shuffled(package, drop_last=True, num_workers=3), received=1
    ),
    "shuffled with the loader's generator": Case(lambda package: shuffled(package, generator=generator()), received=2),
    "shuffled with the loader's generator, 2 workers": Case(
        lambda package: shuffled(package, generator=generator(), num_workers=2), received=2
    ),
    "shuffled, ended, persistent workers": Case(
        lambda package: shuffled(package, num_workers=2, persistent_workers=True), received=None
    ),
    "shuffled with the loader's generator, persistent workers": Case(
        lambda package: shuffled(package, generator=generator(), num_workers=2, persistent_workers=True), received=2
    ),
    "shuffled, before iter": Case(lambda package: shuffled(package, num_workers=2), received=0),
    "shuffled, second epoch, between snapshots": Case(
        lambda package: shuffled(package, num_workers=2, snapshot_every_n_steps=2), received=3, epochs=1
    ),
    "shuffled, last batch received": Case(shuffled, received=4),
    "shuffled, ended": Case(shuffled, received=None),
    "shuffled, ended, 2 workers": Case(lambda package: shuffled(package, num_workers=2), received=None),
    "with replacement": Case(lambda package: sampled(package, replacement=True, num_samples=50), received=9),
    "with replacement, 2 workers": Case(
        lambda package: sampled(package, replacement=True, num_samples=50, num_workers=2), received=9
    ),
    "more samples than the dataset has": Case(lambda package: sampled(package, num_samples=25), received=4),
    "stateful sampler": Case(
        lambda package: sequential(package, 10, sampler=StatefulSampler(10), num_workers=2), received=2
    ),
    "stateful sampler, last batch received": Case(
        lambda package: sequential(package, 10, sampler=StatefulSampler(10), num_workers=2), received=4
    ),
    "sampler of stateful iterators": Case(
        lambda package: sequential(package, 10, sampler=SamplerOfStatefulIterators(10)), received=2
    ),
    "stateful sampler, samples as they are": Case(
        lambda package: package.DataLoader(Numbers(10), batch_size=None, sampler=StatefulSampler(10)), received=2
    ),
    "batch sampler": Case(
        lambda package: package.DataLoader(Numbers(10), batch_sampler=BatchSampler(range(10), 3, True), num_workers=2),
        received=2,
    ),
    "stateful batch sampler": Case(
        lambda package: package.DataLoader(Numbers(10), batch_sampler=StatefulBatchSampler(5), num_workers=2),
        received=3,
    ),
    "stateful dataset": Case(lambda package: package.DataLoader(CountingNumbers(10), batch_size=2), received=2),
    "stateful dataset, 2 workers, between snapshots": Case(
        lambda package: package.DataLoader(CountingNumbers(20), batch_size=2, num_workers=2, snapshot_every_n_steps=3),
        received=7,
    ),
    "random samples, 2 workers": Case(
        lambda package: package.DataLoader(NoisyNumbers(8), batch_size=2, num_workers=2), received=1
    ),
    "stream": Case(lambda package: package.DataLoader(Stream(10), batch_size=3), received=2),
    "stream, 2 uneven workers": Case(
        lambda package: package.DataLoader(Stream(4, 9), batch_size=2, num_workers=2), received=5
    ),
    "stream of stateful iterators": Case(
        lambda package: package.DataLoader(StreamOfStatefulIterators(10), batch_size=3), received=2
    ),
    "stream of stateful iterators, 3 uneven workers": Case(
        lambda package: package.DataLoader(StreamOfStatefulIterators(3, 9, 6), batch_size=2, num_workers=3), received=6
    ),
    "stream of stateful iterators, ended": Case(
        lambda package: package.DataLoader(StreamOfStatefulIterators(4, 6), batch_size=2, num_workers=2), received=None
    ),
    "stateful stream": Case(lambda package: package.DataLoader(StatefulStream(10), batch_size=3), received=2),
    "stateful stream, 2 workers, between snapshots": Case(
        lambda package: package.DataLoader(
            StatefulStream(12, 9), batch_size=2, num_workers=2, snapshot_every_n_steps=4
        ),
        received=7,
    ),
    "stateful stream, 2 workers, last batch received": Case(
        lambda package: package.DataLoader(StatefulStream(5, 3), batch_size=2, num_workers=2), received=5
    ),
    "stream that is its own iterator": Case(
        lambda package: package.DataLoader(OwnIterator(10), batch_size=3), received=2
    ),
    "stream that is its own iterator, 2 workers": Case(
        lambda package: package.DataLoader(OwnIterator(5, 5), batch_size=None, num_workers=2), received=3
    ),
}

# States that torchdata 0.8 to 0.10 store differently.
OLD_CASES = {
    "0.10: sequential, 2 workers, second epoch before its first batch": Case(
        lambda package: sequential(package, 10, num_workers=2), received=0, epochs=1
    ),
    "0.10: shuffled": Case(shuffled, received=2),
    "0.10: shuffled, 2 workers, between snapshots": Case(
        lambda package: shuffled(package, num_workers=2, snapshot_every_n_steps=2), received=3
    ),
    "0.10: shuffled with the loader's generator": Case(
        lambda package: shuffled(package, generator=generator()), received=2
    ),
    "0.10: shuffled with the loader's generator, 2 workers": Case(
        lambda package: shuffled(package, generator=generator(), num_workers=2), received=2
    ),
    "0.10: shuffled, second epoch before its first batch": Case(shuffled, received=0, epochs=1),
    "0.10: shuffled, samples as they are": Case(lambda package: shuffled(package, batch_size=None), received=4),
    "0.10: shuffled, ended": Case(shuffled, received=None),
    "0.10: with replacement": Case(lambda package: sampled(package, replacement=True, num_samples=50), received=9),
    "0.10: stateful sampler": Case(
        lambda package: sequential(package, 10, sampler=StatefulSampler(10), num_workers=2), received=2
    ),
    "0.10: stream of stateful iterators, 2 workers": Case(
        lambda package: package.DataLoader(StreamOfStatefulIterators(3, 9), batch_size=2, num_workers=2), received=4
    ),
}
