"""The end of the consumer, of any kind: nothing stays, nothing is printed, nothing hangs."""

from __future__ import annotations

from types import ModuleType

import pytest

import sluicegate
from checks.programs import Run, package_name

pytestmark = pytest.mark.slots

TWO_SECONDS = 2.0


def within_two_seconds(run: Run, source: str, code: int, **values: object) -> None:
    """Assert that the last worker ends within two seconds of the consumer, in one of three attempts."""
    for attempt in range(3):
        ended = run(source, **values)
        ended.check(code)
        if ended.seconds < TWO_SECONDS:
            return
        assert attempt < 2, f"the last worker ended {ended.seconds:.2f} s later"


ASLEEP = """
reader, writer = os.pipe()
loader = data.DataLoader(faulty.Stuck(100, 1, writer), batch_size=None, num_workers=3)
iterator = iter(loader)
next(iterator)
os.read(reader, 1)  # a worker sleeps now
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
IDLE = """
iterator = iter(data.DataLoader(faulty.Numbers(10), batch_size=2, num_workers=3, persistent_workers=True))
assert len(list(iterator)) == 5
"""
BEGUN = """
loader = data.DataLoader(faulty.Sized([4, 3_000_000] * 100), batch_size=1, num_workers=3)
iterator = iter(loader)
kept = [next(iterator) for _ in range(5)]
"""
STATES = {"asleep": ASLEEP, "idle": IDLE, "begun": BEGUN}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("last_words", "code"),
    [("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os.kill(os.getpid(), signal.SIGTERM)", -15), ("os._exit(5)", 5)],
)
def test_workers_end_within_two_seconds_of_a_consumer_that_just_vanishes(
    run: Run, state: str, last_words: str, code: int
) -> None:
    within_two_seconds(run, STATES[state] + last_words, code)


def test_workers_end_when_the_consumer_is_killed_while_it_waits(run: Run) -> None:
    source = """
    loader = data.DataLoader(faulty.Signaling(100, 20, os.getpid(), signal.SIGKILL), batch_size=2, num_workers=2)
    list(loader)
    """
    within_two_seconds(run, source, -9)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_other_start_methods_end_with_the_consumer(run: Run, method: str) -> None:
    source = """
    import multiprocessing
    multiprocessing.set_forkserver_preload(["doubles.faulty", "sluicegate"])
    loader = data.DataLoader(
        faulty.Signaling(100, 2, os.getpid(), signal.SIGKILL), num_workers=1, multiprocessing_context=method
    )
    list(loader)
    """
    ended = run(source, method=method, deadline=60)
    # The fork server takes a while to free its imports.
    ended.check(-9, stderr=None)


ENDINGS = {
    "break": """
        for batch in loader:
            break
    """,
    "del of a begun iterator": """
        iterator = iter(loader)
        batch = next(iterator)
        del iterator
    """,
    "del of an untouched iterator": """
        iterator = iter(loader)
        del iterator
    """,
    "an exception in the loop": """
        try:
            for batch in loader:
                raise LookupError
        except LookupError:
            pass
    """,
    "the end": """
        for batch in loader:
            pass
    """,
    "a second iterator": """
        first, second = iter(loader), iter(loader)
        one, two = next(first), next(second)
        third = iter(loader)
        if not persistent:
            assert len(list(second)) == 19
            assert len(list(first)) == 19
        assert len(list(third)) == 20
        del first, second, third, one, two
    """,
    "a cycle": """
        cycle = [iter(loader)]
        cycle.append(cycle)
        batch = next(cycle[0])
        del cycle
        gc.collect()
    """,
    "an error in a worker": """
        loader.dataset.make, loader.dataset.bad = faulty.value_error, {21}
        try:
            for batch in loader:
                pass
        except ValueError:
            pass
        loader.dataset.bad = set()
    """,
    "a consumer in another thread": """
        counted = []
        thread = threading.Thread(target=lambda: counted.append(len(list(loader))))
        thread.start()
        thread.join()
        assert counted == [20]
        del thread
    """,
    "a break in another thread": """
        thread = threading.Thread(target=lambda: next(iter(loader)))
        thread.start()
        thread.join()
        del thread
    """,
}
LEAVE = """
before = Resources.now()
for round in range(2):
    loader = data.DataLoader(
        faulty.Raising(40, set(), None), batch_size=2, num_workers=2, persistent_workers=persistent
    )
{ending}
    batch = loader = None
    before.check()
