"""Orders as lists: a sampler's, read at once, and the one that ranks share, put together from their batches."""

from __future__ import annotations

from typing import Any

import numpy as np


def whole(order: Any) -> list[int]:
    """All indices of the order of a sampler with a seed."""
    return np.frombuffer(order.indices(0, len(order)), np.int64).tolist()


def merged(ranks: list[list[list[Any]]]) -> list[Any]:
    """The global order, from the batches of each rank: its position p is the rank p % world_size's."""
    flat = [[item for batch in batches for item in batch] for batches in ranks]
    return [item for items in zip(*flat, strict=True) for item in items]
