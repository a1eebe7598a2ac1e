"""A script for mmengine, as users write it: its runner and its checkpoints, with our loaders, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from mmengine.dataset import DefaultSampler, InfiniteSampler
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseModel, MMDistributedDataParallel
from mmengine.runner import IterBasedTrainLoop, Runner

from cases import recorded_training
from cases.recorded_training import (
    BATCH_SIZE,
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    Rows,
    loader_of,
    loss_of,
    ranks,
    start_ranks,
    state_of,
)


def repeated(loader: Any, trained: int) -> Iterator[Any]:
    yield from [None] * trained
    while True:
        yield from loader


class SaveLoader(Hook):  # type: ignore[misc]
    saved: dict[str, Any] | None = None

    def before_train_epoch(self, runner: Runner) -> None:
        """Replace the iterator created before the state was loaded, now that mmengine has set the epoch to 0."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            if self.saved is not None:
                runner.train_dataloader.load_state_dict(self.saved)
            runner.train_loop.dataloader_iterator = repeated(runner.train_dataloader, runner.iter)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        checkpoint["loader"] = state_of(runner.train_dataloader)
        checkpoint["generator"] = torch.get_rng_state()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        self.saved = checkpoint["loader"]
        runner.train_dataloader.load_state_dict(self.saved)
        torch.set_rng_state(checkpoint["generator"])


class Written(Hook):  # type: ignore[misc]
    """Writes a line for each batch, and kills the process once mmengine has saved its checkpoint."""

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


EPOCH = {"max_epochs": EPOCHS}
BATCHES = {"max_iters": 15, "val_interval": 5}


def own_loader_of(kind: str, rows: Rows, *, shuffle: bool = True, by_epoch: bool = True) -> Any:
    """Return the loader of this rank, without a seed with mmengine's sampler."""
    if kind == "seeded":
        return loader_of(kind, rows, shuffle=shuffle)
    sampler = (DefaultSampler if by_epoch else InfiniteSampler)(rows, shuffle=shuffle, seed=7)
    return MODULES[kind].DataLoader(rows, BATCH_SIZE, num_workers=2, sampler=sampler)


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    accumulates: int = 1,
    by_epoch: bool = True,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: of the loaders, as for `loader_of`.
        accumulates: the number of batches per update, also across the end of an epoch.
        by_epoch: False for a loop that counts batches, not epochs.
    """
    # mmengine's own start of ranks sets a GPU; its loops use a process group that already exists.
    torch.manual_seed(1)
    model: torch.nn.Module = Model()
    if ranks()[1] > 1:
        start_ranks()
        model = MMDistributedDataParallel(model, broadcast_buffers=False)
    record = Record(path, stop)
    runner = Runner(
        model,
        folder,
        train_dataloader=own_loader_of(kind, Rows(f"{path}-reads"), by_epoch=by_epoch),
        # The number of samples does not divide evenly among the ranks.
        val_dataloader=own_loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3), shuffle=False),
        val_evaluator=[Counted(record)],
        val_cfg={},
        optim_wrapper={"optimizer": {"type": "AdamW", "lr": 0.01}, "accumulative_counts": accumulates},
        train_cfg={"by_epoch": by_epoch, **(EPOCH if by_epoch else BATCHES)},
        default_hooks={"checkpoint": {"type": "CheckpointHook", "by_epoch": False, "interval": max(accumulates, 3)}},
        custom_hooks=[SaveLoader(), Written(record)],
        randomness={"seed": 1},
        log_level="ERROR",
        resume=resumes,
    )
    runner.train()
    assert type(runner.train_dataloader) is type(runner.val_dataloader) is MODULES[kind].DataLoader
