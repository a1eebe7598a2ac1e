"""Where batches of indices come from: any sampler of the user's, or torch's own ones without their Python.

A *request* for a batch is what the core can take in one call: a `range`, a `Slice` of a permutation, or whatever a
sampler of the user's yields.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from . import _core, _torch


class Permutation:
    """An int64 tensor of indices that the core reads by its address."""

    def __init__(self, indices: torch.Tensor) -> None:
        self.tensor = indices
        self.core = _core.Indices(indices.data_ptr(), len(indices), indices)


class Slice(NamedTuple):
    """Part of a permutation: `permutation[start:stop]`."""

    permutation: Permutation
    start: int
    stop: int


def requests(index_sampler: Any, index_iterator: Iterator[Any], engine: _core.Engine) -> Iterator[Any]:
    """The requests of one epoch, drawn from the random number generators when and as torch draws.

    Args:
        index_sampler: the loader's batch sampler, as it is configured now.
        index_iterator: `iter(index_sampler)`, not begun: what is read when the sampler is none that we know.
        engine: where permutations live.
    """
    # A generator: like torch's samplers, whatever is swapped between `iter()` and the first batch is honoured.
    yield from _native_requests(index_sampler, engine) or index_iterator


def _native_requests(index_sampler: Any, engine: _core.Engine) -> Iterator[Any] | None:
    if not _is_torchs(index_sampler, BatchSampler):
        return None
    sampler = index_sampler.sampler
    if _is_torchs(sampler, SequentialSampler):
        return _sequential(index_sampler, sampler)
    if _is_torchs(sampler, RandomSampler) and not sampler.replacement:
        return _random(index_sampler, _permutations(sampler, engine))
    return None


def _is_torchs(sampler: Any, cls: type) -> bool:
    """Whether `sampler` is exactly a `cls`, and iterates as torch wrote it."""
    return type(sampler) is cls and _torch.is_torchs_own(cls.__iter__)


def indices_of(request: Any) -> Any:
    """What torch's sampler would have yielded in the place of `request`."""
    if isinstance(request, Slice):
        return request.permutation.tensor[request.start : request.stop].tolist()
    return list(request) if type(request) is range else request


def _sequential(batch_sampler: BatchSampler, sampler: SequentialSampler) -> Iterator[range]:
    # Read here and not by the caller: torch's sampler looks at the length when its first index is asked for.
    length = len(sampler.data_source)
    drop_last = batch_sampler.drop_last
    start = 0
    for batch_size in _batch_sizes(batch_sampler):
        stop = min(start + batch_size, length)
        if start == stop or (drop_last and stop - start < batch_size):
            return
        yield range(start, stop)
        start = stop


def _batch_sizes(batch_sampler: BatchSampler) -> Iterator[int]:
    """The size of each batch to come. Torch reads it once when it drops the last batch, else before every batch."""
    if batch_sampler.drop_last:
        yield from itertools.repeat(batch_sampler.batch_size)
    while True:
        yield batch_sampler.batch_size


def _random(batch_sampler: BatchSampler, permutations: Iterator[torch.Tensor]) -> Iterator[Slice]:
    drop_last = batch_sampler.drop_last
    permutation = Permutation(torch.empty(0, dtype=torch.int64, device="cpu"))
    start = end = 0
    for batch_size in _batch_sizes(batch_sampler):
        parts: list[torch.Tensor] = []
        missing = batch_size
        # A batch may need the end of one permutation and the start of the next, which is drawn when it is reached.
        while missing > end - start:
            if start < end:
                parts.append(permutation.tensor[start:end])
                missing -= end - start
            drawn = next(permutations, None)
            if drawn is None:
                if parts and not drop_last:
                    yield _whole(parts)
                return
            permutation, start, end = Permutation(drawn), 0, len(drawn)
        stop = start + missing
        if parts:
            parts.append(permutation.tensor[start:stop])
            yield _whole(parts)
        else:
            yield Slice(permutation, start, stop)
        start = stop


def _whole(parts: list[torch.Tensor]) -> Slice:
    joined = Permutation(parts[0].contiguous() if len(parts) == 1 else torch.cat(parts))
    return Slice(joined, 0, len(joined.tensor))


def _permutations(sampler: RandomSampler, engine: _core.Engine) -> Iterator[torch.Tensor]:
    """The permutations that `RandomSampler.__iter__` draws, each at its moment."""
    length = len(sampler.data_source)
    generator = sampler.generator
    if generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    for _ in range(sampler.num_samples // length):
        yield _randperm(length, generator, engine)
    rest = sampler.num_samples % length
    # Torch draws a last permutation even when it needs nothing of it. Only a generator of the user's shows that.
    if rest or sampler.generator is not None:
        yield _randperm(length, generator, engine)[:rest]


def _randperm(length: int, generator: torch.Generator, engine: _core.Engine) -> torch.Tensor:
    """`torch.randperm`, as it would be called here, into memory that the next epoch uses again."""
    if torch.get_default_device().type != "cpu":
        return torch.randperm(length, generator=generator).cpu()
    return torch.randperm(length, generator=generator, out=_torch.from_dlpack(engine.index_capsule(length)))


def waits_for_epoch(index_sampler: Any) -> bool:
    """Whether trainers may yet set the epoch of this sampler, or of the one that it batches, between `iter` and `next`.

    With workers torch reads every sampler in `iter`. So do we, but for these.
    """
    return hasattr(index_sampler, "set_epoch") or hasattr(getattr(index_sampler, "sampler", None), "set_epoch")
