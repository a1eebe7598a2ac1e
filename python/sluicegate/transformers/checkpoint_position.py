"""The position of the training loader in the checkpoints of a trainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import load

from sluicegate.accelerate.prepared_loader import PreparedLoader
from sluicegate.accelerate.saved_positions import next_epoch_of, position_of, resume


def save_position(trainer: Any, loader: PreparedLoader[Any], folder: str) -> None:
    """Write the position of this process; each process has a file, because without a seed their draws differ."""
    # The trainer reads `len` batches and does not request another, so the loader's loop has not ended.
    updates = _updates_per_epoch(trainer, loader)
    is_over = loader.end_of_dataloader or (updates and trainer.state.global_step % updates == 0)
    content = {
        "num_processes": trainer.accelerator.num_processes,
        "samples_per_update": _samples_per_update(trainer, loader),
        "updates_per_epoch": updates,
        "position": next_epoch_of(loader) if is_over else position_of(loader),
    }
    torch.save(content, _path(folder, trainer.accelerator.process_index))


def load_position(trainer: Any, loader: PreparedLoader[Any], folder: str) -> bool:
    """Make `loader` resume from the position that `save_position` wrote; return False if there is none.

    Raises:
        ValueError: the trainer or the loader has changed.
    """
    accelerator = trainer.accelerator
    if not _path(folder, 0).exists():
        return False
    there = load(_path(folder, 0))
    processes = there["num_processes"]
    if processes != accelerator.num_processes and loader.seed is None:
        raise ValueError(
            f"resume_from_checkpoint: {folder} was saved by {processes} processes, got {accelerator.num_processes}, "
            f"and without a seed each process resumes its own part; start {processes} processes, train with "
            'loader_arguments={"seed": ...} from the start, or set ignore_data_skip=True'
        )
    samples = _samples_per_update(trainer, loader)
    if there["samples_per_update"] != samples:
        raise ValueError(
            f"resume_from_checkpoint: {folder} was saved with {there['samples_per_update']} samples per update, got "
            f"{samples}, so the trainer would miscount epochs; keep per_device_train_batch_size * "
            "gradient_accumulation_steps * number of processes as it was, or set ignore_data_skip=True"
        )
    updates = _updates_per_epoch(trainer, loader)
    if there["updates_per_epoch"] != updates:
        raise ValueError(
            f"resume_from_checkpoint: {folder} was saved with {there['updates_per_epoch']} updates per epoch, got "
            f"{updates}; train with the same dataset, or set ignore_data_skip=True"
        )
    position = load(_path(folder, accelerator.process_index % processes))["position"]
    epoch = trainer.state.global_step // updates if updates else 0
    if position["epoch"] != epoch:
        raise ValueError(
            f"resume_from_checkpoint: {folder} was saved in epoch {position['epoch']} of the loader, and the trainer "
            f"counts {epoch}: the dataset has no length, an epoch was ended early (should_epoch_stop), or an earlier "
            "resume had ignore_data_skip=True; give the dataset a length, resume from a checkpoint of before that, or "
            "set ignore_data_skip=True"
        )
    resume(loader, position)
    return True


def _samples_per_update(trainer: Any, loader: PreparedLoader[Any]) -> int | None:
    size = loader.total_batch_size
    return None if size is None else size * int(trainer.args.gradient_accumulation_steps)


def _updates_per_epoch(trainer: Any, loader: PreparedLoader[Any]) -> int | None:
    batches = loader.batches_per_epoch
    return None if batches is None else max(math.ceil(batches / trainer.args.gradient_accumulation_steps), 1)


def _path(folder: str, process: int) -> Path:
    return Path(folder) / f"sluicegate_{process}.bin"