"""


# Torch waits five seconds for a worker in a cycle, or one kept alive by the traceback of its error.
SLOW_IN_TORCH = {"a cycle", "an error in a worker"}


def leave(run: Run, package: str, ending: str, persistent: bool) -> None:
    # The endings are indented by eight spaces, and run in a loop.
    source = LEAVE.format(ending="\n".join(line[4:] for line in ENDINGS[ending].splitlines()))
    run(source, package, persistent=persistent).check()


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_leaving_an_epoch_leaves_nothing(run: Run, ending: str, persistent: bool) -> None:
    leave(run, "sluicegate", ending, persistent)


@pytest.mark.parametrize("ending", sorted(ENDINGS.keys() - SLOW_IN_TORCH))
def test_leaving_an_epoch_of_torchs_leaves_nothing(run: Run, ending: str) -> None:
    leave(run, "torch", ending, False)


EXITS = {
    "a held iterator": "iterator = iter(loader); next(iterator)",
    "an untouched iterator": "iterator = iter(loader)",
    "kept batches": "kept = list(loader)",
    "a cycle": "cycle = [iter(loader)]; cycle.append(cycle); next(cycle[0])",
    "an iterator in a module": "torch.kept = iter(loader); next(torch.kept)",
    "an iterator of a daemon thread": (
        "thread = threading.Thread(target=lambda it: (next(it), threading.Event().wait()), args=(iter(loader),))\n"
        "thread.daemon = True; thread.start()"
    ),
    "sys.exit": "iterator = iter(loader); next(iterator); sys.exit(0)",
}


@pytest.mark.parametrize("held", EXITS)
def test_the_interpreter_ends_with_live_workers(run: Run, data: ModuleType, held: str) -> None:
    if held == "an iterator of a daemon thread" and data is not sluicegate:
        pytest.skip("torch prints an error of its own")
    source = "loader = data.DataLoader(faulty.Numbers(40), batch_size=2, num_workers=2)\n" + EXITS[held]
    ended = run(source, package_name(data), is_finalized=True)
    if data is not sluicegate:
        # Torch ends a worker that may have made a file for a tensor, and not yet removed its name.
        ended.files.clear()
    ended.check()


def test_the_interpreter_ends_while_a_worker_sleeps(run: Run) -> None:
    run(ASLEEP, deadline=15, is_finalized=True).check()


def test_deleting_an_iterator_does_not_wait_for_a_worker_that_sleeps(run: Run) -> None:
    source = """
    before = Resources.now()
    reader, writer = os.pipe()
    for _ in range(2):
        loader = data.DataLoader(faulty.Stuck(100, 1, writer), batch_size=None, num_workers=3)
        iterator = iter(loader)
        next(iterator)
        os.read(reader, 1)
        del iterator, loader
    os.close(reader), os.close(writer)
    before.check(15)
    """
    run(source).check()


def test_an_interrupt_while_an_iterator_is_closed_ends_a_worker_that_sleeps(run: Run, data: ModuleType) -> None:
    source = """
    import threading
    before = Resources.now()
    reader, writer = os.pipe()
    for _ in range(2):
        loader = data.DataLoader(faulty.Stuck(100, 1, writer), batch_size=None, num_workers=2)
        iterator = iter(loader)
        next(iterator)
        os.read(reader, 1)
        workers = list(iterator._workers)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            iterator._shutdown_workers()
            time.sleep(5)  # where that takes less
        except KeyboardInterrupt:
            pass
        assert not any(worker.is_alive() for worker in workers)
        workers = iterator = loader = None
    os.close(reader), os.close(writer)
    before.check(15)
    """
    run(source).check()


def test_an_error_that_ends_the_program_is_the_only_output(run: Run, data: ModuleType) -> None:
    source = """
    for batch in data.DataLoader(faulty.Numbers(40), batch_size=2, num_workers=2):
        raise LookupError("of the program")
    """
    ended = run(source, package_name(data))
    ended.check(1, stderr=None)
    assert ended.stderr.count("Traceback") == 1
    assert ended.stderr.endswith("LookupError: of the program\n")


INTERRUPTED = """
loader = data.DataLoader(
    faulty.Signaling(100, 20, 0, signal.SIGINT), batch_size=2, num_workers=3, persistent_workers=persistent
)
for batch in loader:
    pass
"""


@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_of_the_whole_group_prints_one_traceback(run: Run, persistent: bool) -> None:
    ended = run(INTERRUPTED, persistent=persistent)
    ended.check(-2, stderr=None)
    assert ended.stderr.count("Traceback") == 1
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_an_interrupt_while_the_consumer_works_prints_one_traceback(run: Run) -> None:
    source = """
    iterator = iter(data.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=3))
    next(iterator)
    os.kill(0, signal.SIGINT)
    time.sleep(20)
    """
    ended = run(source)
    ended.check(-2, stderr=None)
    assert ended.stderr.count("Traceback") == 1
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_a_program_continues_after_it_caught_an_interrupt(run: Run) -> None:
    source = """
    before = Resources.now()
    for _ in range(2):
        loader = data.DataLoader(faulty.Signaling(100, 20, 0, signal.SIGINT), batch_size=2, num_workers=2)
        try:
            for batch in loader:
                pass
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("no interrupt")
        loader.dataset.at = -1
        assert len(list(loader)) == 50
        batch = loader = None
        before.check()
    """
    run(source).check()


def test_an_iterator_outlives_the_thread_that_made_it(run: Run, data: ModuleType) -> None:
    # Linux ends a process "with its parent" when the parent's thread that forked it ends.
    source = """
    made = []
    loader = data.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=2)
    thread = threading.Thread(target=lambda: made.append(iter(loader)))
    thread.start()
    thread.join()
    assert [int(batch[0, 0]) for batch in made[0]] == list(range(0, 400, 2))
    """
    run(source, package_name(data)).check()
