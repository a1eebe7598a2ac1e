"""The orders, sample keys, and states that this version guarantees: changing them breaks resuming for users.

`golden.json` holds the result of `golden()`. To write it again, after an intended change listed in the changelog:

    python tests/python/loader_state/test_golden.py > tests/python/cases/golden.json
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import plain, take
from doubles.drawing_rows import OwnDrawingRows
from doubles.stateful import DrawingRows, GeneratorStream, Indices, PlainStream

GOLDEN = Path(__file__).parents[1] / "cases" / "golden.json"
SEEDS = [0, 7, 2**64 - 1]
EPOCHS = [0, 1, 1000]


def shown(indices: Any) -> dict[str, Any]:
    """Return the first indices, for readers, and a digest of all of them."""
    array = numpy.asarray(indices, dtype=numpy.int64)
    return {"length": len(array), "first": array[:8].tolist(), "sha256": digest(array.astype("<i8").tobytes())}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def samplers(seed: int) -> dict[str, Any]:
    labels = [index % 4 for index in range(40)]
    weights = [float(1 + index % 7) for index in range(100)]
    return {
        "random, 1": sluicegate.RandomSampler(range(1), seed=seed),
        "random, 2": sluicegate.RandomSampler(range(2), seed=seed),
        "random, 10": sluicegate.RandomSampler(range(10), seed=seed),
        "random, 1000": sluicegate.RandomSampler(range(1000), seed=seed),
        "random, 1025": sluicegate.RandomSampler(range(1025), seed=seed),
        "random, more than all": sluicegate.RandomSampler(range(10), num_samples=25, seed=seed),
        "random, replacement": sluicegate.RandomSampler(range(1000), replacement=True, num_samples=500, seed=seed),
        "subset": sluicegate.SubsetRandomSampler(range(0, 300, 3), seed=seed),
        "weighted": sluicegate.WeightedRandomSampler(weights, 300, seed=seed),
        "weighted, no replacement": sluicegate.WeightedRandomSampler(weights, 60, replacement=False, seed=seed),
        "blocks": sluicegate.BlockShuffleSampler(range(1000), block=16, window=8, seed=seed),
        "class": sluicegate.ClassSampler(labels, 2, shuffle=True, seed=seed),
        "mixture": sluicegate.MixtureSampler([40, 7, 100], [0.5, 0.2, 0.3], seed=seed),
        "mixture, scheduled": sluicegate.MixtureSampler(
            [40, 7, 100], [(0, [1.0, 0.0, 0.0]), (50, [0.1, 0.1, 0.8])], linear=True, num_samples=200, seed=seed
        ),
        "repeat": sluicegate.RepeatSampler(sluicegate.RandomSampler(range(300), seed=seed), 2),
        "repeat, interleaved": sluicegate.RepeatSampler(
            sluicegate.RandomSampler(range(300), seed=seed), 3, interleaved=True
        ),
    }


def batch_samplers(seed: int) -> dict[str, Any]:
    labels = [index % 4 for index in range(40)]
    lengths = [1 + (37 * index) % 100 for index in range(200)]
    return {
        "balanced": sluicegate.BalancedBatchSampler(labels, classes_per_batch=2, samples_per_class=3, seed=seed),
        "stratified": sluicegate.StratifiedBatchSampler(labels, batch_size=8, seed=seed),
        "lengths": sluicegate.LengthBucketBatchSampler(lengths, batch_size=8, seed=seed),
    }


def orders() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for seed in SEEDS:
        for name, sampler in samplers(seed).items():
            for epoch in EPOCHS:
                sampler.set_epoch(epoch)
                found[f"{name}, seed {seed}, epoch {epoch}"] = shown(list(sampler))
        for name, sampler in batch_samplers(seed).items():
            for epoch in EPOCHS:
                sampler.set_epoch(epoch)
                batches = list(sampler)
                flat = [index for batch in batches for index in batch]
                found[f"{name}, seed {seed}, epoch {epoch}"] = shown(flat) | {"sizes": list(map(len, batches))[:8]}
    return found


def huge_positions() -> dict[str, list[int]]:
    """Return single positions of orders that are too long to list."""
    sizes = [2**31, 2**40 + 1, 10**10]
    found = {}
    for size in sizes:
        sampler = sluicegate.RandomSampler(range(size), seed=7)
        found[str(size)] = [sampler.index_at(position) for position in (0, 1, size // 2, size - 1)]
    return found


def loaders() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for seed in SEEDS:
        for shard in (None, (0, 3), (2, 3)):
            loader = sluicegate.DataLoader(
                Indices(100), 8, True, seed=seed, shard=shard, remainder="exact", drop_last=False
            )
            for epoch in EPOCHS[:2]:
                pairs = list(loader.with_ids())
                flat = [index for batch, _ in pairs for index in plain(batch)]
                found[f"seed {seed}, shard {shard}, epoch {epoch}"] = shown(flat) | {
                    "batch_id": pairs[0][1].batch_id,
                    "valid": sum(int(ids.valid.sum()) for _, ids in pairs),
                }
    return found


def draws() -> dict[str, Any]:
    """Return what samples draw. Python and NumPy guarantee `random` and PCG64 for a seed; torch tests its generator."""
    found: dict[str, Any] = {}
    for name, dataset in {"global": DrawingRows(6), "own": OwnDrawingRows(6)}.items():
        for seed in SEEDS:
            loader = sluicegate.DataLoader(dataset, None, True, seed=seed)
            for epoch in range(2):
                samples = sorted(take(loader))
                found[f"{name}, seed {seed}, epoch {epoch}"] = [
                    [sample[0], sample[1].hex(), sample[2].hex(), [value.hex() for value in sample[3]]]
                    for sample in samples
                ]
    return found


def states() -> dict[str, Any]:
    found: dict[str, Any] = {}
    made = {
        "seed mode": lambda: sluicegate.DataLoader(Indices(20), 3, True, seed=7),
        "seed mode, shard": lambda: sluicegate.DataLoader(Indices(20), 3, True, seed=7, shard=(1, 2)),
        "torch mode": lambda: sluicegate.DataLoader(Indices(20), 3, True),
        "torch mode, generator": lambda: sluicegate.DataLoader(
            Indices(20), 3, True, generator=torch.Generator().manual_seed(4)
        ),
        "stateful stream": lambda: sluicegate.DataLoader(GeneratorStream([20]), 3),
        "stream without state": lambda: sluicegate.DataLoader(PlainStream([20]), 3),
    }
    for name, make in made.items():
        torch.manual_seed(5)
        numpy.random.seed(5)
        random.seed(5)
        loader = make()
        take(loader)
        take(iter(loader), 2)
        found[name] = without_noise(json.loads(json.dumps(loader.state_dict())))
    return found


# Longer lists and strings are replaced by a digest.
_LONG = {list: 64, str: 200}


def without_noise(value: Any) -> Any:
    """Return the state with long values (generators) as digests, and without values specific to this process."""
    if isinstance(value, dict):
        # The states of Python's and NumPy's global generators depend on the tests that ran before.
        return {
            key: without_noise(item) if key != "rng" or not item else sorted(name for name, _ in item)
            for key, item in value.items()
        }
    if isinstance(value, list | str) and len(value) > _LONG[type(value)]:
        return {"length": len(value), "sha256": digest(json.dumps(value).encode())}
    if isinstance(value, list):
        return [without_noise(item) for item in value]
    return value


PARTS = {"orders": orders, "huge positions": huge_positions, "loaders": loaders, "draws": draws, "states": states}


def golden() -> dict[str, Any]:
    return {name: part() for name, part in PARTS.items()}


@pytest.fixture(scope="module")
def promised() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(GOLDEN.read_text())
    return kept


@pytest.mark.parametrize("name", PARTS)
def test_guaranteed_orders_keys_and_states_never_change(name: str, promised: dict[str, Any]) -> None:
    found = json.loads(json.dumps(PARTS[name]()))
    assert set(found) == set(promised[name])
    for key, value in promised[name].items():
        assert found[key] == value, f"{name}: {key}"


def test_states_that_were_saved_still_load(promised: dict[str, Any]) -> None:
    fresh = sluicegate.DataLoader(Indices(20), 3, True, seed=7)
    expected = [take(fresh), take(fresh)]
    loader = sluicegate.DataLoader(Indices(20), 3, True, seed=7)
    loader.load_state_dict(promised["states"]["seed mode"])
    assert take(loader) == expected[1][2:]


if __name__ == "__main__":
    print(json.dumps(golden(), indent=1))
