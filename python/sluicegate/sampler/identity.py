"""What samplers are called in states, so that one of another order is recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

# Of more than these only a digest is said.
_FEW = 8


class Identified(Protocol):
    """A sampler that says in words which orders it gives."""

    def identity(self, seed: int | None = None) -> str:
        """Samplers whose orders differ differ in it."""


def identity_of(sampler: Identified, seed: int | None = None) -> str | None:
    """The `identity` of a sampler; None where no order can be made of it, as its iteration will say."""
    try:
        return sampler.identity(seed)
    except (TypeError, ValueError):
        return None


def check_identity(sampler: Identified, state: Mapping[str, Any]) -> None:
    """Refuses the state of a sampler that was made of something else; older states do not say of what.

    Raises:
        ValueError: both identities.
    """
    there, here = state.get("order"), identity_of(sampler)
    if None not in (there, here) and there != here:
        raise ValueError(
            f"this state can't be loaded: it is of another {type(sampler).__name__}, {there!r}, and this one is "
            f"{here!r}: make it as that one was, or delete 'order' from the state to go on at the same place in this "
            "one's order"
        )


def word(fact: Any) -> str:
    """The same text in every process for what shapes orders alike: of many numbers what tells them from others.

    Of an object that says nothing of itself it is the type: an address would be another one in each process.
    """
    if isinstance(fact, (bool, int, float, str, range, type(None))):
        return repr(fact)
    if isinstance(fact, torch.Tensor):
        plain = fact.detach().cpu()
        return word((plain.double() if plain.is_floating_point() else plain).numpy())
    if isinstance(fact, np.ndarray):
        return word(fact.tolist()) if fact.ndim == 1 and len(fact) <= _FEW else _digest(fact)
    if isinstance(fact, (list, tuple)):
        return f"[{', '.join(map(word, fact))}]" if len(fact) <= _FEW else _digest_of_many(fact)
    named = getattr(fact, "identity", None)
    return str(named()) if callable(named) else type(fact).__name__


def _digest_of_many(facts: list[Any] | tuple[Any, ...]) -> str:
    try:
        numbers = np.asarray(facts)
    except ValueError:  # Lists of several lengths, say.
        numbers = np.empty(0, dtype=object)
    if numbers.dtype.kind in "biuf":
        return _digest(numbers)
    return hashlib.blake2b(", ".join(map(word, facts)).encode(), digest_size=8).hexdigest()


def _digest(numbers: np.ndarray[Any, np.dtype[Any]]) -> str:
    # In one dtype: a list, an array and a tensor of the same numbers give the same order.
    plain = np.ascontiguousarray(numbers, dtype="<f8" if numbers.dtype.kind == "f" else "<i8")
    return hashlib.blake2b(plain.tobytes() if plain.ndim == 0 else plain.data, digest_size=8).hexdigest()
