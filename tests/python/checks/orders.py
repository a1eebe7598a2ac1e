"""Orders as lists: a whole sampler, or the global order assembled from the batches of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np


def whole(order: Any) -> list[int]:
    """Return all indices of the order of a sampler with a seed."""
    return np.frombuffer(order.indices(0, len(order)), np.int64).tolist()


def merged(ranks: list[list[list[Any]]]) -> list[Any]:
    """Return the global order from the batches of each rank: position p belongs to rank p % world_size."""
    flat = [[item for batch in batches for item in batch] for batches in ranks]
    return [item for items in zip(*flat, strict=True) for item in items]
