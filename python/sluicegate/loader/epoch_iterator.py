"""`EpochIterator`: the common parts of all iterators: the requests of an epoch, and the consumer's progress."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import ChainDataset, IterDataPipe
from torch.utils.data.graph_settings import apply_random_seed

from sluicegate import _core, _torch
from sluicegate.device.destination import Destination, destination_of
from sluicegate.order import draws
from sluicegate.order.epoch_requests import PlannedRequests, of_stream
from sluicegate.order.ids import BatchIds
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.received import Received
from sluicegate.order.sampler_requests import BEGUN, drawn
from sluicegate.order.settings import LoaderSettings
from sluicegate.order.torch_order import waits_for_epoch
from sluicegate.rng.global_generators import global_state, keeping_generators, set_global_state
from sluicegate.rng.sample import SampleSeeding
from sluicegate.rng.stream_seeding import Seeding, base_seed_of_workers
from sluicegate.state.loader_state import LoaderState
from sluicegate.state.place_state import PlaceState
from sluicegate.stream.native import NativeStream
from sluicegate.stream.resumable import ResumableStream, takes_epoch
from sluicegate.stream.whole import nothing_hidden

# The first "sample" whose key seeds the shuffling of DataPipes; streams use the numbers below it.
_PIPES = 2**63


# The number of forks between the process that loaded this module and this one. Getting the process id for every batch
# would cost more than the lock. A `WeakSet` of iterators would run Python code, and with it signal handlers, when one
# is dropped.
_generation = 0


def _enter_child() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_enter_child)


class EpochIterator(_torch.BaseDataLoaderIter):
    """A torch iterator that requests batches by `BatchIds` and counts them when they are received.

    Args:
        loader: what torch's iterator is made for.
        settings: the loader's arguments.
        progress: how far the loader is.
    """

    # True while the sampler must not be asked yet.
    _is_requested_later = False
    # True if a resumed epoch, which was drawn before, is drawn again at the first `next`.
    _is_drawn_late = False

    def __init__(self, loader: LoaderArguments, settings: LoaderSettings, progress: LoaderProgress) -> None:
        self._next_lock, self._next_generation = threading.RLock(), _generation
        self.settings = settings
        self._loaders_progress = progress
        self._progress = progress.begin(settings)
        self._seeding: Seeding | None = None
        if settings.seed is not None:
            self._seeding = SampleSeeding(settings.seed, settings.seed_samples)
        # Of the first epoch: persistent workers keep their seed.
        self._seed, self._seed_samples = settings.seed, settings.seed_samples
        # The number of consecutive samples of a native stream that belong to one worker. With a seed, a batch's:
        # batches are then the same for any number of workers. Without a seed, 1, as in torch.
        self._run = 1 if settings.seed is None else int(settings.batch_size or 1)
        self._ordering = settings.ordering
        self._requests: Iterator[BatchIds] = iter(())
        # Torch asks every loader for its rank, but shards only DataPipes by it.
        with self._drawing(), nothing_hidden():
            super().__init__(loader)  # type: ignore[arg-type]
        self._destination = self._destination_now()
        resumed = self._progress.resumed
        if settings.seed is None:
            if not resumed.begins_iterator and resumed.draws is not None:
                # Persistent workers got their seed in an earlier epoch, so this epoch's order is drawn without another
                # one.
                draws.put(settings, resumed.draws)
            if resumed.base_seed is not None:
                self._base_seed = resumed.base_seed
        if settings.seed is not None:
            self._base_seed = base_seed_of_workers(settings.seed)
            self._seed_pipe()
        self._record_base_seed()
        if self._num_workers == 0:  # With workers, `_reset` follows, which takes them.
            if self._redraws_order and resumed.num_workers > 0:
                self._sampler_iter = iter(self._index_sampler)  # The draws of the last of several calls count.
            self._progress.draws.end_iter()

    @property
    def received(self) -> Received:
        """The batches of this epoch that the consumer has."""
        return self._progress.received

    def _destination_now(self) -> Destination:
        settings = self.settings
        device = settings.device, settings.device_prefetch, settings.device_transform
        return destination_of(*device, self._pin_memory, self._pin_memory_device)

    def __next__(self) -> Any:
        """Return the next batch. Threads that share the iterator take turns, and each batch goes to one of them."""
        with self._taking_turns():
            if _torch.profiler_enabled() or self._IterableDataset_len_called is not None:
                return super().__next__()
            # As torch does, but without its `record_function`, which costs more than the rest and is only for
            # profilers.
            batch = self._next_data()
            self._num_yielded += 1
            return batch

    def _next_data(self) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: the epoch has ended.
        """
        raise NotImplementedError

    def _taking_turns(self) -> contextlib.AbstractContextManager[Any]:
        """Return the lock that a thread holds while it requests a batch. Reentrant: a signal handler may do so too."""
        if self._next_generation != _generation:
            # The thread that held it was not forked.
            self._next_lock, self._next_generation = threading.RLock(), _generation
        return self._next_lock

    def _drawing(self) -> contextlib.AbstractContextManager[None]:
        """Surround torch's draws. In seed mode they have no effect, and the generator is left unchanged."""
        return contextlib.nullcontext() if self._seed is None else self._drawing_nothing()

    @contextlib.contextmanager
    def _drawing_nothing(self) -> Iterator[None]:
        with self._requesting_later(), torch.random.fork_rng(devices=[]):
            yield

    @contextlib.contextmanager
    def _requesting_later(self) -> Iterator[None]:
        self._is_requested_later = True
        try:
            yield
        finally:
            self._is_requested_later = False

    @property
    def _index_sampler(self) -> Any:
        """The loader's batch sampler, or its sampler if there are no batches.

        Torch asks it for an iterator at once. What a sampler draws there would not follow from the seed. So in seed
        mode the sampler is asked when the first batch is, and torch gets an empty tuple here.
        """
        return () if self._is_requested_later else self._loaders_index_sampler

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._loaders_index_sampler = sampler

    def _seed_pipe(self) -> None:
        """Make a DataPipe shuffle by the loader's seed instead of torch's draws."""
        if isinstance(self._dataset, IterDataPipe) and self._seed is not None:
            generator = torch.Generator()
            self._shared_seed = _core.sample_key(self._seed, self._progress.epoch, _PIPES) >> 1
            generator.manual_seed(self._shared_seed)
            self._dataset = apply_random_seed(self._dataset, generator)

    @property
    def _redraws_order(self) -> bool:
        """True if a sampler is asked again for an order that was drawn before the state was taken.

        A sampler may draw as soon as `iter` is called. Torch's loader calls it twice before the first epoch with
        workers, and once without, so the state's number of workers tells how often it was called.
        """
        resumed = self._progress.resumed
        return resumed.drawn and self._seed is None and not self.settings.is_stream

    def _record_base_seed(self) -> None:
        if self._num_workers > 0 and self._seed is None:
            self._progress.draws.base_seed = int(self._base_seed)

    def _reset(self, loader: LoaderArguments, first_iter: bool = False) -> None:
        """Begin another epoch. Torch calls this on the iterator of persistent workers."""
        if not first_iter:
            # Persistent workers were started with this `sample_id`.
            self.settings = LoaderSettings.of(loader, self.settings.sample_id)
            self._progress = self._loaders_progress.begin(self.settings)
            self._progress.draws.begins_iterator = False
            self._record_base_seed()
            self._ordering = self.settings.ordering
            self._destination = self._destination_now()
        if first_iter and self._redraws_order and self._progress.resumed.num_workers == 0:
            first = self._sampler_iter
            with self._requesting_later():
                super()._reset(loader, first_iter)
            self._sampler_iter = first
        else:
            with self._drawing():
                super()._reset(loader, first_iter)
        if self.settings.seed is not None:
            self._seed_pipe()
        self._progress.draws.end_iter()

    def _open(self, engine: _core.Engine) -> None:
        """Create the requests of the epoch. The sampler is read for the first one when that is requested here."""
        progress = self._progress
        self._is_drawn_late = False
        is_drawn = progress.resumed.drawn
        # Functions, not methods: a generator that belongs to this iterator would keep it, and its workers, alive.
        if self._ordering is not None:
            self._requests = PlannedRequests(progress, self._seeding, self._ordering)
        elif self._dataset_kind == _torch.DatasetKind.Iterable:
            self._requests = of_stream(progress, self._loaders_index_sampler)
        else:
            self._requests = drawn(
                progress,
                self._seed,
                self._seeding,
                self._loaders_index_sampler,
                self._sampler_iter,
                engine,
                self._auto_collation,
                is_drawn,
            )
        if is_drawn and waits_for_epoch(self._index_sampler):
            # Lightning calls `iter`, then `sampler.set_epoch`, then `next`: only then does the sampler know its epoch.
            self._is_drawn_late = True
            self._requests = _begun_late(self._requests, global_state() if self._seed is None else None)
        elif is_drawn:
            self._requests = _begun_requests(self._requests)

    def _sets_epoch(self) -> bool:
        """Return True if the dataset's `set_epoch` is to be called.

        Torch's loader never calls it. So it is called only with a seed, if the epoch was set, or for a
        `ResumableStream`, also in a `ChainDataset`.
        """
        dataset = self._dataset
        if self._seed is not None or self._progress.epochs.last_set is not None:
            return bool(takes_epoch(dataset))
        # Others are not even asked: the attributes of a user-defined dataset may do anything.
        is_ours = isinstance(dataset, (ResumableStream, ChainDataset))
        return is_ours and any(isinstance(each, ResumableStream) for each in takes_epoch(dataset))

    def _stream_places(self, resumed: LoaderState) -> list[PlaceState | None]:
        """Return, by worker, where it resumes in its stream, as far as known.

        Raises:
            AssertionError: the number of workers was different, and the stream can't be split again.
        """
        there, places = resumed.num_workers, resumed.fetching.places
        if isinstance(self._dataset, ResumableStream) and self._dataset.splits_again:
            return self._places_of_split(self._dataset, places, there, resumed.in_epoch)
        if there == self._num_workers:
            return list(places)
        if resumed.in_epoch:
            raise AssertionError(self._other_workers(there))
        # Reading in this process uses the dataset that the first worker has reported on.
        return [] if self._num_workers else list(places)

    def _places_of_split(
        self, stream: ResumableStream[Any], places: Sequence[PlaceState | None], there: int, in_epoch: bool
    ) -> list[PlaceState | None]:
        # The reported positions of the workers that have begun this epoch.
        begun = [place if place is not None and _has_begun(place) else None for place in places]
        states = [None if place is None else place.of_dataset for place in begun]
        known = [state for state in states if state is not None]
        here = max(self._num_workers, 1)
        if max(there, 1) == here and all(state.get("run", self._run) == self._run for state in known):
            return list(places)
        if not in_epoch or not known:
            return []
        if any(place is not None and place.at != place.samples for place in begun):
            why = "; a state saved with snapshot_every_n_steps=1 can be loaded with any number"
            raise AssertionError(self._other_workers(there) + why)
        resumed = stream.split_again(states, here, self._run if isinstance(stream, NativeStream) else 1)
        ended = all(place is not None and place.ended for place in begun)
        return [PlaceState.exact(state, state["read"], ended) for state in resumed]

    def _other_workers(self, there: int) -> str:
        return (
            f"num_workers: expected {there}, as in the state, because the samples of an IterableDataset are split "
            f"among its workers, got {self._num_workers}; build the loader with num_workers={there}"
        )

    def _warn_of_reading(self, places: Sequence[PlaceState | None]) -> None:
        """Warn about the cost of resuming a stream that does not know its state."""
        samples = sum(place.samples - place.at for place in places if place is not None and not place.states)
        if samples and self._dataset_kind == _torch.DatasetKind.Iterable:
            warnings.warn(
                f"{type(self._dataset).__name__} has no state_dict and load_state_dict, so it is fast-forwarded: its "
                f"first {samples} samples are read again and dropped; define both in it, or in its iterator",
                UserWarning,
                stacklevel=5,
            )

    def count_ready(self) -> None:
        """Count the batches that workers have finished since the last answer was received."""

    def _shutdown_workers(self) -> None:
        """End the workers of this iterator. Trainers call this to end it early."""

    def _restore_generators(self, ask_ahead: Callable[[], None] | None = None) -> None:
        """Restore the global generators to the state that was saved. The last step of resuming.

        Args:
            ask_ahead: asks the sampler for what workers fetch ahead. Its draws come before the saved state of the
                generators, with two exceptions, in which they continue from that state: the state was saved by a loader
                that had not requested anything yet, or what that loader had requested was drawn again.
        """
        resumed, outer = self._progress.resumed, self._progress.draws.outer
        had_requested_nothing = outer is None and resumed.in_epoch and not resumed.drawn
        is_drawn_again = outer is None and resumed.requests_drawn is not None
        continues = had_requested_nothing or is_drawn_again
        if ask_ahead is not None and not continues:
            ask_ahead()
        if outer is not None:
            set_global_state(outer)
        elif resumed.in_epoch and resumed.rng is not None and self._seed is None:
            set_global_state(resumed.rng)
        if ask_ahead is not None and continues:
            ask_ahead()

    def _waits_for_epoch(self) -> bool:
        """Return True if trainers may still set the epoch between `iter` and `next`: not if it had begun."""
        if self._progress.is_drawn:
            return self._is_drawn_late
        return self._seed is not None or self._ordering is not None or waits_for_epoch(self._index_sampler)


def _begun_requests(requests: Iterator[BatchIds]) -> Iterator[BatchIds]:
    """Repeat the draws made before the state was saved; return the requests after that."""
    first = next(requests, None)
    if first is BEGUN:
        return requests
    return iter(()) if first is None else itertools.chain((first,), requests)


def _begun_late(requests: Iterator[BatchIds], generators: dict[str, str] | None) -> Iterator[BatchIds]:
    """Do as `_begun_requests` at the first `next`, drawing from global `generators`, and then undo their changes."""
    if generators is None:
        yield from _begun_requests(requests)
        return
    with keeping_generators():
        set_global_state(generators)
        begun = _begun_requests(requests)
    yield from begun


def _has_begun(place: PlaceState) -> bool:
    return not place.over and bool(place.states) and place.of_dataset["inner"] is not None


def refuse_timeout(timeout: float) -> None:
    """Refuse a timeout, because there is no worker to wait for; the message is torch's.

    Raises:
        AssertionError: `timeout` is set.
    """
    if timeout != 0:
        raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0, the time to wait for a worker")
