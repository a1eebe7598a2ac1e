"""`split_by_class`: a loader for each class of one stream."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset

from sluicegate.checked_number import checked_number
from sluicegate.loader.dataloader import DataLoader
from sluicegate.sampler.class_index import plain_label
from sluicegate.stream.resumable import set_epoch

from .classified_stream import ClassifiedStream, Label, checked_label
from .split_pass import SplitPass
from .split_state import SplitPosition, load_split_state, split_state

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
    """Give each class of a stream its own DataLoader, all fed by one pass over the stream.

    A loader that needs a sample reads the stream until it finds one of its class. Samples of other classes wait in
    buffers of `buffer_size` samples per class. When a buffer is full:

    - `"block"`: the stream is not read further until a consumer takes a sample of that class. Take turns that need
      samples of the classes in about the stream's proportions, or read each class in its own thread.
      If waiting could never end, because one thread reads everything and asks for another class, a RuntimeError is
      raised.
    - `"drop"`: the sample, the newest of its class, is dropped and counted in `dropped`.
    - `"spill"`: it waits on disk. There is always room, unless the disk is full, and the order is kept.

    An epoch is one pass. The end of the stream ends all loaders, each after the samples in its buffer. A class that is
    iterated again after that begins the next pass, which all other classes then join; the remaining samples of a class
    that was not read are counted in `dropped`.

    Before the end of the stream, a second iteration of a class is an error while another class is being read. If no
    class is being read any more (the loops were left with `break`), or after `new_pass()`, it begins a new pass. A
    class whose iterator is gone no longer takes part in the pass: its samples are dropped and counted.

    Each loader may be used from its own thread. The loaders have one common state, the mapping's: see
    `StreamSplit.state_dict`. The state methods of a single loader raise a RuntimeError that says so.

    Args:
        iterable: the stream; `iter` is called once per pass.
        label: the class of a sample: the name of a field (a key or an attribute), the position of a field, or a
            function of the sample. Tensors and arrays with one element count as the number in them.
        batch_size: samples per batch; None to yield samples unchanged. Default 1.
        classes: the classes, if they are known. Otherwise they are discovered in the stream as it is read.
        buffer_size: the maximum number of samples of each class held in memory.
        when_full: "block", "drop" or "spill".
        other: what to do with a sample of a class that is not among `classes`: "raise", or "drop", which counts it.
        spill_dir: the folder for spilled samples; default: the system's temporary folder. The space is freed with the
            pass.
        **loader_arguments: further arguments of `sluicegate.DataLoader`, the same for all classes.

    Returns:
        A mapping from class to DataLoader, see `StreamSplit`.

    Raises:
        ValueError: workers were requested (each would read its own pass), `when_full` or `other` is unknown, or
            `buffer_size` is below 1. While iterating: a sample's class is not among `classes`.
        KeyError: a requested class is unknown, or a sample has no field `label`.
        RuntimeError: while iterating: with "block", waiting could never end; or the mapping was closed.

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
            f"num_workers: expected 0, but got {loader_arguments['num_workers']}, with which every worker of every "
            "class would read the whole stream; let workers load the stream instead, "
            "split_by_class(DataLoader(stream, batch_size=None, num_workers=...), ...), or read each class in a thread"
        )
    loader_arguments["batch_size"] = batch_size
    rule = _Rule(
        iterable,
        checked_label(label),
        None if classes is None else list(dict.fromkeys(map(plain_label, classes))),
        checked_number("buffer_size", buffer_size, 1),
        when_full,
        spill_dir,
        other == "drop",
    )
    return StreamSplit(rule, loader_arguments)


@dataclass(frozen=True)
class _Rule:
    """How a stream is split, and which samples wait where."""

    iterable: Iterable[Any]
    label: Label
    classes: list[Hashable] | None
    buffer_size: int
    when_full: str
    spill_dir: str | os.PathLike[str] | None
    drops_others: bool


