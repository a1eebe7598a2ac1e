"""The positions of prepared loaders in the checkpoints that `Accelerator.save_state` writes."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import load

from sluicegate.loader.dataloader import progress_of
from sluicegate.loader_state.saved_form import read, saved
from sluicegate.order import draws
from sluicegate.order.settings import LoaderSettings

from .prepared_loader import PreparedLoader

if TYPE_CHECKING:
    import accelerate


def save_positions(accelerator: accelerate.Accelerator, folder: str | Path) -> None:
    """Write the position of this process; each process has a file, because without a seed their draws differ."""
    loaders = _loaders(accelerator)
    if not loaders:
        return
    # While one loader is in its loop, the loops of the others are over, so an evaluation that was left early starts
    # over. If no loop runs, one may have been left in order to save.
    is_in_loop = any(loader.is_in_loop for loader in loaders)
    positions = [next_epoch_of(each) if is_in_loop and each.is_left else position_of(each) for each in loaders]
    content = {"num_processes": accelerator.num_processes, "positions": positions}
    torch.save(content, _path(folder, accelerator.process_index))


def load_positions(accelerator: accelerate.Accelerator, folder: str | Path) -> None:
    """Make the loaders resume from the positions that `save_positions` wrote.

    Raises:
        ValueError: another number of loaders was saved, or of processes if the order has no seed.
    """
    loaders = _loaders(accelerator)
    if not loaders:
        return
    if not _path(folder, 0).exists():
        warnings.warn(
            f"load_state: {folder} has no loader positions, because it was not saved by "
            "sluicegate.accelerate.Accelerator, so the epoch starts over; call skip_first_batches to skip the batches "
            "already trained on",
            UserWarning,
            stacklevel=4,
        )
        return
    there = load(_path(folder, 0))["num_processes"]
    # With a seed all processes have the same position.
    positions = load(_path(folder, accelerator.process_index % there))["positions"]
    if len(positions) != len(loaders):
        raise ValueError(
            f"load_state: {folder} has the positions of {len(positions)} loaders, but {len(loaders)} are prepared; "
            "prepare the same loaders as when it was saved"
        )
    for loader, position in zip(loaders, positions, strict=True):
        if there != accelerator.num_processes and LoaderSettings.of(loader).ordering is None:
            raise ValueError(
                f"load_state: {folder} was saved by {there} processes, got {accelerator.num_processes}, and without a "
                f"seed each process resumes its own part; start {there} processes, or train with seed= from the start"
            )
        resume(loader, position)


def position_of(loader: PreparedLoader[Any]) -> dict[str, Any]:
    """Return where the training loop is, for a checkpoint that also has the global generators."""
    state = read(loader.state_dict())
    # Accelerate saves and loads the global generators. Setting them again when this loader's loop begins would undo
    # what other loops have drawn by then.
    return saved(dataclasses.replace(state, rng_of_loop=None, rng=state.rng if loader.is_ahead else None))


def next_epoch_of(loader: PreparedLoader[Any]) -> dict[str, Any]:
    """Return the position before the next epoch of a loader whose loop was left."""
    state, persists = read(loader.state_dict()), loader.persistent_workers
    state = dataclasses.replace(state.unbegun(progress_of(loader).epochs.next), finished=True)
    if loader.seed is None:
        state = dataclasses.replace(
            state,
            draws=draws.take(LoaderSettings.of(loader)).as_text(),
            begins_iterator=not persists,
            base_seed=state.base_seed if persists else None,
        )
    return saved(state)


def resume(loader: PreparedLoader[Any], position: dict[str, Any]) -> None:
    """Make `loader` resume from a result of `position_of` or `next_epoch_of`.

    Raises:
        ValueError: the loader has a different order.
    """
    state = read(position)
    if state.draws is not None and not state.in_epoch:
        # The next epoch is drawn from the global generators as they are when it begins. The loader's and the sampler's
        # own generators are saved only here.
        draws.put(LoaderSettings.of(loader), draws.own_in(state.draws))
        state = dataclasses.replace(state, draws=None, rng=None)
    loader.load_state_dict(saved(state))


def _path(folder: str | Path, process: int) -> Path:
    return Path(folder) / f"sluicegate_{process}.bin"


def _loaders(accelerator: accelerate.Accelerator) -> list[PreparedLoader[Any]]:
    return [each for each in accelerator._dataloaders if isinstance(each, PreparedLoader)]
