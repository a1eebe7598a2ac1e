"""`ParquetDataset`: the values of columns that pyarrow wrote, and its errors for files that it can't read."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.parquet_files import written
from sluicegate import BlockShuffleSampler, DataLoader, ParquetDataset


def plain(value: Any) -> Any:
    """Return tensors as lists, which can be compared with pyarrow's objects."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return {name: plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def test_parquet_dataset_passes_the_checks_of_every_format(tmp_path: Path) -> None:
    rows = 11
    columns = {
        "i": pa.array(range(rows), pa.int32()),
        "t": [f"text {n}" * (n % 3) for n in range(rows)],
        "b": [bytes([n]) * n for n in range(rows)],
        "s": [{"x": n / 2, "y": {"z": n % 2 == 0}} for n in range(rows)],
        "l": pa.array([[float(n)] * (n % 4) for n in range(rows)], pa.list_(pa.float32())),
        "f": pa.FixedSizeListArray.from_arrays(pa.array(range(3 * rows), pa.int16()), 3),
    }
    for strings in ("str", "bytes"):
        samples = [
            {
                "i": torch.tensor(n, dtype=torch.int32),
                "t": f"text {n}" * (n % 3),
                "b": bytes([n]) * n,
                "s": {"x": torch.tensor(n / 2, dtype=torch.float64), "y": {"z": torch.tensor(n % 2 == 0)}},
                "l": torch.full((n % 4,), float(n)),
                "f": torch.arange(3 * n, 3 * n + 3, dtype=torch.int16),
            }
            for n in range(rows)
        ]
        if strings == "bytes":
            for sample in samples:
                for name in ("t", "b"):
                    raw = sample[name].encode() if isinstance(sample[name], str) else sample[name]
                    sample[name] = torch.tensor(list(raw), dtype=torch.uint8)
        path = written(tmp_path / "x.parquet", columns, row_group_size=4)
        check_format(ParquetDataset(path, strings=strings), samples)  # type: ignore[arg-type]
    halves = [written(tmp_path / f"{n}.parquet", {k: v[4 * n : 4 * n + 4] for k, v in columns.items()}) for n in (0, 1)]
    assert_same(ParquetDataset(halves, strings="bytes")[:], ParquetDataset(path, strings="bytes")[:8])
    padded = ParquetDataset(path, ["l"], lists=("padded", -1))
    assert_same(
        next(iter(DataLoader(padded, batch_size=3)))["l"],
        {"values": torch.tensor([[-1.0, -1], [1, -1], [2, 2]]), "lengths": torch.tensor([0, 1, 2])},
    )


NUMBERS = [pa.bool_(), *(getattr(pa, f"{sign}int{bits}")() for sign in ("u", "") for bits in (8, 16, 32, 64))]
NUMBERS += [pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_numbers_keep_their_data_type(tmp_path: Path, type_: pa.DataType) -> None:
    numbers = (
        np.array([0, 1, 0, 1], "bool") if type_ == pa.bool_() else np.array([0, 1, 5, 127], type_.to_pandas_dtype())
    )
    column = pa.array(numbers)
    lists = pa.ListArray.from_arrays([0, 1, 1, 4], column)
    fixed = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(column, 2), 2)
    nested = pa.ListArray.from_arrays([0, 0, 2], pa.FixedSizeListArray.from_arrays(column, 2))
    expected = torch.from_numpy(numbers)
    for name, array, whole in (
        ("x", column, expected),
        ("x", column.dictionary_encode() if type_ != pa.float16() else column, expected),
        ("x", fixed, expected.reshape(1, 2, 2)),
        ("x", lists, {"values": expected, "offsets": torch.tensor([0, 1, 1, 4])}),
        ("x", nested, {"values": expected.reshape(2, 2), "offsets": torch.tensor([0, 0, 2])}),
    ):
        dataset = ParquetDataset(written(tmp_path / "x.parquet", {name: array}), name)
        assert_same(dataset[:], whole)


