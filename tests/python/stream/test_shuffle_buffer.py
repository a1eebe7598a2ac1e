"""`ShuffleBuffer`: its order, its bounds, its epochs, and that it resumes at its exact position."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.programs import Run
from doubles.streams import GeneratorStream, IteratorStream, OwnIterator, Plain, RandomStream, ResettingStream
from sluicegate import DataLoader, IterableDataset, JsonLinesStream, ShuffleBuffer, shard_iterable
from sluicegate.stream.shuffle_buffer import sample_bytes

STATEFUL = [GeneratorStream, IteratorStream, OwnIterator, RandomStream, ResettingStream]


def rest_after(buffer: Any, taken: int) -> tuple[list[Any], Any, list[Any]]:
    """Return the first `taken` samples, the state after them, and the rest of the epoch."""
    iterator = iter(buffer)
    head = list(itertools.islice(iterator, taken))
    state = buffer.state_dict()
    return head, state, list(iterator)


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))


def test_every_sample_comes_once_in_an_order_that_is_a_function_of_seed_and_epoch() -> None:
    buffer = ShuffleBuffer(range(1000), size=50, seed=7)
    epochs = [list(buffer) for _ in range(3)]
    assert all(sorted(epoch) == list(range(1000)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = ShuffleBuffer(range(1000), size=50, seed=7)
    again.set_epoch(2)
    assert list(again) == epochs[2]
    assert list(ShuffleBuffer(range(1000), size=50, seed=8)) != epochs[0]


def test_the_order_is_pinned() -> None:
    assert list(ShuffleBuffer(range(10), size=4, seed=7)) == [1, 4, 2, 0, 3, 6, 8, 5, 9, 7]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5])
def test_small_streams_and_buffers(size: int, length: int) -> None:
    order = list(ShuffleBuffer(range(length), size=size, seed=0))
    assert sorted(order) == list(range(length))
    if size == 1:
        assert order == list(range(length))


def test_a_buffer_reads_ahead_at_most_its_size() -> None:
    read = 0

    def counting() -> Iterator[int]:
        nonlocal read
        for number in range(1, 101):
            read = number
            yield number

    iterator = iter(ShuffleBuffer(counting(), size=10, seed=0))
    assert read == 0
    for taken in range(1, 91):
        next(iterator)
        assert read == taken + 9


def test_max_bytes_bounds_the_buffer() -> None:
    rows = [torch.zeros(number % 50, dtype=torch.uint8) for number in range(300)]
    held: list[int] = []
    buffer = ShuffleBuffer(enumerate(rows), seed=3, max_bytes=500)
    iterator: Any = iter(buffer)
    seen = []
    for number, row in iterator:
        seen.append(number)
        held.append(sum(sample_bytes(sample) for sample in iterator._samples))
        assert len(row) == number % 50
    assert sorted(seen) == list(range(300))
    assert max(held) < 500 + 100
    assert max(held) > 350


def test_the_bytes_of_a_sample() -> None:
    array = np.zeros((3, 4), np.int16)
    assert sample_bytes(torch.zeros(5, 2)) == 40
    assert sample_bytes({"a": array, "b": [b"12345", "abc", (bytearray(2), memoryview(array))]}) == 24 + 5 + 3 + 2 + 24
    assert sample_bytes(np.float32(1)) == 4
    assert sample_bytes(7) == sys.getsizeof(7)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ValueError, "size, max_bytes: expected at least one"),
        ({"size": 0}, ValueError, "size should be 1 or more"),
        ({"max_bytes": 0}, ValueError, "max_bytes should be 1 or more"),
        ({"size": 2.5}, TypeError, "size should be an integer"),
        ({"size": True}, TypeError, "size should be an integer"),
        ({"size": 3, "seed": -1}, ValueError, "seed should be 0 or more"),
        ({"size": 3, "seed": 2**64}, ValueError, "seed should be 0 or more"),
        ({"size": 3, "shard": (2, 2)}, ValueError, "0 <= rank < world_size"),
        ({"size": 3, "shard": 4}, ValueError, "shard should be"),
    ],
)
def test_invalid_arguments_of_shuffle_buffer_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ShuffleBuffer([], **arguments)


def test_every_seed_and_epoch_of_64_bits_is_legal() -> None:
    buffer = ShuffleBuffer(range(20), size=5, seed=np.uint64(2**64 - 1))
    buffer.set_epoch(2**64 - 2)
    first, second = list(buffer), list(buffer)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    with pytest.raises(ValueError, match="epoch should be 0 or more"):
        buffer.set_epoch(-1)


def test_without_a_seed_a_buffer_follows_torchs_generator() -> None:
    torch.manual_seed(5)
    buffer = ShuffleBuffer(range(100), size=30)
    epochs = [list(buffer), list(buffer)]
    after = torch.get_rng_state()
    assert epochs[0] != epochs[1]
    torch.manual_seed(5)
    again = ShuffleBuffer(range(100), size=30)
    assert [list(again), list(again)] == epochs
    assert torch.equal(torch.get_rng_state(), after)
    torch.manual_seed(6)
    assert list(ShuffleBuffer(range(100), size=30)) != epochs[0]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    list(ShuffleBuffer(range(100), size=30, seed=1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_workers_have_streams_of_their_own(seed: int | None, worker_type: str) -> None:
    loader = DataLoader(
        ShuffleBuffer(range(60), size=20, seed=seed), batch_size=60, num_workers=2, worker_type=worker_type
    )
    first, second = (batch.tolist() for batch in loader)
    assert sorted(first) == sorted(second) == list(range(60))
    assert first != second
    if seed is not None:
        assert first == list(ShuffleBuffer(range(60), size=20, seed=seed))


def test_ranks_have_streams_of_their_own() -> None:
    orders = [list(ShuffleBuffer(range(60), size=20, seed=3, shard=(rank, 3))) for rank in range(3)]
    assert len({tuple(order) for order in orders}) == 3


def test_unseeded_workers_follow_the_loaders_generator() -> None:
    def epochs() -> list[list[int]]:
        generator = torch.Generator().manual_seed(4)
        loader = DataLoader(ShuffleBuffer(range(40), size=20), batch_size=40, num_workers=2, generator=generator)
        return [batch.tolist() for _ in range(2) for batch in loader]

    orders = epochs()
    assert len({tuple(order) for order in orders}) == 4
    assert epochs() == orders


@pytest.mark.parametrize("native", [False, True])
def test_without_its_own_seed_a_buffer_uses_the_loaders_with_any_kind_of_worker(native: bool, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(40)))

    def made(num_workers: int, buffer: Any = None, seed: int = 3, **arguments: Any) -> Any:
        buffer = buffer or ShuffleBuffer(JsonLinesStream(tmp_path / "a") if native else range(40), size=20)
        return DataLoader(buffer, batch_size=40, num_workers=num_workers, seed=seed, **arguments)

    def epochs(loader: Any, count: int = 3) -> list[list[int]]:
        return [batch.tolist() for _ in range(count) for batch in loader]

    orders = epochs(made(0))
    assert len({tuple(order) for order in orders}) == 3
    for arguments in ({}, {"worker_type": "thread"}, {"multiprocessing_context": "fork", "persistent_workers": True}):
        assert epochs(made(1, **arguments)) == orders
    # A function of the seed and the epoch: neither of torch's generator, nor of what was read before.
    torch.manual_seed(1)
    buffer = ShuffleBuffer(range(40), size=20)
    assert epochs(made(0, buffer, seed=4)) != orders
    later = made(0, buffer)
    later.set_epoch(1)
    assert epochs(later, 2) == orders[1:]


def test_set_epoch_reaches_the_iterable() -> None:
    class Told(Plain):
        epoch = -1

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    told = Told(3)
    ShuffleBuffer(shard_iterable(told), size=2, seed=0).set_epoch(9)
    assert told.epoch == 9


@pytest.mark.parametrize("size", [1, 5, 40, 200])
@pytest.mark.parametrize("stream", STATEFUL)
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_buffer_resumes_with_the_same_samples_and_later_epochs(stream: Any, size: int, epoch: int) -> None:
    if stream is OwnIterator and epoch:
        pytest.skip("an iterator has one epoch")
    for taken in [0, 1, 2, 17, 60, 99, 100]:
        torch.manual_seed(1)
        buffer = ShuffleBuffer(stream(100), size=size, seed=5)
        for _ in range(epoch):
            list(buffer)
        head, state, tail = rest_after(buffer, taken)
        if taken == 0:  # They are the same for all.
            later = [list(buffer), list(buffer)]
        state = through_json(state)
        assert len(state["held"]) <= size
        torch.manual_seed(99)
        resumed = ShuffleBuffer(stream(100), size=size, seed=5)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert list(resumed) == tail, (taken, len(head))
        if stream is not RandomStream:  # later epochs of this one depend on torch's global generator
            assert [list(resumed), list(resumed)] == later


@pytest.mark.parametrize("stream", STATEFUL)
def test_states_of_the_original_and_of_the_resumed_are_equal_ever_after(stream: Any) -> None:
    buffer = ShuffleBuffer(stream(150), size=20, seed=5)
    iterator = iter(buffer)
    states = [buffer.state_dict()] + [(next(iterator), buffer.state_dict())[1] for _ in range(150)]
    resumed = ShuffleBuffer(stream(150), size=20, seed=5)
    resumed.load_state_dict(copy.deepcopy(states[40]))
    iterator = iter(resumed)
    found = [resumed.state_dict()] + [(next(iterator), resumed.state_dict())[1] for _ in range(110)]
    assert found == states[40:]
    assert next(iterator, None) is None


@pytest.mark.parametrize("stream", [GeneratorStream, IteratorStream, ResettingStream])
def test_a_state_of_the_end_leaves_nothing_and_the_next_epoch_is_whole(stream: Any) -> None:
    for read_to_the_end in (False, True):
        buffer = ShuffleBuffer(stream(50), size=8, seed=5)
        list(buffer)
        iterator = iter(buffer)
        for _ in range(50):
            next(iterator)
        if read_to_the_end:
            assert next(iterator, None) is None
        state = buffer.state_dict()
        assert state["ended"]
        next_epochs = [list(buffer), list(buffer)]
        for discards in (False, True):
            resumed = ShuffleBuffer(stream(50), size=8, seed=5)
            resumed.load_state_dict(through_json(state))
            # A loader may know that it has ended, and only request a new iterator.
            rest = iter(resumed)
            if not discards:
                assert list(rest) == []
            assert [list(resumed), list(resumed)] == next_epochs


def test_a_stream_without_state_is_read_again_with_a_warning() -> None:
    buffer = ShuffleBuffer(Plain(100), size=10, seed=5)
    _, state, tail = rest_after(buffer, 30)
    later = list(buffer)
    resumed = ShuffleBuffer(Plain(100), size=10, seed=5)
    resumed.load_state_dict(through_json(state))
    with pytest.warns(UserWarning, match="first 39 samples again, of which the buffer held 9"):
        assert list(resumed) == tail
    assert list(resumed) == later


def test_a_buffer_of_one_sample_resumes_a_stream_without_state() -> None:
    buffer = ShuffleBuffer(Plain(20), size=1, seed=5)
    _, state, tail = rest_after(buffer, 7)
    assert state["held"] == []
    resumed = ShuffleBuffer(Plain(20), size=1, seed=5)
    resumed.load_state_dict(through_json(state))
    with pytest.warns(UserWarning, match="first 7 samples again, of which the buffer held 0"):
        assert list(resumed) == tail == list(range(7, 20))


@pytest.mark.filterwarnings("error")
def test_a_stream_without_state_is_not_read_again_at_its_end() -> None:
    buffer = ShuffleBuffer(Plain(20), size=8, seed=5)
    _, state, tail = rest_after(buffer, 20)
    assert tail == []
    later = list(buffer)
    resumed = ShuffleBuffer(Plain(20), size=8, seed=5)
    resumed.load_state_dict(through_json(state))
    assert list(resumed) == []
    assert list(resumed) == later


def test_a_stream_with_state_is_read_again_from_near_the_oldest_sample_held() -> None:
    buffer = ShuffleBuffer(GeneratorStream(100_000), size=64, seed=5)
    _, state, tail = rest_after(buffer, 50_000)
    stream = GeneratorStream(100_000)
    resumed = ShuffleBuffer(stream, size=64, seed=5)
    resumed.load_state_dict(state)
    iterator = iter(resumed)
    assert next(iterator) == tail[0]
    again = state["read"] - state["inner"]["read"]
    assert min(state["held"]) - 16 < state["inner"]["read"] <= min(state["held"])
    assert stream.given == again + 1
    assert again < 2000
    assert list(iterator) == tail[1:]


def test_iter_of_the_stream_is_called_once_an_epoch_and_once_for_a_resume() -> None:
    class Counting(IteratorStream):
        calls = 0

        def __iter__(self) -> Any:
            self.calls += 1
            return super().__iter__()

    stream = Counting(30)
    buffer = ShuffleBuffer(stream, size=4, seed=1)
    _, state, _ = rest_after(buffer, 9)
    assert stream.calls == 1
    list(buffer)
    assert stream.calls == 2
    stream = Counting(30)
    resumed = ShuffleBuffer(stream, size=4, seed=1)
    resumed.load_state_dict(state)
    list(resumed)
    assert stream.calls == 1


def test_a_state_without_a_seed_carries_the_one_that_was_drawn() -> None:
    buffer = ShuffleBuffer(range(50), size=10)
    for taken in (0, 20):
        _, state, tail = rest_after(buffer, taken)
        later = [list(buffer), list(buffer)]
        torch.manual_seed(77)
        before = torch.get_rng_state()
        resumed = ShuffleBuffer(range(50), size=10)
        resumed.load_state_dict(through_json(state))
        if taken:
            with pytest.warns(UserWarning, match="first 29 samples again"):
                assert list(resumed) == tail
        else:
            assert list(resumed) == tail
        assert [list(resumed), list(resumed)] == later
        assert torch.equal(torch.get_rng_state(), before)


def test_a_state_is_used_once_and_never_changes() -> None:
    buffer = ShuffleBuffer(GeneratorStream(40), size=6, seed=1)
    _, state, tail = rest_after(buffer, 11)
    kept = copy.deepcopy(state)
    resumed = ShuffleBuffer(GeneratorStream(40), size=6, seed=1)
    resumed.load_state_dict(state)
    assert list(resumed) == tail
    assert state == kept
    assert len(list(resumed)) == 40
    handed = resumed.state_dict()
    handed["held"].append(3)
    handed["inner"]["read"] = 5
    assert resumed.state_dict() != handed


def test_a_state_from_before_the_first_iteration_draws_nothing() -> None:
    torch.manual_seed(3)
    buffer = ShuffleBuffer(GeneratorStream(20), size=5)
    before = torch.get_rng_state()
    state = buffer.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    order = list(buffer)
    torch.manual_seed(3)
    resumed = ShuffleBuffer(GeneratorStream(20), size=5)
    resumed.load_state_dict(state)
    assert list(resumed) == order


def test_states_of_other_buffers_or_streams_are_refused() -> None:
    buffer = ShuffleBuffer(GeneratorStream(40), size=6, seed=1)
    _, state, _ = rest_after(buffer, 11)
    with pytest.raises(ValueError, match="saved with size=7, as this ShuffleBuffer has, but got size=6"):
        ShuffleBuffer(GeneratorStream(40), size=7, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with seed=2, as this ShuffleBuffer has, but got seed=1"):
        ShuffleBuffer(GeneratorStream(40), size=6, seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match="expected a state of 'ShuffleBuffer', version 1"):
        buffer.load_state_dict({"version": 2})
    with pytest.raises(ValueError, match="expected a state of 'ShardedIterable'"):
        shard_iterable([]).load_state_dict(state)  # type: ignore[attr-defined]
    other = ShuffleBuffer(GeneratorStream(40), size=6, seed=1, shard=(1, 2))
    other.load_state_dict(state)
    with pytest.raises(
        ValueError, match=r"expected the state of rank 1 of 2, .*, but got that of rank 0 of 1, worker 0 of 1"
    ):
        iter(other)
    stateless = ShuffleBuffer(Plain(40), size=6, seed=1)
    stateless.load_state_dict(state)
    with pytest.raises(ValueError, match=r"expected a stream with load_state_dict, .*, but got Plain"):
        iter(stateless)


def test_a_stream_that_became_shorter_is_an_error() -> None:
    _, state, _ = rest_after(ShuffleBuffer(GeneratorStream(40), size=6, seed=1), 30)
    resumed = ShuffleBuffer(GeneratorStream(20), size=6, seed=1)
    resumed.load_state_dict(state)
    with pytest.raises(RuntimeError, match="the stream ended after"):
        next(iter(resumed))


def test_a_state_loaded_in_the_main_process_is_refused_with_workers() -> None:
    buffer = ShuffleBuffer(range(20), size=4, seed=1)
    buffer.load_state_dict(buffer.state_dict())
    with pytest.raises(RuntimeError, match="loaded in the main process, but its workers iterate"):
        list(DataLoader(buffer, num_workers=1))


def test_a_buffer_raises_an_error_of_its_stream_and_continues() -> None:
    class Flaky(IterableDataset[int]):
        def __iter__(self) -> Any:
            self.number = -1
            return self

        def __next__(self) -> int:
            self.number += 1
            if self.number == 7:
                raise OSError("seven")
            if self.number == 20:
                raise StopIteration
            return self.number

    iterator = iter(ShuffleBuffer(Flaky(), size=4, seed=1))
    got = []
    with pytest.raises(OSError, match="seven"):
        got += [next(iterator) for _ in range(20)] or got
    head = []
    iterator = iter(ShuffleBuffer(Flaky(), size=4, seed=1))
    while True:
        try:
            head.append(next(iterator))
        except OSError:
            break
    assert sorted(head + list(iterator)) == [number for number in range(20) if number != 7]


def test_copies_and_pickles_of_a_buffer_keep_its_epoch_and_state() -> None:
    buffer = ShuffleBuffer(GeneratorStream(30), size=5, seed=1)
    list(buffer)
    next(iter(buffer))
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert list(twin) == list(copy.deepcopy(buffer))
    _, state, tail = rest_after(ShuffleBuffer(GeneratorStream(30), size=5, seed=1), 12)
    buffer.load_state_dict(state)
    assert list(pickle.loads(pickle.dumps(buffer))) == tail


PROGRAM = """
import json
from sluicegate import ShuffleBuffer
from doubles.streams import GeneratorStream
torch.manual_seed(12345)
resumed = ShuffleBuffer(GeneratorStream(500), size=32)
resumed.load_state_dict(json.loads(state))
print(json.dumps([list(resumed), list(resumed), list(resumed)]))
"""


def test_a_buffer_resumes_in_another_process(run: Run) -> None:
    buffer = ShuffleBuffer(GeneratorStream(500), size=32)
    list(buffer)
    _, state, tail = rest_after(buffer, 201)
    expected = [tail, list(buffer), list(buffer)]
    ended = run(PROGRAM, state=json.dumps(state))
    ended.check()
    assert json.loads(ended.stdout) == expected


def test_random_buffers_resume_at_random_places() -> None:
    choose = random.Random(0)
    for _ in range(150):
        length, size = choose.randrange(0, 300), choose.randrange(1, 60)
        bound = {"max_bytes": choose.randrange(1, 2000)} if choose.random() < 0.3 else {"size": size}
        kind = choose.choice([GeneratorStream, IteratorStream, ResettingStream])
        seed = choose.randrange(2**64)

        def make(kind: Any = kind, length: int = length, bound: Any = bound, seed: int = seed) -> Any:
            return ShuffleBuffer(kind(length), seed=seed, **bound)

        buffer = make()
        # What a `ResettingStream` does after an epoch that was left in the middle, its state does not tell.
        taken = [length + 1] if kind is ResettingStream else [length // 2, length + 1]
        for _ in range(choose.randrange(3)):
            list(itertools.islice(iter(buffer), choose.choice(taken)))
        for _ in range(3):  # Resume, and resume the resumed buffer.
            _, state, tail = rest_after(buffer, choose.randrange(length + 2))
            later = list(buffer)
            buffer = make()
            buffer.load_state_dict(through_json(state))
            assert list(buffer) == tail
            assert list(buffer) == later
