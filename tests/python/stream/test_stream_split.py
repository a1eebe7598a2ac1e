"""How native streams are split: batches do not depend on the workers, and other workers read the rest."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from cases.loader_kinds import take
from checks.programs import Run
from doubles.tar_files import put
from sluicegate import DataLoader, JsonLinesStream, ShuffleBuffer, TarStream, shard_iterable
from sluicegate.stream.split import Reached, WorkerSplit, reached_with_buffer, split_again

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SAMPLES = 23
BATCH = 3
WORKERS = range(4)

# The numbers of workers of loaders, each of which resumes from the state of the previous one.
OTHER_WORKERS = (2, 3, 1, 0, 2, 3, 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("split") / "a.jsonl"
    file.write_text("".join(f"{number}\n" for number in range(SAMPLES)))
    return str(file)


def loader(path: Any, num_workers: int, **arguments: Any) -> Any:
    """Return a loader of numbers; its workers are threads, which start fast."""
    stream = path if not isinstance(path, str) else JsonLinesStream(path)
    arguments = {"batch_size": BATCH, "worker_type": "thread" if num_workers else "process", **arguments}
    return DataLoader(stream, num_workers=num_workers, **arguments)


def flat(batches: list[list[int]]) -> list[int]:
    return [sample for batch in batches for sample in batch]


def in_turns(left: list[list[int]], first: int = 0) -> list[list[int]]:
    """Return the batches of workers with these remaining samples, in torch's order."""
    batches = []
    for turn in range(first, SAMPLES * len(left)):
        worker = turn % len(left)
        if left[worker]:
            batches.append(left[worker][:BATCH])
            left[worker] = left[worker][BATCH:]
    return batches


def expected(batches: list[list[int]], stop: int, num_workers: int, seed: int | None) -> list[list[int]]:
    """Return the batches that `num_workers` workers read after the first `stop` of `batches`."""
    if seed is not None:
        return batches[stop:]
    received = set(flat(batches[:stop]))
    here = max(num_workers, 1)
    left = [[sample for sample in range(worker, SAMPLES, here) if sample not in received] for worker in range(here)]
    return in_turns(left, stop % here)


def going_on(loader: Any, state: dict[str, Any] | None) -> Any:
    """Return the loader after loading `state`, if any."""
    if state is not None:
        loader.load_state_dict(state)
    return loader


def after(loader: Any, stop: int) -> dict[str, Any]:
    """Return the state after the first `stop` batches, as from JSON."""
    iterator = iter(loader)
    assert len(take(iterator, stop)) == stop
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    iterator._shutdown_workers()
    return state


def test_with_a_seed_batches_are_the_same_for_any_number_of_workers(path: str) -> None:
    alone = take(loader(path, 0, seed=7))
    assert alone == [list(range(first, min(first + BATCH, SAMPLES))) for first in range(0, SAMPLES, BATCH)]
    for num_workers in WORKERS:
        assert take(loader(path, num_workers, seed=7)) == alone
        assert take(loader(path, num_workers, seed=7, drop_last=True)) == alone[:-1]
    assert take(loader(path, 3, seed=7, worker_type="process")) == alone
    singles = DataLoader(JsonLinesStream(path), batch_size=None, num_workers=3, worker_type="thread", seed=7)
    assert list(singles) == list(range(SAMPLES))


def buffered_batches(path: str, num_workers: int, seed: int = 7, size: int = 8) -> list[list[int]]:
    return take(loader(ShuffleBuffer(JsonLinesStream(path), size=size, seed=seed), num_workers, seed=7))


def test_each_worker_shuffles_its_own_samples(path: str) -> None:
    alone = buffered_batches(path, 0)
    assert buffered_batches(path, 1) == alone
    for num_workers in (2, 3):
        batches = buffered_batches(path, num_workers)
        assert buffered_batches(path, num_workers) == batches
        assert batches != alone
        assert sorted(flat(batches)) == list(range(SAMPLES))
        for worker in range(num_workers):
            assert sorted(flat(batches[worker::num_workers])) == list(range(worker, SAMPLES, num_workers))


def test_ranks_have_the_same_samples_with_a_seed_and_without(path: str) -> None:
    for rank in range(2):
        stream = JsonLinesStream(path, shard=(rank, 2))
        for seed in (None, 7):
            batches = take(loader(stream, 2, seed=seed))
            assert sorted(flat(batches)) == list(range(rank, SAMPLES, 2))
            if seed is not None:
                assert batches == take(loader(stream, 0))


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("there", WORKERS)
def test_any_number_of_workers_resumes_from_every_position(path: str, there: int, seed: int | None) -> None:
    whole = take(loader(path, there, seed=seed))
    for stop in range(len(whole)):
        state = after(loader(path, there, seed=seed), stop)
        for here in WORKERS:
            resumed = loader(path, here, seed=seed)
            resumed.load_state_dict(state)
            follows = whole[stop:] if here == there else expected(whole, stop, here, seed)
            assert take(resumed) == follows, f"{there} to {here} workers after {stop} batches"
            assert sorted(flat(whole[:stop] + follows)) == list(range(SAMPLES))


