"""Objects of the user's that know their own state: datasets, iterators and samplers."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from .global_generators import keeping_generators


def is_stateful(item: Any) -> bool:
    """Whether `item` has both `state_dict` and `load_state_dict`; no base class is asked for."""
    return attribute(item, "state_dict") is not None and attribute(item, "load_state_dict") is not None


def attribute(item: Any, name: str) -> Any:
    """`item.name`; None where there is none, whatever `item` raises then: torch does not ask for it."""
    try:
        return getattr(item, name, None)
    except Exception:
        return None


def is_lazy(iterator: Any) -> bool:
    """Whether `iterator` may do nothing at all before it is asked for the first time.

    Generators do; so may `map`, `filter` and what `itertools` makes, for there may be a generator inside.
    """
    return type(iterator).__module__ in ("builtins", "itertools") and not is_stateful(iterator)


def restore(item: Any, state: Any) -> None:
    """Gives `item` its state back: a copy, for some keep what they are given, and go on changing it."""
    item.load_state_dict(copy.deepcopy(state))


def iter_restored(item: Any) -> Iterator[Any]:
    """`iter(item)`, of what was given its state back: the state is for this iterator, and for none after it.

    A stream of Hugging Face's keeps the state that it was given, and would begin every later iteration there too.
    """
    iterator: Iterator[Any] = iter(item)
    return _forgetting(item, iterator) if _keeps_what_it_is_given(item) else iterator


def _keeps_what_it_is_given(item: Any) -> bool:
    module = sys.modules.get("datasets.iterable_dataset")
    cls = getattr(module, "IterableDataset", None)
    return cls is not None and isinstance(item, cls) and hasattr(item, "_starting_state_dict")


def _forgetting(item: Any, iterator: Iterator[Any]) -> Iterator[Any]:
    # A generator as `iterator` is one: nothing happens before it is asked, and it is left where this one is.
    try:
        first = next(iterator, _END)
    finally:
        item._starting_state_dict = None  # It is taken up when the first sample is asked for.
    if first is not _END:
        yield first
        del first  # No longer than the caller holds it.
        yield from iterator


class Untold(NamedTuple):
    """In the place of a state that could not be told, or not be pickled."""

    reason: str


def pickled(tell: Callable[[], Any]) -> bytes:
    """The state that `tell` tells, as it is now; where that fails, why: whoever asks for it hears, and nobody else."""
    try:
        return pickle.dumps(tell())
    except Exception as error:
        return pickle.dumps(Untold(f"{type(error).__name__}: {error}"))


def unpickled(state: bytes, owner: str) -> Any:
    """What `pickled` has kept.

    Raises:
        RuntimeError: `owner` could not tell its state.
    """
    told = pickle.loads(state)
    if isinstance(told, Untold):
        raise RuntimeError(f"state_dict: {owner} can't say where it is: {told.reason}")
    return told


class Pair:
    """Something that is iterated over and its running iterator, of which either may know its state.

    What is its own iterator has one state. The state of the thing is restored before `iter` is called, that of the
    iterator after: each needs what the other way round would undo.

    Args:
        thing: what to iterate over.
        state: what `state` returned once, to go on from there. Default: from the beginning.
        iterator: `iter(thing)`, where somebody has called it; only without `state`.
    """

    def __init__(self, thing: Any, state: dict[str, Any] | None = None, iterator: Iterator[Any] | None = None) -> None:
        state = state or {}
        self.thing = thing
        # What the thing said before it was given that state: to see what it does when it is left, one begins it there.
        self._before: Any = None
        if "thing" in state:
            if not is_stateful(thing):
                warnings.warn(
                    f"{type(thing).__name__} had a state when this one was saved, and has no "
                    "load_state_dict now: it starts from the beginning",
                    stacklevel=2,
                )
            else:
                with contextlib.suppress(Exception):
                    self._before = copy.deepcopy(thing.state_dict())
                restore(thing, state["thing"])
        if iterator is None:
            iterator = iter_restored(thing) if "thing" in state else iter(thing)
        self.iterator: Iterator[Any] = iterator
        if "iterator" in state:
            restore(self.iterator, state["iterator"])

    def see_end(self, state: dict[str, Any]) -> None:
        """Brings what has read to its end, as `state` says, to that end: it may have to see it to begin anew.

        What has begun anew by itself goes on as `state` says.
        """
        if next(self.iterator, _END) is _END:
            return
        if is_lazy(self.iterator):
            self.iterator = iter(())  # Closed before that: a generator may do something then.
        if _keeps_what_it_is_given(self.thing):
            return  # It would begin there again, and it does not go on.
        if "thing" in state:
            restore(self.thing, state["thing"])
        if "iterator" in state:
            restore(self.iterator, state["iterator"])

    def begin_and_leave(self, state: dict[str, Any]) -> None:
        """Brings a lazy thing, which was given `state`, to where it was when it had begun and was left in that state.

        What tells nothing of a state that it was given takes it up with its first sample, and what begins anew when it
        is closed has to have begun: so one more sample is read, and the thing is left behind it. If neither is so, the
        thing goes on from `state` itself, and is given it again.
        """
        thing: Any = self.thing
        takes_up_later = not _are_alike(thing.state_dict(), state["thing"])
        has_ended, begins_anew = self._read_and_leave()
        if takes_up_later or _keeps_what_it_is_given(thing):
            return
        if has_ended:
            # There was no sample behind which it could be left, and what it does at its end it may do only there.
            ended = copy.deepcopy(thing.state_dict())
            begins_anew = self._begins_anew_where_it_was_before()
            if begins_anew:
                restore(thing, ended)
        if not begins_anew:
            restore(thing, state["thing"])
        if has_ended or not begins_anew:
            iter(thing)  # Some take it up here.

    def _begins_anew_where_it_was_before(self) -> bool:
        if self._before is None:
            return False
        restore(self.thing, self._before)
        self.iterator = iter(self.thing)
        has_ended, begins_anew = self._read_and_leave()
        return begins_anew and not has_ended

    def _read_and_leave(self) -> tuple[bool, bool]:
        """Reads one more sample; returns whether there was none, and whether the thing changes when it is left."""
        thing: Any = self.thing
        has_ended = False
        with keeping_generators(), contextlib.suppress(Exception):
            has_ended = next(self.iterator, _END) is _END
        # Its own objects, perhaps, which it goes on changing.
        running = copy.deepcopy(thing.state_dict())
        self.iterator = iter(())  # Closed before that: a generator may do something then.
        return has_ended, not _are_alike(thing.state_dict(), running)

    @property
    def is_lazy(self) -> bool:
        """Whether the thing says nothing of its running iterator before that was asked for the first time."""
        return is_stateful(self.thing) and is_lazy(self.iterator)

    @property
    def is_stateful(self) -> bool:
        """Whether either of them is."""
        return is_stateful(self.thing) or is_stateful(self.iterator)

    def state(self) -> dict[str, Any]:
        """The states, each under its name; empty when there are none."""
        state = {}
        if is_stateful(self.thing) and self.iterator is not self.thing:
            state["thing"] = self.thing.state_dict()
        if is_stateful(self.iterator):
            state["iterator"] = self.iterator.state_dict()  # type: ignore[attr-defined]
        return state


_END = object()


def _are_alike(told: Any, other: Any) -> bool:
    """Whether two states are equal; JSON may have made lists of the tuples of one."""
    if isinstance(told, dict) and isinstance(other, dict):
        return told.keys() == other.keys() and all(_are_alike(value, other[name]) for name, value in told.items())
    if isinstance(told, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(told) == len(other) and all(map(_are_alike, told, other))
    if isinstance(told, torch.Tensor) or isinstance(other, torch.Tensor):
        return type(told) is type(other) and torch.equal(told, other)
    return bool(np.array_equal(told, other)) if isinstance(told, np.ndarray) else bool(told == other)


class Place:
    """Where the fetcher of a map-style dataset is, with what the dataset says of itself.

    Args:
        tell: what the dataset says of itself; None when it says nothing.
    """

    def __init__(self, tell: Callable[[], dict[str, Any]] | None) -> None:
        self.tell = tell

    def state(self) -> dict[str, Any]:
        """As a state keeps it."""
        return {"state": {} if self.tell is None else self.tell(), "at": 0, "samples": 0, "ended": False}
