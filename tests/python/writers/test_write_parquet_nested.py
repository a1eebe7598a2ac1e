"""`write_parquet` with dicts, lists of dicts, and lists of lists: pyarrow and `ParquetDataset` read the same values."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from doubles.datasets import Late
from sluicegate import DataLoader, ParquetDataset, write_parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def chat(index: int) -> dict[str, Any]:
    call = {"name": "f", "arguments": [index, None]}
    return {
        "messages": [
            {"role": "user", "content": f"ü {index}", "calls": None if n % 2 else [call]} for n in range(index % 4)
        ],
        "meta": None
        if index % 9 == 8
        else {"id": index, "score": index / 2, "tags": ["a", "b"][: index % 3], "ok": True},
        "boxes": [[0.5] * (index % 3), [], None][: index % 4],
        "words": ["a", None, "b" * index][: index % 4],
        "blobs": {"raw": bytes([index % 256]), "of": [[b""]]},
        "n": index,
    }


def test_pyarrow_and_parquet_dataset_read_the_written_values(tmp_path: pathlib.Path) -> None:
    samples = [chat(index) for index in range(300)]
    paths = write_parquet(samples, tmp_path / "a-{:02d}.parquet", shard_bytes=20_000, row_group_rows=32)
    assert len(paths) > 2
    assert [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()] == samples
    schema = pq.read_schema(paths[0])
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "messages": "list<element: struct<role: string, content: string, calls: list<element: struct<name: string, "
        "arguments: list<element: int64>>>>>",
        "meta": "struct<id: int64, score: double, tags: list<element: string>, ok: bool>",
        "boxes": "list<element: list<element: double>>",
        "words": "list<element: string>",
        "blobs": "struct<raw: binary, of: list<element: list<element: binary>>>",
        "n": "int64",
    }
    names = ["messages", "boxes", "words", "blobs"]
    dataset = ParquetDataset(paths, names, nulls="mask")
    assert [dataset[index] for index in range(300)] == [{name: each[name] for name in names} for each in samples]
    meta = ParquetDataset(paths, "meta", nulls="mask")
    assert_same(meta[1]["id"], {"values": torch.tensor(1), "valid": torch.tensor(True)})
    assert (meta[1]["tags"], meta[8]["tags"]) == (["a"], None)
    # With worker processes, and after a resume, the bytes are the same.
    before = [pathlib.Path(path).read_bytes() for path in paths]
    os.remove(paths[1])
    options: dict[str, Any] = {"shard_bytes": 20_000, "row_group_rows": 32}
    assert write_parquet(samples, tmp_path / "a-{:02d}.parquet", **options) == paths
    assert [pathlib.Path(path).read_bytes() for path in paths] == before
    others = write_parquet(samples, tmp_path / "b-{:02d}.parquet", num_workers=2, **options)
    assert [pathlib.Path(path).read_bytes() for path in others] == before


def value_of(draw: random.Random, form: Any) -> Any:
    if draw.random() < 0.1:
        return None
    if isinstance(form, list):
        return [value_of(draw, form[0]) for _ in range(draw.choice([0, 1, 4]))]
    if isinstance(form, dict):
        return {name: value_of(draw, part) for name, part in form.items()}
    choices: dict[str, list[Any]] = {
        "text": ["", "é\0", "long " * 30],
        "bytes": [b"", b"\xff\0"],
        "int": [0, -(2**63), 2**63 - 1],
        "float": [0, 1.5, -0.0, float("inf"), 7],
        "bool": [True, False],
    }
    return draw.choice(choices[form])


def form_of(draw: random.Random, depth: int) -> Any:
    kind = draw.choice(["list", "dict", "leaf"]) if depth else "leaf"
    if kind == "list":
        return [form_of(draw, depth - 1)]
    if kind == "dict":
        return {name: form_of(draw, depth - 1) for name in ("a", "b.c", "é")[: draw.randint(1, 3)]}
    return draw.choice(["text", "bytes", "int", "float", "bool"])


@pytest.mark.parametrize("seed", range(30))
def test_nested_values_read_back_as_written(tmp_path: pathlib.Path, seed: int) -> None:
    draw = random.Random(seed)
    form = [{"x": form_of(draw, 3), "y": [form_of(draw, 2)]}]
    samples = [{"v": value_of(draw, form), "i": index} for index in range(150)]
    try:
        (path,) = write_parquet(samples, tmp_path / "{}.parquet", row_group_rows=draw.choice([7, 1000]))
    except ValueError as error:
        # A random table may never show the type of a value.
        assert "its type is unknown" in str(error)  # noqa: PT017
        return
    assert pq.read_table(path).to_pylist() == samples
    dataset = ParquetDataset(path, "v", nulls="mask")
    assert dataset[:] == [each["v"] for each in samples]
    for batch, ids in DataLoader(dataset, batch_size=16, shuffle=True, seed=seed).with_ids():
        assert batch == [samples[index]["v"] for index in ids.sample_indices.tolist()]


def test_arrays_in_lists_and_dicts_are_lists(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    samples = [
        {
            "d": {"a": rng.random((n % 3, 2), np.float32), "s": np.int16(n), "t": torch.tensor(n / 2)},
            "l": [torch.arange(k, dtype=torch.uint8) for k in range(n % 4)],
        }
        for n in range(70)
    ]
    (path,) = write_parquet(samples, tmp_path / "{}.parquet")
    expected = [
        {
            "d": {"a": each["d"]["a"].tolist(), "s": n, "t": n / 2},
            "l": [row.tolist() for row in each["l"]],
        }
        for n, each in enumerate(samples)
    ]
    table = pq.read_table(path)
    assert table.to_pylist() == expected
    assert str(table.schema.field("d").type) == "struct<a: list<element: list<element: float>>, s: int16, t: float>"
    assert ParquetDataset(path, "l")[:] == [each["l"] for each in expected]


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else 1


def test_lists_in_lists_are_as_deep_as_is_read(tmp_path: pathlib.Path) -> None:
    (path,) = write_parquet([{"x": deep(32)}], tmp_path / "{}.parquet")
    assert ParquetDataset(path, "x")[0] == deep(32)
    assert pq.read_table(path).to_pylist() == [{"x": deep(32)}]


MESSAGES = [{"role": "a", "n": 1, "l": [[0.5]]}]


@pytest.mark.parametrize(
    ("late", "error", "words"),
    [
        ([{"role": 5, "n": 1, "l": []}], TypeError, r"'x\[0\].role': expected str, .* but got int"),
        ([MESSAGES[0], {"role": "a", "n": "b", "l": []}], TypeError, r"'x\[1\].n': expected a tensor, .*, but got str"),
        ([{"role": "a", "n": 1.5, "l": []}], ValueError, r"'x\[0\].n': it is float 1.5, but was int64"),
        ([{"role": "a", "n": 2**63, "l": []}], ValueError, r"'x\[0\].n': expected a value in the range of int64"),
        ([{"role": "a", "n": np.int8(1), "l": []}], ValueError, r"'x\[0\].n': it is int8"),
        ([{"role": "a", "n": 1}], ValueError, r"'x\[0\]': key 'l' is missing; pass None"),
        (
            [MESSAGES[0] | {"z": 1}],
            ValueError,
            r"'x\[0\]': key 'z' is not in those of the first samples, which have role, n, l",
        ),
        ([MESSAGES[0] | {"l": [[1], [True]]}], ValueError, r"'x\[0\].l\[1\]\[0\]': it is bool True"),
        ([MESSAGES[0] | {"l": [1.5]}], TypeError, r"'x\[0\].l\[0\]': expected a list of float64.* but got float"),
        (
            [MESSAGES[0] | {"l": [np.zeros(2, np.float32)]}],
            TypeError,
            r"'x\[0\].l\[0\]': expected .* but got float32 of",
        ),
        ([MESSAGES[0] | {"role": "\ud800"}], ValueError, r"'x\[0\].role': .*surrogates"),
        ({"role": "a"}, TypeError, r"'x': expected a list of a dict of role, n, l, .* but got dict"),
        ("a", TypeError, "'x': expected a list of a dict .* but got str"),
    ],
)
def test_values_that_differ_from_the_first_samples_are_named_with_their_path(
    tmp_path: pathlib.Path, late: Any, error: type[Exception], words: str
) -> None:
    for num_workers in (0, 1):
        with pytest.raises(error, match=f"(?s)sample 80, field {words}"):
            write_parquet(Late(MESSAGES, late), tmp_path / "a-{}.parquet", resume=False, num_workers=num_workers)


@pytest.mark.parametrize(
    ("samples", "error", "words"),
    [
        ([{"x": [[1], ["a"]]}], ValueError, r"sample 0, field 'x\[1\]\[\]': it is str, but was int64 before"),
        (
            [{"x": [{"a": 1}]}, {"x": [{"a": b""}]}],
            ValueError,
            r"sample 1, field 'x\[\].a': it is bytes, but was int64",
        ),
        ([{"x": {"a": 1}}, {"x": 1}], ValueError, "sample 1, field 'x': it is int64, but was a dict of a before"),
        ([{"x": {"a": 1}}, {"x": {"a": "b"}}], ValueError, "sample 1, field 'x.a': it is str, but was int64 before"),
        ([{"x": {"a": 1}}, {"x": {"b": 1}}], ValueError, "sample 1, field 'x': key 'a' is missing"),
        (
            [{"x": [{"a": None, "b": [[]]}]}],
            ValueError,
            r"field 'x\[\].a': its type is unknown, .* the first 1 samples",
        ),
        ([{"x": [[], None]}], ValueError, r"field 'x\[\]\[\]': its type is unknown"),
        ([{"x": deep(33)}], ValueError, "expected at most 32 levels of nesting"),
        ([{"x": {}}], ValueError, "sample 0, field 'x': expected a dict with keys, but got an empty one"),
        ([{"x": {1: 2}}], ValueError, "sample 0, field 'x': expected a string as key, but got 1"),
        ([{"x": [{"a": object()}]}], TypeError, r"sample 0, field 'x\[0\].a': expected a tensor, .*, but got object"),
        ([{"x": {"a": torch.zeros(2, dtype=torch.bfloat16)}}], TypeError, r"field 'x.a': Parquet has no type bfloat16"),
    ],
)
def test_first_samples_without_a_known_nested_type_are_named(
    tmp_path: pathlib.Path, samples: list[Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        write_parquet(samples, tmp_path / "a-{}.parquet")
    assert not list(tmp_path.glob("a-*.parquet"))
