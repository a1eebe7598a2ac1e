"""Parts that scripts for trainers share: the samples, the model, and a line for each batch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.utils.data import DistributedSampler

import sluicegate

ROWS, EPOCHS, BATCH_SIZE = 40, 3, 4
# Environment variables that launchers set.
RANK, WORLD_SIZE = "RANK", "WORLD_SIZE"
MODULES: dict[str, Any] = {"seeded": sluicegate, "sampled": sluicegate, "torch": torch.utils.data}


def note(path: str, index: int) -> None:
    """Record that a sample was read."""
    with open(path, "a") as file:  # Appending a short line is atomic.
        file.write(f"{index}\n")


def noted(path: Path) -> list[int]:
    """Return the samples that were read."""
    return [int(line) for line in path.read_text().splitlines()]


class Rows(torch.utils.data.Dataset[tuple[int, torch.Tensor]]):
    """Samples with their index, and an augmentation that draws; `reads` is a file with a line for each read."""

    def __init__(self, reads: str, size: int = ROWS) -> None:
        self.reads, self.size = reads, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        note(self.reads, index)
        return index, torch.tensor([1.0, index / ROWS, (index % 5) / 5]) + torch.rand(3)


def ranks() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks, as launchers set them."""
    return int(os.environ.get(RANK, 0)), int(os.environ.get(WORLD_SIZE, 1))


def start_ranks() -> None:
    """Start the process group, even for a single rank."""
    rank, size = ranks()
    if size > 1:
        torch.distributed.init_process_group("gloo")
    else:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=rank, world_size=size)


def states_of_ranks(state: Any) -> list[Any]:
    """Return the states of all ranks, for checkpoints that the first one writes."""
    states: list[Any] = [None] * ranks()[1]
    torch.distributed.all_gather_object(states, state)
    return states


def loader_of(kind: str, rows: Rows, *, shuffle: bool = True, workers: int = 2) -> Any:
    """Return the loader of this rank.

    Args:
        kind: "seeded" for ours with a seed and a shard, "sampled" for ours with torch's sampler, "torch" for torch's.
        rows: the samples.
        shuffle: True for a training, False for an evaluation, whose padding is marked.
        workers: the number of worker processes of a training; an evaluation has none.
    """
    rank, size = ranks()
    workers = workers if shuffle else 0
    if kind == "seeded":
        remainder = "pad" if shuffle else "exact"
        return sluicegate.DataLoader(
            rows, BATCH_SIZE, shuffle=shuffle, num_workers=workers, seed=7, shard=(rank, size), remainder=remainder
        )
    sampler = DistributedSampler(rows, size, rank, shuffle)
    return MODULES[kind].DataLoader(rows, BATCH_SIZE, num_workers=workers, sampler=sampler)


def patched(kind: str) -> Any:
    """Return a context in which other code creates loaders of that kind."""
    if kind == "torch":
        return contextlib.nullcontext()
    return sluicegate.patch(seed=7) if kind == "seeded" else sluicegate.patch()


def state_of(loader: Any) -> Any:
    """Return the state of the loader, if it has one."""
    return loader.state_dict() if isinstance(loader, sluicegate.DataLoader) else None


def set_epoch(loader: Any, epoch: int) -> None:
    (loader if isinstance(loader, sluicegate.DataLoader) else loader.sampler).set_epoch(epoch)


def counted(loader: Any) -> Iterator[int]:
    """Yield the samples that an evaluation counts on this rank."""
    if not isinstance(loader, sluicegate.DataLoader):
        for indices, _ in loader:
            yield from indices.tolist()
        return
    for (indices, _), ids in loader.with_ids():
        yield from indices[torch.from_numpy(ids.valid)].tolist()


def saved_by(rank: int, folder: str, name: str) -> str:
    """Return the path of `rank`'s checkpoint; with a seed, all ranks use that of the first one."""
    path = f"{folder}/{name}{rank}.pt"
    return path if os.path.exists(path) else f"{folder}/{name}0.pt"


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def loss_of(outputs: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(outputs.flatten(), indices / ROWS)


class Record:
    """The lines of a training: the step, the samples, the loss, and the sum of the weights.

    Args:
        path: of the file with the lines.
        stop: the number of the batch after which the process is killed; ranks wait for each other before.
    """

    def __init__(self, path: str, stop: int | None) -> None:
        self.path, self.stop = path, stop

    def write(self, step: int, samples: Iterable[int], loss: float, trained: torch.nn.Module) -> None:
        weights = sum(float(each.detach().double().sum()) for each in trained.parameters())
        self._write([step, list(samples), loss, weights])

    def evaluated(self, samples: Iterable[int]) -> None:
        """Write the samples that an evaluation counted."""
        with open(f"{self.path}-evaluated", "a") as file:
            print(json.dumps(list(samples)), file=file)

    def _write(self, line: Any) -> None:
        with open(self.path, "a") as file:
            print(json.dumps(line), file=file)

    def after(self, step: int) -> None:
        """Kill the process after the batch `stop`, once its checkpoint is saved."""
        if step != self.stop:
            return
        if torch.distributed.is_initialized():
            with contextlib.suppress(RuntimeError):  # A rank that has left was killed already.
                torch.distributed.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
