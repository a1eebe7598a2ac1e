"""A rank that resumes a loader saved by a different number of ranks."""

from __future__ import annotations

import datetime
import itertools
import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.distributed.checkpoint

from sluicegate import DataLoader

SAMPLES = 22
BATCH_SIZE = 2


def seeded() -> Any:
    return DataLoader(torch.arange(SAMPLES), BATCH_SIZE, shuffle=True, seed=7, shard="auto")


def go_on(rank: int, world_size: int, steps: int, folder: str, saved: str | None) -> None:
    """Resume from the state in `saved`, read `steps` batches, save the loader, and write the indices into `folder`."""
    store = torch.distributed.FileStore(f"{folder}/store", world_size)
    limit = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)
    loader = seeded()
    if saved is not None:
        torch.distributed.checkpoint.load({"loader": loader}, checkpoint_id=saved)
    batches = [batch.tolist() for batch in itertools.islice(loader, steps)]
    torch.distributed.checkpoint.save({"loader": loader}, checkpoint_id=folder)
    Path(f"{folder}/rank-{rank}").write_text(json.dumps(batches))
    # Leaving early would close connections that other ranks still use.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
