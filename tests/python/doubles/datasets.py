"""Dataset doubles, in a separate module so that spawned workers can import them."""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

Point = namedtuple("Point", ["x", "y"])


@dataclass
class Record:
    x: torch.Tensor


class Tags(dict):
    """A dict subclass whose type must survive collation."""


class Items(list):
    """A list subclass whose type must survive collation."""


class Plain:
    """Map-style only by its methods: not a subclass of Dataset."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"{index} is outside {self.size}")
        return index * 10

    def __len__(self) -> int:
        return self.size


class Rows(Dataset):
    """A row and a label that name their index."""

    def __init__(self, size: int, width: int = 3) -> None:
        self.values = torch.arange(size * width, dtype=torch.float32).view(size, width)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.values[index], index

    def __len__(self) -> int:
        return len(self.values)


class BatchedRows(Rows):
    """Reads a batch at once; what it returns must reach collate_fn untouched."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        return [(self.values[index] + 0.5, index) for index in indices]


class Growing(Dataset):
    def __init__(self, size: int) -> None:
        self.items = list(range(size))

    def __getitem__(self, index: int) -> int:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


class Failing(Dataset):
    """Fails on every index in `bad`, or on all if it is None."""

    def __init__(self, size: int, bad: set[int] | None = None, error: type[Exception] = ValueError) -> None:
        self.size, self.bad, self.error = size, bad, error

    def __getitem__(self, index: int) -> int:
        if self.bad is None or index in self.bad:
            raise self.error(f"sample {index} is broken")
        return index

    def __len__(self) -> int:
        return self.size


class Late:
    """Samples, one of which, after many others, differs from them."""

    def __init__(self, usual: Any, late: Any) -> None:
        self.usual = usual
        self.late = late

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.late if index == 80 else self.usual}


class ManyAtOnce:
    """Mixin for datasets: reads a batch at once, from its single samples."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]  # type: ignore[index]


class IndexTypes(Dataset):
    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: Any) -> str:
        return f"{type(index).__module__}.{type(index).__name__}"

    def __len__(self) -> int:
        return self.size


class WorkerProbe(Dataset):
    """Samples that record their worker and seed; `mark` and `seed` serve as worker_init_fn."""

    def __init__(self, size: int, slow_first: float = 0.0) -> None:
        self.size, self.slow_first = size, slow_first
        self.marked_by = -1

    def mark(self, worker_id: int) -> None:
        info = get_worker_info()
        assert info is not None
        assert info.dataset is self, "method and dataset reached the worker as two objects"
        self.marked_by = worker_id

    def __getitem__(self, index: int) -> tuple[int, int, int, int]:
        info = get_worker_info()
        if index == 0 and self.slow_first:
            time.sleep(self.slow_first)
        return index, -1 if info is None else info.id, self.marked_by, torch.initial_seed()

    def __len__(self) -> int:
        return self.size


class RandomRows(Dataset):
    """Draws from the global generators, as an augmentation does."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, float]:
        return index, torch.rand(2), float(numpy.random.rand())

    def __len__(self) -> int:
        return self.size


class Stream(IterableDataset):
    def __init__(self, size: int, fail_at: int | None = None) -> None:
        self.size, self.fail_at = size, fail_at

    def __iter__(self) -> Iterator[int]:
        for item in range(self.size):
            if item == self.fail_at:
                raise ValueError(f"item {item} is broken")
            yield item


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.size


class UninitializedStream(IterableDataset):
    def __init__(self, size: int) -> None:  # never calls the base class
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))


class BrokenStream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        raise ValueError("no stream today")


class UnevenStream(IterableDataset):
    """Worker i yields sizes[i] items that name it: worker id times 1000 plus position."""

    def __init__(self, sizes: list[int], stall: float = 0.0) -> None:
        self.sizes, self.stall = sizes, stall

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        for position in range(self.sizes[info.id]):
            if info.id == 1 and position == 0:
                time.sleep(self.stall)
            yield info.id * 1000 + position


class Nested(Dataset):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.nested.nested_tensor([torch.full((2,), float(index)), torch.zeros(3)])

    def __len__(self) -> int:
        return 2


class OwnTensorDataset(torch.utils.data.TensorDataset):
    """Overrides a method that a native dataset would bypass."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(-field for field in super().__getitem__(index))


class Marked(torch.Tensor):
    """A tensor subclass without behavior of its own."""


def as_list(samples: list[Any]) -> list[Any]:
    """Return the samples unchanged; a collate_fn."""
    return samples


def clone_all(samples: list[torch.Tensor]) -> list[torch.Tensor]:
    return [sample.clone() for sample in samples]


def summed(samples: list[Any]) -> dict[str, Any]:
    """Return a custom structure; a collate_fn."""
    return {"count": len(samples), "first": samples[0], "all": tuple(samples)}


def broken_init(worker_id: int) -> None:
    raise ValueError(f"worker {worker_id} will not start")


def seed_of_worker(worker_id: int) -> None:
    torch.manual_seed(1000 + worker_id)


def is_even(item: int) -> bool:
    return item % 2 == 0


def times_ten(item: int) -> int:
    return item * 10
