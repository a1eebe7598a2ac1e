"""Where an iteration over a sampler stands, and how it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .sampler_state import checked_epoch, checked_state, sampler_state
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
        self.epoch = checked_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands: plain JSON."""
        return sampler_state(self, self.seed, self._drawn)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration, and only that, go on where the one of `state` stood.

        Raises:
            ValueError: the state of a sampler with another seed, or made of something else; it does not say how much
                was yielded, or a negative number.
        """
        self.epoch, yielded, self._drawn = checked_state(self, self.seed, state)
        self.next_yielded = self.yielded = yielded

    def _begin(self) -> tuple[int, int]:
        """Begins an iteration: its seed, and its first position. To be called at the first `next`."""
        start, self.next_yielded = self.next_yielded, None
        self.yielded = start or 0
        if self.seed is not None or not self.shuffle:
            return self.seed or 0, self.yielded
        if start is None or self._drawn is None:
            self._drawn = drawn_seed(self.generator)
        return self._drawn, self.yielded
