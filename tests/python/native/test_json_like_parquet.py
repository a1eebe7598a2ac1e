"""The same rows in JSON lines, tar archives, and Parquet have the same batches of messages, texts, and nested lists."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.utils.data

from checks.equality import assert_same, assert_same_outcome, outcome_of
from checks.formats import Plain
from sluicegate import (
    DataLoader,
    JsonLinesDataset,
    JsonLinesStream,
    ParquetDataset,
    ShuffleBuffer,
    TarDataset,
    TarStream,
    write_tar,
)

CALL = pa.struct({"id": pa.string(), "function": pa.struct({"name": pa.string(), "arguments": pa.string()})})
MESSAGE = pa.struct(
    {"role": pa.string(), "content": pa.string(), "tool_calls": pa.list_(CALL), "weight": pa.float64(), "n": pa.int64()}
)
SCHEMA = {
    "id": pa.int64(),
    "score": pa.float64(),
    "text": pa.string(),
    "good": pa.bool_(),
    "ids": pa.list_(pa.int64()),
    "vectors": pa.list_(pa.list_(pa.float32(), 2)),
    "box": pa.list_(pa.float64(), 4),
    "messages": pa.list_(MESSAGE),
    "tags": pa.list_(pa.string()),
    "deep": pa.list_(pa.list_(pa.int64())),
    "about": pa.struct({"n": pa.int64(), "good": pa.bool_(), "chats": pa.list_(pa.list_(MESSAGE))}),
}
FIELDS: dict[str, Any] = {
    **dict.fromkeys(SCHEMA, "json"),
    "id": int,
    "score": float,
    "text": str,
    "good": bool,
    "ids": [int],
    "vectors": [(torch.float32, 2)],
    "box": (float, 4),
}
RANDOM = {"random 0": "json", "random 1": "json"}
# Without types, torch collates lists of numbers.
UNTYPED = [name for name in SCHEMA if name not in ("ids", "vectors", "box")]
# With `nulls="mask"`, batches of these are the same lists; batches of others become `values` and `valid`.
NESTED = ["messages", "tags", "deep"]
# Every seed is a random table; a few hundred take a minute.
SEEDS = range(int(os.environ.get("SLUICEGATE_JSON_SEEDS", "20")))


def type_of(draw: random.Random, depth: int) -> pa.DataType:
    """Return a type that no tensor holds: a text, or a list or struct with a text, possibly with numbers in it."""
    kind = draw.choice(["text", "list", "struct"] if depth else ["text", "int", "float", "bool"])
    if kind == "list":
        return pa.list_(type_of(draw, draw.randrange(depth)))
    if kind == "struct":
        others = [(name, type_of(draw, draw.randrange(depth))) for name in ("", "ü.b")[: draw.randint(0, 2)]]
        return pa.struct([("a", pa.string()), *others])
    return {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}[kind]


def value_of(draw: random.Random, of: pa.DataType, nulls: float) -> Any:
    """Return a value with nulls at any depth."""

    def part(of: pa.DataType) -> Any:
        return None if draw.random() < nulls else value_of(draw, of, nulls)

    if pa.types.is_struct(of):
        return {field.name: part(field.type) for field in of}
    if pa.types.is_fixed_size_list(of):
        return [part(of.value_type) for _ in range(of.list_size)]
    if pa.types.is_list(of):
        return [part(of.value_type) for _ in range(draw.choice([0, 0, 1, 2, 3]))]
    if pa.types.is_string(of):
        return draw.choice(["", "ü\n\0", "x" * 50, '"\\', "\U0001f980", f"{draw.random()}"])
    if pa.types.is_boolean(of):
        return draw.random() < 0.5
    if pa.types.is_integer(of):
        return draw.choice([0, -1, 2**63 - 1, -(2**63), draw.randrange(2**40)])
    few = [0.5, -0.0, float(draw.randrange(9))]
    return draw.choice([*few, 0.1, 1e300, 5e-324, draw.random()] if pa.types.is_float64(of) else few)


def written(draw: random.Random, folder: Path, names: list[str], nulls: float) -> tuple[str, str, str]:
    """Write rows of these columns and two more, as lines, as a `json` member each in a tar archive, and as a table."""
    types = {name: SCHEMA[name] for name in names}
    types |= {f"random {n}": pa.list_(type_of(draw, draw.randint(1, 3))) for n in range(2)}
    rows = [{name: value_of(draw, of, nulls) for name, of in types.items()} for _ in range(draw.choice([1, 5, 12]))]
    lines, table = str(folder / "x.jsonl"), str(folder / "x.parquet")
    with open(lines, "w") as file:
        file.writelines(json.dumps(row, ensure_ascii=draw.random() < 0.5) + "\n" for row in rows)
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(types)), table, row_group_size=4)
    (archive,) = write_tar([{"json": row} for row in rows], str(folder / "x-{:03d}.tar"), shard_bytes=1 << 20)
    return lines, archive, table


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_are_the_same(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    names, nulls = draw.choice([(list(SCHEMA), 0), (UNTYPED, 0), (NESTED, 0.2)])
    lines, archive, table = written(draw, tmp_path, names, nulls)
    parquet = ParquetDataset(table, nulls="mask" if nulls else "error")
    fields = {name: FIELDS[name] for name in names} | RANDOM
    datasets: list[Any] = [JsonLinesDataset(lines, fields)]
    streams: list[Any] = [JsonLinesStream(lines, fields)]
    if "ids" not in names:
        datasets += [JsonLinesDataset(lines), TarDataset(archive, {"json": "json"})]
        streams += [JsonLinesStream(lines), TarStream(archive, {"json": "json"})]
    workers: dict[str, Any] = draw.choice([{}, {"num_workers": 2, "worker_type": "thread"}, {"num_workers": 2}])
    in_workers = {"num_workers": draw.choice([0, 0, 0, 1])}
    in_order = list(DataLoader(parquet, batch_size=3))
    shuffled = list(DataLoader(parquet, batch_size=3, shuffle=True, seed=seed))

    def check(batches: Any, expected: list[Any]) -> None:
        # Samples of archives also have a key and a name.
        assert_same([batch.get("json", batch) for batch in batches], expected)

    for dataset in datasets:
        check(DataLoader(dataset, batch_size=3, **workers), in_order)
        check(DataLoader(dataset, batch_size=3, shuffle=True, seed=seed, **workers), shuffled)
        in_python = DataLoader(Plain(dataset), batch_size=3, collate_fn=dataset.collate, shuffle=True, seed=seed)
        check(in_python, shuffled)
        check(
            torch.utils.data.DataLoader(dataset, batch_size=3, collate_fn=dataset.collate, **in_workers),
            in_order,
        )
        check([dataset[: min(3, len(dataset))]], in_order[:1])
    for stream in streams:
        check(DataLoader(stream, batch_size=3), in_order)
        check(torch.utils.data.DataLoader(stream, batch_size=3, collate_fn=stream.collate, **in_workers), in_order)
        # A buffer of one sample keeps the order.
        check(DataLoader(ShuffleBuffer(stream, 1, seed=1), batch_size=3), in_order)


@pytest.mark.parametrize(("names", "fields"), [(UNTYPED, None), (list(SCHEMA), FIELDS | RANDOM)])
def test_a_stream_has_the_same_batches_in_a_worker(tmp_path: Path, names: list[str], fields: Any) -> None:
    lines, _, table = written(random.Random(3), tmp_path, names, 0)
    expected = list(DataLoader(ParquetDataset(table), batch_size=2))
    stream = JsonLinesStream(lines, fields)
    assert_same(list(DataLoader(stream, batch_size=2, num_workers=1)), expected)
    theirs = torch.utils.data.DataLoader(
        stream, batch_size=2, num_workers=1, collate_fn=stream.collate, multiprocessing_context="forkserver"
    )
    assert_same(list(theirs), expected)


@pytest.mark.parametrize("fields", [None, {"m": "json", "n": [int]}])
def test_a_stream_can_collate_before_it_is_read(tmp_path: Path, fields: Any) -> None:
    path = lines_of(tmp_path, {"m": ["a"], "n": [1]}, {"m": ["b"], "n": [2]})
    samples = list(JsonLinesStream(path, fields))
    (expected,) = DataLoader(JsonLinesStream(path, fields), batch_size=2)
    assert_same(JsonLinesStream(path, fields).collate(samples), expected)


def lines_of(folder: Path, *rows: Any) -> str:
    path = folder / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def loaders(path: str, fields: dict[str, Any] | None = None) -> list[Any]:
    """Return loaders of all lines in one batch: by the core, by Python, of a subset, and of a stream."""
    dataset = JsonLinesDataset(path, fields)
    return [
        DataLoader(dataset, batch_size=9),
        DataLoader(dataset, batch_size=9, collate_fn=dataset.collate),
        DataLoader(torch.utils.data.Subset(dataset, range(len(dataset))), batch_size=9),
        DataLoader(JsonLinesStream(path, fields), batch_size=9),
    ]


def test_parts_of_a_dataset_have_the_same_batches_where_python_reads_them(tmp_path: Path) -> None:
    chats = [[{"role": "user"}], [{"role": "system"}]]
    rows = JsonLinesDataset(lines_of(tmp_path, *({"m": chat} for chat in chats)))
    stacked: Any = torch.utils.data.StackDataset(rows, [1, 2])
    assert_same(list(DataLoader(stacked, batch_size=2)), [[{"m": chats}, torch.tensor([1, 2])]])


def test_lists_of_numbers_collate_as_in_torch(tmp_path: Path) -> None:
    for loader in loaders(lines_of(tmp_path, {"a": [1, 2]}, {"a": [3, 4]})):
        assert_same(list(loader), [{"a": [torch.tensor([1, 3]), torch.tensor([2, 4])]}])
    path = lines_of(tmp_path, {"a": [1, 2]}, {"a": []})
    for loader in loaders(path):
        with pytest.raises(
            RuntimeError, match=r"`a`: expected lists of numbers of equal length, .*\[int\].*equal size"
        ):
            list(loader)
    for loader in loaders(path, {"a": [int]}):
        assert_same(list(loader), [{"a": {"values": torch.tensor([1, 2]), "offsets": torch.tensor([0, 2, 2])}}])


@pytest.mark.parametrize("values", [[1, 0.1], [True, 0.1], [[1, 2.5], [0.5, 1]]])
def test_rounding_to_float32_is_warned_of(tmp_path: Path, values: list[Any]) -> None:
    path = lines_of(tmp_path, *({"a": value} for value in values))
    theirs = outcome_of(lambda: torch.utils.data.DataLoader(JsonLinesDataset(path), batch_size=9))
    for loader in loaders(path):
        outcome = outcome_of(lambda loader=loader: loader)
        (warned,) = outcome.warnings
        assert warned[0] is UserWarning
        assert "`a`: torch's default collate converts integers and floats to float32" in warned[1]
        outcome.warnings = []
        assert_same_outcome(outcome, theirs)
    reverse = lines_of(tmp_path, *({"a": value} for value in values[::-1]))
    for loader in loaders(reverse if not isinstance(values[0], list) else lines_of(tmp_path, {"a": [0.5, 1]})):
        list(loader)  # Warnings are errors here.
    if not isinstance(values[0], list) and values[0] is not True:
        pq.write_table(pa.table({"a": pa.array([float(value) for value in values])}), tmp_path / "x")
        for loader in loaders(lines_of(tmp_path, *({"a": value} for value in values)), {"a": float}):
            assert_same(list(loader), list(DataLoader(ParquetDataset(str(tmp_path / "x")), batch_size=9)))


@pytest.mark.parametrize("order", [1, -1])
def test_keys_that_a_sample_lacks_are_errors_whichever_comes_first(tmp_path: Path, order: int) -> None:
    rows = [{"id": 1, "messages": [{"role": "user"}]}, {"id": 2}][::order]
    # Parquet has a null there, which is also an error.
    pq.write_table(pa.table({"m": pa.array([rows[0].get("messages"), rows[1].get("messages")])}), tmp_path / "x")
    with pytest.raises(ValueError, match="null"):
        list(DataLoader(ParquetDataset(str(tmp_path / "x")), batch_size=2))
    present = 0 if order == 1 else 1
    text = f"got 'messages' in sample {present} of the batch but not in sample {1 - present}"
    for loader in loaders(lines_of(tmp_path, *rows)):
        with pytest.raises(KeyError, match=text):
            list(loader)
    for loader in loaders(lines_of(tmp_path, *({"about": row} for row in rows))):
        with pytest.raises(KeyError, match=f"`about`: .*{text}"):
            list(loader)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("value", [[{"role": "user"}], ["x"], [], 1, [1], {"b": 1}])
def test_none_next_to_values_that_are_not_text_is_an_error_or_the_default(
    tmp_path: Path, value: Any, order: int
) -> None:
    path = lines_of(tmp_path, *[{"m": value}, {"m": None}][::order])
    for loader in loaders(path):
        with pytest.raises(
            (TypeError, RuntimeError),
            match=rf"`m`: .*got None in sample {1 if order == 1 else 0} of the batch; write a value",
        ):
            list(loader)
    dataset = JsonLinesDataset(path, {"m": "json"}, defaults={"m": value})
    assert_same(
        list(DataLoader(dataset, batch_size=2)),
        list(DataLoader(JsonLinesDataset(lines_of(tmp_path, *[{"m": value}] * 2)), 2)),
    )


@pytest.mark.parametrize("texts", [["x", None], [None, "x"], [None, "", None]])
def test_texts_may_be_none_in_any_sample(tmp_path: Path, texts: list[Any]) -> None:
    pq.write_table(pa.table({"t": pa.array(texts)}), tmp_path / "x")
    expected = list(DataLoader(ParquetDataset(str(tmp_path / "x"), nulls="mask"), batch_size=9))
    for loader in loaders(lines_of(tmp_path, *({"t": text} for text in texts))):
        assert_same(list(loader), expected)


@pytest.mark.parametrize("lists", [[[], []], [[None], []], [[None, None], [None]], [[[], []], [[]]], [["a", None]]])
def test_lists_of_unknown_type_stay_lists(tmp_path: Path, lists: list[Any]) -> None:
    of = pa.list_(pa.list_(pa.int64())) if any([] in each for each in lists) else pa.list_(pa.string())
    pq.write_table(pa.table({"t": pa.array(lists, of)}), tmp_path / "x")
    expected = list(DataLoader(ParquetDataset(str(tmp_path / "x"), nulls="mask"), batch_size=9))
    for loader in loaders(lines_of(tmp_path, *({"t": each} for each in lists))):
        assert_same(list(loader), expected)


def test_messages_have_the_keys_that_the_line_gives_them(tmp_path: Path) -> None:
    chats: list[Any] = [[{"role": "user", "name": "a"}], [{"role": "tool", "id": "7"}, {"role": "user"}], []]
    for loader in loaders(lines_of(tmp_path, *({"m": chat} for chat in chats))):
        assert list(loader) == [{"m": chats}]
    # Parquet has one type for all chats, and nulls for absent keys.
    pq.write_table(pa.table({"m": pa.array(chats)}), tmp_path / "x")
    expected = list(DataLoader(ParquetDataset(str(tmp_path / "x"), nulls="mask"), batch_size=9))
    filled = [[{key: message.get(key) for key in ("role", "name", "id")} for message in chat] for chat in chats]
    for loader in loaders(lines_of(tmp_path, *({"m": chat} for chat in filled))):
        assert_same(list(loader), expected)
