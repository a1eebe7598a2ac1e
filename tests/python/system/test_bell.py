"""`Bell`: a ring is not lost, and a wait ends in time."""

from __future__ import annotations

import threading

from sluicegate.system.bell import Bell


def test_a_ring_without_a_waiter_ends_the_next_wait_alone() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(60)
    assert not bell.wait(0)
    assert not bell.wait(-1)


def test_a_ring_ends_a_wait() -> None:
    bell = Bell()
    thread = threading.Thread(target=bell.ring)
    thread.start()
    assert bell.wait(60)
    thread.join()
    assert not bell.wait(0)
