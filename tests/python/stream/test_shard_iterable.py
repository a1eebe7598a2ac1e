"""`shard_iterable`: every sample goes to exactly one consumer."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.gloo_ranks import launch
from checks.programs import Run
from doubles.streams import GeneratorStream, IteratorStream, OwnIterator, Plain, ResettingStream
from sluicegate import DataLoader, IterableDataset, ShuffleBuffer, shard_iterable
from sluicegate.stream.consumer import Consumer

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def parts(dataset: Any, num_workers: int, **arguments: Any) -> list[list[Any]]:
    """Return the samples that each worker reads, in its order."""
    loader = DataLoader(dataset, batch_size=10_000, num_workers=num_workers, collate_fn=list, **arguments)
    return list(loader)


# Threads in all combinations; with processes, every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("length", "world_size", "num_workers", "worker_type"),
    [
        *itertools.product([0, 1, 7, 50], [1, 2, 3], [0, 1, 3], ["thread"]),
        (0, 1, 3, "process"),
        (0, 2, 1, "process"),
        (0, 3, 1, "process"),
        (1, 1, 1, "process"),
        (1, 2, 3, "process"),
        (1, 3, 1, "process"),
        (7, 1, 1, "process"),
        (7, 2, 1, "process"),
        (7, 3, 3, "process"),
        (50, 1, 1, "process"),
        (50, 2, 3, "process"),
        (50, 3, 1, "process"),
    ],
)
def test_all_ranks_and_workers_together_read_every_sample_once(
    length: int, world_size: int, num_workers: int, worker_type: str
) -> None:
    ranks = []
    for rank in range(world_size):
        found = parts(shard_iterable(range(length), shard=(rank, world_size)), num_workers, worker_type=worker_type)
        ranks.append(sorted(itertools.chain(*found)))
        # For any number of workers.
        assert ranks[-1] == list(range(rank, length, world_size))
        assert max(map(len, found), default=0) - min(map(len, found), default=0) <= 1
    assert sorted(itertools.chain(*ranks)) == list(range(length))


def test_ranks_differ_first_and_workers_then() -> None:
    assert parts(shard_iterable(range(13), shard=(1, 2)), 3) == [[1, 7], [3, 9], [5, 11]]
    assert [Consumer(rank, 2, worker, 3).number for worker in range(3) for rank in range(2)] == list(range(6))


def test_without_workers_and_ranks_a_shard_is_the_whole_stream() -> None:
    dataset = shard_iterable(range(5))
    assert isinstance(dataset, IterableDataset)
    assert list(dataset) == list(dataset) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0), 3, (1, 2, 3), ("a", 2)])
def test_a_shard_that_does_not_exist_is_refused(shard: Any) -> None:
    with pytest.raises(ValueError, match="shard should be"):
        shard_iterable([], shard=shard)


READ = """
import json
from doubles.streams import Plain
from sluicegate import DataLoader, ShuffleBuffer, shard_iterable
dataset = shard_iterable(Plain(40))  # Before there is a process group.
nested = shard_iterable(ShuffleBuffer(Plain(40), size=9, seed=4))
torch.distributed.init_process_group("gloo")
found = []
if rank == 0:
    method = "fork"  # One rank with a fork server, which imports torch, is enough.
for each in (dataset, nested):
    loader = DataLoader(each, batch_size=None, num_workers=num_workers, multiprocessing_context=method)
    found.append([int(sample) for sample in loader])
found.append(list(ShuffleBuffer(Plain(40), size=9, seed=4)))
with open(f"{path}-{rank}", "w") as file:
    json.dump(found, file)
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize(("method", "num_workers"), [("fork", 2), ("forkserver", 1)])
def test_ranks_are_those_of_torch_distributed_in_workers_of_every_kind(
    run: Run, tmp_path: Path, method: str, num_workers: int
) -> None:
    path = tmp_path / "read"
    launch(run, "exec(read, globals())", 2, read=READ, path=str(path), method=method, num_workers=num_workers)
    ranks = [json.loads(Path(f"{path}-{rank}").read_text()) for rank in range(2)]
    assert sorted(ranks[0][0] + ranks[1][0]) == list(range(40))
    assert sorted(ranks[0][0]) == list(range(0, 40, 2))
    assert sorted(ranks[0][1] + ranks[1][1]) == list(range(40))
    assert ranks[0][2] != ranks[1][2]


@pytest.mark.parametrize("stream", [GeneratorStream, IteratorStream, OwnIterator, ResettingStream])
@pytest.mark.parametrize("taken", [0, 1, 20, 33, 34])
def test_a_shard_of_a_stream_resumes_through_the_state_of_its_stream(stream: Any, taken: int) -> None:
    dataset: Any = shard_iterable(stream(100), shard=(1, 3))
    iterator = iter(dataset)
    head = list(itertools.islice(iterator, taken))
    state = json.loads(json.dumps(dataset.state_dict()))
    tail = list(iterator)
    assert len(head + tail) == 33
    resumed: Any = shard_iterable(stream(100), shard=(1, 3))
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert list(resumed) == tail
    if stream is not OwnIterator:
        assert [list(resumed), list(resumed)] == [list(dataset), list(dataset)]


def test_states_of_the_original_and_of_the_resumed_are_equal_ever_after() -> None:
    dataset: Any = shard_iterable(GeneratorStream(400), shard=(1, 2))
    iterator = iter(dataset)
    states = [(next(iterator), dataset.state_dict())[1] for _ in range(200)]
    resumed: Any = shard_iterable(GeneratorStream(400), shard=(1, 2))
    resumed.load_state_dict(states[50])
    iterator = iter(resumed)
    assert [(next(iterator), resumed.state_dict())[1] for _ in range(149)] == states[51:]


