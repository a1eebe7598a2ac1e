"""Descriptors that other code closes while workers run: the error says so, and every wait ends."""

from __future__ import annotations

import pytest

from checks.programs import Run

pytestmark = pytest.mark.timeout(90)

BEGUN = """
loader = data.DataLoader(
    faulty.Numbers(200), batch_size=2, num_workers=2, multiprocessing_context=method, persistent_workers=persistent
)
iterator = iter(loader)
first = next(iterator)
began = time.monotonic()
"""
CLOSED = """
os.closerange(3, 512)
"""
REPLACED = """
highest = max(map(int, os.listdir("/proc/self/fd")))
os.closerange(3, highest + 1)
kept = [os.open("/dev/zero", os.O_RDONLY) for _ in range(200)]
"""
ASKED = """
try:
    for _ in iterator:
        pass
except RuntimeError as error:
    print("closed file descriptors" in str(error) and "os.closerange" in str(error), flush=True)
else:
    print("all batches came", flush=True)
"""
DROPPED = """
del iterator
gc.collect()
print(True, flush=True)
"""
ENDED = """
assert time.monotonic() - began < 12, time.monotonic() - began
"""


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("then", [ASKED, DROPPED], ids=["asked", "dropped"])
@pytest.mark.parametrize("what", [CLOSED, REPLACED], ids=["closed", "replaced"])
def test_closed_descriptors_of_the_consumer_end_the_epoch(run: Run, what: str, then: str, persistent: bool) -> None:
    ended = run(BEGUN + what + then + ENDED, method="fork", persistent=persistent, deadline=40)
    ended.check(stderr=None)
    assert ended.stdout == "True\n", ended.stdout


@pytest.mark.parametrize("then", [ASKED, DROPPED], ids=["asked", "dropped"])
def test_closed_descriptors_end_waits_for_workers_of_a_fork_server(run: Run, then: str) -> None:
    ended = run(BEGUN + CLOSED + then + ENDED, method="forkserver", persistent=False, deadline=60)
    ended.check(stderr=None)
    assert ended.stdout == "True\n", ended.stdout


def test_the_next_epoch_has_workers_and_memory_of_its_own(run: Run) -> None:
    source = """
    found = [int(value) for batch in loader for value in batch[:, 0]]
    assert found == list(range(200)), found
    """
    ended = run(BEGUN + CLOSED + ASKED + DROPPED + strip(source), method="fork", persistent=False, deadline=40)
    ended.check(stderr=None)


def test_threads_need_no_descriptors(run: Run) -> None:
    source = """
    loader = data.DataLoader(faulty.Numbers(200), batch_size=2, num_workers=2, worker_type="thread")
    iterator = iter(loader)
    next(iterator)
    os.closerange(3, 512)
    assert len(list(iterator)) == 99
    """
    run(source).check(stderr=None)


def test_a_worker_that_closes_its_descriptors_is_an_error(run: Run) -> None:
    source = """
    class Closing(torch.utils.data.Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, index):
            if index == 20:
                os.closerange(3, 512)
            time.sleep(0.01)
            return index
    began = time.monotonic()
    found = []
    try:
        for batch in data.DataLoader(Closing(), batch_size=2, num_workers=1):
            found += batch.tolist()
    except RuntimeError as error:
        print("exited unexpectedly" in str(error), flush=True)
    assert found == list(range(len(found)))
    assert time.monotonic() - began < 12
    """
    ended = run(source)
    ended.check(stderr=None)
    assert ended.stdout == "True\n"
    assert "closed a file descriptor of this package" in ended.stderr


def strip(source: str) -> str:
    import textwrap

    return textwrap.dedent(source)
