"""`split_by_class`: one pass over a stream feeds a loader for every class."""

from __future__ import annotations

import collections
import gc
import pickle
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from cases.lettered_classes import expected, places, stream
from sluicegate import DataLoader, IterableDataset, split_by_class


@pytest.mark.parametrize("when_full", ["block", "drop", "spill"])
def test_every_class_gets_its_samples_in_the_order_of_the_stream(when_full: str) -> None:
    text = "abcabbcaaacb" * 5
    loaders = split_by_class(stream(text), "kind", batch_size=4, when_full=when_full)
    assert isinstance(loaders, collections.abc.Mapping)
    assert isinstance(loaders["a"], DataLoader)
    assert loaders["a"] is loaders["a"]
    assert {name: places(loader) for name, loader in loaders.items()} == {name: expected(text, name) for name in "abc"}
    assert loaders.dropped == {}
    # The same in a second pass.
    assert {name: places(loaders[name]) for name in "cba"} == {name: expected(text, name) for name in "cba"}


def test_batches_are_of_one_class_and_loader_arguments_are_the_loaders() -> None:
    loaders = split_by_class(stream("abab" * 5), "kind", batch_size=3, drop_last=True, collate_fn=list)
    batches = list(loaders["b"])
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert {sample["kind"] for batch in batches for sample in batch} == {"b"}
    assert [sample["x"] for sample in split_by_class(stream("aab"), "kind", None)["a"]] == [0, 1]


class Pair(NamedTuple):
    image: int
    kind: Any


@pytest.mark.parametrize(
    ("label", "samples"),
    [
        (1, [(0, "a"), (1, "b"), (2, "a")]),
        ("kind", [Pair(0, "a"), Pair(1, "b"), Pair(2, "a")]),
        (lambda sample: "ab"[sample[0] % 2], [(0,), (1,), (2,)]),
    ],
)
def test_the_label_is_a_field_or_a_function(label: Any, samples: Any) -> None:
    loaders = split_by_class(samples, label, batch_size=None)
    assert [sample[0] for sample in loaders["a"]] == [0, 2]
    assert [sample[0] for sample in loaders["b"]] == [1]


def test_a_class_of_several_numbers_is_an_error() -> None:
    # As a key, such a tensor would be a new class for each sample.
    loaders = split_by_class([(torch.tensor([1, 2]), 0)], label=0, batch_size=1, classes=[1])
    with pytest.raises(ValueError, match="label: expected one value, but got an array of shape"):
        list(loaders[1])


@pytest.mark.parametrize("make", [torch.tensor, np.int64, np.array, lambda number: torch.tensor([number])])
def test_labels_that_are_tensors_count_as_their_numbers(make: Any) -> None:
    samples = [(place, make(place % 2)) for place in range(6)]
    loaders = split_by_class(samples, 1, batch_size=None)
    assert sorted(loaders) == [0, 1]
    assert [place for place, _ in loaders[1]] == [1, 3, 5]
    assert list(split_by_class(samples, 1, classes=torch.arange(2))) == [0, 1]


def test_classes_are_found_as_the_stream_goes() -> None:
    loaders = split_by_class(stream("aab" + "a" * 20 + "c"), "kind", batch_size=50, buffer_size=4)
    assert loaders.classes_seen == []
    assert list(loaders) == ["a", "b"]
    assert len(loaders) == 2
    with pytest.raises(KeyError, match=r"class 'c' has not been seen; filling the buffers found only \['a', 'b'\]"):
        loaders["c"]
    assert "b" in loaders
    assert "c" not in loaders
    assert len(places(loaders["a"])) == 22
    assert loaders.classes_seen == ["a", "b", "c"]
    assert places(loaders["c"]) == [23]


