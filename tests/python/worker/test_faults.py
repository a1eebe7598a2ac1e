"""The death of a worker: the report to the consumer, and the resources that are left."""

from __future__ import annotations

import re
import signal
import time
from types import ModuleType

import pytest
import torch

import sluicegate
from checks.endings import ended_workers, read_until_error, story
from checks.equality import assert_same, error_of
from checks.programs import Run, package_name
from checks.resources import memory_group, remove_group
from doubles import faulty
from sluicegate.system import deadlines

pytestmark = [
    pytest.mark.slots,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.timeout(45),
]

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
DEATHS = {
    "SIGKILL": "Killed",
    "SIGSEGV": "Segmentation fault",
    "SIGBUS": "Bus error",
    "SIGTERM": "Terminated",
    "SIGABRT": "Aborted",
}
CAUSES = {"SIGKILL": r"memory", "SIGBUS": r"/dev/shm|shared memory", "SIGSEGV": r"native|extension|C\+\+"}


# Torch's SIGCHLD handler raises anywhere in the main thread, so torch's loader is only tested in programs.
REPORT = """
import re
from checks.endings import read_until_error, story
iterator = iter(data.DataLoader(faulty.Dying(12, at, how), batch_size=2, num_workers=2))
pid = iterator._workers[at % 4 // 2].pid
delivered, error = read_until_error(iterator)
assert type(error) is RuntimeError
assert re.search(words.replace("PID", str(pid)), story(error)), story(error)
assert len(delivered) <= at // 2
for number, batch in enumerate(delivered):
    assert_same(batch, torch.full((2, 3), 2 * number) + torch.tensor([[0], [1]]))
"""


def death_at(data: ModuleType) -> int:
    """Return the sample at which a worker dies: the first for torch, whose dying workers lose undelivered batches."""
    return 6 if data is sluicegate else 0


def reported(run: Run, data: ModuleType, how: str, words: str) -> None:
    """Assert that the consumer gets this error. Torch raises it wherever its main thread is at that moment."""
    for attempts_left in reversed(range(1 if data is sluicegate else 5)):
        # Torch's workers also write to stderr.
        ended = run(REPORT, package_name(data), at=death_at(data), how=how, words=words)
        try:
            ended.check(stderr="" if data is sluicegate else None)
            break
        except AssertionError:
            if not attempts_left:
                raise


@pytest.mark.parametrize("how", DEATHS)
def test_a_killed_worker_is_reported_in_torchs_words(run: Run, data: ModuleType, how: str) -> None:
    words = rf"DataLoader worker \(pid PID\) is killed by signal: {DEATHS[how]}"
    reported(run, data, how, words)


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_that_leaves_by_os_exit_is_reported(run: Run, data: ModuleType, code: int) -> None:
    words = r"DataLoader worker \(pid(\(s\))? PID\) exited unexpectedly"
    reported(run, data, f"exit {code}", words)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSEGV", "SIGBUS", "exit 3"])
def test_the_report_names_worker_batch_indices_and_cause(how: str) -> None:
    iterator = iter(sluicegate.DataLoader(faulty.Dying(12, 6, how), batch_size=2, num_workers=2))
    pid = iterator._workers[1].pid
    _, error = read_until_error(iterator)
    said = story(error)
    assert str(pid) in said
    assert re.search(r"\bworker 1\b", said, re.IGNORECASE)
    assert re.search(r"\bbatch (number )?3\b", said, re.IGNORECASE)
    assert re.search(r"\b6, 7\b", said)
    if how.startswith("exit"):
        assert re.search(r"\b(code|status)[ :=]*3\b", said)
    else:
        assert re.search(rf"\b{how}\b|\bsignal {int(getattr(signal, how))}\b", said) or DEATHS[how] in said
        assert re.search(CAUSES[how], said)


