"""`own_collate`: collates the core's datasets when Python reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import ConcatDataset, StackDataset, Subset

from sluicegate.native.dataset import FORMAT_METHODS, Kind, NativeDataset, collate, has_own_batches


def own_collate(dataset: Any, collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes batches of the samples of `dataset` if its loader has torch's default collate.

    The default can't stack tensors of different lengths, and it transposes lists of texts and objects. If Python reads
    a dataset with such fields (its images are random and there is no seed; a part of it is user-defined), its batches
    are those that the core would make.

    Args:
        dataset: any dataset.
        collate_fn: torch's default collate, or a function that stacks as it does.
    """
    if type(dataset) is Subset:
        return own_collate(dataset.dataset, collate_fn)
    if isinstance(dataset, NativeDataset) and has_own_batches(dataset.kinds) and _has_samples_of_its_format(dataset):
        return _KindsCollate(dataset.structure, dataset.kinds, collate_fn)
    if type(dataset) is ConcatDataset and dataset.datasets:
        of_parts = [own_collate(part, collate_fn) for part in dataset.datasets]
        return of_parts[0] if all(part == of_parts[0] for part in of_parts) else collate_fn
    if type(dataset) is StackDataset:
        datasets = dataset.datasets
        named = datasets if isinstance(datasets, Mapping) else dict(enumerate(datasets))
        parts = {name: own_collate(part, collate_fn) for name, part in named.items()}
        if any(part is not collate_fn for part in parts.values()):
            return _StackCollate(parts, named is datasets)
    return collate_fn


def _has_samples_of_its_format(dataset: NativeDataset) -> bool:
    """Return False for a subclass or an object with its own methods, which may make any samples."""
    format_cls = next((cls for cls in type(dataset).__mro__ if (cls, "__getitem__") in FORMAT_METHODS), None)
    return format_cls is not None and all(
        getattr(dataset, name, None) == FORMAT_METHODS[format_cls, name].__get__(dataset)
        for name in ("__getitem__", "__getitems__")
    )


@dataclass(frozen=True)
class _KindsCollate:
    structure: Any
    kinds: Sequence[Kind]
    default: Callable[[Any], Any]

    def __call__(self, samples: Sequence[Any]) -> Any:
        return collate(samples, self.structure, self.kinds, self.default)


@dataclass(frozen=True)
class _StackCollate:
    parts: Mapping[Any, Callable[[Any], Any]]
    has_names: bool

    def __call__(self, samples: Sequence[Any]) -> Any:
        batches = {name: part([sample[name] for sample in samples]) for name, part in self.parts.items()}
        return batches if self.has_names else list(batches.values())
