"""`DataLoader`: torch's, with the batches made by the core where that can't be told from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.utils.data
from torch.utils.data import Dataset, Sampler

from . import _torch
from .dataset import Source, native_source
from .engine import engine_of
from .iterator import NativeIterator, PythonIterator
from .worker_iterator import WorkerIterator

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """Torch's `DataLoader` on a Rust core: the same batches, bit for bit, for the same arguments and generators.

    Takes every argument of `torch.utils.data.DataLoader`, with torch's meaning, defaults and errors, and leaves
    torch's global random number generator where torch leaves it. A *native* dataset (plain CPU tensors and NumPy
    arrays, `TensorDataset`, `NpyDataset`, and torch's `Subset`, `ConcatDataset` and `StackDataset` over them, with
    torch's default collate and no `worker_init_fn`) is read in Rust: with `num_workers=0` on the calling thread, when a
    batch is asked for; with `num_workers=N` by N threads, ahead of the consumer. They are threads of this process, so
    there is nothing to start, to pickle or to kill. Any other dataset runs Python: on the calling thread, in N worker
    processes, which write batches into memory that this process has mapped, or in N threads.

    A batch is memory of its own: it can be written to and kept for ever, and no other batch shares it. Tensors of
    native batches, and those that the default collate makes of Python samples with `num_workers=0`, live in slots that
    return to the loader when the last view of them dies; their storage can't be resized. The arrays of a native dataset
    are read when a batch is fetched, so changes in place are seen; with workers their memory must stay where it is
    meanwhile (do not resize a storage that threads read). The indices of a `Subset` are read at the start of an epoch.

    One thread at a time uses an iterator; several iterators over one loader are independent.

    Args:
        dataset: map-style or iterable-style.
        batch_size: samples per batch; None for samples (or ready-made batches) as they are. Default 1.
        shuffle: a new random order every epoch. Default False.
        sampler: indices in an order of your own; any iterable.
        batch_sampler: lists of indices; any iterable.
        num_workers: 0 to load in the calling thread, else how many threads or processes load ahead. Default 0.
        collate_fn: makes a batch of a list of samples. Default: torch's `default_collate`.
        pin_memory: copies batches into pinned memory where there is an accelerator. Default False.
        drop_last: leaves out the last batch when it is smaller. Default False.
        timeout: seconds to wait for a batch of a worker; 0 for no limit. Default 0.
        worker_init_fn: called in every worker with its number.
        multiprocessing_context: a start method or context for worker processes.
        generator: where the order and the workers' seeds are drawn from, instead of torch's global generator.
        prefetch_factor: batches loaded ahead per worker. Default 2 with workers.
        persistent_workers: keeps the workers from one epoch to the next. Default False.
        pin_memory_device: deprecated in torch, without effect.
        in_order: False to take batches of workers as they come. Default True.
        worker_type: "process", or "thread" to run a Python dataset in threads of this process: for code that lets go of
            the GIL, and for free-threaded Pythons. They share the global random number generators, which nobody seeds
            for them. Default "process".
        snapshot_every_n_steps: accepted as torchdata's `StatefulDataLoader` takes it. Default 1.

    Raises:
        ValueError: arguments that exclude each other or are out of range, in torch's words; another `worker_type`.
        TypeError: an argument of the wrong type, in torch's words.
        AssertionError: while iterating: `timeout` without workers, or workers with `prefetch_factor=0`.
        IndexError: while iterating: an index out of range; the text names it and its sampler.
        RuntimeError: while iterating: samples that can't be stacked, a `timeout` that passed, a worker that died, no
            memory for a batch, or workers that could not be started; the text names the limit.
        Exception: while iterating: what the dataset, `collate_fn` or `worker_init_fn` raises, of the same type, with a
            note that names the index.

    Example:
        >>> import torch
        >>> from sluicegate import DataLoader, TensorDataset
        >>> dataset = TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1]))
        >>> for points, labels in DataLoader(dataset, batch_size=2):
        ...     print(tuple(points.shape), labels)
        (2, 2) tensor([0, 1])
        (1, 2) tensor([1])
    """

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        snapshot_every_n_steps: int | None = 1,
        worker_type: str = "process",
    ) -> None:
        if worker_type not in ("process", "thread"):
            raise ValueError(f"worker_type option should be 'process' or 'thread', but got {worker_type!r}")
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.worker_type = worker_type

    def _get_iterator(self) -> Any:
        # The configuration is read now, at the start of an epoch: trainers swap samplers and functions until then.
        source = self._native_source()
        if source is not None:
            self.check_worker_number_rationality()
            return NativeIterator(self, source, engine_of(self))
        if self.num_workers == 0:
            return PythonIterator(self, engine_of(self))
        self.check_worker_number_rationality()
        return WorkerIterator(self)

    def _native_source(self) -> Source | None:
        if not self._auto_collation or self._dataset_kind != _torch.DatasetKind.Map:
            return None
        if not _torch.collate_is_default(self.collate_fn) or self.worker_init_fn is not None:
            return None
        return native_source(self.dataset, in_worker=self.num_workers > 0)
