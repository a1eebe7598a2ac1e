"""`RandomOrder`: how torchdata's `RandomSampler` draws, and how to draw its orders again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

# The keys of the iterator's state. Torchdata 0.11 writes them in this order, older versions in the reverse order.
_KEYS = ["yielded", "generator"]

# The number of indices drawn at once with replacement.
_DRAWN_AT_ONCE = 32


@dataclass(frozen=True)
class RandomOrder:
    """The generator state from which torchdata's `RandomSampler` made the order of an epoch.

    Torch's `RandomSampler` draws the same order from `generator()`, given the same length, `replacement` and
    `num_samples`, which are not in a state. It leaves the generator in a different state, so the next epoch uses
    `next_generator`.

    Args:
        generator_state: of torch's CPU generator, before the first draw of the epoch's order.
        samples_drawn: samples of the order that were drawn at the snapshot.
        has_workers: True if the loader had workers: torchdata 0.11 then draws twice for each epoch.
        is_lazy: True for torchdata before 0.11, which drew with torch's own sampler when an index was requested.
    """

    generator_state: bytes
    samples_drawn: int
    has_workers: bool
    is_lazy: bool

    @property
    def may_be_late(self) -> bool:
        """True if the order was drawn later than `generator_state`, should the loader share the sampler's generator.

        This is the case with `generator=` and `shuffle=True` in torchdata before 0.11, without workers: the state does
        not say where the draws began. A loader that was given such a generator must refuse the state.
        """
        return self.is_lazy and not self.has_workers

    def generator(self) -> torch.Generator:
        """Return a new generator, about to draw the order."""
        generator = torch.Generator()
        generator.set_state(torch.frombuffer(bytearray(self.generator_state), dtype=torch.uint8))
        return generator

    def next_generator(
        self,
        length: int,
        *,
        num_samples: int | None = None,
        replacement: bool = False,
        persistent_workers: bool = False,
        shares_generator: bool = False,
    ) -> torch.Generator:
        """Return a new generator, about to draw the next epoch's order, as if torchdata's loader had continued.

        Args:
            length: of the dataset.
            num_samples: of the sampler. Default: `length`.
            replacement: of the sampler.
            persistent_workers: of the loader.
            shares_generator: True if the loader was given the sampler's generator (`generator=`) and draws the workers'
                seed from it.
        """
        generator = self.generator()
        total, step = (length if num_samples is None else num_samples), (_DRAWN_AT_ONCE if replacement else length)
        if self.is_lazy:
            draws = [step] * (total // step) + [total % step]
        else:
            draws = [step] * -(-total // step)
            # When it starts workers, torchdata asks its sampler for an iterator twice, and each one draws at once.
            draws += [step] if self.has_workers and not persistent_workers else []
        for size in draws:
            if replacement:
                torch.randint(length, (size,), generator=generator)
            else:
                torch.randperm(length, generator=generator)
        if shares_generator and not persistent_workers:
            _base_seed(generator)
        return generator


def is_random_order(state: Any) -> bool:
    """Return True if `state` looks like that of an iterator over torchdata's `RandomSampler`."""
    return isinstance(state, Mapping) and set(state) == set(_KEYS)


def random_order(
    state: Mapping[str, Any], samples_drawn: int, base_seed: int | None, is_lazy: bool | None
) -> RandomOrder:
    """Read the state of the sampler's iterator.

    Args:
        state: one for which `is_random_order` is True.
        samples_drawn: samples drawn at the snapshot.
        base_seed: of the loader's workers; None without workers.
        is_lazy: as in `RandomOrder`; None to infer it from the order of the keys.

    Raises:
        ValueError: the state has no CPU generator, or not the one from which the order was drawn.
    """
    order = RandomOrder(
        generator_state=_bytes_of(state["generator"]),
        samples_drawn=samples_drawn,
        has_workers=base_seed is not None,
        is_lazy=list(state) != _KEYS if is_lazy is None else is_lazy,
    )
    try:
        generator = order.generator()
    except RuntimeError as error:
        raise ValueError(
            f"torchdata state: the sampler's generator is not one of torch's CPU generators: {error}"
        ) from error
    # A loader that shares its sampler's generator draws this between the saved state and a lazy order. One that was
    # itself resumed does not, and its states look the same.
    if order.is_lazy and order.has_workers and _base_seed(generator) == base_seed:
        raise ValueError(
            "torchdata state: with generator= and shuffle=True, torchdata before 0.11 saves a state of the generator "
            "from which the epoch's order can't be drawn again; save with torchdata 0.11, or with a RandomSampler that "
            "has its own generator"
        )
    return order


def _base_seed(generator: torch.Generator) -> int:
    """Make the draw of torch's loaders for an epoch's workers."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, torch.Tensor) and value.dtype == torch.uint8:
        return value.cpu().numpy().tobytes()
    try:
        if isinstance(value, (list, tuple, bytes)):
            return bytes(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "torchdata state: the sampler's generator must be a tensor of uint8 or a list of bytes, got a "
        f"{type(value).__name__}"
    )
