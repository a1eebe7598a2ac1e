"""A script for fairseq2: a reader for its trainer, which a double replaces, with the trainer's loop and states."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

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
    saved_by,
    start_ranks,
    state_of,
)

sys.path.append(str(Path(__file__).parents[1] / "doubles" / "trainers"))
DataReader = importlib.import_module("fairseq2.datasets").DataReader


class Reader(DataReader):  # type: ignore[misc, valid-type]
    """The reader that `docs/trainers.md` shows."""

    def __init__(self, loader: Any, num_accumulate: int) -> None:
        self.loader, self._num_accumulate = loader, num_accumulate
        self._batches: Iterator[Any] | None = None
        self._has_ended = False

    @property
    def num_accumulate(self) -> int:
        return self._num_accumulate

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> list[Any]:
        if self._has_ended:
            raise StopIteration
        if self._batches is None:
            self._batches = iter(self.loader)
        batches = list(itertools.islice(self._batches, self._num_accumulate))
        if not batches:
            raise StopIteration
        self._has_ended = len(batches) < self._num_accumulate
        return batches

    def reset(self) -> None:
        self._batches, self._has_ended = None, False

    def state_dict(self) -> dict[str, object]:
        return {"loader": state_of(self.loader), "has_ended": self._has_ended}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.reset()
        self.loader.load_state_dict(state_dict["loader"])
        self._has_ended = state_dict["has_ended"]


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    accumulates: int = 2,
) -> None:
    """Train, and write a line for each step to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoints.
        stop: the number of the step after which the process is killed.
        resumes: True to begin with the checkpoint.
        kind: of the loaders, as for `loader_of`.
        accumulates: the number of batches per step; an epoch ends with a step of fewer.
    """
    start_ranks()
    rank, _ = ranks()
    torch.manual_seed(1 + rank)
    reader = Reader(loader_of(kind, Rows(f"{path}-reads")), accumulates)
    evaluation = loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3 * (kind == "seeded")), shuffle=False)
    assert type(reader.loader) is type(evaluation) is MODULES[kind].DataLoader
    trained = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(trained.parameters(), 0.01)
    epoch, step, record = 0, 0, Record(path, stop)
    if resumes:
        saved = torch.load(saved_by(rank, folder, ""))
        trained.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        reader.load_state_dict(saved["reader"])
        torch.set_rng_state(saved["generator"])
        epoch, step = saved["epoch"], saved["step"]
    while epoch < EPOCHS:
        batches = next(reader, None)
        if batches is None:
            reader.reset()
            epoch += 1
            # Without a seed, a loader resumes with the generator states in its checkpoint, from before the evaluation.
            with torch.random.fork_rng():
                record.evaluated(counted(evaluation))
            continue
        losses = []
        for number, (indices, features) in enumerate(batches, start=1):
            with contextlib.nullcontext() if number == len(batches) else trained.no_sync():
                loss = loss_of(trained(features), indices)
                loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        record.write(step, [index for indices, _ in batches for index in indices.tolist()], sum(losses), trained)
        if step % 2 == 0:
            states = {"model": trained.state_dict(), "optimizer": optimizer.state_dict(), "reader": reader.state_dict()}
            states |= {"generator": torch.get_rng_state(), "epoch": epoch, "step": step}
            torch.save(states, f"{folder}/{rank}.tmp")
            os.replace(f"{folder}/{rank}.tmp", f"{folder}/{rank}.pt")
        record.after(step)
