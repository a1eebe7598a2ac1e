"""`Positional`: the additions of the samplers of samples to torch's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from sluicegate import _core

from .identity import stable_text
from .sampler_state import checked_state, sampler_state
from .seed import checked_seed, drawn_seed

# How many indices are converted at a time: enough to amortize the call, few enough for the cache.
_AT_ONCE = 4096


class Positional:
    """A sampler with positions: any position of any epoch can be computed, and iteration can be resumed anywhere.

    In seed mode (with its own `seed` or the loader's) the order is a pure function of (seed, epoch, position). Without
    a seed, iterating does what torch does, draw for draw. The epoch changes only through `set_epoch`.

    Examples:
        >>> from sluicegate.sampler import Positional, RandomSampler
        >>> sampler = RandomSampler(range(5), seed=7)
        >>> isinstance(sampler, Positional), sampler.index_at(3) == list(sampler)[3]
        (True, True)
    """

    seed: int | None
    epoch: int = 0
    # How many indices the last used iterator has yielded, and how many the next one skips.
    yielded: int = 0
    next_yielded: int | None = None
    # The seed that a sampler unknown to torch has drawn for this pass.
    _drawn: int | None = None
    # Caches: the core's sampler with the inputs it was made from, and the last order used by `index_at`.
    _made: tuple[tuple[Any, ...], _core.Sampler] | None = None
    _asked: tuple[_core.Sampler, int, _core.Order] | None = None
    # Caches: the identity of the core's sampler, and of one without a seed; these may take as long as making it.
    _called: tuple[_core.Sampler, str] | None = None
    _text: tuple[tuple[Any, ...], list[Any], str] | None = None

    def order(self, epoch: int, seed: int | None = None) -> _core.Order:
        """Return the order of `epoch`, with random access to its positions.

        Args:
            epoch: counted from 0.
            seed: the loader's seed, for a sampler without one.

        Raises:
            ValueError: neither has a seed.
        """
        return self.core(seed).order(epoch)

    def core(self, seed: int | None = None) -> _core.Sampler:
        """Return the core's sampler that makes the orders; `seed` as for `order`."""
        own = self._own_seed()
        facts = (checked_seed(seed) if own is None else own, *self._facts())
        if self._made is None or not _are_same(self._made[0], facts):
            if facts[0] is None and self._is_random():
                raise ValueError(
                    f"{type(self).__name__} has no seed, so its order cannot be indexed; "
                    "pass seed= to the sampler or to the loader"
                )
            self._made = facts, self._make(facts[0] or 0)
        return self._made[1]

    def identity(self, seed: int | None = None) -> str:
        """Return a description that differs between samplers with different orders. `seed` as for `order`.

        States hold it, so that a different order is not resumed. If there is no seed, it describes what the sampler was
        made from.
        """
        if seed is None and not self._has_seed():
            facts = self._facts_without_seed()
            versions = [getattr(fact, "_version", None) for fact in facts]
            if self._text is None or self._text[1] != versions or not _are_same(self._text[0], facts):
                self._text = facts, versions, f"{type(self).__name__}({', '.join(map(stable_text, facts))})"
            return self._text[2]
        core = self.core(seed)
        if self._called is None or self._called[0] is not core:
            self._called = core, core.identity()
        return self._called[1]

    def index_at(self, position: int) -> int:
        """Return the index at `position` of the current epoch, in seed mode.

        Raises:
            IndexError: there is no such position.
            ValueError: the sampler has no seed.
        """
        core = self.core()
        if self._asked is None or self._asked[0] is not core or self._asked[1] != self.epoch:
            self._asked = core, self.epoch, core.order(self.epoch)
        return self._asked[2].index_at(position)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, how many of its indices were yielded, and the seed they were drawn from: plain JSON."""
        return sampler_state(self, self._own_seed(), self._drawn)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the next iteration resume where `state_dict` was taken.

        Raises:
            ValueError: the number of yielded indices is missing or negative, or the state has a different seed or is of
                a sampler made from something else.
        """
        self.epoch, self.next_yielded, self._drawn = checked_state(self, self._own_seed(), state_dict)

    def draw_again(self, drawn_seed: int) -> None:
        """Make the next iteration without its own seed begin with a seed that was drawn before."""
        self.next_yielded, self._drawn = 0, drawn_seed

    def __iter__(self) -> Iterator[int]:
        """Return an iterator of Python ints over the current epoch. Nothing is drawn before the first is requested."""
        if self.next_yielded is None:
            self._drawn = None
        self.yielded, self.next_yielded = self.next_yielded or 0, None
        return self._counted(self._from(self.yielded))

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_made", "_asked", "_called", "_text")
        }

    def _counted(self, indices: Iterator[int]) -> Iterator[int]:
        for index in indices:
            self.yielded += 1
            yield index

    def _from(self, position: int) -> Iterator[int]:
        if self._has_seed():
            return ints(self.order(self.epoch), position)
        return itertools.islice(self._unseeded(), position, None)

    def _has_seed(self) -> bool:
        return self._own_seed() is not None

    def _own_seed(self) -> int | None:
        return self.seed

    def _is_random(self) -> bool:
        """Return True if an order needs a seed."""
        return True

    def _unseeded(self) -> Iterator[int]:
        """Return one pass without a seed, torch's own; nothing is drawn before the first index is requested."""
        iterator: Iterator[int] = super().__iter__()  # type: ignore[misc]
        return iterator

    def _seed_of_pass(self, generator: torch.Generator | None) -> int:
        """Return the seed drawn for this pass, or for a resumed one; for unseeded samplers that torch lacks."""
        if self._drawn is None:
            self._drawn = drawn_seed(generator)
        return self._drawn

    def _facts(self) -> tuple[Any, ...]:
        """Return the inputs of the core's sampler except the seed; all but numbers and text compare by identity."""
        raise NotImplementedError

    def _facts_without_seed(self) -> tuple[Any, ...]:
        """Return the inputs that determine the orders if there is no seed; the same for every rank."""
        return self._facts()

    def _make(self, seed: int) -> _core.Sampler:
        raise NotImplementedError


