"""`Explanation`: which engine reads a loader's samples, and why it is not the Rust one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, StackDataset, Subset

from sluicegate import _torch
from sluicegate.fetch.batch_source import BatchSource, batch_source, draws_from_seed, lacks_order, lacks_seed
from sluicegate.native.dataset import NativeDataset
from sluicegate.order.epochs import Epochs
from sluicegate.order.settings import LoaderSettings
from sluicegate.recognition import hugging_face, torchvision_datasets
from sluicegate.recognition.collated_source import uncollated_reason
from sluicegate.recognition.native_source import is_untouched
from sluicegate.recognition.torchvision_head import HeadDataset, with_native_heads
from sluicegate.stream.native import NativeStream
from sluicegate.stream.shuffle_buffer import ShuffleBuffer

from .refusals import (
    OTHER_COLLATE,
    Refusal,
    refused_arguments,
    refused_modes,
    refused_stacking,
)
from .stream_threads import process_reason

_logger = logging.getLogger("sluicegate")


@dataclass(frozen=True)
class Explanation:
    """Which engine reads a loader's samples.

    Attributes:
        engine: "rust", on the calling thread or in `num_workers` threads; "rust processes", for a stream that each of
            `num_workers` worker processes reads; "python", on the calling thread; "python processes", in worker
            processes; or "python threads".
        reason: the first reason why it is not "rust"; None if it is.
        remedy: what to change to make it "rust"; None if nothing helps.
        head: the number of transforms at the beginning of the pipeline that run in Rust although Python calls the rest.

    Examples:
        >>> from sluicegate import DataLoader
        >>> print(DataLoader([1, 2], num_workers=2).explain())
        python processes (dataset class list is not recognized; use a native dataset)
    """

    engine: str
    reason: str | None = None
    remedy: str | None = None
    head: int = 0

    def __str__(self) -> str:
        remedy = "" if self.remedy is None else f"; {self.remedy}"
        head = f"; Rust runs the transforms before number {self.head + 1}" if self.head else ""
        return self.engine if self.reason is None else f"{self.engine} ({self.reason}{remedy}{head})"


def readable(settings: LoaderSettings) -> BatchSource | None:
    """Return the source from which the core reads a loader with `settings`; None if Python reads, or for a stream."""
    if settings.is_stream or _refused(settings) is not None:
        return None
    source = _source(settings)
    return None if source is None or _refused_draws(settings, source) is not None else source


def explained(settings: LoaderSettings) -> Explanation:
    """Return which engine reads a loader with `settings`, and why."""
    refused = _refused(settings)
    if refused is None and not settings.is_stream:
        source = _source(settings)
        refused = _unread(settings) if source is None else _refused_draws(settings, source)
    if refused is None and settings.is_stream and settings.num_workers > 0 and settings.worker_type == "process":
        reason = process_reason(settings)
        return Explanation("rust") if reason is None else Explanation("rust processes", *reason)
    if refused is None:
        return Explanation("rust")
    return Explanation(_python(settings), *refused, head=_head(settings))


def log_once(settings: LoaderSettings, epochs: Epochs, name: str) -> None:
    """Log which engine reads the loader called `name`, at debug level, when its first iterator begins."""
    if not epochs.is_explained and _logger.isEnabledFor(logging.DEBUG):
        epochs.is_explained = True
        _logger.debug("%s of %s: read by %s", name, type(settings.dataset).__name__, explained(settings))


def _source(settings: LoaderSettings) -> BatchSource | None:
    return batch_source(settings.dataset, settings.collate_fn, in_worker=settings.num_workers > 0)


def _python(settings: LoaderSettings) -> str:
    if not settings.num_workers:
        return "python"
    return "python threads" if settings.worker_type == "thread" else "python processes"


def _refused(settings: LoaderSettings) -> Refusal | None:
    """Return the reason and the remedy if the arguments alone force Python; otherwise None."""
    if settings.is_stream:
        if isinstance(settings.dataset, (NativeStream, ShuffleBuffer)):
            return _refused_stream(settings)
        return Refusal(f"iterable-style dataset class {type(settings.dataset).__name__} is iterated in Python")
    return refused_arguments(settings)


def _refused_stream(settings: LoaderSettings) -> Refusal | None:
    """Return the same as `_refused`, for a stream that the core can read."""
    if (refusal := refused_stacking(settings)) is not None:
        return refusal
    reason = _python_reason(settings.dataset)
    return None if reason is None else Refusal(reason)


def _refused_draws(settings: LoaderSettings, source: BatchSource) -> Refusal | None:
    """Return the same for a loader whose samples the core can read, if Python must draw their random values."""
    if not (source.is_random or source.draws_on_delivery):
        return None
    if lacks_seed(source, settings.seed):
        drawn = _drawn(settings.dataset) or type(settings.dataset).__name__
        return Refusal(f"without a seed, Python draws the random values of {drawn}", "pass seed= to the loader")
    if draws_from_seed(source, settings.seed):
        return Refusal(f"with a seed, Python draws the random values of {type(settings.collate_fn).__name__}")
    if settings.seed is not None and not settings.seed_samples and source.draws_in_order:
        return Refusal("seed_samples is False, so random values do not follow from the seed", "leave out seed_samples")
    if lacks_order(source, settings.seed, in_order=bool(settings.in_order)):
        return Refusal(
            "in_order is False, and an error would change the random values drawn after it",
            "leave out in_order, or pass seed=",
        )
    return None


def _unread(settings: LoaderSettings) -> Refusal:
    """Return the reason and the remedy for which `batch_source` returned None."""
    dataset, name = settings.dataset, type(settings.dataset).__name__
    if (refusal := refused_modes()) is not None:
        return refusal
    if not _torch.collate_is_default(settings.collate_fn):
        reason = uncollated_reason(dataset, settings.collate_fn)
        return OTHER_COLLATE if reason is None else Refusal(reason)
    if (reason := _python_reason(dataset)) is not None:
        return Refusal(reason)
    if isinstance(dataset, NativeDataset):
        return Refusal(f"a part of {name} runs in Python")
    if hugging_face.is_dataset(dataset) and hugging_face.lacks_format(dataset):
        return Refusal(f"{name} has no format, so its samples are Python objects", 'use dataset.with_format("torch")')
    if type(dataset) in (np.ndarray, np.memmap):
        return Refusal("the array has a dtype, or strides, that the core can't read", "use a copy with a plain dtype")
    if is_untouched(dataset) or type(dataset).__module__ == "datasets.arrow_dataset":
        return Refusal(f"{name}, or a part of it, has a form that the core can't read")
    return Refusal(f"dataset class {name} is not recognized", "use a native dataset")


def _head(settings: LoaderSettings) -> int:
    """Return the number of transforms that run in Rust although Python calls those after them."""
    if settings.is_stream or not settings.allows_native or _python(settings) == "python threads":
        return 0
    found = [settings.dataset]
    for each in found:
        if isinstance(read := with_native_heads(each), HeadDataset):
            return read.steps
        found += _parts(each)
    return 0


def _python_reason(dataset: Any) -> str | None:
    """Return why Python takes part in the samples, as given by `dataset` or the first of its parts with a reason."""
    if torchvision_datasets.is_dataset(dataset):
        return torchvision_datasets.python_reason(dataset)
    if hasattr(type(dataset), "python_reason"):
        reason = dataset.python_reason
        reason = reason() if callable(reason) else reason
        return reason if isinstance(reason, str) else None
    return next((reason for part in _parts(dataset) if (reason := _python_reason(part)) is not None), None)


def _drawn(dataset: Any) -> str | None:
    """Return a description of the first random transform of `dataset` or its parts."""
    if isinstance(dataset, NativeDataset):
        return dataset.random_transform
    return next((drawn for part in _parts(dataset) if (drawn := _drawn(part)) is not None), None)


def _parts(dataset: Any) -> Iterable[Any]:
    """Return the datasets that a combinator of torch consists of."""
    if isinstance(dataset, Subset):
        return [dataset.dataset]
    if isinstance(dataset, (ConcatDataset, StackDataset)):
        parts: Any = dataset.datasets
        return parts.values() if isinstance(parts, dict) else parts
    return []
