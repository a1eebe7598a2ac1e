"""`write_parquet`: pyarrow reads the same values, in types that describe the originals."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pytest
import torch

from doubles.datasets import Late
from sluicegate import write_parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DTYPES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()  # noqa: SIM905
)


def sample(index: int) -> dict[str, Any]:
    rng = np.random.default_rng(index)
    is_missing = index % 10 == 7
    return {
        "image": torch.from_numpy(rng.integers(0, 255, (2, 3, 4), np.uint8)),
        "row": rng.random(5, np.float32),
        "ids": torch.arange(index % 6, dtype=torch.int32),
        "boxes": rng.random((index % 3, 4)),
        "number": index,
        "fraction": None if is_missing else index / 7,
        "flag": index % 2 == 0,
        "scalar": np.float16(index / 2),
        "text": None if is_missing else f"sample {index} ü",
        "blob": bytes(range(index % 50)),
        "words": ["a", "", "b" * index][: index % 4],
        "blobs": [b"x", b"\xff\x00"][: index % 3],
        "list": None if is_missing else [index, -index][: index % 3],
    }


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("compression", ["zstd", "snappy", None])
def test_pyarrow_reads_the_written_values(tmp_path: pathlib.Path, compression: str | None) -> None:
    samples = [sample(index) for index in range(300)]
    paths = write_parquet(
        samples,
        tmp_path / "a-{:02d}.parquet",
        shard_bytes=30_000,
        row_group_rows=32,
        compression=compression,
        ragged=["boxes"],
    )
    assert len(paths) > 2
    found = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    assert found == [{name: plain(value) for name, value in each.items()} for each in samples]
    schema = pq.read_schema(paths[0])
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "image": "fixed_size_list<element: fixed_size_list<element: fixed_size_list<element: uint8 not null>[4] "
        "not null>[3] not null>[2]",
        "row": "fixed_size_list<element: float not null>[5]",
        "ids": "list<element: int32 not null>",
        "boxes": "list<element: fixed_size_list<element: double not null>[4] not null>",
        "number": "int64",
        "fraction": "double",
        "flag": "bool",
        "scalar": "halffloat",
        "text": "string",
        "blob": "binary",
        "words": "list<element: string not null>",
        "blobs": "list<element: binary not null>",
        "list": "list<element: int64 not null>",
    }
    for path in paths:
        metadata = pq.read_metadata(path)
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        assert max(rows) <= 32
        assert all(count == 32 for count in rows[:-1])
        assert metadata.row_group(0).column(0).compression == (compression or "uncompressed").upper()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type_comes_back(tmp_path: pathlib.Path, dtype: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 2 if dtype == "bool" else 100, (40, 3)).astype(dtype)
    if dtype != "bool":
        bounds = np.finfo(dtype) if values.dtype.kind == "f" else np.iinfo(dtype)
        values[0, :2] = bounds.min, bounds.max
    samples = [
        {"row": torch.from_numpy(row.copy()), "one": row[0], "zero": torch.from_numpy(row.copy())[1]} for row in values
    ]
    (path,) = write_parquet(samples, tmp_path / "{}.parquet")
    table = pq.read_table(path)
    assert table["row"].to_pylist() == values.tolist()
    assert table["one"].to_pylist() == values[:, 0].tolist()
    assert table["zero"].to_pylist() == values[:, 1].tolist()
    assert table["one"].type == table["row"].type.value_type == pa.from_numpy_dtype(values.dtype)


def test_tuples_whole_numbers_among_fractions_and_large_samples(tmp_path: pathlib.Path) -> None:
    samples = [(index, index / 2 if index > 3 else index, [1, 2.5]) for index in range(100)]
    (path,) = write_parquet(samples, tmp_path / "a-{}.parquet")
    assert pq.read_table(path).to_pydict() == {
        "0": list(range(100)),
        "1": [index / 2 if index > 3 else float(index) for index in range(100)],
        "2": [[1.0, 2.5]] * 100,
    }
    # A row group has 64 MiB, or one sample.
    large = [{"blob": bytes([index]) * (40 << 20)} for index in range(4)]
    (path,) = write_parquet(large, tmp_path / "b-{}.parquet")
    assert pq.read_metadata(path).num_row_groups == 4
    assert [row["blob"] for row in pq.read_table(path).to_pylist()] == [each["blob"] for each in large]


def test_a_resumed_writer_uses_the_stored_schema(tmp_path: pathlib.Path) -> None:
    # The first 64 samples show that lengths differ; the remaining ones do not.
    samples = [{"x": np.arange(3 if index else 2)} for index in range(200)]
    paths = write_parquet(samples, tmp_path / "a-{}.parquet", shard_bytes=1000)
    before = [pathlib.Path(path).read_bytes() for path in paths]
    os.remove(paths[-1])
    write_parquet(samples, tmp_path / "a-{}.parquet", shard_bytes=1000)
    assert [pathlib.Path(path).read_bytes() for path in paths] == before


@pytest.mark.parametrize(
    ("usual", "late", "error", "words"),
    [
        (torch.zeros(3), torch.zeros(4), ValueError, r"was float32 of shape \(3,\) .*ragged=\['x'\]"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.float64), ValueError, "it is float64 of shape"),
        (torch.zeros(3), "text", TypeError, "expected a tensor, .*, but got str"),
        (1, 1.5, ValueError, "it is float 1.5, but was int64"),
        (1, True, ValueError, "it is bool True"),
        (1, 2**63, ValueError, "expected a value in the range of int64"),
        (np.uint8(1), 256, ValueError, "expected a value in the range of uint8"),
        ("a", b"a", TypeError, "expected str, but got bytes"),
        ("a", "\ud800", ValueError, "surrogates"),
        ([1], ["a"], ValueError, "it is str 'a', but was a list of int64"),
        ([1], [None], ValueError, "it is NoneType None"),
        (["a"], "a", TypeError, "expected a list"),
        ([b"a"], [b"a", "b"], TypeError, "expected bytes, but got str"),
        (1, {"nested": 1}, TypeError, "expected a tensor, .*, but got dict"),
    ],
)
def test_a_sample_that_is_not_like_the_first_ones_is_named(
    tmp_path: pathlib.Path, usual: Any, late: Any, error: type[Exception], words: str
) -> None:
    for num_workers in (0, 1):
        with pytest.raises(error, match=f"(?s)sample 80, field 'x': .*{words}"):
            write_parquet(Late(usual, late), tmp_path / "a-{}.parquet", resume=False, num_workers=num_workers)
        assert not list(tmp_path.glob("*.parquet*unfinished"))


@pytest.mark.parametrize(
    ("samples", "error", "words"),
    [
        ([3], TypeError, "sample 0: expected a dict or a tuple of fields, but got int"),
        ([{}], ValueError, "sample 0: expected at least one field"),
        ([{"x": 1}, (1,)], TypeError, "sample 1: expected a dict"),
        ([(1,), {"x": 1}], TypeError, "sample 1: expected a tuple"),
        ([{"x": 1}, {"y": 1}], ValueError, "sample 1: field 'x' is missing"),
        ([{"x": 1}, {"x": 1, "y": 1}], ValueError, "sample 1: field 'y' is not in the first samples"),
        ([{1: 1}], ValueError, "expected a non-empty string as name of a field, but got 1"),
        ([{"x": None}], ValueError, "field 'x': its type is unknown, .* all of the first 1 samples"),
        ([{"x": []}], ValueError, "field 'x': its type is unknown"),
        ([{"x": 1}, {"x": "a"}], ValueError, "sample 1, field 'x': it is str, but was int64 before"),
        (
            [{"x": torch.zeros(2, 3)}, {"x": torch.zeros(2, 4)}],
            ValueError,
            "sample 1, field 'x': it is float32 of shape",
        ),
        ([{"x": torch.zeros(2, dtype=torch.bfloat16)}], TypeError, "Parquet has no type bfloat16; convert it"),
        ([{"x": np.zeros(2, np.complex64)}], TypeError, "Parquet has no type complex64"),
        ([{"x": np.zeros((2, 0))}], ValueError, r"`x`: arrays of shape \[2, 0\]"),
        ([{"x": np.array(["a"])}], TypeError, "Parquet has no type str32"),
    ],
)
def test_first_samples_without_a_known_schema_are_named(
    tmp_path: pathlib.Path, samples: list[Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        write_parquet(samples, tmp_path / "a-{}.parquet")
    assert not list(tmp_path.glob("a-*.parquet"))
    for more in ({"compression": "brotli"}, {"row_group_rows": 0}, {"ragged": ["no"]}):
        with pytest.raises(ValueError, match=next(iter(more))):
            write_parquet([{"x": 1}], tmp_path / "b-{}.parquet", **more)