def test_the_report_of_a_stream_names_the_worker() -> None:
    loader = sluicegate.DataLoader(faulty.DyingStream(12, 5, "SIGKILL"), batch_size=2, num_workers=1)
    delivered, error = read_until_error(iter(loader))
    assert type(error) is RuntimeError
    assert re.search(r"\bworker 0\b", story(error), re.IGNORECASE)
    assert re.search(r"\bbatch (number )?2\b", story(error), re.IGNORECASE)
    assert "is killed by signal: Killed" in story(error)
    assert "the next samples of its stream" in story(error)
    assert len(delivered) <= 2


class BusyAndDying(faulty.Dying):
    """The worker that does not die sleeps."""

    def before(self, index: int) -> None:
        if index == 4:
            time.sleep(faulty.FOREVER)
        super().before(index)


@pytest.mark.parametrize("how", ["SIGKILL", "exit 0", "exit 3"])
def test_the_death_of_a_worker_is_raised_before_any_deadline(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GRACE", "TERMINATION", "STALL"):
        monkeypatch.setattr(deadlines, name, float(faulty.FOREVER))
    clock = torch.zeros(1, dtype=torch.float64).share_memory_()
    loader = sluicegate.DataLoader(BusyAndDying(12, 6, how, clock), batch_size=2, num_workers=2)
    read_until_error(iter(loader))
    # Torch checks for dead workers every five seconds.
    assert time.monotonic() - float(clock[0]) < 5


def test_afterwards_the_iterator_is_finished_and_the_other_workers_end() -> None:
    iterator = iter(sluicegate.DataLoader(faulty.Dying(100, 6, "SIGKILL"), batch_size=2, num_workers=3))
    workers = list(iterator._workers)
    read_until_error(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
    assert ended_workers(workers)  # while the iterator is still held


def test_the_death_of_an_idle_worker_is_reported_by_name() -> None:
    iterator = iter(sluicegate.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=2, prefetch_factor=1))
    next(iterator)
    workers = list(iterator._workers)
    workers[0].kill()
    workers[0].join(10)
    _, error = read_until_error(iterator)
    assert f"DataLoader worker (pid {workers[0].pid}) is killed by signal: Killed" in story(error)
    assert ended_workers(workers)


def test_a_death_out_of_order_is_reported_too() -> None:
    dataset = faulty.Dying(12, 6, "SIGKILL")
    delivered, error = read_until_error(
        iter(sluicegate.DataLoader(dataset, batch_size=2, num_workers=2, in_order=False))
    )
    assert "is killed by signal: Killed" in story(error)
    assert len(delivered) <= 5


def test_a_death_in_worker_init_fn_is_reported() -> None:
    loader = sluicegate.DataLoader(faulty.Numbers(40), num_workers=2, worker_init_fn=faulty.dying_init)
    error = error_of(lambda: list(loader))
    assert type(error) is RuntimeError
    assert "is killed by signal: Killed" in story(error)


@pytest.mark.parametrize("persistent", [False, True])
def test_the_loader_starts_again_after_a_death(persistent: bool) -> None:
    dataset = faulty.Dying(12, 6, "SIGKILL")
    loader = sluicegate.DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=persistent)
    error_of(lambda: list(loader))
    if persistent:
        loader._iterator = None  # users of torch have to do this too: the loader does not restart its workers
    dataset.at = -1
    assert [int(batch[0, 0]) for batch in loader] == list(range(0, 12, 2))


@pytest.mark.parametrize("kind", ["keyboard_interrupt", "system_exit"])
def test_a_worker_that_raises_an_exit_is_reported_and_nothing_hangs(run: Run, kind: str) -> None:
    source = """
    from checks.endings import story
    before = Resources.now()
    loader = data.DataLoader(faulty.Raising(12, {6}, getattr(faulty, kind)), batch_size=2, num_workers=2)
    try:
        for batch in loader:
            batch = None
    except BaseException as error:  # as what it arrives is not laid down
        assert isinstance(error, RuntimeError | KeyboardInterrupt | SystemExit), error
        assert type(error) is not RuntimeError or "exited unexpectedly" in story(error), story(error)
    else:
        raise AssertionError("no error")
    del loader
    before.check(15)
    """
    run(source, kind=kind).check()


