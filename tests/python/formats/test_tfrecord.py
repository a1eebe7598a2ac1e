"""`TFRecordDataset`: against a writer by the specification, and its errors for files that it can't read."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.tfrecord_files import crc32c, example, feature, framed, masked, message, put, some_features, varint
from sluicegate import DataLoader, TFRecordDataset


def sample_of(n: int) -> dict[str, Any]:
    return {
        "id": torch.tensor(n - 2),
        "score": torch.tensor(n / 4),
        "image": bytes([n] * n),
        "name": f"ö{n}",
        "ids": torch.arange(-1, n % 3),
        "box": torch.tensor([[n, 0.5], [1.0, -2.0]]),
    }


TYPES = {"id": int, "score": float, "image": bytes, "name": str, "ids": [int], "box": (float, (2, 2))}


def test_the_checksum_is_the_specifications() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_features_are_samples_like_any_others(tmp_path: Path) -> None:
    put(tmp_path / "a-0", *(example(some_features(n)) for n in range(3)))
    put(tmp_path / "a-1")
    put(tmp_path / "a-2", *(example(some_features(n), packed=False) for n in range(3, 7)))
    check_format(TFRecordDataset(str(tmp_path / "a-{0..2}"), TYPES), [sample_of(n) for n in range(7)])


def test_raw_bytes_are_samples_too(tmp_path: Path) -> None:
    samples = [b"", b"x", *(bytes([n] * n * 1000) for n in range(1, 200, 30))]
    check_format(TFRecordDataset(put(tmp_path / "x", *samples), "bytes"), samples)


def test_features_are_found_out(tmp_path: Path) -> None:
    path = put(tmp_path / "x", *(example(some_features(n)) for n in range(5)))
    expected = [{**sample_of(n), "name": f"ö{n}".encode(), "box": torch.tensor([n, 0.5, 1.0, -2.0])} for n in range(5)]
    check_format(TFRecordDataset(path), [{name: each[name] for name in sorted(each)} for each in expected])
    less = put(tmp_path / "y", example({"a": [1], "b": [2]}), example({"a": [1]}))
    with pytest.raises(ValueError, match="feature `b` is in only 1 of the first 2 samples"):
        TFRecordDataset(less)
    for values in ([1.0], [b""]):
        other = put(tmp_path / "z", example({"a": [1]}), example({"a": values}))
        with pytest.raises(ValueError, match=r"/z, byte .*: feature `a` holds Integers in an earlier sample"):
            TFRecordDataset(other)


def test_missing_features_are_errors_or_defaults(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x", message(), example({"id": [], "name": [b"n"]}), message((1, message((1, message((1, b"id"))))))
    )
    dataset = TFRecordDataset(
        path, {"id": int, "name": str, "ids": [int]}, defaults={"id": 7, "name": "none", "ids": [1, 2]}
    )
    assert_same(dataset[0], {"id": torch.tensor(7), "name": "none", "ids": torch.tensor([1, 2])})
    with pytest.raises(ValueError, match=r"expected id: int64.*, got 0 values"):
        dataset[1]
    with pytest.raises(ValueError, match=r"/x, byte 12: feature `id` is missing or empty, and has no default"):
        TFRecordDataset(path, {"id": int})[0]


def test_messages_merge_as_protocol_buffers_do(tmp_path: Path) -> None:
    entry = lambda name, *values: (1, message((1, name), *((2, value) for value in values)))  # noqa: E731
    samples = [
        # Two messages of features; the later entry of a name counts.
        message(
            (1, message(entry(b"a", feature([1])), entry(b"b", feature([5])))), (1, message(entry(b"a", feature([2]))))
        ),
        # Two parts of an entry's value are merged, packed or not; fields with unknown numbers are skipped.
        message(
            (9, b"unknown"),
            (1, message(entry(b"a", feature([1]), feature([2], packed=False)), entry(b"b", feature([1])))),
        ),
        # In a oneof, the last member counts, and earlier values are discarded.
        message(
            (
                1,
                message(
                    entry(b"a", feature([1]), feature([0.5]), feature([3]), feature([4])), entry(b"b", feature([6]))
                ),
            )
        ),
        # The key may follow the value, and a name may be empty; groups are skipped.
        message(
            (
                1,
                message(
                    (1, message((2, feature([8])), (1, b"a"))), entry(b"", feature([1])), entry(b"b", feature([2]))
                ),
            )
        )
        + varint(7 << 3 | 3)
        + message((2, 1), (3, 0.5), (4, b"x"))
        + varint(7 << 3 | 4),
    ]
    dataset = TFRecordDataset(put(tmp_path / "x", *samples), {"a": [int], "b": int})
    assert [(each["a"].tolist(), each["b"].item()) for each in (dataset[n] for n in range(4))] == [
        *(([2], 5), ([1, 2], 1), ([3, 4], 6), ([8], 2))
    ]


def test_numbers_are_cast_within_their_range_and_bytes_are_decoded(tmp_path: Path) -> None:
    raw = torch.arange(6, dtype=torch.float32)
    path = put(tmp_path / "x", example({"n": [200], "b": [1, 0], "raw": [raw.numpy().tobytes()], "f": [0.5]}))
    types = {"n": torch.uint8, "b": (bool, 2), "raw": ("float32", (2, 3)), "f": torch.float64}
    expected = {"n": torch.tensor(200, dtype=torch.uint8), "b": torch.tensor([True, False]), "raw": raw.reshape(2, 3)}
    assert_same(TFRecordDataset(path, types)[0], {**expected, "f": torch.tensor(0.5, dtype=torch.float64)})
    for name, kind, words in [
        ("n", torch.int8, "200 is not a valid int8"),
        ("n", torch.bool, "200 is not a valid bool"),
        ("b", int, "expected b: int64.*, got 2 values"),
        ("b", bytes, "expected bytes, got integers"),
        ("f", str, "expected bytes, got floats"),
        ("f", int, "0.5 is not a valid int64"),
        ("raw", int, "expected raw.*, got 3 values"),
        ("raw", ("int64", 2), "expected raw.*, got 3 values"),
        ("raw", [(float, 4)], "expected raw.*, got 6 values"),
        ("raw", str, "not UTF-8 text; read it as bytes"),
    ]:
        dataset = TFRecordDataset(path, {name: kind})
        with pytest.raises(ValueError, match=rf"/x, byte 12: .*{words}"):
            dataset[0]


def test_malformed_messages_are_named(tmp_path: Path) -> None:
    inner = lambda value: message((1, message((1, message((1, b"a"), (2, value))))))  # noqa: E731
    for data, words in [
        (b"\x0a\x05a", "ends inside a value"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "ends inside a value"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than ten bytes"),
        (b"\x00\x01", "number 0"),
        (b"\x0e", "unknown wire type"),
        (b"\x0c", "unexpected end of a group"),
        (b"\x0b\x14", "is ended by a different one"),
        (b"\x0b" * 100, "nested too deep"),
        (b"\x80\x80\x80\x80\x80\x01\x00", "a tag has more than 32 bits"),
        (inner(message((2, message((1, b"12345"))))), "packed floats of 5 bytes"),
        (inner(message((3, message((1, b"\xff"))))), "ends inside a value"),
        (inner(message((1, message((1, b"a"), (1, b"b"))))), "values|bytes"),
        (message((1, message((1, message((1, b"\xff")))))), "not UTF-8"),
    ]:
        dataset = TFRecordDataset(put(tmp_path / "x", data), {"a": [float]}, defaults={"a": []})
        with pytest.raises(ValueError, match=rf"/x, byte 12: .*({words})"):
            dataset[0]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_checksums_are_checked(tmp_path: Path, num_workers: int) -> None:
    path = tmp_path / "x"
    whole = Path(put(path, b"first", b"second", b"third")).read_bytes()
    start = len(framed(b"first"))
    for place in range(start, start + len(framed(b"second"))):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        if place < start + 12:
            with pytest.raises(ValueError, match=rf"/x, byte {start}: the checksum of the length"):
                TFRecordDataset(path, "bytes")
            continue
        dataset = TFRecordDataset(path, "bytes")
        assert [dataset[0], dataset[2]] == [b"first", b"third"]
        with pytest.raises(ValueError, match=rf"/x, byte {start + 12}: the checksum of the 6 bytes from here"):
            dataset[1]
    with pytest.raises(ValueError, match="the checksum of the 6 bytes"):
        list(DataLoader(dataset, num_workers=num_workers))


def test_truncated_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    whole = Path(put(path, b"first", b"second")).read_bytes()
    ends = {0: 0, len(framed(b"first")): 1, len(whole): 2}
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        if end in ends:
            assert len(TFRecordDataset(path, "bytes")) == ends[end]
            continue
        with pytest.raises(ValueError, match=r"/x, byte (0|21): .*truncated"):
            TFRecordDataset(path, "bytes")
    path.write_bytes(b"\x1f\x8b\x08\x00" + whole)
    with pytest.raises(ValueError, match="compressed with gzip"):
        TFRecordDataset(path, "bytes")
    length = struct.pack("<Q", 2**63)
    path.write_bytes(length + masked(length) + b"1234")
    with pytest.raises(ValueError, match="a sample of 9223372036854775808 bytes begins here"):
        TFRecordDataset(path, "bytes")
    with pytest.raises(ValueError, match="or 'bytes'"):
        TFRecordDataset(path, "raw")
    with pytest.raises(ValueError, match="defaults: expected features= by name too, but got features="):
        TFRecordDataset(path, defaults={"a": 1})


def test_bits_that_are_flipped_are_errors_or_other_values(tmp_path: Path) -> None:
    """The checksums are valid, so that the parser gets the damage."""
    dice = random.Random(0)
    whole = example(some_features(5))
    damaged = []
    for _ in range(600):
        bytes_ = bytearray(whole[: dice.choice([len(whole), dice.randrange(len(whole))])])
        for _ in range(dice.randrange(4)):
            if bytes_:
                bytes_[dice.randrange(len(bytes_))] ^= 1 << dice.randrange(8)
        damaged.append(bytes(bytes_))
    dataset = TFRecordDataset(put(tmp_path / "x", *damaged), TYPES)
    errors = 0
    for index in range(len(dataset)):
        try:
            dataset[index]
        except ValueError as error:
            assert "/x" in str(error)  # noqa: PT017
            errors += 1
    assert 0 < errors < 600


def test_tensorflow_agrees(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    path = str(tmp_path / "x")
    with tensorflow.io.TFRecordWriter(path) as writer:
        for n in range(5):
            kinds = {"i": tensorflow.train.Int64List, "f": tensorflow.train.FloatList}
            parts = {
                "i": tensorflow.train.Feature(int64_list=kinds["i"](value=[n, -n])),
                "f": tensorflow.train.Feature(float_list=kinds["f"](value=[n / 2])),
            }
            features = tensorflow.train.Features(feature=parts)
            writer.write(tensorflow.train.Example(features=features).SerializeToString())
    dataset = TFRecordDataset(path)
    assert_same(
        [dataset[n] for n in range(5)], [{"f": torch.tensor(n / 2), "i": torch.tensor([n, -n])} for n in range(5)]
    )
    raw = [bytes(each.numpy()) for each in tensorflow.data.TFRecordDataset(path)]
    assert [*TFRecordDataset(path, "bytes")] == raw


def test_the_tfrecord_package_agrees(tmp_path: Path) -> None:
    import tfrecord as package

    path = str(tmp_path / "x")
    writer = package.TFRecordWriter(path)
    for n in range(20):
        writer.write({"i": ([n, -n, 2**40 + n], "int"), "f": ([n / 2, 1.5], "float"), "b": (bytes([n] * n), "byte")})
    writer.close()
    dataset = TFRecordDataset(path)
    for n, theirs in enumerate(package.tfrecord_loader(path, None)):
        ours = dataset[n]
        assert (ours["i"].tolist(), ours["f"].tolist()) == ([n, -n, 2**40 + n], [n / 2, 1.5])
        assert (ours["i"].tolist(), ours["f"].tolist()) == (theirs["i"].tolist(), theirs["f"].tolist())
        assert ours["b"] == bytes([n] * n)
    assert len(dataset) == 20


def test_a_large_file_keeps_an_index(tmp_path: Path) -> None:
    # Large identical samples, so that one checksum is computed.
    frame = framed(b"x" * 50_000)
    path = tmp_path / "x.tfrecord"
    path.write_bytes(frame * 100)
    first = TFRecordDataset(path, "bytes")
    (index,) = tmp_path.glob("*.sluicegate-index")
    written_at = index.stat().st_mtime_ns
    second = TFRecordDataset(path, "bytes")
    assert (len(first), len(second), index.stat().st_mtime_ns) == (100, 100, written_at)
    assert second[99] == b"x" * 50_000
    path.write_bytes(frame * 101)
    assert len(TFRecordDataset(path, "bytes")) == 101
    with pytest.raises(OSError, match=r"x\.tfrecord changed while it was in use"):
        second[0]
