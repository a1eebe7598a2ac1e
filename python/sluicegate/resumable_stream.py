"""`ResumableStream`: what the datasets over streams have in common, epochs, states and who reads."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from torch.utils.data import IterableDataset

from .checked_number import checked_number
from .consumer import Consumer, checked_shard, rank_and_world_size, worker_number
from .state_checks import check_stream_state
from .stream_images import DecodesImages
from .stream_reader import StreamReader

__all__ = ["ResumableIterator", "ResumableStream"]

_T_co = TypeVar("_T_co", covariant=True)

_VERSION = 1


class ResumableIterator(DecodesImages[_T_co]):
    """The iterator of one epoch.

    It has no state of its own to be asked for: that is its dataset's, which knows which consumer asks.
    """

    reader: StreamReader

    def position(self) -> dict[str, Any]:
        """Where it is, and nobody else's to change."""
        raise NotImplementedError

    def leave(self) -> None:
        """Is told that the next epoch begins."""
        raise NotImplementedError


@dataclass
class _Place:
    """What one consumer has reached: this process, or one of its worker threads."""

    next_epoch: int
    seed: int | None = None
    # A state that no iterator has taken up yet.
    loaded: dict[str, Any] | None = None
    iterator: ResumableIterator[Any] | None = None


class ResumableStream(IterableDataset[_T_co]):
    """An iterable dataset that reads another iterable, counts epochs and has a state.

    Args:
        iterable: what is read, anew in every epoch.
        shard: (rank, world_size), or None to ask `torch.distributed`.
    """

    def __init__(self, iterable: Iterable[_T_co], shard: tuple[int, int] | None) -> None:
        self.iterable = iterable
        self.shard = checked_shard(shard)
        self._inherited: tuple[int, int] | None = None
        self._first_epoch = 0
        # By worker, since worker threads share this object; None is whoever is no worker.
        self._places: dict[int | None, _Place] = {}

    def __iter__(self) -> Iterator[_T_co]:
        """The next epoch, or the rest of the one whose state was loaded. Calls `iter` of the iterable."""
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
                f"this state of a {type(self).__name__} belongs to {Consumer(**loaded['consumer'])}, but this is "
                f"{consumer}: resume with as many ranks and workers, and each from its own state"
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
        """Which of the readers inside of a loader's stream goes on from `loaded`; None of one that begins."""
        if loaded is None or ("reader" not in loaded and not loaded["read"]):
            return None
        return int(loaded.get("reader", 0))

    def _arguments(self) -> dict[str, Any]:
        """The arguments without which a state means something else."""
        raise NotImplementedError

    @property
    def splits_anew(self) -> bool:
        """Whether what is left of an epoch can be read by another number of workers."""
        return False

    def split_anew(self, states: Sequence[dict[str, Any] | None], num_workers: int, run: int) -> list[dict[str, Any]]:
        """The states of other workers, who go on with what is left of an epoch; where `splits_anew`.

        Args:
            states: of the workers of this rank, by number; None of one that had read nothing. Not all are None.
            num_workers: how many go on, at least 1.
            run: how many samples in a row belong to one of them.
        """
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration of this copy of the dataset epoch `epoch`; from there it counts up.

        The iterable is told too, where it has a `set_epoch`. A state that was loaded keeps its own epoch.

        Raises:
            ValueError: a negative `epoch`, or one of 2^64 and more.
        """
        self._first_epoch = checked_number("epoch", epoch)
        for place in self._places.values():
            place.next_epoch = self._first_epoch
        if callable(set_epoch := getattr(self.iterable, "set_epoch", None)):
            set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator of this consumer is: JSON, if the states of the iterable are."""
        place = self._place()
        if place.loaded is not None:
            return copy.deepcopy(place.loaded)
        if place.iterator is not None:
            # The first of a loader's stream, and whoever reads without a loader's seed, says nothing of it.
            number = place.iterator.reader.number if place.iterator.reader is not None else None
            return self._state(place.iterator.position() | ({"reader": number} if number else {}))
        consumer = Consumer.here(self.shard, self._inherited)
        return self._state(self._start(place.next_epoch, place.seed, consumer))

    def _start(self, epoch: int, seed: int | None, consumer: Consumer) -> dict[str, Any]:
        return {"epoch": epoch, "consumer": asdict(consumer), "read": 0, "ended": False, "inner": None}

    def _state(self, position: dict[str, Any]) -> dict[str, Any]:
        return {"version": _VERSION, "stream": type(self).__name__, **self._arguments(), **position}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where `state_dict` was taken, and later ones follow it. It is used once.

        Where it was taken at the end of an epoch, nothing is left of that: the next iteration is empty, and the one
        after it is the next epoch. A DataLoader knows this of every stateful dataset and leaves out the empty one.

        Raises:
            ValueError: a state of something else, or of other arguments; the text names both sides.
        """
        if not isinstance(state_dict, Mapping):
            raise ValueError(f"this {type(state_dict).__name__} is no state of a {type(self).__name__}")
        state = copy.deepcopy(dict(state_dict))
        if state.get("version") != _VERSION or state.get("stream") != type(self).__name__:
            raise ValueError(
                f"this is no state of a {type(self).__name__} that this version can read: it says it is of "
                f"{state.get('stream')!r}, version {state.get('version')!r}; expected {type(self).__name__!r}, "
                f"version {_VERSION}"
            )
        for name, ours in self._arguments().items():
            if state.get(name) != ours:
                raise ValueError(
                    f"this state was made with {name}={state.get(name)!r}, but this {type(self).__name__} has "
                    f"{name}={ours!r}: resume with the arguments that it was made with"
                )
        self.check_state(state)
        place = self._place()
        place.loaded, place.iterator = state, None

    def check_state(self, state: Any) -> None:
        """Refuses a state of a stream like this one that was changed; any other is left alone.

        Raises:
            ValueError: no stream has said so; the text names the key.
        """
        if not isinstance(state, Mapping) or state.get("stream") != type(self).__name__:
            return
        # Older states lack the others.
        needed = set(self._start(0, None, Consumer())) - {"run", "consumed", "stream_ended"}
        check_stream_state(state, needed, self._arguments().get("sources"))
        inner = state["inner"]
        if isinstance(self.iterable, ResumableStream) and isinstance(inner, Mapping):
            self.iterable.check_state(inner.get("iterable"))

    def _place(self) -> _Place:
        worker = worker_number()
        if worker not in self._places:
            self._places[worker] = _Place(self._first_epoch)
        return self._places[worker]

    def _refuse_state_of_main_process(self) -> None:
        main = self._places.get(None)
        if worker_number() is not None and main is not None and main.loaded is not None:
            raise RuntimeError(
                f"the state of this {type(self).__name__} was loaded in the main process, but its workers iterate: "
                "each has a state of its own. Load the state into the DataLoader, or iterate with num_workers=0"
            )

    def __getstate__(self) -> dict[str, Any]:
        """All but the iterators, and where torch.distributed has put this process: a spawned worker can't ask it."""
        places = {worker: _Place(place.next_epoch, place.seed, place.loaded) for worker, place in self._places.items()}
        rank, world_size = rank_and_world_size()
        inherited = (rank, world_size) if world_size > 1 else self._inherited
        return {**vars(self), "_places": places, "_inherited": inherited}
