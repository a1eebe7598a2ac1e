"""`JsonLinesDataset`: whole lines and typed fields, with any loader, and its errors for lines that it can't read."""

from __future__ import annotations

import json
import os
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.text_files import put
from sluicegate import DataLoader, JsonLinesDataset, JsonLinesStream


def test_whole_lines_are_objects_like_any_others(tmp_path: Path) -> None:
    objects = [{"text": f"ö{n}", "n": n, "f": n / 3, "list": [n, n], "deep": {"a": {"b": n}}} for n in range(7)]
    put(tmp_path / "1.jsonl", "\ufeff" + "".join(json.dumps(each) + "\n\n" for each in objects[:4]))
    put(tmp_path / "2.jsonl", "")
    put(tmp_path / "3.jsonl", "\r\n".join(json.dumps(each, ensure_ascii=False) for each in objects[4:]))
    check_format(JsonLinesDataset(tmp_path / "*.jsonl"), objects)


def test_integers_of_any_size_are_integers(tmp_path: Path) -> None:
    lines = ['{"n": 18446744073709551616}', '{"n": -9223372036854775809}', '{"n": [-0, 1e30, -0.0]}', '{"n": 1e22}']
    objects = [json.loads(line) for line in lines]
    path = put(tmp_path / "1.jsonl", "\n".join(lines))
    for found in ([*JsonLinesDataset(path)], [*JsonLinesStream(path)]):
        assert repr(found) == repr(objects)
    assert repr(JsonLinesDataset(path, {"n": "json"})[0]["n"]) == "18446744073709551616"
    loader = DataLoader(JsonLinesDataset(path), 2, collate_fn=list)
    assert repr([*loader]) == repr([objects[:2], objects[2:]])


def test_the_repr_has_the_arguments(tmp_path: Path) -> None:
    path = put(tmp_path / "1.jsonl", '{"n": 1}')
    assert repr(JsonLinesDataset(path)) == f"JsonLinesDataset({str(path)!r}, fields=None)"
    assert (
        repr(JsonLinesDataset(path, {"n": int}, defaults={"n": 5}))
        == f"JsonLinesDataset({str(path)!r}, fields={{'n': {int!r}}}, defaults={{'n': 5}})"
    )


def test_typed_fields_are_tensors_texts_and_lists(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lines, samples = [], []
    for n in range(6):
        ids, vectors = list(range(n % 3)), torch.rand(n % 4, 2).float()
        box = torch.rand(2, 2, dtype=torch.float64)
        line = {
            "text": "x" * n,
            "n": n,
            "f": n / 7,
            "b": n % 2 == 0,
            "ids": ids,
            "box": box.tolist(),
            "any": {"k": [n]},
        }
        lines.append(json.dumps({"vectors": vectors.tolist(), "unused": [[{}]], **line}))
        samples.append({**line, "ids": torch.tensor(ids, dtype=torch.int64), "box": box.float(), "vectors": vectors})
    fields = {
        "text": str,
        "n": int,
        "f": float,
        "b": bool,
        "ids": list[int],
        "box": ("float32", (2, 2)),
        "any": "json",
        "vectors": [(torch.float32, (2,))],
    }
    path = put(tmp_path / "x", "\n".join(lines))
    samples = [{name: sample[name] for name in fields} for sample in samples]
    check_format(JsonLinesDataset(path, fields), samples)
    (batch,) = DataLoader(
        JsonLinesDataset(path, {"n": int, "f": float, "b": bool, "s": torch.int8}, defaults={"s": 3}), 6
    )
    assert [(name, value.dtype) for name, value in batch.items()] == [
        *(("n", torch.int64), ("f", torch.float64), ("b", torch.bool), ("s", torch.int8))
    ]


def test_defaults_replace_missing_and_null_fields(tmp_path: Path) -> None:
    path = put(tmp_path / "x", '{"a": null}\n{"a": 1, "l": [2], "t": "x", "j": [1], "s": [3, 4]}\n')
    fields = {"a": int, "l": [torch.int16], "t": str, "j": "json", "s": (int, 2)}
    defaults = {"a": -1, "l": [], "t": "none", "j": {"k": None}, "s": 7}
    dataset = JsonLinesDataset(path, fields, defaults=defaults)
    none = torch.tensor([], dtype=torch.int16)
    assert_same(dataset[0], {"a": -1, "l": none, "t": "none", "j": {"k": None}, "s": torch.tensor([7, 7])})
    # Without a default, null in a JSON field is None.
    assert JsonLinesDataset(put(tmp_path / "y", '{"j": null}'), {"j": "json"})[0] == {"j": None}
    assert JsonLinesDataset(tmp_path / "y", {"j": "json"}, defaults={"j": []})[0] == {"j": []}
    ones = {"a": 1, "l": torch.tensor([2], dtype=torch.int16), "t": "x", "j": [1], "s": torch.tensor([3, 4])}
    assert_same(dataset[1], ones)
    with pytest.raises(ValueError, match=r"line 1: .*field `a` is missing or null, and has no default"):
        JsonLinesDataset(path, {"a": int})[0]


def test_types_and_defaults_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "x", "{}")
    for fields, error in [
        ({"a": "x"}, TypeError),
        ({"a": dict}, (TypeError, ValueError)),
        ({"a": [int, int]}, TypeError),
        ({"a": [[float]]}, TypeError),
        ({"a": {"b": int}}, TypeError),
        ({"a": torch.float16}, ValueError),
        ({"a": (int, -1)}, ValueError),
        ({}, ValueError),
        ("a", TypeError),
    ]:
        with pytest.raises(error, match=r"fields|`a`|dtype"):
            JsonLinesDataset(path, fields)  # type: ignore[arg-type]
    for default in ({"a": "x"}, {"b": 1}, {"a": [1, 2]}):
        with pytest.raises(ValueError, match="defaults"):
            JsonLinesDataset(path, {"a": int}, defaults=default)
    with pytest.raises(ValueError, match="defaults: expected fields= too"):
        JsonLinesDataset(path, defaults={"a": 1})


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        (b'{"a": \xff}', 6, "not UTF-8 text"),
        (b'{"a": }', 6, "column 7: invalid JSON: expected value"),
        (b"{'a': 1}", 1, "invalid JSON"),
        (b'{"a": 1} {', 9, "trailing"),
        (b'{"b":' + b"[" * 100_000, 131, "recursion limit"),
        (b'{"b":' * 100_000 + b"1" + b"}" * 100_000, 635, "recursion limit"),
    ],
)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_names_file_line_and_byte(
    tmp_path: Path, line: bytes, place: int, words: str, num_workers: int
) -> None:
    path = put(tmp_path / "x.jsonl", b'\n{"a": 1}\r\n' + line + b'\n{"a": 2}\n')
    for fields in (None, {"a": int}):
        dataset = JsonLinesDataset(path, fields)
        assert len(dataset) == 3
        with pytest.raises(ValueError, match=rf"x\.jsonl, byte {11 + place}: line 3: ") as caught:
            dataset[1]
        assert words in str(caught.value)
        with pytest.raises(ValueError, match="line 3"):
            list(DataLoader(dataset, batch_size=2, num_workers=num_workers))
        assert dataset[2] == {"a": 2}


