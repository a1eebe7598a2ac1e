"""`LoaderSettings`: the arguments of a loader, read once when an epoch begins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sluicegate import _torch

from .loader_arguments import LoaderArguments
from .plan import Ordering
from .torch_order import is_known


@dataclass(frozen=True)
class LoaderSettings(Ordering):
    """The arguments of a loader at one moment: trainers swap samplers and functions until an epoch begins.

    The attributes have the names and meanings of the loader's arguments, except for these:

    Attributes:
        is_stream: True if the dataset is iterable-style.
        snapshot_every: the argument `snapshot_every_n_steps`, with 0 for None.
        sample_id: what identifies a sample, as given to `with_ids`.
    """

    dataset: Any
    is_stream: bool
    batch_size: int | None
    drop_last: bool
    collate_fn: Any
    generator: torch.Generator | None
    num_workers: int
    worker_type: str
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    persistent_workers: bool
    prefetch_factor: int | None
    prefetch_bytes: int | None
    snapshot_every: int
    timeout: float
    in_order: bool
    seed_samples: bool
    native: bool
    device: Any
    device_prefetch: int
    device_transform: Callable[[Any], Any] | None
    sample_id: Any

    @classmethod
    def of(cls, loader: LoaderArguments, sample_id: Any = None) -> LoaderSettings:
        """Return the current settings of `loader`, a `DataLoader`: the only place that reads its arguments."""
        return cls(
            index_sampler=loader._index_sampler,
            auto_collation=loader._auto_collation,
            seed=loader.seed,
            shard=loader.shard,
            remainder=loader.remainder,
            dataset=loader.dataset,
            is_stream=loader._dataset_kind != _torch.DatasetKind.Map,
            batch_size=loader.batch_size,
            drop_last=loader.drop_last,
            collate_fn=loader.collate_fn,
            generator=loader.generator,
            num_workers=loader.num_workers,
            worker_type=loader.worker_type,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            persistent_workers=loader.persistent_workers,
            prefetch_factor=loader.prefetch_factor,
            prefetch_bytes=loader.prefetch_bytes,
            snapshot_every=loader.snapshot_every_n_steps or 0,
            timeout=loader.timeout,
            in_order=loader.in_order,
            seed_samples=loader.seed_samples,
            native=loader.native,
            device=loader.device,
            device_prefetch=loader.device_prefetch,
            device_transform=loader.device_transform,
            sample_id=sample_id,
        )

    @functools.cached_property
    def native_refusal(self) -> tuple[str, str] | None:
        """Why everything is read in Python, by the argument `native` or the environment, and the remedy; or None."""
        if not self.native:
            return "native is False", "leave out native"
        if (setting := os.environ.get("SLUICEGATE_NATIVE", "1")) not in ("", "1"):
            return f"the environment has SLUICEGATE_NATIVE={setting}", "unset it"
        return None

    @property
    def allows_native(self) -> bool:
        """True unless the argument `native` or the environment has everything read in Python."""
        return self.native_refusal is None

    @functools.cached_property
    def is_known(self) -> bool:
        """True if the order is drawn by torch's own samplers, or our equivalents: they draw as torch's code does."""
        return is_known(self.index_sampler)

    @property
    def ordering(self) -> Ordering | None:
        """These settings if batches follow from arithmetic, not from a sampler's items one by one; otherwise None."""
        return self if self._has_ordering else None

    @functools.cached_property
    def _has_ordering(self) -> bool:
        # Not the settings themselves, which would keep themselves, and the dataset, alive.
        if self.is_stream or (self.seed is None and self.shard is None and self.is_known):
            return False
        return self.is_arithmetic
