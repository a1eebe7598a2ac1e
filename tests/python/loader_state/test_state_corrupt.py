"""Corrupt states: loading refuses them, the error names the key, and the loader does not change."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

import sluicegate
from cases.loader_kinds import take
from doubles.streams import GeneratorStream, Plain
from sluicegate import DataLoader, ShuffleBuffer, shard_iterable, split_by_class

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]

LOADERS: dict[str, Callable[[], Any]] = {
    "map": lambda: DataLoader(torch.arange(20), 3, shuffle=True),
    "map, 2 workers": lambda: DataLoader(torch.arange(20), 3, shuffle=True, num_workers=2),
    "map, Python": lambda: DataLoader(list(range(20)), 3),
    "seed": lambda: DataLoader(torch.arange(20), 3, shuffle=True, seed=7),
    "stream": lambda: DataLoader(Plain(20), 3),
    "stream with a state": lambda: DataLoader(GeneratorStream(20), 3),
    "shuffled stream": lambda: DataLoader(ShuffleBuffer(GeneratorStream(20), 4, 3), 3),
}
STREAMS = ("stream", "stream with a state", "shuffled stream")

MUCH = 2**40
NO_NUMBERS: list[Any] = [-1, 1.5, True, "3", None, [], {}, 2**63, 10**30]
NO_FLAGS: list[Any] = [0, 1, "x", None, [], [[0, 1]]]
NO_RANGES: list[Any] = [3, "x", None, {}, [[0, MUCH]], [[5, 3]], [["a", 1]], [[4]], [True], [[1.5, 2]]]

# In any loader's state, in the middle of an epoch: a path, and values that are invalid there.
ANYWHERE: list[tuple[tuple[Any, ...], list[Any]]] = [
    (("version",), [True, 0, -1]),
    (("fingerprint",), [None, [], 3]),
    (("epoch",), NO_NUMBERS),
    (("batches_received",), NO_NUMBERS),
    (("position",), NO_NUMBERS),
    (("num_workers",), NO_NUMBERS),
    (("next_worker",), [*NO_NUMBERS, 5]),
    (("received_ahead",), [*NO_RANGES, [[-5, -1]], [[0, 1]]]),
    (("drawn",), [*NO_FLAGS, False]),
    (("finished",), [*NO_FLAGS, True]),
    (("in_epoch",), [*NO_FLAGS, False]),
    (("begins_iterator",), NO_FLAGS),
    (("sampler_is_over",), NO_FLAGS),
    (("base_seed",), [-1, "x", 1.5, [], True]),
    (("epoch_told",), [-1, "x", 1.5, [], True, 2**63]),
    (("requests_drawn",), [-1, "x", 1.5, [], True, 2**63, MUCH]),
    (("order",), [3, [], {}]),
    (("sampler",), [3, [], {}, "x"]),
    (("layout",), [3, [3], "x", [3, -1]]),
    (("draws",), [3, "x", [3], [["torch"]], [["torch", 3]]]),
    (("rng",), [3, "x", [3], [["torch"]], [["torch", 3]]]),
    (("left_out",), [None, [], {}]),
    (("left_out", "samples"), NO_RANGES),
    (("left_out", "batches"), [*NO_RANGES, [[0, 0, MUCH]], [[-1, 0, 1]], [[0, 5, 3]]]),
    (("workers",), [3, None, {}, "x", [None] * 5, [3]]),
]
UNKNOWN_TO_OLDER = ("epoch_told", "requests_drawn")
IN_STREAMS: list[tuple[tuple[Any, ...], list[Any]]] = [
    (("workers",), [[], [None]]),
    (("num_workers",), [2, 10**6]),
    (("workers", 0), [[], 3, [None, 0, 0, False]]),
    (("workers", 0, 0), [3, [], {}, "x", {"that": 1}]),
    (("workers", 0, 1), [*NO_NUMBERS, MUCH]),
    (("workers", 0, 2), NO_NUMBERS),
    (("workers", 0, 3), NO_FLAGS),
    (("workers", 0, 4), [3, "x", [3]]),
    (("workers", 0, 5), [*NO_FLAGS, True]),
]
IN_BUFFERS: list[tuple[tuple[Any, ...], list[Any]]] = [
    (("epoch",), [-1, 1.5, True, "3", None, 2**64]),
    (("seed",), [-1, 1.5, True, "3", 2**64]),
    (("consumer",), [None, 3, {}]),
    (("consumer", "rank"), [*NO_NUMBERS, 1]),
    (("consumer", "num_workers"), [*NO_NUMBERS, 0]),
    (("read",), [*NO_NUMBERS, MUCH]),
    (("ended",), [*NO_FLAGS, True]),
    (("stream_ended",), NO_FLAGS),
    (("yielded",), [*NO_NUMBERS, MUCH]),
    (("held",), [3, None, {}, [], [99, 98, 97], [-1, 1, 2], [1, 1, 1], ["x", 1, 2]]),
    (("inner",), [3, [], {}, [0, 1, 2, 3], {"read": 2}]),
    (("inner", "read"), [*NO_NUMBERS, MUCH]),
]
BEYOND = {
    "map": [("batches_received", 8), ("position", 21), ("received_ahead", [[4, 9]])],
    "map, 2 workers": [("batches_received", 10**6)],
    "seed": [("batches_received", 21), ("position", 21), ("position", MUCH)],
}


def put(state: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return `state` with `value` at `path`, otherwise unchanged."""
    changed = copy.deepcopy(state)
    part = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