def test_given_classes_determine_the_mapping() -> None:
    loaders = split_by_class(stream("ab"), "kind", classes=["b", "a", "empty"])
    assert list(loaders) == ["b", "a", "empty"]
    assert loaders.classes_seen == []
    with pytest.raises(KeyError, match=r"expected one of classes=\['b', 'a', 'empty'\], but got 'c'"):
        loaders["c"]
    assert places(loaders["empty"]) == []


def test_a_sample_of_another_class_is_an_error_once_or_is_dropped() -> None:
    loaders = split_by_class(stream("abxa"), "kind", classes="ab", batch_size=None)
    iterator = iter(loaders["a"])
    assert next(iterator)["x"] == 0
    with pytest.raises(
        ValueError,
        match=r"classes: expected one of \['a', 'b'\], but got sample 2 of this stream with class 'x'; .* other='drop'",
    ):
        next(iterator)
    assert [sample["x"] for sample in iterator] == [3]
    assert [sample["x"] for sample in loaders["b"]] == [1]
    loaders = split_by_class(stream("abxaxx"), "kind", classes="ab", other="drop")
    assert places(loaders["a"]) == [0, 3]
    assert loaders.dropped == {"x": 3}


def test_an_error_of_the_stream_is_raised_in_its_reader_and_named_in_the_others() -> None:
    def breaking() -> Any:
        yield from stream("ab")
        raise OSError("the disk is gone")

    loaders = split_by_class(breaking(), "kind", classes="ab", batch_size=None)
    first, second = iter(loaders["a"]), iter(loaders["b"])
    assert next(first)["x"] == 0
    with pytest.raises(OSError, match="the disk is gone") as caught:
        next(first)
    assert "raised by sample 2 of this stream" in "\n".join(getattr(caught.value, "__notes__", []))
    assert next(second)["x"] == 1
    with pytest.raises(RuntimeError, match=r"while class 'a' was reading it.*OSError: the disk is gone"):
        next(second)
    with pytest.raises(StopIteration):
        next(first)


def test_a_stream_that_continues_after_an_error_is_read_to_its_end() -> None:
    class Flaky(IterableDataset[Any]):
        def __iter__(self) -> Any:
            self.place = -1
            return self

        def __next__(self) -> Any:
            self.place += 1
            if self.place == 2:
                raise ValueError("two")
            if self.place == 6:
                raise StopIteration
            return {"kind": "ab"[self.place % 2], "x": self.place}

    loaders = split_by_class(Flaky(), "kind", classes="ab", batch_size=None)
    iterator = iter(loaders["a"])
    assert next(iterator)["x"] == 0
    with pytest.raises(ValueError, match="two"):
        next(iterator)
    assert [sample["x"] for sample in iterator] == [4]
    assert [sample["x"] for sample in loaders["b"]] == [1, 3, 5]


