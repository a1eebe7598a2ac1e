"""A script for mmengine, as users write it: its runner and its checkpoints, with our loaders, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
from mmengine.dataset import DefaultSampler
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseModel, MMDistributedDataParallel
from mmengine.runner import Runner

from cases import recorded_training
from cases.recorded_training import BATCH_SIZE, EPOCHS, ROWS, Record, Rows, loss_of, ranks
from sluicegate import DataLoader


class SaveLoader(Hook):  # type: ignore[misc]
    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        checkpoint["loader"] = runner.train_dataloader.state_dict()
        checkpoint["generator"] = torch.get_rng_state()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        runner.train_dataloader.load_state_dict(checkpoint["loader"])
        torch.set_rng_state(checkpoint["generator"])


class Written(Hook):  # type: ignore[misc]
    """Writes a line for each batch, and kills the process when mmengine has saved what it saves."""

    priority = "LOWEST"

    def __init__(self, record: Record) -> None:
        self.record = record

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
        step = runner.iter + 1
        self.record.write(step, data_batch[0].tolist(), outputs["loss"].item(), runner.model)
        self.record.after(step)


class Counted(BaseMetric):  # type: ignore[misc]
    """Writes which samples were evaluated."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def process(self, data_batch: Any, data_samples: Sequence[int]) -> None:
        self.results += data_samples

    def compute_metrics(self, results: list[int]) -> dict[str, int]:
        self.record.evaluated(results)
        return {"counted": len(results)}


class Model(BaseModel):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = recorded_training.model()

    def forward(self, indices: torch.Tensor, features: torch.Tensor, mode: str = "loss") -> Any:
        return indices.tolist() if mode == "predict" else {"loss": loss_of(self.layers(features), indices)}


def loader_of(rows: Rows, seeded: bool, shuffle: bool) -> DataLoader[Any]:
    if seeded:
        return DataLoader(rows, BATCH_SIZE, shuffle=shuffle, num_workers=2, seed=7, shard="auto")
    return DataLoader(rows, BATCH_SIZE, num_workers=2, sampler=DefaultSampler(rows, shuffle=shuffle, seed=7))


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, seeded: bool = True) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        seeded: True for loaders with a seed and shards, False for ones with mmengine's sampler.
    """
    # mmengine's own start of ranks sets a GPU; its loops take a process group that is there.
    torch.manual_seed(1)
    model: torch.nn.Module = Model()
    if ranks()[1] > 1:
        torch.distributed.init_process_group("gloo")
        model = MMDistributedDataParallel(model, broadcast_buffers=False)
    record = Record(path, stop)
    runner = Runner(
        model,
        folder,
        train_dataloader=loader_of(Rows(f"{path}-reads"), seeded, shuffle=True),
        # An odd number of samples: not each rank has as many.
        val_dataloader=loader_of(Rows(f"{path}-evaluation-reads", ROWS - 3), seeded, shuffle=False),
        val_evaluator=[Counted(record)],
        val_cfg={},
        optim_wrapper={"optimizer": {"type": "AdamW", "lr": 0.01}},
        train_cfg={"by_epoch": True, "max_epochs": EPOCHS},
        default_hooks={"checkpoint": {"type": "CheckpointHook", "by_epoch": False, "interval": 3}},
        custom_hooks=[SaveLoader(), Written(record)],
        randomness={"seed": 1},
        log_level="ERROR",
        resume=resumes,
    )
    runner.train()
    assert type(runner.train_dataloader) is type(runner.val_dataloader) is DataLoader
