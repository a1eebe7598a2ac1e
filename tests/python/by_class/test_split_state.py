"""The state of `split_by_class`: each class resumes at its own position."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch.utils.data
from torch.utils.data import DistributedSampler

from sluicegate import DataLoader, ShuffleBuffer, shard_iterable, split_by_class


class ShuffledAnew:
    """A stream that every pass shuffles with Python's global generator; some classes are tuples."""

    def __init__(self, is_drawn: bool = True) -> None:
        self.is_drawn = is_drawn

    def __iter__(self) -> Iterator[Any]:
        order = list(range(40))
        if self.is_drawn:
            random.shuffle(order)
        for number in order:
            yield {"kind": ["a", "b", ("c", 1), ("c", 1)][number % 4], "x": number}


def read_in_turns(loaders: Any, turns: random.Random, count: int | None, iterators: Any = None) -> tuple[Any, Any]:
    """Read `count` batches, or all, from classes drawn from `turns`; return them and the unfinished iterators."""
    names = ["a", "b", ("c", 1)]
    iterators = {name: iter(loaders[name]) for name in names} if iterators is None else iterators
    found = []
    while iterators and (count is None or len(found) < count):
        name = turns.choice(sorted(iterators, key=str))
        batch = next(iterators[name], None)
        if batch is None:
            del iterators[name]
        else:
            random.random()  # as a training step may draw
            found.append((name, batch["x"].tolist()))
    return found, iterators


@pytest.mark.parametrize("classes", [None, ["a", "b", ("c", 1)]])
@pytest.mark.parametrize("when_full", ["block", "spill"])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_all_classes_resume_from_one_state(is_drawn: bool, when_full: str, classes: Any) -> None:
    def made() -> Any:
        buffer_size = 40 if when_full == "block" or classes is None else 2
        return split_by_class(
            ShuffledAnew(is_drawn), "kind", 3, classes=classes, when_full=when_full, buffer_size=buffer_size
        )

    for stop in [0, 1, 2, 5, 9, 13, None]:
        random.seed(stop)
        turns = random.Random(7)
        with made() as loaders:
            first, iterators = read_in_turns(loaders, turns, stop)
            names = list(iterators)
            state, seed = json.loads(json.dumps(loaders.state_dict())), turns.getstate()
            expected, _ = read_in_turns(loaders, turns, None, iterators)
            expected += read_in_turns(loaders, turns, None)[0]
            last = loaders["a"].last_ids
        random.seed(99)
        turns.setstate(seed)
        with warnings.catch_warnings(record=True) as caught, made() as again:
            warnings.simplefilter("always")
            again.load_state_dict(state)
            assert json.loads(json.dumps(again.state_dict())) == state
            found, _ = read_in_turns(again, turns, None, {name: iter(again[name]) for name in names})
            found += read_in_turns(again, turns, None)[0]
            assert found == expected, stop
            assert again["a"].last_ids.batch_index == last.batch_index
            assert again["a"].last_ids.epoch == last.epoch
        has_warned = any("are read again" in str(each.message) for each in caught)
        assert has_warned == (state["pass"] is not None and state["pass"]["asked"] > 0)
        assert (state["pass"] is None) == (stop is None), "nothing is read again of a pass that is over"
        assert len(first) == (stop or len(first))


def test_a_stream_that_is_another_one_is_found_out() -> None:
    def made(samples: list[Any], **arguments: Any) -> Any:
        return split_by_class(samples, 0, **{"classes": ["a", "b"], "batch_size": 1} | arguments)

    loaders = made([("a", 1), ("b", 2), ("a", 3), ("b", 4)])
    iterator = iter(loaders["a"])
    next(iterator), next(iterator)
    state = loaders.state_dict()
    for other in ([("a", 1)], [("b", 2), ("b", 2), ("b", 2), ("a", 1)]):
        again = made(other)
        again.load_state_dict(state)
        with (
            pytest.warns(UserWarning, match="its first 3 samples are read again"),
            pytest.raises(RuntimeError, match="expected the stream of the state"),
        ):
            next(iter(again["a"]))
    with pytest.raises(ValueError, match="classes"):
        made([], classes=["a"]).load_state_dict(state)
    with pytest.raises(ValueError, match="expected a state of a split_by_class"):
        made([]).load_state_dict({})
    with pytest.raises(ValueError, match="version 9"):
        made([]).load_state_dict(state | {"version": 9})
    with pytest.raises(RuntimeError, match="when_full='drop'"):
        made([], when_full="drop").state_dict()


