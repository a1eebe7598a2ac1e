"""`ResumableStream`: the common parts of stream datasets: epochs, states and consumers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from torch.utils.data import ChainDataset, IterableDataset

from sluicegate.checked_number import checked_number
from sluicegate.state.checks import check_stream_state
from sluicegate.state.stateful import attribute

from .consumer import Consumer, checked_shard, rank_and_world_size, worker_number
from .images import DecodesImages
from .reader import StreamReader

_T_co = TypeVar("_T_co", covariant=True)
_Stream = TypeVar("_Stream", bound="ResumableStream[Any]")

_VERSION = 1


class ResumableIterator(DecodesImages[_T_co]):
    """The iterator of one epoch.

    Its state belongs to its dataset, which knows which consumer asks.
    """

    reader: StreamReader

    def frozen(self, fixed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Return a function that makes a state of `fixed` and the current position, also later, once.

        The function does not refer to this object, which keeps the open source alive.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """Notify the iterator that the next epoch begins."""
        raise NotImplementedError


@dataclass
class _Place:
    """The progress of one consumer: this process, or one of its worker threads."""

    next_epoch: int
    seed: int | None = None
    # A loaded state that no iterator has used yet.
    loaded: dict[str, Any] | None = None
    iterator: ResumableIterator[Any] | None = None


class ResumableStream(IterableDataset[_T_co]):
    """An iterable dataset that reads another iterable, counts epochs and has a state.

    Args:
        iterable: the iterable to read, once per epoch.
        shard: (rank, world_size), or None to ask `torch.distributed`.
    """

    def __init__(self, iterable: Iterable[_T_co], shard: tuple[int, int] | None) -> None:
        self.iterable = iterable
        self.shard = checked_shard(shard)
        self._inherited: tuple[int, int] | None = None
        self._first_epoch = 0
        # By worker, because worker threads share this object; None is the key outside of workers.
        self._places: dict[int | None, _Place] = {}

    def __iter__(self) -> Iterator[_T_co]:
        """Return an iterator over the next epoch, or over the rest of the one whose state was loaded.

        Calls `iter` on the iterable.
        """
        place, consumer = self._place(), Consumer.here(self.shard, self._inherited)
        loaded, last = place.loaded, place.iterator
        if loaded is None:
            self._refuse_state_of_main_process()
            epoch = place.next_epoch
        else:
            if loaded["read"]:
                self._refuse_other_consumer(loaded, consumer)
            epoch = loaded["epoch"]
        if last is not None:
            last.leave()
        place.iterator = self._begin(place, consumer, epoch, loaded, None if last is None else last.reader)
        place.next_epoch, place.loaded = epoch + 1, None
        return place.iterator

    def _refuse_other_consumer(self, loaded: Mapping[str, Any], consumer: Consumer) -> None:
        if loaded["consumer"] != asdict(consumer):
            raise ValueError(
                f"load_state_dict: expected the state of {consumer} of a {type(self).__name__}, but got that of "
                f"{Consumer(**loaded['consumer'])}; resume with the same numbers of ranks and workers, each from its "
                "own state"
            )

    def _begin(
        self,
        place: _Place,
        consumer: Consumer,
        epoch: int,
        loaded: dict[str, Any] | None,
        previous: StreamReader | None,
    ) -> ResumableIterator[_T_co]:
        raise NotImplementedError

    def _reader_of(self, loaded: dict[str, Any] | None) -> int | None:
        """Return the number of the reader in a loader's stream that resumes from `loaded`; None for a new one."""
        if loaded is None or ("reader" not in loaded and not loaded["read"]):
            return None
        return int(loaded.get("reader", 0))

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that a state depends on."""
        raise NotImplementedError

    @property
    def splits_again(self) -> bool:
        """True if the rest of an epoch can be read by a different number of workers."""
        return False

    def split_again(self, states: Sequence[dict[str, Any] | None], num_workers: int, run: int) -> list[dict[str, Any]]:
        """Return states for a different number of workers to read the rest of an epoch; requires `splits_again`.

        Args:
            states: those of the workers of this rank, by number; None for a worker that had read nothing. Not all are
                None.
            num_workers: the new number of workers, at least 1.
            run: the number of consecutive samples that belong to one of the new workers.
        """
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration of this copy of the dataset epoch `epoch`; later ones count up from there.

        Also calls the iterable's `set_epoch`, if it has one, or those of the streams that a `ChainDataset` reads.
        A loaded state keeps its own epoch.

        Raises:
            ValueError: `epoch` is negative, or 2^64 or more.
        """
        self._first_epoch = checked_number("epoch", epoch)
        for place in self._places.values():
            place.next_epoch = self._first_epoch
        set_epoch(self.iterable, epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this consumer's latest iterator: JSON if the states of the iterable are."""
        return self.freezing()()()

    def freezing(self) -> Callable[[], Callable[[], dict[str, Any]]]:
        """Return a function for this iteration: it returns one that makes the current state, also later, once."""
        place = self._place()
        if (iterator := place.iterator) is None or place.loaded is not None:
            return lambda: self._frozen_before(place)
        # The number is left out for the first reader of a loader's stream, and without a loader's seed.
        number = iterator.reader.number if iterator.reader is not None else None
        return functools.partial(iterator.frozen, self._state({"reader": number} if number else {}))

    def _frozen_before(self, place: _Place) -> Callable[[], dict[str, Any]]:
        """Return what a function of `freezing` does if there was no iterator then, but there may be one now."""
        if place.iterator is not None and place.loaded is None:
            return self.freezing()()
        state = self._state_before(place)
        return lambda: state

    def _state_before(self, place: _Place) -> dict[str, Any]:
        """Return the state before there is an iterator."""
        if place.loaded is not None:
            return copy.deepcopy(place.loaded)
        consumer = Consumer.here(self.shard, self._inherited)
        return self._state(self._start(place.next_epoch, place.seed, consumer))

    def _start(self, epoch: int, seed: int | None, consumer: Consumer) -> dict[str, Any]:
        return {"epoch": epoch, "consumer": asdict(consumer), "read": 0, "ended": False, "inner": None}

    def _state(self, position: dict[str, Any]) -> dict[str, Any]:
        return {"version": _VERSION, "stream": type(self).__name__, **self._arguments(), **position}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Make the next iteration resume from `state_dict`, and later ones follow it. The state is used once.

        If it was taken at the end of an epoch, the next iteration is empty, and the one after it is the next epoch. A
        DataLoader expects this from every stateful dataset and skips the empty one.

        Raises:
            ValueError: the state belongs to something else, or to other arguments; the message names both sides.
        """
        if not isinstance(state_dict, Mapping):
            raise ValueError(
                f"load_state_dict: expected a state of a {type(self).__name__}, but got a {type(state_dict).__name__}"
            )
        state = copy.deepcopy(dict(state_dict))
        if state.get("version") != _VERSION or state.get("stream") != type(self).__name__:
            raise ValueError(
                f"load_state_dict: expected a state of {type(self).__name__!r}, version {_VERSION}, but got one of "
                f"{state.get('stream')!r}, version {state.get('version')!r}"
            )
        for name, ours in self._arguments().items():
            if state.get(name) != ours:
                raise ValueError(
                    f"load_state_dict: expected a state saved with {name}={ours!r}, as this {type(self).__name__} has, "
                    f"but got {name}={state.get(name)!r}; resume with the arguments that it was saved with"
                )
        self.check_state(state)
        place = self._place()
        place.loaded, place.iterator = state, None

    def check_state(self, state: Any) -> None:
        """Refuse an invalid state of a stream like this one; ignore any other state.

        Raises:
            ValueError: no stream can have returned this state; the message names the key.
        """
        if not isinstance(state, Mapping) or state.get("stream") != type(self).__name__:
            return
        # Older states lack the keys removed here.
        needed = set(self._start(0, None, Consumer())) - {"run", "consumed", "stream_ended"}
        check_stream_state(state, needed, self._arguments().get("sources"))
        inner = state["inner"]
        if isinstance(self.iterable, ResumableStream) and isinstance(inner, Mapping):
            self.iterable.check_state(inner.get("iterable"))

    def for_worker(self: _Stream) -> _Stream:
        """Return a copy with positions of its own, for a thread that reads as a worker process does."""
        copied = copy.copy(self)
        if isinstance(self.iterable, ResumableStream):
            copied.iterable = self.iterable.for_worker()
        return copied

    def _place(self) -> _Place:
        worker = worker_number()
        if worker not in self._places:
            self._places[worker] = _Place(self._first_epoch)
        return self._places[worker]

    def _refuse_state_of_main_process(self) -> None:
        main = self._places.get(None)
        if worker_number() is not None and main is not None and main.loaded is not None:
            raise RuntimeError(
                f"load_state_dict: the state of this {type(self).__name__} was loaded in the main process, but its "
                "workers iterate, each with its own state; load the state into the DataLoader, or iterate with "
                "num_workers=0"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without iterators, but with this process's rank, which a spawned worker cannot query."""
        places = {worker: _Place(place.next_epoch, place.seed, place.loaded) for worker, place in self._places.items()}
        rank, world_size = rank_and_world_size()
        inherited = (rank, world_size) if world_size > 1 else self._inherited
        return {**vars(self), "_places": places, "_inherited": inherited}


def read_by(stream: Any) -> list[Any]:
    """Return the streams that this package's streams and `ChainDataset` read; any other stream alone."""
    if isinstance(stream, ResumableStream):
        return read_by(stream.iterable)
    if isinstance(stream, ChainDataset):
        return [inner for each in _chained(stream) for inner in read_by(each)]
    return [stream]


def takes_epoch(dataset: Any) -> list[Any]:
    """Return what receives the epoch of `dataset`: itself if it has a `set_epoch`, or our streams in a `ChainDataset`.

    Torch's `ChainDataset` has no `set_epoch`, but the order of our streams depends on the epoch, also within it.
    """
    if callable(attribute(dataset, "set_epoch")):
        return [dataset]
    found = (each for inner in _chained(dataset) for each in takes_epoch(inner))
    return [each for each in found if isinstance(each, ResumableStream)]


def set_epoch(dataset: Any, epoch: int) -> None:
    """Call `set_epoch` of everything in `takes_epoch(dataset)`."""
    for each in takes_epoch(dataset):
        each.set_epoch(epoch)


def _chained(stream: Any) -> Iterable[Any]:
    datasets = getattr(stream, "datasets", ()) if isinstance(stream, ChainDataset) else ()
    # An iterator can be read once, and that is for the `ChainDataset` to do.
    return () if isinstance(datasets, Iterator) else datasets


def _own_streams(iterable: Any) -> Iterator[ResumableStream[Any]]:
    if isinstance(iterable, ResumableStream):
        yield iterable
        yield from _own_streams(iterable.iterable)
    for each in _chained(iterable):
        yield from _own_streams(each)


def next_passes_of_streams(iterable: Any) -> list[list[int | None]]:
    """Return the next epoch and the seed of each of our own streams in `iterable`, from the outermost inwards.

    They count their passes and keep the seed of the first, so another process would otherwise read the first pass
    again. For other streams this is unknown: they depend on what their `set_epoch` was given.
    """
    passes: list[list[int | None]] = []
    for stream in _own_streams(iterable):
        place = stream._place()
        passes.append([place.next_epoch if place.loaded is None else place.loaded["epoch"], place.seed])
    return passes


def set_next_passes_of_streams(iterable: Any, passes: Iterable[Any]) -> None:
    """Make our own streams in `iterable` continue from a result of `next_passes_of_streams`."""
    for stream, (epoch, seed) in zip(_own_streams(iterable), passes, strict=False):
        place = stream._place()
        # Not through `set_epoch`, which also reaches user-defined streams that may never have been given an epoch.
        place.next_epoch, place.seed = epoch, seed