def saved(name: str) -> dict[str, Any]:
    loader = LOADERS[name]()
    list(itertools.islice(loader, 3))
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    return state


@pytest.fixture(scope="module", params=list(LOADERS))
def case(request: Any) -> tuple[str, dict[str, Any]]:
    return request.param, saved(request.param)


def refuse(loader: Any, changed: Any, words: str) -> None:
    before = copy.deepcopy(loader.state_dict())
    with pytest.raises(ValueError) as caught:
        loader.load_state_dict(changed)
    text = str(caught.value)
    assert words in text, text
    assert "state" in text, text
    assert loader.state_dict() == before, "a refused state changes nothing"


def test_no_part_of_another_kind_is_taken(case: tuple[str, dict[str, Any]]) -> None:
    name, state = case
    loader = LOADERS[name]()
    for path, values in ANYWHERE + (IN_STREAMS if name in STREAMS else []):
        for value in values:
            named = [key for key in path if isinstance(key, str)]
            refuse(loader, put(state, path, value), ".".join(named))


def test_every_part_that_is_lost_is_named(case: tuple[str, dict[str, Any]]) -> None:
    name, state = case
    loader = LOADERS[name]()
    for key in state.keys() - {"version", *UNKNOWN_TO_OLDER}:
        refuse(loader, {other: value for other, value in state.items() if other != key}, key)


def test_a_state_without_newer_keys_is_loaded_as_an_older_one(case: tuple[str, dict[str, Any]]) -> None:
    name, state = case
    rests = []
    for older in (state, {key: value for key, value in state.items() if key not in UNKNOWN_TO_OLDER}):
        loader = LOADERS[name]()
        loader.load_state_dict(older)
        rests.append(take(loader))
    assert rests[0] == rests[1] != []


@pytest.mark.parametrize("name", BEYOND)
def test_positions_after_the_end_of_the_epoch_are_refused(name: str) -> None:
    state = saved(name)
    for key, value in BEYOND[name]:
        refuse(LOADERS[name](), state | {key: value}, key)


def test_a_running_loader_continues_after_it_refused_a_state() -> None:
    loader = LOADERS["seed"]()
    expected = [batch.tolist() for batch in loader]
    loader = LOADERS["seed"]()
    iterator = iter(loader)
    found = [next(iterator).tolist() for _ in range(2)]
    refuse(loader, saved("seed") | {"received_ahead": [[0, MUCH]]}, "received_ahead")
    assert found + [batch.tolist() for batch in iterator] == expected


def buffered() -> tuple[Any, dict[str, Any]]:
    buffer = ShuffleBuffer(GeneratorStream(200), 4, 3)
    list(itertools.islice(buffer, 30))
    return buffer, json.loads(json.dumps(buffer.state_dict()))


@pytest.mark.parametrize(("path", "values"), IN_BUFFERS, ids=lambda part: str(part)[:40])
def test_a_shuffle_buffer_and_its_loader_refuse_impossible_values(path: Any, values: list[Any]) -> None:
    _, state = buffered()
    around = saved("shuffled stream")
    for value in values:
        refuse(ShuffleBuffer(GeneratorStream(200), 4), put(state, path, value), path[0])
        refuse(LOADERS["shuffled stream"](), put(around, ("workers", 0, 0, "thing", *path), value), path[0])


