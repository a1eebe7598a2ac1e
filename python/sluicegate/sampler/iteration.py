"""Where an iteration over a sampler stands, and how it resumes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

from .identity import check_identity, identity_of
from .seed import checked_seed, drawn_seed


class Iteration:
    """What the samplers with a seed have in common: seed or generator, epoch, and how far the iteration has come.

    Args:
        seed: an integer from 0 to 2**64 - 1; None to draw one at the first `next` of each iteration.
        generator: where it is drawn from instead of torch's global generator.
    """

    # Whether the order is random at all.
    shuffle = True

    def __init__(self, seed: int | None, generator: torch.Generator | None) -> None:
        self.seed = checked_seed(seed)
        self.generator = generator
        self.epoch = 0
        # How many indices or batches the running iteration has yielded, or the last one had; where the next one begins.
        self.yielded = 0
        self.next_yielded: int | None = None
        # What the running iteration, or the one to be resumed, has drawn.
        self._drawn: int | None = None

    def identity(self, seed: int | None = None) -> str:
        """In words, which batches these are; `seed` is the loader's, for a sampler that was given none."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, from 0. It does not advance by itself."""
        self.epoch = _count("epoch", epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands: plain JSON."""
        state = {"epoch": self.epoch, "yielded": self.yielded, "seed": self.seed, "drawn_seed": self._drawn}
        return state | {"order": identity_of(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration, and only that, go on where the one of `state` stood.

        Raises:
            ValueError: the state of a sampler with another seed, or made of something else.
        """
        yielded = _count("yielded", state["yielded"])
        if "seed" in state and state["seed"] != self.seed:
            raise ValueError(
                f"this state can't be loaded: it is of a {type(self).__name__} with seed={state['seed']}, and this one "
                f"has seed={self.seed}: make it with the seed of the state"
            )
        check_identity(self, state)
        self.epoch = _count("epoch", state.get("epoch", self.epoch))
        self.next_yielded = self.yielded = yielded
        self._drawn = checked_seed(state.get("drawn_seed"))

    def _begin(self) -> tuple[int, int]:
        """Begins an iteration: its seed, and its first position. To be called at the first `next`."""
        start, self.next_yielded = self.next_yielded, None
        self.yielded = start or 0
        if self.seed is not None or not self.shuffle:
            return self.seed or 0, self.yielded
        if start is None or self._drawn is None:
            self._drawn = drawn_seed(self.generator)
        return self._drawn, self.yielded


def _count(name: str, number: Any) -> int:
    number = operator.index(number)
    if number < 0:
        raise ValueError(f"{name} should not be negative, but got {name}={number}")
    return int(number)
