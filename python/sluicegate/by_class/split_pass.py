"""`SplitPass`: one pass over a stream, from which every class takes its own samples."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from sluicegate.rng.global_generators import as_text, global_generators, set_global_state
from sluicegate.system import deadlines
from sluicegate.system.bell import Bell

from .classified_stream import ClassifiedStream
from .spill_file import SpillFile
from .split_part import SplitPart

# A thread that ends wakes no waiter, so waiters check at this interval.
_LOOK_SECONDS = 0.5

# The value of `_in_hand` when there is no sample in hand.
_NOTHING = object()


class SplitPass:
    """Reads a stream once, for whichever class asks, and keeps the samples that other classes have not asked for yet.

    Nothing is read ahead: a thread that finds its class's buffer empty reads the stream until a sample of that
    class comes. Other threads can take from their buffers in the meantime; one thread at a time reads the stream.

    Args:
        samples: the stream; an exception is raised in the thread that is reading.
        buffer_size: the maximum number of samples of a class held in memory.
        when_full: "block", "drop" or "spill".
        spill_dir: the folder for spilled samples.
        dropped: counts dropped samples, by class.
    """

    def __init__(
        self,
        samples: ClassifiedStream,
        buffer_size: int,
        when_full: str,
        spill_dir: str | os.PathLike[str] | None,
        dropped: Callable[[Hashable], None],
    ) -> None:
        self._samples = samples
        self._buffer_size = buffer_size
        self._when_full = when_full
        self._spill_dir = spill_dir
        self._dropped = dropped
        # Guards everything below. Not a condition: a signal's exception within one would leave it locked.
        self._lock = threading.RLock()
        # The bells of the threads that wait for a change.
        self._bells: dict[threading.Thread, Bell] = {}
        self._parts: dict[Hashable, SplitPart] = {}
        self._is_reading = False
        # The sample that was read but did not fit, with its class.
        self._in_hand: Any = _NOTHING
        self._in_hand_since = 0.0
        self._has_warned = False
        # The threads that wait for room, with the class that each of them reads.
        self._waiting: dict[threading.Thread, Hashable] = {}
        # The class that was reading when the stream raised an error, if it did.
        self._failed_class: Hashable = None
        # How often the stream was asked for a sample, and the state of the generators at the first time.
        self._asked = 0
        self._start: Any = None
        # Classes whose iterators were dropped. Without a lock, because a finalizer may run anywhere.
        self._left: deque[Hashable] = deque()
        self.ended = False
        self.closed = False

    def join(self, name: Hashable) -> bool:
        """Begin to read class `name`; return False if it was already read in this pass."""
        with self._lock:
            part = self._part(name)
            if part.is_taken:
                return False
            part.is_taken, part.reader = True, threading.current_thread()
            return True

    def leave(self, name: Hashable) -> None:
        """Record that class `name` will not be read any more. Called by finalizers."""
        self._left.append(name)
        # Does not wait for the lock: waiters also check by themselves.
        if self._lock.acquire(blocking=False):
            try:
                self._wake_waiters()
            finally:
                self._lock.release()

    def reads_class_other_than(self, name: Hashable) -> bool:
        """Return True if a class other than `name` is being read and is not at its end."""
        with self._lock:
            self._note_left()
            return any(part.is_taken and not part.is_left for other, part in self._parts.items() if other != name)

    def finish(self, name: Hashable) -> None:
        """Record that class `name` has been read to its end."""
        with self._lock:
            part = self._part(name)
            part.is_left = True
            part.clear()

    def unread(self) -> dict[Hashable, int]:
        """Return how many samples are left of each class that has not been read."""
        with self._lock:
            return {name: len(part) for name, part in self._parts.items() if not part.is_taken and len(part)}

    def close(self) -> None:
        """Drop the held samples, in memory and on disk; threads that wait or ask later get an error."""
        with self._lock:
            self.closed = True
            self._in_hand = _NOTHING
            for part in self._parts.values():
                part.clear()
            self._wake_waiters()

    def take(self, name: Hashable) -> Any:
        """Return the next sample of class `name`.

        Raises:
            StopIteration: there are no more.
            RuntimeError: the buffer of another class is full and no thread can empty it, the pass was closed, or the
                stream failed while another class was reading it.
            Exception: an error of the stream, in the thread that reads it.
        """
        with self._lock:
            while True:
                if self.closed:
                    raise RuntimeError(
                        f"the pass over the stream that feeds class {name!r} was closed, or left for a new one; "
                        "iterate over the loader again"
                    )
                self._note_left()
                part = self._part(name)
                part.reader = threading.current_thread()
                if len(part):
                    sample = part.pop()
                    part.taken += 1
                    self._wake_waiters()
                    return sample
                if self._in_hand is not _NOTHING and not self._place():
                    self._await_room(name)
                elif self.ended:
                    self._raise_end(name)
                elif self._is_reading:
                    self._wait()
                else:
                    self._read(name)

    def look_ahead(self, wanted: Callable[[], bool]) -> None:
        """Read until `wanted`, or until a buffer in memory is full. For callers that read no class."""
        with self._lock:
            while not (wanted() or self.ended or self.closed or self._in_hand is not _NOTHING):
                if any(len(part) >= self._buffer_size for part in self._parts.values()):
                    return
                if self._is_reading:
                    self._wait()
                else:
                    self._read(None)

    @property
    def passes(self) -> dict[str, Any] | None:
        """Which passes of our own streams and loaders this one reads; None before it has begun."""
        return self._samples.passes

    def state(self) -> dict[str, Any] | None:
        """Return the position of the pass: plain JSON, if the classes are; None if it has nothing left to deliver."""
        with self._lock:
            self._note_left()
            if self.ended and all(part.is_left if part.is_taken else not len(part) for part in self._parts.values()):
                return None
            parts = [[name, part.taken, part.is_taken, part.is_left] for name, part in self._parts.items()]
            start = None if self._start is None else list(as_text(self._start).items())
            return {"asked": self._asked, "ended": self.ended, "parts": parts, "start": start}

    def read_again(self, state: dict[str, Any], going_on: Mapping[Hashable, bool]) -> None:
        """Bring a pass that has not begun to the position of `state`: samples already taken are reread and dropped.

        Args:
            state: a result of `state`.
            going_on: the classes whose reading is resumed, and True for each that had its last sample.

        Raises:
            RuntimeError: the stream is a different one.
        """
        with self._lock:
            for name, taken, is_taken, is_left in state["parts"]:
                part = self._part(name)
                part.taken = part.taken_before = taken
                # A class that is resumed is joined again, even if the loop over it had been left. A class with
                # only its end left to see is not.
                part.is_taken = is_taken and going_on.get(name, True)
                part.is_left = is_left and going_on.get(name, True)
            # Without a limit: samples dropped for a class that was left now wait, because its reading is resumed.
            limit, self._buffer_size = self._buffer_size, sys.maxsize
            if state["start"] is not None:
                set_global_state(dict(state["start"]))
            while self._asked < state["asked"] and not self.ended and self._in_hand is _NOTHING:
                try:
                    self._read(None)
                except Exception:
                    if self._in_hand is not _NOTHING:
                        raise  # The spill disk is full.
            self._buffer_size = limit
            left = {name: part.taken_before for name, part in self._parts.items() if part.taken_before}
            if left or (self._asked, self.ended) != (state["asked"], state["ended"]):
                raise RuntimeError(
                    f"load_state_dict: expected the stream of the state, which had returned {state['asked']} samples, "
                    f"but got a different one: {self._asked} were read again, and samples of these classes are "
                    f"missing: {left}; pass the same stream"
                )

    def _part(self, name: Hashable) -> SplitPart:
        return self._parts.setdefault(name, SplitPart())

    def _wait(self) -> None:
        """Wait briefly for a change, without the lock."""
        me = threading.current_thread()
        bell = self._bells[me] = Bell()
        try:
            # Inside the `try`, because a signal's exception may come after any call.
            self._lock.release()
            bell.wait(_LOOK_SECONDS)
        finally:
            self._lock.acquire()
            self._bells.pop(me, None)

    def _wake_waiters(self) -> None:
        """Wake the threads that wait for a change. Call it with the lock held."""
        for bell in self._bells.values():
            bell.ring()

    def _read(self, name: Hashable) -> None:
        """Read one sample, without the lock: it may take long, and other threads may take buffered samples."""
        if self._asked == 0:
            self._start = global_generators().take()
        self._is_reading = True
        self._asked += 1
        found: Any = _NOTHING
        failed = True
        try:
            # Inside the `try`: a signal's exception may come after any call, and others wait for this to end.
            self._lock.release()
            found = next(self._samples)
            failed = False
        except StopIteration:
            failed = False
        finally:
            try:
                self._lock.acquire()
            finally:
                # Also after an exception, so that a different thread can continue.
                self._is_reading = False
            if failed:
                self._failed_class = name
            self._wake_waiters()
        if found is _NOTHING:
            self.ended = True
        elif not self.closed:
            self._in_hand, self._in_hand_since, self._has_warned = found, time.monotonic(), False
            self._place()

    def _place(self) -> bool:
        """Put the sample in hand into the buffer of its class; return False if that is full."""
        if self._in_hand is _NOTHING:
            return True
        name, sample = self._in_hand
        part = self._part(name)
        if part.taken_before > 0:
            part.taken_before -= 1
        elif part.is_left:
            self._dropped(name)
        elif self._when_full == "spill" and (part.spilled or len(part.samples) >= self._buffer_size):
            if part.spilled is None:
                part.spilled = SpillFile(self._spill_dir)
            self._spill(part.spilled, name, sample)
        elif len(part.samples) < self._buffer_size:
            # First, so that an exception of a signal here loses the sample rather than duplicating it.
            self._in_hand = _NOTHING
            part.samples.append(sample)
        elif self._when_full == "drop":
            self._dropped(name)
        else:
            return False
        self._in_hand = _NOTHING
        self._wake_waiters()
        return True

    def _spill(self, spilled: SpillFile, name: Hashable, sample: Any) -> None:
        in_hand, self._in_hand = self._in_hand, _NOTHING
        try:
            spilled.append(sample)
        except OSError:
            self._in_hand = in_hand  # There may be room later.
            raise
        except BaseException:
            self._dropped(name)
            raise

    def _note_left(self) -> None:
        while self._left:
            name = self._left.popleft()
            part = self._part(name)
            part.is_left = True
            for _ in range(len(part)):
                self._dropped(name)
            part.clear()

    def _raise_end(self, name: Hashable) -> None:
        error = self._samples.error
        if error is not None and self._failed_class != name:
            raise RuntimeError(
                f"the stream ended with an error while class {self._failed_class!r} was reading it, so samples of "
                f"class {name!r} may be missing: {type(error).__name__}: {error}"
            ) from error
        raise StopIteration

    def _await_room(self, name: Hashable) -> None:
        """Wait once for room for the sample in hand; raise an error if no thread can make room."""
        full = self._in_hand[0]
        me = threading.current_thread()
        waited = time.monotonic() - self._in_hand_since
        self._waiting[me] = name
        try:
            possible_reader = self._possible_reader(self._part(full))
            if possible_reader is None or (possible_reader == "" and waited >= deadlines.SPLIT_GRACE):
                raise RuntimeError(self._deadlock_in_words(name, full))
            if possible_reader and waited >= deadlines.STALL and not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"class {name!r} has waited for {waited:.0f} seconds: the buffer of class {full!r} is full "
                    f"({self._buffer_size} samples), and thread {possible_reader}, which reads that class, is not "
                    "taking any; still waiting",
                    RuntimeWarning,
                    stacklevel=4,
                )
            self._wait()
        finally:
            del self._waiting[me]

    def _possible_reader(self, part: SplitPart) -> str | None:
        """Return the name of the thread that may empty `part`; "" if one may still come; None if none can."""
        reader = part.reader
        if reader is not None and reader.is_alive():
            return None if self._is_stuck(reader) else reader.name
        return "" if any(not self._is_stuck(thread) for thread in threading.enumerate()) else None

    def _is_stuck(self, thread: threading.Thread) -> bool:
        """Return True if `thread` waits for the same room; a thread that was given a sample is about to wake."""
        return thread in self._waiting and not len(self._part(self._waiting[thread]))

    def _deadlock_in_words(self, name: Hashable, full: Hashable) -> str:
        part = self._part(full)
        if part.reader is threading.current_thread():
            who = "this thread reads both"
        elif part.reader is None:
            who = "that class is not being read"
        elif part.reader.is_alive():
            who = f"thread {part.reader.name}, which reads that class, waits too"
        else:
            who = f"thread {part.reader.name}, which read that class, has ended"
        return (
            f"class {name!r} can't get a sample: the next one in the stream is of class {full!r}, whose buffer is full "
            f"({self._buffer_size} samples), and {who}, so waiting would never end; take samples of class {full!r} "
            f"first, raise buffer_size, pass when_full='spill' or 'drop', or read each class in a separate thread"
        )
