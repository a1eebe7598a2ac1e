"""`LoaderArguments`: the attributes from which the settings of a loader are read."""

from __future__ import annotations

from typing import Any, Protocol


class LoaderArguments(Protocol):
    """The attributes of a `DataLoader` that determine what an epoch does: its arguments, and those of torch's loader.

    Code below `DataLoader` takes this instead of the class: importing the class there would be a cycle.
    """

    dataset: Any
    batch_size: int | None
    collate_fn: Any
    generator: Any
    num_workers: int
    worker_init_fn: Any
    prefetch_factor: int | None
    timeout: float
    drop_last: bool
    seed: int | None
    shard: tuple[int, int] | str | None
    remainder: str
    worker_type: str
    persistent_workers: bool
    prefetch_bytes: int | None
    snapshot_every_n_steps: int | None
    in_order: bool
    seed_samples: bool
    native: bool
    device: Any
    device_prefetch: int
    device_transform: Any
    _dataset_kind: int

    @property
    def multiprocessing_context(self) -> Any:
        """The argument of the same name, as a context."""

    @property
    def sampler(self) -> Any:
        """The sampler, as other code sees it."""

    @property
    def batch_sampler(self) -> Any:
        """The batch sampler, as other code sees it; None without batches."""

    @property
    def _auto_collation(self) -> bool: ...

    @property
    def _index_sampler(self) -> Any: ...