def test_times_are_integers_in_the_unit_of_their_column(tmp_path: Path) -> None:
    day, moment = datetime.date(1969, 12, 30), datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    columns = {
        "date32": (pa.array([day], pa.date32()), -2),
        "date64": (pa.array([day], pa.date64()), -2),
        "time32": (pa.array([datetime.time(0, 0, 7)], pa.time32("ms")), 7000),
        "time64": (pa.array([datetime.time(0, 0, 7)], pa.time64("us")), 7_000_000),
        "duration": (pa.array([datetime.timedelta(seconds=3)], pa.duration("ms")), 3000),
        "us": (pa.array([moment], pa.timestamp("us")), 1767323045678901),
        "ms": (pa.array([moment.replace(microsecond=0)], pa.timestamp("ms", "UTC")), 1767323045000),
    }
    dataset = ParquetDataset(written(tmp_path / "x.parquet", {name: array for name, (array, _) in columns.items()}))
    assert_same(dataset[0], {name: torch.tensor(number) for name, (_, number) in columns.items()})


@pytest.mark.parametrize("stores_schema", [True, False])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_96_bits_are_in_nanoseconds(tmp_path: Path, unit: str, stores_schema: bool) -> None:
    of = pa.timestamp(unit, "UTC")
    columns = {
        "x": pa.array([1_767_323_045, None], of),
        "parts": pa.array([{"a": "text", "t": 7}, {"a": "", "t": -7}], pa.struct({"a": pa.string(), "t": of})),
        "many": pa.array([[1, 2], [3]], pa.list_(of)),
        "by_name": pa.array([[("k", 5)], [("k", 6)]], pa.map_(pa.string(), of)),
        "after": pa.array([3, 4], pa.timestamp("us")).cast(pa.int64()),
    }
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True, store_schema=stores_schema)
    table, names = pq.read_table(path), ["x", "parts.t", "many", "after"]
    assert table.schema.field("x").type.unit == "ns"
    whole = ParquetDataset(path, names, nulls={"x": 0})[:]
    assert whole["x"].tolist() == [table["x"].cast(pa.int64())[0].as_py(), 0]
    assert whole["parts"]["t"].tolist() == table["parts"].combine_chunks().field("t").cast(pa.int64()).to_pylist()
    assert whole["many"]["values"].tolist() == table["many"].combine_chunks().flatten().cast(pa.int64()).to_pylist()
    assert whole["after"].tolist() == [3, 4]


def test_decimals_are_the_nearest_float_or_their_digits(tmp_path: Path) -> None:
    texts = ["1.25", "-0.10", "9999999.99", "0.00"]
    for type_ in (pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)):
        path = written(tmp_path / "x.parquet", {"x": pa.array([decimal.Decimal(text) for text in texts], type_)})
        assert ParquetDataset(path, "x")[:].tolist() == [float(text) for text in texts]
        assert ParquetDataset(path, "x", decimals="int")[:].tolist() == [125, -10, 999999999, 0]
    digits = "12345678901234567890123456789.123456789"
    path = written(tmp_path / "x.parquet", {"x": pa.array([decimal.Decimal(digits)], pa.decimal128(38, 9))})
    assert ParquetDataset(path, "x")[0].item() == float(digits)
    with pytest.raises(ValueError, match=r"row group 0: column `x`: the decimal .* does not fit into int64"):
        ParquetDataset(path, "x", decimals="int")[0]


