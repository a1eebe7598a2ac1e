"""Seeds: valid values, and the source of a seed if none was given."""

from __future__ import annotations

import operator
from typing import Any

import torch


def checked_seed(seed: Any) -> int | None:
    """Return `seed` as an int, or None.

    Raises:
        ValueError: `seed` is not an integer from 0 to 2**64 - 1.

    Examples:
        >>> checked_seed(7), checked_seed(None)
        (7, None)
    """
    if seed is None:
        return None
    if type(seed) is bool or not hasattr(seed, "__index__") or not 0 <= operator.index(seed) < 2**64:
        raise ValueError(f"seed should be an integer from 0 to 2**64 - 1, but got seed={seed!r}")
    return operator.index(seed)


def drawn_seed(generator: torch.Generator | None) -> int:
    """Draw a seed from `generator` or torch's global generator: one draw, like torch's `RandomSampler`."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item())


def missing_seed(name: str) -> ValueError:
    """Return the error for when an order is requested and there is no seed."""
    return ValueError(
        f"{name} has no seed, so its order is drawn when it is iterated and cannot be computed beforehand; pass seed= "
        "to the sampler or to the loader"
    )
