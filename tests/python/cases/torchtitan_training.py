"""A script for torchtitan, as users write it: its training loop and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed
import torchtitan.trainer
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer, ParamGroupConfig
from torchtitan.config import TrainingConfig
from torchtitan.tools.utils import GarbageCollection

from cases.recorded_training import note
from sluicegate import DataLoader

ROWS, EPOCHS, BATCH_SIZE = 48, 2, 4
# Asks for the current GPU.
torchtitan.trainer.dist_utils.set_pg_timeouts = lambda **_: None


class Tokens(torch.utils.data.Dataset):
    """Sequences that begin with their number, and continue with what is drawn.

    Attributes:
        reads: a file with a line for each read.
    """

    reads: str

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        note(self.reads, index)
        tokens = torch.cat([torch.tensor([index]), torch.randint(ROWS, (8,))])
        return {"input": tokens[:-1]}, tokens[1:]


class Loader(DataLoader, BaseDataLoader):  # type: ignore[misc]
    """Our loader, epoch after epoch: torchtitan ends the training with its loader."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        num_workers: int = 0

    def __init__(self, config: Any, *, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: Any) -> None:
        shard = (dp_rank, dp_world_size)
        super().__init__(Tokens(), local_batch_size, shuffle=True, num_workers=config.num_workers, seed=7, shard=shard)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        while True:
            yield from super().__iter__()


class Trainer(torchtitan.trainer.Trainer):  # type: ignore[misc]
    """Has a small model, which needs neither a GPU nor parallel dimensions; the loop is torchtitan's."""

    def __init__(self, config: Any, file: Any, stop: int | None) -> None:
        self.config, self.file, self.stop, self.step, self.ntokens_seen = config, file, stop, 0, 0
        self.device, self.parallel_dims = torch.device("cpu"), None
        self.gc_handler = GarbageCollection()
        self.metrics_processor = SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
        torch.manual_seed(1)
        self.model_parts = [torch.nn.Sequential(torch.nn.Embedding(ROWS, 8), torch.nn.Linear(8, ROWS))]
        self.optimizers = config.optimizer.build(model_parts=self.model_parts)
        self.lr_schedulers = config.lr_scheduler.build(optimizers=self.optimizers, training_steps=config.training.steps)
        self.dataloader = config.dataloader.build(
            dp_world_size=1,
            dp_rank=0,
            tokenizer=None,
            seq_len=8,
            local_batch_size=BATCH_SIZE,
            snapshot_every_n_steps=config.checkpoint.interval,
        )
        self.checkpointer = config.checkpoint.build(
            dataloader=self.dataloader,
            model_parts=self.model_parts,
            optimizers=self.optimizers,
            lr_schedulers=self.lr_schedulers,
            states={"train_state": self},
            sd_adapter=None,
            base_folder=config.dump_folder,
        )

    def train_step(self, data_iterator: Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]) -> None:
        inputs, labels = next(data_iterator)
        (model,) = self.model_parts
        self.optimizers.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs["input"]).flatten(0, 1), labels.flatten())
        loss.backward()
        self.optimizers.step()
        self.lr_schedulers.step()
        weights = sum(float(each.detach().double().sum()) for each in model.parameters())
        print(json.dumps([self.step, inputs["input"].tolist(), loss.item(), weights]), file=self.file, flush=True)
        if self.step == self.stop:
            os.kill(os.getpid(), signal.SIGKILL)


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, workers: int = 2) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of checkpoints, the last of which torchtitan loads.
        stop: the number of the step after which the process kills itself.
        resumes: True if there are checkpoints.
        workers: the loader's.
    """
    Tokens.reads = f"{path}-reads"
    assert resumes == os.path.exists(f"{folder}/checkpoint")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    groups = [ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.01})]
    config = torchtitan.trainer.Trainer.Config(
        dump_folder=folder,
        dataloader=Loader.Config(num_workers=workers),
        optimizer=OptimizersContainer.Config(param_groups=groups, implementation="for-loop"),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),
        training=TrainingConfig(steps=EPOCHS * ROWS // BATCH_SIZE),
        checkpoint=CheckpointManager.Config(enable=True, interval=3),
    )
    with open(path, "a") as file:
        trainer = Trainer(config, file, stop)
        assert isinstance(trainer.dataloader, DataLoader)
        trainer.train()
