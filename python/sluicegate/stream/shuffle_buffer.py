"""`ShuffleBuffer`: a shuffled stream that resumes with the same samples in its buffer."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from sluicegate import _core, _torch
from sluicegate.checked_number import checked_number
from sluicegate.rng.stream_seeding import current_stream

from .consumer import Consumer
from .native import NativeStream, refuse_continued
from .native_iterator import NativeStreamIterator
from .reader import StreamReader
from .resumable import ResumableIterator, ResumableStream
from .self_splitting import in_words
from .split import Reached, reached_with_buffer, split_again
from .whole import is_reading_whole

_T_co = TypeVar("_T_co", covariant=True)

# The interval between snapshots of the stream's state: long enough to cost little, short enough that a resume reads
# little more than the content of the buffer.
_SNAPSHOTS_PER_BUFFER = 8
_LEAST_BETWEEN_SNAPSHOTS, _MOST_BETWEEN_SNAPSHOTS = 16, 4096
_BETWEEN_SNAPSHOTS_OF_BYTES = 256


class ShuffleBuffer(ResumableStream[_T_co]):
    """Shuffles a stream: holds `size` samples, and yields a random one of them before it reads another.

    For any iterable dataset, or any iterable, whose samples cannot be accessed by index. The order is a pure function
    of (seed, epoch, rank, worker) and of the samples that this worker reads: it does not depend on time or on any
    random number generator. Every rank and worker has its own buffer and order, so batches are the same in every run
    with the same number of workers (0 and 1 are the same), but differ between numbers of workers. If all of them read
    the same stream, give each its own part:

        ShuffleBuffer(sluicegate.shard_iterable(stream), size=10_000, seed=7)

    In worker processes that are not persistent, the dataset is a fresh copy in every epoch. sluicegate's loader sets
    its epoch, also within a `ChainDataset`. Under torch's loader, with a `seed`, call `set_epoch` before each epoch;
    otherwise all epochs have the same order.

    **Resuming.** `state_dict` has the positions of the samples in the buffer, not the samples; they are read again. If
    the iterable or its iterator is stateful (has `state_dict` and `load_state_dict`), reading starts from a saved state
    shortly before the oldest held sample; otherwise it starts from the beginning, and a warning reports the cost. The
    rest of the epoch and all later ones are those of the uninterrupted run, provided that the iterable yields the same
    samples. Under a `sluicegate.DataLoader` with a seed the iterable may draw from the global generators: for each
    sample they are set from the seed, the epoch, the worker and the sample's ordinal, and restored afterward, so
    samples that are read again get the same draws. Load a state before iterating; a stateful DataLoader does that
    itself, in the right worker.

    Over a native stream (`TarStream` and similar, with `on_error="raise"`) a loader's state may be loaded with a
    different number of workers. Their buffers then start empty, over the rest of the stream: each sample that the
    previous buffers held, or had not read, comes once.

    Each worker thread has its own position and state. Two iterators in one thread share the state (that of the later
    one), but are otherwise independent.

    Args:
        iterable: the stream; `iter` is called once per epoch.
        size: the number of samples to hold; None for no limit in samples. The buffer never reads more than this many
            samples ahead of what it yields.
        seed: 0 to 2^64 - 1. Without one, a loader's `seed` gives it. Without either, a seed is drawn when an iteration
            begins for the first time, from torch's global generator, or in a worker from the worker's seed, and kept
            for later epochs.
        max_bytes: hold no further sample once the held ones reach this many bytes (of tensors and arrays, `str` and
            `bytes`, nested in dicts, lists and tuples; `sys.getsizeof` for everything else); None for no limit in
            bytes. May be exceeded by one sample. Images of a `TarStream` are held as encoded files.
        shard: (rank, world_size) to use instead of those of `torch.distributed`.

    Raises:
        ValueError: neither `size` nor `max_bytes` is given, or one is below 1; the seed is out of range; the shard is
            invalid; the iterable has `continues=True` and can be read only once. While iterating: a state of another
            rank or worker, or no seed inside `shard_iterable`.
        TypeError: a number is not an integer.
        RuntimeError: while iterating after a resume: the stream is shorter than it was.

    Examples:
        >>> stream = ShuffleBuffer(range(8), size=3, seed=7)
        >>> list(stream), list(stream)
        ([1, 3, 2, 0, 5, 6, 7, 4], [2, 1, 0, 4, 5, 7, 3, 6])
        >>> resumed = ShuffleBuffer(range(8), size=3, seed=7)
        >>> resumed.set_epoch(1)
        >>> list(resumed)
        [2, 1, 0, 4, 5, 7, 3, 6]
    """

    def __init__(
        self,
        iterable: Iterable[_T_co],
        size: int | None = None,
        seed: int | None = None,
        *,
        max_bytes: int | None = None,
        shard: tuple[int, int] | None = None,
    ) -> None:
        if size is None and max_bytes is None:
            raise ValueError(
                "size, max_bytes: expected at least one of them, but got None for both; pass size, in samples"
            )
        refuse_continued("a ShuffleBuffer", iterable)
        super().__init__(iterable, shard)
        self.size = None if size is None else checked_number("size", size, 1)
        self.max_bytes = None if max_bytes is None else checked_number("max_bytes", max_bytes, 1)
        self.seed = None if seed is None else checked_number("seed", seed)

    @property
    def python_reason(self) -> str | None:
        """Why samples need Python, so that the core cannot make batches alone; None if it can."""
        stream = self.iterable
        if type(self) is not ShuffleBuffer or not isinstance(stream, NativeStream):
            return f"{type(self).__name__} over {type(stream).__name__} is iterated in Python"
        if stream.python_reason is not None:
            return stream.python_reason
        if self.max_bytes is not None:
            return "max_bytes is given, so samples are weighed in Python"
        return "the files of images are held in Python" if stream.has_images else None

    def __repr__(self) -> str:
        """Return the stream and the limits of the buffer."""
        bounds = (f"{name}={bound}" for name, bound in self._arguments().items() if bound is not None)
        return f"{type(self).__name__}({in_words(self.iterable)}, {', '.join(bounds)}, seed={self.seed})"

    def _arguments(self) -> dict[str, Any]:
        return {"size": self.size, "max_bytes": self.max_bytes}

    def _start(self, epoch: int, seed: int | None, consumer: Consumer) -> dict[str, Any]:
        seed = self.seed if self.seed is not None else seed
        start = super()._start(epoch, seed, consumer)
        return {"seed": seed, **start, "stream_ended": False, "yielded": 0, "held": []}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # noqa: D102
        has_seed = self.seed is not None and isinstance(state_dict, Mapping)
        if has_seed and state_dict.get("seed", self.seed) != self.seed:
            raise ValueError(
                f"load_state_dict: expected a state saved with seed={self.seed}, as this ShuffleBuffer has, but got "
                f"seed={state_dict['seed']}; resume with the seed that it was saved with, or without one"
            )
        super().load_state_dict(state_dict)

    def _begin(
        self,
        place: Any,
        consumer: Consumer,
        epoch: int,
        loaded: dict[str, Any] | None,
        previous: StreamReader | None,
    ) -> ResumableIterator[_T_co]:
        if self.seed is not None:
            place.seed = self.seed
        elif loaded is not None and loaded["seed"] is not None:
            place.seed = loaded["seed"]
        elif place.seed is None or current_stream() is not None:
            # A loader's seed counts again in every epoch: what this process has kept may be of another loader.
            place.seed = self._drawn_seed()
        start = {**self._start(epoch, place.seed, consumer), **(loaded or {}), "seed": place.seed}
        iterator = ShuffledIterator(self, start, previous, self._reader_of(loaded))
        if loaded is not None and iterator.native is None:
            # Fill now, not at the first sample, because a resuming caller restores the generators after this.
            iterator.fill()
        return iterator

    @property
    def splits_again(self) -> bool:
        """True if held samples follow from the state: over a native stream that leaves out no samples."""
        is_own = type(self).__iter__ is ResumableStream.__iter__
        stream: Any = self.iterable
        return is_own and isinstance(stream, NativeStream) and stream.splits_again and stream.on_error == "raise"

    def split_again(self, states: Sequence[dict[str, Any] | None], num_workers: int, run: int) -> list[dict[str, Any]]:
        """Split as all streams do. The new buffers start empty: samples that were held come from the stream again."""
        reached = [None if state is None else _reached(state) for state in states]
        known = [state for state in states if state is not None]
        resumed = []
        for worker, stream in enumerate(split_again(reached, num_workers, run)):
            # The stream may have its own shard with another rank, and this buffer refuses states of other ranks.
            consumer = replace(Consumer(**known[0]["consumer"]), worker=worker, num_workers=num_workers)
            seed = known[worker % len(known)]["seed"]
            state = self._state(self._start(known[0]["epoch"], seed, consumer))
            resumed.append(state | {"inner": {"read": 0, "iterable": stream}})
        return resumed

    def _drawn_seed(self) -> int:
        if is_reading_whole() and Consumer.actual(self.shard, self._inherited).total > 1:
            raise ValueError(
                "seed: expected an integer for a ShuffleBuffer inside shard_iterable, because all ranks and workers "
                "must read the same order to share it, but got None; pass a seed, or swap the two: "
                "ShuffleBuffer(shard_iterable(...), ...)"
            )
        info = _torch.worker_info()
        if info is not None:
            return int(info.seed) % 2**64
        if (stream := current_stream()) is not None:
            return stream.worker_seed  # What the first worker would use: 0 workers and 1 give the same order.
        return int(torch.empty((), dtype=torch.int64).random_().item())


def _reached(state: dict[str, Any]) -> Reached:
    inner = state["inner"]
    return reached_with_buffer(inner["iterable"], inner["read"], state["read"], state["held"])


class ShuffledIterator(ResumableIterator[_T_co]):
    """One epoch of a `ShuffleBuffer`, from `state` on; its buffer is filled when the first sample is requested."""

    def __init__(
        self, dataset: ShuffleBuffer[_T_co], state: dict[str, Any], previous: StreamReader | None, number: int | None
    ) -> None:
        self._fixed = {name: state[name] for name in ("seed", "epoch", "consumer")}
        rank, worker = state["consumer"]["rank"], state["consumer"]["worker"]
        self._order = _core.ShuffleBuffer(dataset.size, dataset.max_bytes, state["seed"], state["epoch"], rank, worker)
        self._weigh = dataset.max_bytes is not None
        # Indexed by slot, as assigned by the core.
        self._samples: list[Any] = []
        every = _BETWEEN_SNAPSHOTS_OF_BYTES
        if dataset.size is not None:
            every = max(_LEAST_BETWEEN_SNAPSHOTS, dataset.size // _SNAPSHOTS_PER_BUFFER)
        every = min(every, _MOST_BETWEEN_SNAPSHOTS)
        self.reader = StreamReader(dataset.iterable, every, state["inner"], previous, number)
        # Hold encoded files, because they are smaller than decoded images.
        self.images = self.reader.take_images()
        # The position to reach before the first sample.
        self._resume = state if state["read"] or state["ended"] else None
        # The core's iterator, if it can also hold the samples; `_is_native` is True once it does.
        inner = self.reader.iterator
        self.native = inner if type(inner) is NativeStreamIterator and not self._weigh else None
        self._is_native = False
        # An exception that reading raised after the last batch.
        self._failure: Exception | None = None

    def next_batch(self, samples: int) -> tuple[Any, int] | None:
        """Return the core's batch of the next `samples` samples, and its size; None at the end.

        Requires `native`. Do not mix with reading single samples.
        """
        native, reader = self.native, self.reader
        assert native is not None
        if not self._is_native:
            native.shuffle(reader)
            self._is_native = True
        if self._resume is not None:
            self._refill_native(native, self._resume)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        yielded = self._order.yielded
        try:
            return native.next_shuffled(self._order, samples)
        except Exception as error:
            native.tell(reader, self._needed)
            drawn = self._order.yielded - yielded
            # If the whole batch was drawn but could not be made, nothing is left to deliver.
            if reader.ended or not 0 < drawn < samples:
                raise
            # Samples drawn before reading failed come before the error, as when iterating one by one: the core has kept
            # them.
            self._failure = error
            return native.next_shuffled(self._order, drawn)
        finally:
            native.tell(reader, self._needed)

    def _refill_native(self, native: NativeStreamIterator, state: dict[str, Any]) -> None:
        read, held = state["read"], state["held"]
        try:
            is_whole = native.read_again(read, held, state["stream_ended"])
        finally:
            native.tell(self.reader, lambda: 0)
        if not is_whole:
            raise self.reader.ended_before(read)
        self._order.resume(read, held, [0] * len(held))
        self._resume = None

    def fill(self) -> None:
        """Restore the samples that the buffer held when the state was taken."""
        if self._resume is not None:
            self._read_again(self._resume)

    def __next__(self) -> _T_co:
        return self._finished(self._drawn)  # type: ignore[no-any-return]

    def _drawn(self) -> Any:
        self.fill()
        order, samples, reader = self._order, self._samples, self.reader
        while not (reader.ended or order.is_full):
            if reader.read == reader.next_snapshot:
                reader.take_snapshot(self._needed())
            try:
                sample = next(reader)
            except StopIteration:
                break
            samples.append(sample)
            order.put(sample_bytes(sample) if self._weigh else 0)
        slot = order.take()
        if slot is None:
            raise StopIteration
        last = samples.pop()
        if slot == len(samples):
            return last
        sample, samples[slot] = samples[slot], last
        return sample

    def _read_again(self, state: dict[str, Any]) -> None:
        reader, read, held = self.reader, state["read"], state["held"]
        # A finished epoch needs nothing, and a stream without state need not be read to its end.
        if held or not state["ended"] or reader.is_stateful:
            self._warn_of_reading(read, len(held))
            if not self._samples:
                self._samples += [None] * len(held)
            slots = {ordinal: slot for slot, ordinal in enumerate(held)}
            # If the stream raises, the next call continues from there.
            while (ordinal := reader.read) < read:
                sample = reader.next_again(read)
                if ordinal in slots:
                    self._samples[slots[ordinal]] = sample
            if state["stream_ended"]:
                reader.see_end()  # Even while samples are held, as it may start over then.
        else:
            reader.read, reader.ended = read, True
        sizes = [sample_bytes(sample) if self._weigh else 0 for sample in self._samples]
        self._order.resume(read, held, sizes)
        self._resume = None

    def _warn_of_reading(self, read: int, held: int) -> None:
        if self.reader.is_stateful or self.reader.read > 0:
            return
        warnings.warn(
            f"ShuffleBuffer: the {type(self.reader.iterable).__name__} has no state_dict and load_state_dict, so "
            f"resuming reads its first {read} samples again, of which the buffer held {held}; give it these two "
            "methods to read little more than those again",
            UserWarning,
            stacklevel=4,
        )

    def leave(self) -> None:
        """Notify the iterator that the next epoch begins."""
        # A stateful stream must reach the point where the last epoch was left or ended before the next one begins.
        if self._resume is not None and self.reader.is_stateful:
            self._read_again(self._resume)

    def _needed(self) -> int:
        oldest = self._order.oldest
        return self.reader.read if oldest is None else oldest

    def frozen(self, fixed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Return a function that makes a state of `fixed` and the current position, also later."""
        fixed, order, reader = {**fixed, **self._fixed}, self._order, self.reader
        if (state := self._resume) is not None:
            place = {name: state[name] for name in ("read", "ended", "stream_ended", "inner", "yielded")}
            held = [*state["held"]]
            return lambda: {**fixed, **place, "held": held}
        read, yielded, stream_ended = order.read, order.yielded, reader.ended
        snapshot, held_bytes = reader.kept_snapshot_for(self._needed()), order.held_bytes()
        return lambda: {
            **fixed,
            "read": read,
            "ended": stream_ended and read == yielded,
            "stream_ended": stream_ended,
            "inner": copy.deepcopy(snapshot),
            "yielded": yielded,
            "held": np.frombuffer(held_bytes, np.uint64).tolist(),
        }


def sample_bytes(sample: Any) -> int:
    """Return the approximate size of a sample in bytes: its data, without Python's overhead."""
    if isinstance(sample, torch.Tensor):
        return sample.numel() * sample.element_size()
    if isinstance(sample, (np.ndarray, np.generic)):
        return int(sample.nbytes)
    if isinstance(sample, (bytes, bytearray, memoryview)):
        return sample.nbytes if isinstance(sample, memoryview) else len(sample)
    if isinstance(sample, str):
        return len(sample)
    if isinstance(sample, Mapping):
        return sum(map(sample_bytes, sample.values()))
    if isinstance(sample, (list, tuple)):
        return sum(map(sample_bytes, sample))
    return sys.getsizeof(sample)
