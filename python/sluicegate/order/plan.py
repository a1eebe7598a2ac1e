"""Arithmetic orders: the plan of an epoch in seed mode, of a shard, and of samplers with their own seed."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from sluicegate import _core, sampler
from sluicegate.rng.stream_seeding import sampler_seeding
from sluicegate.sampler import positional
from sluicegate.sampler.identity import identity_of
from sluicegate.sampler.positional import has_seed
from sluicegate.sampler.translation import translated
from sluicegate.stream.consumer import checked_shard
from sluicegate.stream.hugging_face import is_hugging_face, split_among_ranks
from sluicegate.stream.self_splitting import remedy_of

from .sharded_twice import sharding
from .torch_order import is_torchs


@dataclass(frozen=True)
class Ordering:
    """The loader settings that determine sample order."""

    index_sampler: Any
    auto_collation: bool
    seed: int | None
    shard: tuple[int, int] | str | None
    remainder: str

    @property
    def is_single(self) -> bool:
        """True if a request is a single index: a sampler of batches makes lists of them even without collation."""
        return not self.auto_collation and _batch_sampler_of(self) is None and not _makes_batches(self.index_sampler)

    @property
    def is_arithmetic(self) -> bool:
        """True if the batches follow from arithmetic, not from the items that a sampler yields one by one."""
        if self.shard is not None:
            return True
        if self.seed is None:
            return has_order(self.index_sampler)
        cut = _batch_sampler_of(self)
        each = self.index_sampler if cut is None else cut.sampler
        return _is_translatable(each) or _makes_batches(each)

    @property
    def lists_sampler(self) -> bool:
        """True if a user-defined sampler is listed in full, of an arithmetic order."""
        each = Whole.of(self).sampler
        return not (_is_translatable(each) or _makes_batches(each))


@dataclass(frozen=True)
class Whole:
    """The global order of all ranks, and how each rank takes its part of it."""

    sampler: Any
    seed: int | None
    batch_size: int
    drop_last: bool
    shard: tuple[int, int] | str | None
    remainder: str

    @classmethod
    def of(cls, ordering: Ordering) -> Whole:
        """Return the global order of `ordering`; nothing is drawn, and the rank is not resolved."""
        each, cut = ordering.index_sampler, _batch_sampler_of(ordering)
        batch_size, drop_last, seed = 1, False, ordering.seed
        shard, remainder = ordering.shard, ordering.remainder
        if cut is not None:
            batch_size, drop_last, each = cut.batch_size, cut.drop_last, cut.sampler
            seed = ordering.seed if getattr(cut, "seed", None) is None else cut.seed
        if seed is not None and type(each) in (DistributedSampler, sampler.DistributedSampler):
            # Equivalent to a shard: treated as one, the state counts positions that are the same for every rank.
            shard, remainder = (each.rank, each.num_replicas), "drop" if each.drop_last else "pad"
            is_random = each.shuffle and len(each.dataset) > 0  # Torch's `RandomSampler` refuses an empty dataset.
            each = RandomSampler(each.dataset) if is_random else SequentialSampler(each.dataset)
        return cls(each, seed, batch_size, drop_last, shard, remainder)

    def identity(self) -> str | None:
        """Return a description of the order; None if it is unknown."""
        own = self.sampler if _makes_batches(self.sampler) else _own(self.sampler)
        return None if own is None else identity_of(own, self.seed)


_T = TypeVar("_T")

_SHARD_ITERABLE = (
    "wrap it in sluicegate.shard_iterable, which gives every rank and worker a part of its own, unless it splits "
    "itself among ranks and workers (by get_worker_info or torch.distributed): then pass it without shard="
)


def check_order(seed: Any, generator: Any, shard: Any, remainder: Any, dataset: Any) -> None:
    """Raise a ValueError for order arguments of a loader that are invalid or contradict each other."""
    if seed is not None and generator is not None:
        raise ValueError("seed option is mutually exclusive with generator: the order comes from the seed alone")
    if remainder not in ("pad", "drop", "exact"):
        raise ValueError(f"remainder option should be 'pad', 'drop' or 'exact', but got {remainder!r}")
    if shard is None:
        return
    if isinstance(dataset, torch.utils.data.IterableDataset):
        if not is_hugging_face(dataset):
            raise ValueError(
                "shard option can't be given with an IterableDataset, which determines its own order; "
                + (remedy_of(dataset) or _SHARD_ITERABLE)
            )
        if remainder != "pad":
            raise ValueError(
                "remainder option can't be given with an IterableDataset, which is split as split_dataset_by_node "
                f"splits it, but got {remainder!r}; leave it out"
            )
    if shard != "auto":
        checked_shard(shard)


def split_stream(dataset: Any, shard: tuple[int, int] | str | None) -> Any:
    """Return what a loader with `shard` reads: of a Hugging Face stream its part, which its own class splits off.

    Raises:
        ValueError: the stream was split for another rank.
        RuntimeError: for "auto", there are several processes and no process group.
    """
    if shard is None or not is_hugging_face(dataset):
        return dataset
    return split_among_ranks(dataset, *resolved_shard(shard))


def make_plan(ordering: Ordering, epoch: int, start: int, ask: Callable[[Any], Iterator[Any]]) -> _core.Plan:
    """Return the plan of this rank's batches of `epoch`, from global position `start` on.

    Args:
        ordering: the settings that determine the order.
        epoch: counted from 0.
        start: the position that all ranks have reached.
        ask: begins a pass over a user-defined sampler, which is listed in full because its items are otherwise unknown.

    Raises:
        ValueError: the order to shard differs between ranks, or is already a shard.
        TypeError: the sampler to shard does not yield integers, or has no length.
    """
    if ordering.shard is not None:
        _refuse_double_sharding(ordering)
    whole = Whole.of(ordering)
    each, seed = whole.sampler, whole.seed
    source: _core.Order | _core.Batches
    if _makes_batches(each):
        source = each.batches(epoch, seed)
    elif each is ordering.index_sampler and ordering.auto_collation:
        if isinstance(each, sampler.Positional) and (seed is not None or _has_seed(each)):
            each.core(seed)  # To raise its error if it repeats batches, which have no positions.
        with _drawing(seed, epoch):
            source = _batches_of(each, ask)
    else:
        source = _order_of(each, epoch, seed, ask)
    shard = resolved_shard(whole.shard)
    return _core.Plan(source, whole.batch_size, whole.drop_last, shard, whole.remainder, start)


def planned_len(ordering: Ordering, epoch: int, start: int = 0) -> int:
    """Return how many batches each rank gets in `epoch` from global position `start` on; nothing is drawn."""
    # A `DistributedSampler` is treated as a shard: its own length is that of one rank, and `start` is not.
    whole, cut = Whole.of(ordering), _batch_sampler_of(ordering)
    _, world_size = resolved_shard(whole.shard)
    each = whole.sampler
    # Some samplers know the number of batches only with a seed.
    is_known = _makes_batches(each) and (ordering.seed is not None or each.seed is not None)
    count = max(0, len(each.batches(epoch, ordering.seed) if is_known else each) - start)
    local = count // world_size if whole.remainder == "drop" else -(-count // world_size)
    if cut is None:
        return local
    size = int(cut.batch_size)
    return local // size if cut.drop_last else -(-local // size)


def _batch_sampler_of(ordering: Ordering) -> Any:
    """Return the batch sampler that cuts an order into batches; None if a sampler makes them, or there are none."""
    return ordering.index_sampler if _cuts(ordering.index_sampler) else None


def _cuts(each: Any) -> bool:
    return type(each) is sampler.BatchSampler or is_torchs(each, BatchSampler)


def resolved_shard(shard: Any) -> tuple[int, int]:
    """Return `(rank, world_size)`, from `torch.distributed` for "auto"."""
    if shard is None:
        return 0, 1
    if shard == "auto":
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError(
                f'shard="auto": this is one of {os.environ["WORLD_SIZE"]} processes, but there is no process group; '
                "call torch.distributed.init_process_group before the loader is iterated over, or pass "
                "shard=(rank, world_size)"
            )
        return 0, 1
    return checked_shard(shard) or (0, 1)


def has_order(each: Any) -> bool:
    """Return True if `each`, or the sampler that it cuts, has its own seed: its order is arithmetic in any loader."""
    return _has_seed(each) or (_cuts(each) and _has_seed(each.sampler))


def _has_seed(each: Any) -> bool:
    if not sampler.is_ours(each):
        return False
    return has_seed(each) if isinstance(each, sampler.Positional) else each.seed is not None


def _makes_batches(each: Any) -> bool:
    return sampler.is_ours(each) and not isinstance(each, (sampler.Positional, sampler.BatchSampler))


def _is_translatable(each: Any) -> bool:
    if isinstance(each, sampler.Positional):
        return sampler.is_ours(each)
    return translated(each) is not None or is_torchs(each, DistributedSampler)


def _order_of(each: Any, epoch: int, seed: int | None, ask: Callable[[Any], Iterator[Any]]) -> _core.Order:
    """Return the order of `epoch` for `each`, a sampler of any kind."""
    if is_torchs(each, SequentialSampler):
        return _core.sequential_sampler(len(each.data_source)).order(epoch)
    if isinstance(each, sampler.Positional) and sampler.is_ours(each) and (seed is not None or _has_seed(each)):
        return each.order(epoch, seed)
    if seed is not None:
        own = translated(each)
        if own is not None:
            return own.order(epoch, seed)
    elif is_random(each) and getattr(each, "generator", None) is None:
        raise ValueError(
            f"shard: each rank would shuffle in a different order, because {type(each).__name__} draws from a "
            "generator that the ranks do not share; pass seed= to the loader, or a generator with the same seed on "
            "every rank"
        )
    with _drawing(seed, epoch):
        return _explicit(each, ask)


def _drawing(seed: int | None, epoch: int) -> contextlib.AbstractContextManager[None]:
    """Return the context for listing a user-defined sampler: a seed determines its draws, the same on every rank."""
    return contextlib.nullcontext() if seed is None else sampler_seeding(seed, epoch).batch()


def _own(each: Any) -> sampler.Positional | None:
    """Return `each` as one of our positional samplers, to which torch's translate in seed mode; None for others."""
    if isinstance(each, sampler.Positional) and sampler.is_ours(each):
        return each
    if is_torchs(each, DistributedSampler):
        arguments = each.dataset, each.num_replicas, each.rank, each.shuffle, each.seed, each.drop_last
        return sampler.DistributedSampler(*arguments)
    return translated(each)


