"""`Iteration`: the position of an iteration over a sampler, and how it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .sampler_state import checked_epoch, checked_state, sampler_state
from .seed import checked_seed, drawn_seed


class Iteration:
    """The common base of seeded samplers: seed or generator, epoch, and the progress of the iteration.

    Args:
        seed: an integer from 0 to 2**64 - 1; None to draw one at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.
    """

    # True if the order is random.
    shuffle = True

    def __init__(self, seed: int | None, generator: torch.Generator | None) -> None:
        self.seed = checked_seed(seed)
        self.generator = generator
        self.epoch = 0
        # How many indices or batches the running or last iteration has yielded, and where the next one begins.
        self.yielded = 0
        self.next_yielded: int | None = None
        # The seed that the running iteration, or the one to be resumed, has drawn.
        self._drawn: int | None = None

    def identity(self, seed: int | None = None) -> str:
        """Return a description of which batches these are; `seed` is the loader's, for a sampler without one."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, counted from 0. It does not advance by itself."""
        self.epoch = checked_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the iteration: plain JSON."""
        return sampler_state(self, self.seed, self._drawn)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration, and only that one, resume where the iteration of `state` was.

        Raises:
            ValueError: the state belongs to a sampler with a different seed or made from something else, or its number
                of yielded items is missing or negative.
        """
        self.epoch, yielded, self._drawn = checked_state(self, self.seed, state)
        self.next_yielded = self.yielded = yielded

    def _begin(self) -> tuple[int, int]:
        """Begin an iteration and return its seed and first position. Call it at the first `next`."""
        start, self.next_yielded = self.next_yielded, None
        self.yielded = start or 0
        if self.seed is not None or not self.shuffle:
            return self.seed or 0, self.yielded
        if start is None or self._drawn is None:
            self._drawn = drawn_seed(self.generator)
        return self._drawn, self.yielded