def test_a_large_file_keeps_its_index_in_index_folder(tmp_path: Path) -> None:
    lines = [json.dumps({"n": n, "pad": "y" * 500}) for n in range(10_000)]
    (tmp_path / "data").mkdir()
    path = put(tmp_path / "data" / "x.jsonl", "\n".join(lines))
    dataset = JsonLinesDataset(path, {"n": int}, index_folder=tmp_path / "indices")
    assert len(dataset) == 10_000
    assert os.listdir(tmp_path / "data") == ["x.jsonl"]
    assert len(os.listdir(tmp_path / "indices")) == 1
    read = [
        n for batch in DataLoader(dataset, batch_size=512, shuffle=True, num_workers=2) for n in batch["n"].tolist()
    ]
    assert sorted(read) == list(range(10_000))
    again = JsonLinesDataset(path, {"n": int}, index_folder=tmp_path / "indices")
    assert [again[n]["n"] for n in (0, 5_000, 9_999)] == [0, 5_000, 9_999]
    with open(path, "a") as file:
        file.write('\n{"n": -1}')
    with pytest.raises(OSError, match=r"x\.jsonl changed while it was in use"):
        dataset[0]
    assert JsonLinesDataset(path, {"n": int}, index_folder=tmp_path / "indices")[-1] == {"n": -1}


def test_every_truncation_is_read_or_an_error(tmp_path: Path) -> None:
    whole = b'\xef\xbb\xbf{"a": "\\u00e4", "b": [1, 2.5]}\r\n\n{"a": "\xc3\xb6"}'
    fields: dict[str, Any] = {"a": str, "b": [float]}
    for end in range(len(whole)):
        path = put(tmp_path / "x", whole[:end])
        for dataset in (JsonLinesDataset(path), JsonLinesDataset(path, fields, defaults={"b": []})):
            for index in range(len(dataset)):
                try:
                    dataset[index]
                except ValueError as error:
                    assert "line " in str(error)  # noqa: PT017


def test_a_damaged_index_is_named_and_built_again(tmp_path: Path) -> None:
    lines = [json.dumps({"n": n, "pad": "y" * 600}) for n in range(8_000)]
    path = put(tmp_path / "x.jsonl", "\n".join(lines))
    indices = tmp_path / "indices"
    JsonLinesDataset(path, {"n": int}, index_folder=indices)
    (index,) = indices.glob("*.sluicegate-index")
    whole, dice, named = index.read_bytes(), random.Random(0), 0
    for attempt in range(60):
        damaged = bytearray(whole)
        for place in range(dice.randrange(200, len(whole) - 64), len(whole), 997):
            damaged[place] ^= 1 << dice.randrange(8)
        # A truncated index is recognized by its header.
        index.write_bytes(damaged if attempt % 10 else damaged[: dice.randrange(len(whole))])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset = JsonLinesDataset(path, {"n": int}, index_folder=indices)
        named += any(f"{index}: this index is damaged" in str(warning.message) for warning in caught)
        assert [int(dataset[place]["n"]) for place in range(0, len(dataset), 41)] == [*range(0, 8_000, 41)]
    assert named > 10
