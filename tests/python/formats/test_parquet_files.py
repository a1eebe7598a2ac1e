"""`ParquetDataset` on the files of apache/parquet-testing: every encoding and codec, and files that crashed readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sluicegate import ParquetDataset

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "parquet"
# Timestamps that overflow 64 bits of nanoseconds: the format does not define what a reader returns.
OVERFLOWING = {"int96_from_spark.parquet"}
# Nested types that an error names; the tests of columns cover them.
NESTED = (
    "incorrect_map_schema",
    "large_string_map.brotli",
    "map_no_value",
    "nested_maps.snappy",
    "nonnullable.impala",
    "null_list",
    "nullable.impala",
)
# Files that the decoder refuses because it is too strict.
STRICT = {
    "dict-page-offset-zero.parquet": "footer: ",
    "nation.dict-malformed.parquet": "column `name`: .*page header",
    "repeated_no_annotation.parquet": "row group 0 has 0 rows, but 6 are expected",
}


def files(name: str) -> list[Any]:
    found = sorted((FOLDER / name).glob("*.parquet"))
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(f"{FOLDER} is not here"))]
    return [pytest.param(path, id=path.stem) for path in found]


def expected(value: Any, type_: pa.DataType) -> Any:
    """Return one of pyarrow's objects as `ParquetDataset` returns it with a mask for nulls."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_struct(type_):
        return {field.name: expected((value or {}).get(field.name), field.type) for field in type_}
    is_list = pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_)
    if is_list and value is not None:
        return [expected(item, type_.value_type) for item in value]
    return float(value) if pa.types.is_decimal(type_) and value is not None else value


def found(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict) and value.keys() == {"values", "valid"}:
        return found(value["values"]) if value["valid"] else None
    return {name: found(part) for name, part in value.items()} if isinstance(value, dict) else value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))


def numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as numbers."""
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_) or pa.types.is_duration(type_):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(type_) or pa.types.is_time32(type_) else column


@pytest.mark.parametrize("path", files("data"))
def test_valid_files_read_as_by_pyarrow(path: Path) -> None:
    if path.name in STRICT:
        with pytest.raises(ValueError, match=STRICT[path.name]):
            ParquetDataset(path)[0]
        return
    if path.stem in NESTED:
        with pytest.raises(ValueError, match=r"column `.*skip it by naming the other columns in `columns`"):
            ParquetDataset(path)
        return
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid):
        with pytest.raises(ValueError, match=path.name):
            ParquetDataset(path)[:]
        return
    if path.stem == "list_columns":  # The other column has a null in a list of numbers, which this mask can't mark.
        table = table.select(["utf8_list"])
    dataset = ParquetDataset(path, table.schema.names, nulls="mask")
    assert len(dataset) == table.num_rows
    if "corrupt-checksum" in path.name:
        with pytest.raises(ValueError, match=r"row group 0: column `.*checksum mismatch"):
            dataset[0]
        return
    if path.name in OVERFLOWING or path.stem == "nested_structs.rust":
        assert len([dataset[index] for index in range(len(dataset))]) == table.num_rows
        return
    table = pa.table([numbers(column) for column in table.columns], names=table.schema.names)
    for index, row in enumerate(table.to_pylist()):
        of_row = {field.name: expected(row[field.name], field.type) for field in table.schema}
        assert same(found(dataset[index]), of_row), index


@pytest.mark.parametrize("path", files("bad_data"))
def test_bad_files_are_errors(path: Path) -> None:
    def read() -> None:
        dataset = ParquetDataset(path, nulls="mask")
        for index in range(len(dataset)):
            dataset[index]

    if path.name == "ARROW-GH-43605.parquet":  # a bit width of 0, which is legal
        read()
        return
    with pytest.raises(ValueError, match=path.name):
        read()
