"""User-defined objects that know their own state: datasets, iterators and samplers."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from .hugging_face_state import keeps_loaded_state, restored_once_split


def is_stateful(item: Any) -> bool:
    """Return True if `item` has both `state_dict` and `load_state_dict`; no base class is required."""
    return attribute(item, "state_dict") is not None and attribute(item, "load_state_dict") is not None


def attribute(item: Any, name: str) -> Any:
    """Return `item.name`, or None if that fails with any error: torch does not ask for these attributes."""
    try:
        return getattr(item, name, None)
    except Exception:
        return None


def attributes(item: Any, *names: str) -> tuple[Any, ...]:
    """Return several attributes, each as `attribute` does."""
    return tuple([attribute(item, name) for name in names])


def is_lazy(iterator: Any) -> bool:
    """Return True if `iterator` may do nothing at all until the first sample is requested.

    Generators do nothing until then. So may `map`, `filter` and the objects of `itertools`, as there may be a generator
    inside.
    """
    return type(iterator).__module__ in ("builtins", "itertools") and not is_stateful(iterator)


def restore(item: Any, state: Any) -> None:
    """Restore the state of `item` from a copy, because some objects keep the state that they get and modify it."""
    item.load_state_dict(copy.deepcopy(state))


def iter_restored(item: Any) -> Iterator[Any]:
    """Return `iter(item)` for an item whose state was restored. The state applies to this iterator only.

    A Hugging Face stream keeps the state that it was given, and would begin every later iteration there, too.
    """
    iterator: Iterator[Any] = iter(item)
    return _forgetting(item, iterator) if keeps_loaded_state(item) else iterator


def _forgetting(item: Any, iterator: Iterator[Any]) -> Iterator[Any]:
    # A generator if `iterator` is one: nothing happens before the first sample is requested, and both are closed
    # together.
    try:
        with restored_once_split(item):
            first = next(iterator, _END)
    finally:
        item._starting_state_dict = None  # It is applied when the first sample is requested.
    if first is not _END:
        yield first
        del first  # So that it lives no longer than the caller holds it.
        yield from iterator


class UnavailableState(NamedTuple):
    """Stands in for a state that could not be obtained or pickled."""

    reason: str


def pickled(tell: Callable[[], Any]) -> bytes:
    """Return the pickled result of `tell`; if that fails, the pickled reason, which only `unpickled` raises."""
    try:
        return pickle.dumps(tell())
    except Exception as error:
        return pickle.dumps(UnavailableState(f"{type(error).__name__}: {error}"))


def unpickled(state: bytes, owner: str) -> Any:
    """Return the state that `pickled` has kept.

    Raises:
        RuntimeError: the state of `owner` could not be obtained.
    """
    value = pickle.loads(state)
    if isinstance(value, UnavailableState):
        raise RuntimeError(f"state_dict: {owner} did not return its state: {value.reason}")
    return value


class Pair:
    """An iterable and its running iterator, either of which may be stateful.

    An iterable that is its own iterator has one state. The state of the iterable is restored before `iter` is called
    and that of the iterator after it: in the other order each would be undone.

    Args:
        thing: what to iterate over.
        state: an earlier result of `state`, to resume from. Default: from the beginning.
        iterator: the result of `iter(thing)`, if it was called already; only without `state`.
    """

    def __init__(
        self, thing: Any, state: Mapping[str, Any] | None = None, iterator: Iterator[Any] | None = None
    ) -> None:
        state = state or {}
        self.thing = thing
        if "thing" in state:
            if not is_stateful(thing):
                warnings.warn(
                    f"load_state_dict: {type(thing).__name__} had a state when it was saved, but has no "
                    "load_state_dict now, so it starts from the beginning",
                    stacklevel=2,
                )
            else:
                restore(thing, state["thing"])
        if iterator is None:
            iterator = iter_restored(thing) if "thing" in state else iter(thing)
        self.iterator: Iterator[Any] = iterator
        if "iterator" in state:
            restore(self.iterator, state["iterator"])

    def see_end(self, state: Mapping[str, Any]) -> None:
        """Bring an iterator that has read everything to its end, as in `state`.

        It may need to see the end to start over. An iterator that has started over by itself resumes from `state`.
        """
        has_both = "thing" in state and "iterator" in state and is_stateful(self.thing)
        before = copy.deepcopy(self.thing.state_dict()) if has_both else None
        try:
            has_ended = next(self.iterator, _END) is _END
        except Exception:
            has_ended = True  # Some can't be asked again once they have ended, until `iter` is called.
        if has_ended:
            if has_both and not _are_equal(self.thing.state_dict(), before):
                # The state was taken after the changes that the iterator makes to the iterable at its end.
                restore(self.thing, state["thing"])
            return
        if is_lazy(self.iterator):
            self.iterator = iter(())  # Closes the old one first: a generator may act then.
        if keeps_loaded_state(self.thing):
            return  # It would begin there again, and it does not continue.
        if "thing" in state:
            restore(self.thing, state["thing"])
        if "iterator" in state:
            restore(self.iterator, state["iterator"])

    @property
    def is_lazy(self) -> bool:
        """True if the thing does not report on its running iterator before the first sample was requested."""
        return is_stateful(self.thing) and is_lazy(self.iterator)

    @property
    def is_stateful(self) -> bool:
        """True if the iterable or the iterator is stateful."""
        return is_stateful(self.thing) or is_stateful(self.iterator)

    def state(self) -> dict[str, Any]:
        """Return the states by name; empty if there are none."""
        state = {}
        if is_stateful(self.thing) and self.iterator is not self.thing:
            state["thing"] = self.thing.state_dict()
        if is_stateful(self.iterator):
            state["iterator"] = self.iterator.state_dict()  # type: ignore[attr-defined]
        return state


_END = object()


def _are_equal(state: Any, other: Any) -> bool:
    """Return True if two states are equal. JSON may have turned the tuples of one into lists."""
    if isinstance(state, dict) and isinstance(other, dict):
        return state.keys() == other.keys() and all(_are_equal(value, other[name]) for name, value in state.items())
    if isinstance(state, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(state) == len(other) and all(map(_are_equal, state, other))
    if isinstance(state, torch.Tensor) or isinstance(other, torch.Tensor):
        return type(state) is type(other) and torch.equal(state, other)
    return bool(np.array_equal(state, other)) if isinstance(state, np.ndarray) else bool(state == other)
