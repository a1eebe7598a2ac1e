"""The differences of states of loaders that Lightning's trainer saves and loads."""

from __future__ import annotations

import dataclasses
import sys
import warnings

from sluicegate.loader_state.state import is_all_received
from sluicegate.order.plan import planned_len
from sluicegate.order.settings import LoaderSettings
from sluicegate.state.loader_state import LoaderState

# The modules of Lightning that save and load the states of loaders.
_MODULES = ("lightning.pytorch.utilities.combined_loader", "pytorch_lightning.utilities.combined_loader")


def is_calling() -> bool:
    """Return True if Lightning calls the function that calls this one."""
    return sys._getframe(2).f_globals.get("__name__") in _MODULES


def resumed(settings: LoaderSettings, state: LoaderState, length: int | None) -> LoaderState:
    """Return `state` as Lightning means it.

    Lightning requests no batch after the last one, and resumes in the next epoch. Without this, the empty rest of the
    epoch would be that epoch.

    Args:
        settings: of the loader that resumes.
        state: what it resumes from.
        length: the number of its batches; None if it is unknown.
    """
    if length is not None and settings.ordering is not None and state.in_epoch:
        left = planned_len(settings.ordering, state.epoch, state.position)
        missing = state.batches_received + left - length
        if missing > 0:
            warnings.warn(
                f"load_state_dict: the state was saved on fewer processes; Lightning counts batches, and ends the "
                f"resumed epoch after {length}, so {missing} of its last {left} batches are left out on each process; "
                "resume on the same number of processes, or on fewer",
                UserWarning,
                stacklevel=3,
            )
    is_at_end = state.is_at_end or is_all_received(settings, state, length)
    return dataclasses.replace(state, is_at_end=is_at_end)


def warn_of_batch_ahead() -> None:
    """Warn about the batch that Lightning has requested, but not trained, when it saves a state in an epoch."""
    warnings.warn(
        "dataset: Lightning reads one batch ahead of a stream that has no length, so a run that resumes from this "
        "checkpoint leaves one batch out; define __len__ in the dataset, or save between epochs",
        UserWarning,
        stacklevel=3,
    )
