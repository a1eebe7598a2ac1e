"""`ArrowDataset`: against pyarrow, on files and streams of every kind, and its errors for those it can't read."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.arrow_files import ROWS, table, written
from sluicegate import ArrowDataset, BlockShuffleSampler, DataLoader

COMPRESSIONS = (None, "lz4", "zstd")


def samples(rows: int = ROWS) -> list[Any]:
    return [
        {
            "id": torch.tensor(row, dtype=torch.int32),
            "x": torch.tensor(row / 7, dtype=torch.float64),
            "is_odd": torch.tensor(row % 2 == 1),
            "text": "é" * (row % 5),
            "raw": bytes([row % 256]) * (row % 3),
            "vector": torch.tensor([row, row + 1], dtype=torch.int16),
            "tokens": torch.arange(row % 4),
            "key": f"key {row % 7}",
            "inner": {"a": torch.tensor(row), "b": {"c": str(row)}},
        }
        for row in range(rows)
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_arrow_dataset_passes_format_checks(tmp_path: Path, is_stream: bool, compression: str | None) -> None:
    path = written(tmp_path / "a.arrow", table(40), is_stream=is_stream, compression=compression, batch=16)
    check_format(ArrowDataset(path), samples(40))


def test_files_come_one_after_the_other(tmp_path: Path) -> None:
    whole = table()
    parts = [whole.slice(0, 70), whole.slice(70, 0), whole.slice(70, 1), whole.slice(71)]
    for number, part in enumerate(parts):
        path, compression = tmp_path / f"part-{number}.arrow", COMPRESSIONS[number % 3]
        written(path, part, is_stream=number % 2 == 1, compression=compression)
    dataset = ArrowDataset(tmp_path / "part-{0..3}.arrow")
    assert_same([dataset[row] for row in range(len(dataset))], samples())
    assert sum(dataset.batch_sizes) == ROWS
    assert dataset.block_size == 32
    loader = DataLoader(dataset, batch_size=8, sampler=BlockShuffleSampler(dataset, window=2), seed=3)
    ids = torch.cat([batch["id"] for batch in loader])
    assert ids.tolist() != sorted(ids.tolist()) == list(range(ROWS))


def test_only_the_requested_columns_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.arrow", table())
    wanted = ["inner.b", "key", "id"]
    dataset = ArrowDataset(path, columns=wanted)
    assert_same(dataset[9], {"inner": {"b": {"c": "9"}}, "key": "key 2", "id": torch.tensor(9, dtype=torch.int32)})
    assert_same(ArrowDataset(path, columns="id")[3:5], torch.tensor([3, 4], dtype=torch.int32))
    assert_same(ArrowDataset(path, columns="inner.b.c")[3], "3")
    batch = ArrowDataset(path, columns=["text", "tokens"], strings="bytes", lists=("padded", -1))[2:5]
    assert batch["tokens"]["values"].tolist() == [[0, 1, -1], [0, 1, 2], [-1, -1, -1]]
    assert bytes(batch["text"]["values"].tolist()).decode() == "é" * 9
    with pytest.raises(ValueError, match=r"a\.arrow: there is no column `y`, but \['id'|a\.arrow: .*`y`"):
        ArrowDataset(path, columns=["y"])


def test_extra_columns_and_other_places_do_not_matter(tmp_path: Path) -> None:
    one = pa.table({"a": [1, 2], "b": ["x", "y"]})
    two = pa.table({"z": [0.5], "b": pa.array(["w"], pa.large_string()), "a": [3]})
    paths = [written(tmp_path / f"{number}.arrow", each) for number, each in enumerate((one, two))]
    dataset = ArrowDataset(paths, columns=["a", "b"])
    assert_same(dataset[2], {"a": torch.tensor(3), "b": "w"})
    other = written(tmp_path / "2.arrow", pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))
    with pytest.raises(ValueError, match=r"column `a` is int64 in .*0\.arrow, but int32 in .*2\.arrow"):
        ArrowDataset([*paths, other], columns=["a", "b"])


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_that_grow_or_are_replaced(
    tmp_path: Path, is_stream: bool, compression: str | None, deltas: bool
) -> None:
    keys: list[list[str]] = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    if is_stream and not deltas:
        keys = [["a", "b"], ["c"], ["b", "a"]]
    elif not is_stream and not deltas:
        keys = [["a", "b"]] * 3
    expected: list[str] = []
    batches = []
    for names in keys:
        places = [place % len(names) for place in range(5)]
        expected += [names[place] for place in places]
        array = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(names))
        batches.append(pa.table({"other": pa.array(["o"] * 5).dictionary_encode(), "key": array}))
    path = written(
        tmp_path / "a.arrow", batches, is_stream=is_stream, compression=compression, emit_dictionary_deltas=deltas
    )
    for order in (range(15), random.Random(3).sample(range(15), 15)):
        dataset = ArrowDataset(path, columns="key")
        assert [dataset[row] for row in order] == [expected[row] for row in order]


def test_times_and_decimals_by_the_stated_rules(tmp_path: Path) -> None:
    day = datetime.date(1970, 1, 3)
    values = pa.table(
        {
            "day": pa.array([day], pa.date32()),
            "milliseconds": pa.array([day], pa.date64()),
            "stamp": pa.array([1_500], pa.timestamp("us")),
            "money": pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)),
            "half": pa.array([0.5], pa.float16()),
        }
    )
    path = written(tmp_path / "a.arrow", values)
    sample = ArrowDataset(path)[0]
    assert (sample["day"], sample["milliseconds"], sample["stamp"], sample["money"]) == (2, 2, 1500, 1.25)
    assert sample["half"].dtype is torch.float16
    assert ArrowDataset(path, columns="money", decimals="int")[0] == 125


def test_nulls_are_errors_filled_or_masked(tmp_path: Path) -> None:
    values = pa.table({"a": [1, None, 3], "s": ["x", None, ""]})
    path = written(tmp_path / "a.arrow", values, batch=2)
    dataset = ArrowDataset(path)
    with pytest.raises(ValueError, match=r"sample 1, field `a`: row 1 of .*a\.arrow: it is null"):
        dataset[0:3]
    assert_same(dataset[2], {"a": torch.tensor(3), "s": ""})
    assert ArrowDataset(path, nulls={"a": -1, "s": "?"})[1] == {"a": torch.tensor(-1), "s": "?"}
    masked = ArrowDataset(path, nulls="mask")[0:3]
    assert masked["a"]["valid"].tolist() == [True, False, True]
    assert masked["s"] == ["x", None, ""]


def test_feather_and_views(tmp_path: Path) -> None:
    path = str(tmp_path / "a.feather")
    pyarrow.feather.write_feather(table(50), path, chunksize=20)
    assert_same([ArrowDataset(path)[row] for row in (0, 49)], [samples()[0], samples()[49]])
    with open(path, "wb") as file:
        file.write(b"FEA1" + bytes(100))
    with pytest.raises(
        ValueError, match=r"a\.feather, byte 0: the file is a Feather 1 file; write it again as Feather 2"
    ):
        ArrowDataset(path)
    views = pa.table({"s": pa.array(["a", "a text that is longer than a view"], pa.string_view())})
    assert ArrowDataset(written(tmp_path / "b.arrow", views), columns="s")[0:2] == views["s"].to_pylist()


def test_text_that_is_none_is_an_error_where_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.arrow", pa.table({"s": ["abcd", "ok"]}))
    content = Path(path).read_bytes().replace(b"abcd", b"ab\xffd")
    Path(path).write_bytes(content)
    dataset = ArrowDataset(path, columns="s")
    assert dataset[1] == "ok"
    with pytest.raises(
        ValueError, match=r"sample 0, field `s`: row 0 of .*a\.arrow: it is not UTF-8 text from byte 2 on"
    ):
        dataset[0]


def test_files_that_are_not_arrow_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pytest.raises(FileNotFoundError, match=r"a\.arrow"):
        ArrowDataset(path)
    contents = {
        b"": "truncated, or not an Arrow file",
        b"PAR1 and more": "the file is a Parquet file",
        b"ARROW1": "the end of an Arrow file is missing",
        b"hello, world, this is text": "neither an Arrow file nor an Arrow stream",
        b"\xff\xff\xff\xff\x00\x00\x00\x00": "there is no schema",
    }
    for content, words in contents.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            ArrowDataset(path)
    with pytest.raises(IsADirectoryError):
        ArrowDataset(tmp_path)


def read_all(path: Path) -> str | None:
    """Return the error of a damaged file, or None if it is read, in whole or in part."""
    try:
        dataset = ArrowDataset(path)
        for start in range(0, min(len(dataset), 1000), 100):
            dataset[start : start + 100]
    except (ValueError, OSError, MemoryError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_file_truncated_anywhere_is_an_error_or_ends_at_a_batch(
    tmp_path: Path, is_stream: bool, compression: str | None
) -> None:
    path = tmp_path / "a.arrow"
    content = Path(written(path, table(20), is_stream=is_stream, compression=compression, batch=8)).read_bytes()
    whole_batches = 0
    for length in range(0, len(content), 13):
        path.write_bytes(content[:length])
        said = read_all(path)
        if said is None:
            assert is_stream, length
            whole_batches += 1
        else:
            assert "a.arrow" in said
    # A stream may end after any batch, or without its end marker.
    assert whole_batches <= 12


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_bits_that_flip(tmp_path: Path, is_stream: bool, compression: str | None) -> None:
    path = tmp_path / "a.arrow"
    content = Path(written(path, table(20), is_stream=is_stream, compression=compression, batch=8)).read_bytes()
    draws = random.Random(5)
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(draws.choice((1, 1, 3))):
            damaged[draws.randrange(len(damaged))] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged)
        said = read_all(path)
        assert said is None or "a.arrow" in said or "sample" in said, said


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    zeros = pa.table({"x": pa.array([0] * (1 << 17))})
    content = bytearray(Path(written(path, zeros, compression="zstd", batch=1 << 20)).read_bytes())
    place = content.index(struct.pack("<q", 1 << 20) + bytes.fromhex("28b52ffd"))
    for size in (1 << 62, 5 << 30, -2):
        content[place : place + 8] = struct.pack("<q", size)
        path.write_bytes(content)
        said = "(it decompresses to more than|a compressed buffer declares a decompressed size of -2)"
        with pytest.raises(ValueError, match=rf"a\.arrow, byte \d+: a batch is damaged: {said}"):
            ArrowDataset(path)[0]


def test_a_file_that_changes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    written(path, table())
    dataset = ArrowDataset(path)
    dataset[0:50]
    os.truncate(path, 1000)
    with pytest.raises(OSError, match=r"a\.arrow changed while it was in use: it had \d+ bytes, but has 1000 now"):
        dataset[0:50]
    written(path, table())
    dataset = ArrowDataset(path)
    other = tmp_path / "b.arrow"
    written(other, table())
    os.replace(other, path)
    with pytest.raises(OSError, match=r"a\.arrow changed while it was in use"):
        dataset[0]


def test_many_batches_and_a_small_cache(tmp_path: Path) -> None:
    path = written(tmp_path / "a.arrow", table(3000), compression="zstd", batch=10)
    dataset = ArrowDataset(path, columns=["id", "text"], cache_bytes=0)
    order = torch.randperm(3000).tolist()
    batch = dataset[order]
    assert batch["id"].tolist() == order
    assert batch["text"] == ["é" * (row % 5) for row in order]


def test_invalid_arguments_of_arrow_dataset_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.arrow", table())
    with pytest.raises(ValueError, match="cache_bytes"):
        ArrowDataset(path, cache_bytes=-1)
    with pytest.raises(ValueError, match="strings"):
        ArrowDataset(path, strings="text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="columns"):
        ArrowDataset(path, columns=[1])  # type: ignore[list-item]
    assert repr(ArrowDataset(path, columns=["id"])) == f"ArrowDataset({path!r}, columns=['id'])"
