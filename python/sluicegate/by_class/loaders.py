"""`class_loaders`: a loader for each class of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

from sluicegate.loader.dataloader import DataLoader, progress_of
from sluicegate.loader.resources import share_resources
from sluicegate.sampler.class_index import ClassIndex, plain_label
from sluicegate.sampler.class_sampler import ClassSampler

from .label_scan import scanned_labels

# Arguments that decide which samples a loader reads and in which order: here the class decides.
_OWN = ("sampler", "batch_sampler")

# Arguments that a scan for labels takes from the loaders.
_WORKERS = ("num_workers", "worker_init_fn", "multiprocessing_context", "prefetch_factor", "worker_type")


def class_loaders(
    dataset: Dataset[Any],
    labels: Any = None,
    *,
    batch_size: int | None = 1,
    shuffle: bool | None = False,
    classes: Iterable[Hashable] | None = None,
    **loader_arguments: Any,
) -> ClassLoaders:
    """Return a mapping from each class to a `DataLoader` of its samples.

    The loaders share the dataset, one index of all classes (4 bytes per sample), and their threads and slots. Each is
    made on first access and kept.

    `num_workers` is the total number of workers for all loaders. The workers start with the first iteration and serve
    all iterations that run at the same time, each with proportionally less prefetched. They end with the last iteration
    (with `persistent_workers=True`, with the loaders). A loader gets its own workers if it resumes from a state that
    holds workers' generators, or the state of a dataset.

    To read all classes in turn as one epoch, use `ClassLoaders.round_robin`.

    Args:
        dataset: map-style.
        labels: the class of each sample, as a list, array or tensor of integers, strings or anything that can be a dict
            key; or where to find it in a sample: the name of a field, its position, or a function of a sample. None or
            "scan" for the last part of samples that are tuples, and the entry "label", "target" or similar of those
            that are mappings. A field that the dataset has as an array is used directly; for anything else each sample
            is read once, with a progress line on a terminal.
        batch_size: samples per batch. Default 1.
        shuffle: True for a new random order every epoch, different for each class. Default False.
        classes: the classes to make loaders for. Default: all, in ascending order.
        **loader_arguments: the other arguments of `DataLoader`.

    Raises:
        ValueError: the number of labels is not the number of samples, or one of `classes` has no samples; the message
            names some that do.
        TypeError: the dataset is iterable, samples have no label, or an argument selects samples.

    Examples:
        >>> import torch
        >>> from sluicegate import TensorDataset, class_loaders
        >>> dataset = TensorDataset(torch.arange(6.0), torch.tensor([1, 0, 1, 1, 0, 1]))
        >>> loaders = class_loaders(dataset, labels=1, batch_size=3)
        >>> {label: [batch.tolist() for batch, _ in loader] for label, loader in loaders.items()}
        {0: [[1.0, 4.0]], 1: [[0.0, 2.0, 3.0], [5.0]]}
        >>> loaders.counts[1]
        4
    """
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            "dataset: expected a map-style dataset, whose samples can be read in any order, but got "
            f"{type(dataset).__name__}, which is iterable"
        )
    for name in _OWN:
        if loader_arguments.get(name) is not None:
            raise TypeError(
                f"{name}: class_loaders makes the samplers itself, but got {name}=; leave it out, or make a DataLoader "
                "with it"
            )
    if isinstance(labels, ClassIndex):
        index = labels
    elif labels is None or isinstance(labels, (str, int)) or callable(labels):
        workers = {name: loader_arguments[name] for name in _WORKERS if name in loader_arguments}
        index = ClassIndex(scanned_labels(dataset, None if labels == "scan" else labels, **workers))
    else:
        index = ClassIndex(labels)
    samples = len(dataset)  # type: ignore[arg-type]
    if len(index) != samples:
        raise ValueError(f"labels: expected one for each of {samples} samples of the dataset, but got {len(index)}")
    return ClassLoaders(dataset, index, classes, dict(loader_arguments, batch_size=batch_size), bool(shuffle))


class ClassLoaders(Mapping[Any, DataLoader[Any]]):
    """The return value of `class_loaders`: a read-only mapping from each class to the `DataLoader` of its samples.

    Attributes:
        index: the samples of every class.
        counts: the number of samples by class.

    Raises:
        KeyError: a class that is looked up has no samples; the message names some that do.

    Examples:
        >>> loaders = class_loaders([3.0, 1.0, 2.0], labels=["a", "b", "a"])
        >>> list(loaders), "c" in loaders, len(loaders["a"])
        (['a', 'b'], False, 2)
        >>> [(label, batch.tolist()) for label, batch in loaders.round_robin()]
        [('a', [3.0]), ('b', [1.0]), ('a', [2.0])]
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        index: ClassIndex,
        classes: Iterable[Hashable] | None,
        arguments: dict[str, Any],
        shuffle: bool,
    ) -> None:
        self.dataset = dataset
        self.index = index
        chosen: list[Any] = index.classes if classes is None else [plain_label(label) for label in classes]
        for label in chosen:
            if label not in index:
                raise ValueError(
                    f"classes: expected classes with samples, but got {label!r} without any; {index.known()}"
                )
        self.counts: Mapping[Any, int] = MappingProxyType(
            {label: index.counts[index.place_of(label)] for label in chosen}
        )
        self._arguments = arguments
        self._shuffle = shuffle
        self._epoch = 0
        self._loaders: dict[Any, DataLoader[Any]] = {}
        self._together: DataLoader[Any] | None = None
        if self.counts:
            self[next(iter(self.counts))]  # To raise `DataLoader`'s argument errors now.

    @property
    def labels(self) -> Any:
        """The class of each sample of the dataset, as given or found."""
        return self.index.labels

    def __getitem__(self, label: Any) -> DataLoader[Any]:
        """Return the loader of a class.

        Raises:
            KeyError: there is no loader for it; the message names some classes that have one.
        """
        label = plain_label(label)
        if label not in self.counts:
            self.index.place_of(label)
            raise KeyError(
                f"expected one of the classes that have loaders, {list(self.counts)[:10]}, but got {label!r}"
            )
        loader = self._loaders.get(label)
        if loader is None:
            loader = self._share(DataLoader(self.dataset, sampler=self._sampler(label), **self._arguments))
            loader = self._loaders.setdefault(label, loader)
        return loader

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the classes."""
        return iter(self.counts)

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.counts)

    def __contains__(self, label: object) -> bool:
        """Return True if there is a loader for this class. Does not make it."""
        return label in self.index and plain_label(label) in self.counts

    def __repr__(self) -> str:
        """Show the number of classes and samples; there may be too many classes to list."""
        return f"<ClassLoaders of {len(self)} classes, {sum(self.counts.values()):,} samples>"

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of all loaders' samplers, which matters if there is a `seed`."""
        self._epoch = epoch
        for loader in self._loaders.values():
            _set_epoch(loader, epoch, loader.sampler)
        if self._together is not None:
            _set_epoch(self._together, epoch, self._together.batch_sampler)

    def round_robin(self) -> Iterator[tuple[Any, Any]]:
        """Return an iterator over one epoch of all classes in turn: a class and a batch of it, then the next class.

        A class that is exhausted is skipped. One loader reads all classes, so `num_workers` is the total number of
        workers. The sequence is the same whatever `in_order` is.

        Raises:
            ValueError: the loaders were made with `batch_size=None`, or with a `shard`.
        """
        arguments = dict(self._arguments)
        if arguments.get("shard") is not None:
            raise ValueError(
                "shard: round_robin needs loaders without shard=, because it would split one sequence of batches, but "
                f"got {arguments['shard']!r}; use the loader of each class, loaders[label], which has its part of the "
                "class"
            )
        batch_size, drop_last = arguments.pop("batch_size"), arguments.pop("drop_last", False)
        if batch_size is None:
            raise ValueError("batch_size: round_robin needs batches, but got None; pass batch_size=")
        if self._together is None:
            turns = _Turns({label: self._sampler(label) for label in self}, batch_size, drop_last)
            self._together = self._share(
                DataLoader(self.dataset, batch_sampler=turns, **arguments | {"in_order": True})
            )
        turns = self._together.batch_sampler
        # Epochs count up by themselves, as with any loader.
        turns.set_epoch(progress_of(self._together).epochs.next)
        return zip(turns.classes(), self._together, strict=True)

    def _sampler(self, label: Any) -> ClassSampler:
        generator: torch.Generator | None = self._arguments.get("generator")
        seed: int | None = self._arguments.get("seed")
        sampler = ClassSampler(self.index, [label], self._shuffle, seed=seed, generator=generator)
        sampler.set_epoch(self._epoch)
        return sampler

    def _share(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        """Return `loader` after it was given the threads, slots and workers of the first one."""
        share_resources(loader, next(iter(self._loaders.values()), loader))
        return loader


def _set_epoch(loader: Any, epoch: int, sampler: Any) -> None:
    sampler.set_epoch(epoch)
    if hasattr(loader, "set_epoch"):
        loader.set_epoch(epoch)


class _Turns(Sampler[list[int]]):
    """Batches of each class in turn."""

    def __init__(self, samplers: Mapping[Any, ClassSampler], batch_size: int, drop_last: bool) -> None:
        self.samplers = samplers
        self.batch_size = batch_size
        self.drop_last = drop_last

    def _batches_of(self, label: Any) -> int:
        full, rest = divmod(len(self.samplers[label]), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def classes(self) -> Iterator[Any]:
        """Yield the class of each batch."""
        left = {label: self._batches_of(label) for label in self.samplers}
        while left := {label: batches for label, batches in left.items() if batches > 0}:
            for label in left:
                yield label
                left[label] -= 1

    def __len__(self) -> int:
        return sum(map(self._batches_of, self.samplers))

    def __iter__(self) -> Iterator[list[int]]:
        indices = {label: iter(sampler) for label, sampler in self.samplers.items()}
        for label in self.classes():
            yield list(itertools.islice(indices[label], self.batch_size))

    def set_epoch(self, epoch: int) -> None:
        for sampler in self.samplers.values():
            sampler.set_epoch(epoch)
