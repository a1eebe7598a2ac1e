"""Columns of lists of texts, lists, or structs: pyarrow makes Python objects of them, in Parquet and in Arrow."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

from checks.equality import assert_same
from checks.formats import check_format
from sluicegate import ArrowDataset, DataLoader, ParquetDataset

MESSAGE = pa.struct({"role": pa.string(), "content": pa.string()})
CHATS = [
    [{"role": "user", "content": "grüß"}, {"role": "assistant", "content": ""}],
    [],
    [{"role": "system", "content": "x" * 300}] * 3,
    [{"role": "user", "content": "\0"}],
]

Open = Callable[..., Any]


def parquet(path: Path, table: pa.Table, rows: int = 3, **options: Any) -> Any:
    pq.write_table(table, path / "x.parquet", row_group_size=rows)
    return ParquetDataset(str(path / "x.parquet"), **options)


def arrow(path: Path, table: pa.Table, rows: int = 3, compression: str | None = None, **options: Any) -> Any:
    target = str(path / "x.arrow")
    with pa.ipc.new_file(target, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as file:
        file.write_table(table, max_chunksize=rows)
    return ArrowDataset(target, **options)


def zstd(path: Path, table: pa.Table, rows: int = 3, **options: Any) -> Any:
    return arrow(path, table, rows, "zstd", **options)


FORMATS = pytest.mark.parametrize("opened", [parquet, arrow, zstd])


@FORMATS
def test_nested_columns_pass_the_checks_of_every_format(tmp_path: Path, opened: Open) -> None:
    columns: dict[str, Any] = {
        "messages": pa.array(CHATS * 3, pa.list_(MESSAGE)),
        "tags": pa.array([["a", ""][: n % 3] for n in range(12)], pa.large_list(pa.string())),
        "boxes": pa.array([[[float(n)] * (n % 2), []] for n in range(12)], pa.list_(pa.list_(pa.float32()))),
        "n": pa.array(range(12)),
    }
    table = pa.table(columns)
    samples = [row | {"n": torch.tensor(row["n"])} for row in table.to_pylist()]
    check_format(opened(tmp_path, table), samples)
    raw = [{"tags": [text.encode() for text in row["tags"]], "n": row["n"]} for row in samples]
    check_format(opened(tmp_path, table, columns=["tags", "n"], strings="bytes"), raw)


def type_of(draw: random.Random, depth: int) -> pa.DataType:
    kinds = ("text", "binary", "int", "list", "large", "fixed", "struct") if depth else ("text", "int", "float", "bool")
    kind = draw.choice(kinds)
    if kind == "text":
        return draw.choice([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
    if kind == "binary":
        return draw.choice([pa.binary(), pa.large_binary(), pa.binary(2)])
    if kind == "int":
        return draw.choice([pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.int32()])
    if kind in ("float", "bool"):
        return draw.choice([pa.float32(), pa.float64(), pa.bool_()])
    inner = type_of(draw, depth - 1)
    if kind == "struct":
        return pa.struct([("a", inner), ("b c", type_of(draw, depth - 1))][: draw.randint(1, 2)])
    return pa.list_(inner, 2) if kind == "fixed" else pa.list_(inner) if kind == "list" else pa.large_list(inner)


def value_of(draw: random.Random, type_: pa.DataType, nulls: float) -> Any:
    if draw.random() < nulls:
        return None
    if pa.types.is_dictionary(type_):
        return draw.choice(["", "one", "två"])
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return draw.choice(["", "a", "é\0", "long " * 20])
    if pa.types.is_fixed_size_binary(type_):
        return b"ab"
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return draw.choice([b"", b"\xff\xfe", b"abc"])
    if pa.types.is_boolean(type_):
        return draw.random() < 0.5
    if pa.types.is_integer(type_):
        bits = type_.bit_width
        return draw.choice(
            [0, 1, 2 ** (bits - 1) - 1] + ([2**bits - 1] if str(type_)[0] == "u" else [-(2 ** (bits - 1))])
        )
    if pa.types.is_floating(type_):
        return draw.choice([0.0, -1.5, 2.0**100, float("inf")])
    if pa.types.is_struct(type_):
        return {field.name: value_of(draw, field.type, nulls) for field in type_}
    length = 2 if pa.types.is_fixed_size_list(type_) else draw.choice([0, 1, 3])
    return [value_of(draw, type_.value_type, nulls) for _ in range(length)]


@FORMATS
@pytest.mark.parametrize("seed", range(40))
def test_nested_columns_equal_pyarrows_objects(tmp_path: Path, opened: Open, seed: int) -> None:
    draw = random.Random(seed)
    # In a list of lists, no column is a plain tensor, and every null is None.
    types = {f"c{n}": pa.list_(pa.list_(type_of(draw, 3))) for n in range(3)}
    rows, nulls = draw.choice([1, 7, 30]), draw.choice([0, 0.2])
    table = pa.table(
        {name: pa.array([value_of(draw, t, nulls) for _ in range(rows + 4)], t) for name, t in types.items()}
    )
    table = table.slice(2, rows)
    dataset = opened(tmp_path, table, draw.choice([1, 4, 100]), nulls="mask")
    expected = table.to_pylist()
    order = draw.sample(range(rows), rows)
    assert dataset[order] == {name: [expected[index][name] for index in order] for name in types}
    assert [dataset[index] for index in range(rows)] == expected
    loader = DataLoader(dataset, batch_size=3, shuffle=True, seed=seed, num_workers=seed % 2)
    batches = [(batch, ids.sample_indices.tolist()) for batch, ids in loader.with_ids()]
    assert sorted(index for _, ids in batches for index in ids) == list(range(rows))
    for batch, ids in batches:
        assert batch == {name: [expected[index][name] for index in ids] for name in types}


@FORMATS
def test_only_values_without_a_tensor_type_become_objects(tmp_path: Path, opened: Open) -> None:
    items = [[{"k": n, "v": [float(n)] * 2, "t": str(n)}] * n for n in range(3)]
    of_item = pa.struct({"k": pa.int64(), "v": pa.list_(pa.float32(), 2), "t": pa.string()})
    table = pa.table(
        {
            "items": pa.array(items, pa.list_(of_item)),
            "s": pa.array([{"x": n, "tags": ["t"] * n} for n in range(3)]),
            "pairs": pa.array([["a", "b"]] * 3, pa.list_(pa.string(), 2)),
        }
    )
    assert opened(tmp_path, table, columns="items")[2] == items[2]
    assert opened(tmp_path, table, columns="items.t")[:] == [[{"t": str(n)}] * n for n in range(3)]
    assert opened(tmp_path, table, columns=["items.t", "items.k"])[1] == {"items": [{"k": 1, "t": "1"}]}
    assert_same(opened(tmp_path, table, columns="s")[2], {"x": torch.tensor(2), "tags": ["t", "t"]})
    assert opened(tmp_path, table, columns=["s.tags", "pairs"])[1] == {"s": {"tags": ["t"]}, "pairs": ["a", "b"]}
    # With numbers only, it is still a tensor with offsets.
    numbers = opened(tmp_path, table, columns=["items.k", "items.v"])[:]["items"]
    assert_same(numbers["k"], {"values": torch.tensor([1, 2, 2]), "offsets": torch.tensor([0, 0, 1, 3])})
    assert numbers["v"]["values"].shape == (3, 2)


NULLED = [
    [{"role": "a", "content": "b", "n": 1}],
    None,
    [{"role": "a", "content": None, "n": 1}],
    [None],
    [{"role": "a", "content": "b", "n": None}],
    [],
]


@FORMATS
def test_nulls_are_errors_that_name_row_and_column_or_are_replaced(tmp_path: Path, opened: Open) -> None:
    of_item = pa.struct({"role": pa.string(), "content": pa.string(), "n": pa.int32()})
    table = pa.table({"m": pa.array(NULLED, pa.list_(of_item)), "t": pa.array([["x", None]] * 6)})
    dataset = opened(tmp_path, table, columns="m")
    assert (dataset[0], dataset[5]) == (NULLED[0], [])
    for row in range(1, 5):
        reason = "it is null" if row == 1 else "it contains a null"
        with pytest.raises(ValueError, match=rf"sample {row}, field `m`: .*{reason}; pass `nulls`"):
            dataset[row]
    with pytest.raises(ValueError, match=r"sample 1, field `m`"):
        list(DataLoader(dataset, batch_size=2, num_workers=1))
    with pytest.raises(ValueError, match=r"field `t`"):
        opened(tmp_path, table, columns="t")[0]
    assert opened(tmp_path, table, nulls="mask")[:] == table.to_pydict()
    filled = opened(tmp_path, table, columns="m", nulls={"m": "", "m.n": -1})[:]
    whole, empty = {"role": "a", "content": "b", "n": 1}, {"role": "", "content": "", "n": -1}
    assert filled == [[whole], [], [whole | {"content": ""}], [empty], [whole | {"n": -1}], []]
    # A rule for one part applies to that part only.
    parts = opened(tmp_path, table, columns="m", nulls={"m.content": "mask"})
    assert parts[2] == NULLED[2]
    for row in (1, 3, 4):
        with pytest.raises(ValueError, match=f"sample {row}"):
            parts[row]
    assert opened(tmp_path, table, columns="t", nulls="?")[0] == ["x", "?"]
    mixed = opened(tmp_path, table, columns="m", nulls=0)
    assert mixed[4] == [whole | {"n": 0}]
    with pytest.raises(ValueError, match="sample 2"):
        mixed[2]
    for nulls in ({"m.n": "x"}, {"m.content": 3}, {"m": b"x"}):
        with pytest.raises(ValueError, match=r"column `m.*: nulls: .* is not a valid value of"):
            opened(tmp_path, table, columns="m", nulls=nulls)


@FORMATS
def test_texts_that_are_none_are_named(tmp_path: Path, opened: Open) -> None:
    texts = pa.ListArray.from_arrays([0, 1, 2], pa.array([b"ok", b"\xff\xfe"]).view(pa.string()))
    table = pa.table({"x": texts, "s": texts.flatten()})
    dataset = opened(tmp_path, table, rows=1)
    assert dataset[0] == {"x": ["ok"], "s": "ok"}
    for column in ("x", "s"):
        message = rf"sample 1, field `{column}`: row 1 of .*x\.(parquet|arrow): it is not UTF-8 text from byte 0 on"
        some = opened(tmp_path, table, rows=1, columns=[column])
        with pytest.raises(ValueError, match=message):
            some[1]
        # In a batch, of a dataset in which the sample has a different index.
        loader = DataLoader(ConcatDataset([Subset(some, [0, 0]), Subset(some, [0, 1])]), 2)
        with pytest.raises(ValueError, match=message.replace("sample 1", "sample 3")):
            list(loader)
    raw = opened(tmp_path, table, strings="bytes")[:]
    assert raw["x"] == [[b"ok"], [b"\xff\xfe"]]
    assert bytes(raw["s"]["values"]) == b"ok\xff\xfe"


NUMBERS = [[1, None, 3], None, [], [None], [7]]


@FORMATS
@pytest.mark.parametrize(
    ("array", "values", "valid"),
    [
        (pa.array(NUMBERS), [[1, 0, 3], [], [], [0], [7]], [[1, 0, 1], [], [], [0], [1]]),
        (
            pa.array([[True, None, False], None, [], [None], [True]], pa.large_list(pa.bool_())),
            [[1, 0, 0], [], [], [0], [1]],
            [[1, 0, 1], [], [], [0], [1]],
        ),
        (
            pa.array(NUMBERS, pa.list_(pa.dictionary(pa.int8(), pa.float32()))),
            [[1, 0, 3], [], [], [0], [7]],
            [[1, 0, 1], [], [], [0], [1]],
        ),
        (
            pa.array([[1, None], None, [None, None], [4, 5], [6, 7]], pa.list_(pa.int16(), 2)),
            [[1, 0], [0, 0], [0, 0], [4, 5], [6, 7]],
            [[1, 0], [0, 0], [0, 0], [1, 1], [1, 1]],
        ),
        (
            pa.array([[[1, None], None], None, [], [[2, 3]], [[None, 4]]], pa.list_(pa.list_(pa.float64(), 2))),
            [[[1, 0], [0, 0]], [], [], [[2, 3]], [[0, 4]]],
            [[[1, 0], [0, 0]], [], [], [[1, 1]], [[0, 1]]],
        ),
        (
            pa.array([[{"n": 1}, None, {"n": None}], None, [], [{"n": 2}], []], pa.list_(pa.struct({"n": pa.int64()}))),
            [[1, 0, 0], [], [], [2], []],
            [[1, 0, 0], [], [], [1], []],
        ),
    ],
)
def test_a_mask_of_elements(tmp_path: Path, opened: Open, array: pa.Array, values: list[Any], valid: list[Any]) -> None:
    path, rows = "x.n" if pa.types.is_struct(array.type.value_type) else "x", len(array)
    table = pa.table({"x": array, "s": pa.array(["a", None, "", "b", "c"]), "i": pa.array([1, None, 3, 4, 5])})
    for size in (2, 5):
        dataset = opened(tmp_path, table, size, columns=path, nulls="mask_elements")
        samples = [dataset[row] for row in range(rows)]
        assert [sample["values"].tolist() for sample in samples] == values
        assert [sample["valid_elements"].tolist() for sample in samples] == valid
        assert all(sample["valid_elements"].dtype is torch.bool for sample in samples)
        assert [bool(sample["valid"]) for sample in samples] == [row is not None for row in array.to_pylist()]
        for batch_size in (1, 3):
            batches = list(DataLoader(dataset, batch_size, sampler=[4, 0, 3, 1, 2]))
            picks = [[4, 0, 3, 1, 2][start : start + batch_size] for start in range(0, rows, batch_size)]
            assert_same(batches, [dataset.collate([samples[row] for row in pick]) for pick in picks])
    # Columns without elements get the same mask with either setting.
    others = [opened(tmp_path, table, columns=["s", "i"], nulls=nulls)[:] for nulls in ("mask", "mask_elements")]
    assert_same(*others)
    with pytest.raises(
        ValueError, match=r"row 0 of .*it contains a null; pass `nulls`.* or with a mask of the elements"
    ):
        opened(tmp_path, table, columns=path, nulls="mask")[0]


@FORMATS
def test_a_mask_of_elements_is_padded_with_false(tmp_path: Path, opened: Open) -> None:
    table = pa.table({"x": pa.array(NUMBERS), "y": pa.array([[1]] * 5)})
    dataset = opened(tmp_path, table, nulls={"x": "mask_elements"}, lists=("padded", -1))
    batch = dataset[0:4]
    assert batch["x"]["values"]["values"].tolist() == [[1, 0, 3], [-1] * 3, [-1] * 3, [0, -1, -1]]
    expected = [[True, False, True], [False] * 3, [False] * 3, [False] * 3]
    assert batch["x"]["valid_elements"]["values"].tolist() == expected
    assert batch["x"]["valid_elements"]["lengths"].tolist() == [3, 0, 0, 1]
    assert list(batch["y"]) == ["values", "lengths"]
    # A schema without nulls gets no mask.
    plain = pa.field("x", pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False)
    whole = pa.table({"x": pa.array([[1], [2, 3]], plain.type)}, schema=pa.schema([plain]))
    assert_same(opened(tmp_path, whole, nulls="mask_elements")[1], {"x": torch.tensor([2, 3])})


def test_a_filter_keeps_lists_whole(tmp_path: Path) -> None:
    table = pa.table({"n": range(100), "tags": [[str(n)] * (n % 4) for n in range(100)]})
    dataset = parquet(tmp_path, table, 7, filter=("n", "in", [3, 50, 99]), columns=["tags"])
    assert [dataset[index] for index in (2, 0, 1)] == [{"tags": ["99"] * 3}, {"tags": ["3"] * 3}, {"tags": ["50"] * 2}]
    with pytest.raises(ValueError, match=r"column `tags` holds list.*, which can't be compared"):
        parquet(tmp_path, table, filter=("tags", "==", "1"))


def test_of_much_more_than_is_cached_only_some_pages_are_decoded(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    chats = [[{"role": "user", "content": f"{n} " * (n % 9)}] * (n % 5) for n in range(4000)]
    table = pa.table({"m": pa.array(chats, pa.list_(MESSAGE))})
    pq.write_table(table, path, row_group_size=1000, write_page_index=True, data_page_size=2000)
    dataset = ParquetDataset(path, "m", cache_bytes=1)
    order = random.Random(0).sample(range(4000), 300)
    for start in range(0, 300, 5):
        indices = order[start : start + 5]
        assert dataset[indices] == [chats[index] for index in indices]


def test_files_differ_where_their_lists_do(tmp_path: Path) -> None:
    types = {
        "a": pa.list_(MESSAGE),
        "b": pa.list_(pa.struct({"content": pa.string(), "role": pa.string()})),
        "c": pa.list_(pa.struct({"content": pa.string(), "role": pa.binary()})),
        "d": pa.list_(pa.struct({"content": pa.string()})),
    }
    for name, type_ in types.items():
        names = [type_.value_type.field(place).name for place in range(type_.value_type.num_fields)]
        rows = [[{part: b"x" if name == "c" and part == "role" else "x" for part in names}]]
        pq.write_table(pa.table({"m": pa.array(rows, type_)}), tmp_path / f"{name}.parquet")
    paths = {name: str(tmp_path / f"{name}.parquet") for name in types}
    assert ParquetDataset([paths["a"], paths["b"]], "m")[:] == [[{"role": "x", "content": "x"}]] * 2
    for other in ("c", "d"):
        with pytest.raises(ValueError, match=r"column `m` is list\[\{content: text"):
            ParquetDataset([paths["a"], paths[other]], "m")


def test_lists_that_are_nested_too_deep_are_refused(tmp_path: Path) -> None:
    type_: pa.DataType = pa.string()
    for _ in range(80):
        type_ = pa.list_(type_)
    pq.write_table(pa.table({"x": pa.array([], type_)}), tmp_path / "x.parquet", store_schema=False)
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        ParquetDataset(str(tmp_path / "x.parquet"))
