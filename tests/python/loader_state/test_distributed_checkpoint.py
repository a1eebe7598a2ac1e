"""`torch.distributed.checkpoint` saves a loader, and loads it in place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.checkpoint

from cases.loader_kinds import KINDS, STREAM_KINDS, make, plain


def save(loader: Any, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of torch about a checkpoint without a process group
        torch.distributed.checkpoint.save({"loader": loader}, checkpoint_id=folder)


def load(loader: Any, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.distributed.checkpoint.load({"loader": loader}, checkpoint_id=folder)


def leaves(state: Any) -> set[tuple[Any, ...]]:
    """Return the keys of `state` in a checkpoint."""
    found: set[tuple[Any, ...]] = set()
    torch.distributed.checkpoint._traverse.traverse_state_dict(state, lambda path, _: found.add(path))
    return found


@pytest.mark.filterwarnings("ignore:.*is fast-forwarded")
@pytest.mark.parametrize(
    ("kind", "num_workers", "received"),
    [
        *((kind, 0, received) for kind in KINDS for received in (0, 3)),
        # Only datasets and streams with a state have one for each worker.
        *((kind, 2 if kind in STREAM_KINDS or "dataset state" in kind else 1, 1) for kind in KINDS),
    ],
)
def test_a_loader_is_loaded_in_place(kind: str, num_workers: int, received: int, tmp_path: Path) -> None:
    loader = make(kind, num_workers)
    iterator = iter(loader)
    for _ in range(received):
        next(iterator)
    save(loader, tmp_path)
    rest = [plain(batch) for batch in iterator]
    fresh = make(kind, num_workers)
    assert leaves(fresh.state_dict()) == leaves(loader.state_dict())
    load(fresh, tmp_path)
    assert leaves(fresh.state_dict()) == leaves(loader.state_dict())
    assert [plain(batch) for batch in fresh] == rest
