"""Scripts for Accelerate, as users write them: the same lines for torch's loader and for ours."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import (
    BatchSampler,
    Dataset,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import sluicegate
import sluicegate.accelerate

SAMPLES, EPOCHS = 29, 2


class Rows(Dataset):
    """Samples with their index, and an augmentation that draws; `reads` is a file with a line for each read."""

    def __init__(self, draws: bool, reads: Path | None = None) -> None:
        self.draws, self.reads = draws, reads

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        if self.reads is not None:
            with self.reads.open("a") as file:  # Appending a short line is atomic.
                file.write(f"{index}\n")
        row = torch.tensor([1.0, index / SAMPLES, (index % 5) / 5])
        return index, row + torch.rand(3) if self.draws else row


class Place:
    """The current epoch, which a script saves as its position."""

    def __init__(self) -> None:
        self.epoch = 0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]


class Turned(Sampler[int]):
    """Starts at a different index in every epoch that `set_epoch` sets."""

    def __init__(self, size: int) -> None:
        self.size, self.epoch = size, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        return iter([(index + 3 * self.epoch) % self.size for index in range(self.size)])


ORDERS: dict[str, Any] = {
    "batches": lambda size: {"batch_sampler": [[0] * (1 + index % 3) for index in range(size)]},
    "cut": lambda size: {"batch_sampler": BatchSampler(Turned(size), 4, False)},
    "subset": lambda size: {"sampler": SubsetRandomSampler(range(0, size, 2))},
    "unbatched": lambda size: {"sampler": BatchSampler(SequentialSampler(range(size)), 4, False), "batch_size": None},
    "turned": lambda size: {"sampler": Turned(size)},
    "weighted": lambda size: {"sampler": WeightedRandomSampler([1.0] * size, size)},
}
ACCELERATORS: dict[str, Any] = {"torch": accelerate.Accelerator, "sluicegate": sluicegate.accelerate.Accelerator}
MODULES: dict[str, Any] = {"torch": torch.utils.data, "sluicegate": sluicegate}


def read(path: str, kind: str, cases: list[Any]) -> None:
    """Write the batches that this process gets for each case: (config, arguments, order, size)."""
    lines = []
    for number, (config, arguments, order, size) in enumerate(cases):
        torch.manual_seed(number)
        accelerator = ACCELERATORS[kind](cpu=True, dataloader_config=DataLoaderConfiguration(**config))
        arguments = arguments | ({} if order is None else ORDERS[order](size))
        line: list[Any] = []
        try:
            loader = accelerator.prepare(MODULES[kind].DataLoader(torch.arange(size), **arguments))
        except ValueError:
            loader = ()
            line.append("refused")
        for batch in itertools.chain(loader, loader):
            state = accelerator.gradient_state
            # Accelerate's remainder is wrong if the sampler's length differs from the dataset's.
            remainder = None if order in ("subset", "batches") else state.remainder
            line.append([batch.tolist(), state.end_of_dataloader, remainder])
        lines.append(line)
    Path(path).write_text(json.dumps(lines))


def evaluate(cases: list[Any]) -> None:
    """Check that each sample is counted once: (config, arguments, size)."""
    for number, (config, arguments, size) in enumerate(cases):
        torch.manual_seed(number)
        accelerator = ACCELERATORS["sluicegate"](cpu=True, dataloader_config=DataLoaderConfiguration(**config))
        loader = accelerator.prepare(sluicegate.DataLoader(torch.arange(size), **arguments))
        for _ in range(2):
            counted, objects = [], []
            for batch in loader:
                counted += accelerator.gather_for_metrics({"nested": [batch]})["nested"][0].tolist()
                objects += accelerator.gather_for_metrics([str(int(each)) for each in batch], use_gather_object=True)
            assert sorted(counted) == list(range(size)), (config, arguments, size, counted)
            assert list(map(int, objects)) == counted
        assert accelerator.gradient_state.active_dataloader is None


def refused(text: str, kind: str, **arguments: Any) -> None:
    """Check that a training is refused with a message that contains `text`."""
    with pytest.raises(ValueError, match=text):
        train(None, kind, **arguments)


def loaders(kind: str, dataset: Dataset[Any], evaluated: Dataset[Any], seed: int | None, **given: Any) -> Iterator[Any]:
    """Return the loaders for training and for evaluation."""
    module = MODULES[kind]
    if seed is not None:
        given["seed"] = seed
    yield module.DataLoader(dataset, shuffle=True, **given)
    yield module.DataLoader(evaluated, **given)


def train(
    path: str | None,
    kind: str,
    *,
    saves: str = "",
    resumes: bool = False,
    stop: int | None = None,
    folder: str = "",
    seed: int | None = None,
    draws: bool = False,
    dropout: float = 0.0,
    config: dict[str, Any] | None = None,
    rng_types: list[str] | None = None,
    evaluates: bool = True,
    batch_size: int = 3,
    **given: Any,
) -> None:
    """Train, and write each step as a line to `path`.

    Args:
        path: a file of this process.
        kind: which implementation of the loader.
        saves: when to save a checkpoint in `folder`: at synchronized "steps", or after "epochs".
        resumes: True to start from the checkpoint.
        stop: the number of the step after which the process is killed.
        folder: the folder of checkpoints, and of the file that lists the samples read.
        seed: the seed of the loaders.
        draws: True if samples are augmented.
        dropout: the dropout of the model.
        config: arguments of `DataLoaderConfiguration`.
        rng_types: the `rng_types` of the accelerator.
        evaluates: True to count samples after each epoch.
        batch_size, given: arguments of the loaders.
    """
    warnings.filterwarnings("ignore", module="accelerate|torch.optim")
    accelerate.utils.set_seed(1)
    given_config = DataLoaderConfiguration(**(config or {}))
    accelerator = ACCELERATORS[kind](
        cpu=True, gradient_accumulation_steps=3, dataloader_config=given_config, rng_types=rng_types
    )
    reads = Path(f"{folder}/reads-{int(resumes)}") if folder else None
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
    both = loaders(kind, Rows(draws, reads), Rows(draws), seed, batch_size=batch_size, **given)
    model, optimizer, scheduler, training, evaluation = accelerator.prepare(model, optimizer, scheduler, *both)
    place, step = Place(), 0
    accelerator.register_for_checkpointing(place)
    if resumes:
        accelerator.load_state(f"{folder}/checkpoint")
    if kind == "sluicegate":
        assert isinstance(training, sluicegate.DataLoader)
    with open(path or os.devnull, "a") as file:
        for epoch in range(place.epoch, EPOCHS):
            place.epoch = epoch
            for indices, rows in training:
                with accelerator.accumulate(model):
                    loss = torch.nn.functional.mse_loss(model(rows).flatten(), indices / SAMPLES)
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                torch.rand(accelerator.process_index)  # gives each process a different generator state
                is_last = accelerator.gradient_state.end_of_dataloader
                line = [epoch, indices.tolist(), loss.item(), accelerator.sync_gradients, is_last]
                print(json.dumps(line), file=file, flush=True)
                if saves == "steps" and accelerator.sync_gradients:
                    accelerator.save_state(f"{folder}/checkpoint")
                step += 1
                if step == stop:
                    accelerator.wait_for_everyone()
                    os._exit(0)
            counted: list[int] = []
            for indices, rows in evaluation if evaluates else ():
                with torch.no_grad():
                    model(rows)
                counted += accelerator.gather_for_metrics(indices).tolist()
            print(json.dumps([epoch, "evaluation", counted]), file=file, flush=True)
            if saves == "epochs":
                place.epoch += 1
                accelerator.save_state(f"{folder}/checkpoint")
    accelerator.end_training()
