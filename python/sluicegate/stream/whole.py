"""`reading_whole`: read a stream whole despite several consumers, because its reader takes the share."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from sluicegate import _torch

__all__ = [
    "Split",
    "WorkerInfo",
    "answering",
    "is_reading_whole",
    "reading_whole",
    "refuse_workers",
    "watch_worker",
]


@dataclass(frozen=True)
class Split:
    """A split of one stream among ranks and workers.

    Args:
        stream: the name of the stream, for messages.
        world_size: the number of ranks among which it is split.
        num_workers: the number of workers of each rank.
    """

    stream: str
    world_size: int = 1
    num_workers: int = 1

    def refuse_worker(self) -> None:
        """Raise an error if the stream, which asks for its worker, would be split among workers twice.

        Raises:
            ValueError: it would.
        """
        if self.num_workers > 1:
            raise ValueError(
                f"shard_iterable: {self.stream} asks which worker reads it ({_caller(3)}), so its samples would be "
                f"split among {self.num_workers} workers twice, and most would be lost; pass a stream that splits "
                "itself to the DataLoader without shard_iterable, or remove its own split; if the number serves "
                "another purpose, read it in worker_init_fn"
            )

    def refuse_rank(self) -> None:
        """Raise an error if the stream, which asks for its rank, would be split among ranks twice.

        Raises:
            ValueError: it would.
        """
        if self.world_size > 1:
            raise ValueError(
                f"shard_iterable: {self.stream} asks torch.distributed for its rank ({_caller(4)}), so its samples "
                f"would be split among {self.world_size} ranks twice, and most would be lost; remove its own split, or "
                "pass shard=(0, 1) to split it among workers only; if the rank serves another purpose, ask for it "
                "before the stream is read"
            )


class _Whole(threading.local):
    """The stream that this thread reads whole."""

    depth = 0
    # The outermost split, which takes the shares.
    split = Split("")
    # True while this package itself asks, because it does not split by the answer.
    is_answering = False


_whole = _Whole()


class reading_whole:  # noqa: N801 (a context manager is named like the function that it would be)
    """Context in which every consumer reads the same whole stream, from which `split` takes the shares.

    It may be entered repeatedly, by one thread at a time, and nested; the outermost `split` counts.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        if split.world_size > 1:
            _torch.watch_rank(_refuse_rank)

    def __enter__(self) -> None:
        whole = _whole
        if whole.depth == 0:
            whole.split = self._split
        whole.depth += 1

    def __exit__(self, *error: object) -> None:
        _whole.depth -= 1


def is_reading_whole() -> bool:
    """True if an outer reader takes a share of what this thread reads now."""
    return _whole.depth > 0


def refuse_workers(dataset: Any) -> None:
    """Refuse a loader with workers over an iterable-style dataset inside a split.

    Raises:
        ValueError: such a loader starts to be read: its workers would split the stream a second time.
    """
    split = _whole.split
    if _whole.depth > 0 and split.world_size * split.num_workers > 1:
        raise ValueError(
            f"shard_iterable: {split.stream} reads a DataLoader with workers over {type(dataset).__name__}, whose "
            "workers split the stream themselves; give that loader num_workers=0, or apply shard_iterable to its "
            "dataset instead"
        )


def _forget_split() -> None:
    """Reset this thread's state after a fork: workers read their own streams."""
    _whole.depth = 0


os.register_at_fork(after_in_child=_forget_split)


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Mark rank queries as coming from this package."""
    before, _whole.is_answering = _whole.is_answering, True
    try:
        yield
    finally:
        _whole.is_answering = before


class WorkerInfo(_torch.WorkerInfo):  # type: ignore[misc]
    """The result of `torch.utils.data.get_worker_info` in a worker; refuses streams that are already split."""

    @property
    def id(self) -> int:
        """The number of the worker.

        Raises:
            ValueError: a stream inside `shard_iterable` asks for it.
        """
        if _whole.depth > 0:
            _whole.split.refuse_worker()
        return self._number

    @id.setter
    def id(self, number: int) -> None:
        # Torch's class refuses assignments, and has no room for another name.
        object.__setattr__(self, "_number", number)

    _number: int

    @property
    def number(self) -> int:
        """The number of the worker, for this package, which may always ask."""
        return self._number


def _refuse_rank() -> None:
    if _whole.depth > 0 and not _whole.is_answering:
        _whole.split.refuse_rank()


def _caller(depth: int) -> str:
    code = (frame := sys._getframe(depth)).f_code
    return f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}"


def watch_worker() -> None:
    """Make this worker's info refuse streams that are already split; torch's own workers use a different class."""
    info = get_worker_info()
    if info is not None and not isinstance(info, WorkerInfo) and _torch.is_worker_info_of_process(info):
        _torch.set_worker_info(
            WorkerInfo(id=info.id, num_workers=info.num_workers, seed=info.seed, dataset=info.dataset)
        )