@METHODS
def test_a_death_is_reported_by_every_start_method(method: str) -> None:
    dataset = faulty.Dying(8, 2, "SIGKILL")
    delivered, error = read_until_error(
        iter(sluicegate.DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context=method))
    )
    assert type(error) is RuntimeError
    assert re.search(r"DataLoader worker \(pid \d+\) is killed by signal: Killed", story(error))
    assert re.search(r"\b2, 3\b", story(error))
    assert_same(delivered, [torch.tensor([[0] * 3, [1] * 3])][: len(delivered)])


def test_kept_batches_outlive_a_killed_worker_and_the_loader(run: Run) -> None:
    source = """
    sizes = [(1 << 20) + index for index in range(40)]
    loader = data.DataLoader(faulty.Sized(sizes), batch_size=None, num_workers=2)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(6)]
    workers = list(iterator._workers)
    try:
        for worker in workers:
            worker.kill()
        for sample in iterator:
            pass
    except RuntimeError:
        pass
    else:
        raise AssertionError("no error")
    del iterator, loader
    for worker in workers:
        worker.join(10)
    gc.collect()
    for index, sample in enumerate(kept):
        assert len(sample) == sizes[index]
        assert bool((sample == index).all())
        sample.fill_(7)
    """
    run(source).check()


DEATH = """
before = Resources.now()
for how in hows:
    loader = data.DataLoader(faulty.Dying(40, 6, how), batch_size=2, num_workers=2)
    try:
        for batch in loader:
            pass
    except RuntimeError:
        pass
    else:
        raise AssertionError("no error")
    batch = loader = None
    before.check()
"""


@pytest.mark.parametrize("hows", [["SIGKILL"], ["exit 0", "exit 3"], ["SIGKILL"] * 5])
def test_a_death_leaves_no_resources_and_prints_nothing(run: Run, hows: list[str]) -> None:
    run(DEATH, hows=hows, is_finalized=True).check()


STOPPED = """
before = Resources.now()
for kept in (False, True):
    loader = data.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=2, persistent_workers=kept)
    iterator = iter(loader)
    next(iterator)
    worker = iterator._workers[1]
    os.kill(worker.pid, signal.SIGSTOP)
    del iterator, loader, worker
    gc.collect()
    before.check(15)
"""


def test_a_stopped_worker_does_not_outlive_its_iterator(run: Run) -> None:
    run(STOPPED, deadline=35).check()


STOPPED_AT_EXIT = """
iterator = iter(data.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=2))
next(iterator)
os.kill(iterator._workers[1].pid, signal.SIGSTOP)
"""


def test_a_stopped_worker_does_not_hold_up_the_end_of_the_program(run: Run) -> None:
    run(STOPPED_AT_EXIT, is_finalized=True).check()


@pytest.mark.parametrize("daemon", [False, True])
def test_threads_of_a_dataset_do_not_hold_up_the_end_of_a_worker(run: Run, daemon: bool) -> None:
    source = """
    before = Resources.now()
    loader = data.DataLoader(faulty.NoisyThreads(8, daemon), batch_size=2, num_workers=2)
    assert len(list(loader)) == 4
    del loader
    before.check(15)
    """
    run(source, daemon=daemon).check()


def test_the_out_of_memory_killer_is_named() -> None:
    try:
        group = memory_group(128)
    except OSError as error:
        pytest.skip(f"no control group with a memory limit: {error}")
    try:
        loader = sluicegate.DataLoader(faulty.Hungry(8, 4, group, 400), batch_size=2, num_workers=1)
        _, error = read_until_error(iter(loader))
    finally:
        remove_group(group)
    assert "is killed by signal: Killed" in story(error)
    assert "memory" in story(error)
    assert re.search(r"\b4, 5\b", story(error))
