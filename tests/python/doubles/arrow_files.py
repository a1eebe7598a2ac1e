"""Arrow files, as tests write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

ROWS = 200


def table(rows: int = ROWS) -> Any:
    texts = pa.array([f"key {row % 7}" for row in range(rows)])
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "x": pa.array([row / 7 for row in range(rows)], pa.float64()),
            "is_odd": pa.array([row % 2 == 1 for row in range(rows)]),
            "text": ["é" * (row % 5) for row in range(rows)],
            "raw": pa.array([bytes([row % 256]) * (row % 3) for row in range(rows)], pa.binary()),
            "vector": pa.array([[row, row + 1] for row in range(rows)], pa.list_(pa.int16(), 2)),
            "tokens": pa.array([list(range(row % 4)) for row in range(rows)], pa.list_(pa.int64())),
            "key": texts.dictionary_encode(),
            "inner": [{"a": row, "b": {"c": str(row)}} for row in range(rows)],
        }
    )


def written(
    path: Path,
    tables: Any,
    *,
    is_stream: bool = False,
    compression: str | None = None,
    batch: int = 32,
    **options: Any,
) -> str:
    options = {"compression": compression, **options}
    tables = tables if isinstance(tables, list) else [tables]
    new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with new(str(path), tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for each in tables:
            writer.write_table(each, max_chunksize=batch)
    return str(path)
