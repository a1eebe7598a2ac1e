"""A consumer of worker threads never waits for an answer that can't arrive."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import Dataset, IterableDataset

from sluicegate import DataLoader
from sluicegate.worker.lane import Lane


class Ended(BaseException):
    """Not a subclass of `Exception`."""


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class FailsToTell(Numbers):
    def state_dict(self) -> dict[str, Any]:
        raise Ended("in state_dict")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


class StreamFailsToTell(IterableDataset[int]):
    def __init__(self) -> None:
        self.last = 0

    def __iter__(self) -> Any:
        for self.last in range(8):
            yield self.last

    def state_dict(self) -> dict[str, Any]:
        if self.last >= 3:
            raise Ended("in state_dict")
        return {"last": self.last}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


@pytest.mark.timeout(60)
@pytest.mark.parametrize("dataset", [FailsToTell(), StreamFailsToTell()], ids=["map", "stream"])
def test_errors_of_state_dict_in_a_thread_reach_the_consumer(dataset: Any) -> None:
    with pytest.raises(Ended, match="in state_dict"):
        list(DataLoader(dataset, batch_size=2, num_workers=2, worker_type="thread"))


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("timeout", [0, 30])
def test_a_thread_that_was_ended_from_outside_is_an_error(monkeypatch: pytest.MonkeyPatch, timeout: int) -> None:
    def end(lane: Any, task: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(Lane, "begin", end)
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, worker_type="thread", timeout=timeout)
    with pytest.raises(RuntimeError, match=r"worker \d \(thread sluicegate-worker-\d\) died without an answer"):
        list(loader)
