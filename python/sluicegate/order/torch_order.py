"""The order of an epoch in torch mode for torch's own samplers: the same draws, without their Python code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from sluicegate import _core, _torch
from sluicegate import sampler as ours
from sluicegate.rng.global_generators import set_generator_state
from sluicegate.sampler import Positional
from sluicegate.sampler.positional import own_seed
from sluicegate.state.stateful import attribute

from .requests import Permutation, Slice, slice_of


def known_requests(
    index_sampler: Any, engine: _core.Engine, past: int, order: str | None = None
) -> Iterator[Any] | None:
    """Return the requests of one epoch after batch `past`; None for samplers that must be asked in Python.

    Draws happen at the same moments as torch's, from the same generators.

    Args:
        index_sampler: the loader's batch sampler, as configured now.
        engine: owns the memory of permutations.
        past: how many batches of the epoch to skip.
        order: the state of a generator from which a `RandomSampler` draws the order, instead of its own.
    """
    if not is_torchs(index_sampler, BatchSampler):
        return None
    sampler, size = index_sampler.sampler, index_sampler.batch_size
    if type(size) is not int or size < 1:
        return None  # Changed after construction: leave the result to torch's `islice`.
    if is_torchs(sampler, SequentialSampler):
        return _sequential(index_sampler, sampler, past)
    drawn = _drawn(sampler, engine, order)
    return None if drawn is None else _batches(index_sampler, drawn, past)


def is_known(index_sampler: Any) -> bool:
    """Return True if `known_requests` supports this sampler."""
    if not is_torchs(index_sampler, BatchSampler):
        return False
    sampler = getattr(index_sampler, "sampler", None)
    cls = _KNOWN.get(type(sampler))
    return cls is not None and is_torchs(sampler, cls)


def is_torchs(sampler: Any, cls: type) -> bool:
    """Return True if `sampler` is exactly a `cls`, or our equivalent, and iterates like torch's original."""
    if type(sampler) is not cls:
        if type(sampler) is not _OURS.get(cls) or type(sampler).__iter__ is not _ITERATION:
            return False
        # A sampler that was given a state resumes from it by itself.
        if own_seed(sampler) is not None or sampler.next_yielded is not None:
            return False
    return _torch.iterates_as_torchs(cls)


def own_sampler(sampler: Any) -> Any:
    """Return our equivalent of torch's sampler, with the same attributes; others, and patched classes, unchanged."""
    cls = type(sampler)
    if cls not in (SequentialSampler, RandomSampler) or not is_torchs(sampler, cls):
        return sampler
    own = _OURS[cls].__new__(_OURS[cls])
    vars(own).update(vars(sampler), seed=None)
    return own


_ITERATION = Positional.__iter__


# By torch class: our equivalent, which is identical without a seed.
_OURS: dict[type, type[Positional]] = {
    SequentialSampler: ours.SequentialSampler,
    RandomSampler: ours.RandomSampler,
    SubsetRandomSampler: ours.SubsetRandomSampler,
    WeightedRandomSampler: ours.WeightedRandomSampler,
    DistributedSampler: ours.DistributedSampler,
}

# By class of either kind: torch's class.
_KNOWN: dict[type, type] = {each: cls for cls, own in _OURS.items() for each in (cls, own)}

# A permutation shorter than this is drawn as fast as memory for it is found.
_SHORT = 4096


def _drawn(sampler: Any, engine: _core.Engine, order: str | None) -> Iterator[torch.Tensor] | None:
    """Return the index tensors that the sampler iterates over, each drawn when torch draws it."""
    if is_torchs(sampler, RandomSampler) and not sampler.replacement:
        return _permutations(sampler, engine, order)
    if is_torchs(sampler, SubsetRandomSampler) and _are_integers(sampler.indices):
        return _subset(sampler)
    if is_torchs(sampler, WeightedRandomSampler):
        return _weighted(sampler)
    if is_torchs(sampler, DistributedSampler):
        return _distributed(sampler)
    return None


def _sequential(batch_sampler: BatchSampler, sampler: SequentialSampler, past: int) -> Iterator[range]:
    # Not read by the caller, because torch's sampler reads the length when its first index is requested.
    length = len(sampler.data_source)
    drop_last = batch_sampler.drop_last
    start = min(past * batch_sampler.batch_size, length)
    for batch_size in _batch_sizes(batch_sampler):
        stop = min(start + batch_size, length)
        if start == stop or (drop_last and stop - start < batch_size):
            return
        yield range(start, stop)
        start = stop


def _batch_sizes(batch_sampler: BatchSampler) -> Iterator[int]:
    """Yield the size of each batch. Torch reads it once if it drops the last batch, otherwise before every batch."""
    if batch_sampler.drop_last:
        yield from itertools.repeat(batch_sampler.batch_size)
    while size := batch_sampler.batch_size:
        yield size


def _batches(batch_sampler: BatchSampler, drawn: Iterator[torch.Tensor], past: int) -> Iterator[Slice]:
    """Return the batches after `past`; the permutations of the skipped batches are drawn now, and no others."""
    permutation = Permutation(torch.empty(0, dtype=torch.int64, device="cpu"))
    start = 0
    to_skip = past * batch_sampler.batch_size
    while to_skip > 0:
        following = next(drawn, None)
        if following is None:
            return iter(())
        permutation = Permutation(following)
        start = min(to_skip, len(permutation))
        to_skip -= start
    return _cut(batch_sampler, drawn, permutation, start)


