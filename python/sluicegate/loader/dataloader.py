"""`DataLoader`: torch's loader, with batches made by the core where the result is identical."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy.typing as npt
import torch
import torch.utils.data
from torch.utils.data import Dataset, Sampler

from sluicegate import _torch
from sluicegate.device.arguments import checked_device, checked_device_prefetch, checked_device_transform
from sluicegate.fetch.lazy_arrays import with_length
from sluicegate.known_length import known_length
from sluicegate.loader_state.saved_form import saved
from sluicegate.loader_state.state import loaded, state_of
from sluicegate.order.ids import BatchIds, with_ids_of
from sluicegate.order.left_out import LeftOut
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.plan import check_order, planned_len, split_stream
from sluicegate.order.requests import own_array_of
from sluicegate.order.settings import LoaderSettings
from sluicegate.order.torch_order import own_sampler
from sluicegate.sampler.seed import checked_seed
from sluicegate.state.loader_state import LoaderState
from sluicegate.stream.resumable import set_epoch
from sluicegate.stream.self_splitting import warn_of_lost_buffer

from . import lightning
from .calling_thread import PythonIterator
from .epoch_iterator import EpochIterator
from .explanation import Explanation, explained, log_once, readable
from .inspect_batch import BatchInspector
from .loader_order import LoaderOrder, unwrapped_samplers
from .native_iterator import NativeIterator
from .ordered_sampler import without_view
from .resources import checked_prefetch_bytes, resources_of
from .stats import LoaderStats, stats_of
from .stream_iterator import StreamIterator
from .stream_threads import process_reason
from .worker_iterator import WorkerIterator

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """Torch's `DataLoader` on a Rust core: the same batches, bit for bit, for the same arguments and generators.

    Takes every argument of `torch.utils.data.DataLoader`, with torch's meaning, defaults and errors, and leaves torch's
    global random number generator where torch leaves it.

    A *native* dataset is read in Rust: CPU tensors and NumPy arrays, `TensorDataset`, our formats, Hugging Face's
    tables, torchvision's image datasets, and torch's `Subset`, `ConcatDataset` and `StackDataset` over these. This
    requires torch's default collate, one of transformers, or `PackCollate`, and no `worker_init_fn` that does more than
    seed generators. `explain` says what reads a dataset, and why.

    With `num_workers=0`, a native dataset is read on the calling thread when a batch is requested; with
    `num_workers=N`, by N threads, ahead of the consumer. These are threads of this process, so there is nothing to
    start, pickle or kill. Any other dataset runs Python: on the calling thread, in N worker processes, which write
    batches into memory mapped by this process, or in N threads.

    Each batch has its own memory: it can be written to and kept forever, and no other batch shares it. The storage of
    most batches cannot be resized: it is a slot, which returns to the loader when the last view of it is freed. The
    arrays of a native dataset are read when a batch is fetched, so in-place changes are visible; with workers, do not
    resize their storage during iteration. The indices of a `Subset` are read at the start of an epoch.

    Several threads may call `next` on one iterator: they take turns, and each batch goes to one of them. Several
    iterators over one loader are independent.

    Args:
        dataset: map-style or iterable-style, or an array of NumPy, xarray, Zarr, h5py, TensorStore, or dask, whose rows
            are the samples.
        batch_size: samples per batch; None to yield samples (or ready-made batches) unchanged. Default 1.
        shuffle: True for a new random order every epoch. Default False.
        sampler: indices in a custom order; any iterable.
        batch_sampler: lists of indices; any iterable.
        num_workers: 0 to load in the calling thread, otherwise the number of threads or processes that load ahead.
            Default 0.
        collate_fn: makes a batch from a list of samples. Default: torch's `default_collate`.
        pin_memory: True for batches in pinned memory, which a device reads directly, if there is an accelerator.
            Native batches are read into it; those of worker processes are copied without the GIL. Default False.
        drop_last: True to drop the last batch if it is smaller. Default False.
        timeout: seconds to wait for a batch from a worker; 0 for no limit. Default 0.
        worker_init_fn: called in every worker with the worker's number.
        multiprocessing_context: a start method or context for worker processes.
        generator: the source of the order and the workers' seeds, instead of torch's global generator.
        prefetch_factor: batches loaded ahead per worker. Default 2 with workers.
        persistent_workers: True to keep the workers from one epoch to the next. Default False.
        pin_memory_device: deprecated in torch; has no effect.
        in_order: False to take batches from workers as they are completed. Default True.
        worker_type: "process", or "thread" to run a Python dataset in threads of this process, for code that
            releases the GIL and for free-threaded Python. The threads share the global random number generators,
            which are not seeded for them. Default "process".
        snapshot_every_n_steps: how many batches pass before a worker asks a stateful stream for its state again; a
            resumed worker rereads what came after the last snapshot. 0 for never. Without workers, streams whose
            iterator is a generator are asked at the same interval, because in the middle of an epoch their state
            alone does not determine what comes next. Default 1.
        seed: determines, with the epoch and the index, the order and everything random about a sample: the same
            batches for any number of workers (for a stream through a `ShuffleBuffer`, for the same number) and
            after any resume. 0 to 2**64 - 1. Default None: as torch draws them.
        seed_samples: False to leave the global generators of Python, NumPy and torch alone while samples are
            fetched with a `seed`; `sluicegate.sample_rng` gives a sample's own generators in either case. Default
            True.
        shard: `(rank, world_size)`, or "auto" to ask `torch.distributed`: this process gets its part of every
            epoch, with as many batches of the same sizes as every other rank. Of a Hugging Face stream, it gets what
            `split_dataset_by_node` gives it, and `dataset` is that part. Default None: all of it.
        remainder: what a shard does when the samples cannot be divided evenly: "pad" reads some twice, "drop" drops
            the last samples, "exact" pads and marks the padding in `with_ids()`. Default "pad".
        prefetch_bytes: the most bytes loaded ahead, in addition to the limit of `prefetch_factor`, estimated from
            the largest batch so far. The first batch is loaded alone, as is one that is larger than the limit.
            Batches and their order do not depend on it. Default None: a quarter of the memory that the process (or
            its container) may use, from the first batch on.
        device: the device (its name, or a `torch.device`) on which batches arrive. They are copied from pinned
            memory on our own stream, which the current stream waits for and the host does not. "auto" for the
            available accelerator, otherwise the CPU, where nothing is done. Tensors in containers and dataclasses
            are moved, as are objects with a `to` method. Default None: batches stay where they are made.
        device_prefetch: how many of the batches that workers have loaded ahead are copied to the device before they
            are requested. Default 2.
        device_transform: applied to each batch on the device, on that stream; takes and returns a batch.
        native: False to read every map-style dataset through its own methods and `collate_fn`, as torch does, to
            check whether a difference comes from the core. The environment variable `SLUICEGATE_NATIVE=0` does the
            same for all loaders. Default True.

    Raises:
        ValueError: arguments exclude each other or are out of range (in torch's words), or `worker_type` is
            unknown. While iterating: the order to shard is already sharded, or differs between ranks.
        TypeError: an argument has the wrong type (in torch's words).
        AssertionError: while iterating: `timeout` without workers, or workers with `prefetch_factor=0`.
        IndexError: while iterating: an index is out of range; the message names it and its sampler.
        RuntimeError: while iterating: samples cannot be stacked, `timeout` expired, a worker died, there is no
            memory for a batch, or workers could not be started; the message names the limit.
        Exception: while iterating: raised by the dataset, `collate_fn` or `worker_init_fn`; the type is unchanged,
            and a note names the index.

    Examples:
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
        seed: int | None = None,
        seed_samples: bool = True,
        shard: tuple[int, int] | str | None = None,
        remainder: str = "pad",
        prefetch_bytes: int | None = None,
        device: torch.device | str | int | None = None,
        device_prefetch: int = 2,
        device_transform: Callable[[Any], Any] | None = None,
        native: bool = True,
    ) -> None:
        if worker_type not in ("process", "thread"):
            raise ValueError(f"worker_type option should be 'process' or 'thread', but got {worker_type!r}")
        seed = checked_seed(seed)
        sampler, batch_sampler, order = unwrapped_samplers(sampler, batch_sampler)
        if order is not None:
            seed = order.settings.seed if seed is None else seed
            if shard is None:
                shard, remainder = order.settings.shard, order.settings.remainder
        if sampler is None and batch_sampler is None:
            dataset = with_length(dataset)
        check_order(seed, generator, shard, remainder, dataset)
        dataset = split_stream(dataset, shard)
        # Before torch's constructor, which sets `_iterator`. The prefix avoids clashes with attributes of subclasses.
        self._loader_progress = LoaderProgress(0 if order is None else order.next_epoch)
        self._loader_order: LoaderOrder | None = None
        self._loader_kept: Any = None
        self._loader_current: Callable[[], Any] = _nothing
        self._loader_sample_id: Any = None
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.worker_type = worker_type
        self.seed, self.seed_samples = seed, seed_samples
        self.shard, self.remainder = shard, remainder
        self.prefetch_bytes = checked_prefetch_bytes(prefetch_bytes)
        self.device, self.device_prefetch = checked_device(device), checked_device_prefetch(device_prefetch)
        self.device_transform = checked_device_transform(device_transform, self.device)
        self.native = native
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
        if sampler is None and batch_sampler is None:
            self._use_own_sampler()
        self._order()

    def _use_own_sampler(self) -> None:
        """Replace the sampler that torch's constructor made with our class, which users check with `isinstance`."""
        given = self.__dict__  # Torch's `__setattr__` refuses reassignment from now on.
        given["sampler"] = own_sampler(given["sampler"])
        if given["batch_sampler"] is not None:
            given["batch_sampler"].sampler = given["sampler"]

    @property
    def sampler(self) -> Any:
        """The sampler. Iterated by other code, it gives the order of the loader's next epoch, including seed and shard.

        With a `seed`, a `shard`, or a sampler that has its own seed, each pass counts as an epoch of the loader from
        its first `next` on, and `sampler.set_epoch` sets the loader's epoch.

        Raises:
            ValueError: while iterating: batches or samples of the epoch are skipped, a loaded state is to be resumed in
                the middle of the epoch, or other code shards the order again.
        """
        given = self._given("sampler")
        return self._order().sampler(self, given) if self._is_made else given

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.__dict__["sampler"] = sampler

    @property
    def batch_sampler(self) -> Any:
        """The batch sampler, exactly torch's `BatchSampler` if the loader made it; None without batches.

        Iterated by other code (`accelerate.skip_first_batches`), it gives the loader's batches of its next epoch, as
        `sampler` does.
        """
        given = self._given("batch_sampler")
        return given if given is None or not self._is_made else self._order().batch_sampler(self, given)

    @batch_sampler.setter
    def batch_sampler(self, batch_sampler: Any) -> None:
        self.__dict__["batch_sampler"] = batch_sampler

    @property
    def _is_made(self) -> bool:
        """False before the constructor. A subclass may set its sampler earlier, to pass it to the constructor."""
        return "_loader_progress" in self.__dict__

    def _given(self, name: str) -> Any:
        """Return the sampler that the loader itself reads; other code may be shown a view of it."""
        try:
            return self.__dict__[name]
        except KeyError:  # Torch's constructor has not run yet.
            raise AttributeError(f"{type(self).__name__} has no {name} yet; call super().__init__() first") from None

    def _order(self) -> LoaderOrder:
        order = self.__dict__.get("_loader_order")
        if order is None or not order.is_of(self):  # This loader is a copy.
            self.__dict__["_loader_order"] = order = LoaderOrder(self, self._loader_progress)
        return order

    @property
    def _auto_collation(self) -> bool:
        return self._given("batch_sampler") is not None

    @property
    def _index_sampler(self) -> Any:
        """The sampler that the loader itself asks for indices."""
        given = self._given("batch_sampler")
        if given is None:
            return self._given("sampler")
        if self.batch_size is not None:
            # Other code may read `batch_sampler` at any time, which inserts a view. Do it now, not under a running
            # iterator.
            self._order().batch_sampler(self, given)
        return without_view(given)

    def __iter__(self) -> torch.utils.data.dataloader._BaseDataLoaderIter:
        progress = self._loader_progress
        if (pending := progress.pending) is None:
            return self._loader_started()
        self._iterator = None  # Running workers restart where the state says.
        try:
            iterator = self._loader_started()
        except BaseException:
            progress.pending = pending  # Nothing has been resumed from it yet.
            raise
        # For torchdata's states: the number of batches received since the snapshot that they hold.
        for _ in itertools.islice(iterator, pending.replay):
            pass
        if pending.is_at_end:
            for _ in iterator:
                pass
            return self._loader_started()
        return iterator

    def _loader_started(self) -> torch.utils.data.dataloader._BaseDataLoaderIter:
        iterator = super().__iter__()
        if iterator is not self._loader_kept:
            # Persistent workers belong to the loader; other iterators and their workers end with their last reference.
            self._loader_current = weakref.ref(iterator)
        return iterator

    @property
    def _iterator(self) -> Any:
        """The running iterator. Setting it to None ends its workers; `state_dict` then refers to the next epoch."""
        return self._loader_current() if self._loader_kept is None else self._loader_kept

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        if iterator is None:
            if (running := self._iterator) is not None:
                running._shutdown_workers()
            self._loader_progress.latest = None
            self._loader_current = _nothing
        self._loader_kept = iterator

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except what is running: `state_dict` carries the place in an epoch."""
        own = {
            "_loader_progress": self._loader_progress.copied(),
            "_loader_order": None,
            "_loader_kept": None,
            "_loader_current": _nothing,
            "batch_sampler": without_view(self._given("batch_sampler")),
        }
        return self.__dict__ | own

    def _get_iterator(self) -> Any:
        # Trainers swap samplers and functions until an epoch starts, so the configuration is read only now.
        settings, progress = LoaderSettings.of(self, self._loader_sample_id), self._loader_progress
        log_once(settings, progress.epochs, type(self).__name__)
        self.check_worker_number_rationality()
        _torch.leave_untraced()
        source = readable(settings)
        if source is not None:
            return NativeIterator(self, settings, progress, source, resources_of(self).engine(settings))
        if settings.num_workers == 0:
            return PythonIterator(self, settings, progress, resources_of(self).engine(settings))
        kind = WorkerIterator if process_reason(settings) is not None else StreamIterator
        return kind(self, settings, progress)

    def explain(self) -> Explanation:
        """Return which engine reads, and the first reason why it is not the Rust one. Starts nothing.

        Reflects the current configuration. `repr` shows it too, and the logger "sluicegate" logs it at debug level when
        the first iterator begins.

        Examples:
            >>> from sluicegate import DataLoader
            >>> DataLoader([0, 10, 20]).explain().reason
            'dataset class list is not recognized'
        """
        return explained(LoaderSettings.of(self))

    def __repr__(self) -> str:
        dataset = type(self.dataset).__name__
        return f"<{type(self).__name__} of {dataset}, num_workers={self.num_workers}, engine: {self.explain()}>"

    def __len__(self) -> int:
        ordering, progress = LoaderSettings.of(self).ordering, self._loader_progress
        count = super().__len__() if ordering is None else planned_len(ordering, progress.epochs.next)
        return count - progress.left_out.count_batches(progress.epoch, count)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumer's position, from which `load_state_dict` resumes in this or another process.

        It counts batches received, not batches prefetched. It is plain JSON except for what the `state_dict` methods of
        user-defined datasets, iterators and samplers return, which is kept unchanged. Its size does not grow with the
        dataset. It can be called at any time; it starts nothing and draws nothing.

        Raises:
            RuntimeError: a user-defined dataset, iterator or sampler could not report its position, or other code is in
                the middle of a pass over the `sampler` or `batch_sampler`.
        """
        if self._order().is_being_read:
            raise RuntimeError(
                "state_dict: other code is iterating over the loader's sampler or batch_sampler, so it is unknown "
                "which batches were received; count them, and skip them with loader.skip(range(n)) "
                "or accelerate.skip_first_batches after set_epoch; or iterate over the loader itself"
            )
        state = self._loader_state()
        if lightning.is_calling() and state.in_epoch and known_length(self) is None:
            lightning.warn_of_batch_ahead()
        return saved(state)

    def _loader_state(self) -> LoaderState:
        return state_of(LoaderSettings.of(self), self._loader_progress)

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Make the next iterator resume from `state_dict`: the rest of its epoch, then whole epochs.

        - For map-style datasets, the number of workers may differ; in seed mode, the number of ranks and the batch size
          too.
        - In torch mode, the generators, including the global ones, are reset to where they were when the state was
          taken, because later epochs are drawn from them.
        - `set_epoch` of samplers and datasets is called with the value that this loader's `set_epoch` had passed before
          the state's epoch; if it was never called, they are left unchanged.
        - With a `shard`, a user-defined sampler that has its own state must be fresh.
        - States of torchdata's `StatefulDataLoader` are accepted too, as are those of the Rust crate if the order is
          determined by seeds.

        Args:
            state_dict: what `state_dict` returned.
            strict: False to resume even if the state was saved by a loader with a different order.

        Raises:
            ValueError: the state is invalid, of a newer version, or of a different order; the message names both.

        Examples:
            >>> loader = DataLoader([0, 10, 20, 30], batch_size=2)
            >>> first, state = next(iter(loader)), loader.state_dict()
            >>> loader.load_state_dict(state)
            >>> [batch.tolist() for batch in loader]
            [[20, 30]]
        """
        progress, settings = self._loader_progress, LoaderSettings.of(self)
        state = loaded(settings, progress.epochs.next, state_dict, strict)
        if lightning.is_calling():
            state = lightning.resumed(settings, state, known_length(self))
        left_out = LeftOut.of(state.left_out)
        if settings.is_stream and state.in_epoch and state.batches_received:
            warn_of_lost_buffer(settings.dataset, max(settings.num_workers, 1))
        if state.epoch_told is not None:
            self._pass_on_epoch(state.epoch_told)
        # Last, so that a state that cannot be read changes nothing.
        self._iterator = None
        progress.resume(state, left_out)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; later epochs count up from it.

        This also applies to an iterator whose first batch has not been requested yet. It calls `set_epoch` of samplers
        and datasets that have one.

        Raises:
            ValueError: `epoch` is not an integer from 0 to 2**63 - 1.
        """
        if type(epoch) is bool or not hasattr(epoch, "__index__") or not 0 <= epoch < 2**63:
            raise ValueError(f"epoch: expected an integer from 0 to 2**63 - 1, got {epoch!r}")
        self._loader_progress.epochs.next = int(epoch)
        self._pass_on_epoch(int(epoch))

    def _pass_on_epoch(self, epoch: int) -> None:
        self._loader_progress.epochs.last_set = epoch
        samplers: list[Any] = [sampler := self._index_sampler, getattr(sampler, "sampler", None)]
        for each in samplers:
            if hasattr(each, "set_epoch"):
                each.set_epoch(epoch)
        set_epoch(self.dataset, epoch)

    def with_ids(self, sample_id: Callable[[Any], Any] | str | int | None = None) -> Iterator[tuple[Any, BatchIds]]:
        """Return an iterator over one epoch, as `iter` does, of pairs: a batch, and the ids of its samples.

        Args:
            sample_id: what identifies a sample: a function of the sample, or the name (or position) of a field. It is
                evaluated before the samples are collated, and `ids.sample_ids` holds the results. A dataset that the
                core could read is read in Python for this. Default None: samples are identified by index, those of a
                stream by worker and ordinal.

        Raises:
            TypeError: while iterating, with `sample_id`: the dataset's `__getitems__` does not return a list with one
                sample per index, or a result cannot be pickled in a worker process.

        Examples:
            >>> from sluicegate import DataLoader
            >>> for batch, ids in DataLoader([0, 10, 20], batch_size=2, shuffle=True, seed=7).with_ids():
            ...     print(ids.batch_index, batch.tolist() == (10 * ids.sample_indices).tolist())
            0 True
            1 True
        """
        if self._loader_kept is not None and self._loader_kept.settings.sample_id is not sample_id:
            self._iterator = None  # Its workers were started with a different `sample_id`.
        self._loader_sample_id = sample_id
        try:
            iterator = iter(self)
        finally:
            self._loader_sample_id = None
        # A subclass may wrap ours in its own iterator.
        return with_ids_of(iterator, iterator.received if isinstance(iterator, EpochIterator) else self)

    @property
    def last_ids(self) -> BatchIds | None:
        """The ids of the samples in the last batch received; None before the first."""
        latest = self._loader_progress.latest
        return None if latest is None else latest.received.last_ids

    def stats(self) -> LoaderStats:
        """Return what is loaded ahead, in batches and bytes, and the bound on it. Starts nothing and does not wait."""
        settings, running = LoaderSettings.of(self), self._iterator
        if isinstance(running, EpochIterator):
            running.count_ready()
        # The running epoch's engine: the number of workers may have been changed since it began.
        engine = getattr(running, "engine", None) or resources_of(self).engine(settings)
        return stats_of(engine.bytes_ahead, explained(settings))

    def samples_of(self, batch_index: int, epoch: int | None = None) -> npt.NDArray[Any]:
        """Return the indices of the samples in a batch, int64, in batch order. Loads nothing and draws nothing.

        Args:
            batch_index: which batch of the epoch, counted from 0.
            epoch: which epoch. Default: the running one, or the next one if none is running. Without a seed, a randomly
                drawn order is known for that epoch only.

        Raises:
            IndexError: there is no such batch.
            ValueError: the epoch's order cannot be known, or the dataset is iterable-style.
        """
        return own_array_of(self._inspector().request(batch_index, self._epoch_or_running(epoch)))

    def replay(self, batch_index: int, epoch: int | None = None) -> Any:
        """Load one batch again, on the calling thread, without disturbing the running epoch.

        With a seed, the batch is identical to the last bit; without one, the dataset's random values are drawn again.

        Args:
            batch_index: which batch of the epoch, counted from 0.
            epoch: which epoch. Default: the running one, or the next one if none is running.

        Raises:
            IndexError: there is no such batch.
            ValueError: the epoch's order cannot be known, or the dataset is iterable-style.
            Exception: what the dataset or `collate_fn` raises.
        """
        return self._inspector().replayed(batch_index, self._epoch_or_running(epoch))

    def _inspector(self) -> BatchInspector:
        return BatchInspector(LoaderSettings.of(self), self._loader_progress, resources_of(self))

    def skip(self, batches: int | Iterable[int], epoch: int | None = None) -> None:
        """Skip batches: they are not loaded, and the others keep their numbers. This is part of the state.

        `len` of the loader excludes the skipped batches of the running epoch, or of the next one if none is running.

        Args:
            batches: which batches of the epoch, counted from 0: one, a `range`, or any iterable of integers.
            epoch: which epoch. Default: the running one, or the next one if none is running.

        Raises:
            TypeError, ValueError: a number is not an integer, or is negative.
        """
        try:
            many: Iterable[int] = [operator.index(batches)]  # type: ignore[arg-type]
        except TypeError:  # An iterable. Arrays of several numbers have `__index__`, too, which raises this.
            many = batches  # type: ignore[assignment]
        self._loader_progress.left_out.add_batches(self._epoch_or_running(epoch), many)

    def skip_samples(self, indices: Iterable[int]) -> None:
        """Omit the samples at `indices` from all later batches, which become smaller. This is part of the state.

        A batch left empty is skipped; `len` does not account for that. With a `shard`, all ranks take the same number
        of steps: a batch is skipped only if it is empty on every rank. Otherwise an empty one is padded with one sample
        of another rank, which its ids mark as not `valid`.

        Raises:
            ValueError: the dataset is iterable-style, so its samples have no index.
            TypeError: an index is not an integer.
        """
        if self._dataset_kind != _torch.DatasetKind.Map:
            raise ValueError("skip_samples: the samples of an IterableDataset have no index; skip them in the dataset")
        self._loader_progress.left_out.add_samples(indices)

    def _epoch_or_running(self, epoch: int | None) -> int:
        """Return `epoch` if given, otherwise the running epoch, or the next one if none is running."""
        return self._loader_progress.epoch if epoch is None else epoch


def progress_of(loader: DataLoader[Any]) -> LoaderProgress:
    """Return how far `loader` is."""
    return loader._loader_progress


def _nothing() -> None:
    """Stand in for a weak reference when there is no iterator."""
