"""Accelerate's `prepare` for one of our loaders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from accelerate.data_loader import SeedableRandomSampler, get_sampler
from accelerate.state import DistributedType
from accelerate.utils import RNGType, synchronize_rng_states
from torch.utils.data import BatchSampler, DistributedSampler, IterableDataset, RandomSampler

from sluicegate.loader.dataloader import DataLoader, progress_of
from sluicegate.order.plan import resolved_shard
from sluicegate.order.settings import LoaderSettings
from sluicegate.sampler import is_ours
from sluicegate.state.stateful import is_stateful

from .prepared_loader import PreparedLoader
from .process_batches import ProcessBatches

if TYPE_CHECKING:
    import accelerate

# The arguments of torch's loader that do not determine the content of a batch, and the arguments that only ours has.
TORCHS_ARGUMENTS = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator"),
    *("prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"),
)
OUR_ARGUMENTS = (
    *("seed", "seed_samples", "worker_type", "native", "prefetch_bytes", "device_prefetch", "device_transform"),
    "snapshot_every_n_steps",
)
# The arguments of a loader that do not depend on the number of processes.
_KEPT = (*TORCHS_ARGUMENTS, *OUR_ARGUMENTS, "device")


def prepared(
    accelerator: accelerate.Accelerator, loader: DataLoader[Any], device_placement: bool, is_divided: bool = False
) -> Any:
    """Return the part of `loader` that belongs to this process, on the accelerator's device.

    Args:
        accelerator: whose processes share the samples.
        loader: the loader of all of them.
        device_placement: True to move batches to the accelerator's device.
        is_divided: True if the loader's sampler already yields only this process's part.

    Raises:
        ValueError: a setting that the loader can't follow, or a loader that can't be divided.
        TypeError: a subclass of `DataLoader`.
    """
    check_settings(accelerator, loader)
    check_loader(loader, accelerator)
    arguments = {name: getattr(loader, name) for name in _KEPT}
    if device_placement and loader.device is None:
        arguments["device"] = accelerator.device
    generator, draws_globally = None, False
    if accelerator.num_processes == 1 or is_divided:
        arguments |= order_arguments(loader)
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    elif _is_arithmetic(loader):
        arguments |= _shard(loader, accelerator)
        size = arguments.get("batch_size")
        size = None if size is None else size * accelerator.num_processes
    else:
        if accelerator.use_seedable_sampler:
            # Accelerate gives no other sampler a generator then, so each process draws from its global one.
            draws_globally = getattr(get_sampler(loader), "generator", 0) is None and not _is_seedable(loader)
        else:
            generator = _shared_generator(loader)
        batches = _process_batches(loader, accelerator)
        is_sampler = loader.batch_sampler is None
        arguments |= {"sampler": batches, "batch_size": None} if is_sampler else {"batch_sampler": batches}
        size = batches.total_batch_size
    synchronize = _synchronizing(accelerator, generator, draws_globally)
    made: PreparedLoader[Any] = PreparedLoader(
        loader.dataset, synchronize=synchronize, total_batch_size=size, **arguments
    )
    if epoch := progress_of(loader).epochs.next:
        made.set_epoch(epoch)
    return made


def _synchronizing(
    accelerator: accelerate.Accelerator, generator: torch.Generator | None, draws_globally: bool
) -> Callable[[], None]:
    """Return what makes all processes draw the same values: Accelerate's `rng_types` are followed.

    Args:
        accelerator: whose processes they are.
        generator: that the order is drawn from; None if there is none to synchronize.
        draws_globally: True if the order is drawn from torch's global generator.
    """
    types = [each for each in map(RNGType, accelerator.rng_types) if each != RNGType.GENERATOR or generator is not None]
    if draws_globally and RNGType.TORCH not in types:
        # Otherwise processes that have drawn unequally would have different orders.
        types.append(RNGType.TORCH)
    return functools.partial(synchronize_rng_states, types, generator)


def check_settings(accelerator: accelerate.Accelerator, loader: DataLoader[Any]) -> None:
    """Refuse settings of `accelerator` that `loader` can't follow; ValueError says which."""
    state = accelerator.state
    if accelerator.dispatch_batches:
        raise ValueError(
            "dispatch_batches: a sluicegate.DataLoader reads in every process, so one process can't read for all of "
            "them, got True; leave dispatch_batches out of DataLoaderConfiguration"
        )
    if state.distributed_type == DistributedType.XLA:
        raise ValueError("prepare: a sluicegate.DataLoader can't feed XLA devices; use torch.utils.data.DataLoader")
    if accelerator.num_processes == 1:
        mesh = None
    else:
        mesh = accelerator.torch_device_mesh or getattr(state, "ds_device_mesh", None)
    if mesh is not None:
        raise ValueError(
            f"prepare: a sluicegate.DataLoader can't be sharded by a device mesh, got {mesh}; pass the loader "
            "shard=(rank, world_size) of its data-parallel group, and leave it out of prepare()"
        )
    is_drawn = (
        not _is_arithmetic(loader) and isinstance(get_sampler(loader), RandomSampler) and not _is_seedable(loader)
    )
    if accelerator.use_seedable_sampler and is_drawn:
        raise ValueError(
            "use_seedable_sampler: it would replace the sampler of a loader that shuffles without a seed, got True; "
            "pass seed= to the sluicegate.DataLoader, which makes its order reproducible, or leave "
            "use_seedable_sampler out"
        )
    if not accelerator.even_batches and accelerator.num_processes > 1 and _is_arithmetic(loader):
        raise ValueError(
            "even_batches: with seed=, all processes get the same number of batches, of the same sizes, got False; "
            "leave even_batches out (gather_for_metrics drops the padding), or build the loader without seed="
        )


