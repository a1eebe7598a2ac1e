"""`on_error="skip"` of datasets by index: broken samples are excluded from len, indices, and ids."""

from __future__ import annotations

import json
import os
import pickle
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles import mds_files, tfrecord_files
from sluicegate import (
    ArrowDataset,
    BlockShuffleSampler,
    CsvDataset,
    DataLoader,
    FolderDataset,
    JsonLinesDataset,
    MdsDataset,
    ParquetDataset,
    TFRecordDataset,
)


@dataclass(frozen=True)
class Damaged:
    """Damaged files: `open(on_error)` opens them, `whole` are the intact samples, `lines` match reports of the rest."""

    open: Callable[[str], Any]
    whole: list[Any]
    lines: list[str]


def json_lines(folder: Path) -> Damaged:
    path = folder / "x.jsonl"
    lines = [json.dumps({"n": n, "t": "é" * n}).encode() for n in range(9)]
    lines[2], lines[3], lines[8] = b'{"n": 2, "t": }', b'{"n": 3, "t": "\xff"}', b'{"n": "8", "t": ""}'
    path.write_bytes(b"\n".join(lines[:5]) + b"\r\n\n" + b"\n".join(lines[5:]))
    other = folder / "y.jsonl"
    other.write_bytes('{"n": 1, "t": ""}\n'.encode("utf-16"))
    return Damaged(
        lambda on_error: JsonLinesDataset([path, other], {"n": int, "t": str}, on_error=on_error),
        [{"n": n, "t": "é" * n} for n in (0, 1, 4, 5, 6, 7)],
        [
            r"x\.jsonl, byte \d+: .*expected value",
            r"x\.jsonl, byte \d+: .*UTF-8",
            r"x\.jsonl, byte \d+: .*`n`",
            "UTF-16",
        ],
    )


def json_whole(folder: Path) -> Damaged:
    path = folder / "x.jsonl"
    path.write_bytes(b"[1]\n[\n[2]\n" + b"[" * 1000 + b"\n[3]\n[4]\n[5]\n[6]]")
    return Damaged(
        lambda on_error: JsonLinesDataset(path, on_error=on_error),
        [[n] for n in range(1, 6)],
        ["EOF", "recursion limit", "trailing"],
    )


def csv(folder: Path) -> Damaged:
    path, other, unread = folder / "x.csv", folder / "y.csv", folder / "z.csv"
    path.write_text('n,t\n1,a\n2\nthree,c\n4,"d\n\nd"\n5,e,f\n6,"g"h\n7,i\n')
    other.write_text('n,t\n8,j\n9,k\n10,"l\n11,m\n12,n\n')
    unread.write_text('"n,t\n1,a\n')
    return Damaged(
        lambda on_error: CsvDataset([path, other, unread], {"n": int, "t": str}, on_error=on_error),
        [{"n": n, "t": t} for n, t in ((1, "a"), (4, "d\n\nd"), (7, "i"), (8, "j"), (9, "k"))],
        [
            r"x\.csv, byte 8",
            r"x\.csv, byte 10: .*`n`",
            r"x\.csv, byte \d+",
            r"x\.csv, byte \d+: .*after a closing quote",
            r"y\.csv, byte 15: line 4: a quote is opened here and never closed",
            r"z\.csv, byte 0: line 1: a quote is opened here and never closed",
        ],
    )


def csv_inferred(folder: Path) -> Damaged:
    path = folder / "x.csv"
    path.write_text('n,t\nbroken\n1,a\n2,b\n"3"x,c\n4,d\n5,e\n6,f\n')
    return Damaged(
        lambda on_error: CsvDataset(path, on_error=on_error),
        [{"n": n, "t": t} for n, t in ((1, "a"), (2, "b"), (4, "d"), (5, "e"), (6, "f"))],
        ["byte 4", "after a closing quote"],
    )