@pytest.mark.parametrize("key", ["read", "ended", "inner", "consumer", "epoch", "held", "yielded", "seed"])
def test_a_shuffle_buffer_names_the_missing_key_of_its_state(key: str) -> None:
    _, state = buffered()
    del state[key]
    refuse(ShuffleBuffer(GeneratorStream(200), 4), state, key)


def test_a_stream_inside_of_a_buffer_is_looked_at_too(tmp_path: Any) -> None:
    (tmp_path / "numbers.jsonl").write_text("".join(f"{number}\n" for number in range(20)))

    def made() -> Any:
        return ShuffleBuffer(sluicegate.JsonLinesStream(str(tmp_path / "numbers.jsonl")), 4, 3)

    buffer = made()
    list(itertools.islice(buffer, 9))
    state = json.loads(json.dumps(buffer.state_dict()))
    made().load_state_dict(state)
    for key, values in {
        "inner": [3, {}, [0, 0, 0], [0, 99, 0, 0], [0, 0, 5, 0], [-1, 0, 0, 0], ["x", 0, 0, 0]],
        "run": [0, *NO_NUMBERS],
        "consumed": [3, None, [[1, 1, [5, 5], []]], [[0, 1, [], []]], [[1, 1, ["x"], []]]],
        "read": [*NO_NUMBERS, MUCH],
        "ended": NO_FLAGS,
    }.items():
        for value in values:
            refuse(made(), put(state, ("inner", "iterable", key), value), key if key != "read" else "")


def test_a_shard_of_a_stream_refuses_impossible_values() -> None:
    part: Any = shard_iterable(Plain(20), shard=(0, 2))
    list(itertools.islice(part, 3))
    state = part.state_dict()
    for key, value in [("read", -1), ("ended", 1), ("consumer", {}), ("inner", 3), ("epoch", "x")]:
        refuse(shard_iterable(Plain(20), shard=(0, 2)), state | {key: value}, key)


@pytest.mark.parametrize("stream", [Plain, GeneratorStream])
def test_a_stream_shorter_than_its_state_is_an_error_and_not_an_endless_read(stream: Any) -> None:
    loader = DataLoader(stream(20), 3)
    list(itertools.islice(loader, 3))
    state = put(json.loads(json.dumps(loader.state_dict())), ("workers", 0, 2), MUCH)
    again = DataLoader(stream(20), 3)
    again.load_state_dict(state)
    with pytest.raises(RuntimeError, match=f"the stream ended after 20 samples, but the state was saved after {MUCH}"):
        list(again)


SPLIT: list[tuple[tuple[Any, ...], list[Any]]] = [
    (("version",), ["x", None, True, 0]),
    (("classes",), [3, {}, "x"]),
    (("seen",), [3, None, [{}], []]),
    (("knows_all",), NO_FLAGS),
    (("dropped",), [3, None, [3], [["a", -1]], [["a", "x"]], [[{}, 1]]]),
    (("rng",), [3, [], [["torch", "x"]], [["torch"]]]),
    (("pass",), [3, [], {}]),
    (("pass", "asked"), [*NO_NUMBERS, 0]),
    (("pass", "ended"), NO_FLAGS),
    (("pass", "parts"), [3, None, [3], [["a", -1, True, False]], [["a", 1, 1, False]], [[{}, 1, True, False]]]),
    (("pass", "start"), [3, [3], [["torch"]]]),
    (("loaders",), [3, None, [3], [["a", 3]], [["z", {}]], [["a", {}]]]),
    (("loaders", 0, 1, "batches_received"), NO_NUMBERS),
    (("loaders", 1, 1, "received_ahead"), NO_RANGES),
    (("loaders", 1, 1, "workers"), [3, None, {}]),
]


def split() -> Any:
    return split_by_class([{"kind": "ab"[number % 2], "x": number} for number in range(20)], "kind", 2)


@pytest.mark.parametrize(("path", "values"), SPLIT, ids=lambda part: str(part)[:40])
def test_a_split_refuses_impossible_values_and_its_loaders_stay_unchanged(path: Any, values: list[Any]) -> None:
    loaders = split()
    first, second = iter(loaders["a"]), iter(loaders["b"])
    next(first), next(second), next(second)
    state = json.loads(json.dumps(loaders.state_dict()))
    fresh = split()
    fresh.load_state_dict(copy.deepcopy(state))
    for value in values:
        refuse(fresh, put(state, path, value), "")
        refuse(split(), put(state, path, value), "")
    assert next(iter(fresh["a"]))["x"].tolist() == next(first)["x"].tolist()
