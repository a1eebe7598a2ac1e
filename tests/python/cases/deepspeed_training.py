"""A script for DeepSpeed, as users write it: its engine and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import deepspeed
import deepspeed.ops
import torch
import torch.distributed
from deepspeed.runtime.dataloader import RepeatingLoader

from cases.recorded_training import Rows
from sluicegate import DataLoader

ROWS, EPOCHS, BATCH_SIZE = 48, 2, 4
# One process does not need this operation, which would be compiled.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def train(
    path: str, folder: str, *, stop: int | None = None, resumes: bool = False, stage: int = 0, accumulates: int = 1
) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process kills itself.
        resumes: True to begin with the last checkpoint.
        stage: how DeepSpeed divides the optimizer.
        accumulates: the number of batches per update.
    """
    names = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {"DS_ACCELERATOR": "cpu", **names}
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 1))
    optimizer: Any = torch.optim.AdamW(model.parameters(), 0.01)
    config = {
        "train_micro_batch_size_per_gpu": BATCH_SIZE,
        "gradient_accumulation_steps": accumulates,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    loader = DataLoader(
        Rows(f"{path}-reads", ROWS), batch_size=BATCH_SIZE, shuffle=True, num_workers=2, seed=7, shard="auto"
    )
    first = 0
    if resumes:
        _, client_state = engine.load_checkpoint(folder)
        first = client_state["batches"]
        loader.load_state_dict(client_state["loader"])
    batches = RepeatingLoader(loader)
    assert isinstance(batches.loader, DataLoader)
    with open(path, "a") as file:
        for step in range(first + 1, EPOCHS * ROWS // BATCH_SIZE + 1):
            indices, rows = next(batches)
            loss = torch.nn.functional.mse_loss(engine(rows).flatten(), indices / ROWS)
            engine.backward(loss)
            engine.step()
            weights = sum(float(each.detach().double().sum()) for each in model.parameters())
            line = [step, indices.tolist(), loss.item(), weights]
            print(json.dumps(line), file=file, flush=True)
            if step % 4 == 0:
                engine.save_checkpoint(folder, client_state={"batches": step, "loader": loader.state_dict()})
            if step == stop:
                os.kill(os.getpid(), signal.SIGKILL)