def test_byte_strings_of_every_type(tmp_path: Path) -> None:
    raw = [b"abc", b"", b"\xff\x00z"]
    for type_ in (pa.binary(), pa.large_binary(), pa.binary_view()):
        path = written(tmp_path / "x.parquet", {"x": pa.array(raw, type_)})
        assert ParquetDataset(path, "x")[:] == raw
    texts = ["ab", "", "aé\U0001f600"]
    for type_ in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        path = written(tmp_path / "x.parquet", {"x": pa.array(texts, type_)})
        assert ParquetDataset(path, "x")[:] == texts
        whole = {"values": torch.tensor(list("".join(texts).encode()), dtype=torch.uint8)}
        assert_same(ParquetDataset(path, "x", strings="bytes")[:], whole | {"offsets": torch.tensor([0, 2, 2, 9])})
    path = written(tmp_path / "x.parquet", {"x": pa.array([b"ab", b"cd"], pa.binary(2))})
    assert ParquetDataset(path, "x")[:] == [b"ab", b"cd"]
    assert_same(ParquetDataset(path, "x", strings="bytes")[1], torch.tensor([99, 100], dtype=torch.uint8))


def test_columns_are_named_ordered_and_nested(tmp_path: Path) -> None:
    structs = pa.array([{"x": n, "y": {"p": n + 1, "q": str(n)}} for n in range(3)])
    items = pa.array([[{"k": n, "v": float(n)}] * n for n in range(3)])
    path = written(tmp_path / "x.parquet", {"a.b": [7, 8, 9], "s": structs, "items": items, "z": [1, 2, 3]})
    assert plain(ParquetDataset(path, ["z", "s.y.q", "a.b", "s.x"])[1]) == {
        "z": 2,
        "s": {"y": {"q": "1"}, "x": 1},
        "a.b": 8,
    }
    assert list(ParquetDataset(path, ["z", "a.b"])[0]) == ["z", "a.b"]
    assert ParquetDataset(path, "s.y.p")[:].tolist() == [1, 2, 3]
    assert plain(ParquetDataset(path, "s.y")[2]) == {"p": 3, "q": "2"}
    of_lists = ParquetDataset(path, "items")
    assert plain(of_lists[2]) == {"k": [2, 2], "v": [2.0, 2.0]}
    assert plain(of_lists[:]["k"]) == {"values": [1, 2, 2], "offsets": [0, 0, 1, 3]}
    with pytest.raises(ValueError, match=r"x.parquet: there is no column `s.w`; the columns are \[\"a.b\", \"s.x\", "):
        ParquetDataset(path, ["s.w"])
    for wrong in (5, [5], b"a"):
        with pytest.raises(TypeError, match="expected names of columns"):
            ParquetDataset(path, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no columns to read"):
        ParquetDataset(path, [])


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "values of type Map"),
        (pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int32()))), "values of type Map"),
        (pa.array([[None]]), "values of type Null"),
        (pa.array([None]), "values of type Null"),
    ],
)
def test_columns_without_a_tensor_type_are_named(tmp_path: Path, column: pa.Array, reason: str) -> None:
    path = written(tmp_path / "x.parquet", {"x": [1], "odd": column})
    with pytest.raises(ValueError, match=f"column `odd.*{reason}.*skip it by naming the other columns in `columns`"):
        ParquetDataset(path)
    assert plain(ParquetDataset(path, ["x"])[0]) == {"x": 1}


NULLED = {
    "i": pa.array([1, None, 3]),
    "f": pa.array([1.5, 2.5, None]),
    "b": pa.array([None, True, False]),
    "t": pa.array(["a", None, ""]),
    "w": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "l": pa.array([[1, None], None, [2]]),
    "v": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
    "s": pa.array([{"x": 1, "t": "u"}, None, {"x": None, "t": None}]),
    "r": pa.array([[{"x": 1}, None, {"x": None}], [], None]),
}