@pytest.mark.parametrize("seed", [None, 7])
def test_number_of_workers_may_change_after_every_batch(path: str, seed: int | None) -> None:
    whole, received, state = take(loader(path, 0)), [], None
    for step in range(SAMPLES):
        stopped = going_on(loader(path, OTHER_WORKERS[step % 7], seed=seed), state)
        iterator = iter(stopped)
        # Until a worker reports its position, the state is the loaded one, and can be resumed.
        untouched = json.loads(json.dumps(stopped.state_dict()))
        batches = take(iterator, 1)
        if not batches:
            break
        state = json.loads(json.dumps(stopped.state_dict()))
        iterator._shutdown_workers()
        received += batches
        # Records of earlier splits do not accumulate.
        assert all(len(place[0]["thing"]["consumed"]) <= 3 for place in state["workers"] if place is not None)
        again = loader(path, (1, 0, 2)[step % 3], seed=seed)
        again.load_state_dict(untouched)
        assert sorted(flat(take(again) + received[:-1])) == list(range(SAMPLES))
    assert sorted(flat(received)) == list(range(SAMPLES))
    if seed is not None:
        assert received == whole


def damaged(tmp_path: pathlib.Path) -> JsonLinesStream:
    lines = [f"{number}\n" if number % 5 else "broken\n" for number in range(SAMPLES)]
    (tmp_path / "damaged.jsonl").write_text("".join(lines))
    return JsonLinesStream(tmp_path / "damaged.jsonl", on_error="skip")


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("arguments", [{}, {"in_order": False}, {"snapshot_every_n_steps": 3}], ids=str)
def test_each_sample_that_is_left_comes_once(
    tmp_path: pathlib.Path, path: str, seed: int | None, arguments: dict[str, Any]
) -> None:
    for dataset, samples in ((damaged(tmp_path), {n for n in range(SAMPLES) if n % 5}), (path, set(range(SAMPLES)))):
        for stop in range(6):
            stopped = loader(dataset, 2, seed=seed, **arguments)
            iterator = iter(stopped)
            received = take(iterator, stop)
            state = json.loads(json.dumps(stopped.state_dict()))
            iterator._shutdown_workers()
            for here in (0, 3):
                resumed = loader(dataset, here, seed=seed, **arguments)
                resumed.load_state_dict(state)
                assert sorted(flat(received + take(resumed))) == sorted(samples)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_ranks_resume_with_other_workers_each_from_its_own_state(path: str, stop: int) -> None:
    received = []
    for rank in range(2):
        stream = JsonLinesStream(path, shard=(rank, 2))
        stopped = loader(stream, 2)
        iterator = iter(stopped)
        received += take(iterator, stop)
        state = stopped.state_dict()
        iterator._shutdown_workers()
        resumed = loader(JsonLinesStream(path, shard=(rank, 2)), 3)
        resumed.load_state_dict(state)
        received += take(resumed)
        if stop:
            other = loader(JsonLinesStream(path, shard=(1 - rank, 2)), 0)
            other.load_state_dict(state)
            with pytest.raises(ValueError, match=f"but got that of rank {rank} of 2"):
                iter(other)
    assert sorted(flat(received)) == list(range(SAMPLES))


@pytest.mark.parametrize("here", WORKERS)
def test_a_state_of_an_older_version_without_runs_resumes(path: str, here: int) -> None:
    whole = take(loader(path, 2, seed=None))
    state = after(loader(path, 2, seed=None), 3)
    for place in filter(None, state["workers"]):
        del place[0]["thing"]["run"], place[0]["thing"]["consumed"]
    resumed = loader(path, here, seed=None)
    resumed.load_state_dict(state)
    follows = take(resumed)
    assert sorted(flat(whole[:3] + follows)) == list(range(SAMPLES))
    assert here != 2 or follows == whole[3:]


def test_ids_are_those_of_a_run_with_as_many_workers(path: str) -> None:
    def told(loader: Any) -> list[Any]:
        return [(ids.worker, ids.batch_index, ids.sample_indices.tolist()) for _, ids in loader.with_ids()]

    whole = told(loader(path, 3, seed=7))
    for stop in range(8):
        resumed = loader(path, 3, seed=7)
        resumed.load_state_dict(after(loader(path, 2, seed=7), stop))
        assert told(resumed) == whole[stop:]