def _cut(
    batch_sampler: BatchSampler, drawn: Iterator[torch.Tensor], permutation: Permutation, start: int
) -> Iterator[Slice]:
    drop_last = batch_sampler.drop_last
    end = len(permutation)
    for batch_size in _batch_sizes(batch_sampler):
        parts: list[Slice] = []
        missing = batch_size
        # A batch may need the end of one permutation and the start of the next, which is drawn when reached.
        while missing > end - start:
            if start < end:
                parts.append(slice_of((permutation, start, end)))
                missing -= end - start
            following = next(drawn, None)
            if following is None:
                if parts and not drop_last:
                    yield _joined(parts)
                return
            permutation, start = Permutation(following), 0
            end = len(permutation)
        stop = start + missing
        part = slice_of((permutation, start, stop))
        yield _joined([*parts, part]) if parts else part
        start = stop


def _joined(parts: list[Slice]) -> Slice:
    if len(parts) == 1:
        return parts[0]
    joined = Permutation(torch.cat([part.permutation.tensor[part.start : part.stop] for part in parts]))
    return Slice(joined, 0, len(joined))


def _permutations(sampler: RandomSampler, engine: _core.Engine, order: str | None) -> Iterator[torch.Tensor]:
    """Yield the permutations that `RandomSampler.__iter__` draws, each when torch draws it."""
    length = len(sampler.data_source)
    generator = sampler.generator
    if order is not None:
        generator = torch.Generator()
        set_generator_state(generator, order)
    elif generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    for _ in range(sampler.num_samples // length):
        yield _randperm(length, generator, engine)
    rest = sampler.num_samples % length
    # Torch draws a last permutation even if it needs none of it, which only a user's generator reveals.
    if rest or sampler.generator is not None:
        yield _randperm(length, generator, engine)[:rest]


def _randperm(length: int, generator: torch.Generator, engine: _core.Engine) -> torch.Tensor:
    """Return the result of `torch.randperm`; of a long one, in memory that the next epoch reuses."""
    if length < _SHORT or torch.get_default_device().type != "cpu":
        return torch.randperm(length, generator=generator).cpu()
    return torch.randperm(length, generator=generator, out=_torch.from_dlpack(engine.index_capsule(length)))


def _subset(sampler: SubsetRandomSampler) -> Iterator[torch.Tensor]:
    order = torch.randperm(len(sampler.indices), generator=sampler.generator)
    yield torch.tensor([sampler.indices[index] for index in order.tolist()], dtype=torch.int64, device="cpu")


def _are_integers(indices: Any) -> bool:
    # Torch passes all elements on; an element of a tensor is a tensor, which a dataset may treat differently.
    return type(indices) is range or (type(indices) in (list, tuple) and all(type(index) is int for index in indices))


def _weighted(sampler: WeightedRandomSampler) -> Iterator[torch.Tensor]:
    drawn = torch.multinomial(sampler.weights, sampler.num_samples, sampler.replacement, generator=sampler.generator)
    yield drawn.cpu()


def _distributed(sampler: DistributedSampler[Any]) -> Iterator[torch.Tensor]:
    length = len(sampler.dataset)  # type: ignore[arg-type]
    if not _fits(sampler, length):
        # The dataset or an attribute was changed since: torch either refuses that or handles it.
        yield torch.tensor(list(DistributedSampler.__iter__(sampler)), dtype=torch.int64, device="cpu")
        return
    if sampler.shuffle:
        generator = torch.Generator()
        generator.manual_seed(sampler.seed + sampler.epoch)
        order = torch.randperm(length, generator=generator)
    else:
        order = torch.arange(length, device="cpu")
    if sampler.total_size > length > 0:
        order = order.repeat(-(-sampler.total_size // length))
    yield order[sampler.rank : sampler.total_size : sampler.num_replicas].contiguous()


def _fits(sampler: DistributedSampler[Any], length: int) -> bool:
    """Return True if every rank gets what the sampler promises, from a dataset of this length."""
    total = sampler.total_size
    is_divided = 0 <= sampler.rank < sampler.num_replicas and total == sampler.num_samples * sampler.num_replicas
    return is_divided and (total <= length if sampler.drop_last else total >= length > 0 or total == 0)


def waits_for_epoch(index_sampler: Any) -> bool:
    """Return True if trainers may still set this sampler's epoch, or its inner sampler's, between `iter` and `next`.

    With workers, torch reads every sampler in `iter`. So do we, except for those that have a `set_epoch`, unless they
    are ours and their order without a seed does not depend on the epoch.
    """
    inner = attribute(index_sampler, "sampler")
    return any(attribute(each, "set_epoch") is not None and not _is_torch_like(each) for each in (index_sampler, inner))


def _is_torch_like(sampler: Any) -> bool:
    if not ours.is_ours(sampler) or isinstance(sampler, DistributedSampler):
        return False
    if isinstance(sampler, (ours.BatchSampler, ours.RepeatSampler)):
        return not hasattr(sampler.sampler, "set_epoch") or _is_torch_like(sampler.sampler)
    return True
