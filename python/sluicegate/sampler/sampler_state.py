"""A sampler's own state: the position of its iteration, and in which order."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Protocol

from .identity import check_identity, identity_of
from .seed import checked_seed


class Counted(Protocol):
    """A sampler that counts the items that it has yielded."""

    # The epoch of the next iteration.
    epoch: int
    # How many indices or batches the running or last iteration has yielded, and where the next one begins.
    yielded: int
    next_yielded: int | None

    def identity(self, seed: int | None = None) -> str:
        """Return a description that differs between samplers whose orders differ."""


def sampler_state(sampler: Counted, seed: int | None, drawn_seed: int | None) -> dict[str, Any]:
    """Return the epoch, how much of it was yielded, and the seed it was drawn from: plain JSON.

    Args:
        sampler: the sampler.
        seed: the seed that it was given.
        drawn_seed: the seed that it drew for this pass, if it was given none.
    """
    yielded = sampler.yielded if sampler.next_yielded is None else sampler.next_yielded
    state = {"epoch": sampler.epoch, "yielded": yielded, "seed": seed, "drawn_seed": drawn_seed}
    return state | {"order": identity_of(sampler)}


def checked_state(sampler: Counted, seed: int | None, state: Mapping[str, Any]) -> tuple[int, int, int | None]:
    """Return the epoch, the yielded count and the drawn seed of `state`, to be loaded into `sampler`, which has `seed`.

    Raises:
        ValueError: the number of yielded items is missing or negative, or the state has a different seed or is of a
            sampler made from something else.
    """
    yielded: Any = state.get("yielded")
    if not hasattr(yielded, "__index__") or yielded < 0:
        raise ValueError(
            f"load_state_dict: expected a non-negative integer in `yielded`, but got {yielded!r}; pass the dict that "
            "state_dict() returned"
        )
    if "seed" in state and state["seed"] != seed:
        raise ValueError(
            f"load_state_dict: expected the state of a {type(sampler).__name__} with seed={seed}, but got one with "
            f"seed={state['seed']}; make the sampler with the seed of the state"
        )
    check_identity(sampler, state)
    return (
        checked_epoch(state.get("epoch", sampler.epoch)),
        operator.index(yielded),
        checked_seed(state.get("drawn_seed")),
    )


def checked_epoch(epoch: Any) -> int:
    """Return `epoch` as an int.

    Raises:
        TypeError: `epoch` is not an integer.
        ValueError: `epoch` is negative.
    """
    number = int(operator.index(epoch))
    if number < 0:
        raise ValueError(f"epoch should not be negative, but got epoch={number}")
    return number
