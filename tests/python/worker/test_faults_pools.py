"""Thread pools that were used before workers are forked: dask's is avoided, others are named."""

from __future__ import annotations

import pytest

from checks.programs import Run
from sluicegate.worker.death import advice

pytestmark = pytest.mark.timeout(90)

DASK = """
import dask
import dask.array

class Chunks(torch.utils.data.Dataset):
    def __init__(self):
        self.array = dask.array.arange(400, chunks=20)
        assert int(self.array.sum().compute()) == 79800  # starts dask's pool in this process

    def __len__(self):
        return 20

    def __getitem__(self, index):
        part = self.array[index * 20 : (index + 1) * 20]
        return int(part.sum().compute()), dask.config.get("scheduler", None)

def init(worker):
    if with_init:
        dask.config.set(scheduler="processes")
        dask.config.set(scheduler="single-threaded")

if configured:
    dask.config.set(scheduler=configured)
loader = data.DataLoader(Chunks(), batch_size=4, num_workers=2, worker_init_fn=init, timeout=15)
found = list(loader)
assert [int(value) for sums, _ in found for value in sums] == [sum(range(i * 20, i * 20 + 20)) for i in range(20)]
print({name for _, names in found for name in names}, dask.config.get("scheduler", None))
"""


@pytest.mark.parametrize(
    ("configured", "with_init", "expected"),
    [
        (None, False, "{'synchronous'} None"),
        ("single-threaded", False, "{'single-threaded'} single-threaded"),
        (None, True, "{'single-threaded'} None"),
    ],
)
def test_dask_computes_in_workers(run: Run, configured: str | None, with_init: bool, expected: str) -> None:
    pytest.importorskip("dask.array")
    ended = run(DASK, configured=configured, with_init=with_init, deadline=40)
    ended.check(stderr=None)
    assert ended.stdout.strip() == expected


def test_reading_does_not_import_dask(run: Run) -> None:
    source = """
    class Modules(torch.utils.data.Dataset):
        def __len__(self):
            return 1
        def __getitem__(self, index):
            return "dask" in sys.modules
    print(list(data.DataLoader(Modules(), batch_size=None, num_workers=1)))
    """
    ended = run(source)
    ended.check()
    assert ended.stdout == "[False]\n"


POOL = """
from concurrent.futures import ThreadPoolExecutor
import multiprocessing.pool

class Pooled(torch.utils.data.Dataset):
    def __init__(self):
        if kind == "executor":
            self.pool = ThreadPoolExecutor(1)
            self.pool.submit(abs, 1).result()
        else:
            self.pool = multiprocessing.pool.ThreadPool(1)
            self.pool.apply(abs, (1,))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.pool.submit(abs, index).result() if kind == "executor" else self.pool.apply(abs, (index,))

dataset = Pooled()
try:
    list(data.DataLoader(dataset, num_workers=1, timeout=2))
except RuntimeError as error:
    print(error, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("kind", ["executor", "pool"])
def test_the_error_for_a_worker_that_waits_for_a_pool_names_the_remedy(run: Run, kind: str) -> None:
    ended = run(POOL, kind=kind, deadline=40)
    ended.check(stderr=None)
    assert "timed out after 2 seconds" in ended.stdout
    assert "Threads that were started before the workers were forked don't exist in them" in ended.stdout
    assert "worker_init_fn" in ended.stdout


def test_no_advice_for_a_worker_that_does_not_wait_for_a_thread() -> None:
    waits = 'Current thread 0x1 (most recent call first):\n  File "/usr/lib/python3/threading.py", line 3 in wait\n'
    sleeps = 'Current thread 0x1 (most recent call first):\n  File "/home/me/train.py", line 3 in wait\n'
    assert advice(waits, "fork")
    assert not advice(waits, "spawn")
    assert not advice(sleeps, "fork")
    assert not advice("", "fork")