def test_a_stream_without_state_is_read_again_with_a_warning() -> None:
    dataset: Any = shard_iterable(Plain(30), shard=(1, 2))
    iterator = iter(dataset)
    head = list(itertools.islice(iterator, 4))
    resumed: Any = shard_iterable(Plain(30), shard=(1, 2))
    resumed.load_state_dict(dataset.state_dict())
    with pytest.warns(UserWarning, match="first 8 samples again and drops them"):
        assert head + list(resumed) == list(range(1, 30, 2))


def test_a_state_of_another_shard_is_refused() -> None:
    dataset: Any = shard_iterable(range(30), shard=(1, 2))
    next(iter(dataset))
    other: Any = shard_iterable(range(30), shard=(0, 2))
    other.load_state_dict(dataset.state_dict())
    with pytest.raises(
        ValueError, match=r"expected the state of rank 0 of 2, .*, but got that of rank 1 of 2, worker 0 of 1"
    ):
        iter(other)


class Wrapped(IterableDataset[Any]):
    """Does not begin to read its inner stream before its first sample."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Any:
        yield from self.inner


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("wrap", [lambda inner: inner, Wrapped])
def test_a_seeded_shuffle_buffer_inside_is_one_order_that_all_share(wrap: Any, worker_type: str) -> None:
    order = list(ShuffleBuffer(range(60), size=20, seed=3))
    dataset = shard_iterable(wrap(ShuffleBuffer(range(60), size=20, seed=3)))
    for epoch_parts in (parts(dataset, 3, worker_type=worker_type), parts(dataset, 0)):
        assert sorted(itertools.chain(*epoch_parts)) == list(range(60))
    dataset = shard_iterable(wrap(ShuffleBuffer(range(60), size=20, seed=3)))
    assert parts(dataset, 3, worker_type=worker_type) == [order[0::3], order[1::3], order[2::3]]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_shuffle_buffer_around_shuffles_every_part(seed: int | None) -> None:
    dataset = ShuffleBuffer(shard_iterable(range(60)), size=20, seed=seed)
    found = parts(dataset, 3)
    assert [sorted(part) for part in found] == [list(range(start, 60, 3)) for start in range(3)]
    assert all(part != sorted(part) for part in found)


def test_an_unseeded_shuffle_buffer_inside_is_refused_where_it_would_lose_samples() -> None:
    dataset = shard_iterable(ShuffleBuffer(range(20), size=5))
    assert sorted(dataset) == list(range(20))
    with pytest.raises(ValueError, match="seed: expected an integer for a ShuffleBuffer inside shard_iterable"):
        parts(shard_iterable(ShuffleBuffer(range(20), size=5)), 2)
    with pytest.raises(ValueError, match="seed: expected an integer for a ShuffleBuffer inside shard_iterable"):
        list(shard_iterable(Wrapped(ShuffleBuffer(range(20), size=5, shard=(0, 2)))))


def test_sharding_twice_is_sharding_once_or_an_error() -> None:
    assert parts(shard_iterable(shard_iterable(range(8))), 2) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert list(shard_iterable(shard_iterable(range(8)), shard=(1, 2))) == [1, 3, 5, 7]
    with pytest.raises(ValueError, match="split twice"):
        list(shard_iterable(shard_iterable(range(8), shard=(0, 2))))


@pytest.mark.parametrize("taken", [0, 5, 19, 20])
@pytest.mark.parametrize("stream", [GeneratorStream, IteratorStream, ResettingStream])
def test_shards_and_shuffle_buffers_resume_nested_both_ways(stream: Any, taken: int) -> None:
    for make in (
        lambda: shard_iterable(ShuffleBuffer(stream(60), size=12, seed=3), shard=(1, 3)),
        lambda: ShuffleBuffer(shard_iterable(stream(60), shard=(1, 3)), size=12, seed=3),
        lambda: ShuffleBuffer(ShuffleBuffer(shard_iterable(stream(60), shard=(1, 3)), size=4, seed=1), size=9, seed=3),
    ):
        dataset: Any = make()
        list(dataset)
        iterator = iter(dataset)
        head = list(itertools.islice(iterator, taken))
        state = json.loads(json.dumps(dataset.state_dict()))
        tail = list(iterator)
        assert len(head + tail) == 20
        resumed: Any = make()
        resumed.load_state_dict(state)
        assert list(resumed) == tail
        assert [list(resumed), list(resumed)] == [list(dataset), list(dataset)]


def test_worker_threads_have_states_of_their_own() -> None:
    class Watching(IterableDataset[Any]):
        def __init__(self, length: int) -> None:
            self.inner: Any = shard_iterable(range(length))

        def __iter__(self) -> Any:
            for sample in self.inner:
                yield sample, self.inner.state_dict()["read"]

    found = parts(Watching(20), 2, worker_type="thread")
    assert all(read == sample + 1 for part in found for sample, read in part)
    assert sorted(sample for part in found for sample, _ in part) == list(range(20))


def test_a_shard_of_a_stream_can_be_pickled_and_works_in_torchs_loader() -> None:
    dataset = pickle.loads(pickle.dumps(shard_iterable(range(9))))
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(loader) == list(range(9))


def test_a_function_that_freezes_states_is_right_before_and_after_an_iterator_begins() -> None:
    stream = shard_iterable(range(8))
    freeze = stream.freezing()
    assert freeze()() == stream.state_dict()
    iterator = iter(stream)
    next(iterator)
    frozen, first = freeze(), stream.state_dict()
    next(iterator)
    assert frozen() == first != freeze()() == stream.state_dict()
