"""`Explanation`: which engine reads a loader's samples, and why it is not the Rust one."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import ConcatDataset, StackDataset, Subset

from sluicegate import _torch
from sluicegate.fetch.batch_source import BatchSource, batch_source, draws_from_seed, lacks_order, lacks_seed
from sluicegate.fetch.collate_in_place import stacks_as_torch
from sluicegate.native.dataset import NativeDataset
from sluicegate.recognition import torchvision_datasets
from sluicegate.recognition.collated_source import uncollated_reason
from sluicegate.recognition.source import is_untouched
from sluicegate.recognition.worker_seeding import only_seeds
from sluicegate.stream.native import NativeStream
from sluicegate.stream.shuffle_buffer import ShuffleBuffer

if TYPE_CHECKING:
    from .dataloader import DataLoader

_logger = logging.getLogger("sluicegate")


@dataclass(frozen=True)
class Explanation:
    """Which engine reads a loader's samples.

    Attributes:
        engine: "rust", on the calling thread or in `num_workers` threads (for streams: in workers); "python", on
            the calling thread; "python processes", in worker processes; or "python threads".
        reason: the first reason why it is not "rust"; None if it is.
        remedy: what to change to make it "rust"; None if nothing helps.

    Examples:
        >>> from sluicegate import DataLoader
        >>> print(DataLoader([1, 2], num_workers=2).explain())
        python processes (dataset class list is not recognized; use a native dataset)
    """

    engine: str
    reason: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        remedy = "" if self.remedy is None else f"; {self.remedy}"
        return self.engine if self.reason is None else f"{self.engine} ({self.reason}{remedy})"


def readable(loader: DataLoader[Any]) -> BatchSource | None:
    """Return the source from which the core reads `loader` as configured now; None if Python reads, or for a stream."""
    if loader._dataset_kind != _torch.DatasetKind.Map or _refused(loader) is not None:
        return None
    source = _source(loader)
    return None if source is None or _refused_draws(loader, source) is not None else source


def explained(loader: DataLoader[Any]) -> Explanation:
    """Return which engine reads `loader` as configured now, and why."""
    refused = _refused(loader)
    if refused is None and loader._dataset_kind == _torch.DatasetKind.Map:
        source = _source(loader)
        refused = _unread(loader) if source is None else _refused_draws(loader, source)
    return Explanation("rust") if refused is None else Explanation(_python(loader), *refused)


def log_once(loader: DataLoader[Any]) -> None:
    """Log which engine reads `loader`, at debug level, when its first iterator begins."""
    if not loader._loader_epochs.is_explained and _logger.isEnabledFor(logging.DEBUG):
        loader._loader_epochs.is_explained = True
        name, dataset = type(loader).__name__, type(loader.dataset).__name__
        _logger.debug("%s of %s: read by %s", name, dataset, explained(loader))


def _source(loader: DataLoader[Any]) -> BatchSource | None:
    return batch_source(loader.dataset, loader.collate_fn, in_worker=loader.num_workers > 0)


def _python(loader: DataLoader[Any]) -> str:
    if not loader.num_workers:
        return "python"
    return "python threads" if loader.worker_type == "thread" else "python processes"


def _refused(loader: DataLoader[Any]) -> tuple[str, str | None] | None:
    """Return the reason and the remedy if the arguments alone force Python; otherwise None."""
    if loader._dataset_kind != _torch.DatasetKind.Map:
        if isinstance(loader.dataset, (NativeStream, ShuffleBuffer)):
            return _refused_stream(loader)
        return f"iterable-style dataset class {type(loader.dataset).__name__} is iterated in Python", None
    if not loader.native:
        return "native is False", "leave out native"
    if (setting := os.environ.get("SLUICEGATE_NATIVE", "1")) not in ("", "1"):
        return f"the environment has SLUICEGATE_NATIVE={setting}", "unset it"
    if not loader._auto_collation:
        return "batch_size is None, so samples are not collated", "give batch_size"
    if loader.num_workers > 0 and loader.worker_init_fn is not None:
        if loader.worker_type == "thread":
            return "worker_init_fn is given", "leave out worker_init_fn"
        if not only_seeds(loader.worker_init_fn):
            return "worker_init_fn may do more than seed generators", "leave out worker_init_fn"
    if loader._loader_sample_id is not None:
        return "with_ids(sample_id=...) looks at each sample", "use ids.sample_indices"
    return None


def _refused_stream(loader: DataLoader[Any]) -> tuple[str, str | None] | None:
    """Return the same as `_refused`, for a stream that the core can read."""
    if not loader._auto_collation:
        return "batch_size is None, so samples are not collated", "give batch_size"
    if not stacks_as_torch(loader.collate_fn):
        return "collate_fn is not torch's default", "leave out collate_fn"
    told = _told(loader.dataset)
    return None if told is None else (told, None)


def _refused_draws(loader: DataLoader[Any], source: BatchSource) -> tuple[str, str | None] | None:
    """Return the same for a loader whose samples the core can read, if Python must draw their random values."""
    if lacks_seed(source, loader.seed):
        drawn = _drawn(loader.dataset) or type(loader.dataset).__name__
        return f"{drawn} draws random values, which Python draws without a seed", "give seed= to the loader"
    if draws_from_seed(source, loader.seed):
        return f"{type(loader.collate_fn).__name__} draws what it masks, which Python does with a seed", None
    if source.draws_in_order and loader.seed is not None and not loader.seed_samples:
        return "seed_samples is False, so random values follow from no seed", "leave out seed_samples"
    if lacks_order(source, loader.seed, in_order=bool(loader.in_order)):
        return "in_order is False, and an error changes what is drawn after it", "leave out in_order, or give seed="
    return None


def _unread(loader: DataLoader[Any]) -> tuple[str, str | None]:
    """Return the reason and the remedy for which `batch_source` returned None."""
    dataset, name = loader.dataset, type(loader.dataset).__name__
    if _torch.modes_are_active():
        return "a torch function or dispatch mode is active", "leave the mode before iterating"
    if not _torch.collate_is_default(loader.collate_fn):
        told = uncollated_reason(dataset, loader.collate_fn)
        return ("collate_fn is not torch's default", "leave out collate_fn") if told is None else (told, None)
    if (told := _told(dataset)) is not None:
        return told, None
    if isinstance(dataset, NativeDataset):
        return f"{name} has a part that Python runs", None
    if is_untouched(dataset) or type(dataset).__module__ == "datasets.arrow_dataset":
        return f"{name} has a form or a part that the core does not read", None
    return f"dataset class {name} is not recognized", "use a native dataset"


def _told(dataset: Any) -> str | None:
    """Return why Python takes part in the samples, as given by `dataset` or the first of its parts with a reason."""
    if torchvision_datasets.is_dataset(dataset):
        return torchvision_datasets.python_reason(dataset)
    if hasattr(type(dataset), "python_reason"):
        told = dataset.python_reason
        told = told() if callable(told) else told
        return told if isinstance(told, str) else None
    return next((told for part in _parts(dataset) if (told := _told(part)) is not None), None)


def _drawn(dataset: Any) -> str | None:
    """Return a description of the first random transform of `dataset` or its parts."""
    if isinstance(dataset, NativeDataset):
        return dataset.random_transform
    return next((drawn for part in _parts(dataset) if (drawn := _drawn(part)) is not None), None)


def _parts(dataset: Any) -> Iterable[Any]:
    """Return the datasets that one of torch's combinators is made of."""
    if isinstance(dataset, Subset):
        return [dataset.dataset]
    if isinstance(dataset, (ConcatDataset, StackDataset)):
        parts: Any = dataset.datasets
        return parts.values() if isinstance(parts, dict) else parts
    return []
