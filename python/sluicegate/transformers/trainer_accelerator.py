"""`TrainerAccelerator`: the accelerator of a trainer, which makes our loaders of torch's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import accelerate
import torch
from accelerate.data_loader import SeedableRandomSampler, get_sampler
from accelerate.utils import gather_object
from torch.utils.data import IterableDataset, RandomSampler
from transformers.trainer_pt_utils import BatchRebalanceSampler

import sluicegate.accelerate
from sluicegate.accelerate.preparation import OUR_ARGUMENTS, TORCHS_ARGUMENTS, order_arguments, prepared
from sluicegate.accelerate.prepared_loader import EpochEnd
from sluicegate.loader.dataloader import DataLoader


def checked_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return additional arguments of loaders; TypeError if one of them is unknown or the trainer's."""
    for name in arguments.keys() - set(OUR_ARGUMENTS):
        raise TypeError(
            f"loader_arguments: takes {', '.join(sorted(OUR_ARGUMENTS))}, got {name!r}; the trainer sets the other "
            "arguments of a loader, from its TrainingArguments"
        )
    return dict(arguments)


class TrainerAccelerator(sluicegate.accelerate.Accelerator):
    """An accelerator that prepares torch's loaders as ours, with the arguments that they have.

    Attributes:
        loader_arguments: additional arguments of our loaders.
    """

    loader_arguments: Mapping[str, Any]

    def prepare_data_loader(
        self, data_loader: Any, device_placement: bool | None = None, slice_fn_for_dispatch: Any = None
    ) -> Any:
        """Prepare a loader; torch's becomes a `sluicegate.DataLoader`, a subclass keeps its type."""
        if type(data_loader) is not torch.utils.data.DataLoader:
            return super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)
        if isinstance(data_loader.dataset, IterableDataset) and self.num_processes > 1:
            warnings.warn(
                "sluicegate.transformers: a stream can't be divided among processes by our loader, got "
                f"{type(data_loader.dataset).__name__} on {self.num_processes} processes; torch's loader reads it",
                UserWarning,
                stacklevel=3,
            )
            return super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)
        loader = self._ours(data_loader)
        if isinstance(data_loader.batch_sampler, BatchRebalanceSampler):
            is_placed = self.device_placement if device_placement is None else device_placement
            loader = prepared(self, loader, is_placed, is_divided=True)
        return super().prepare_data_loader(loader, device_placement, slice_fn_for_dispatch)

    def _ours(self, loader: torch.utils.data.DataLoader[Any]) -> DataLoader[Any]:
        arguments = {name: getattr(loader, name) for name in TORCHS_ARGUMENTS} | order_arguments(loader)
        order, sampler = dict(self.loader_arguments), arguments.get("sampler")
        if _has_own_order(loader):
            order.pop("seed", None)
        if isinstance(sampler, RandomSampler) and self.use_seedable_sampler and order.get("seed") is None:
            arguments["sampler"] = SeedableRandomSampler(
                sampler.data_source,
                replacement=sampler.replacement,
                num_samples=sampler.num_samples,
                generator=sampler.generator,
                data_seed=self.dataloader_config.data_seed,
            )
        return DataLoader(loader.dataset, **arguments, **order)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """Gather from all processes, and drop the padding of the last step.

        The trainer repeats a loss for each sample of a whole batch; as many remain as the last batch has samples.
        """
        gathered = super().gather_for_metrics(input_data, use_gather_object)
        end = self.gradient_state.active_dataloader
        if not isinstance(end, EpochEnd) or not end.end_of_dataloader or end.valid is None:
            return gathered
        if not isinstance(input_data, torch.Tensor) or input_data.dim() == 0 or len(input_data) <= len(end.valid):
            return gathered
        counts = [int(end.valid.sum())]
        if self.num_processes > 1:
            counts = gather_object(counts)
        size = len(input_data)
        parts = [gathered[size * number : size * number + count] for number, count in enumerate(counts)]
        return torch.cat(parts)


def _has_own_order(loader: torch.utils.data.DataLoader[Any]) -> bool:
    """Return True if a seed would not determine the order, which several processes then could not shard."""
    sampler = get_sampler(loader)
    has_generator = isinstance(getattr(sampler, "generator", None), torch.Generator)
    is_random = isinstance(sampler, RandomSampler)  # Our loader takes the seed in place of its generator.
    return isinstance(loader.batch_sampler, BatchRebalanceSampler) or (has_generator and not is_random)


def keep_loaders(accelerator: accelerate.Accelerator, loader_arguments: Mapping[str, Any]) -> TrainerAccelerator:
    """Make the accelerator of a trainer a `TrainerAccelerator`, and return it."""
    kept: Any = sluicegate.accelerate.keep_loaders(accelerator)
    kept.__class__ = TrainerAccelerator
    kept.loader_arguments = loader_arguments
    trainers: TrainerAccelerator = kept
    return trainers