def test_the_epoch_after_a_resume_is_whole_for_any_number_of_workers(path: str) -> None:
    for here in WORKERS:
        stopped = loader(path, 2, persistent_workers=True)
        take(stopped)
        resumed = loader(path, here, persistent_workers=here > 0)
        resumed.load_state_dict(stopped.state_dict())
        for _ in range(2):
            assert sorted(flat(take(resumed))) == list(range(SAMPLES))
        # An epoch that has begun, unread, with workers that persist from the previous one.
        take(stopped)
        iterator = iter(stopped)
        state = stopped.state_dict()
        take(iterator, 1)
        begun = stopped.state_dict()
        for told, already in ((state, 0), (begun, BATCH)):
            resumed = loader(path, here, persistent_workers=here > 0)
            resumed.load_state_dict(told)
            assert len(flat(take(resumed))) == SAMPLES - already
            assert sorted(flat(take(resumed))) == list(range(SAMPLES))


def test_a_source_readable_once_resumes_with_or_without_a_worker(tmp_path: pathlib.Path, path: str) -> None:
    with open(path, "rb") as file:
        state = after(DataLoader(JsonLinesStream(file), BATCH), 2)
    rest = tmp_path / "rest"
    rest.write_text("6\n7\n")
    with open(rest, "rb") as file:
        resumed = loader(JsonLinesStream(file, continues=True), 1)
        resumed.load_state_dict(state)
        assert take(resumed) == [[6, 7]]
    with open(rest, "rb") as file:
        resumed = loader(JsonLinesStream(file), 1)
        resumed.load_state_dict(state)
        with pytest.raises(ValueError, match="continues=True"):
            next(iter(resumed))


def shuffled(stream: Any, size: int = 5, seed: int | None = 3) -> ShuffleBuffer[int]:
    return ShuffleBuffer(stream, size, seed)


@pytest.mark.parametrize("there", WORKERS)
def test_other_workers_also_read_the_samples_left_in_shuffle_buffers(path: str, there: int) -> None:
    whole = take(loader(shuffled(JsonLinesStream(path)), there))
    # The next epoch equals that of a loader with the same number of workers.
    following = []
    for here in WORKERS:
        fresh = loader(shuffled(JsonLinesStream(path)), here)
        fresh.set_epoch(1)
        following.append(take(fresh))
    for stop in range(len(whole)):
        state = after(loader(shuffled(JsonLinesStream(path)), there), stop)
        for here in WORKERS:
            resumed = loader(shuffled(JsonLinesStream(path)), here)
            resumed.load_state_dict(state)
            follows = take(resumed)
            assert sorted(flat(whole[:stop] + follows)) == list(range(SAMPLES)), f"{there} to {here} after {stop}"
            if max(here, 1) == max(there, 1):
                assert follows == whole[stop:]
            assert take(resumed) == following[here]


def test_a_buffer_over_a_stream_with_a_shard_of_its_own_stays_of_its_rank(path: str) -> None:
    received: list[list[int]] = []
    state = None
    for num_workers, batches in [(1, 1), (2, 2), (2, 1), (0, None)]:
        stopped = going_on(loader(shuffled(JsonLinesStream(path, shard=(1, 2))), num_workers), state)
        iterator = iter(stopped)
        received += take(iterator, batches)
        state = json.loads(json.dumps(stopped.state_dict()))
    assert sorted(flat(received)) == list(range(1, SAMPLES, 2))


@pytest.mark.parametrize("seed", [None, 7])
def test_a_shuffled_stream_resumes_with_other_workers_after_every_batch(path: str, seed: int | None) -> None:
    received: list[list[int]] = []
    state = None
    for step in range(SAMPLES):
        stopped = going_on(
            loader(shuffled(JsonLinesStream(path), seed=seed), OTHER_WORKERS[step % 7], seed=seed), state
        )
        iterator = iter(stopped)
        batches = take(iterator, 1)
        if not batches:
            break
        state = json.loads(json.dumps(stopped.state_dict()))
        iterator._shutdown_workers()
        received += batches
    assert sorted(flat(received)) == list(range(SAMPLES))


def test_skipped_samples_do_not_count_in_a_split(tmp_path: pathlib.Path) -> None:
    members = [(f"{number:02}.{ending}", b"1") for number in range(20) for ending in ("cls", "txt")[: 1 + number % 3]]
    archive = put(tmp_path / "a.tar", members)

    def keys(batches: Any) -> list[str]:
        return [key for batch in batches for key in batch["__key__"]]

    def stream() -> Any:
        return shuffled(TarStream(archive, {"cls": int, "txt": "str"}, on_missing="skip"))

    whole = keys(loader(stream(), 0))
    assert len(whole) == 13
    for stop in range(4):
        stopped = loader(stream(), 2)
        iterator = iter(stopped)
        received = [next(iterator) for _ in range(stop)]
        resumed = loader(stream(), 3)
        resumed.load_state_dict(stopped.state_dict())
        assert sorted(keys(received) + keys(resumed)) == sorted(whole)


