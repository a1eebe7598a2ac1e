"""A script for torchtitan, as users write it: its training loop and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed
import torchtitan.components.validate
import torchtitan.trainer
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DistributedSampler
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer, ParamGroupConfig
from torchtitan.config import TrainingConfig
from torchtitan.tools.utils import GarbageCollection

from cases.recorded_training import BATCH_SIZE, EPOCHS, ROWS, Record, note, ranks, start_ranks
from sluicegate import DataLoader

# It asks for the current GPU.
torchtitan.trainer.dist_utils.set_pg_timeouts = lambda **_: None
torchtitan.components.validate.utils.device_type = "cpu"


class Tokens(torch.utils.data.Dataset):
    """Sequences that begin with their number and continue with random tokens; `reads` records each read."""

    def __init__(self, reads: str) -> None:
        self.reads = reads

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        note(self.reads, index)
        tokens = torch.cat([torch.tensor([index]), torch.randint(ROWS, (8,))])
        return {"input": tokens[:-1]}, tokens[1:]


class Repeated:
    """Shared by our loader and torch's: it repeats epochs, because torchtitan ends the training with its loader."""

    def __init__(self, config: Any, *, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: Any) -> None:
        tokens, self.config, self.rank = Tokens(config.reads), config, dp_rank
        given: dict[str, Any] = {"sampler": DistributedSampler(tokens, dp_world_size, dp_rank, shuffle=config.infinite)}
        if config.kind == "seeded":
            given = {"shuffle": config.infinite, "seed": 7, "shard": (dp_rank, dp_world_size)}
        super().__init__(tokens, local_batch_size, num_workers=config.num_workers, **given)  # type: ignore[call-arg]

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()  # type: ignore[misc]
        while self.config.infinite:
            yield from super().__iter__()  # type: ignore[misc]


