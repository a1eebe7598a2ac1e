"""`SharedList`: a sequence like a list, in memory that processes share."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from checks.forked_readers import growth
from checks.programs import Run
from checks.resources import descriptors
from sluicegate import DataLoader, Dataset, SharedList

ITEMS: list[Any] = [{"path": "a.jpg", "label": 0}, "text", b"", 3.5, None, (1, [2])]


class Samples(Dataset[Any]):
    """A dataset that holds a sequence, as users write it."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]["label"]


def test_shared_list_is_a_sequence_equal_to_its_source() -> None:
    shared = SharedList(ITEMS)
    assert len(shared) == len(ITEMS)
    assert list(shared) == ITEMS
    assert [shared[index] for index in range(-6, 6)] == [ITEMS[index] for index in range(-6, 6)]
    assert list(reversed(shared)) == ITEMS[::-1]
    assert "text" in shared
    assert shared.index(3.5) == 3


@pytest.mark.parametrize("part", [slice(1, 4), slice(None, None, -2), slice(4, 1), slice(-2, None)])
def test_slices_are_those_of_the_list_and_share_its_memory(part: slice) -> None:
    shared = SharedList(ITEMS)
    before = descriptors()
    assert list(shared[part]) == ITEMS[part]
    assert list(shared[part][:1]) == ITEMS[part][:1]
    kept = [shared[part] for _ in range(100)]
    assert descriptors() == before
    del shared
    assert list(kept[0]) == ITEMS[part]


def test_empty_and_single_item_lists_and_iterators_are_shared() -> None:
    assert list(SharedList([])) == []
    assert list(SharedList([7])) == [7]
    assert list(SharedList(iter(range(3)))) == [0, 1, 2]


def test_shared_list_returns_new_objects() -> None:
    shared = SharedList(ITEMS)
    shared[0]["label"] = 5
    assert shared[0]["label"] == 0


def test_an_index_out_of_range_or_of_the_wrong_type() -> None:
    shared = SharedList(ITEMS)
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"index {index} is out of range for a SharedList of 6 objects"):
            shared[index]
    with pytest.raises(TypeError):
        shared["0"]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        shared[0] = 1  # type: ignore[index]


def test_an_object_that_cannot_be_pickled_is_named_and_nothing_is_left() -> None:
    before = descriptors()
    with pytest.raises(Exception, match="pickle") as caught:
        SharedList([1, lambda: 0])
    notes = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "the object at index 1 of a SharedList can't be pickled: function" in notes
    del caught
    assert descriptors() == before


def test_memory_and_descriptors_go_with_the_last_reader() -> None:
    before = descriptors()
    shared = SharedList(range(1000))
    part = shared[10:]
    del shared
    assert part[0] == 10
    del part
    assert descriptors() == before
    assert "sluicegate-shared-list" not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_a_pickle_is_a_few_bytes_and_reads_the_same_memory() -> None:
    shared = SharedList(["x" * 1000] * 100)
    sent = pickle.dumps(shared[5:])
    assert len(sent) < 500
    assert len(pickle.loads(sent)) == 95


def test_another_process_can_open_it_while_this_one_lives(run: Run) -> None:
    shared = SharedList(ITEMS)
    ended = run("import pickle; print(pickle.loads(sent)[0]['path'])", sent=pickle.dumps(shared))
    ended.check()
    assert ended.stdout == "a.jpg\n"


def test_unpickling_after_the_owner_ended_is_an_error(run: Run) -> None:
    ended = run("import pickle, sluicegate; print(pickle.dumps(sluicegate.SharedList([1])).hex())")
    ended.check()
    sent = bytes.fromhex(ended.stdout)
    with pytest.raises(RuntimeError, match="the memory of this SharedList cannot be opened"):
        pickle.loads(sent)


@pytest.mark.parametrize("context", ["fork", "forkserver"])  # test_payload.py tests spawned ones.
def test_workers_of_every_kind_read_it(context: str) -> None:
    dataset = Samples(SharedList([{"label": number} for number in range(20)]))
    loader = DataLoader(dataset, batch_size=5, num_workers=1, multiprocessing_context=context)
    assert [batch.tolist() for batch in loader] == [list(range(start, start + 5)) for start in (0, 5, 10, 15)]


ITEMS_READ = """
from sluicegate import SharedList
items = [{"path": f"{number:08}.jpg", "label": number} for number in range(200_000)]
if kind == "shared":
    items = SharedList(items)

def read():
    for index in range(len(items)):
        items[index]["label"]
"""


def test_a_forked_reader_does_not_copy_it(run: Run) -> None:
    """Compare the MiB that become private to a child when it reads everything: a list of objects, and a SharedList."""
    assert growth(run, ITEMS_READ, kind="list") > 15
    assert growth(run, ITEMS_READ, kind="shared") <= 2