def records(folder: Path, *, is_raw: bool = False, is_inferred: bool = False) -> Damaged:
    features = [tfrecord_files.example({"n": [n], "t": [b"text %d" % n]}) for n in range(8)]
    features[3] = tfrecord_files.example({"n": [3], "t": [b"one", b"two"]}) if is_raw else b"no example"
    path, other = Path(tfrecord_files.put(folder / "x.tfrecord", *features)), folder / "y.tfrecord"
    contents = bytearray(path.read_bytes())
    contents[12 + len(features[0]) + 4 + 12 + 5] ^= 1  # in the data of sample 1
    path.write_bytes(contents)
    # Corrupts the length of the second record.
    contents = bytearray(b"".join(map(tfrecord_files.framed, features[:3])))
    contents[12 + len(features[0]) + 4] ^= 1
    other.write_bytes(contents)
    left = [n for n in (0, 2, 3, 4, 5, 6, 7, 0) if n != 3 or is_raw]
    types: Any = "bytes" if is_raw else None if is_inferred else {"n": int, "t": "str"}
    whole: list[Any] = [features[n] for n in left]
    if not is_raw:
        text = (lambda n: b"text %d" % n) if is_inferred else (lambda n: f"text {n}")
        whole = [{"n": torch.tensor(n), "t": text(n)} for n in left]
    lines = [r"x\.tfrecord, byte \d+: the checksum of the \d+ bytes", r"x\.tfrecord, byte \d+: not a tf\.train"]
    return Damaged(
        lambda on_error: TFRecordDataset([path, other], types, on_error=on_error),
        whole,
        [*lines[: 2 - is_raw], r"y\.tfrecord, byte \d+: the checksum of the length"],
    )


def records_cut(folder: Path) -> Damaged:
    path = Path(tfrecord_files.put(folder / "x.tfrecord", *(b"%d" % n * 20 for n in range(7))))
    os.truncate(path, path.stat().st_size - 3)
    return Damaged(
        lambda on_error: TFRecordDataset(path, "bytes", on_error=on_error),
        [b"%d" % n * 20 for n in range(6)],
        [r"x\.tfrecord, byte \d+: a sample of 20 bytes begins here.*truncated"],
    )


def mds(folder: Path) -> Damaged:
    columns = {"j": "json", "t": "str", "x": "ndarray"}
    array = mds_files.array(np.arange(2), dtype=True, shape=True)
    encoded = [{"j": b"[%d]" % n, "t": b"text", "x": array} for n in range(12)]
    encoded[0]["x"] = b"\xff"
    encoded[4]["t"] = b"\xff"
    encoded[5]["j"] = b"["
    root = Path(mds_files.written(folder / "x", columns, [encoded[:3], encoded[3:9], encoded[9:]]))
    # The last shard has lost its last sample.
    last = root / "shard.00002.mds"
    os.truncate(last, last.stat().st_size - 3)
    return Damaged(
        lambda on_error: MdsDataset(root, on_error=on_error),
        [{"j": [n], "t": "text", "x": torch.arange(2)} for n in (1, 2, 3, 6, 7, 8, 9, 10)],
        [
            r"00000\.mds, byte \d+: column `x`",
            r"00001\.mds, byte \d+: column `t`.*UTF-8",
            r"00001\.mds, byte \d+: column `j`",
            r"00002\.mds, byte 12: a sample from byte \d+ to byte",
        ],
    )


def mds_zstd(folder: Path) -> Damaged:
    shards = [[{"i": struct.pack("<q", 4 * k + n)} for n in range(4)] for k in range(3)]
    root = Path(mds_files.written(folder / "x", {"i": "int"}, shards, "zstd"))
    first = root / "shard.00000.mds.zstd"
    first.write_bytes(b"?" + first.read_bytes()[1:])
    return Damaged(
        lambda on_error: MdsDataset(root, on_error=on_error),
        [{"i": n} for n in range(4, 12)],
        [r"shard\.00000\.mds\.zstd, byte 0: it can't be decompressed: .* \(4 samples\)"],
    )


