"""`split_by_class` when the buffer of a class is full: its readers wait, or samples are dropped or spilled."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from cases.lettered_classes import expected, in_threads, places, stream
from checks.resources import links
from sluicegate import split_by_class
from sluicegate.by_class.spill_file import SpillFile
from sluicegate.system import deadlines


def test_block_is_an_error_where_one_thread_reads_both() -> None:
    loaders = split_by_class(stream("a" + "b" * 9 + "a"), "kind", batch_size=None, buffer_size=4)
    first, second = iter(loaders["a"]), iter(loaders["b"])
    assert next(first)["x"] == 0
    with pytest.raises(RuntimeError) as caught:
        next(first)
    text = str(caught.value)
    for part in ("class 'a'", "class 'b'", "4 samples", "this thread reads both", "buffer_size", "'spill'"):
        assert part in text
    # The error loses no samples.
    assert [next(second)["x"] for _ in range(9)] == list(range(1, 10))
    assert [sample["x"] for sample in first] == [10]
    assert list(second) == []


def test_block_is_an_error_if_no_other_thread_can_empty_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    with pytest.raises(RuntimeError, match="that class is not being read"):
        places(split_by_class(stream("b" * 9 + "a"), "kind", classes="ab", buffer_size=4)["a"])


def test_block_waits_a_grace_period_for_another_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "SPLIT_GRACE", 0.2)
    go_on = threading.Event()
    bystander = threading.Thread(target=go_on.wait)
    bystander.start()
    try:
        with pytest.raises(RuntimeError, match="that class is not being read"):
            places(split_by_class(stream("b" * 9 + "a"), "kind", classes="ab", buffer_size=4)["a"])
    finally:
        go_on.set()
        bystander.join()


def test_block_is_an_error_where_the_reader_has_ended_or_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "SPLIT_GRACE", 0.2)
    loaders = split_by_class(stream("a" + "b" * 9 + "ac"), "kind", batch_size=None, classes="abc", buffer_size=4)
    kept = []

    def begin() -> None:
        kept.append(iter(loaders["b"]))
        next(kept[0])

    thread = threading.Thread(target=begin, name="gone")
    thread.start()
    thread.join()
    next(iterator := iter(loaders["a"]))
    with pytest.raises(RuntimeError, match="thread gone, which read that class, has ended"):
        next(iterator)


def test_two_threads_that_wait_for_each_other_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "SPLIT_GRACE", 0.2)
    # One thread holds an iterator of b, but now reads c; the other one reads a.
    loaders = split_by_class(stream("b" * 9 + "ac"), "kind", batch_size=None, classes="abc", buffer_size=4)

    def read(loader: Any) -> Any:
        kept = iter(loaders["b"]) if loader is loaders["c"] else None
        return list(loader), kept

    found = in_threads(loaders, "ac", read)
    assert all(isinstance(error, RuntimeError) for error in found.values())
    assert all("'b', whose buffer is full" in str(error) for error in found.values())


@pytest.mark.parametrize("buffer_size", [1, 3, 100])
def test_threads_read_at_their_own_pace(buffer_size: int) -> None:
    text = "aabc" * 200 + "b" * 300 + "cab" * 50 + "c" * 200
    loaders = split_by_class(stream(text), "kind", batch_size=7, classes="abc", buffer_size=buffer_size)
    for _ in range(2):  # A thread that has finished a pass never waits for the others.
        assert in_threads(loaders, "abc") == {name: expected(text, name) for name in "abc"}
    assert loaders.dropped == {}


def test_threads_may_run_through_passes_without_meeting() -> None:
    text = "abc" * 100
    loaders = split_by_class(stream(text), "kind", batch_size=7, classes="abc", buffer_size=1000)
    barrier = threading.Barrier(3)

    def read(loader: Any) -> Any:
        found = []
        for _ in range(5):
            barrier.wait(30)
            found.append(places(loader))
        return found

    found = in_threads(loaders, "abc", read)
    assert found == {name: [expected(text, name)] * 5 for name in "abc"}


def test_a_thread_that_begins_late_gets_everything() -> None:
    text = "b" * 20 + "a"
    loaders = split_by_class(stream(text), "kind", classes="ab", buffer_size=4)
    waits = threading.Event()
    found = []

    def read() -> None:
        waits.wait(30)
        found.append(places(loaders["b"]))

    thread = threading.Thread(target=read)
    thread.start()
    timer = threading.Timer(0.2, waits.set)
    timer.start()
    assert places(loaders["a"]) == [20]
    thread.join(60)
    timer.join()
    assert found == [list(range(20))]


def test_drop_keeps_the_oldest_and_counts() -> None:
    loaders = split_by_class(stream("b" * 9 + "a" + "b"), "kind", classes="ab", buffer_size=4, when_full="drop")
    assert places(loaders["a"]) == [9]
    assert places(loaders["b"]) == [0, 1, 2, 3]
    assert loaders.dropped == {"b": 6}


def open_files(folder: Path) -> int:
    return sum(link.startswith(f"{folder}/") for link in links().values())


def test_spill_keeps_everything_in_order_and_is_freed(tmp_path: Path) -> None:
    text = "b" * 50 + "a" + "b" * 3
    loaders = split_by_class(
        stream(text), "kind", classes="ab", batch_size=None, buffer_size=4, when_full="spill", spill_dir=tmp_path
    )
    iterator = iter(loaders["a"])
    assert next(iterator)["x"] == 50
    assert open_files(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    assert list(iterator) == []
    assert [sample["x"] for sample in loaders["b"]] == expected(text, "b")
    assert places(split_by_class(stream(text), "kind", when_full="spill", buffer_size=2)["b"]) == expected(text, "b")
    next(iter(loaders["a"]))
    assert open_files(tmp_path) == 1
    loaders.close()
    assert open_files(tmp_path) == 0
    with pytest.raises(RuntimeError, match="was closed"):
        iter(loaders["a"])


def test_a_disk_that_is_full_is_named_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaders = split_by_class(
        stream("bbba"), "kind", classes="ab", batch_size=None, buffer_size=1, when_full="spill", spill_dir=tmp_path
    )
    iterator = iter(loaders["a"])

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "x")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match=r"No space left on device: can't spill a sample of .* bytes") as caught:
            next(iterator)
        assert caught.value.filename == str(tmp_path)
        assert caught.value.errno == errno.ENOSPC
    assert next(iterator)["x"] == 3
    assert [sample["x"] for sample in loaders["b"]] == [0, 1, 2]


def test_a_sample_that_can_not_be_spilled_is_dropped_with_its_error() -> None:
    samples = [("b", 0), ("b", lambda: 0), ("b", 2), ("a", 3)]
    loaders = split_by_class(samples, 0, classes="ab", batch_size=None, buffer_size=1, when_full="spill")
    iterator = iter(loaders["a"])
    with pytest.raises(Exception, match="local object"):
        next(iterator)
    assert next(iterator)[1] == 3
    assert [number for _, number in loaders["b"]] == [0, 2]
    assert loaders.dropped == {"b": 1}


def test_a_spilled_row_does_not_take_its_table_along() -> None:
    table = torch.arange(1_000_000.0).view(1000, 1000)
    spilled = SpillFile(None)
    spilled.append({"row": table[3], "whole": table[:2].clone()})
    assert spilled.bytes_on_disk < 20_000
    back = spilled.popleft()
    assert torch.equal(back["row"], table[3])
    assert torch.equal(back["whole"], table[:2])
    assert (len(spilled), spilled.bytes_on_disk) == (0, 0)
    with pytest.raises(IndexError, match="empty SpillFile"):
        spilled.popleft()
    spilled.close()
    spilled.close()
