"""What the iterators of all kinds have in common: the requests of an epoch, and how far the consumer is."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterDataPipe
from torch.utils.data.graph_settings import apply_random_seed

from . import _core, _torch, draws
from .destination import destination_of
from .epoch_requests import BEGUN, drawn, of_stream, planned
from .global_generators import global_state, keeping_generators, set_global_state
from .ids import BatchIds
from .native_stream import NativeStream
from .plan import Ordering
from .progress import Progress
from .resumable_stream import ResumableStream
from .rng import SampleSeeding
from .stream_seeding import Seeding
from .torch_order import waits_for_epoch
from .whole_stream import answering

if TYPE_CHECKING:
    from .dataloader import DataLoader

# Which "sample" the workers of a seeded loader draw their own seeds for: no dataset has one of this number.
_WORKERS = 2**64 - 1
# And DataPipes what they shuffle by; below it are those of streams.
_PIPES = 2**63


# How many forks lie between the process that loaded this module and this one. Asking for the process's number at
# every batch would cost more than the lock. A `WeakSet` of iterators would run Python code, and with it signal
# handlers, where one is dropped.
_generation = 0


def _enter_child() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_enter_child)


class EpochIterator(_torch.BaseDataLoaderIter):
    """An iterator of torch's whose batches are asked for by `BatchIds`, and counted when they are received.

    Args:
        loader: where the arguments are read, now.
    """

    # Whether the sampler is not to be asked yet.
    _is_asked_later = False
    # True if a resumed epoch, which was drawn before, is drawn again at the first `next`.
    _is_drawn_late = False

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._next_lock, self._next_generation = threading.RLock(), _generation
        index_sampler = loader._index_sampler
        self._progress: Progress = _begun(loader, index_sampler)
        self._seeding: Seeding | None = None
        if loader.seed is not None:
            self._seeding = SampleSeeding(loader.seed, loader.seed_samples)
        self._seed, self._seed_samples = loader.seed, loader.seed_samples
        # How many samples of a native stream in a row belong to one worker: with a seed those of a batch, and batches
        # are the same for any number of workers; without one they are torch's.
        self._run = 1 if loader.seed is None else int(loader.batch_size or 1)
        self._sample_id = loader._loader_sample_id
        self._ordering = Ordering.of(loader, index_sampler)
        self._requests: Iterator[BatchIds] = iter(())
        # Torch asks for the rank of every loader, but shards only DataPipes by it.
        with self._drawing(), answering():
            super().__init__(loader)
        self._destination = destination_of(loader, self._pin_memory, self._pin_memory_device)
        resumed = self._progress.resumed
        if resumed is not None and loader.seed is None:
            if not resumed["begins_iterator"] and resumed["draws"] is not None:
                # Persistent workers had their seed from an earlier epoch: this one's order is drawn without another.
                draws.put(loader, resumed["draws"])
            if resumed["base_seed"] is not None:
                self._base_seed = resumed["base_seed"]
        if loader.seed is not None:
            # One that the epoch has no part in: it is not known yet, and persistent workers see many.
            self._base_seed = _core.sample_key(loader.seed, 0, _WORKERS) >> 1
            self._seed_pipe()
        self._tell_base_seed()
        self._progress.draws_after_iter = self._progress.take_draws()

    def __next__(self) -> Any:
        """Returns the next batch; threads that share the iterator take turns, and each batch goes to one of them."""
        with self._taking_turns():
            if _torch.profiler_enabled() or self._IterableDataset_len_called is not None:
                return super().__next__()
            # What torch does, without its `record_function`, which costs more than the rest and is only for profilers.
            batch = self._next_data()
            self._num_yielded += 1
            return batch

    def _next_data(self) -> Any:
        """Returns the next batch. Raises StopIteration at the end of the epoch."""
        raise NotImplementedError

    def _taking_turns(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the lock that a thread holds while it asks for a batch. Reentrant: a signal handler may ask, too."""
        if self._next_generation != _generation:
            # The thread that held it was not forked.
            self._next_lock, self._next_generation = threading.RLock(), _generation
        return self._next_lock

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Around torch's draws: in seed mode nothing comes of them, and the generator is left where it was."""
        if self._seed is None:
            yield
            return
        self._is_asked_later = True
        try:
            with torch.random.fork_rng(devices=[]):
                yield
        finally:
            self._is_asked_later = False

    @property
    def _index_sampler(self) -> Any:
        """The loader's batch sampler, or its sampler when batches are not made.

        Torch asks it for an iterator at once. What a sampler draws there would not follow from the seed, so in seed
        mode it is asked when the first batch is, and torch finds nothing here.
        """
        return () if self._is_asked_later else self._loaders_index_sampler

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._loaders_index_sampler = sampler

    def _seed_pipe(self) -> None:
        """Has a DataPipe shuffle by the loader's seed, and not by what torch has drawn."""
        if isinstance(self._dataset, IterDataPipe) and self._seed is not None:
            generator = torch.Generator()
            self._shared_seed = _core.sample_key(self._seed, self._progress.epoch, _PIPES) >> 1
            generator.manual_seed(self._shared_seed)
            self._dataset = apply_random_seed(self._dataset, generator)

    def _tell_base_seed(self) -> None:
        if self._num_workers > 0 and self._seed is None:
            self._progress.base_seed = int(self._base_seed)

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        """Begins another epoch: what torch calls on the iterator of persistent workers."""
        if not first_iter:
            index_sampler = loader._index_sampler
            self._progress = _begun(loader, index_sampler)
            self._progress.begins_iterator = False
            self._tell_base_seed()
            self._sample_id = loader._loader_sample_id
            self._ordering = Ordering.of(loader, index_sampler)
            self._destination = destination_of(loader, self._pin_memory, self._pin_memory_device)
        with self._drawing():
            super()._reset(loader, first_iter)
        if loader.seed is not None:
            self._seed_pipe()
        self._progress.draws_after_iter = self._progress.take_draws()

    def _open(self, engine: _core.Engine) -> None:
        """Makes the requests of the epoch. The sampler is asked for the first one when that is asked for here."""
        progress = self._progress
        self._is_drawn_late = False
        is_drawn = progress.resumed is not None and bool(progress.resumed["drawn"])
        # Functions, and no methods: a generator of this iterator's own would keep it, and its workers, alive.
        if self._ordering is not None:
            self._requests = planned(progress, self._seeding, self._ordering)
        elif self._dataset_kind == _torch.DatasetKind.Iterable:
            self._requests = of_stream(progress, iter(self._index_sampler))
        else:
            self._requests = drawn(
                progress,
                self._seed,
                self._seeding,
                self._index_sampler,
                self._sampler_iter,
                engine,
                self._auto_collation,
                is_drawn,
            )
        if is_drawn and waits_for_epoch(self._index_sampler):
            # Lightning calls `iter`, then `sampler.set_epoch`, then `next`: only then the sampler knows its epoch.
            self._is_drawn_late = True
            self._requests = _begun_late(self._requests, global_state() if self._seed is None else None)
        elif is_drawn:
            self._requests = _begun_requests(self._requests)

    def _tells_epoch(self) -> bool:
        """Whether the dataset is told which epoch begins: torch's loader does not, so not where it would matter."""
        is_told = self._seed is not None or self._progress.is_epoch_set or isinstance(self._dataset, ResumableStream)
        return is_told and hasattr(self._dataset, "set_epoch")

    def _stream_places(self, resumed: dict[str, Any]) -> list[Any]:
        """By worker: where it goes on in its stream, as far as is known.

        Raises:
            AssertionError: there were other workers, and the stream can't be split anew.
        """
        there, places = resumed["num_workers"], resumed["workers"]
        if isinstance(self._dataset, ResumableStream) and self._dataset.splits_anew:
            return self._places_anew(self._dataset, places, there, resumed["in_epoch"])
        if there == self._num_workers:
            return list(places)
        if resumed["in_epoch"]:
            raise AssertionError(self._other_workers(there))
        # Who reads in this process has the dataset that the first one has told of.
        return [] if self._num_workers else list(places)

    def _places_anew(self, stream: ResumableStream[Any], places: list[Any], there: int, in_epoch: bool) -> list[Any]:
        # Of those who have begun this epoch, what they say of where they are.
        begun = [place if place is not None and _has_begun(place) else None for place in places]
        states = [None if place is None else place["state"]["thing"] for place in begun]
        known = [state for state in states if state is not None]
        here = max(self._num_workers, 1)
        if max(there, 1) == here and all(state.get("run", self._run) == self._run for state in known):
            return list(places)
        if not in_epoch or not known:
            return []
        if any(place is not None and place["at"] != place["samples"] for place in begun):
            why = ". Of a state that was saved with snapshot_every_n_steps=1, what is left could be read by others"
            raise AssertionError(self._other_workers(there) + why)
        anew = stream.split_anew(states, here, self._run if isinstance(stream, NativeStream) else 1)
        ended = all(place is not None and place["ended"] for place in begun)
        told = {"ended": ended, "rng": None, "over": False}
        return [{"state": {"thing": state}, "at": state["read"], "samples": state["read"], **told} for state in anew]

    def _other_workers(self, there: int) -> str:
        return (
            f"the state was saved with num_workers={there}, and this loader has num_workers={self._num_workers}: "
            "the samples of an IterableDataset are split among its workers, so build the loader with as many"
        )

    def _warn_of_reading(self, places: list[dict[str, Any] | None]) -> None:
        """Says what it costs to go on in a stream that does not know its state."""
        samples = sum(place["samples"] - place["at"] for place in places if place is not None and not place["state"])
        if samples and self._dataset_kind == _torch.DatasetKind.Iterable:
            warnings.warn(
                f"{type(self._dataset).__name__} has no state_dict and load_state_dict, so it is fast-forwarded: its "
                f"first {samples} samples are read again and dropped. Give it both, or its iterator",
                UserWarning,
                stacklevel=5,
            )

    def _count_ready(self) -> None:
        """Counts what workers have made since somebody last heard of them."""

    def _shutdown_workers(self) -> None:
        """Ends what works for this iterator; what trainers call to end it early."""

    def _settle(self, ask_ahead: Callable[[], None] | None = None) -> None:
        """Puts the global generators to where they were when the state was taken; last of all that a resume does.

        Args:
            ask_ahead: asks the sampler for what workers fetch ahead. What it draws lies before that place, but not
                where the state was taken by a loader that had asked for nothing yet, nor where what that had asked for
                was drawn again: then it goes on from there.
        """
        resumed, outer = self._progress.resumed, self._progress.outer
        is_drawn_again = outer is None and resumed is not None and resumed.get("requests_drawn") is not None
        has_asked = resumed is None or not resumed["in_epoch"] or bool(resumed["drawn"]) or outer is not None
        lies_before = has_asked and not is_drawn_again
        if ask_ahead is not None and lies_before:
            ask_ahead()
        if outer is not None:
            set_global_state(outer)
        elif resumed is not None and resumed["in_epoch"] and resumed["rng"] is not None and self._seed is None:
            set_global_state(resumed["rng"])
        if ask_ahead is not None and not lies_before:
            ask_ahead()

    def _waits_for_epoch(self) -> bool:
        """Whether trainers may yet set the epoch between `iter` and `next`: not of one that had begun."""
        if self._progress.is_drawn:
            return self._is_drawn_late
        return self._seed is not None or self._ordering is not None or waits_for_epoch(self._index_sampler)