@pytest.mark.filterwarnings("ignore:the stream of a split_by_class is fast-forwarded")
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("ended", ["", "ab"])
def test_a_class_that_resumes_at_its_end_is_not_read_in_the_next_pass(ended: str, is_first: bool) -> None:
    def made() -> Any:
        samples = [{"k": name, "x": number} for number, name in enumerate("abcabcab")]
        return split_by_class(samples, "k", 3, classes="abc")

    def read(loaders: Any, names: str) -> list[list[list[int]]]:
        return [[batch["x"].tolist() for batch in loaders[name]] for name in names]

    loaders = made()
    iterators = {name: iter(loaders[name]) for name in "abc"}
    first = {name: next(iterators[name])["x"].tolist() for name in "abc"}
    assert first["c"] == [2, 5], "all there is, and fewer than a batch has"
    for name in ended:
        assert next(iterators[name], None) is None
    state = json.loads(json.dumps(loaders.state_dict()))
    assert (state["pass"] is None) == (ended == "ab")
    again = made()
    again.load_state_dict(state)
    if not ended:
        assert read(again, "ab") == [[], []]
    if is_first:
        assert read(again, "c") == [[]]
    # The next pass has begun, but has not ended.
    iterators = {name: iter(again[name]) for name in "ab"}
    assert [next(iterators[name])["x"].tolist() for name in "ab"] == [[0, 3, 6], [1, 4, 7]]
    if not is_first:
        assert read(again, "c") == [[]]
    assert read(again, "c") == [[[2, 5]]]
    assert [next(iterators[name], None) for name in "ab"] == [None, None]
    assert read(again, "cab") == [[[2, 5]], [[0, 3, 6]], [[1, 4, 7]]]


@pytest.mark.filterwarnings("ignore:the stream of a split_by_class is fast-forwarded")
@pytest.mark.parametrize("seed", [None, 2])
def test_a_shuffle_buffer_resumes_within_its_pass(seed: int | None) -> None:
    def made() -> Any:
        samples = [{"k": "ab"[number % 2], "x": number} for number in range(12)]
        return split_by_class(shard_iterable(ShuffleBuffer(samples, 4, seed)), "k", None, classes="ab")

    first, whole = check_resumed_in_its_second_pass(made)
    assert first != whole[:2] != whole[2:]


def check_resumed_in_its_second_pass(made: Callable[[], Any], is_told: bool = False) -> tuple[list[Any], list[Any]]:
    """Return what the first pass yields by class, and what the next two yield."""

    def read(loaders: Any, names: str) -> list[list[int]]:
        return [[int(sample["x"]) for sample in loaders[name]] for name in names]

    loaders = made()
    first = read(loaders, "ab")
    if is_told:
        loaders.set_epoch(1)
    between = json.loads(json.dumps(loaders.state_dict()))
    iterator = iter(loaders["a"])
    head = [int(next(iterator)["x"]), int(next(iterator)["x"])]
    within = json.loads(json.dumps(loaders.state_dict()))
    rest = [[int(sample["x"]) for sample in iterator], *read(loaders, "bab")]
    whole = [head + rest[0], *rest[1:]]
    for other in (made(), loaders):
        other.load_state_dict(between)
        assert read(other, "abab") == whole
        other.load_state_dict(within)
        assert json.loads(json.dumps(other.state_dict())) == within
        assert read(other, "abab") == rest
    return first, whole


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_class_that_had_ended_does_not_end_the_pass_of_another(order: tuple[int, int]) -> None:
    def split() -> Any:
        samples = [{"k": number % 3 % 2, "x": number} for number in range(12)]
        return split_by_class(samples, label="k", batch_size=2, classes=[0, 1], when_full="spill")

    with split() as made:
        ended, going_on = iter(made[0]), iter(made[1])
        whole = [batch["x"].tolist() for batch in ended]
        assert next(going_on)["x"].tolist() == [1, 4]
        state = json.loads(json.dumps(made.state_dict()))
        rest = [batch["x"].tolist() for batch in going_on]
    with split() as resumed, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the stream of a split_by_class is fast-forwarded")
        resumed.load_state_dict(state)
        iterators = {name: iter(resumed[name]) for name in order}
        assert [batch["x"].tolist() for batch in iterators[1]] == rest == [[7, 10]]
        assert [batch["x"].tolist() for batch in iterators[0]] == whole
        assert [batch["x"].tolist() for batch in resumed[1]] == [[1, 4], [7, 10]]
        assert not resumed.dropped


LOADERS: dict[str, Any] = {
    "shuffled": lambda: DataLoader(numbers(), batch_size=None, shuffle=True, seed=9),
    "sampler": lambda: DataLoader(numbers(), batch_size=None, sampler=DistributedSampler(numbers(), 1, 0)),
    "buffer": lambda: DataLoader(ShuffleBuffer(numbers(), 5, 4), batch_size=None),
    "drawn seed": lambda: DataLoader(ShuffleBuffer(numbers(), 5), batch_size=None),
    "worker": lambda: DataLoader(ShuffleBuffer(numbers(), 5, 4), batch_size=None, num_workers=1),
    "torch's": lambda: torch.utils.data.DataLoader(ShuffleBuffer(numbers(), 5, 4), batch_size=None),
    "inside": lambda: shard_iterable(DataLoader(numbers(), batch_size=None, shuffle=True, seed=9)),
}


def numbers() -> list[dict[str, Any]]:
    return [{"k": "ab"[number % 2], "x": number} for number in range(12)]


@pytest.mark.filterwarnings("ignore:the stream of a split_by_class is fast-forwarded")
@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_resumes_within_its_pass(kind: str, is_told: bool) -> None:
    def made() -> Any:
        return split_by_class(LOADERS[kind](), "k", None, classes="ab")

    first, whole = check_resumed_in_its_second_pass(made, is_told or kind == "sampler")
    assert first != whole[:2]
