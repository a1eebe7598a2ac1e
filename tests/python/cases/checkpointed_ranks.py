"""Ranks that save and load loaders."""

from __future__ import annotations

import datetime
import itertools
import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.distributed.checkpoint

from sluicegate import DataLoader, shard_iterable

SAMPLES = 22
BATCH_SIZE = 2


def seeded() -> Any:
    return DataLoader(torch.arange(SAMPLES), BATCH_SIZE, shuffle=True, seed=7, shard="auto")


def loaders(rank: int) -> dict[str, Any]:
    sampler = torch.utils.data.DistributedSampler(range(SAMPLES), 2, rank)
    return {
        "seed": seeded(),
        "sampler": DataLoader(torch.arange(SAMPLES), BATCH_SIZE, sampler=sampler),
        "stream": DataLoader(shard_iterable(range(SAMPLES)), BATCH_SIZE),
    }


def resume_own_part(rank: int, folder: str) -> None:
    """Resume each loader after two batches, and write the indices that it reads into `folder`."""
    join(rank, 2, folder)
    found = {}
    for name, loader in loaders(rank).items():
        iterator = iter(loader)
        first = [next(iterator).tolist() for _ in range(2)]
        # A checkpoint keeps one value per name for all ranks, but the state of a stream belongs to one rank.
        key = f"loader of rank {rank}" if name == "stream" else "loader"
        torch.distributed.checkpoint.save({key: loader}, checkpoint_id=f"{folder}/{name}")
        rest = [batch.tolist() for batch in iterator]
        fresh = loaders(rank)[name]
        torch.distributed.checkpoint.load({key: fresh}, checkpoint_id=f"{folder}/{name}")
        found[name] = {"first": first, "rest": rest, "resumed": [batch.tolist() for batch in fresh]}
    Path(f"{folder}/rank-{rank}").write_text(json.dumps(found))
    leave()


def join(rank: int, world_size: int, folder: str) -> None:
    store = torch.distributed.FileStore(f"{folder}/store", world_size)
    limit = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)


def leave() -> None:
    # Leaving early would close connections that other ranks still use.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def go_on(rank: int, world_size: int, steps: int, folder: str, saved: str | None) -> None:
    """Resume from the state in `saved`, read `steps` batches, save the loader, and write the indices into `folder`."""
    join(rank, world_size, folder)
    loader = seeded()
    if saved is not None:
        torch.distributed.checkpoint.load({"loader": loader}, checkpoint_id=saved)
    batches = [batch.tolist() for batch in itertools.islice(loader, steps)]
    torch.distributed.checkpoint.save({"loader": loader}, checkpoint_id=folder)
    Path(f"{folder}/rank-{rank}").write_text(json.dumps(batches))
    leave()
