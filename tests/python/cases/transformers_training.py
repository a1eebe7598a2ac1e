"""Scripts for the Trainer of transformers, as users write them: the same lines for torch's loader and for ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

import sluicegate
import sluicegate.transformers
from sluicegate.accelerate.prepared_loader import PreparedLoader

SAMPLES, EPOCHS = 29, 2
# The exit code of a process that ends after `stop` as if it had been killed.
KILLED = 0


class Rows(Dataset):
    """Samples of several lengths with their index; `reads` is a file with a line for each read."""

    def __init__(self, draws: bool = False, reads: Path | None = None, size: int = SAMPLES) -> None:
        self.draws, self.reads, self.size = draws, reads, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= self.size:
            raise IndexError(index)  # the length sampler of transformers iterates until it
        if self.reads is not None:
            with self.reads.open("a") as file:  # Appending a short line is atomic.
                file.write(f"{index}\n")
        row = torch.tensor([1.0, index / SAMPLES, (index % 5) / 5])
        row = row + torch.rand(3) if self.draws else row
        return {"index": index, "input_ids": [index] * (1 + index * 7 % 11), "row": row, "labels": index / SAMPLES}


class Stream(IterableDataset):
    """The same samples in order, split among workers, with a position."""

    def __init__(self, rows: Rows, has_length: bool) -> None:
        self.rows, self.place = rows, 0
        if has_length:
            self.__class__ = StreamWithLength

    def __iter__(self) -> Iterator[dict[str, Any]]:
        first = self.place
        worker = get_worker_info()
        indices = range(len(self.rows)) if worker is None else range(worker.id, len(self.rows), worker.num_workers)
        for index in indices[first:]:
            self.place += 1
            yield self.rows[index]
        self.place = 0

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class StreamWithLength(Stream):
    def __len__(self) -> int:
        return len(self.rows)


def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {
        "index": torch.tensor([each["index"] for each in samples]),
        "row": torch.stack([each["row"] for each in samples]),
        "labels": torch.tensor([each["labels"] for each in samples]),
    }


class Repeating(Sampler[int]):
    """Replaces the `RepeatSampler` of TRL 1.1: each prompt `each` times, each chunk of prompts `chunks` times.

    As there, the last incomplete chunk is left out, and the generator is seeded once, not for each epoch.
    """

    def __init__(self, dataset: Rows, chunk: int = 3, each: int = 2, chunks: int = 2, seed: int = 4) -> None:
        self.dataset, self.chunk, self.each, self.chunks = dataset, chunk, each, chunks
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.dataset) // self.chunk * self.chunk * self.each * self.chunks

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(len(self.dataset), generator=self.generator).tolist()
        for first in range(0, len(order) - self.chunk + 1, self.chunk):
            for _ in range(self.chunks):
                for index in order[first : first + self.chunk]:
                    yield from [index] * self.each


class Model(torch.nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1))

    def forward(self, row: torch.Tensor, labels: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layers(row).flatten()
        return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": index}


class Recording(transformers.Trainer):
    """Writes a line to `file` for each training batch and each evaluation; the process is killed after `stop` steps.

    Attributes:
        file: an open file.
        stop: the number of the step after whose checkpoint this process is killed.
        loaders: the loaders that the training loop and the evaluation received.
    """

    file: Any = None
    stop: int | None = None

    def training_step(self, model: Any, inputs: dict[str, Any], *others: Any, **named: Any) -> torch.Tensor:
        indices = inputs["index"].tolist()
        loss = super().training_step(model, inputs, *others, **named)
        torch.rand(self.accelerator.process_index)  # gives each process a different generator state
        print(json.dumps(["step", self.state.global_step, indices, loss.item()]), file=self.file, flush=True)
        return loss

    def log(self, logs: dict[str, Any], *others: Any, **named: Any) -> None:
        if "eval_loss" in logs:
            line = ["evaluation", self.state.global_step, logs["eval_loss"], logs["eval_counted"]]
            print(json.dumps(line), file=self.file, flush=True)
        super().log(logs, *others, **named)

    def _save_checkpoint(self, *given: Any, **named: Any) -> None:
        super()._save_checkpoint(*given, **named)
        if self.state.global_step == self.stop:
            self.accelerator.wait_for_everyone()
            os._exit(KILLED)


class Repeats(Recording):
    """Trains with `Repeating`."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return Repeating(self.train_dataset)


class OursRepeats(sluicegate.transformers.LoaderMixin, Repeats):
    pass


class Ours(Recording, sluicegate.transformers.LoaderMixin, transformers.Trainer):
    pass


def counted(prediction: Any) -> dict[str, Any]:
    """Return the indices of the samples that were evaluated, as a metric."""
    return {"counted": sorted(int(index) for index in prediction.predictions)}


def trainer_of(
    kind: str,
    *,
    folder: str = "",
    name: str = "0",
    draws: bool = False,
    dropout: float = 0.0,
    stream: str = "",
    repeats: bool = False,
    loader_arguments: dict[str, Any] | None = None,
    **given: Any,
) -> Recording:
    """Return the trainer of a script.

    Args:
        kind: which implementation of the loader.
        folder: the folder of checkpoints, and of the file that lists the samples read.
        name: the name of that file.
        draws: True if samples are augmented.
        dropout: the dropout of the model.
        stream: "" for a dataset with indices, "sized" or "endless" for a stream with and without a length.
        repeats: True to train with `Repeating`.
        loader_arguments: arguments of our loader.
        given: the arguments of `TrainingArguments`.
    """
    transformers.set_seed(1)
    reads = Path(f"{folder}/reads-{name}") if folder else None
    dataset: Any = Rows(draws, reads)
    if stream:
        dataset = Stream(dataset, stream == "sized")
    arguments: dict[str, Any] = {
        "output_dir": f"{folder}/checkpoints" if folder else "/nonexistent",
        "per_device_train_batch_size": 3,
        "per_device_eval_batch_size": 4,
        "num_train_epochs": EPOCHS,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "logging_strategy": "no",
        "dataloader_pin_memory": False,
    }
    named: dict[str, Any] = {"loader_arguments": loader_arguments} if kind == "sluicegate" else {}
    trainers = (Repeats, OursRepeats) if repeats else (Recording, Ours)
    return trainers[kind == "sluicegate"](
        Model(dropout),
        transformers.TrainingArguments(**arguments | given),
        data_collator=collate,
        train_dataset=dataset,
        eval_dataset=Rows(),
        compute_metrics=counted,
        **named,
    )


def train(path: str, kind: str, *, resumes: str | bool = False, stop: int | None = None, **arguments: Any) -> None:
    """Train, and write each step and evaluation as a line to `path`.

    Args:
        path: a file of this process.
        kind: which implementation of the loader.
        resumes: the checkpoint to begin with, or True for the last one.
        stop: the number of the step after whose checkpoint the process is killed.
        arguments: arguments of `trainer_of`.
    """
    trainer = trainer_of(kind, name=str(int(bool(resumes))), **arguments)
    trainer.stop = stop
    with open(path, "a") as trainer.file:
        trainer.train(resume_from_checkpoint=resumes)
        if kind == "sluicegate":
            assert isinstance(trainer.callback_handler.train_dataloader, PreparedLoader)
            if trainer.callback_handler.eval_dataloader is not None:
                assert isinstance(trainer.callback_handler.eval_dataloader, PreparedLoader)
    trainer.accelerator.end_training()


def refused(text: str, path: str, kind: str, **arguments: Any) -> None:
    """Check that a training is refused with a message that contains `text`."""
    with pytest.raises(ValueError, match=text):
        train(path, kind, **arguments)
