"""Groups of workers that are closed at exit, and how they are dropped before that."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from sluicegate import DataLoader
from sluicegate.worker import process_workers, thread_workers
from sluicegate.worker.live_groups import LiveGroups


class Group:
    """An object that takes weak references."""


def test_groups_are_there_until_they_are_discarded_or_dropped() -> None:
    groups: LiveGroups[Group] = LiveGroups()
    first, second, third = Group(), Group(), Group()
    for each in (first, second, third):
        groups.add(each)
    groups.discard(second)
    groups.discard(second)
    assert list(groups) == [first, third]
    del each, third
    assert list(groups) == [first]
    groups.clear()
    assert list(groups) == []


@pytest.mark.parametrize(("worker_type", "module"), [("process", process_workers), ("thread", thread_workers)])
def test_dropping_a_group_runs_no_python_code(worker_type: Any, module: Any) -> None:
    """A signal handler would run in that code, and its exception would be ignored, so Ctrl-C would be lost."""
    before = list(module._live)
    iterator = iter(DataLoader(["a", "b"], num_workers=1, worker_type=worker_type))
    (group,) = (each for each in module._live if each not in before)
    assert [each.__callback__ for each in weakref.getweakrefs(group) if type(each) is weakref.ref] == [None]
    assert list(iterator) == [["a"], ["b"]]
    del iterator
    assert group.closed
    assert group not in list(module._live)