def check_loader(loader: DataLoader[Any], accelerator: accelerate.Accelerator) -> None:
    """Refuse a loader that can't be prepared; ValueError or TypeError says why."""
    if type(loader) is not DataLoader:
        raise TypeError(
            f"prepare: expected a sluicegate.DataLoader, got its subclass {type(loader).__name__}, whose methods "
            "would be lost; prepare a DataLoader itself"
        )
    progress = progress_of(loader)
    if progress.pending is not None or progress.left_out.is_something:
        raise ValueError(
            "prepare: this loader already has a loaded state, or batches or samples to skip; prepare it first, then "
            "call load_state_dict, skip, or skip_samples on the loader that prepare() returns"
        )
    here = accelerator.process_index, accelerator.num_processes
    if loader.shard is not None and resolved_shard(loader.shard) != here:
        raise ValueError(
            f"prepare: shard= must be {here}, the rank and world size of this process, got {loader.shard!r}; leave "
            "shard= out"
        )
    if accelerator.num_processes == 1:
        return
    if isinstance(loader.dataset, IterableDataset):
        raise ValueError(
            "prepare: an IterableDataset can't be sharded so that all processes take the same number of steps; leave "
            "the loader out of prepare(), and pass it device=accelerator.device"
        )
    if not loader.in_order:
        raise ValueError(
            "prepare: with several processes, batches must be delivered in order, got in_order=False; pass the loader "
            "in_order=True"
        )
    if loader.batch_sampler is None and not isinstance(loader.sampler, BatchSampler):
        raise ValueError(
            "prepare: there are no batches to divide among processes, got batch_size=None; pass a batch_size"
        )
    sampler = get_sampler(loader)
    if isinstance(sampler, DistributedSampler):
        raise ValueError(
            f"prepare: {type(sampler).__name__} divides the samples among processes, and prepare() would divide them "
            "again; pass the loader shuffle=True or a different sampler"
        )
    if not _is_arithmetic(loader) and any(map(_has_own_state, (loader.batch_sampler, sampler))):
        raise ValueError(
            f"prepare: {type(sampler).__name__} has its own state_dict, from which several processes can't resume "
            "without a seed; pass seed= to the loader"
        )


def _has_own_state(sampler: Any) -> bool:
    return is_stateful(sampler) and not is_ours(sampler)


def _is_arithmetic(loader: DataLoader[Any]) -> bool:
    """Return True if every process can compute the order by itself."""
    return loader.seed is not None or LoaderSettings.of(loader).ordering is not None


def _is_seedable(loader: DataLoader[Any]) -> bool:
    """Return True if Accelerate's sampler draws from a generator that each epoch seeds."""
    return isinstance(get_sampler(loader), SeedableRandomSampler)


def order_arguments(loader: torch.utils.data.DataLoader[Any]) -> dict[str, Any]:
    """Return the arguments that determine the content of a batch, unchanged, of torch's loader or ours."""
    if isinstance(loader.dataset, IterableDataset):
        return {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if loader.batch_sampler is not None and loader.batch_size is None:
        return {"batch_sampler": loader.batch_sampler}
    return {"batch_size": loader.batch_size, "sampler": loader.sampler, "drop_last": loader.drop_last}


def _shard(loader: DataLoader[Any], accelerator: accelerate.Accelerator) -> dict[str, Any]:
    """Return the arguments for this process's shard of an order that is arithmetic."""
    arguments = order_arguments(loader)
    drops_last = loader.drop_last or bool(getattr(loader.batch_sampler, "drop_last", False))
    if accelerator.split_batches:
        size, processes = arguments.get("batch_size"), accelerator.num_processes
        if size is None or size % processes:
            raise ValueError(
                f"split_batches: batch_size must be a multiple of the number of processes, {processes}, got {size}; "
                "pass the loader such a batch_size, and no batch_sampler"
            )
        arguments["batch_size"] = size // processes
    remainder = "exact" if loader.remainder == "pad" else loader.remainder
    arguments["shard"] = accelerator.process_index, accelerator.num_processes
    return arguments | {"remainder": "drop" if drops_last else remainder}


def _process_batches(loader: DataLoader[Any], accelerator: accelerate.Accelerator) -> ProcessBatches:
    return ProcessBatches(
        loader.sampler if loader.batch_sampler is None else loader.batch_sampler,
        accelerator.num_processes,
        accelerator.process_index,
        accelerator.split_batches,
        accelerator.even_batches,
    )


def _shared_generator(loader: DataLoader[Any]) -> torch.Generator | None:
    """Return the generator that the order is drawn from, which processes synchronize when an epoch begins.

    A sampler without a generator gets one, seeded by the same draw as in Accelerate.
    """
    sampler = get_sampler(loader)
    if not hasattr(sampler, "generator"):
        return None
    if sampler.generator is None:
        sampler.generator = torch.Generator(device=torch.get_default_device())
        sampler.generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
    generator: torch.Generator = sampler.generator
    return generator
