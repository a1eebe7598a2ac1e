"""A script for DeepSpeed, as users write it: its engine and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import os
from typing import Any

import deepspeed
import deepspeed.ops
import torch
from deepspeed.runtime.dataloader import RepeatingLoader

from cases.recorded_training import (
    BATCH_SIZE,
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    Rows,
    counted,
    loader_of,
    loss_of,
    model,
    ranks,
    start_ranks,
    state_of,
    states_of_ranks,
)

# Ranks also communicate without this operation, which would have to be compiled.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    stage: int = 0,
    accumulates: int = 1,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: of the loaders, as for `loader_of`.
        stage: how DeepSpeed divides the optimizer.
        accumulates: the number of batches per update, also across the end of an epoch.
    """
    rank, size = ranks()
    os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{size}"}
    start_ranks()
    torch.manual_seed(1)
    trained = model()
    optimizer: Any = torch.optim.AdamW(trained.parameters(), 0.01)
    config = {
        "train_micro_batch_size_per_gpu": BATCH_SIZE,
        "gradient_accumulation_steps": accumulates,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=trained, optimizer=optimizer, config=config)
    loader = loader_of(kind, Rows(f"{path}-reads"))
    evaluation = loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3 * (kind == "seeded")), shuffle=False)
    first, total, record = 0, EPOCHS * ROWS // BATCH_SIZE, Record(path, stop)
    if resumes:
        _, client_state = engine.load_checkpoint(folder)
        first = client_state["samples"] // (BATCH_SIZE * size)
        states = client_state["ranks"]
        loader_state, generator = states[rank if len(states) == size else 0]
        loader.load_state_dict(loader_state)
        torch.set_rng_state(generator)
    batches = RepeatingLoader(loader)
    assert type(batches.loader) is type(evaluation) is MODULES[kind].DataLoader
    for step in range(first + 1, total // size + 1):
        indices, features = next(batches)
        loss = loss_of(engine(features), indices)
        engine.backward(loss)
        engine.step()
        record.write(step, indices.tolist(), loss.item(), trained)
        if step % 5 == 0:  # before a checkpoint: a resumed run continues with the generators saved in it
            engine.eval()
            record.evaluated(counted(evaluation))
            engine.train()
        if step % 4 == 0:
            saved = {"samples": step * BATCH_SIZE * size}
            saved["ranks"] = states_of_ranks((state_of(loader), torch.get_rng_state()))
            engine.save_checkpoint(folder, client_state=saved)
        record.after(step)
