"""Batches of similar lengths on ranks: about equal cost at each step, and one order for any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy

from sluicegate import DataLoader, LengthBucketBatchSampler

LENGTHS = [1 + index * 37 % 60 for index in range(83)]


def test_batches_that_are_balanced_are_like_at_each_step_for_any_number_of_ranks_that_divides_them() -> None:
    generator = numpy.random.default_rng(11)
    lengths = numpy.clip(generator.lognormal(5.5, 0.9, 20_000), 1, 2048).astype(numpy.int64)

    def costs(balance: int, limits: dict[str, int], world_size: int) -> Any:
        """Return the tokens of each batch, by step and rank."""
        ranks = []
        for rank in range(world_size):
            sampler = LengthBucketBatchSampler(lengths, balance=balance, seed=7, **limits)  # type: ignore[arg-type]
            loader = DataLoader(
                lengths, batch_sampler=sampler, shard=(rank, world_size), remainder="drop", collate_fn=list
            )
            ranks.append([len(batch) * max(batch) for batch in loader])
        return numpy.array(ranks).T

    limits: dict[str, int]
    for limits, unbalanced, bound in (({"batch_size": 16}, 1.8, 1.1), ({"max_tokens": 4096}, 1.03, 1.03)):
        alone, together = costs(1, limits, 8), costs(8, limits, 8)
        assert alone.max(1).sum() / alone.mean(1).sum() > unbalanced
        assert together.max(1).sum() / together.mean(1).sum() < bound
        # The order does not depend on the number of ranks.
        for world_size in (1, 2, 4):
            fewer = costs(8, limits, world_size)
            assert fewer.max(1).sum() / fewer.mean(1).sum() < bound
            assert fewer.ravel()[: together.size].tolist() == together.ravel().tolist()


def test_balanced_batches_resume_on_a_different_number_of_ranks() -> None:
    def make(rank: int, world_size: int) -> Any:
        sampler = LengthBucketBatchSampler(LENGTHS, batch_size=2, balance=4, seed=7)
        arguments = {"shard": (rank, world_size), "remainder": "drop", "collate_fn": list}
        return DataLoader(range(83), batch_sampler=sampler, **arguments)  # type: ignore[arg-type]

    whole = list(make(0, 1))
    for steps in range(11):
        first = make(1, 4)
        iterator = iter(first)
        for _ in range(min(steps, len(first))):
            next(iterator)
        ranks = []
        for rank in range(2):
            resumed = make(rank, 2)
            resumed.load_state_dict(first.state_dict())
            ranks.append(list(resumed))
        assert [batch for step in zip(*ranks, strict=True) for batch in step] == whole[4 * steps : 42]