def _begun_requests(requests: Iterator[BatchIds]) -> Iterator[BatchIds]:
    """Draws what had been drawn when the state was taken; returns the requests after that."""
    first = next(requests, None)
    if first is BEGUN:
        return requests
    return iter(()) if first is None else itertools.chain((first,), requests)


def _begun_late(requests: Iterator[BatchIds], generators: dict[str, str] | None) -> Iterator[BatchIds]:
    """As `_begun_requests`, at the first `next`; from global `generators`, which are then put back."""
    if generators is None:
        yield from _begun_requests(requests)
        return
    with keeping_generators():
        set_global_state(generators)
        begun = _begun_requests(requests)
    yield from begun


def _has_begun(place: dict[str, Any]) -> bool:
    return not place["over"] and bool(place["state"]) and place["state"]["thing"]["inner"] is not None


def _begun(loader: DataLoader[Any], index_sampler: Any) -> Progress:
    """The progress of an iterator that begins now: from the loaded state, once, or from the start of an epoch.

    Args:
        loader: whose iterator it is.
        index_sampler: what the iterator asks for indices; another one that the loader is given later is for the next.
    """
    pending, loader._loader_pending = loader._loader_pending, None
    outer = None
    if pending is not None and loader.seed is None and pending["draws"] is not None:
        if pending["rng"] is None:
            outer = global_state()  # Of one rank among many: the generators of this one stay as they are.
        elif not pending["in_epoch"]:
            set_global_state(pending["rng"])
        draws.put(loader, pending["draws"])
    before, progress = loader._loader_progress, Progress(loader._loader_epochs, loader._loader_left_out, pending)
    if loader.seed is None:
        reference = weakref.ref(loader)
        progress.take_draws = lambda: None if (alive := reference()) is None else draws.take(alive, index_sampler)
        progress.draws = draws.take(loader, index_sampler)
    progress.outer = outer
    if before is not None:
        if pending is None:
            progress.place_before = before.leave()
            if not before.is_drawn:
                progress.sampler_untold = before.sampler_untold
            if not before.finished:
                left = before.leave_sampler()
                progress.sampler_before = lambda: left
        if before.finished:
            progress.sampler_before = before.sampler_state
        # Else each would keep all that came before it.
        before.sampler_before = before.sampler_stream = None
    loader._loader_progress = progress
    return progress


def refuse_timeout(loader: DataLoader[Any]) -> None:
    """Says that there is no worker to wait for, in torch's words.

    Raises:
        AssertionError: `timeout` is set.
    """
    if loader.timeout != 0:
        raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0, the time to wait for a worker")
