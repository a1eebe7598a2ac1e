"""Accelerate with our loaders: an `Accelerator` whose `prepare` keeps them.

Change one import, `from sluicegate.accelerate import Accelerator`, or call `keep_loaders` if other code creates the
accelerator. A prepared loader is then divided among the processes, moves batches to the device, and reports the last
step to Accelerate (`accumulate`, `gather_for_metrics`); `save_state` and `load_state` include its position.

A resumed run is the uninterrupted one, bit for bit, only if the checkpoint was saved at a synchronized step, because
checkpoints do not hold accumulated gradients.
"""

from __future__ import annotations

from typing import Any

import accelerate
import numpy as np
import torch
from accelerate.utils import gather_object, recursively_apply

from sluicegate.loader.dataloader import DataLoader

from .preparation import prepared
from .prepared_loader import EpochEnd, PreparedLoader
from .saved_positions import load_positions, save_positions

__all__ = ["Accelerator", "keep_loaders", "skip_first_batches"]


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """Accelerate's `Accelerator`, whose `prepare` returns a `sluicegate.DataLoader` for one.

    Without a seed each process gets the batches that it gets with torch's loader, `split_batches` and `even_batches`
    included. With `seed=` each gets its shard of the order, which `load_state` resumes with any number of processes.

    Args:
        *args, **kwargs: as for Accelerate's.

    Examples:
        >>> import torch
        >>> from sluicegate import DataLoader
        >>> from sluicegate.accelerate import Accelerator
        >>> accelerator = Accelerator(cpu=True)
        >>> loader = accelerator.prepare(DataLoader(torch.arange(6), batch_size=4, seed=7))
        >>> for batch in loader:
        ...     print(accelerator.gather_for_metrics(batch).tolist(), accelerator.gradient_state.end_of_dataloader)
        [0, 1, 2, 3] False
        [4, 5] True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _save_with(self)

    def prepare_data_loader(
        self, data_loader: Any, device_placement: bool | None = None, slice_fn_for_dispatch: Any = None
    ) -> Any:
        """Prepare a loader; a `sluicegate.DataLoader` remains one.

        Raises:
            ValueError: a setting that our loader cannot follow, or a loader that cannot be divided; the message names
                a remedy.
            TypeError: the loader is of a subclass of `sluicegate.DataLoader`.
        """
        if not isinstance(data_loader, DataLoader) or getattr(data_loader, "_is_accelerate_prepared", False):
            return super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)
        if not isinstance(data_loader, PreparedLoader):
            is_placed = self.device_placement if device_placement is None else device_placement
            data_loader = prepared(self, data_loader, is_placed)
        if data_loader not in self._dataloaders:
            self._dataloaders.append(data_loader)
        return data_loader

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """Gather `input_data` from all processes as Accelerate does, and drop the padding of the last step."""
        gathered = super().gather_for_metrics(input_data, use_gather_object)
        end = self.gradient_state.active_dataloader
        is_padded = isinstance(end, EpochEnd) and end.end_of_dataloader and end.valid is not None
        if self.num_processes == 1 or not is_padded:
            return gathered
        valid = np.array(gather_object(end.valid.tolist()), np.bool_)
        if use_gather_object or _holds_objects(input_data):
            if len(gathered) != len(valid):
                return gathered
            return [each for each, is_valid in zip(gathered, valid, strict=True) if is_valid]
        return recursively_apply(lambda tensor: _without_padding(tensor, valid), gathered)

    def join_uneven_inputs(self, joinables: Any, even_batches: bool | None = None) -> Any:
        """Join uneven inputs, as Accelerate does.

        Raises:
            ValueError: `even_batches` is given, and there is a loader with a seed, which is even in any case.
        """
        if even_batches is not None and any(
            isinstance(each, PreparedLoader) and each.shard is not None for each in self._dataloaders
        ):
            raise ValueError(
                "even_batches: with seed=, a sluicegate.DataLoader always gives all processes the same number of "
                f"batches, got {even_batches}; leave even_batches out, or build the loader without seed="
            )
        return super().join_uneven_inputs(joinables, even_batches)

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """Skip the first batches of the next epoch: see `sluicegate.accelerate.skip_first_batches`."""
        return skip_first_batches(dataloader, num_batches)


def keep_loaders(accelerator: accelerate.Accelerator) -> Accelerator:
    """Make an accelerator that other code has created keep our loaders from now on, and return it.

    Args:
        accelerator: an `accelerate.Accelerator`, before its `prepare` is called. It is changed, not copied.

    Raises:
        TypeError: `accelerator` is of a subclass, whose methods would be lost.

    Examples:
        >>> import accelerate
        >>> from sluicegate.accelerate import Accelerator, keep_loaders
        >>> isinstance(keep_loaders(accelerate.Accelerator(cpu=True)), Accelerator)
        True
    """
    if isinstance(accelerator, Accelerator):
        return accelerator
    if type(accelerator) is not accelerate.Accelerator:
        raise TypeError(
            f"keep_loaders: needs an accelerate.Accelerator, got {type(accelerator).__name__}; derive that class from "
            "sluicegate.accelerate.Accelerator"
        )
    accelerator.__class__ = Accelerator
    _save_with(accelerator)
    kept: Accelerator = accelerator
    return kept


def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
    """Skip the first batches of the next epoch, or of the epoch that a loaded state resumes.

    For a prepared `sluicegate.DataLoader`, nothing is read, the loader itself is returned, and later epochs are whole.
    Batches that were received before a loaded state was saved are not skipped a second time.

    Args:
        dataloader: a prepared loader. One that is not ours is skipped by Accelerate's function.
        num_batches: how many batches to skip.

    Returns:
        The loader to iterate.

    Examples:
        >>> import torch
        >>> from sluicegate import DataLoader
        >>> from sluicegate.accelerate import Accelerator, skip_first_batches
        >>> loader = Accelerator(cpu=True).prepare(DataLoader(torch.arange(6), batch_size=2))
        >>> [batch.tolist() for batch in skip_first_batches(loader, 2)]
        [[4, 5]]
    """
    if isinstance(dataloader, PreparedLoader):
        dataloader.skip(range(num_batches))
        return dataloader
    return accelerate.skip_first_batches(dataloader, num_batches)


def _save_with(accelerator: Any) -> None:
    accelerator.register_save_state_pre_hook(lambda models, weights, folder: save_positions(accelerator, folder))
    accelerator.register_load_state_pre_hook(lambda models, folder: load_positions(accelerator, folder))


def _holds_objects(data: Any) -> bool:
    """Return True if Accelerate gathers `data` as objects: in a list, and not tensor by tensor."""
    try:
        recursively_apply(lambda tensor: tensor, data, error_on_other_type=True)
    except TypeError:
        return True
    return False


def _without_padding(tensor: torch.Tensor, valid: Any) -> torch.Tensor:
    # Other tensors, such as one loss per process, do not have a row per sample.
    return tensor[torch.from_numpy(valid).to(tensor.device)] if len(tensor) == len(valid) else tensor
