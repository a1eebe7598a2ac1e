"""Batches of many tensors: dictionaries of 114, as for tables and recommenders. The hand-over is the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import contender
from protocol import Case, Contender, Workload

if TYPE_CHECKING:
    from torch import Tensor

SAMPLES = 8_192
BATCH_SIZE = 32
POOL = 256
WIDTH = 16
KEYS = [f"feature {number}" for number in range(113)]
INDEX = "index"  # the 114th, by which the check identifies samples

Tensors = dict[str, "Tensor"]


class Features:
    """Samples without work: 113 tensors from a pool, and one with the sample's index."""

    def __init__(self) -> None:
        import torch

        self.columns = {key: torch.rand(POOL, WIDTH) for key in KEYS}
        self.ids = torch.arange(SAMPLES, dtype=torch.float32).repeat_interleave(WIDTH).reshape(SAMPLES, WIDTH)
        rows = zip(*(column.unbind() for column in self.columns.values()), strict=True)
        self._pool = [dict(zip(KEYS, row, strict=True)) for row in rows]

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensors:
        return {**self._pool[index % POOL], INDEX: self.ids[index]}


class Indices:
    """Samples that are their index; the collate function makes the batch."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


class Collate:
    """A collate function with little work: it gathers 114 tensors."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def __call__(self, indices: list[int]) -> Tensors:
        import torch

        chosen = torch.tensor(indices)
        pooled = chosen % POOL
        batch = {key: column.index_select(0, pooled) for key, column in self._features.columns.items()}
        batch[INDEX] = self._features.ids.index_select(0, chosen)
        return batch


def _check(source: Features, batch: Any) -> npt.NDArray[np.int64]:
    assert list(batch) == [*KEYS, INDEX], "other keys, or in another order"
    ids = np.asarray(batch[INDEX])[:, 0].astype(np.int64)
    assert np.array_equal(batch[INDEX], source.ids[ids]), "an index that is not the same in its whole row"
    for key in KEYS:
        column = np.asarray(batch[key])
        assert column.dtype == np.float32, f"dtype {column.dtype}"
        assert np.array_equal(column, source.columns[key][ids % POOL]), f"{key}: values that are not those of the index"
    return ids


def _loader(package: str, column: str | None = None) -> Contender:
    return contender(package, lambda features: features, 2, column=column, batch_size=BATCH_SIZE)


def _loader_of_indices(package: str, column: str | None = None) -> Contender:
    return contender(package, lambda _: Indices(), 2, column=column, collate=Collate, batch_size=BATCH_SIZE)


def _case(name: str, title: str, *contenders: Contender) -> Case:
    return Case(name, title, contenders, open=Features, samples=SAMPLES, batch_size=BATCH_SIZE, check=_check)


WORKLOAD = Workload(
    name="dict",
    title="Dictionaries of 114 tensors of 16 floats, batches of 32, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    cases=(
        _case(
            "default",
            "samples with 114 tensors, the default collate",
            _loader("torch", column="torch"),
            _loader("sluicegate"),
        ),
        _case(
            "custom",
            "a collate function that returns 114 tensors",
            _loader_of_indices("torch", column="torch"),
            _loader_of_indices("sluicegate"),
        ),
    ),
)
