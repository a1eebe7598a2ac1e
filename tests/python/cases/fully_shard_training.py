"""A script for torch's FSDP and `torch.distributed.checkpoint`, as users write it, with our loader, on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from cases.recorded_training import (
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
    set_epoch,
    start_ranks,
)


class Generator:
    """The global generator of this rank, as a part of a checkpoint."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"state": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        torch.set_rng_state(state["state"])


class Place:
    """The next step, and its epoch."""

    epoch = step = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.step = state["epoch"], state["step"]


class Trained:
    """The model and its optimizer, which load on any number of ranks."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        weights, moments = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, kind: str = "seeded") -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: of the loaders, as for `loader_of`; the state of torch's is not saved.
    """
    start_ranks()
    rank, size = ranks()
    torch.manual_seed(1)
    loader = loader_of(kind, Rows(f"{path}-reads"))
    evaluation = loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3 * (kind == "seeded")), shuffle=False)
    assert type(loader) is type(evaluation) is MODULES[kind].DataLoader
    trained = fully_shard(model(), mesh=init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.AdamW(trained.parameters(), 0.01)
    place, record, last = Place(), Record(path, stop), Path(f"{folder}/last")
    # With a seed, all ranks have the same state of the loader; without one, each has its own.
    own = "" if kind == "seeded" else f" {rank}"
    checkpoint = {"trained": Trained(trained, optimizer), "place": place}
    checkpoint |= {f"loader{own}": loader} | ({f"generator{own}": Generator()} if own else {})
    if resumes:
        torch.distributed.checkpoint.load(checkpoint, checkpoint_id=last.read_text())
    for epoch in range(place.epoch, EPOCHS):
        place.epoch = epoch
        set_epoch(loader, epoch)
        for indices, features in loader:
            loss = loss_of(trained(features), indices)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            place.step += 1
            whole = torch.nn.ParameterList(each.full_tensor() for each in trained.parameters())  # type: ignore[attr-defined]
            record.write(place.step, indices.tolist(), loss.item(), whole)
            if place.step % 3 == 0 and kind != "torch":
                name = f"{folder}/{place.step}"
                torch.distributed.checkpoint.save(checkpoint, checkpoint_id=name)
                if rank == 0:
                    last.with_suffix(".tmp").write_text(name)
                    os.replace(last.with_suffix(".tmp"), last)
            record.after(place.step)
        record.evaluated(counted(evaluation))
