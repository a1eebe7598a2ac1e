"""The state that a sampler has on its own: where its iteration stands, and in which order."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Protocol

from .identity import check_identity, identity_of
from .seed import checked_seed


class Counted(Protocol):
    """A sampler that counts what it has yielded."""

    # Of the next iteration.
    epoch: int
    # How many indices or batches the running iteration has yielded, or the last one had; where the next one begins.
    yielded: int
    next_yielded: int | None

    def identity(self, seed: int | None = None) -> str:
        """Samplers whose orders differ differ in it."""


def sampler_state(sampler: Counted, seed: int | None, drawn_seed: int | None) -> dict[str, Any]:
    """The epoch, how much of it was yielded, and what it was drawn from: plain JSON.

    Args:
        sampler: whose state it is.
        seed: the one that it was given.
        drawn_seed: the one that it has drawn for this pass, where it was given none.
    """
    yielded = sampler.yielded if sampler.next_yielded is None else sampler.next_yielded
    state = {"epoch": sampler.epoch, "yielded": yielded, "seed": seed, "drawn_seed": drawn_seed}
    return state | {"order": identity_of(sampler)}


def checked_state(sampler: Counted, seed: int | None, state: Mapping[str, Any]) -> tuple[int, int, int | None]:
    """The epoch, what was yielded and the drawn seed of `state`, which is to be loaded into `sampler`, of this seed.

    Raises:
        ValueError: it does not say how much was yielded, or a negative number; it is of another seed, or of a sampler
            made of something else.
    """
    yielded: Any = state.get("yielded")
    if not hasattr(yielded, "__index__") or yielded < 0:
        raise ValueError(f"a sampler's state has `yielded`, a number from 0, but this one has {yielded!r}")
    if "seed" in state and state["seed"] != seed:
        raise ValueError(
            f"this state can't be loaded: it is of a {type(sampler).__name__} with seed={state['seed']}, and this one "
            f"has seed={seed}: make it with the seed of the state"
        )
    check_identity(sampler, state)
    return (
        checked_epoch(state.get("epoch", sampler.epoch)),
        operator.index(yielded),
        checked_seed(state.get("drawn_seed")),
    )


def checked_epoch(epoch: Any) -> int:
    """`epoch` as an int, when it is a number from 0.

    Raises:
        TypeError: it is no integer.
        ValueError: it is negative.
    """
    number = int(operator.index(epoch))
    if number < 0:
        raise ValueError(f"epoch should not be negative, but got epoch={number}")
    return number
