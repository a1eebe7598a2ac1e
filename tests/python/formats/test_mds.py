"""`MdsDataset`: against a writer by the format's description, and its errors for folders that it can't read."""

from __future__ import annotations

import functools
import json
import pickle
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from checks.equality import assert_same
from checks.formats import check_format
from doubles.mds_files import COLUMNS, array, sample, shard, written
from sluicegate import DataLoader, JsonLinesDataset, MdsDataset


@pytest.mark.parametrize("compression", [None, "zstd", "zstd:7"])
def test_columns_are_samples_like_any_others(tmp_path: Path, compression: str | None) -> None:
    samples = [sample(n) for n in range(7)]
    for _, expected in samples:
        # A batch can't hold None.
        expected["json"] = {"k": expected["json"]["k"][:1]}
    for encoded, expected in samples:
        encoded["json"] = json.dumps(expected["json"]).encode()
    encoded = [each for each, _ in samples]
    folder = written(tmp_path / "x", COLUMNS, [encoded[:3], [], encoded[3:]], compression)
    check_format(MdsDataset(folder), [expected for _, expected in samples])


def test_json_has_the_batches_of_json_lines(tmp_path: Path) -> None:
    chats: list[Any] = [[{"role": "user", "content": "ü"}], [], [{"role": "tool", "id": None}] * 2, [{"role": "user"}]]
    texts = [json.dumps({"messages": chat, "tags": ["a"] * n, "n": n}) for n, chat in enumerate(chats)]
    (tmp_path / "x.jsonl").write_text("\n".join(texts))
    folder = written(tmp_path / "x", {"row": "json"}, [[{"row": text.encode()} for text in texts]])
    dataset = MdsDataset(folder)
    for loader in (DataLoader(dataset, 2), DataLoader(dataset, 2, collate_fn=dataset.collate)):
        assert_same(
            [batch["row"] for batch in loader], list(DataLoader(JsonLinesDataset(str(tmp_path / "x.jsonl")), 2))
        )


def test_columns_are_chosen(tmp_path: Path) -> None:
    encoded, expected = zip(*(sample(n) for n in range(5)), strict=True)
    folder = written(
        tmp_path / "x", {**COLUMNS, "p": "pkl", "q": "pil"}, [[{**each, "p": b"x", "q": b"y"} for each in encoded]]
    )
    names = ["text", "int", "any"]
    assert_same([*MdsDataset(folder, names)], [{name: each[name] for name in names} for each in expected])
    for fields, words in [
        (None, "column `p` of .*pickles, which can run arbitrary code and are never loaded"),
        (["q"], "column `q` of .*the encoding `pil` is not supported"),
        (["text", "none"], r"there is no column `none`; the columns are \[.any., .bytes."),
    ]:
        with pytest.raises(ValueError, match=words):
            MdsDataset(folder, fields)
    with pytest.raises(TypeError, match="names of columns"):
        MdsDataset(folder, "text")


@pytest.mark.parametrize("form", ["list", "glob"])
def test_folders_follow_one_another(tmp_path: Path, form: str) -> None:
    parts = [[{"x": struct.pack("<q", n)} for n in numbers] for numbers in ([1, 2], [3], [4, 5, 6])]
    folders = [written(tmp_path / f"part-{number}", {"x": "int"}, [part]) for number, part in enumerate(parts)]
    dataset = pickle.loads(pickle.dumps(MdsDataset(folders if form == "list" else str(tmp_path / "part-*"))))
    assert [dataset[index]["x"] for index in range(len(dataset))] == [1, 2, 3, 4, 5, 6]
    assert [batch["x"].tolist() for batch in DataLoader(dataset, batch_size=4)] == [[1, 2, 3, 4], [5, 6]]
    other = written(tmp_path / "other", {"x": "float64"}, [[{"x": struct.pack("<d", 1.0)}]])
    with pytest.raises(
        ValueError, match=r"other: expected the columns of the first folder, .*, but got x .*float64 \[\]; pass fields="
    ):
        MdsDataset([*folders, other])


def test_an_unpacked_shard_in_place_of_a_compressed_one_is_read(tmp_path: Path) -> None:
    packed = written(tmp_path / "x", {"int": "int"}, [[{"int": struct.pack("<q", 5)}]], "zstd")
    raw = written(tmp_path / "y", {"int": "int"}, [[{"int": struct.pack("<q", 5)}]])
    shutil.copy(f"{raw}/shard.00000.mds", packed)
    (tmp_path / "x" / "shard.00000.mds.zstd").unlink()
    assert MdsDataset(packed)[0] == {"int": 5}


