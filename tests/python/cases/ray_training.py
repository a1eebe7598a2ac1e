"""A script for Ray Train, as users write it: its workers and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import os
import signal
import tempfile
from typing import Any

import pytest
import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed

from cases.recorded_training import (
    EPOCHS,
    MODULES,
    RANK,
    ROWS,
    WORLD_SIZE,
    Record,
    Rows,
    counted,
    loader_of,
    loss_of,
    model,
    saved_by,
    set_epoch,
    state_of,
)


def work(config: dict[str, Any]) -> None:
    """Train on one rank, which is killed after the batch `stop` the first time."""
    context, checkpoint, kind = ray.train.get_context(), ray.train.get_checkpoint(), config["kind"]
    rank = context.get_world_rank()
    os.environ |= {RANK: str(rank), WORLD_SIZE: str(context.get_world_size())}
    torch.manual_seed(1)
    path = f"{config['path']}-{rank}" if checkpoint is None else f"{config['path']}-resumed-{rank}"
    loader = loader_of(kind, Rows(f"{path}-reads"))
    evaluation = loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3 * (kind == "seeded")), shuffle=False)
    assert type(loader) is type(evaluation) is MODULES[kind].DataLoader
    bare = model()
    trained = ray.train.torch.prepare_model(bare)
    optimizer = torch.optim.AdamW(bare.parameters(), 0.01)
    first, step, record = 0, 0, Record(path, None)
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(saved_by(rank, folder, ""))
        bare.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        torch.set_rng_state(saved["generator"])
        first, step = saved["epoch"], saved["step"]
    for epoch in range(first, EPOCHS):
        set_epoch(loader, epoch)
        for indices, features in loader:
            step += 1
            loss = loss_of(trained(features), indices)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.write(step, indices.tolist(), loss.item(), trained)
            if step % 3 == 0:
                states = {
                    "model": bare.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "loader": state_of(loader),
                }
                states |= {"generator": torch.get_rng_state(), "epoch": epoch, "step": step}
                with tempfile.TemporaryDirectory() as folder:
                    torch.save(states, f"{folder}/{rank}.pt")
                    ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))
            if checkpoint is None and step == config["stop"]:
                torch.distributed.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
        record.evaluated(counted(evaluation))


def train(path: str, folder: str, *, stop: int | None = None, kind: str = "seeded", then: int | None = None) -> None:
    """Train on two ranks, and write a line for each batch to `path`; after a restart, to a different file.

    Args:
        path: the prefix of the paths of files.
        folder: of checkpoints.
        stop: the number of the batch after which the ranks are killed.
        kind: of the loaders, as for `loader_of`.
        then: the number of ranks of a second run, which continues the killed one; None if Ray restarts that one.
    """
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def trainer(ranks: int, max_failures: int) -> ray.train.torch.TorchTrainer:
        failures = ray.train.FailureConfig(max_failures=max_failures)
        return ray.train.torch.TorchTrainer(
            work,
            train_loop_config={"path": path, "stop": stop, "kind": kind},
            scaling_config=ray.train.ScalingConfig(num_workers=ranks),
            run_config=ray.train.RunConfig(name="run", storage_path=folder, failure_config=failures),
        )

    if then is None:
        trainer(2, 1).fit()
    else:
        with pytest.raises(ray.train.TrainingFailedError):
            trainer(2, 0).fit()
        trainer(then, 0).fit()
    ray.shutdown()