class Loader(Repeated, DataLoader, BaseDataLoader):  # type: ignore[misc]
    """Our loader."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        infinite: bool = True
        kind: str = "seeded"
        num_workers: int = 0
        reads: str = ""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without a seed under keys of this rank, because the checkpoint has one value per key."""
        state: dict[str, Any] = super().state_dict()
        if self.config.kind == "seeded":
            return state
        return {f"loader {self.rank}": state, f"generator {self.rank}": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.config.kind == "seeded":
            super().load_state_dict(state)
        else:
            super().load_state_dict(state[f"loader {self.rank}"])
            torch.set_rng_state(state[f"generator {self.rank}"])


class TorchsLoader(Repeated, torch.utils.data.DataLoader, BaseDataLoader):  # type: ignore[misc, type-arg]
    """Torch's loader, which has no state."""

    @dataclass(kw_only=True, slots=True)
    class Config(Loader.Config):
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


LOADERS: dict[str, Any] = {"seeded": Loader, "sampled": Loader, "torch": TorchsLoader}


class Trainer(torchtitan.trainer.Trainer):  # type: ignore[misc]
    """A trainer with a small model, which needs no GPU; the loop, the steps, and the validation are torchtitan's."""

    def __init__(self, config: Any, record: Record, accumulates: int) -> None:
        self.config, self.record, self.step, self.ntokens_seen = config, record, 0, 0
        self.gradient_accumulation_steps, self.num_pipeline_parallel_microbatches = accumulates, 1
        self.losses: list[float] = []
        self.read: list[int] = []
        rank, size = ranks()
        self.device = torch.device("cpu")
        mesh = init_device_mesh("cpu", (size,))
        self.parallel_dims = SimpleNamespace(
            dp_enabled=True,
            pp_enabled=False,
            cp_enabled=False,
            dp_cp_enabled=True,
            ep_enabled=False,
            get_mesh=lambda name: mesh,
            get_optional_mesh=lambda name: None if name == "pp" else mesh,
        )
        self.gc_handler = GarbageCollection()
        self.metrics_processor = SimpleNamespace(
            ntokens_since_last_log=0,
            data_loading_times=[],
            should_log=lambda step: False,
            log_validation=lambda loss, step: None,
        )
        torch.manual_seed(1)
        self.model_parts = [torch.nn.Sequential(torch.nn.Embedding(ROWS, 8), torch.nn.Linear(8, ROWS))]
        self.model_parts[0].register_forward_pre_hook(self.note_evaluated)
        self.optimizers = config.optimizer.build(model_parts=self.model_parts)
        for optimizer in self.optimizers:
            optimizer.register_step_pre_hook(self.synchronize)
        self.lr_schedulers = config.lr_scheduler.build(optimizers=self.optimizers, training_steps=config.training.steps)
        given = {"dp_world_size": size, "dp_rank": rank, "tokenizer": None, "seq_len": 8}
        given["local_batch_size"] = BATCH_SIZE
        self.dataloader = config.dataloader.build(**given, snapshot_every_n_steps=config.checkpoint.interval)
        self.checkpointer = config.checkpoint.build(
            dataloader=self.dataloader,
            model_parts=self.model_parts,
            optimizers=self.optimizers,
            lr_schedulers=self.lr_schedulers,
            states={"train_state": self},
            sd_adapter=None,
            base_folder=config.dump_folder,
        )
        self.evaluated: list[int] = []
        self.validator = config.validator.build(
            **given,
            parallelism=SimpleNamespace(spmd_backend="default"),
            parallel_dims=self.parallel_dims,
            loss_fn=lambda outputs, labels: (self.loss_of(outputs, labels), {}),
            validation_context=contextlib.nullcontext,
            metrics_processor=self.metrics_processor,
        )

    def note_evaluated(self, model: Any, inputs: tuple[torch.Tensor]) -> None:
        if not model.training:
            self.evaluated += inputs[0][:, 0].tolist()

    def synchronize(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Add the gradients of all ranks, as parallel models do."""
        for parameter in self.model_parts[0].parameters():
            torch.distributed.all_reduce(parameter.grad)

    def loss_of(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="sum")

    def forward_backward_step(
        self, *, input_dict: dict[str, torch.Tensor], labels: torch.Tensor, global_valid_tokens: torch.Tensor
    ) -> torch.Tensor:
        loss = self.loss_of(self.model_parts[0](input_dict["input"]), labels) / global_valid_tokens
        loss.backward()  # type: ignore[no-untyped-call]
        self.losses.append(loss.item())
        self.read += input_dict["input"][:, 0].tolist()
        return loss

    def train_step(self, data_iterator: Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]) -> None:
        self.losses.clear()
        self.read.clear()
        super().train_step(data_iterator)
        self.record.write(self.step, self.read, sum(self.losses), self.model_parts[0])

    def should_continue_training(self) -> bool:
        self.record.after(self.step)
        continues: bool = super().should_continue_training()
        return continues

    def evaluate(self) -> None:
        self.validator.validate(self.model_parts, self.step)
        self.record.evaluated(self.evaluated)


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    workers: int = 2,
    accumulates: int = 1,
    steps: int | None = None,
) -> None:
    """Train, and write a line for each step to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints, the last of which torchtitan loads.
        stop: the number of the step after which the process is killed.
        resumes: True if there are checkpoints.
        kind: "seeded" for a loader with a seed and a shard, "sampled" for one with torch's sampler, "torch" for
            torch's.
        workers: the number of workers of the loader.
        accumulates: the number of batches per step, also across the end of an epoch.
        steps: the number of steps; by default, those of all epochs.
    """
    start_ranks()
    groups = [ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.01})]
    config_of = functools.partial(LOADERS[kind].Config, num_workers=workers, kind=kind)
    validation = config_of(reads=f"{path}-evaluation-reads")
    config = torchtitan.trainer.Trainer.Config(
        dump_folder=folder,
        dataloader=config_of(reads=f"{path}-reads"),
        validator=torchtitan.components.validate.Validator.Config(dataloader=validation),
        optimizer=OptimizersContainer.Config(param_groups=groups, implementation="for-loop"),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),
        training=TrainingConfig(steps=steps or EPOCHS * ROWS // (BATCH_SIZE * ranks()[1] * accumulates)),
        checkpoint=CheckpointManager.Config(enable=True, interval=3),
    )
    trainer = Trainer(config, Record(path, stop), accumulates)
    assert type(trainer.dataloader) is LOADERS[kind]
    trainer.train()
    trainer.evaluate()
