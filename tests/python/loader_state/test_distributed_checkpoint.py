"""`torch.distributed.checkpoint` saves a loader, and loads it in place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
import torch.distributed.checkpoint
import torch.multiprocessing

from cases.loader_kinds import MAP_KINDS, STREAM_KINDS, make, plain
from sluicegate import DataLoader, shard_iterable


def save(loader: Any, folder: Path, key: str = "loader") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of torch about a checkpoint without a process group
        torch.distributed.checkpoint.save({key: loader}, checkpoint_id=folder)


def load(loader: Any, folder: Path, key: str = "loader") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.distributed.checkpoint.load({key: loader}, checkpoint_id=folder)


def leaves(state: Any) -> set[tuple[Any, ...]]:
    """Return the keys of `state` in a checkpoint."""
    found: set[tuple[Any, ...]] = set()
    torch.distributed.checkpoint._traverse.traverse_state_dict(state, lambda path, _: found.add(path))
    return found


@pytest.mark.filterwarnings("ignore:.*is fast-forwarded")
@pytest.mark.parametrize(("num_workers", "received"), [(0, 0), (0, 3), (2, 1)])
@pytest.mark.parametrize("kind", [*MAP_KINDS, *STREAM_KINDS])
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


def loaders(rank: int) -> dict[str, Any]:
    sampler = torch.utils.data.DistributedSampler(range(22), 2, rank)
    return {
        "seed": DataLoader(torch.arange(22), 2, shuffle=True, seed=7, shard="auto"),
        "sampler": DataLoader(torch.arange(22), 2, sampler=sampler),
        "stream": DataLoader(shard_iterable(range(22)), 2),
    }


def run(rank: int, folder: Path, queue: Any) -> None:
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    for name, loader in loaders(rank).items():
        iterator = iter(loader)
        first = [next(iterator).tolist() for _ in range(2)]
        # A checkpoint keeps one value per name for all ranks, but the state of a stream belongs to one rank.
        key = f"loader of rank {rank}" if name == "stream" else "loader"
        save(loader, folder / name, key)
        rest = [batch.tolist() for batch in iterator]
        fresh = loaders(rank)[name]
        load(fresh, folder / name, key)
        queue.put((name, rank, first, rest, [batch.tolist() for batch in fresh]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.timeout(300)
def test_each_rank_resumes_in_its_own_part(tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("forkserver")
    queue = context.Queue()
    ranks = [context.Process(target=run, args=(rank, tmp_path, queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    try:
        found = [queue.get(timeout=120) for _ in range(2 * 3)]
    finally:
        for process in ranks:
            process.join(60)
            process.kill()
    assert [process.exitcode for process in ranks] == [0, 0]
    for name in ("seed", "sampler", "stream"):
        parts = [each for each in found if each[0] == name]
        assert all(resumed == rest for _, _, _, rest, resumed in parts)
        read = [index for _, _, first, _, resumed in parts for batch in first + resumed for index in batch]
        assert sorted(read) == [*range(22)]  # torch.distributed.checkpoint: sharded
