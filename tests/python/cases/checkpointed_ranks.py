"""A rank that resumes a loader that a different number of ranks has saved."""

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
    """Resume what is in `saved`, read `steps` batches, save the loader, and write the indices into `folder`."""
    store = torch.distributed.FileStore(f"{folder}/store", world_size)
    limit = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)
    loader = seeded()
    if saved is not None:
        torch.distributed.checkpoint.load({"loader": loader}, checkpoint_id=saved)
    batches = [batch.tolist() for batch in itertools.islice(loader, steps)]
    torch.distributed.checkpoint.save({"loader": loader}, checkpoint_id=folder)
    Path(f"{folder}/rank-{rank}").write_text(json.dumps(batches))
    # The first rank to leave would close connections that another one still uses.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
