"""What scripts for trainers have in common: the samples, the model, and a line for each batch."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed

ROWS, EPOCHS, BATCH_SIZE = 40, 3, 4
# How many ranks there are, as launchers tell.
RANK, WORLD_SIZE = "RANK", "WORLD_SIZE"


def note(path: str, index: int) -> None:
    """Write that a sample was read."""
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
    """Return the rank of this process and how many there are, as launchers set them."""
    return int(os.environ.get(RANK, 0)), int(os.environ.get(WORLD_SIZE, 1))


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
        """Kill the process after the batch `stop`, when its checkpoint was saved."""
        if step != self.stop:
            return
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