class StreamSplit(Mapping[Hashable, "DataLoader[Any]"]):
    """The return value of `split_by_class`: a mapping from each class of a stream to a `DataLoader`.

    If the classes were not given, requesting one (or all) reads the stream ahead, as far as the buffers have room.
    Classes further on are discovered when the loaders reach them. `close` (or a `with` statement) drops the samples
    that wait in memory and on disk.

    Examples:
        >>> with split_by_class([("a", 1), ("b", 2), ("a", 3)], label=0) as split:
        ...     taken = [int(number) for _, number in split["a"]]
        ...     taken, split.classes_seen
        ([1, 3], ['a', 'b'])
    """

    def __init__(self, rule: _Rule, loader_arguments: dict[str, Any]) -> None:
        self._rule = rule
        self._loader_arguments = loader_arguments
        self._owner = os.getpid()
        # Guards the attributes below. Never acquired while holding a pass's lock; the counts have their own lock for
        # that.
        self._lock = threading.RLock()
        self._position = SplitPosition()
        # The running pass, and earlier ones whose last samples are still being taken.
        self._passes: weakref.WeakSet[SplitPass] = weakref.WeakSet()
        self._counting = threading.Lock()
        self._is_closed = False

    @property
    def dropped(self) -> Counter[Hashable]:
        """How many samples of each class were never delivered, over all passes."""
        return self._position.dropped

    @property
    def classes_seen(self) -> list[Hashable]:
        """The classes of the samples read so far, in order of first appearance."""
        return list(self._position.seen)

    def __getitem__(self, name: Hashable) -> DataLoader[Any]:
        """Return the loader of class `name`, always the same one.

        Raises:
            KeyError: `name` is not one of the given classes, or not among those found as far as the buffers have room.
        """
        if self._rule.classes is None:
            if name not in self._position.seen:
                self._look_ahead(lambda: name in self._position.seen)
            if name not in self._position.seen:
                raise KeyError(
                    f"class {name!r} has not been seen; filling the buffers found only {self.classes_seen}; pass "
                    "classes=[...] if it comes later in the stream"
                )
        elif name not in self._rule.classes:
            raise KeyError(f"expected one of classes={self._rule.classes}, but got {name!r}")
        with self._lock:
            if name not in self._position.loaders:
                self._position.loaders[name] = _ClassLoader(_ClassStream(self, name), **self._loader_arguments)
            return self._position.loaders[name]

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the classes that were given, or those found so far."""
        return iter(self._known())

    def __len__(self) -> int:
        """Return the number of classes that were given, or found so far."""
        return len(self._known())

    def _known(self) -> list[Hashable]:
        if self._rule.classes is not None:
            return list(self._rule.classes)
        if not self._position.knows_all:
            self._look_ahead(lambda: False)
        return self.classes_seen

    def set_epoch(self, epoch: int) -> None:
        """Pass the number of the next pass to the `set_epoch` of the iterable, if it has one."""
        set_epoch(self._rule.iterable, epoch)

    def close(self) -> None:
        """Drop samples waiting in memory and on disk; later reads raise an error. Can be called more than once."""
        with self._lock:
            self._is_closed = True
            self._position.running = None
            for each in list(self._passes):
                each.close()

    def new_pass(self) -> None:
        """Leave the running pass and drop the samples waiting in it: the next iteration begins another pass.

        For loops over several classes that were left with `break`. Iterators of the old pass raise a RuntimeError when
        used again.
        """
        with self._lock:
            self._position.leave()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of all loaders in the running pass: plain JSON, if the classes are.

        It counts the batches that were received. Take it while no thread is in the middle of a batch. Buffered samples
        are not included: the stream is read again, so it must give the same samples again, whether they are drawn from
        the global generators, whose states are saved, or determined by `set_epoch`. A `ShuffleBuffer` rereads the same
        pass.

        Raises:
            RuntimeError: `when_full` is "drop": which samples are dropped depends on timing, so it cannot be
                reproduced.
        """
        if self._rule.when_full == "drop":
            raise RuntimeError(
                "state_dict: the samples that when_full='drop' drops depend on when each class is read, so they can't "
                "be reproduced; pass when_full='spill' or 'block', or checkpoint only between two passes, where no "
                "state is needed"
            )
        with self._lock:
            return split_state(self._position, self._rule.classes, self._rule.iterable)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the next iterations resume from `state_dict`, returned by a mapping that was made like this one.

        The global generators are set now to where they were when the state was taken. When the first iteration begins,
        the samples of the pass that were received are read again and dropped; a warning gives their number.

        Raises:
            ValueError: not a valid state, or the state of a mapping with other classes.
            RuntimeError: when reading begins: the stream is a different one.
        """
        with self._lock:
            load_split_state(self._position, self._rule.classes, self._rule.iterable, self, state_dict)

    def __enter__(self) -> StreamSplit:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _look_ahead(self, wanted: Callable[[], bool]) -> None:
        with self._lock:
            running = self._running_pass()
        running.look_ahead(wanted)
        self._position.knows_all |= running.ended

    def _running_pass(self) -> SplitPass:
        if self._is_closed:
            raise RuntimeError("this split_by_class was closed; make a new one to read the stream again")
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this split_by_class belongs to process {self._owner}, but this is process {os.getpid()}; make it "
                "here, or read it with num_workers=0, because one pass in one process feeds all its classes"
            )
        if self._position.running is None:
            rule = self._rule
            samples = ClassifiedStream(
                rule.iterable, rule.label, rule.classes, self._note_seen, self._count_dropped, rule.drops_others
            )
            begun = SplitPass(samples, rule.buffer_size, rule.when_full, rule.spill_dir, self._count_dropped)
            if (resumed := self._position.resumed) is not None:
                resumed.read_again(begun)
                self._position.dropped, self._position.resumed = resumed.dropped, None
                self._position.awaited = {name: begun for name, had_last in resumed.going_on.items() if not had_last}
            self._position.running = begun
            self._passes.add(begun)
        return self._position.running

    def _join(self, name: Hashable) -> SplitPass:
        """Return the pass for class `name` to read: the running one if the class can join it, otherwise a new one."""
        with self._lock:
            running = self._running_pass()
            resumed = self._position.awaited.pop(name, running)
            if resumed is not running and not resumed.closed:
                # A class that had ended has begun a new pass before this one was continued.
                resumed.join(name)
                return resumed
            if running.join(name):
                return running
            if not running.ended and running.reads_class_other_than(name):
                raise RuntimeError(
                    f"class {name!r} was already iterated in the running pass over the stream, which other classes "
                    "still read; iterate each class once per pass, to its end, or call new_pass() to abandon the "
                    "running one"
                )
            self._position.knows_all |= running.ended
            for unread, samples in running.unread().items():
                if not running.ended or unread not in self._position.awaited:
                    self._count_dropped(unread, samples)
            if not running.ended:
                running.close()
            self._position.running = None
            running = self._running_pass()
            running.join(name)
            return running

    def _ends_now(self, name: Hashable) -> bool:
        """Return True if class `name` has only its end left to see, outside any pass; once after loading a state."""
        with self._lock:
            is_ending = name in self._position.ending
            self._position.ending.discard(name)
            return is_ending

    def _note_seen(self, name: Hashable) -> None:
        self._position.seen.setdefault(name)

    def _count_dropped(self, name: Hashable, samples: int = 1) -> None:
        with self._counting:
            self._position.dropped[name] += samples


class _ClassLoader(DataLoader[Any]):
    """The loader of one class. It has no position of its own, only one in the pass that feeds all classes."""

    def state_dict(self) -> dict[str, Any]:
        raise self._no_state("state_dict")

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        raise self._no_state("load_state_dict")

    def _no_state(self, method: str) -> RuntimeError:
        stream: Any = self.dataset
        return RuntimeError(
            f"{method}: the loader of class {stream._name!r} has no state, because one pass over the stream feeds all "
            f"classes of a split_by_class; call {method} of the mapping that split_by_class returned"
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
            "the stream of a class can't be pickled, because one pass in one process feeds all classes of a "
            "split_by_class; read it with num_workers=0"
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
