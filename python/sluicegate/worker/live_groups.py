"""`LiveGroups`: the groups of workers that have to be closed when the process exits."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

_Group = TypeVar("_Group")


class LiveGroups(Generic[_Group]):
    """Groups of workers that were not closed, held by weak references.

    A `WeakSet` would run Python code when a group is dropped, and with it signal handlers, whose exceptions (Ctrl-C)
    Python then ignores. Here, dropped groups are skipped, and overwritten when their address is reused.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[_Group]] = {}

    def add(self, group: _Group) -> None:
        """Remember a group, without keeping it alive."""
        self._references[id(group)] = weakref.ref(group)

    def discard(self, group: _Group) -> None:
        """Remove a group that has been closed."""
        self._references.pop(id(group), None)

    def clear(self) -> None:
        """Forget all groups: a forked child has none."""
        self._references.clear()

    def __iter__(self) -> Iterator[_Group]:
        for reference in list(self._references.values()):
            if (group := reference()) is not None:
                yield group
