"""Random loaders of everything that has a position (samplers, batch samplers, streams), with samples left out.

This is a separate module, so that the process that resumes them can create them too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

import sluicegate
from cases.loader_kinds import plain, take
from checks.global_draws import seed_globals
from doubles.stateful import DrawingRows, GeneratorStream, Indices, PlainStream

SIZE = 29
LABELS = [index * 7 % 10 // 3 for index in range(SIZE)]
LENGTHS = [1 + index * 11 % 17 for index in range(SIZE)]
WEIGHTS = [1.0 + index % 5 for index in range(SIZE)]

SAMPLERS: dict[str, Callable[[int | None], Any]] = {
    "sequential": lambda seed: sluicegate.SequentialSampler(range(SIZE)),
    "random": lambda seed: sluicegate.RandomSampler(range(SIZE), seed=seed),
    "replacement": lambda seed: sluicegate.RandomSampler(range(SIZE), True, 40, seed=seed),
    "more than all": lambda seed: sluicegate.RandomSampler(range(SIZE), num_samples=70, seed=seed),
    "subset": lambda seed: sluicegate.SubsetRandomSampler(range(2, SIZE, 2), seed=seed),
    "weighted": lambda seed: sluicegate.WeightedRandomSampler(WEIGHTS, 33, seed=seed),
    "weighted, distinct": lambda seed: sluicegate.WeightedRandomSampler(WEIGHTS, 20, False, seed=seed),
    "blocks": lambda seed: sluicegate.BlockShuffleSampler(range(SIZE), block=4, window=3, seed=seed),
    "classes": lambda seed: sluicegate.ClassSampler(LABELS, [2, 0], shuffle=True, seed=seed),
    "mixture": lambda seed: sluicegate.MixtureSampler([20, 9], [0.4, 0.6], num_samples=31, seed=seed),
    "repeat": lambda seed: sluicegate.RepeatSampler(sluicegate.RandomSampler(range(SIZE), seed=seed), 2, seed=seed),
    "in a row": lambda seed: sluicegate.RepeatSampler(
        sluicegate.RandomSampler(range(SIZE), seed=seed), 3, interleaved=True, num_samples=35, seed=seed
    ),
}
BATCH_SAMPLERS: dict[str, Callable[[int | None], Any]] = {
    "balanced": lambda seed: sluicegate.BalancedBatchSampler(LABELS, 2, 2, seed=seed),
    "stratified": lambda seed: sluicegate.StratifiedBatchSampler(LABELS, 4, seed=seed),
    "lengths": lambda seed: sluicegate.LengthBucketBatchSampler(LENGTHS, batch_size=3, seed=seed),
    "tokens": lambda seed: sluicegate.LengthBucketBatchSampler(LENGTHS, max_tokens=40, window=16, seed=seed),
    "batches": lambda seed: sluicegate.BatchSampler(sluicegate.RandomSampler(range(SIZE), seed=seed), 5, True),
}


class DrawingItems(PlainStream):
    """Draws a random number with every item, and has no state."""

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            yield item, random.random()


STREAMS: dict[str, Callable[[], Any]] = {
    "stateful": lambda: GeneratorStream([13, 11, 12]),
    "drawing": lambda: DrawingItems([13, 11, 12]),
    "buffer": lambda: sluicegate.ShuffleBuffer(GeneratorStream([13, 11, 12]), 4),
    "buffer with a seed": lambda: sluicegate.ShuffleBuffer(DrawingItems([13, 11, 12]), 5, seed=3),
    "parts": lambda: sluicegate.shard_iterable(range(30)),
    "buffer of parts": lambda: sluicegate.ShuffleBuffer(sluicegate.shard_iterable(range(30)), 6, seed=8),
}


class ResumeCase:
    """One random loader, determined by its number."""

    def __init__(self, number: int) -> None:
        choose = random.Random(number)
        self.seed = choose.choice([None, number, 2**64 - 1 - number])
        self.own_seed = choose.choice([None, None, number + 1])
        self.num_workers = choose.choice([0, 0, 0, 0, 1 + number % 2])
        self.is_stream = choose.random() < 0.3
        self.arguments: dict[str, Any] = {}
        if self.is_stream:
            self.what = choose.choice(list(STREAMS))
            self.arguments["batch_size"] = choose.choice([None, 1, 3])
        else:
            self.what = choose.choice([*SAMPLERS, *BATCH_SAMPLERS])
            self.dataset = choose.choice(["native", "rows", "drawing"])
            if self.what in SAMPLERS:
                self.arguments["batch_size"] = choose.choice([None, 1, 4])
        if self.num_workers:
            self.arguments["persistent_workers"] = choose.random() < 0.3
        if self.seed is not None and not self.is_stream and choose.random() < 0.4:
            self.arguments |= {"shard": choose.choice([(0, 2), (1, 2), (2, 3)])}
            self.arguments |= {"remainder": choose.choice(["pad", "drop", "exact"])}
        self.batches_left_out = choose.choice([[], [], [1, 4]])
        self.samples_left_out = choose.choice([[], [], [3, 8, 9, 20]]) if not self.is_stream else []
        # A stream needs the same number of workers, as does a dataset whose draws are not seeded.
        may_move = not self.is_stream and (self.dataset != "drawing" or self.seed is not None)
        self.resumed_workers = choose.choice([0, 2]) if may_move and self.num_workers else self.num_workers
        stops = choose.sample(range(12), 3)
        # Workers are slow to start.
        self.stops = stops[:1] if self.num_workers else sorted(stops)

    def loader(self, num_workers: int) -> Any:
        """Return the loader, with nothing left out."""
        arguments = dict(self.arguments)
        if not num_workers:
            arguments.pop("persistent_workers", None)
        if self.is_stream:
            return sluicegate.DataLoader(STREAMS[self.what](), seed=self.seed, num_workers=num_workers, **arguments)
        dataset: Any = {"native": lambda: torch.arange(SIZE), "rows": Indices, "drawing": DrawingRows}[self.dataset]
        dataset = dataset() if self.dataset == "native" else dataset(SIZE)
        if self.what in SAMPLERS:
            arguments["sampler"] = SAMPLERS[self.what](self.own_seed)
        else:
            arguments["batch_sampler"] = BATCH_SAMPLERS[self.what](self.own_seed)
        return sluicegate.DataLoader(dataset, seed=self.seed, num_workers=num_workers, **arguments)

    def states(self) -> list[tuple[dict[str, Any], list[Any]]]:
        """Return each state, at the stops of the first epoch and at its end, with the batches of two epochs after."""
        told: list[Any] = []
        seed_globals(1)
        loader = self.loader(self.num_workers)
        loader.skip(self.batches_left_out, epoch=0)
        if self.samples_left_out:
            loader.skip_samples(self.samples_left_out)
        first: list[Any] = []
        iterator = iter(loader)
        for stop in self.stops:
            first += take(iterator, stop - len(first))
            # If the epoch was found to be over, the next epoch follows.
            told.append((json.loads(json.dumps(loader.state_dict())), len(first) if len(first) == stop else None))
        first += take(iterator)
        at_end = json.loads(json.dumps(loader.state_dict()))
        second = take(loader)
        follows = ((state, [second] if count is None else [first[count:], second]) for state, count in told)
        return [*follows, (at_end, [second])]

    def follows(self, state: dict[str, Any], epochs: int) -> list[list[Any]]:
        """Return the batches that follow `state`."""
        seed_globals(1000)
        loader = self.loader(self.resumed_workers)
        loader.load_state_dict(state)
        return [take(loader) for _ in range(epochs)]


def read_together(make_rank: Callable[[int], Any], world_size: int) -> list[list[Any]]:
    """Return, for each step, what each rank reads: (indices, which are valid); ranks are read one after another."""
    ranks = []
    for rank in range(world_size):
        pairs = []
        for batch, ids in make_rank(rank).with_ids():
            assert numpy.array_equal(numpy.ravel(plain(batch)), ids.sample_indices)
            pairs.append((ids.sample_indices.tolist(), ids.valid.tolist()))
        ranks.append(pairs)
    assert len({len(pairs) for pairs in ranks}) == 1, "every rank takes as many steps"
    return [list(step) for step in zip(*ranks, strict=True)]