def test_a_null_is_an_error_that_names_it_when_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", NULLED, row_group_size=1)
    for column, row, reason in (
        ("i", 1, "is null"),
        ("f", 2, "is null"),
        ("b", 0, "is null"),
        ("t", 1, "is null"),
        ("w", 1, "is null"),
        ("l", 0, "contains a null"),
        ("l", 1, "is null"),
        ("v", 1, "is null"),
        ("v", 2, "contains a null"),
        ("s.x", 1, "is null"),
        ("s.t", 2, "is null"),
        ("r.x", 0, "contains a null"),
        ("r.x", 2, "is null"),
    ):
        dataset = ParquetDataset([path, path], column)
        with pytest.raises(
            ValueError, match=rf"sample {row + 3}, field `{column}`: row {row} of .*x.parquet: it {reason}"
        ):
            dataset[row + 3]
        with pytest.raises(ValueError, match=rf"sample \d, field `{column}`: row"):
            dataset[:]
    assert plain(ParquetDataset(path, ["i", "t"])[2]) == {"i": 3, "t": ""}
    loader = DataLoader(ParquetDataset(path, "i"), batch_size=1, num_workers=1)
    with pytest.raises(ValueError, match="row 1 of"):
        list(loader)


def test_values_take_the_place_of_nulls(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", NULLED)
    zeros = ParquetDataset(path, ["i", "f", "l", "v", "s.x", "r"], nulls=0)
    assert plain(zeros[:]) == {
        "i": [1, 0, 3],
        "f": [1.5, 2.5, 0.0],
        "l": {"values": [1, 0, 2], "offsets": [0, 2, 2, 3]},
        "v": [[1, 2], [0, 0], [3, 0]],
        "s": {"x": [1, 0, 0]},
        "r": {"x": {"values": [1, 0, 0], "offsets": [0, 3, 3, 3]}},
    }
    with pytest.raises(ValueError, match="field `t`: row 1"):
        ParquetDataset(path, ["i", "t"], nulls=0)[1]
    by_column = {"i": -1, "t": ("fill", "mask"), "s": "", "s.x": 9, "b": True, "w": b"zz", "f": float("inf")}
    filled = ParquetDataset(path, ["i", "f", "b", "t", "w", "s"], nulls=by_column)
    assert plain(filled[:]) == {
        "i": [1, -1, 3],
        "f": [1.5, 2.5, float("inf")],
        "b": [True, True, False],
        "t": ["a", "mask", ""],
        "w": [b"ab", b"zz", b"cd"],
        "s": {"x": [1, 9, 9], "t": ["u", "", ""]},
    }
    for nulls, message in (
        ({"i": "x"}, "column `i`: nulls: .* is not a valid value of the column's type"),
        ({"w": b"z"}, "column `w`: nulls: "),
        ({"k": 0}, "nulls: there is no column `k`"),
        ({"b": 2}, "column `b`: nulls: "),
    ):
        with pytest.raises(ValueError, match=message):
            ParquetDataset(path, ["i", "b", "w"], nulls=nulls)
    with pytest.raises(TypeError, match=r"nulls\['i'\]: expected a bool, int"):
        ParquetDataset(path, "i", nulls={"i": [1]})


def test_a_mask_marks_the_rows_that_have_values(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", NULLED)
    names = ["i", "b", "t", "w", "s"]
    dataset = ParquetDataset(path, names, nulls="mask")
    assert plain(dataset[:]) == {
        "i": {"values": [1, 0, 3], "valid": [True, False, True]},
        "b": {"values": [False, True, False], "valid": [False, True, True]},
        "t": ["a", None, ""],
        "w": [b"ab", None, b"cd"],
        "s": {"x": {"values": [1, 0, 0], "valid": [True, False, False]}, "t": ["u", None, None]},
    }
    assert plain(dataset[1])["t"] is None
    assert_same(dataset.collate([dataset[n] for n in range(3)]), dataset[:])
    raw = ParquetDataset(path, ["t"], nulls="mask", strings="bytes")
    assert plain(raw[:]["t"]) == {
        "values": {"values": [97], "offsets": [0, 1, 1, 1]},
        "valid": [True, False, True],
    }
    lists = ParquetDataset(path, "l", nulls="mask")
    assert plain(lists[1]) == {"values": [], "valid": False}
    with pytest.raises(ValueError, match=r"field `l`: row 0 .*it contains a null"):
        lists[0]
    required = pa.table({"x": [1, 2]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    pq.write_table(required, tmp_path / "required.parquet")
    assert plain(ParquetDataset(tmp_path / "required.parquet", nulls="mask")[:]) == {"x": [1, 2]}


def test_files_of_one_dataset_have_the_same_columns(tmp_path: Path) -> None:
    first = written(tmp_path / "a.parquet", {"x": pa.array([1], pa.int64()), "y": ["a"]})
    for columns, message in (
        (
            {"x": pa.array([1], pa.int32()), "y": ["a"]},
            "b.parquet.*column `x` is int32, but in .*a.parquet it is int64",
        ),
        ({"x": [1]}, "b.parquet.*column `y` is missing, but in .*a.parquet it is texts"),
        ({"x": [1], "y": ["a"], "z": [1]}, "b.parquet.*column `z` is int64, but in .*a.parquet it is missing"),
        ({"x": pa.array([1], pa.timestamp("us")), "y": ["a"]}, "`x` is int64 .microseconds since 1970."),
    ):
        with pytest.raises(ValueError, match=message):
            ParquetDataset([first, written(tmp_path / "b.parquet", columns)])
    # The order of columns, columns that are not read, and the encoding of texts do not matter.
    other = written(tmp_path / "b.parquet", {"z": [1.0], "y": pa.array(["b"], pa.large_string()), "x": [2]})
    both = ParquetDataset([first, other], ["x", "y"])
    assert plain(both[:]) == {"x": [1, 2], "y": ["a", "b"]}


def test_files_and_row_groups_may_be_empty(tmp_path: Path) -> None:
    empty = written(tmp_path / "empty.parquet", {"x": pa.array([], pa.int64())})
    full = written(tmp_path / "full.parquet", {"x": [1, 2, 3]}, row_group_size=2)
    assert len(ParquetDataset(empty)) == 0
    assert ParquetDataset(empty).block_size == 1
    dataset = ParquetDataset([empty, full, empty], "x")
    assert dataset[:].tolist() == [1, 2, 3]
    assert [size for size in dataset.row_group_sizes if size] == [2, 1]
    with pytest.raises(IndexError):
        dataset[3]


def test_a_batch_from_everywhere_holds_no_more_than_the_cache(tmp_path: Path) -> None:
    rows = 64_000
    columns = {"x": range(rows), "t": [None if n % 5 == 0 else str(n) for n in range(rows)]}
    path = written(tmp_path / "x.parquet", columns, row_group_size=1000)
    dataset = ParquetDataset(path, cache_bytes=50_000, nulls="mask")
    order = random.Random(2).sample(range(rows), 500)
    batch = dataset[order]
    assert batch["x"]["values"].tolist() == order
    assert batch["t"] == [columns["t"][n] for n in order]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_every_codec_and_page_version(tmp_path: Path, compression: str) -> None:
    numbers, texts = list(range(1000)), [f"{n % 7}" for n in range(1000)]
    for version in ("1.0", "2.0"):
        for dictionary in (True, False):
            path = written(
                tmp_path / "x.parquet",
                {"n": numbers, "t": texts},
                compression=compression,
                data_page_version=version,
                use_dictionary=dictionary,
                write_page_index=dictionary,
                row_group_size=300,
            )
            assert plain(ParquetDataset(path)[:]) == {"n": numbers, "t": texts}


def test_by_blocks_a_row_group_is_decoded_once(tmp_path: Path) -> None:
    rows = 20_000
    path = written(tmp_path / "x.parquet", {"x": range(rows), "t": [str(n) for n in range(rows)]}, row_group_size=1000)
    # Holds two row groups of about 18 KB.
    dataset = ParquetDataset(path, cache_bytes=45_000)
    assert dataset.block_size == 1000
    assert dataset.block_sizes.tolist() == [1000] * 20
    for sampler in (BlockShuffleSampler(dataset, window=2), BlockShuffleSampler(dataset, 1000, window=2)):
        before = dataset.cache_info().decoded
        seen = torch.cat([batch["x"] for batch in DataLoader(dataset, batch_size=64, sampler=sampler, seed=3)])
        assert sorted(seen.tolist()) == list(range(rows))
        assert 18 <= dataset.cache_info().decoded - before <= 20
    # A full shuffle is slow without a cache, but correct.
    few = ParquetDataset(path, cache_bytes=0)
    order = random.Random(2).sample(range(rows), 300)
    assert few[order]["x"].tolist() == order
    assert few[order]["t"] == [str(n) for n in order]


def test_a_file_that_changes_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"x": range(1000)}, row_group_size=100)
    dataset = ParquetDataset(path, cache_bytes=0)
    assert dataset[0]["x"] == 0
    time.sleep(0.02)
    written(tmp_path / "x.parquet", {"x": range(500)})
    with pytest.raises(OSError, match=r"x.parquet changed while it was in use"):
        dataset[500]
    dataset = ParquetDataset(path, cache_bytes=0)
    time.sleep(0.02)
    os.truncate(path, 100)
    with pytest.raises(OSError, match=r"x.parquet changed while it was in use"):
        dataset[0]


def test_truncated_and_flipped_files_are_errors_or_read(tmp_path: Path) -> None:
    columns = {
        "x": pa.array([1, None, 3] * 30),
        "t": [str(n) for n in range(90)],
        "l": [[n] * (n % 3) for n in range(90)],
    }
    whole = Path(written(tmp_path / "x.parquet", columns, row_group_size=40, compression="snappy")).read_bytes()
    generator = random.Random(5)
    damaged = [whole[:end] for end in generator.sample(range(len(whole)), 60)]
    for _ in range(300):
        copy = bytearray(whole)
        for _ in range(generator.choice((1, 1, 4))):
            copy[generator.randrange(len(copy))] ^= 1 << generator.randrange(8)
        damaged.append(bytes(copy))
    path = tmp_path / "damaged.parquet"
    for contents in damaged:
        path.unlink(missing_ok=True)
        path.write_bytes(contents)
        try:
            dataset = ParquetDataset(path, nulls="mask", strings="bytes")
            for index in range(min(len(dataset), 200)):
                dataset[index]
        except (ValueError, OSError) as error:
            assert "damaged.parquet" in str(error)  # noqa: PT017


def test_files_that_are_not_parquet_are_refused(tmp_path: Path) -> None:
    for contents in (b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"PAR1" + b"\xff" * 8 + b"\xff\xff\xff\x7fPAR1"):
        (tmp_path / "x.parquet").write_bytes(contents)
        with pytest.raises(ValueError, match=r"x.parquet, byte \d+: footer: "):
            ParquetDataset(tmp_path / "x.parquet")
    with pytest.raises(FileNotFoundError):
        ParquetDataset(tmp_path / "none.parquet")


def test_arguments_that_can_not_be_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"x": [1], "l": [[1]]})
    for arguments, message in (
        ({"strings": "utf8"}, "strings: expected 'str' or 'bytes'"),
        ({"decimals": "exact"}, "decimals: expected 'float' or 'int'"),
        ({"lists": "padded"}, "lists: expected 'ragged' or"),
        ({"lists": ("padded", "x")}, "lists: expected a fill of int64 for column `l`, but got 'x'"),
        (
            {"lists": ("padded", 0.5)},
            r"lists: expected a fill of int64 for column `l`, but got 0.5 \(it would become 0",
        ),
        ({"cache_bytes": -1}, "cache_bytes should be 0 or more"),
        ({"nulls": 2**70}, "nulls: expected an integer that fits in 64 bits, but got "),
    ):
        with pytest.raises(ValueError, match=message):
            ParquetDataset(path, **arguments)  # type: ignore[arg-type]
    assert repr(ParquetDataset(path, ["x"], filter=("x", ">", 0))) == (
        f"ParquetDataset({path!r}, columns=['x'], filter=[('x', '>', [0])])"
    )
