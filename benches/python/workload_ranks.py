"""Ranks: how much longer a step takes than its mean batch, because ranks wait for the one with the most work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import figures
from loaders import IMPORTS, present
from protocol import Case, Contender, Metrics, Workload
from workload_packed import lengths_of_texts

SAMPLES = 500_000
LONGEST = 2_048
WORLD_SIZE = 8
MAX_TOKENS = 16_384
BATCH_SIZE = 32


def _lengths() -> npt.NDArray[np.int64]:
    return lengths_of_texts(SAMPLES, LONGEST)


def _over_mean(costs: npt.NDArray[np.float64]) -> float:
    """Return the time of all steps, relative to that with equal work on all ranks."""
    steps = costs[: len(costs) // WORLD_SIZE * WORLD_SIZE].reshape(-1, WORLD_SIZE)
    return float(steps.max(axis=1).sum() / steps.mean(axis=1).sum())


def _of_batches(batches: Any) -> Metrics:
    lengths = _lengths()
    sizes = np.array([len(batch) for batch in batches])
    longest = np.array([lengths[batch].max() for batch in batches])
    padded = sizes * longest
    return {
        "tokens, most/mean": _over_mean(padded.astype(float)),
        "attention, most/mean": _over_mean(padded * longest.astype(float)),
        "padding, %": float(100 * (1 - lengths.sum() / padded.sum())),
    }


def _random(_: object) -> Metrics:
    order = np.random.default_rng(0).permutation(SAMPLES)
    return _of_batches(np.split(order, range(BATCH_SIZE, SAMPLES, BATCH_SIZE)))


def _like_lengths(**arguments: Any) -> Any:
    def measure(_: object) -> Metrics:
        import sluicegate

        return _of_batches(list(sluicegate.LengthBucketBatchSampler(_lengths(), seed=7, **arguments)))

    return measure


def _packed(_: object) -> Metrics:
    import sluicegate

    lengths = _lengths()
    sampler = sluicegate.PackedBatchSampler(lengths, length=LONGEST, rows_per_batch=8, seed=7, drop_last=True)
    # No document is longer than a row, so each piece is a whole document.
    documents = [np.array(batch) % SAMPLES for batch in sampler]
    tokens = np.array([lengths[batch].sum() for batch in documents], float)
    squares = np.array([(lengths[batch].astype(float) ** 2).sum() for batch in documents])
    return {
        "tokens, most/mean": _over_mean(tokens),
        "attention, most/mean": _over_mean(squares),
        "padding, %": 100 * sampler.padding_share(0),
    }


_OURS = IMPORTS["sluicegate"]

WORKLOAD = Workload(
    name="ranks",
    title=f"Ranks: {SAMPLES:,} texts of log-normal lengths up to {LONGEST:,}, {WORLD_SIZE} ranks",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        Case(
            name="steps",
            title="the batch with the most tokens over the mean batch of its step (attention: tokens times length)",
            contenders=present(
                Contender(f"random batches of {BATCH_SIZE}, padded", _random),
                Contender(f"batches of {BATCH_SIZE} of like length", _like_lengths(batch_size=BATCH_SIZE), _OURS),
                Contender(
                    f"the same, balance={WORLD_SIZE}", _like_lengths(batch_size=BATCH_SIZE, balance=WORLD_SIZE), _OURS
                ),
                Contender(f"batches of {MAX_TOKENS:,} tokens", _like_lengths(max_tokens=MAX_TOKENS), _OURS),
                Contender(
                    f"{MAX_TOKENS:,} tokens, balance={WORLD_SIZE}",
                    _like_lengths(max_tokens=MAX_TOKENS, balance=WORLD_SIZE),
                    _OURS,
                ),
                Contender(f"packed rows of {LONGEST:,}, 8 a batch", _packed, _OURS),
            ),
        ),
    ),
)
