"""Signals that arrive while a dropped iterator ends its workers: exceptions of their handlers are not lost."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from checks.programs import Run
from sluicegate.system.deferred_signals import DeferredSignals

DROP = """
class Sleeping(torch.utils.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        time.sleep(0 if index < 4 else 4)
        return index

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))

def leave():
    options = dict(num_workers=2, worker_type=kind, persistent_workers=persistent)
    for batch in data.DataLoader(Sleeping(), batch_size=2, **options):
        time.sleep(0.3)  # Both workers sleep now.
        threading.Timer(0.5, lambda: os.kill(os.getpid(), number)).start()
        break

began = time.monotonic()
try:
    leave()
    for _ in range(10):
        pass
    print("lost", flush=True)
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert time.monotonic() - began < 3.5, time.monotonic() - began
"""


# With short deadlines, the workers would end as quickly without the signal.
@pytest.mark.real_clock
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_ctrl_c_arrives_after_the_workers_have_ended(run: Run, kind: str, persistent: bool) -> None:
    ended = run(DROP, kind=kind, number=int(signal.SIGINT), persistent=persistent)
    ended.check(within=12.0)
    assert ended.stdout == "interrupted\n"


@pytest.mark.real_clock
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_exception_of_a_sigterm_handler_arrives(run: Run, kind: str) -> None:
    ended = run(DROP, kind=kind, number=int(signal.SIGTERM), persistent=False)
    ended.check(7, within=12.0)
    assert ended.stdout == ""


def test_handlers_run_once_and_are_put_back() -> None:
    ran = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: ran.append(number))
    try:
        ours = signal.getsignal(signal.SIGUSR2)

        def finalize() -> None:
            had_run = len(ran)
            signals = DeferredSignals()
            signal.raise_signal(signal.SIGUSR2)
            assert len(ran) == had_run
            assert not signals.is_hurried
            signals.restore()
            assert len(ran) == had_run
            assert signal.getsignal(signal.SIGUSR2) is ours

        finalize()
        time.sleep(0)  # handlers run at the next call
        assert ran == [signal.SIGUSR2]
        finalize()
        time.sleep(0)
        assert ran == 2 * [signal.SIGUSR2]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_ignored_signals_and_default_actions_stay() -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    signals = DeferredSignals()
    for number, handler in before.items():
        if not callable(handler):
            assert signal.getsignal(number) == handler
    signals.restore()
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before


def test_other_threads_change_no_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    during = []

    def finalize() -> None:
        signals = DeferredSignals()
        during.append(signal.getsignal(signal.SIGINT))
        signals.restore()

    thread = threading.Thread(target=finalize)
    thread.start()
    thread.join(10)
    assert during == [before]
