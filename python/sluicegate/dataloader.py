"""`DataLoader`: torch's, with the batches made by the core where that can't be told from outside."""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy.typing as npt
import torch
import torch.utils.data
from torch.utils.data import Dataset, Sampler

from . import _torch
from .device import checked_device, checked_device_prefetch, checked_device_transform
from .engine import checked_prefetch_bytes, engine_of
from .explanation import Explanation, explained, log_once, readable
from .ids import BatchIds, with_ids_of
from .iterator import PythonIterator
from .loader_order import LoaderOrder, taken_over
from .native_iterator import NativeIterator
from .ordered_sampler import without_view
from .plan import Ordering, check_order, planned_len
from .progress import Epochs, LeftOut, Progress
from .requests import own_array_of
from .sampler.seed import checked_seed
from .state import loaded, state_of
from .stats import LoaderStats, stats_of
from .surgery import replayed, request_of
from .torch_order import own_sampler
from .worker_iterator import WorkerIterator

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """Torch's `DataLoader` on a Rust core: the same batches, bit for bit, for the same arguments and generators.

    Takes every argument of `torch.utils.data.DataLoader`, with torch's meaning, defaults and errors, and leaves
    torch's global random number generator where torch leaves it. A *native* dataset (plain CPU tensors and NumPy
    arrays, `TensorDataset`, our formats, and torch's `Subset`, `ConcatDataset` and `StackDataset` over them, with
    torch's default collate, or documents of files with `PackCollate`, and no `worker_init_fn` that does more than to
    seed generators) is read in Rust: with `num_workers=0` on the calling thread, when a batch is asked for; with
    `num_workers=N` by N threads, ahead of the consumer. They are threads of this process, so there is nothing to start,
    to pickle or to kill. Any other dataset runs Python: on the calling thread, in N worker processes, which write
    batches into memory that this process has mapped, or in N threads.

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
        pin_memory: batches arrive in pinned memory, which a device reads by itself, where there is an accelerator:
            native ones are read into it, those of worker processes copied without the GIL. Default False.
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
        snapshot_every_n_steps: after how many batches a worker asks a stream that knows its state for it; a resumed
            worker reads again what came after. 0 for never. Without workers, streams whose iterator is a generator are
            asked as often: where an epoch is left in its middle, their state alone does not say what comes next.
            Default 1.
        seed: the order and everything random about a sample follow from it, the epoch and the index: the same batches
            for any number of workers (of a stream through a `ShuffleBuffer`: for the same number) and after any resume.
            0 to 2**64 - 1. Default None: as torch draws them.
        seed_samples: False to leave the global generators of Python, NumPy and torch alone while samples are fetched
            with a `seed`; `sluicegate.sample_rng` gives a sample's own ones in any case. Default True.
        shard: `(rank, world_size)`, or "auto" to ask `torch.distributed`: this process gets its part of every epoch, as
            many batches of the same sizes as any other. Default None: all of it.
        remainder: what a shard does when the samples can't be divided: "pad" reads some twice, "drop" none of the last,
            "exact" pads and tells in `with_ids()` which samples are padding. Default "pad".
        prefetch_bytes: the most bytes loaded ahead, beside `prefetch_factor`, by the largest batch so far; the first
            comes alone, and one that is larger too. Batches and their order do not depend on it. Default None: a
            quarter of the memory that the process may use (of its container's), from the first batch on.
        device: batches arrive on this device (its name, or a `torch.device`), copied from pinned memory on a stream of
            our own, which the current stream waits for and the host does not; "auto" for the accelerator that there is,
            else the CPU, where nothing is done. Tensors in containers and dataclasses are moved, and objects with a
            method `to`. Default None: batches stay where they are made.
        device_prefetch: how many batches are copied to the device before they are asked for, of those that workers
            have loaded ahead. Default 2.
        device_transform: what is done to a batch on the device, on that stream: takes and returns a batch.
        native: False to read every map-style dataset through its own methods and `collate_fn`, as torch does, to see
            whether a difference comes from the core. The environment variable `SLUICEGATE_NATIVE=0` does the same for
            all loaders. Default True.

    Raises:
        ValueError: arguments that exclude each other or are out of range, in torch's words; another `worker_type`.
            While iterating: a shard of an order that is sharded already, or that the ranks do not share.
        TypeError: an argument of the wrong type, in torch's words.
        AssertionError: while iterating: `timeout` without workers, or workers with `prefetch_factor=0`.
        IndexError: while iterating: an index out of range; the text names it and its sampler.
        RuntimeError: while iterating: samples that can't be stacked, a `timeout` that passed, a worker that died, no
            memory for a batch, or workers that could not be started; the text names the limit.
        Exception: while iterating: what the dataset, `collate_fn` or `worker_init_fn` raises, of the same type, with a
            note that names the index.

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
        sampler, batch_sampler, order = taken_over(sampler, batch_sampler)
        if order is not None:
            seed = order.settings.seed if seed is None else seed
            if shard is None:
                shard, remainder = order.settings.shard, order.settings.remainder
        check_order(seed, generator, shard, remainder, dataset)
        # Before torch's constructor, which sets `_iterator`. Names that no subclass has for something of its own.
        self._loader_epochs = Epochs(0 if order is None else order.next_epoch)
        self._loader_order: LoaderOrder | None = None
        self._loader_left_out = LeftOut()
        self._loader_progress: Progress | None = None
        self._loader_pending: dict[str, Any] | None = None
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
        """Puts our class in the place of the sampler that torch's constructor made: users ask `isinstance` of it."""
        given = self.__dict__  # Torch's own `__setattr__` refuses another one from now on.
        given["sampler"] = own_sampler(given["sampler"])
        if given["batch_sampler"] is not None:
            given["batch_sampler"].sampler = given["sampler"]

    @property
    def sampler(self) -> Any:
        """The sampler; iterated by other code, it gives the order of the loader's next epoch, seed and shard included.

        With a `seed`, a `shard`, or a sampler with a seed of its own, each pass counts as an epoch of the loader, from
        its first `next` on, and `sampler.set_epoch` sets the loader's epoch.

        Raises:
            ValueError: while iterating: batches or samples of the epoch are left out, a loaded state is to be resumed
                in the middle of the epoch, or other code shards the order again.
        """
        return self._order().sampler(self, self._given("sampler"))

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.__dict__["sampler"] = sampler

    @property
    def batch_sampler(self) -> Any:
        """The batch sampler, exactly torch's `BatchSampler` where the loader made it; None without batches.

        Iterated by other code (`accelerate.skip_first_batches`), it gives the loader's batches of its next epoch, as
        `sampler` does.
        """
        given = self._given("batch_sampler")
        return None if given is None else self._order().batch_sampler(self, given)

    @batch_sampler.setter
    def batch_sampler(self, batch_sampler: Any) -> None:
        self.__dict__["batch_sampler"] = batch_sampler

    def _given(self, name: str) -> Any:
        """What the loader itself reads, which may be shown to other code as something else."""
        try:
            return self.__dict__[name]
        except KeyError:  # Before torch's constructor.
            raise AttributeError(f"{type(self).__name__} has no {name} yet") from None

    def _order(self) -> LoaderOrder:
        order = self.__dict__.get("_loader_order")
        if order is None or not order.is_of(self):  # Of a copy.
            self.__dict__["_loader_order"] = order = LoaderOrder(self)
        return order

    @property
    def _auto_collation(self) -> bool:
        return self._given("batch_sampler") is not None

    @property
    def _index_sampler(self) -> Any:
        """What the loader itself asks for indices."""
        if not self._auto_collation:
            return self._given("sampler")
        if self.batch_size is not None:
            # Other code may look at it at any time, which puts a view inside: not below an iterator that is running.
            self._order().batch_sampler(self, self._given("batch_sampler"))
        return without_view(self._given("batch_sampler"))

    def __iter__(self) -> Any:
        pending = self._loader_pending
        if pending is None:
            return self._loader_started()
        self._iterator = None  # Workers that were started before begin anew where the state says.
        try:
            iterator = self._loader_started()
        except BaseException:
            self._loader_pending = pending  # Nothing has gone on from it.
            raise
        # Of torchdata's states: how many batches were received since the snapshot that they hold.
        for _ in itertools.islice(iterator, pending.get("replay", 0)):
            pass
        if pending.get("is_at_end"):
            for _ in iterator:
                pass
            return self._loader_started()
        return iterator

    def _loader_started(self) -> Any:
        iterator = super().__iter__()
        if iterator is not self._loader_kept:
            # Persistent workers belong to the loader; other iterators, and their workers, end with whoever uses them.
            self._loader_current = weakref.ref(iterator)
        return iterator

    @property
    def _iterator(self) -> Any:
        """The running iterator. Set to None from outside, its workers end, and `state_dict` means the next epoch."""
        return self._loader_current() if self._loader_kept is None else self._loader_kept

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        if iterator is None:
            if (running := self._iterator) is not None:
                running._shutdown_workers()
            self._loader_progress = None
            self._loader_current = _nothing
        self._loader_kept = iterator

    def __getstate__(self) -> dict[str, Any]:
        """All but what runs: the place in an epoch is carried by `state_dict`."""
        # A copy counts its own epochs, and leaves out what it is told.
        own = {
            "_loader_epochs": copy.copy(self._loader_epochs),
            "_loader_left_out": LeftOut.of(self._loader_left_out.state()),
            "_loader_order": None,
            "batch_sampler": without_view(self._given("batch_sampler")),
        }
        return self.__dict__ | own | {"_loader_kept": None, "_loader_current": _nothing, "_loader_progress": None}

    def _get_iterator(self) -> Any:
        # The configuration is read now, at the start of an epoch: trainers swap samplers and functions until then.
        log_once(self)
        source = readable(self)
        if source is not None:
            self.check_worker_number_rationality()
            return NativeIterator(self, source, engine_of(self))
        if self.num_workers == 0:
            return PythonIterator(self, engine_of(self))
        self.check_worker_number_rationality()
        return WorkerIterator(self)

    def explain(self) -> Explanation:
        """Returns which engine reads, and the first reason why it is not the one in Rust. Starts nothing.

        The loader is looked at as it is configured now. `repr` shows it too, and the logger "sluicegate" has it at
        debug level when the first iterator begins.

        Examples:
            >>> from sluicegate import DataLoader
            >>> DataLoader([0, 10, 20]).explain().reason
            'dataset class list is not recognized'
        """
        return explained(self)

    def __repr__(self) -> str:
        dataset = type(self.dataset).__name__
        return f"<{type(self).__name__} of {dataset}, num_workers={self.num_workers}, engine: {self.explain()}>"

    def __len__(self) -> int:
        ordering = Ordering.of(self)
        count = super().__len__() if ordering is None else planned_len(ordering, self._loader_epochs.next)
        return count - self._loader_left_out.count_batches(self._epoch_or_running(None), count)

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is: `load_state_dict` in another process goes on from there.

        It counts the batches that were received, not those that were fetched ahead, and is made of plain JSON but for
        what the `state_dict`s of the user's own datasets, iterators and samplers return, which is kept as it is. Its
        size does not grow with the dataset. It may be asked for at any time, starts nothing and draws nothing.

        Raises:
            RuntimeError: a dataset, an iterator or a sampler of the user's could not say where it is, or other code is
                in the middle of a pass over the `sampler` or `batch_sampler`.
        """
        if self._order().is_being_read:
            raise RuntimeError(
                "state_dict: other code is iterating over the loader's sampler or batch_sampler, so it is unknown "
                "which batches were received. Save how many there were, and skip them with loader.skip(range(n)) "
                "or accelerate.skip_first_batches after set_epoch; or iterate over the loader itself"
            )
        return state_of(self)

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Has the next iterator go on from `state_dict`: the rest of its epoch, then whole ones.

        For map-style datasets the number of workers may be another; in seed mode the number of ranks and the batch size
        too. In torch mode the generators, the global ones among them, are put to where they were when the state was
        taken: later epochs are drawn from them. Samplers and datasets with a `set_epoch` are told what this loader's
        `set_epoch` had told them before the state's epoch; where nobody had called it, they are left as they are. A
        `shard` needs a fresh sampler, where that is one of the user's with a state of its own. States of torchdata's
        `StatefulDataLoader` are read too, and those of the Rust crate where the order follows from seeds.

        Args:
            state_dict: what `state_dict` returned.
            strict: False to go on although the state was saved by a loader of another order.

        Raises:
            ValueError: no such state, one of a newer version, or of a loader of another order; the text names both.
        """
        state = loaded(self, state_dict, strict)
        left_out = LeftOut.of(state["left_out"])
        if (told := state.get("epoch_told")) is not None:
            self._tell_epoch(told)
        # Last: a state that can't be read changes nothing.
        self._iterator = None
        self._loader_pending = state
        self._loader_epochs.next = state["epoch"]
        self._loader_left_out = left_out

    def set_epoch(self, epoch: int) -> None:
        """Makes the epoch that begins next number `epoch`; those after it count up.

        It counts for an iterator whose first batch was not asked for yet. Samplers and datasets with a `set_epoch` of
        their own are told.

        Raises:
            ValueError: an epoch that is none.
        """
        if type(epoch) is bool or not hasattr(epoch, "__index__") or not 0 <= epoch < 2**63:
            raise ValueError(f"set_epoch: an epoch is an integer from 0 to 2**63 - 1, not {epoch!r}")
        self._loader_epochs.next = int(epoch)
        self._tell_epoch(int(epoch))

    def _tell_epoch(self, epoch: int) -> None:
        self._loader_epochs.told = epoch
        sampler = self._index_sampler
        told: list[Any] = [sampler, getattr(sampler, "sampler", None), self.dataset]
        for each in told:
            if hasattr(each, "set_epoch"):
                each.set_epoch(epoch)

    def with_ids(self, sample_id: Callable[[Any], Any] | str | int | None = None) -> Iterator[tuple[Any, BatchIds]]:
        """One epoch, as `iter` gives it, of pairs: a batch, and which samples are in it.

        Args:
            sample_id: what identifies a sample: a function of it, or the name (or place) of a field, asked before the
                samples are collated. `ids.sample_ids` has the answers. A dataset that the core reads is read in Python
                for that. Default None: samples are known by index, those of a stream by worker and ordinal.

        Raises:
            TypeError: while iterating: with `sample_id`, a dataset whose `__getitems__` returns no list with one sample
                per index, or an answer that can't be pickled in a worker process.

        Examples:
            >>> from sluicegate import DataLoader
            >>> for batch, ids in DataLoader([0, 10, 20], batch_size=2, shuffle=True, seed=7).with_ids():
            ...     print(ids.batch_index, batch.tolist() == (10 * ids.sample_indices).tolist())
            0 True
            1 True
        """
        if self._loader_kept is not None and self._loader_kept._sample_id is not sample_id:
            self._iterator = None  # Its workers were told otherwise.
        self._loader_sample_id = sample_id
        try:
            iterator = iter(self)
        finally:
            self._loader_sample_id = None
        # A subclass may have an iterator of its own around ours.
        return with_ids_of(iterator, getattr(iterator, "_progress", self))

    @property
    def last_ids(self) -> BatchIds | None:
        """Which samples are in the batch that was received last; None before the first."""
        return None if self._loader_progress is None else self._loader_progress.last_ids

    def stats(self) -> LoaderStats:
        """What is loaded ahead, in batches and bytes, and the bound on it. Starts nothing and waits for nothing."""
        return stats_of(self)

    def samples_of(self, batch_index: int, epoch: int | None = None) -> npt.NDArray[Any]:
        """The indices of the samples in a batch, int64, in batch order; nothing is loaded, and nothing drawn.

        Args:
            batch_index: which batch of the epoch, counted from 0.
            epoch: which epoch. Default: the running one, or the next where none runs. Without a seed, that is all that
                can be known of an order that is drawn.

        Raises:
            IndexError: no such batch.
            ValueError: an epoch whose order can't be known, or an iterable-style dataset.
        """
        return own_array_of(request_of(self, batch_index, epoch))

    def replay(self, batch_index: int, epoch: int | None = None) -> Any:
        """Loads one batch again, on the calling thread; the running epoch is not disturbed.

        With a seed it is the same batch to the last bit; without one, what the dataset draws is drawn anew.

        Args:
            batch_index: which batch of the epoch, counted from 0.
            epoch: which epoch. Default: the running one, or the next where none runs.

        Raises:
            IndexError: no such batch.
            ValueError: an epoch whose order can't be known, or an iterable-style dataset.
            Exception: what the dataset or `collate_fn` raises.
        """
        return replayed(self, batch_index, epoch)

    def skip(self, batches: int | Iterable[int], epoch: int | None = None) -> None:
        """Leaves out batches: they are not loaded, and the others keep their numbers. It is part of the state.

        `len` of the loader is that of the running epoch without them, or of the next one where none runs.

        Args:
            batches: which batches of the epoch, counted from 0: one, or a `range`, or any of them.
            epoch: which epoch. Default: the running one, or the next where none runs.

        Raises:
            TypeError, ValueError: a number that is no integer, or negative.
        """
        many: Any = [batches] if hasattr(batches, "__index__") else batches
        self._loader_left_out.add_batches(self._epoch_or_running(epoch), many)

    def skip_samples(self, indices: Iterable[int]) -> None:
        """Leaves the samples at `indices` out of every batch to come: it is smaller then. It is part of the state.

        A batch of which nothing is left does not come, of which `len` knows nothing. With a `shard` all ranks take as
        many steps: it does not come where nothing is left of it on any rank; else one sample of another rank pads it,
        and its ids say that it is not `valid`.

        Raises:
            ValueError: an iterable-style dataset, whose samples have no index.
        """
        if self._dataset_kind != _torch.DatasetKind.Map:
            raise ValueError("skip_samples: the samples of an IterableDataset have no index: leave them out in it")
        self._loader_left_out.add_samples(indices)

    def _epoch_or_running(self, epoch: int | None) -> int:
        """`epoch`, or without one the running epoch, or the next where none runs."""
        if epoch is not None:
            return epoch
        running = self._loader_progress
        return self._loader_epochs.next if running is None or running.finished else running.epoch


def _nothing() -> None:
    """What a reference to no iterator refers to."""
