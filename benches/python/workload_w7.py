"""W7: Parquet. 1,000,000 rows of 20 columns (integers, floats, booleans, three of text), in batches of 1,024."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import IMPORTS, present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

ROWS = 1_000_000
BATCH_SIZE = 1_024
ROW_GROUP = 100_000
# Row groups are the blocks of a shuffled epoch; the samples of this many blocks are shuffled together.
WINDOW = 2

PATH = CACHE / f"w7-{ROWS}.parquet"
# The same rows, for packages that need their own format.
LANCE = CACHE / f"w7-{ROWS}.lance"

_WORDS = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])
_TEXTS = ("category", "user", "text")
_PYARROW = (*IMPORTS["torch"], "pyarrow", "pyarrow.parquet")


def _columns() -> dict[str, Any]:
    """Make the number of the row, and values from a generator."""
    generator = np.random.default_rng(7)
    columns: dict[str, Any] = {"int0": np.arange(ROWS)}
    for number in range(1, 6):
        columns[f"int{number}"] = generator.integers(0, 10 ** (number + 2), ROWS, "int64" if number % 2 else "int32")
    for number in range(8):
        columns[f"float{number}"] = generator.standard_normal(ROWS).astype("float32" if number % 2 else "float64")
    for number in range(3):
        columns[f"bool{number}"] = generator.random(ROWS) < 0.5
    columns["category"] = _WORDS[generator.integers(0, len(_WORDS), ROWS)]
    columns["user"] = [f"user-{number}" for number in generator.integers(0, 200_000, ROWS)]
    columns["text"] = [f"{_WORDS[row % 8]} {_WORDS[row // 8 % 8]} {row}" for row in range(ROWS)]
    return columns


def _prepare() -> None:
    if not PATH.exists():
        _write()
    if importlib.util.find_spec("lance") is not None and not LANCE.exists():
        _write_lance()


def _write() -> None:
    import pyarrow
    import pyarrow.parquet

    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = PATH.with_suffix(".part")
    pyarrow.parquet.write_table(pyarrow.table(_columns()), fresh, row_group_size=ROW_GROUP)
    os.replace(fresh, PATH)


def _write_lance() -> None:
    import lance
    import pyarrow.parquet

    fresh = LANCE.with_suffix(".part")
    shutil.rmtree(fresh, ignore_errors=True)
    lance.write_dataset(pyarrow.parquet.read_table(PATH), str(fresh))
    fresh.rename(LANCE)


def _check(_source: str, batch: Any) -> npt.NDArray[np.int64]:
    if isinstance(batch, range):  # the limit delivers no data
        return np.arange(batch.start, batch.stop)
    rows = np.asarray(batch["int0"])
    assert len(batch) == 20, "columns are missing"
    texts = [f"{_WORDS[row % 8]} {_WORDS[row // 8 % 8]} {row}" for row in rows.tolist()]
    found = batch["text"]
    if isinstance(found, dict):
        whole = found["values"].numpy().tobytes().decode()
        assert whole == "".join(texts), "texts differ"
        assert np.diff(found["offsets"]).tolist() == [len(text) for text in texts], "lengths differ"
    else:
        assert list(found) == texts, "texts differ"
    return rows


def _ours(strings: str, note: str, *, shuffled: bool = False) -> Contender:
    def make(path: str) -> Epoch:
        from sluicegate import BlockShuffleSampler, DataLoader, ParquetDataset

        dataset = ParquetDataset(path, strings=strings, cache_bytes=64 << 20)  # type: ignore[arg-type]
        sampler = BlockShuffleSampler(dataset, window=WINDOW, seed=7) if shuffled else None
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler)
        return lambda: iter(loader)

    return Contender(f"sluicegate, {note}", make, IMPORTS["sluicegate"])


def as_batch(batch: Any) -> dict[str, Any]:
    """Return what one would write by hand: tensors of numbers, lists of texts."""
    import torch

    return {
        name: column.to_pylist() if name in _TEXTS else torch.tensor(column.to_numpy(zero_copy_only=False))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _by_hand(path: str) -> Epoch:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    return lambda: map(as_batch, file.iter_batches(BATCH_SIZE, use_threads=False))


def _lance(_path: str) -> Epoch:
    """Lance's own batches, in its order, converted to tensors and lists by hand."""
    import lance

    dataset = lance.dataset(str(LANCE))
    return lambda: map(as_batch, dataset.to_batches(batch_size=BATCH_SIZE))


def _row_groups(path: str) -> Epoch:
    """Row groups are read, but not converted."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)

    def epoch() -> Iterator[range]:
        for group in range(file.num_row_groups):
            file.read_row_group(group, use_threads=False)
            rows = range(group * ROW_GROUP, (group + 1) * ROW_GROUP)
            yield from (rows[start : start + BATCH_SIZE] for start in range(0, ROW_GROUP, BATCH_SIZE))

    return epoch


def _torch(path: str) -> Epoch:
    import pyarrow.parquet
    import torch.utils.data

    class Rows(torch.utils.data.Dataset[Any]):
        """A table in memory, read row by row in batches, as `__getitems__` allows."""

        def __init__(self) -> None:
            self.table = pyarrow.parquet.read_table(path)

        def __len__(self) -> int:
            return int(self.table.num_rows)

        def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
            return list(self.table.take(indices).to_pylist())

    loader = torch.utils.data.DataLoader(Rows(), batch_size=BATCH_SIZE)
    return lambda: iter(loader)


def _hugging_face(path: str) -> Epoch:
    import datasets
    import torch.utils.data

    rows = datasets.Dataset.from_parquet(path, cache_dir=str(CACHE / "w7-datasets")).with_format("torch")
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH_SIZE)
    return lambda: iter(loader)


WORKLOAD = Workload(
    name="w7",
    title="W7: Parquet, 20 columns, batches of 1,024",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=_prepare,
    cases=(
        Case(
            name="parquet",
            title=f"{ROWS:,} rows in row groups of {ROW_GROUP:,}, page cache warm",
            open=lambda: str(PATH),
            samples=ROWS,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=present(
                Contender("torch over pyarrow, map-style", _torch, _PYARROW, "torch over pyarrow"),
                Contender("pyarrow by hand", _by_hand, _PYARROW, "pyarrow by hand"),
                Contender("Lance, its own format", _lance, (*_PYARROW, "lance")),
                Contender("Hugging Face datasets, torch format", _hugging_face, (*IMPORTS["torch"], "datasets")),
                Contender("pyarrow, reading row groups alone", _row_groups, _PYARROW, is_limit=True),
                _ours("str", "texts as lists"),
                _ours("str", "texts as lists, shuffled by blocks", shuffled=True),
                _ours("bytes", "texts as bytes"),
                _ours("bytes", "texts as bytes, shuffled by blocks", shuffled=True),
            ),
        ),
    ),
)
