"""`split_by_class`: a loader for every class of one stream."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset

from .checked_number import checked_number
from .classified_stream import ClassifiedStream, Label, checked_label, plain_class
from .dataloader import DataLoader
from .split_pass import SplitPass
from .split_state import ResumedPass, load_split_state, split_state

__all__ = ["StreamSplit", "split_by_class"]

_RULES = ("block", "drop", "spill")


def split_by_class(
    iterable: Iterable[Any],
    label: Label,
    batch_size: int | None = 1,
    *,
    classes: Iterable[Hashable] | None = None,
    buffer_size: int = 1024,
    when_full: str = "block",
    other: str = "raise",
    spill_dir: str | os.PathLike[str] | None = None,
    **loader_arguments: Any,
) -> StreamSplit:
    """Gives every class of a stream a DataLoader of its own, all of them fed by one pass over the stream.

    A loader that needs a sample reads the stream until one of its class comes; samples of other classes wait in their
    buffers, `buffer_size` of each. When a buffer is full:

    - `"block"`: the stream is not read on until somebody takes a sample of that class. Take turns that need about as
      many samples of every class as the stream has, or give every class a thread. Where waiting could never end, as one
      thread reads everything and asks for another class, a RuntimeError says so.
    - `"drop"`: the sample, the newest of its class, is dropped, and counted in `dropped`.
    - `"spill"`: it waits on disk. Never too little room, unless the disk is full; the order is kept.

    An epoch is one pass. The end of the stream ends all loaders, each after what it has in its buffer. A class that is
    iterated again then begins the next pass, in which everybody else joins it; what a class that nobody has read still
    had is counted in `dropped`. Before its end, a second iteration of a class is an error as long as another class is
    being read; when nobody reads any more (the loops were left by `break`), or after `new_pass()`, a new pass begins. A
    class whose iterator is gone takes no more part in the pass: its samples are dropped, and counted.

    The loaders may be used from a thread each. They have one state together, the mapping's: see
    `StreamSplit.state_dict`. Those of single loaders raise a RuntimeError, which says so.

    Args:
        iterable: the stream; `iter` is called once a pass.
        label: the class of a sample: the name of a field (a key, or an attribute), the place of a field, or a function
            of the sample. Tensors and arrays of one element count as the number in them.
        batch_size: samples per batch; None for samples as they are. Default 1.
        classes: the classes, if they are known. Else they are found in the stream as it goes.
        buffer_size: how many samples of each class wait in memory.
        when_full: "block", "drop" or "spill".
        other: what becomes of a sample of a class that is not among `classes`: "raise", or "drop", which counts it.
        spill_dir: the folder for what is spilled; default the system's for temporary files. Freed with the pass.
        loader_arguments: further arguments of `sluicegate.DataLoader`, the same for all classes.

    Returns:
        A mapping from class to DataLoader, see `StreamSplit`.

    Raises:
        ValueError: workers (each would read a pass of its own), an unknown rule, a `buffer_size` below 1; while
            iterating: a sample of a class that is not among `classes`.
        KeyError: when a class is asked for that is not known, or a sample has no field `label`.
        RuntimeError: while iterating: see above.

    Examples:
        >>> stream = [{"kind": "cat", "x": 1}, {"kind": "dog", "x": 2}, {"kind": "cat", "x": 3}]
        >>> loaders = split_by_class(stream, "kind", batch_size=2)
        >>> sorted(loaders), [batch["x"].tolist() for batch in loaders["cat"]]
        (['cat', 'dog'], [[1, 3]])
        >>> [batch["x"].tolist() for batch in loaders["dog"]]
        [[2]]
    """
    if when_full not in _RULES:
        raise ValueError(f"when_full should be one of 'block', 'drop' and 'spill', but got {when_full!r}")
    if other not in ("raise", "drop"):
        raise ValueError(f"other should be 'raise' or 'drop', but got {other!r}")
    if loader_arguments.get("num_workers", 0):
        raise ValueError(
            f"split_by_class loads with num_workers=0, but got num_workers={loader_arguments['num_workers']}: every "
            "worker of every class would read a pass of its own over the stream. Let workers load the stream instead, "
            "split_by_class(DataLoader(stream, batch_size=None, num_workers=...), ...), or read each class in a thread"
        )
    loader_arguments["batch_size"] = batch_size
    rule = _Rule(
        iterable,
        checked_label(label),
        None if classes is None else list(dict.fromkeys(map(plain_class, classes))),
        checked_number("buffer_size", buffer_size, 1),
        when_full,
        spill_dir,
        other == "drop",
    )
    return StreamSplit(rule, loader_arguments)


@dataclass(frozen=True)
class _Rule:
    """How a stream is split, and what waits where."""

    iterable: Iterable[Any]
    label: Label
    classes: list[Hashable] | None
    buffer_size: int
    when_full: str
    spill_dir: str | os.PathLike[str] | None
    drops_others: bool


class StreamSplit(Mapping[Hashable, "DataLoader[Any]"]):
    """A DataLoader for every class of a stream; what `split_by_class` returns.

    Where the classes were not given, asking for one (or for all) reads the stream ahead, as far as the buffers have
    room for what comes: those that come later are found when the loaders get there. `close` (or a `with` statement)
    drops what waits in memory and on disk.

    Attributes:
        dropped: how many samples of each class nobody got, over all passes.

    Examples:
        >>> with split_by_class([("a", 1), ("b", 2), ("a", 3)], label=0) as split:
        ...     taken = [int(number) for _, number in split["a"]]
        ...     taken, split.classes_seen
        ([1, 3], ['a', 'b'])
    """

    def __init__(self, rule: _Rule, loader_arguments: dict[str, Any]) -> None:
        self._rule = rule
        self._loader_arguments = loader_arguments
        self._loaders: dict[Hashable, DataLoader[Any]] = {}
        self._owner = os.getpid()
        # Guards what follows; never taken by one who holds a pass's lock, but for the counts, which have their own.
        self._lock = threading.RLock()
        self._pass: SplitPass | None = None
        # What the next pass goes on from.
        self._resumed: ResumedPass | None = None
        # The classes that had their last sample of a pass before the state that was loaded, but had not seen its end.
        self._ending: set[Hashable] = set()
        # The running one, and earlier ones whose last samples are still being taken.
        self._passes: weakref.WeakSet[SplitPass] = weakref.WeakSet()
        self._seen: dict[Hashable, None] = {}
        # Whether a pass was read to its end.
        self._knows_all = False
        self._counting = threading.Lock()
        self.dropped: Counter[Hashable] = Counter()
        self._is_closed = False

    @property
    def classes_seen(self) -> list[Hashable]:
        """The classes of the samples that were read so far, in the order of their first samples."""
        return list(self._seen)

    def __getitem__(self, name: Hashable) -> DataLoader[Any]:
        """The loader of class `name`, always the same one.

        Raises:
            KeyError: there is no such class among those given, or among those found as far as the buffers have room.
        """
        if self._rule.classes is None:
            if name not in self._seen:
                self._look_ahead(lambda: name in self._seen)
            if name not in self._seen:
                raise KeyError(
                    f"no class {name!r}: found as far as the buffers reach: {self.classes_seen}. Give classes=[...] if "
                    "it comes later in the stream"
                )
        elif name not in self._rule.classes:
            raise KeyError(f"no class {name!r}: the classes given are {self._rule.classes}")
        with self._lock:
            if name not in self._loaders:
                self._loaders[name] = _ClassLoader(_ClassStream(self, name), **self._loader_arguments)
            return self._loaders[name]

    def __iter__(self) -> Iterator[Hashable]:
        """The classes that were given, or those found so far."""
        return iter(self._known())

    def __len__(self) -> int:
        """The number of classes that were given, or found so far."""
        return len(self._known())

    def _known(self) -> list[Hashable]:
        if self._rule.classes is not None:
            return list(self._rule.classes)
        if not self._knows_all:
            self._look_ahead(lambda: False)
        return self.classes_seen

    def set_epoch(self, epoch: int) -> None:
        """Tells the iterable, where it has a `set_epoch`, which pass is next."""
        if callable(set_epoch := getattr(self._rule.iterable, "set_epoch", None)):
            set_epoch(epoch)

    def close(self) -> None:
        """Drops what waits, in memory and on disk; whoever still reads gets an error. May be called again."""
        with self._lock:
            self._is_closed = True
            self._pass = None
            for each in list(self._passes):
                each.close()

    def new_pass(self) -> None:
        """Leaves the running pass, and drops what waits in it: the next iteration begins another.

        For loops over several classes that were left by `break`. Iterators of the pass that was left raise a
        RuntimeError when they are used again.
        """
        with self._lock:
            if self._pass is not None:
                self._pass.close()
                self._pass = None

    def state_dict(self) -> dict[str, Any]:
        """Where all loaders are in the pass that runs: plain JSON, if the classes are.

        It counts the batches that were received. Take it while no thread is in the midst of a batch. What waits in
        buffers is not in it: the stream is read again, so it must give the same once more, be it drawn from the global
        generators, whose states are held, or from what `set_epoch` says. A `ShuffleBuffer` reads the same pass again.

        Raises:
            RuntimeError: `when_full="drop"`: what is dropped depends on who reads when, so nobody could find it again.
        """
        if self._rule.when_full == "drop":
            raise RuntimeError(
                "state_dict: what when_full='drop' drops depends on who reads when, so it can't be found again: give "
                "when_full='spill' or 'block', or checkpoint between two passes without a state"
            )
        with self._lock:
            return split_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Has the next iterations go on from `state_dict`, which a mapping made as this one returned.

        The global generators are put to where they were when the state was taken, now. When the first iteration begins,
        the samples of the pass that were received are read again, and dropped: a warning says how many.

        Raises:
            ValueError: it is no such state, or that of a mapping with other classes.
            RuntimeError: when reading begins: the stream is another one.
        """
        with self._lock:
            load_split_state(self, state_dict)

    def __enter__(self) -> StreamSplit:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _look_ahead(self, wanted: Callable[[], bool]) -> None:
        with self._lock:
            running = self._running_pass()
        running.look_ahead(wanted)
        self._knows_all |= running.ended

    def _running_pass(self) -> SplitPass:
        if self._is_closed:
            raise RuntimeError("this split_by_class was closed: make a new one to read the stream again")
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this split_by_class belongs to process {self._owner}, and this is process {os.getpid()}: all its "
                "classes are fed by one pass in one process; make it here, or read it with num_workers=0"
            )
        if self._pass is None:
            rule = self._rule
            samples = ClassifiedStream(
                rule.iterable, rule.label, rule.classes, self._see, self._count_dropped, rule.drops_others
            )
            begun = SplitPass(samples, rule.buffer_size, rule.when_full, rule.spill_dir, self._count_dropped)
            if (resumed := self._resumed) is not None:
                resumed.read_again(begun)
                self.dropped, self._resumed = resumed.dropped, None
            self._pass = begun
            self._passes.add(begun)
        return self._pass

    def _join(self, name: Hashable) -> SplitPass:
        """The pass that class `name` is to read, which has begun with it unless it runs already."""
        with self._lock:
            running = self._running_pass()
            if running.join(name):
                return running
            if not running.ended and running.is_read_but_for(name):
                raise RuntimeError(
                    f"class {name!r} was iterated before in the running pass over the stream, which other classes "
                    "still read: one pass feeds all of them, so iterate each class once a pass, to its end; or call "
                    "new_pass() to leave the running one"
                )
            self._knows_all |= running.ended
            for unread, samples in running.unread().items():
                self._count_dropped(unread, samples)
            if not running.ended:
                running.close()
            self._pass = None
            running = self._running_pass()
            running.join(name)
            return running

    def _ends_now(self, name: Hashable) -> bool:
        """Whether class `name` has only its end to see, which takes no part in a pass; said once after a state."""
        with self._lock:
            is_ending = name in self._ending
            self._ending.discard(name)
            return is_ending

    def _see(self, name: Hashable) -> None:
        self._seen.setdefault(name)

    def _count_dropped(self, name: Hashable, samples: int = 1) -> None:
        with self._counting:
            self.dropped[name] += samples


