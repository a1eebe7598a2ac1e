"""`reading_whole`: read a stream whole despite several consumers, because its reader takes the share."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any

from sluicegate import _torch


@dataclass(frozen=True)
class Split:
    """A split of one stream among ranks and workers; the ranks are hidden from the stream itself.

    Args:
        stream: the name of the stream, for messages.
        world_size: the number of ranks among which it is split.
        num_workers: the number of workers of each rank.
        hides_worker: True if the workers are hidden from the stream, too, because it does not split itself among them.
    """

    stream: str
    world_size: int = 1
    num_workers: int = 1
    hides_worker: bool = False


class _Whole(threading.local):
    """The stream that this thread reads whole."""

    depth = 0
    # The outermost split, which takes the shares.
    split = Split("")
    # True while this package itself calls the functions, because it does not split by the result.
    hides_nothing = False


_whole = _Whole()


class reading_whole:  # noqa: N801 (a context manager is named like the function that it would be)
    """Context in which every consumer reads the same whole stream, from which `split` takes the shares.

    A stream that asks which worker or rank reads it, in order to split itself, finds no other reader. So it is split
    once, and each consumer gets the same samples in the same order, even if the stream uses the number for something
    else, such as a seed.

    It may be entered repeatedly, by one thread at a time, and nested; the outermost `split` counts.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        if split.hides_worker:
            _torch.hide_worker(_hides_worker)
        if split.world_size > 1:
            _torch.hide_rank(_hides_rank)

    def __enter__(self) -> None:
        whole = _whole
        if whole.depth == 0:
            whole.split = self._split
        whole.depth += 1

    def __exit__(self, *error: object) -> None:
        _whole.depth -= 1


def is_reading_whole() -> bool:
    """True if an outer reader takes a share of the samples that this thread reads now."""
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


class nothing_hidden:  # noqa: N801 (a context manager is named like the function that it would be)
    """Context in which this package itself looks up its rank, even while it reads a stream whole."""

    def __enter__(self) -> None:
        self._before, _whole.hides_nothing = _whole.hides_nothing, True

    def __exit__(self, *error: object) -> None:
        _whole.hides_nothing = self._before


def _hides_worker() -> bool:
    whole = _whole
    return whole.depth > 0 and whole.split.hides_worker


def _hides_rank() -> bool:
    whole = _whole
    if whole.depth == 0 or whole.split.world_size == 1 or whole.hides_nothing:
        return False
    asking = sys._getframe(2)
    if str(asking.f_globals.get("__name__")).startswith("torch.distributed"):
        return False  # A collective needs the real rank: with another it would wait forever.
    warnings.warn_explicit(
        f"shard_iterable: {whole.split.stream} asks torch.distributed for its rank and gets rank 0 of 1, because "
        f"shard_iterable splits the stream among {whole.split.world_size} ranks; if it needs the rank for another "
        "purpose, get it before the stream is read",
        UserWarning,
        asking.f_code.co_filename,
        asking.f_lineno,
        registry=asking.f_globals.setdefault("__warningregistry__", {}),
    )
    return True
