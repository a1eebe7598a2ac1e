"""Native streams with workers: threads yield the batches and the states that worker processes yield."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch

from cases import native_streams
from cases.loader_kinds import take
from cases.native_streams import Case
from checks.equality import assert_same
from checks.resources import descriptors
from doubles.photographs import encoded, photograph
from doubles.tar_files import put
from sluicegate import DataLoader, ImageField, JsonLinesStream, ShuffleBuffer, TarStream, shard_iterable, transforms
from sluicegate.worker.pace import Pace
from sluicegate.worker.report import Reporter
from sluicegate.worker.thread_main import ThreadWorker

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

case = native_streams.case
# A worker whose stream has failed repeats its error.
MOST_ERRORS = 7


# The thread that fetches batches: workers in advance, the calling thread when they are due, or both in turn.
PACES = {"ahead": lambda draw: True, "here": lambda draw: False, "in turn": lambda draw: draw.random() < 0.5}


@contextlib.contextmanager
def at_pace(name: str) -> Iterator[None]:
    draw = random.Random(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pace, "pays_ahead", lambda pace: PACES[name](draw))
        yield


@pytest.fixture(params=PACES)
def pace(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_pace(request.param):
        yield request.param


def numbers(tmp_path: pathlib.Path, count: int, broken: Callable[[int], bool] = lambda number: False) -> str:
    path = tmp_path / "numbers.jsonl"
    path.write_text("".join("{\n" if broken(number) else f'{{"x": {number}}}\n' for number in range(count)))
    return str(path)


def of_threads(make: Callable[[], Any], **arguments: Any) -> Any:
    loader = DataLoader(make(), **arguments)
    assert loader.explain().engine == "rust"
    return loader


def of_processes(make: Callable[[], Any], **arguments: Any) -> Any:
    loader = DataLoader(make(), native=False, **arguments)
    assert loader.explain().engine == ("rust processes" if arguments["num_workers"] else "rust")
    return loader


def both(make: Callable[[], Any], **arguments: Any) -> tuple[Any, Any]:
    """Return a loader whose workers are threads, and one whose workers are processes."""
    return of_threads(make, **arguments), of_processes(make, **arguments)


def told(loader: Any, epochs: int) -> Iterator[tuple[Any, Any]]:
    """Yield the batches and errors of some epochs, each with the state after it."""
    for _ in range(epochs):
        iterator, errors = iter(loader), 0
        while errors < MOST_ERRORS:
            try:
                batch = next(iterator)
            except StopIteration:
                break
            except Exception as error:
                batch, errors = (type(error), str(error)), errors + 1
            yield batch, json.loads(json.dumps(loader.state_dict()))
        yield None, json.loads(json.dumps(loader.state_dict()))


def check_alike(
    make: Callable[[], Any], epochs: int = 2, state: Any = None, paces: Iterable[str] = PACES, **arguments: Any
) -> list[tuple[Any, Any]]:
    """Check threads at each pace against processes, from `state` on; return the batches, with the states after them."""
    processes = of_processes(make, **arguments)
    if state is not None:
        processes.load_state_dict(state)
    torch.manual_seed(1)
    those = list(told(processes, epochs))
    for each in paces:
        threads = of_threads(make, **arguments)
        if state is not None:
            threads.load_state_dict(state)
        torch.manual_seed(1)
        with at_pace(each):
            for (batch, after), (other, other_after) in zip(told(threads, epochs), those, strict=True):
                assert_same(batch, other)
                assert after == other_after
    return those


def arguments_of(draws: random.Random) -> dict[str, Any]:
    return {
        "num_workers": draws.randint(1, 3),
        "batch_size": draws.choice([1, 3, 4, 50]),
        "drop_last": draws.random() < 0.5,
        "prefetch_factor": draws.choice([1, 2, 5]),
        "persistent_workers": draws.random() < 0.5,
        "in_order": draws.random() < 0.8,
        "snapshot_every_n_steps": draws.choice([1, 1, 3]),
        "seed": draws.choice([None, 7]),
    }


@pytest.mark.parametrize("number", range(3))
def test_batches_and_states_are_those_of_worker_processes(case: Case, number: int) -> None:
    make, _, path = case
    draws = random.Random(zlib.crc32(f"{pathlib.Path(path).name} {number}".encode()))
    arguments = arguments_of(draws)
    arguments["in_order"] = True
    # With fewer snapshots, the number of samples to read again depends on the prefetched batches.
    paces = {arguments.pop("snapshot_every_n_steps"): ["ahead"]}
    paces.setdefault(1, []).extend(["here", "in turn"])
    size, buffer_seed, shard = draws.choice([None, 1, 6, 100]), draws.choice([None, 3]), draws.choice([None, (1, 2)])

    def made() -> Any:
        stream = make([path, path], shard=shard)
        return stream if size is None else ShuffleBuffer(stream, size, buffer_seed, shard=shard)

    epochs = 2 if arguments["persistent_workers"] else 1  # other workers begin the second as the first
    for every, each in paces.items():
        check_alike(made, epochs, paces=each, snapshot_every_n_steps=every, **arguments)


def test_images_are_those_of_worker_processes(tmp_path: pathlib.Path) -> None:
    members = [(f"{number:04}.jpg", encoded(photograph(number, 50 + number, 44), quality=90)) for number in range(13)]
    members[5] = ("0005.jpg", b"no image")
    path = put(tmp_path / "a.tar", members)
    for transform, seed in ((transforms.Resize((12, 10)), None), (transforms.RandomResizedCrop(8), 7)):
        for on_error in ("raise", "skip"):
            fields = {"jpg": ImageField(transform)}
            make = functools.partial(TarStream, path, fields, on_error=on_error)
            check_alike(make, paces=["ahead"], num_workers=2, batch_size=3, seed=seed)
    random_without_seed = DataLoader(
        TarStream(path, {"jpg": ImageField(transforms.RandomResizedCrop(8))}), num_workers=2
    )
    assert random_without_seed.explain().engine == "rust processes"


@pytest.mark.parametrize("shuffled", [False, True])
def test_states_of_either_are_loaded_by_the_other(shuffled: bool, tmp_path: pathlib.Path) -> None:
    path = numbers(tmp_path, 41)

    def made() -> Any:
        stream = JsonLinesStream(path)
        return ShuffleBuffer(stream, 7, 3) if shuffled else stream

    # The states of threads, at every pace, and of processes are equal.
    whole = check_alike(made, num_workers=2, batch_size=3)
    threads, processes = both(made, num_workers=2, batch_size=3)
    last = len(whole) // 2 - 1
    for stop in (0, 1, 4, last):
        expected = [batch for batch, _ in whole[stop + 1 :]]
        for loading, pace in ((processes, "ahead"), *((threads, pace) for pace in PACES)):
            loading.load_state_dict(whole[stop][1])
            with at_pace(pace):
                assert_same([batch for batch, _ in told(loading, 2 if stop < last else 1)], expected)


def test_other_numbers_of_workers_read_the_remaining_samples(tmp_path: pathlib.Path) -> None:
    path = numbers(tmp_path, 41)
    state: Any = None
    for num_workers in (2, 3, 1, 0, 2):
        alike = check_alike(lambda: JsonLinesStream(path), 1, state, num_workers=num_workers, batch_size=3)
        state = alike[1][1]


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("on_error", "shuffled", "seed"),
    [("raise", False, None), ("raise", True, 7), ("skip", False, 7), ("skip", True, None)],
)
def test_damage_comes_with_the_same_batch_and_words(
    on_error: str, shuffled: bool, seed: int | None, tmp_path: pathlib.Path
) -> None:
    path = numbers(tmp_path, 60, lambda number: number in (11, 30, 31))
    (tmp_path / "rest.jsonl").write_text('{"x": 1}\n{"x": 2}\n')

    def made() -> Any:
        stream = JsonLinesStream([path, str(tmp_path / "rest.jsonl")], on_error=on_error)
        return ShuffleBuffer(stream, 5, 3) if shuffled else stream

    errors = [batch for batch, _ in check_alike(made, 1, num_workers=2, batch_size=4, seed=seed)]
    assert any(isinstance(batch, tuple) for batch in errors) == (on_error == "raise")


def test_files_that_end_early_or_are_missing_come_with_the_same_batch_and_words(case: Case) -> None:
    make, _, path = case
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(f"{path}.cut").write_bytes(data[: len(data) * 2 // 3])
    damage = [("cut", "raise", PACES), ("cut", "skip", ["in turn"]), ("missing", "raise", ["ahead"])]
    if make is JsonLinesStream:  # No format opens the files itself.
        damage.append(("missing", "skip", PACES))
    for ending, on_error, paces in damage:
        made = functools.partial(make, [path, f"{path}.{ending}", path], on_error=on_error)
        check_alike(made, 1, paces=paces, num_workers=2, batch_size=4)


@pytest.mark.usefixtures("pace")
def test_a_worker_whose_samples_are_all_damaged_does_not_stop_the_others(tmp_path: pathlib.Path) -> None:
    path = numbers(tmp_path, 20_000, lambda number: number % 2 == 1)
    for batch_size in (5, 500):
        loader = DataLoader(JsonLinesStream(path, on_error="skip"), num_workers=2, batch_size=batch_size)
        found = [number for batch in loader for number in batch["x"].tolist()]
        assert found == list(range(0, 20_000, 2))


def test_an_abandoned_iterator_stops_reading(tmp_path: pathlib.Path) -> None:
    path = numbers(tmp_path, 300_000)

    def is_reading() -> bool:
        names = [pathlib.Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
        return any(name.read_text().startswith("sluicegate-read") for name in names if name.exists())

    before, threads = descriptors(), threading.active_count()
    loader = DataLoader(JsonLinesStream(path), num_workers=2, batch_size=5)
    for stop in (0, 1, 7):
        first, second = iter(loader), iter(loader)
        take(first, stop)
        take(second, 2)
        del first, second
    deadline = time.monotonic() + 10
    while is_reading() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_reading()
    assert threading.active_count() == threads
    assert descriptors() <= before + 2


@pytest.mark.usefixtures("pace")
def test_a_worker_that_waits_for_a_program_ends_at_once() -> None:
    stream = JsonLinesStream("pipe:echo 1; echo 2; exec sleep 1000")
    iterator = iter(DataLoader(stream, num_workers=2, batch_size=1))
    assert [next(iterator).tolist() for _ in range(2)] == [[1], [2]]
    begin = time.monotonic()
    del iterator
    assert time.monotonic() - begin < 5


def test_iterators_at_once_and_one_after_a_break(case: Case) -> None:
    make, _, path = case

    def after_a_break(loader: Any) -> list[Any]:
        take(iter(loader), 2)
        return list(loader)

    for persistent in (False, True):
        arguments = {"num_workers": 2, "batch_size": 3, "persistent_workers": persistent}
        expected = after_a_break(of_processes(lambda: make([path, path]), **arguments))
        for pace in PACES:
            with at_pace(pace):
                assert_same(after_a_break(of_threads(lambda: make([path, path]), **arguments)), expected)
    for pace in PACES:
        with at_pace(pace):
            loader = DataLoader(ShuffleBuffer(make([path, path]), 5, 3), num_workers=2, batch_size=3)
            whole = list(loader)
            loader.set_epoch(0)
            first = iter(loader)
            loader.set_epoch(0)
            assert_same([pair[0] for pair in zip(first, iter(loader), strict=True)], whole)


class Derived(JsonLinesStream):
    """A user-defined stream."""


def seeds(worker: int) -> None:
    torch.manual_seed(worker)


def test_streams_that_can_observe_their_process_are_read_by_processes(tmp_path: pathlib.Path) -> None:
    path = numbers(tmp_path, 5)
    assert DataLoader(JsonLinesStream(path), num_workers=2, worker_init_fn=seeds).explain().engine == "rust"
    assert DataLoader(ShuffleBuffer(JsonLinesStream(path), 2), num_workers=2).explain().engine == "rust"
    for stream, arguments in (
        (Derived(path), {}),
        (JsonLinesStream(path), {"worker_init_fn": print}),
        (JsonLinesStream(path), {"multiprocessing_context": "fork"}),
        (JsonLinesStream(path), {"native": False}),
        (ShuffleBuffer(Derived(path), 2), {}),
    ):
        explanation = DataLoader(stream, num_workers=2, **arguments).explain()
        assert explanation.engine == "rust processes"
        assert explanation.reason is not None
    for stream, arguments in (
        (shard_iterable(JsonLinesStream(path)), {}),
        (JsonLinesStream(path), {"collate_fn": list}),
        (JsonLinesStream(path), {"batch_size": None}),
        (ShuffleBuffer(JsonLinesStream(path), max_bytes=100), {}),
    ):
        assert DataLoader(stream, num_workers=2, **arguments).explain().engine == "python processes"
    assert "engine: rust" in repr(DataLoader(JsonLinesStream(path), num_workers=2))


def test_the_thread_that_fetches_is_the_one_that_pays(
    pace: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, infos = [], []
    fetch = ThreadWorker._fetched

    def recorded(worker: ThreadWorker, index: Any, epoch: int) -> Any:
        fetched.append(threading.current_thread() is threading.main_thread())
        infos.append((worker.worker, torch.utils.data.get_worker_info().id))  # type: ignore[union-attr]
        return fetch(worker, index, epoch)

    monkeypatch.setattr(ThreadWorker, "_fetched", recorded)
    loader = DataLoader(JsonLinesStream(numbers(tmp_path, 200)), num_workers=2, batch_size=5, persistent_workers=True)
    for _ in range(2):
        assert sorted(x for batch in loader for x in batch["x"].tolist()) == list(range(200))
        assert torch.utils.data.get_worker_info() is None
    assert all(number == told for number, told in infos)
    # A worker fetches the batches that are due before it has started.
    assert (sum(fetched) > 0) == (pace != "ahead")


@pytest.mark.usefixtures("pace")
def test_a_source_that_stalls_ends_with_the_timeout() -> None:
    stream = JsonLinesStream("pipe:seq 5; exec sleep 1000")
    iterator = iter(DataLoader(stream, num_workers=2, batch_size=1, timeout=2))
    assert [next(iterator).item() for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 2 seconds: worker 1 .* has been fetching"):
        next(iterator)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_while_a_batch_is_fetched_here_loses_nothing(
    shuffled: bool, persistent: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = numbers(tmp_path, 100)

    def loader() -> Any:
        stream = JsonLinesStream(path)
        return DataLoader(
            ShuffleBuffer(stream, 7, 3) if shuffled else stream,
            num_workers=2,
            batch_size=3,
            persistent_workers=persistent,
        )

    torch.manual_seed(1)
    expected = list(told(loader(), 2))
    monkeypatch.setattr(Pace, "pays_ahead", lambda pace: False)

    def torn(call: Callable[..., Any]) -> Callable[..., Any]:
        def interrupted(*arguments: Any) -> Any:
            result = call(*arguments)
            if threading.current_thread() is threading.main_thread() and next(interrupts):
                raise KeyboardInterrupt
            return result

        return interrupted

    for owner, name in ((ThreadWorker, "_fetched"), (Reporter, "report")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, torn(getattr(owner, name)))
            interrupts = iter([number in (1, 5, 6, 20, 40, 41) for number in range(1000)])
            found, loaded = [], loader()
            torch.manual_seed(1)
            for _ in range(2):
                iterator = iter(loaded)
                while True:
                    try:
                        found.append((next(iterator), loaded.state_dict()))
                    except StopIteration:
                        break
                    except KeyboardInterrupt:
                        continue
                found.append((None, loaded.state_dict()))
            assert next(interrupts) is False  # all other interrupts were raised
            assert_same([batch for batch, _ in found], [batch for batch, _ in expected])
            assert_same([json.loads(json.dumps(state)) for _, state in found], [state for _, state in expected])


def test_workers_that_another_thread_ends_while_a_batch_is_fetched_here_end_the_iteration(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "pays_ahead", lambda pace: False)
    iterator: Any = iter(DataLoader(JsonLinesStream(numbers(tmp_path, 200)), num_workers=2, batch_size=5))
    take(iterator, 10)
    fetch = ThreadWorker._fetched

    def ended(worker: ThreadWorker, index: Any, epoch: int) -> Any:
        thread = threading.Thread(target=iterator._shutdown_workers)
        thread.start()
        thread.join()
        fetch(worker, index, epoch)
        raise RuntimeError("its workers have been ended")

    monkeypatch.setattr(ThreadWorker, "_fetched", ended)
    with pytest.raises(StopIteration):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_pace_is_worth_a_thread_while_the_consumer_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, work = [0.0], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(time, "thread_time", lambda: work[0])

    def decisions(pace: Pace, batches: int, away: float, taken: float) -> list[bool]:
        found = []

        def fetch() -> None:
            clock[0] += 0.5
            work[0] += taken

        for _ in range(batches):
            clock[0] += away
            found.append(pace.pays_ahead())
            pace.measured(fetch)
            pace.since = clock[0]
        return found

    pace = Pace()
    assert pace.pays_ahead()  # without measurements
    assert not any(decisions(pace, 40, away=0.0, taken=0.001)[1:])
    assert decisions(pace, 40, away=0.01, taken=0.001)[8:] == [True] * 32
    assert decisions(pace, 80, away=0.0001, taken=0.001)[40:] == [False] * 40
    # The consumer is away for less time than handing over a batch takes.
    assert decisions(Pace(), 40, away=20e-6, taken=1e-6)[1:] == [False] * 39