class _ClassLoader(DataLoader[Any]):
    """The loader of one class: it has no place of its own in the stream, only one in the pass that feeds all."""

    def state_dict(self) -> dict[str, Any]:
        raise self._no_state("state_dict")

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        raise self._no_state("load_state_dict")

    def _no_state(self, method: str) -> RuntimeError:
        stream: Any = self.dataset
        return RuntimeError(
            f"{method}: the loader of class {stream._name!r} has no state of its own: one pass over the stream feeds "
            f"all classes of a split_by_class. Call {method} of the mapping that split_by_class returned"
        )


class _ClassStream(IterableDataset[Any]):
    """The samples of one class, in the order of the stream."""

    def __init__(self, split: StreamSplit, name: Hashable) -> None:
        self._split = split
        self._name = name

    def __iter__(self) -> Iterator[Any]:
        if self._split._ends_now(self._name):
            return iter(())
        return _ClassIterator(self._split._join(self._name), self._name)

    def __reduce__(self) -> Any:
        raise TypeError(
            "the stream of a class can't be pickled: all classes of a split_by_class are fed by one pass in one "
            "process. Read it with num_workers=0"
        )


class _ClassIterator(Iterator[Any]):
    def __init__(self, running: SplitPass, name: Hashable) -> None:
        self._running = running
        self._name = name
        self._at_end = weakref.finalize(self, running.leave, name)
        self._at_end.atexit = False

    def __next__(self) -> Any:
        if not self._at_end.alive:
            raise StopIteration
        try:
            return self._running.take(self._name)
        except StopIteration:
            self._at_end.detach()
            self._running.finish(self._name)
            raise
