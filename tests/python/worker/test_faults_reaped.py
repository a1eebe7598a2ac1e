"""Programs that collect the exit codes of all children, as supervisors and entry points of containers do."""

from __future__ import annotations

from types import ModuleType

import pytest

from checks.programs import Run, package_name

pytestmark = pytest.mark.timeout(90)

REAPERS = {
    "a handler": """
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, reap)
""",
    "ignored": """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
""",
}
EPOCHS = """
import multiprocessing.process

signalled = []
multiprocessing.process.BaseProcess.terminate = lambda process: signalled.append(process)
multiprocessing.process.BaseProcess.kill = lambda process: signalled.append(process)
loader = data.DataLoader(faulty.Numbers(6), batch_size=2, num_workers=2, persistent_workers=persistent)
counts = []
for _ in range(4):
    assert [int(value) for batch in loader for value in batch[:, 0]] == [0, 1, 2, 3, 4, 5]
    gc.collect()
    counts.append((len(os.listdir("/proc/self/fd")), len(multiprocessing.process._children)))
"""
NOTHING_LEFT = """
del loader
gc.collect()
assert signalled == [], "ended workers got a signal, or the process that has their number now"
assert counts[1:] == counts[:1] * 3, counts
assert not multiprocessing.process._children
"""


@pytest.mark.parametrize("reaper", REAPERS)
@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_are_read(run: Run, data: ModuleType, reaper: str, persistent: bool) -> None:
    """Torch's loader keeps some of the workers until later."""
    checks = NOTHING_LEFT if package_name(data) == "sluicegate" else ""
    ended = run(REAPERS[reaper] + EPOCHS + checks, package=package_name(data), persistent=persistent)
    ended.check(stderr=None)


DEATH = """
class Dying(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        if index == 20:
            os._exit(9) if by == "exit" else os.kill(os.getpid(), signal.SIGKILL)
        return index

try:
    for _ in data.DataLoader(Dying(), 2, num_workers=2):
        pass
except RuntimeError as error:
    said = str(error)
    assert said.startswith("DataLoader worker (pid"), said
    # This process may have collected the code before the handler did.
    expected = ("exited unexpectedly with exit code 9", "killed by signal: Killed", "Its exit code is unknown")
    assert any(each in said for each in expected), said
    print(True)
"""


@pytest.mark.parametrize("reaper", REAPERS)
@pytest.mark.parametrize("by", ["exit", "signal"])
def test_the_death_of_a_worker_is_named(run: Run, reaper: str, by: str) -> None:
    ended = run(REAPERS[reaper] + DEATH, by=by)
    ended.check()
    assert ended.stdout == "True\n"
