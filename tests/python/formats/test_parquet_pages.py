"""Filters of `ParquetDataset`: pages that can't contain a matching row are not decoded."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases.filter_relations import RELATIONS, holds
from sluicegate import ParquetDataset, write_parquet

ROWS = 5000


def written(path: Path, table: pa.Table, **options: Any) -> str:
    """Write a file with pages of about a hundred rows, and plain, uncompressed values; return its path."""
    plain = {"use_dictionary": False, "compression": "none", "write_batch_size": 100, "data_page_size": 1600}
    pq.write_table(table, path, **(plain | {"write_page_index": True} | options))
    return str(path)


def overwrite(path: str, found: bytes, other: bytes) -> None:
    content = Path(path).read_bytes()
    assert content.count(found) == 1, "the value lies in the file once, and in no statistics"
    Path(path).write_bytes(content.replace(found, other))


def rows_of(*, is_nested: bool) -> tuple[pa.Table, str]:
    keys = pa.array(range(7_000_000, 7_000_000 + ROWS))
    texts = pa.array([f"text {n:06}" for n in range(ROWS)])
    lists = pa.array([[f"item {n:06}"] for n in range(ROWS)])
    if is_nested:
        inner = pa.StructArray.from_arrays([keys], ["key"])
        return pa.table({"s": pa.StructArray.from_arrays([lists, inner], ["l", "in"]), "t": texts}), "s.in.key"
    return pa.table({"key": keys, "t": texts, "l": lists}), "key"


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize(
    ("relation", "value", "expected"),
    [
        ("==", 7_003_210, [3210]),
        ("in", [7_003_210, 7_000_900], [900, 3210]),
        (">", 7_004_990, list(range(4991, ROWS))),
        (">=", 7_004_990, list(range(4990, ROWS))),
        ("<", 7_000_011, list(range(11))),
        ("<=", 7_000_010, list(range(11))),
    ],
)
def test_pages_that_can_not_match_are_not_decoded(
    tmp_path: Path, is_nested: bool, relation: str, value: Any, expected: list[int]
) -> None:
    table, key = rows_of(is_nested=is_nested)
    for has_index in (True, False):
        path = written(tmp_path / "x.parquet", table, write_page_index=has_index)
        # Row 2222 gets a matching value, which is found only if its page is decoded.
        one = value[0] if isinstance(value, list) else value
        inside = {">": one + 1, "<": one - 1}.get(relation, one)
        overwrite(path, struct.pack("<q", 7_002_222), struct.pack("<q", inside))
        dataset = ParquetDataset(path, "t", filter=(key, relation, value))
        found = [int(text[5:]) for text in dataset[:]]
        assert found == (expected if has_index else sorted([*expected, 2222]))


@pytest.mark.parametrize("is_nested", [False, True])
def test_other_columns_decode_only_the_pages_of_matching_rows(tmp_path: Path, is_nested: bool) -> None:
    table, key = rows_of(is_nested=is_nested)
    path = written(tmp_path / "x.parquet", table)
    expected = [["item 003901"], ["item 003962"], ["item 004999"]]
    lists, keep = "s.l" if is_nested else "l", [(key, ">", 7_003_900), (key, "!=", 7_003_950)]
    batch = ParquetDataset(path, ["t", lists], filter=keep)[[0, 60, -1]]
    assert (batch["s"]["l"] if is_nested else batch["l"]) == expected
    # Some texts claim an impossible length, so that decoding them fails.
    for name in (b"text", b"item"):
        overwrite(path, struct.pack("<I", 11) + name + b" 002222", b"\xff\xff\xff\xff" + name + b" 002222")
    with pytest.raises(ValueError, match="row group 0: column"):
        ParquetDataset(path, "t")[0]
    dataset = ParquetDataset(path, ["t"], filter=keep)
    assert len(dataset) == ROWS - 3902
    assert dataset[7]["t"] == "text 003908"
    # Pages of lists can't be skipped: reading one row decodes them all.
    with pytest.raises(ValueError, match=f"row group 0: column `{lists}"):
        ParquetDataset(path, lists, filter=keep)[7]


def expected_rows(values: list[Any], relation: str, value: Any) -> list[int]:
    return [row for row, found in enumerate(values) if holds(found, relation, value)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("has_index", [True, False])
def test_filters_keep_the_same_rows_with_and_without_a_page_index(tmp_path: Path, seed: int, has_index: bool) -> None:
    draw = random.Random(seed)
    rows = 1500

    def column(values: list[Any]) -> list[Any]:
        if draw.random() < 0.6:
            values = sorted(values)
        # Pages of only nulls, and nulls among the other values.
        start = draw.randrange(rows)
        gone = set(range(start, start + 500)) | set(draw.sample(range(rows), 50))
        return [None if row in gone else value for row, value in enumerate(values)]

    floats = [draw.choice([float("nan"), 0.0, -0.0, draw.uniform(-5, 5), float("inf")]) for _ in range(rows)]
    columns: dict[str, tuple[list[Any], Any, list[Any]]] = {
        "i": (column([draw.randrange(-50, 50) for _ in range(rows)]), pa.int32(), [0, -50, 49, 7.5, 60]),
        "u": (column([2**63 + draw.randrange(100) for _ in range(rows)]), pa.uint64(), [2**63 + 50, 2**63, 5]),
        "f": (column(floats) if seed % 2 else floats, pa.float64(), [0.0, 1, float("inf")]),
        "t": (column([f"{'p' * 90}{draw.randrange(40):02}" for _ in range(rows)]), pa.string(), ["p" * 90 + "20", "p"]),
        "b": (column([draw.random() < 0.5 for _ in range(rows)]), pa.bool_(), [True, False]),
        "one": ([3] * rows, pa.int64(), [3, 4]),
        "w": (column([bytes([draw.randrange(5), 1]) for _ in range(rows)]), pa.binary(2), [b"\2\1"]),
    }
    arrays = {name: pa.array(values, type_) for name, (values, type_, _) in columns.items()}
    table = pa.table(
        arrays | {"s": pa.StructArray.from_arrays(list(arrays.values()), list(arrays)), "row": pa.array(range(rows))}
    )
    path = written(tmp_path / "x.parquet", table, write_page_index=has_index, row_group_size=draw.choice([1500, 400]))
    for name, (values, _, others) in columns.items():
        for relation in RELATIONS:
            other = others if relation in ("in", "not in") else draw.choice(others)
            prefix = draw.choice(["", "s."])
            dataset = ParquetDataset(path, "row", filter=(f"{prefix}{name}", relation, other))
            expected = expected_rows(values, relation, other)
            found = dataset[:].tolist() if len(dataset) else []
            assert found == expected, (name, relation, other)
    both = ParquetDataset(path, "row", filter=[("i", ">", 20), ("s.u", "<", 2**63 + 30)])
    expected = sorted({*expected_rows(columns["i"][0], ">", 20)} & {*expected_rows(columns["u"][0], "<", 2**63 + 30)})
    assert (both[:].tolist() if len(both) else []) == expected


def test_bounds_that_were_cut_off_are_bounds(tmp_path: Path) -> None:
    # `write_parquet` truncates the bounds of a page to 64 bytes, and writes pages of 20,000 rows.
    texts = sorted(f"{'é' * 40}{n:06}" if n % 2 else "\U0010ffff" * 20 + f"{n:06}" for n in range(60_000))
    samples = [{"t": text, "row": row} for row, text in enumerate(texts)]
    (path,) = write_parquet(samples, tmp_path / "x-{}.parquet", row_group_rows=60_000)
    for row in (0, 1, 19_999, 20_000, 29_999, 30_000, 45_000, 59_999):
        assert ParquetDataset(path, "row", filter=("t", "==", texts[row]))[:].tolist() == [row]
        assert len(ParquetDataset(path, "row", filter=("t", ">", texts[row]))) == 59_999 - row
        assert len(ParquetDataset(path, "row", filter=("t", "<", texts[row]))) == row
        assert len(ParquetDataset(path, "row", filter=("t", "!=", texts[row]))) == 59_999


def test_row_groups_of_only_nulls_or_one_other_value_are_skipped(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([None] * 100 + [5] * 100 + [6] * 100, pa.int64()), "row": range(300)})
    path = written(tmp_path / "x.parquet", table, row_group_size=100, write_page_index=False)
    content = Path(path).read_bytes()
    start = content.index(struct.pack("<q", 5) * 100)
    # The first 5 is now a 7, which the statistics do not show.
    Path(path).write_bytes(content[:start] + struct.pack("<q", 7) + content[start + 8 :])
    assert ParquetDataset(path, "row", filter=("x", "!=", 5))[:].tolist() == list(range(200, 300))
    assert ParquetDataset(path, "row", filter=("x", "not in", [5, 9]))[:].tolist() == list(range(200, 300))
    assert ParquetDataset(path, "row", filter=("x", "!=", 9)).row_group_sizes == [0, 100, 100]


def test_an_index_that_is_damaged_is_an_error_or_takes_nothing(tmp_path: Path) -> None:
    table, key = rows_of(is_nested=False)
    path = written(tmp_path / "x.parquet", table)
    content = Path(path).read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    draw = np.random.default_rng(0)
    # The indices are between the last page and the footer.
    start = content.index(struct.pack("<I", 11) + b"item 004999") + 15
    for _ in range(150):
        damaged = bytearray(content)
        for place in draw.integers(start, footer, 3):
            damaged[place] = draw.integers(256)
        Path(path).write_bytes(bytes(damaged))
        try:
            dataset = ParquetDataset(path, "t", filter=(key, "==", 7_003_210))
            found = dataset[:] if len(dataset) else []
        except ValueError as error:
            assert "x.parquet" in str(error)  # noqa: PT017
        else:
            assert set(found) <= {"text 003210"}
