"""W1: small samples. 1,000,000 rows of 8 float32 and an int64 label, batches of 256, shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import throughput
from gather import Gather
from protocol import Case, Contender, Epoch, Workload

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 1_000_000
FEATURES = 8
BATCH_SIZE = 256
KEPT_BATCHES = 2  # a batch must stay intact while the next one is made

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


def _open() -> Arrays:
    """Make random features, labeled with the sample's index, by which the check identifies samples."""
    features = np.random.default_rng(1).random((ROWS, FEATURES), dtype=np.float32)
    return features, np.arange(ROWS, dtype=np.int64)


def _check(source: Arrays, batch: Any) -> npt.NDArray[np.int64]:
    features, ids = (np.asarray(part) for part in batch)
    dtypes = f"{features.dtype}, {ids.dtype}"
    assert dtypes == "float32, int64", f"dtypes {dtypes}"
    assert np.array_equal(features, source[0][ids]), "features that are not those of the label"
    return ids.astype(np.int64)


def _tensors(source: Arrays) -> tuple[Tensor, Tensor]:
    import torch

    return torch.from_numpy(source[0]), torch.from_numpy(source[1])


def _torch(workers: int) -> Any:
    def make(source: Arrays) -> Epoch:
        from torch.utils.data import DataLoader, TensorDataset

        dataset = TensorDataset(*_tensors(source))
        loader = DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(loader)

    return make


def _torch_getitems(source: Arrays) -> Epoch:
    """The dataset takes all indices of a batch at once, so there is nothing to collate."""
    import torch
    from torch import Tensor
    from torch.utils.data import DataLoader, Dataset

    x, y = _tensors(source)

    class Rows(Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return len(x)

        def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
            chosen = torch.tensor(indices)
            return x[chosen], y[chosen]

    loader: DataLoader[Any] = DataLoader(Rows(), BATCH_SIZE, shuffle=True, collate_fn=lambda batch: batch)
    return lambda: iter(loader)


def _torch_expert(source: Arrays) -> Epoch:
    """A batch sampler as the sampler: the indices of a whole batch are one index."""
    import torch
    from torch import Tensor
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

    x, y = _tensors(source)

    class Rows(Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
            chosen = torch.tensor(indices)
            return x[chosen], y[chosen]

    rows = Rows()
    batches = BatchSampler(RandomSampler(rows), BATCH_SIZE, drop_last=False)
    loader: DataLoader[Any] = DataLoader(rows, sampler=batches, batch_size=None)
    return lambda: iter(loader)


def _by_hand(source: Arrays) -> Epoch:
    import torch

    x, y = _tensors(source)

    def epoch() -> Iterator[Any]:
        permutation = torch.randperm(len(x))
        for begin in range(0, len(x), BATCH_SIZE):
            chosen = permutation[begin : begin + BATCH_SIZE]
            yield x[chosen], y[chosen]

    return epoch


def _gather_in_c(source: Arrays) -> Epoch:
    """One thread: waking a second one takes longer than the copy."""
    buffers = [[np.zeros((BATCH_SIZE, *part.shape[1:]), part.dtype) for part in source] for _ in range(KEPT_BATCHES)]
    gathers = [Gather(source, targets, threads=1) for targets in buffers]
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(ROWS)
        address = permutation.ctypes.data
        for number, begin in enumerate(range(0, ROWS, BATCH_SIZE)):
            count = min(BATCH_SIZE, ROWS - begin)
            which = number % KEPT_BATCHES
            gathers[which](address + 8 * begin, count)
            yield buffers[which] if count == BATCH_SIZE else [part[:count] for part in buffers[which]]

    return epoch


def _sluicegate(workers: int) -> Any:
    def make(source: Arrays) -> Epoch:
        from sluicegate import DataLoader, TensorDataset

        dataset = TensorDataset(*_tensors(source))
        loader = DataLoader(
            dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )
        return lambda: iter(loader)

    return make


TORCH = ("torch", "torch.utils.data")
OURS = (*TORCH, "sluicegate")

WORKLOAD = Workload(
    name="w1",
    title="W1: 1,000,000 rows of 8 float32 and an int64 label, batches of 256, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    cases=(
        Case(
            name="rows",
            title="rows of 8 floats and a label",
            open=_open,
            samples=ROWS,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=(
                Contender("torch, 0 workers", _torch(0), TORCH, column="torch"),
                Contender("torch, 2 workers", _torch(2), TORCH),
                Contender("torch, __getitems__", _torch_getitems, TORCH),
                Contender("torch, BatchSampler as sampler", _torch_expert, TORCH),
                Contender("by hand, x[perm[i:i+b]]", _by_hand, ("torch",), column="by hand"),
                Contender("gather in C, 1 thread", _gather_in_c, is_limit=True),
                Contender("sluicegate, 0 workers", _sluicegate(0), OURS),
                Contender("sluicegate, 2 workers", _sluicegate(2), OURS),
            ),
        ),
    ),
)