def changed(folder: str, **changes: Any) -> None:
    path = Path(folder) / "index.json"
    index = json.loads(path.read_text())
    index["shards"][0].update(changes)
    path.write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "json"}, "only mds"),
        ({"version": 1}, "only mds, version 2"),
        ({"samples": 3}, "the shard has 2 samples, but the index declares 3"),
        ({"samples": 2**40}, "do not fit into"),
        ({"samples": -1}, "invalid MDS index"),
        ({"column_names": []}, "column names, encodings, and sizes differ"),
        ({"column_names": ["a", "a"]}, "two columns are named `a`"),
        ({"column_sizes": [4, None]}, "values of `int` have Some.8. bytes, but the index declares Some.4."),
        ({"column_sizes": [8, 7]}, "values of `str` have None bytes"),
        ({"column_encodings": ["ndarray:int32:99999999999999999999", "str"]}, "has no valid shape"),
        ({"column_encodings": ["ndarray:int32:1000000,1000000,1000000,1000000", "str"]}, "too large for any memory"),
        ({"column_encodings": ["ndarray:complex64:2", "str"]}, "the format has no arrays of `complex64`"),
        ({"raw_data": {"basename": "../x/shard.00000.mds", "bytes": 9}}, "is not inside the folder"),
        ({"raw_data": {"basename": "/etc/passwd", "bytes": 9}}, "is not inside the folder"),
        ({"raw_data": {"basename": "", "bytes": 9}}, "is not inside the folder"),
        ({"raw_data": {"basename": "shard.00000.mds", "bytes": 9}}, "but the index declares 9"),
        (
            {
                "raw_data": {"basename": "none", "bytes": 9},
                "compression": "gz",
                "zip_data": {"basename": "a", "bytes": 1},
            },
            "only zstd",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    columns = {"int": "int", "text": "str"}
    folder = written(tmp_path / "x", columns, [[{"int": bytes(8), "text": b"a"}, {"int": bytes(8), "text": b""}]])
    changed(folder, **changes)
    with pytest.raises(ValueError, match=words):
        MdsDataset(folder)[0]


def test_indices_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MdsDataset(tmp_path)
    for text in ("", "[]", "{}", '{"version": 1, "shards": []}', '{"version": 2, "shards": []}', "[" * 100_000):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(ValueError, match=r"index\.json, byte 0: "):
            MdsDataset(tmp_path)


def test_compressed_shards_have_bounds(tmp_path: Path) -> None:
    folder = written(tmp_path / "x", {"int": "int"}, [[{"int": bytes(8)}] * 20], "zstd")
    path = Path(folder) / "shard.00000.mds.zstd"
    whole = path.read_bytes()
    raw = json.loads((Path(folder) / "index.json").read_text())["shards"][0]["raw_data"]["bytes"]
    # 2 GiB compressed to 64 KB: with a window of 1 MiB, and with a window of the whole.
    blocks = (((1 << 17) << 3 | 2).to_bytes(3, "little") + b"\0") * 2**14
    bombs = [
        struct.pack("<IBB", 0xFD2FB528, 0, 10 << 3) + blocks,
        struct.pack("<IBI", 0xFD2FB528, 0xA0, 2**31) + blocks,
    ]
    for data, words in [
        (bombs[0], "decompresses to more than"),
        (bombs[1], "a Zstandard frame needs a window of 2147483648 bytes"),
        (whole + b"x", "can't be decompressed"),
        (b"", "decompresses to 0 bytes"),
    ]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=words):
            MdsDataset(folder)[0]
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"shard\.00000\.mds\.zstd, byte 0: (it can't be )?decompressed"):
            MdsDataset(folder)[0]
    path.write_bytes(whole)
    changed(folder, raw_data={"basename": "shard.00000.mds", "bytes": raw - 1})
    with pytest.raises(ValueError, match=f"more than the {raw - 1} bytes"):
        MdsDataset(folder)[0]
    changed(folder, raw_data={"basename": "shard.00000.mds", "bytes": 2**40})
    with pytest.raises(ValueError, match="are supported"):
        MdsDataset(folder)[0]


def test_a_real_compressor_agrees(tmp_path: Path) -> None:
    compressor = pyarrow.Codec("zstd", compression_level=9)
    encoded, expected = zip(*(sample(n) for n in range(40)), strict=True)
    folder = written(tmp_path / "x", COLUMNS, [list(encoded)], "zstd")
    raw = shard(COLUMNS, list(encoded))
    half = len(raw) // 2
    compress = functools.partial(compressor.compress, asbytes=True)
    for data in (compress(raw), compress(raw[:half]) + compress(raw[half:])):
        (tmp_path / "x" / "shard.00000.mds.zstd").write_bytes(data)
        assert_same([*MdsDataset(folder)], list(expected))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_damage_is_an_error_that_names_the_shard_or_other_values(tmp_path: Path, compression: str | None) -> None:
    encoded = [sample(n)[0] for n in range(4)]
    folder = written(tmp_path / "x", COLUMNS, [encoded], compression)
    (path,) = (tmp_path / "x").glob("shard*")
    whole, dice, errors = path.read_bytes(), random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        try:
            dataset = MdsDataset(folder)
            for index in range(4):
                dataset[index]
        except ValueError as error:
            assert "/x/" in str(error)  # noqa: PT017
            errors += 1
    assert errors > 100


def test_arrays_that_are_not_as_the_first_are_named(tmp_path: Path) -> None:
    arrays = [
        np.zeros((2, 3), "uint8"),
        np.zeros((1, 3), "uint8"),
        np.zeros((2, 4), "uint8"),
        np.zeros((2, 3), "int16"),
    ]
    folder = written(
        tmp_path / "x", {"a": "ndarray"}, [[{"a": array(each, dtype=True, shape=True)} for each in arrays]]
    )
    dataset = MdsDataset(folder)
    assert dataset[1]["a"].shape == (1, 3)
    for index in (2, 3):
        with pytest.raises(
            ValueError,
            match=r"shard\.00000\.mds, byte \d+: column `a`: the value is an array of u?int\d+ \[2, \d\], but that",
        ):
            dataset[index]
    with pytest.raises(ValueError, match="column `a`"):
        list(DataLoader(dataset, batch_size=2))
