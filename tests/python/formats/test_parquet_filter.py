"""Filters of `ParquetDataset`: only the rows for which they hold are in the dataset."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from cases.filter_relations import holds
from cases.loader_kinds import plain
from doubles.parquet_files import written
from sluicegate import ParquetDataset


def filtered(rows: list[dict[str, Any]], column: str, relation: str, value: Any) -> list[dict[str, Any]]:
    return [row for row in rows if holds(row[column], relation, value)]


@pytest.mark.parametrize("row_group_size", [7, 64, 1000])
def test_a_filter_leaves_the_rows_for_which_it_holds(tmp_path: Path, row_group_size: int) -> None:
    generator = np.random.default_rng(row_group_size)
    columns = {
        "n": pa.array([None if n % 11 == 0 else int(n) for n in generator.integers(0, 40, 300)], pa.int32()),
        "u": pa.array(generator.integers(2**63, 2**64, 300, "uint64")),
        "f": pa.array(np.where(np.arange(300) % 13 == 0, np.nan, generator.random(300))),
        "t": pa.array([f"k{n:02}" for n in sorted(generator.integers(0, 30, 300))]),
        "b": pa.array(generator.random(300) < 0.3),
        "id": pa.array(range(300)),
    }
    path = written(tmp_path / "x.parquet", columns, row_group_size=row_group_size)
    rows = pa.table(columns).to_pylist()
    middle = int(columns["u"][0].as_py())
    for condition in (
        *(("n", relation, 20) for relation in ("==", "!=", "<", "<=", ">", ">=")),
        *(("f", relation, 0.5) for relation in ("!=", "<", ">")),
        ("n", ">", 19.5),
        ("f", "<", 1),
        ("f", "!=", 2.0),
        ("u", ">=", middle),
        ("t", "<", "k10"),
        ("t", "in", ["k03", "k29", "none"]),
        ("n", "not in", [1, 2, 3]),
        ("b", "==", True),
        ("n", "==", 1000),
        ("n", ">=", 0),
    ):
        dataset = ParquetDataset(path, ["id", "t"], filter=condition)
        expected = filtered(rows, *condition)
        assert len(dataset) == len(expected), condition
        assert sum(dataset.row_group_sizes) == len(expected)
        if expected:
            assert plain(dataset[:]) == {name: [row[name] for row in expected] for name in ("id", "t")}, condition
            order = list(range(len(expected)))
            random.Random(1).shuffle(order)
            assert dataset[order]["id"].tolist() == [expected[place]["id"] for place in order]
    both = ParquetDataset(path, "id", filter=[("n", ">", 5), ("t", ">=", "k05"), ("b", "==", False)])
    expected = filtered(filtered(filtered(rows, "n", ">", 5), "t", ">=", "k05"), "b", "==", False)
    assert both[:].tolist() == [row["id"] for row in expected]
    again = ParquetDataset([path, path], "id", filter=("t", "<", "k10"))
    assert len(again) == 2 * len(filtered(rows, "t", "<", "k10"))


def test_the_rows_that_a_filter_keeps_are_stored_next_to_large_files(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**62, 700_000)
    path = written(tmp_path / "x.parquet", {"x": values}, row_group_size=100_000)
    expected = torch.from_numpy(values[values % 2**62 > 2**61])
    for attempt in range(2):
        before = set(tmp_path.iterdir())
        dataset = ParquetDataset(path, "x", filter=("x", ">", 2**61))
        assert (len(set(tmp_path.iterdir()) - before) == 1) == (attempt == 0)
        order = torch.randperm(len(expected), generator=torch.Generator().manual_seed(attempt))[:1000]
        assert torch.equal(dataset[order.tolist()], expected[order])
    assert len(ParquetDataset(path, "x", filter=("x", "<=", 2**61))) == 700_000 - len(expected)


def test_an_error_of_a_filtered_row_names_the_row_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"x": [1, 2, None, 4], "k": [0, 1, 1, 1]}, row_group_size=3)
    with pytest.raises(ValueError, match="sample 1, field `x`: row 2 of"):
        ParquetDataset(path, "x", filter=("k", "==", 1))[1]


@pytest.mark.parametrize(
    ("filter", "error", "message"),
    [
        (("x", "~", 1), ValueError, "expected one of ==, !="),
        (("x", "=="), TypeError, "expected .column, relation, value."),
        (("x", "==", "a"), ValueError, "column `x` holds int64, which can't be compared with Text"),
        (("l", "==", 1), ValueError, "column `l` holds lists of int64, which can't be compared"),
        (("none", "==", 1), ValueError, "there is no column `none`"),
        (("x", "in", "ab"), TypeError, "filter: expected a list of values for 'in', but got 'ab'"),
        (("x", "==", None), TypeError, "filter: expected a bool, int"),
    ],
)
def test_a_filter_that_can_not_be_is_refused(tmp_path: Path, filter: Any, error: type, message: str) -> None:
    path = written(tmp_path / "x.parquet", {"x": [1], "l": [[1]]})
    with pytest.raises(error, match=message):
        ParquetDataset(path, filter=filter)