def is_random(each: Any) -> bool:
    """Return True if `each` is one of torch's samplers that draw, or our version of one."""
    if isinstance(each, sampler.Positional):
        return positional.is_random(each)
    return isinstance(each, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))


def _explicit(each: Any, ask: Callable[[Any], Iterator[Any]]) -> _core.Order:
    indices = _int64(list(_bounded(each, ask)), each)
    return _counted_from_zero(each, _core.explicit_order(indices))


def _batches_of(batch_sampler: Any, ask: Callable[[Any], Iterator[Any]]) -> _core.Batches:
    batches = [list(batch) for batch in _bounded(batch_sampler, ask)]
    indices = _int64(list(itertools.chain.from_iterable(batches)), batch_sampler)
    return _counted_from_zero(batch_sampler, _core.explicit_batches(indices, [len(batch) for batch in batches]))


def _counted_from_zero(each: Any, found: _T | None) -> _T:
    """Return the core's result for the indices of `each`: None if some are negative."""
    if found is None:
        raise ValueError(
            f"shard: {type(each).__name__} yields negative indices, which count from the end; add len(dataset) to them"
        )
    return found


def _bounded(each: Any, ask: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """Yield at most `len(each)` items of `each`, because a sampler may be infinite."""
    try:
        length = len(each)
    except (TypeError, NotImplementedError) as error:
        raise TypeError(
            f"shard: {type(each).__name__} has no length, which is needed to split its order among ranks; define "
            "__len__, or shard in the sampler itself"
        ) from error
    with sharding():
        items = ask(each)
        yield from itertools.islice(items, length)
        # Actions after the last index, such as counting epochs, happen only when another one is requested.
        next(items, None)


def _int64(indices: list[Any], each: Any) -> _core.Indices:
    if not all(type(index) is int for index in indices):
        indices = [_integer(index, each) for index in indices]
    array = np.array(indices, dtype=np.int64)
    return _core.Indices(array.ctypes.data, len(array), array)


def _integer(index: Any, each: Any) -> int:
    try:
        return int(index.__index__())
    except (AttributeError, TypeError) as error:
        raise TypeError(f"shard: expected integers from {type(each).__name__}, got {index!r}") from error


def _refuse_double_sharding(ordering: Ordering) -> None:
    for each in (ordering.index_sampler, getattr(ordering.index_sampler, "sampler", None)):
        if isinstance(each, DistributedSampler):
            raise ValueError(
                f"shard: the order is sharded twice, by {type(each).__name__} and again by shard={ordering.shard!r}; "
                "leave one of them out"
            )