def folder_of_files(folder: Path) -> Damaged:
    for n in range(8):
        (folder / "x" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        (folder / "x" / "ab"[n % 2] / str(n)).write_bytes(b"%d" % n)
    (folder / "x" / "a" / "nowhere").symlink_to("nothing")
    (folder / "x" / "b" / "4").symlink_to("4")
    return Damaged(
        lambda on_error: FolderDataset(folder / "x", classes=True, on_error=on_error),
        [{"bytes": b"%d" % n, "path": f"{'ab'[n % 2]}/{n}", "class": n % 2} for n in (0, 2, 4, 6, 1, 3, 5, 7)],
        [r"x/a/nowhere: No such file", r"x/b/4: Too many levels"],
    )


TABLE = {
    "n": pa.array([1, 2, None, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    "t": pa.array([b"a", b"b", b"c", b"\xff", *[b"d"] * 8]).view(pa.string()),
    "l": pa.array([[1], [2, 3], [4], [5], [6, None], [], *[[7]] * 6]),
    "f": pa.array([*range(12)], pa.int32()),
}


def rows(*numbers: int) -> list[Any]:
    lists = {0: [1], 1: [2, 3], 3: [5], 5: []}
    return [
        {
            "n": torch.tensor(n + 1),
            "t": "abcx"[n] if n < 4 else "d",
            "l": torch.tensor(lists.get(n, [7]), dtype=torch.int64),
            "f": torch.tensor(n, dtype=torch.int32),
        }
        for n in numbers
    ]


def _damage_group(path: Path) -> None:
    """Corrupt the first column of the second row group."""
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    contents = bytearray(path.read_bytes())
    contents[start : start + 20] = b"\xff" * 20
    path.write_bytes(contents)


def parquet(folder: Path) -> Damaged:
    path = folder / "x.parquet"
    pyarrow.parquet.write_table(pa.table(TABLE), path, row_group_size=7)
    _damage_group(path)
    return Damaged(
        lambda on_error: ParquetDataset(path, on_error=on_error),
        rows(0, 1, 5, 6),
        [
            r"sample 2, field `n`: row 2 of .*x\.parquet: it is null",
            r"sample 3, field `t`: row 3 of .*x\.parquet: it is not UTF-8",
            r"sample 4, field `l`: row 4 of .*x\.parquet: it contains a null",
            r"x\.parquet, byte \d+: .* \(5 samples\)",
        ],
    )


def parquet_filter(folder: Path) -> Damaged:
    path = folder / "x.parquet"
    texts = {**TABLE, "t": pa.array(["a", None, "c", "x", *["d"] * 8])}
    pyarrow.parquet.write_table(pa.table(texts), path, row_group_size=7, write_statistics=False)
    _damage_group(path)
    # The damaged column is used by the filter, but not read as a field.
    return Damaged(
        lambda on_error: ParquetDataset(path, ["f", "t"], filter=("n", "<", 8), on_error=on_error),
        [{name: row[name] for name in ("f", "t")} for row in rows(0, 3, 4, 5, 6)],
        [r"sample 1, field `t`: row 1 of", r"x\.parquet, byte \d+: .* \(5 samples\)"],
    )


def arrow(folder: Path, compression: str | None = None) -> Damaged:
    path = folder / "x.arrow"
    table, options = pa.table(TABLE), pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, 7)
    lines = [
        r"sample 2, field `n`: row 2 of .*x\.arrow: it is null",
        r"sample 3, field `t`: row 3 of .*x\.arrow: it is not UTF-8",
        r"sample 4, field `l`: row 4 of .*x\.arrow: it contains a null",
    ]
    whole = rows(0, 1, 5, 6, 7, 8, 9, 10, 11)
    if compression is not None:
        contents = bytearray(path.read_bytes())
        frames = [match.start() for match in re.finditer(rb"\x28\xb5\x2f\xfd", contents)]
        contents[frames[-1] : frames[-1] + 4] = b"\xff" * 4
        path.write_bytes(contents)
        whole, lines = whole[:4], [*lines, r"x\.arrow, byte \d+: .* \(5 samples\)"]
    return Damaged(lambda on_error: ArrowDataset(path, on_error=on_error), whole, lines)


MADE: dict[str, Callable[[Path], Damaged]] = {
    "json-lines": json_lines,
    "json-whole": json_whole,
    "csv": csv,
    "csv-inferred": csv_inferred,
    "examples": records,
    "examples-inferred": lambda folder: records(folder, is_inferred=True),
    "tfrecord": lambda folder: records(folder, is_raw=True),
    "tfrecord-cut": records_cut,
    "mds": mds,
    "mds-zstd": mds_zstd,
    "folder": folder_of_files,
    "parquet": parquet,
    "parquet-filter": parquet_filter,
    "arrow": arrow,
    "arrow-zstd": lambda folder: arrow(folder, "zstd"),
}


# One of each format with at least five samples that are whole; the others differ in what is damaged.
FORMATS = ["json-lines", "csv", "examples", "tfrecord", "mds", "folder", "parquet-filter", "arrow"]


@pytest.mark.parametrize("name", MADE)
def test_the_samples_that_are_whole_are_a_dataset_like_any_other(tmp_path: Path, name: str) -> None:
    made = MADE[name](tmp_path)
    with pytest.raises((ValueError, OSError)):
        _ = [*made.open("raise")]
    dataset = made.open("skip")
    assert len(dataset.damages) == len(made.lines), dataset.damages
    for line, pattern in zip(dataset.damages, made.lines, strict=True):
        assert re.search(pattern, line), (line, pattern)
    if name in FORMATS:
        check_format(dataset, made.whole)
    else:
        assert_same([*dataset], made.whole)
    assert pickle.loads(pickle.dumps(dataset)).damages == dataset.damages


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_ids_and_shards_count_only_intact_samples(tmp_path: Path, name: str, num_workers: int) -> None:
    made = MADE[name](tmp_path)
    dataset, seen = made.open("skip"), []
    for rank in range(2):
        loader = DataLoader(
            dataset, 2, shuffle=True, seed=3, shard=(rank, 2), remainder="exact", num_workers=num_workers
        )
        for batch, ids in loader.with_ids():
            indices = ids.sample_indices.tolist()
            assert_same(batch, dataset.collate([made.whole[index] for index in indices]))
            seen += [index for index, is_own in zip(indices, ids.valid.tolist(), strict=True) if is_own]
    assert sorted(seen) == list(range(len(made.whole)))


@pytest.mark.parametrize("name", MADE)
def test_whole_files_lose_nothing(tmp_path: Path, name: str) -> None:
    made = MADE[name](tmp_path)
    with pytest.raises(ValueError, match="on_error: expected 'raise' or 'skip', but got 'ignore'"):
        made.open("ignore")


@pytest.mark.parametrize("name", ["json-lines", "csv", "tfrecord"])
def test_the_skipped_samples_of_large_files_are_stored(tmp_path: Path, name: str) -> None:
    path, indices = tmp_path / "x", tmp_path / "indices"
    indices.mkdir()
    text = b"y" * 4000
    if name == "json-lines":
        lines = [b'{"n": %d, "t": "%s"}\n' % (n, text) for n in range(1200)]
        open_: Any = lambda: JsonLinesDataset(path, {"n": int}, on_error="skip", index_folder=indices)  # noqa: E731
    elif name == "csv":
        lines = [b"n,t\n", *(b"%d,%s\n" % (n, text) for n in range(1200))]
        open_ = lambda: CsvDataset(path, {"n": int}, on_error="skip", index_folder=indices)  # noqa: E731
    else:
        framed = tfrecord_files.framed(text)
        lines = [framed] * 1200
        open_ = lambda: TFRecordDataset(path, "bytes", on_error="skip", index_folder=indices)  # noqa: E731
    for place in range(7, 1200, 100):
        lines[place] = lines[place][:20] + b"\xff" + lines[place][21:] if name == "tfrecord" else b'"?"?\n'
    path.write_bytes(b"".join(lines))
    dataset = open_()
    assert (len(dataset), len(dataset.damages)) == (1188, 12)
    expected = [dataset[index] for index in range(0, 1188, 50)]
    made = {file.name: file.stat().st_mtime_ns for file in indices.iterdir()}
    assert len([each for each in made if each.endswith(".sluicegate-index")]) == 2
    again = open_()
    assert {file.name: file.stat().st_mtime_ns for file in indices.iterdir()} == made
    assert again.damages == dataset.damages
    assert_same([again[index] for index in range(0, 1188, 50)], expected)
    # Files that have changed are checked again.
    lines[7] = lines[8]
    path.write_bytes(b"".join(lines))
    assert len(open_()) == 1189


@pytest.mark.filterwarnings("ignore:.*this index is damaged")
def test_a_damaged_index_of_skipped_samples_is_built_again(tmp_path: Path) -> None:
    path, indices = tmp_path / "x", tmp_path / "indices"
    indices.mkdir()
    lines = [b'{"n": %d, "t": "%s"}\n' % (n, b"y" * 4000) for n in range(1200)]
    lines[5] = lines[900] = b"?\n"
    path.write_bytes(b"".join(lines))

    def read() -> list[int]:
        dataset: Any = JsonLinesDataset(path, {"n": int}, on_error="skip", index_folder=indices)
        return [batch["n"].tolist() for batch in DataLoader(dataset, 100)]

    whole = read()
    (index,) = (file for file in indices.iterdir() if file.suffix == ".sluicegate-index" and file.stat().st_size < 8000)
    contents = index.read_bytes()
    for place in range(0, len(contents), 5):
        index.write_bytes(contents[:place] + bytes([contents[place] ^ 64]) + contents[place + 1 :])
        assert read() == whole
    for length in range(0, len(contents), 13):
        index.write_bytes(contents[:length])
        assert read() == whole


def test_all_that_is_broken_leaves_an_empty_dataset(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"?\n" * 3000)
    dataset = JsonLinesDataset(path, on_error="skip")
    assert (len(dataset), len(dataset.damages), dataset.damages[-1]) == (0, 1001, "and 2000 more")
    assert [*DataLoader(dataset, 4)] == []


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_invalid_text_in_parquet_damages_only_its_row(tmp_path: Path, use_dictionary: bool) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table(TABLE).select(["t"])
    pyarrow.parquet.write_table(table, path, row_group_size=5, use_dictionary=use_dictionary)
    dataset = ParquetDataset(path, on_error="skip")
    (place,) = (row for row, text in enumerate(table["t"].cast(pa.binary()).to_pylist()) if b"\xff" in text)
    texts = table["t"].cast(pa.binary()).to_pylist()
    assert [row["t"].encode() for row in dataset] == texts[:place] + texts[place + 1 :]
    (damage,) = dataset.damages
    assert re.search(rf"sample {place}, field `t`: row {place} of .*x\.parquet: it is not UTF-8", damage)


def test_block_sizes_count_only_intact_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    values: list[int | None] = list(range(100))
    values[3] = values[55] = None
    pyarrow.parquet.write_table(pa.table({"n": pa.array(values)}), path, row_group_size=20)
    dataset = ParquetDataset(path, on_error="skip")
    assert (dataset.row_group_sizes, len(dataset)) == ([19, 20, 19, 20, 20], 98)
    sampler = BlockShuffleSampler(dataset, dataset.block_size, window=2, seed=0)
    read = [n for batch in DataLoader(dataset, 8, sampler=sampler) for n in batch["n"].tolist()]
    assert sorted(read) == [n for n in values if n is not None]
    arrow = tmp_path / "x.arrow"
    with pa.ipc.new_file(arrow, pa.schema({"n": pa.int64()})) as writer:
        writer.write_table(pa.table({"n": pa.array(values)}), 20)
    assert ArrowDataset(arrow, on_error="skip").batch_sizes == [19, 20, 19, 20, 20]