@pytest.mark.parametrize(
    ("label", "error", "text"),
    [("missing", KeyError, "missing"), (lambda sample: [sample["x"]], TypeError, "unhashable")],
)
def test_a_sample_without_a_class_is_named(label: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        list(split_by_class(stream("ab"), label))
    assert "the class of sample 0 of this stream" in "\n".join(getattr(caught.value, "__notes__", []))


def test_a_second_iteration_in_one_pass_is_an_error_while_others_read() -> None:
    loaders = split_by_class(stream("ab" * 20), "kind", batch_size=None, classes="ab")
    first, second = iter(loaders["a"]), iter(loaders["b"])
    next(first)
    next(second)
    with pytest.raises(RuntimeError, match="class 'a' was already iterated in the running pass"):
        iter(loaders["a"])
    assert next(first)["x"] == 2
    loaders.new_pass()
    with pytest.raises(RuntimeError, match="left for a new one"):
        next(second)
    assert next(iter(loaders["a"]))["x"] == 0


def test_an_abandoned_loop_starts_again() -> None:
    loaders = split_by_class(stream("ab" * 20), "kind", batch_size=None, classes="ab")
    for _ in range(3):
        for (place, one), other in zip(enumerate(loaders["a"]), loaders["b"], strict=False):
            assert (one["x"], other["x"]) == (2 * place, 2 * place + 1)
            if place == 5:
                break
        del one, other
        gc.collect()


def test_a_class_whose_iterator_is_dropped_does_not_block_the_others() -> None:
    loaders = split_by_class(
        stream("b" + "a" * 3 + "b" * 50 + "a"), "kind", batch_size=None, classes="ab", buffer_size=4
    )
    iterator = iter(loaders["b"])
    assert next(iterator)["x"] == 0
    del iterator
    gc.collect()
    assert [sample["x"] for sample in loaders["a"]] == [1, 2, 3, 54]
    assert loaders.dropped == {"b": 50}


def test_unread_samples_are_counted_as_dropped_when_the_next_pass_begins() -> None:
    loaders = split_by_class(stream("aabbb"), "kind", classes="ab")
    assert places(loaders["a"]) == places(loaders["a"]) == [0, 1]
    assert loaders.dropped == {"b": 3}
    assert places(loaders["b"]) == [2, 3, 4]


def test_set_epoch_reaches_the_iterable() -> None:
    class Told(IterableDataset[Any]):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Any:
            yield from stream("ab"[self.epoch] * 2)

    loaders = split_by_class(Told(), "kind", classes="ab")
    loaders.set_epoch(1)
    assert [places(loaders[name]) for name in "ab"] == [[], [0, 1]]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_workers": 2}, ValueError, "num_workers: expected 0, but got 2, with which every worker"),
        ({"when_full": "wait"}, ValueError, "when_full should be one of"),
        ({"other": "keep"}, ValueError, "other should be"),
        ({"buffer_size": 0}, ValueError, "buffer_size should be 1 or more"),
        ({"label": 2.5}, TypeError, "label: expected the name or position"),
    ],
)
def test_invalid_arguments_of_split_by_class_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        split_by_class(stream("ab"), **{"label": "kind", **arguments})


def test_a_class_can_not_leave_its_process() -> None:
    loaders = split_by_class(stream("ab"), "kind", classes="ab")
    with pytest.raises(TypeError, match="one pass in one process feeds all"):
        pickle.dumps(loaders["a"].dataset)
    with pytest.raises(RuntimeError, match="belongs to process"):
        list(DataLoader(loaders["a"].dataset, num_workers=1, multiprocessing_context="fork"))


def test_workers_may_load_the_stream() -> None:
    class Kinds(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 30

        def __getitem__(self, index: int) -> Any:
            return {"kind": index % 3, "x": index}

    loaders = split_by_class(DataLoader(Kinds(), batch_size=None, num_workers=2), "kind", batch_size=4)
    assert {name: places(loaders[name]) for name in loaders} == {name: list(range(name, 30, 3)) for name in range(3)}


def test_a_split_is_freed_with_its_waiting_samples() -> None:
    class Heavy:
        pass

    samples = [("b", Heavy()), ("a", Heavy())]
    watched = weakref.ref(samples[0][1])
    loaders = split_by_class(samples, 0, classes="ab", batch_size=None)
    next(iter(loaders["a"]))
    del samples[:]
    with loaders:
        assert watched() is not None
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_a_class_has_no_state_of_its_own(when: str) -> None:
    loaders = split_by_class([("a", 1), ("b", 2), ("a", 3)], 0, classes=["a", "b"], batch_size=1)
    loader = loaders["a"]
    iterator = iter(()) if when == "before" else iter(loader)
    if when == "meanwhile":
        next(iterator)
    elif when == "after":
        assert len(list(iterator)) == 2
    with pytest.raises(RuntimeError, match=r"state_dict: the loader of class 'a' has no state, because .* mapping"):
        loader.state_dict()
    with pytest.raises(RuntimeError, match=r"load_state_dict: .* mapping"):
        loader.load_state_dict({})
