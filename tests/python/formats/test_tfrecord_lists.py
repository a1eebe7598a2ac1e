"""Features of several byte strings: lists of `bytes` or `str`, as the reader of protocol buffers returns them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.formats import check_format
from doubles.tfrecord_files import example, feature, message, put
from sluicegate import CsvDataset, JsonLinesDataset, JsonLinesStream, TFRecordDataset, TFRecordStream

TYPES = {"words": [str], "blobs": list[bytes], "id": int}


def some(n: int) -> dict[str, Any]:
    return {
        "words": [f"ö{n}" * place for place in range(n % 4)],
        "blobs": [bytes([n, 0, 255]) * place for place in range(3 * n % 5)],
        "id": n,
    }


def encoded(n: int) -> bytes:
    """Return an example, with an empty list of byte strings for a feature without any."""
    words, blobs = ([each.encode() for each in some(n)["words"]], some(n)["blobs"])
    strings = lambda values: message((1, message(*((1, value) for value in values))))  # noqa: E731
    parts = {b"words": strings(words), b"blobs": strings(blobs), b"id": feature([n])}
    return message((1, message(*((1, message((1, name), (2, part))) for name, part in parts.items()))))


def test_lists_of_byte_strings_are_samples_like_any_others(tmp_path: Path) -> None:
    paths = [put(tmp_path / f"a-{part}", *map(encoded, range(5 * part, 5 * part + 5))) for part in range(2)]
    samples = [{**some(n), "id": torch.tensor(n)} for n in range(10)]
    check_format(TFRecordDataset(str(tmp_path / "a-{0..1}"), TYPES), samples)
    (batch,) = sluicegate.DataLoader(TFRecordDataset(paths, TYPES), batch_size=10)
    assert batch["words"] == [sample["words"] for sample in samples]
    # Read sequentially, and with inferred types.
    assert_same(list(TFRecordStream(paths, TYPES)), samples)
    (streamed,) = sluicegate.DataLoader(TFRecordStream(paths, TYPES), batch_size=10)
    assert_same(streamed, batch)
    names = ("blobs", "id", "words")
    inferred = [{**sample, "words": [each.encode() for each in sample["words"]]} for sample in samples]
    inferred = [{name: sample[name] for name in names} for sample in inferred]
    assert_same([*TFRecordDataset(paths)], inferred)
    assert_same(list(TFRecordStream(paths)), inferred)


def test_protocol_buffers_read_the_same(tmp_path: Path) -> None:
    from tfrecord import example_pb2
    from tfrecord.reader import tfrecord_iterator

    path = put(tmp_path / "x", *map(encoded, range(12)))
    dataset = TFRecordDataset(path, {"words": [bytes], "blobs": ["bytes"]})
    count = 0
    for index, data in enumerate(tfrecord_iterator(path)):
        theirs = example_pb2.Example.FromString(bytes(data)).features.feature
        assert dataset[index] == {name: list(theirs[name].bytes_list.value) for name in ("words", "blobs")}
        count += 1
    assert count == 12


def test_features_become_lists_unless_every_sample_has_one_value(tmp_path: Path) -> None:
    for values, expected in (
        ([[b"a"], [b"b"]], [b"a", b"b"]),
        ([[b"a"], [b"b", b"c"]], [[b"a"], [b"b", b"c"]]),
        ([[b"a", b""], [b"b", b"c"]], [[b"a", b""], [b"b", b"c"]]),
    ):
        path = put(tmp_path / "x", *(example({"a": each}) for each in values))
        for dataset in (TFRecordDataset(path), TFRecordStream(path)):
            assert [sample["a"] for sample in dataset] == expected


def test_missing_lists_get_defaults_and_other_types_are_named(tmp_path: Path) -> None:
    path = put(tmp_path / "x", message(), example({"a": [b"1", b"\xff"]}), example({"a": [1]}))
    defaults: list[list[Any]] = [[], [b"none", b""], ["\u00e4"]]
    for default in defaults:
        kind = str if isinstance((default or [b""])[0], str) else bytes
        assert TFRecordDataset(path, {"a": [kind]}, defaults={"a": default})[0] == {"a": default}
        assert next(iter(TFRecordStream(path, {"a": [kind]}, defaults={"a": default}))) == {"a": default}
    for wrong in ("ab", [1], [b"a", "b"], None):
        with pytest.raises(ValueError, match=r"defaults: 'a': expected a value of the type of the field, but got "):
            TFRecordDataset(path, {"a": [bytes]}, defaults={"a": wrong})
    dataset = TFRecordDataset(path, {"a": [str]})
    for index, words in enumerate(("feature `a` is missing", r"feature `a`: \[1\] is not UTF-8 text", "got integers")):
        with pytest.raises(ValueError, match=rf"/x, byte \d+: .*{words}"):
            dataset[index]
    with pytest.raises(ValueError, match="expected one byte string, got more than one byte string; declare a list"):
        TFRecordDataset(path, {"a": bytes})[1]
    whole = TFRecordDataset(path, {"a": [bytes]}, on_error="skip")
    assert ([*whole], len(whole.damages)) == ([{"a": [b"1", b"\xff"]}], 2)


def test_a_sample_of_very_many_byte_strings_is_read(tmp_path: Path) -> None:
    many = [b"", b"x" * 300] + [b""] * 30_000
    path = put(tmp_path / "x", example({"a": many}))
    assert TFRecordDataset(path)[0]["a"] == many


def test_bits_that_are_flipped_are_errors_or_other_values(tmp_path: Path) -> None:
    """The checksums are valid, so that the parser gets the damage."""
    dice, damaged = random.Random(0), []
    for number in range(400):
        data = bytearray(encoded(number % 12))
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        damaged.append(bytes(data[: dice.choice([len(data), dice.randrange(len(data))])]))
    dataset = TFRecordDataset(put(tmp_path / "x", *damaged), TYPES)
    errors = 0
    for index in range(len(dataset)):
        try:
            assert all(isinstance(word, str) for word in dataset[index]["words"])
        except ValueError as error:
            assert "/x" in str(error)  # noqa: PT017
            errors += 1
    assert 0 < errors < 400


def test_json_has_lists_of_texts_too_and_csv_has_none(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"t": ["a", "\\u00e4", ""]}\n{"t": [], "t": ["b"]}\n{}\n{"t": [null]}\n{"t": "a"}\n{"t": [["a"]]}\n'
    )
    types = {"t": [str]}
    for dataset in (
        JsonLinesDataset(path, types, defaults={"t": ["d"]}),
        JsonLinesStream(path, types, defaults={"t": ["d"]}),
    ):
        samples = iter(dataset)
        assert [next(samples)["t"] for _ in range(3)] == [["a", "\u00e4", ""], ["b"], ["d"]]
    lines = JsonLinesDataset(path, types)
    assert lines.collate([lines[0], lines[1]]) == {"t": [["a", "\u00e4", ""], ["b"]]}
    for index, words in (
        (2, "field `t` is missing"),
        (3, "null in a list"),
        (4, "expected a list of strings"),
        (5, "a list, expected"),
    ):
        with pytest.raises(ValueError, match=words):
            lines[index]
    (tmp_path / "x.csv").write_text("t\na\n")
    with pytest.raises(ValueError, match="a cell holds only one value"):
        CsvDataset(tmp_path / "x.csv", types)
    with pytest.raises(TypeError, match="expected a list of one type"):
        JsonLinesDataset(path, {"t": [str, str]})