def has_seed(sampler: Any) -> bool:
    """Return True if `sampler` has positions without the loader's seed."""
    return isinstance(sampler, Positional) and sampler._has_seed()


def own_seed(sampler: Any) -> int | None:
    """Return the seed of a sampler with positions; None if it has none."""
    return sampler._own_seed() if isinstance(sampler, Positional) else None


def seed_of_pass(sampler: Any) -> int | None:
    """Return the seed that a sampler with positions has drawn for its running pass; None if it has drawn none."""
    return sampler._drawn if isinstance(sampler, Positional) else None


def is_random(sampler: Positional) -> bool:
    """Return True if an order of `sampler` needs a seed."""
    return sampler._is_random()


def ints(order: _core.Order, start: int) -> Iterator[int]:
    """Yield the indices from position `start` on."""
    for first in range(start, len(order), _AT_ONCE):
        yield from array(order.indices(first, min(first + _AT_ONCE, len(order)))).tolist()


def array(indices: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the core's indices as a read-only int64 array."""
    return np.frombuffer(indices, np.int64)


def described(tensor: torch.Tensor) -> tuple[str, str, int, tuple[int, ...], tuple[int, ...], object]:
    """Describe a flat tensor of 64-bit numbers for the core, which reads it at its address, without a copy."""
    name = "int64" if tensor.dtype is torch.int64 else "float64"
    return "", name, tensor.data_ptr(), (len(tensor),), (8,), tensor


def _are_same(facts: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(facts) == len(others) and all(
        fact is other or (isinstance(fact, (int, str)) and isinstance(other, (int, str)) and fact == other)
        for fact, other in zip(facts, others, strict=True)
    )
