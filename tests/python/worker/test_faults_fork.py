"""Forks of the consumer while its workers live: the child's end does not affect them."""

from __future__ import annotations

import pytest

from checks.programs import Run

pytestmark = pytest.mark.slots

FORKS = {
    "os._exit": "os._exit(0)",
    "a normal end": "sys.exit(0)",
    "a dropped iterator": "del iterator; gc.collect(); os._exit(0)",
    "a dropped iterator and a normal end": "del iterator, loader; gc.collect(); sys.exit(0)",
    "shut down workers": "iterator._shutdown_workers(); os._exit(0)",
    "a loader of its own": "assert len(list(loader)) == 50; os._exit(0)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}
FORK = """
before = Resources.now()
loader = data.DataLoader(faulty.Numbers(100), batch_size=2, num_workers=2, prefetch_factor=1)
iterator = iter(loader)
found = [next(iterator)]
child = os.fork()
if child == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(15)
    torch.set_num_threads(1)
    {last_words}
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == expected, os.waitstatus_to_exitcode(status)
assert all(worker.is_alive() for worker in iterator._workers)
found += iterator
assert [int(batch[0, 0]) for batch in found] == list(range(0, 100, 2))
del iterator, loader
found.clear()
before.check()
"""


@pytest.mark.parametrize("last_words", FORKS)
def test_a_forked_child_does_not_disturb_the_workers(run: Run, last_words: str) -> None:
    expected = -9 if last_words == "SIGKILL" else 0
    run(FORK.format(last_words=FORKS[last_words]), expected=expected).check()


def test_reading_an_inherited_iterator_in_a_child_does_not_disturb_the_parent(run: Run) -> None:
    last_words = """
    try:
        next(iterator)
    except Exception:
        pass
    os._exit(0)
    """
    run(FORK.format(last_words=last_words.strip()), expected=0).check()


def test_workers_end_with_the_consumer_though_its_forked_child_lives_on(run: Run) -> None:
    # The child inherits the consumer's ends of all pipes, so workers can't rely on these being closed.
    source = """
    from checks.resources import processes
    loader = data.DataLoader(faulty.Numbers(400), batch_size=2, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    workers = [worker.pid for worker in iterator._workers]
    reader, writer = os.pipe()
    if os.fork() == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(15)
        os.close(writer)
        os.read(reader, 1)  # until the consumer is gone
        gone = time.monotonic()
        while set(workers) & {pid for pid, (_, state) in processes().items() if state != "Z"}:
            if time.monotonic() - gone > 4:
                print("alive", flush=True)
                os._exit(1)
            time.sleep(0.01)
        print("gone", flush=True)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = run(source)
    ended.check(-9)
    assert ended.stdout == "gone\n"
