"""`SharedDict`: a mapping like a dict, in memory that processes share."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

from checks.forked_readers import growth
from checks.programs import Run
from checks.resources import descriptors
from sluicegate import DataLoader, Dataset, SharedDict, SharedList

ITEMS: dict[Any, Any] = {
    "a.jpg": 0,
    "": [1],
    "é\udc80\U0001f600": {"deep": (1, 2)},
    b"": None,
    b"a.jpg": 2.5,
    7: "seven",
    -(10**30): "large",
    (): "empty",
    ("a", 1, (b"x", 2)): b"nested",
    ("a", "b"): 1,
    ("ab",): 2,
}


class Labels(Dataset[Any]):
    """A dataset that holds a mapping, as users write it."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels
        self.keys = SharedList(list(labels))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Any:
        return self.labels[self.keys[index]]


def test_shared_dict_is_a_mapping_equal_to_its_source() -> None:
    shared = SharedDict(ITEMS)
    assert len(shared) == len(ITEMS)
    assert list(shared) == list(ITEMS)
    assert [shared[key] for key in ITEMS] == list(ITEMS.values())
    assert list(shared.items()) == list(ITEMS.items())
    assert shared == ITEMS
    assert "b.jpg" not in shared
    assert shared.get("b.jpg", 5) == 5
    assert len(SharedDict({})) == 0
    assert "a" not in SharedDict({})


def test_keys_that_a_dict_takes_for_equal_are_equal() -> None:
    plain: dict[Any, Any] = {1: "one", 0: "zero", ("x", 2): "two"}
    shared = SharedDict(plain)
    for key in (1, True, 1.0, np.int64(1), False, np.uint8(0), ("x", 2.0), "1", b"1", 1.5, None, (1,), frozenset()):
        assert (key in shared) == (key in plain), key
        assert shared.get(key) == plain.get(key), key


@pytest.mark.parametrize("seed", range(20))
def test_any_dict_is_found_again(seed: int) -> None:
    draw = random.Random(seed)

    def key(depth: int = 0) -> Any:
        kind = draw.randrange(4 if depth < 2 else 3)
        if kind == 0:
            return "".join(draw.choices("ab/é\0", k=draw.randrange(6)))
        if kind == 1:
            return draw.randrange(-100, 100)
        return (
            draw.randbytes(draw.randrange(4)) if kind == 2 else tuple(key(depth + 1) for _ in range(draw.randrange(4)))
        )

    items = {key(): number for number in range(draw.randrange(2000))}
    shared = SharedDict(items)
    assert dict(shared) == items
    for other in [key() for _ in range(500)]:
        assert shared.get(other, "none") == items.get(other, "none")


def test_shared_dict_returns_new_objects_and_is_read_only() -> None:
    shared: Any = SharedDict(ITEMS)
    shared[""].append(5)
    assert shared[""] == [1]
    with pytest.raises(TypeError):
        shared["a.jpg"] = 1


def test_errors_name_the_key() -> None:
    with pytest.raises(KeyError, match=r"b\.jpg"):
        SharedDict(ITEMS)["b.jpg"]
    with pytest.raises(TypeError, match="unhashable"):
        SharedDict(ITEMS)[[]]
    for wrong in (None, 1.5, frozenset(), ("a", None)):
        with pytest.raises(TypeError, match="keys should be strings, integers, bytes, or tuples of these"):
            SharedDict({wrong: 1})
    with pytest.raises(TypeError, match="items: expected a mapping, got a list"):
        SharedDict([("a", 1)])  # type: ignore[arg-type]
    before = descriptors()
    with pytest.raises(Exception, match="pickle") as caught:
        SharedDict({"a": 1, "b": lambda: 0})
    notes = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "the value of the key 'b' of a SharedDict can't be pickled: function" in notes
    del caught
    assert descriptors() == before


def test_another_process_can_open_it_while_this_one_lives(run: Run) -> None:
    sent = pickle.dumps(SharedDict(ITEMS))
    with pytest.raises(RuntimeError, match="the memory of this SharedDict cannot be opened"):
        pickle.loads(sent)
    shared = SharedDict(ITEMS)
    program = """
        import pickle
        assert hash("a.jpg") != here, "hashes of strings differ from process to process"
        print(pickle.loads(sent)["a", 1, (b"x", 2)])
    """
    ended = run(program, sent=pickle.dumps(shared), here=hash("a.jpg"))
    ended.check()
    assert ended.stdout == "b'nested'\n"


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_of_every_kind_read_it(context: str) -> None:
    dataset = Labels(SharedDict({f"{number}.jpg": number for number in range(20)}))
    loader = DataLoader(dataset, batch_size=5, num_workers=1, multiprocessing_context=context)
    assert [batch.tolist() for batch in loader] == [list(range(start, start + 5)) for start in (0, 5, 10, 15)]


ITEMS_READ = """
from sluicegate import SharedDict
items = {f"{number:08}.jpg": {"label": number} for number in range(100_000)}
if kind == "shared":
    items = SharedDict(items)

def read():
    for number in range(100_000):
        items[f"{number:08}.jpg"]["label"]
"""


def test_a_forked_reader_does_not_copy_it(run: Run) -> None:
    """Compare the MiB that become private to a child when it reads everything: a dict of objects, and a SharedDict."""
    assert growth(run, ITEMS_READ, kind="dict") > 10
    assert growth(run, ITEMS_READ, kind="shared") <= 2


@pytest.mark.parametrize("items", [{"a": 1}, {1, 2}, {"a": 1}.keys(), {"a": 1}.items(), 5, frozenset()])
def test_a_shared_list_is_made_of_sequences_only(items: Any) -> None:
    with pytest.raises(TypeError, match="items: expected a sequence or an iterator, got a"):
        SharedList(items)
    assert (
        list(SharedList(np.arange(3))) == list(SharedList(range(3))) == list(SharedList(iter((0, 1, 2)))) == [0, 1, 2]
    )


def test_the_remedy_for_a_mapping_is_a_shared_dict() -> None:
    with pytest.raises(TypeError, match="use SharedDict to keep its keys and values"):
        SharedList({"a": 1})  # type: ignore[arg-type]
