"""`Work` and `WorkerSettings`: the information with which the workers of one iterator are started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate import _core
from sluicegate.device.pinned import PinnedMemory
from sluicegate.fetch.fetch_settings import FetchSettings
from sluicegate.order.settings import LoaderSettings
from sluicegate.state.place_state import PlaceState

from .memory import WorkerMemory


@dataclass(frozen=True)
class WorkerSettings:
    """Settings that all workers of one iterator need; they are pickled for worker processes."""

    dataset_kind: int
    auto_collation: bool
    drop_last: bool
    base_seed: int
    num_workers: int
    shared_seed: int | None
    sampler: str
    # The loader's arguments of these names; they apply in seed mode.
    seed: int | None
    seed_samples: bool
    # The first epoch of streams, and True if the dataset's `set_epoch` is called.
    epoch: int
    sets_epoch: bool
    snapshot_every: int
    # For a stream that the core reads: how many consecutive samples belong to one worker.
    run: int
    # True if Rust may do part of the work of Python datasets.
    allows_native: bool
    # By worker: its position in the dataset in the state that the epoch resumes from.
    places: Sequence[PlaceState | None]

    def fetching(self, collate_fn: Callable[[Any], Any], sample_id: Any, *, reads_heads: bool = False) -> FetchSettings:
        """Return how a worker makes batches, with what is passed to it in other ways."""
        return FetchSettings(
            auto_collation=self.auto_collation,
            collate_fn=collate_fn,
            sampler=self.sampler,
            sample_id=sample_id,
            drop_last=self.drop_last,
            run=self.run,
            reads_heads=reads_heads,
        )


@dataclass(frozen=True)
class Work:
    """Everything that the workers of one iterator are started with.

    Attributes:
        settings: the loader's arguments when the epoch began.
        worker_settings: what each worker needs to know.
        dataset: what they read: the dataset of the iterator's first epoch.
        collate_fn: makes a batch of samples.
        init_fn: called in every worker with its number; with DataPipes, not only the loader's `worker_init_fn`.
        prefetch_factor: batches loaded ahead per worker.
        bytes_ahead: counts the batches that have not been delivered.
        memory: lends what processes write batches to.
        pinned: provides pinned blocks, if batches are to be made in them.
        key: of the destination: iterators with different ones can't share workers.
        shares_pass: True for a stream of the core that threads of this process read together, each sample once.
    """

    settings: LoaderSettings
    worker_settings: WorkerSettings
    dataset: Any
    collate_fn: Callable[[Any], Any]
    init_fn: Callable[[int], None] | None
    prefetch_factor: int
    bytes_ahead: _core.BytesAhead
    memory: WorkerMemory
    pinned: PinnedMemory | None
    key: object
    shares_pass: bool

    @property
    def replaces_processes(self) -> bool:
        """True if threads read in place of the worker processes that were requested."""
        return self.shares_pass and self.settings.worker_type == "process"

    def terms(self) -> tuple[Any, ...]:
        """Return the facts that must be equal for iterators to share workers."""
        own, settings = self.worker_settings, self.settings
        return (
            *(own.dataset_kind, id(self.dataset), own.auto_collation, self.collate_fn, settings.worker_init_fn),
            *(own.num_workers, self.prefetch_factor, settings.worker_type, settings.multiprocessing_context),
            *(own.seed, own.seed_samples, own.snapshot_every, settings.sample_id, self.key),
        )
