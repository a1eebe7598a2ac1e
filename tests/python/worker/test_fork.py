"""A loader in a forked child: the child does not use threads, locks, and slots of the parent."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from sluicegate import DataLoader, TensorDataset

pytestmark = pytest.mark.slots

DEADLINE = 30  # seconds; a child that hangs is killed by its alarm


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child and assert that it ends well, and in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forking with threads
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(DEADLINE)
        # The fork has no OpenMP threads: a torch operation that needs them would wait forever.
        torch.set_num_threads(1)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


def large_rows() -> TensorDataset:
    """Return rows large enough to be fetched by threads."""
    return TensorDataset(torch.arange(400.0).repeat_interleave(5_000).view(400, 5_000))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_used_in_the_parent_works_in_a_child(num_workers: int) -> None:
    loader = DataLoader(large_rows(), batch_size=20, num_workers=num_workers)
    whole = list(loader)

    def work() -> None:
        assert_same(list(loader), whole)

    in_child(work)
    assert_same(list(loader), whole)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_begun_in_the_parent_continues_in_parent_and_child(num_workers: int) -> None:
    loader = DataLoader(large_rows(), batch_size=20, num_workers=num_workers)
    whole = list(loader)
    iterator = iter(loader)
    begun = [next(iterator) for _ in range(3)]

    def work() -> None:
        assert_same(begun + list(iterator), whole)

    in_child(work)
    assert_same(begun + list(iterator), whole)


def test_batches_of_the_parent_can_be_dropped_in_a_child() -> None:
    loader = DataLoader(large_rows(), batch_size=20, num_workers=2)
    kept = list(loader)

    def work() -> None:
        kept.clear()
        assert len(list(loader)) == 20

    in_child(work)
    assert kept[7][0][0, 0] == 140


def test_forking_again_and_again_while_threads_fetch() -> None:
    loader = DataLoader(large_rows(), batch_size=20, num_workers=2)
    iterator = iter(loader)
    for batch in range(20):
        expected = next(iterator)[0]

        def work(batch: int = batch, expected: torch.Tensor = expected) -> None:
            assert float(expected[0, 0]) == 20 * batch
            assert len(list(loader)) == 20

        in_child(work)


def test_a_loader_works_in_a_child_of_a_child() -> None:
    loader = DataLoader(np.arange(100), batch_size=10, num_workers=1)
    whole = list(loader)

    def work() -> None:
        assert_same(list(loader), whole)
        in_child(lambda: assert_same(list(loader), whole))

    in_child(work)
