"""`ShuffleBuffer` over a native stream: batches and states of the core equal those of single samples."""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from cases import native_streams
from cases.loader_kinds import take
from cases.native_streams import Case, json_lines, tar
from cases.pairs import in_pairs
from checks.equality import assert_same
from sluicegate import DataLoader, JsonLinesStream, ShuffleBuffer, shard_iterable

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

case = native_streams.case


def loader(stream: Any, in_python: bool, *, size: int = 7, buffer_seed: int | None = 3, **arguments: Any) -> Any:
    """Return a loader whose batches are made by the core, or by Python, because of a user-defined collate function."""
    if in_python:
        arguments["collate_fn"] = stream.collate
    if "generator" not in arguments:
        arguments.setdefault("seed", 9)
    if arguments.get("num_workers"):
        arguments["worker_type"] = "thread"
    return DataLoader(ShuffleBuffer(stream, size, buffer_seed), batch_size=3, **arguments)


def told(loader: Any, epochs: int = 1) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of some epochs, each with the state after it."""
    for _ in range(epochs):
        for batch in loader:
            yield batch, json.loads(json.dumps(loader.state_dict()))


def check_alike(native: Any, in_python: Any, epochs: int = 2) -> list[tuple[Any, Any]]:
    """Assert that both give the same batches and states, and return these."""
    those = list(told(native, epochs))
    for (batch, state), (other, other_state) in zip(those, told(in_python, epochs), strict=True):
        assert_same(batch, other)
        assert state == other_state
    return those


@pytest.mark.parametrize(
    ("case", "num_workers", "seed"), in_pairs(native_streams.CASES, [0, 2], [None, 7]), indirect=["case"]
)
def test_batches_and_states_are_those_of_single_samples(case: Case, num_workers: int, seed: int | None) -> None:
    make, dataset, path = case
    loaders = []
    for in_python in (False, True):
        drawn: dict[str, Any] = {"generator": torch.Generator()} if seed is None else {"seed": seed}
        loaders.append(loader(make([path, path]), in_python, num_workers=num_workers, **drawn))
    those = check_alike(*loaders)
    assert len(those) >= 2 * (2 * len(dataset) // 3)


def test_shuffled_batches_are_made_by_the_core(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    for in_python in (False, True):
        iterator = iter(loader(JsonLinesStream(tmp_path / "a"), in_python))
        assert (iterator._dataset_fetcher._native is None) == in_python
    bounded = DataLoader(ShuffleBuffer(JsonLinesStream(tmp_path / "a"), 5, 3, max_bytes=100), batch_size=2)
    iterator = iter(bounded)
    assert iterator._dataset_fetcher._native is None
    assert sorted(sample for batch in take(iterator) for sample in batch) == [1, 2, 3]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda stream: ShuffleBuffer(stream, size=1, seed=3),
        lambda stream: ShuffleBuffer(stream, max_bytes=1, seed=3),
        shard_iterable,
        lambda stream: ShuffleBuffer(shard_iterable(stream), size=1, seed=3),
    ],
    ids=["size", "max_bytes", "shard", "size of shard"],
)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_ragged_batches_are_those_of_the_stream_alone(
    wrap: Callable[[Any], Any], num_workers: int, tmp_path: pathlib.Path
) -> None:
    for name, lengths in (("ragged", [1, 2, 3, 1]), ("equal", [2, 2, 2, 2])):
        (tmp_path / name).write_text("".join(json.dumps({"ids": list(range(length))}) + "\n" for length in lengths))
        (alone,) = DataLoader(JsonLinesStream(tmp_path / name, {"ids": [int]}), batch_size=4)
        (batch,) = DataLoader(
            wrap(JsonLinesStream(tmp_path / name, {"ids": [int]})), batch_size=4, num_workers=num_workers
        )
        assert set(alone["ids"]) == {"values", "offsets"}
        assert_same(batch, alone)


@pytest.mark.parametrize("size", [1, 2, 30, 300])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 31, 100])
def test_small_and_large_buffers(tmp_path: pathlib.Path, size: int, length: int) -> None:
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(length)))
    loaders = [loader(JsonLinesStream(tmp_path / "a"), in_python, size=size) for in_python in (False, True)]
    batches = [batch for batch, _ in check_alike(*loaders)]
    assert sorted(torch.cat(batches).tolist() if batches else []) == sorted([*range(length)] * 2)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("case", [tar, json_lines], indirect=True)
def test_rust_and_python_resume_from_states_of_each_other(case: Case, num_workers: int) -> None:
    make, _, path = case
    # More samples than are between two snapshots of the stream.
    urls = [path, path]
    whole = list(told(loader(make(urls), False, num_workers=num_workers), 2))
    for stop in range(0, len(whole) // 2 + 1, 3):
        state = whole[stop][1]
        for in_python in (False, True):
            resumed = loader(make(urls), in_python, num_workers=num_workers)
            resumed.load_state_dict(state)
            assert json.loads(json.dumps(resumed.state_dict())) == state
            rest = [pair for _ in range(2) for pair in told(resumed)][: len(whole) - stop - 1]
            assert_same([batch for batch, _ in rest], [batch for batch, _ in whole[stop + 1 :]])
            assert [state for _, state in rest] == [state for _, state in whole[stop + 1 :]]


@pytest.mark.parametrize("every", [0, 2])
@pytest.mark.parametrize("size", [1, 5])
def test_no_sample_is_lost_between_two_snapshots(tmp_path: pathlib.Path, size: int, every: int) -> None:
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(20)))

    def made() -> Any:
        stream = JsonLinesStream(tmp_path / "a")
        return loader(stream, False, size=size, num_workers=1, snapshot_every_n_steps=every)

    those = list(told(made()))
    whole = [batch for batch, _ in those]
    for stop, (_, state) in enumerate(those[:-1]):
        resumed = made()
        resumed.load_state_dict(state)
        assert_same(list(resumed), whole[stop + 1 :])


def test_a_stream_shorter_than_its_state_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(50)))
    states = [state for _, state in told(loader(JsonLinesStream(tmp_path / "a"), False))]
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(45)))
    for in_python in (False, True):
        resumed = loader(JsonLinesStream(tmp_path / "a"), in_python)
        resumed.load_state_dict(states[13])
        with pytest.raises(RuntimeError, match=r"the stream ended after 45 samples, but the state was saved after 48"):
            next(iter(resumed))


def test_damaged_samples_are_skipped_or_raised(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("".join(f"{number if number % 6 else '{'}\n" for number in range(40)))
    loaders, streams = [], []
    for in_python in (False, True):
        streams.append(JsonLinesStream(tmp_path / "a", on_error="skip"))
        loaders.append(loader(streams[-1], in_python))
    check_alike(*loaders)
    assert streams[0].damages == streams[1].damages
    assert len(streams[0].damages) == 14
    with pytest.raises(ValueError, match="sample 0"):
        next(iter(loader(JsonLinesStream(tmp_path / "a"), False)))


class Failing(io.RawIOBase):
    """Returns some samples, and then fails."""

    def __init__(self) -> None:
        self.left = [b"1\n2\n3\n4\n", b"5\n6\n"]

    def read(self, size: int = -1) -> bytes:
        if self.left:
            return self.left.pop(0)
        raise ConnectionError("the network is gone")


def test_a_failing_file_object_raises_its_own_error() -> None:
    with pytest.raises(ConnectionError, match="the network is gone"):
        list(loader(JsonLinesStream(Failing()), False, size=2))