class Doubled(JsonLinesStream):
    """Reads in its own `__iter__`, so that the loader can't know how many samples it has taken."""

    def __iter__(self) -> Iterator[int]:
        for sample in super().__iter__():
            yield 2 * sample


def test_streams_that_cannot_be_split_again_are_an_error(path: str) -> None:
    def streams() -> list[Any]:
        return [
            shuffled(JsonLinesStream(path, on_error="skip")),
            shuffled(shard_iterable(range(SAMPLES))),
            shard_iterable(range(SAMPLES)),
            Doubled(path),
            shuffled(Doubled(path)),
        ]

    for stream, again in zip(streams(), streams(), strict=True):
        state = after(loader(stream, 2), 1)
        resumed = loader(again, 3)
        resumed.load_state_dict(state)
        with pytest.raises(AssertionError, match=r"num_workers: expected 2, .* got 3; build .* num_workers=2"):
            iter(resumed)
    state = after(loader(shuffled(JsonLinesStream(path)), 2, snapshot_every_n_steps=4), 3)
    resumed = loader(shuffled(JsonLinesStream(path)), 3)
    resumed.load_state_dict(state)
    with pytest.raises(AssertionError, match="snapshot_every_n_steps=1"):
        iter(resumed)


PROGRAM = """
import json
from test_stream_split import loader, take

for path, here, seed, state in json.loads(cases):
    resumed = loader(path, here, seed=seed, worker_type="process")
    resumed.load_state_dict(state)
    print(json.dumps(take(resumed)))
"""


def test_stream_resumes_in_a_new_process_with_worker_processes(run: Run, path: str) -> None:
    cases, follows = [], []
    for there, here, seed, stop in ((2, 3, None, 3), (3, 2, 7, 4), (2, 0, None, 5)):
        state = after(loader(path, there, seed=seed, worker_type="process"), stop)
        cases.append((path, here, seed, state))
        follows.append(expected(take(loader(path, there, seed=seed)), stop, here, seed))
    output = run('warnings.simplefilter("ignore")\n' + PROGRAM, cases=json.dumps(cases), deadline=60)
    output.check(stderr=None)
    assert [json.loads(line) for line in output.stdout.splitlines()] == follows


def test_the_arithmetic_of_a_split_is_that_of_the_samples_one_by_one() -> None:
    for rank, world_size, num_workers, run in [(0, 1, 1, 1), (1, 2, 3, 1), (2, 3, 2, 4), (0, 1, 3, 5)]:
        split = WorkerSplit(rank, world_size, num_workers, run)
        owners = [split.worker_of(ordinal) for ordinal in range(100)]
        assert {owner for owner in owners if owner is not None} == set(range(num_workers))
        for worker in range(num_workers):
            own = [ordinal for ordinal, owner in enumerate(owners) if owner == worker]
            for stop in range(60):
                assert split.count(worker, stop) == sum(ordinal < stop for ordinal in own)
                assert split.next_of(worker, stop) == next(ordinal for ordinal in own if ordinal >= stop)


def stream_state(ordinal: int, consumed: list[Any]) -> dict[str, Any]:
    consumer = {"rank": 0, "world_size": 1, "worker": 1, "num_workers": 2}
    place = {"inner": [ordinal, 0, 0, 10 * ordinal], "run": 1, "consumed": consumed, "ended": False}
    return {"consumer": consumer, **place}


def test_a_state_goes_back_to_the_last_place_before_which_all_was_read() -> None:
    # Worker 0 has read samples 0, 2 and 4; worker 1 only sample 1.
    reached = [Reached(stream_state(ordinal, []), ordinal, []) for ordinal in (5, 2)]
    first, second = split_again(reached, 2, 2)
    assert first["inner"] == second["inner"] == [2, 0, 0, 20]
    assert first["consumed"] == second["consumed"] == [[2, 1, [5, 2], []]]
    assert (first["read"], second["read"]) == (3, 1)
    # At the same position, they leave nothing to skip.
    (alone,) = split_again([reached[0], Reached(stream_state(4, []), 4, [])], 1, 1)
    assert (alone["inner"], alone["consumed"], alone["read"]) == ([5, 0, 0, 50], [], 5)


def test_a_buffer_holds_samples_of_its_part_that_were_not_read_before() -> None:
    # Of samples 5, 7, 9, ..., a different worker read 9, so the buffer's samples 3 to 6 are 5, 7, 11, and 13.
    state = stream_state(5, [[1, 1, [10], [0, 5, 7]]])
    assert reached_with_buffer(state, 3, 7, [6, 4]) == Reached(state, 14, [7, 13])
    # A loader that resumes from it starts at the state's position.
    (alone,) = split_again([None, reached_with_buffer(state, 3, 7, [6, 4])], 1, 1)
    assert alone["inner"] == [0, 0, 0, 0]
