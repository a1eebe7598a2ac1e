"""The identity of samplers in states, by which a different order is recognized."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

# Longer sequences are represented by a digest.
_FEW = 8


class Identified(Protocol):
    """A sampler that can describe its orders."""

    def identity(self, seed: int | None = None) -> str:
        """Return a description that differs between samplers whose orders differ."""


def identity_of(sampler: Identified, seed: int | None = None) -> str | None:
    """Return the `identity` of a sampler; None if it cannot make an order, which iterating will report."""
    try:
        return sampler.identity(seed)
    except (TypeError, ValueError):
        return None


def check_identity(sampler: Identified, state: Mapping[str, Any]) -> None:
    """Refuse the state of a sampler that was made from something else; older states do not say from what.

    Raises:
        ValueError: the identities differ; the message names both.
    """
    there, here = state.get("order"), identity_of(sampler)
    if None not in (there, here) and there != here:
        raise ValueError(
            f"load_state_dict: expected the state of this {type(sampler).__name__}, {here!r}, but got that of a "
            f"different one, {there!r}; make the sampler as it was then, or delete 'order' from the state to resume at "
            "the same place in the new order"
        )


def stable_text(fact: Any) -> str:
    """Return the same text in every process for inputs that give the same order; many numbers become a digest.

    For an object without an `identity` it is the type, because an address differs between processes.
    """
    if isinstance(fact, (bool, int, float, str, range, type(None))):
        return repr(fact)
    if isinstance(fact, torch.Tensor):
        plain = fact.detach().cpu()
        return stable_text((plain.double() if plain.is_floating_point() else plain).numpy())
    if isinstance(fact, np.ndarray):
        return stable_text(fact.tolist()) if fact.ndim == 1 and len(fact) <= _FEW else _digest(fact)
    if isinstance(fact, (list, tuple)):
        return f"[{', '.join(map(stable_text, fact))}]" if len(fact) <= _FEW else _digest_of_many(fact)
    named = getattr(fact, "identity", None)
    return str(named()) if callable(named) else type(fact).__name__


def _digest_of_many(facts: list[Any] | tuple[Any, ...]) -> str:
    try:
        numbers = np.asarray(facts)
    except ValueError:  # For example, lists of several lengths.
        numbers = np.empty(0, dtype=object)
    if numbers.dtype.kind in "biuf":
        return _digest(numbers)
    return hashlib.blake2b(", ".join(map(stable_text, facts)).encode(), digest_size=8).hexdigest()


def _digest(numbers: np.ndarray[Any, np.dtype[Any]]) -> str:
    # In one dtype, because a list, an array and a tensor of the same numbers give the same order.
    plain = np.ascontiguousarray(numbers, dtype="<f8" if numbers.dtype.kind == "f" else "<i8")
    return hashlib.blake2b(plain.tobytes() if plain.ndim == 0 else plain.data, digest_size=8).hexdigest()
