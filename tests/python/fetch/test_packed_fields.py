"""Labels and other fields that the core packs: equal, to the bit, to those packed by Python and by plain NumPy."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, StackDataset, Subset

from checks.equality import assert_same
from sluicegate import (
    ArrowDataset,
    DataLoader,
    JsonLinesDataset,
    PackCollate,
    PackedBatchSampler,
    ParquetDataset,
    TokenDocumentsDataset,
    write_tokens,
)
from sluicegate.fetch.batch_source import batch_source
from sluicegate.fetch.packed_fields import PackedFields
from sluicegate.fetch.packed_source import PackedSource

CASES = int(os.environ.get("SLUICEGATE_PACK_CASES", "60"))

Columns = dict[str, list[Any]]

# The data types of columns; tokens and labels become int64.
TOKENS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
OTHERS = ("float32", "float64", "uint8", "int16", "int64")


class CalledCollate(PackCollate):
    """A subclass, which the core does not replace."""


def packs_natively(pieces: Dataset[Any], collate: PackCollate) -> bool:
    source = batch_source(pieces, collate, in_worker=False)
    return isinstance(source, PackedSource) and isinstance(source.documents, PackedFields)


def random_columns(draw: random.Random, rng: np.random.Generator, lengths: list[int]) -> dict[str, list[np.ndarray]]:
    """Return columns of arrays, one array per document."""
    names = ["input_ids", *draw.sample(["labels", "weight", "kind"], draw.randrange(1, 4))]
    columns = {}
    for name in names:
        dtype = np.dtype(draw.choice(TOKENS if name == "input_ids" else (TOKENS[4:] if name == "labels" else OTHERS)))
        low, high = (0, 100) if dtype.kind != "i" else (-100, 100)
        columns[name] = [rng.integers(low, high, length).astype(dtype) for length in lengths]
        if dtype.kind == "f":
            columns[name] = [values / 7 for values in columns[name]]
    return columns


def parquet(columns: Columns, folder: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(table_of(pa, columns), folder / "documents.parquet", row_group_size=3)
    return ParquetDataset(str(folder / "documents.parquet"))


def arrow(columns: Columns, folder: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    with pa.OSFile(str(folder / "documents.arrow"), "wb") as file:
        table = table_of(pa, columns)
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return ArrowDataset(str(folder / "documents.arrow"))


def table_of(pa: Any, columns: Columns) -> Any:
    arrays = {
        name: pa.array(values, type=pa.list_(pa.from_numpy_dtype(values[0].dtype))) for name, values in columns.items()
    }
    return pa.table({**arrays, "text": [f"document {number}" for number in range(len(columns["input_ids"]))]})


def json_lines(columns: Columns, folder: Path) -> Any:
    rows = [dict(zip(columns, map(np.ndarray.tolist, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {name: [values[0].dtype.name] for name, values in columns.items()}
    return JsonLinesDataset(str(folder / "documents.jsonl"), fields)


def token_files(columns: Columns, folder: Path) -> Any:
    parts = {}
    for name in columns:
        write_tokens(columns[name], f"{folder}/{name}-{{}}.bin", layout="megatron", dtype="int32")
        parts[name] = TokenDocumentsDataset(f"{folder}/{name}-*.bin")
    return StackDataset(**parts)


def defined(
    columns: Columns, pieces: list[Any], length: int, pad: dict[str, Any], shift: bool
) -> dict[str, np.ndarray]:
    """Return the batch as defined, token by token; `pieces` are (document, start, True if it begins a row)."""
    names = list(dict.fromkeys(["input_ids", *columns]))
    rows: dict[str, list[list[Any]]] = {name: [] for name in (*names, "position_ids", "document_ids")}
    rows.setdefault("labels", [])
    ends, row_document = [0], 0

    def add(values: dict[str, Any]) -> None:
        for name, row in rows.items():
            row[-1].append(values[name])

    def fill() -> None:
        used = len(rows["input_ids"][-1])
        for position in range(length - used):
            add({**pad, "labels": -100, "position_ids": position, "document_ids": -1})
        if used < length:
            ends.append(ends[-1] + length - used)

    for document, start, begins in pieces:
        if begins:
            if rows["input_ids"]:
                fill()
            for row in rows.values():
                row.append([])
            row_document = 0
        stop = min(start + length - len(rows["input_ids"][-1]), len(columns["input_ids"][document]))
        labels = columns.get("labels", columns["input_ids"])[document][start:stop].tolist()
        labels = [*labels[1:], -100] if shift else [-100, *labels[1:]]
        for token in range(start, stop):
            values = {name: columns[name][document][token] for name in columns}
            place = {"position_ids": token - start, "document_ids": row_document, "labels": labels[token - start]}
            add({**values, **place})
        ends.append(ends[-1] + stop - start)
        row_document += 1
    fill()
    as_given = {name: columns[name][0].dtype for name in columns if name not in ("input_ids", "labels")}
    batch = {name: np.array(row, dtype=as_given.get(name, np.int64)) for name, row in rows.items()}
    return {**batch, "cu_seqlens": np.array(ends, dtype=np.int32)}


@pytest.mark.parametrize("case", range(CASES))
def test_the_core_packs_fields_as_python_and_numpy_do(case: int, tmp_path: Path) -> None:
    draw, rng = random.Random(case), np.random.default_rng(case)
    lengths = [draw.randrange(draw.choice([3, 12, 60])) for _ in range(draw.randrange(1, 30))]
    columns = random_columns(draw, rng, lengths)
    make = draw.choice([parquet, arrow, json_lines, token_files])
    if make is token_files:
        # Token files have neither empty documents nor floats.
        lengths = [max(length, 1) for length in lengths]
        columns = {name: [rng.integers(-100, 100, length).astype(np.int32) for length in lengths] for name in columns}
    documents: Any = make(columns, tmp_path)
    chosen = list(range(len(lengths)))
    if draw.random() < 0.3:
        draw.shuffle(chosen)
        documents, lengths = Subset(documents, chosen), [lengths[number] for number in chosen]
        columns = {name: [values[number] for number in chosen] for name, values in columns.items()}
    fields = [name for name in columns if name not in ("input_ids", "labels")]
    if make is token_files:
        columns = {n: [v.astype(np.int64) if n in fields else v for v in values] for n, values in columns.items()}
    is_float = {name: columns[name][0].dtype.kind == "f" for name in fields}
    pad_values = {name: draw.choice([-1.5, float("nan"), 3] if is_float[name] else [0, 7]) for name in fields}
    length, shift, pad = draw.randrange(1, 40), draw.random() < 0.5, draw.choice([0, -1])
    sampler = PackedBatchSampler(
        lengths,
        length=length,
        rows_per_batch=draw.randrange(1, 4),
        strategy=draw.choice(["concat", "first_fit", "best_fit"]),
        seed=case,
    )
    pieces = sampler.pieces(documents, fields)
    arguments: Any = {"pad_token": pad, "shift_labels": shift, "pad_values": pad_values}
    collate = PackCollate(length, **arguments)
    assert packs_natively(pieces, collate)
    workers: Any = {"num_workers": draw.choice([0, 2]), "worker_type": "thread"}
    found = list(DataLoader(pieces, batch_sampler=sampler, collate_fn=collate, **workers))
    called = CalledCollate(length, **arguments)
    assert not packs_natively(pieces, called)
    assert_same(found, list(DataLoader(pieces, batch_sampler=sampler, collate_fn=called)))
    paddings = {**pad_values, "input_ids": pad}
    for batch, indices in zip(found, sampler, strict=True):
        parts = [(i % len(lengths), i // len(lengths) // 2, i // len(lengths) % 2 == 1) for i in indices]
        expected = defined(columns, parts, length, paddings, shift)
        assert batch.keys() == expected.keys()
        for name, values in expected.items():
            assert batch[name].dtype == torch.from_numpy(values).dtype, name
            np.testing.assert_array_equal(batch[name].numpy(), values, err_msg=name)


def test_rows_of_several_values_and_documents_of_one_length() -> None:
    parts = {
        "input_ids": torch.arange(12).reshape(4, 3),
        "logits": torch.randn(4, 3, 2).to(torch.bfloat16),
        "mask": torch.rand(4, 3) < 0.5,
    }
    documents = StackDataset(**parts)
    sampler = PackedBatchSampler([3] * 4, length=5, rows_per_batch=2, strategy="concat", shuffle=False)
    pieces = sampler.pieces(documents, ["logits", "mask"])
    collate = PackCollate(5, pad_values={"logits": 0.1, "mask": True})
    assert packs_natively(pieces, collate)
    found = list(DataLoader(pieces, batch_sampler=sampler, collate_fn=collate))
    called = CalledCollate(5, pad_values={"logits": 0.1, "mask": True})
    assert_same(found, list(DataLoader(pieces, batch_sampler=sampler, collate_fn=called)))
    assert found[0]["logits"].shape == (2, 5, 2)
    # Changes that a user makes between epochs take effect.
    collate.pad_values["logits"] = 2.0
    (_, last) = DataLoader(pieces, batch_sampler=sampler, collate_fn=collate)
    assert last["logits"][-1, -1].tolist() == [2.0, 2.0]


def test_a_length_that_differs_from_lengths_is_an_error_that_names_the_document(tmp_path: Path) -> None:
    columns = {"input_ids": [np.arange(3), np.arange(4)], "labels": [np.arange(3), np.arange(3)]}
    documents = json_lines(columns, tmp_path)
    for lengths, message in (
        ([3, 4], "document 1: `labels` has 3 values, but the document has 4 tokens"),
        ([3, 5], "document 1 has 4 tokens, but its given length is 5"),
    ):
        sampler = PackedBatchSampler(lengths, length=8, strategy="concat", shuffle=False)
        pieces, collate = sampler.pieces(documents), sampler.collate
        assert packs_natively(pieces, collate)
        with pytest.raises(ValueError, match=message):
            list(DataLoader(pieces, batch_sampler=sampler, collate_fn=collate))
        with pytest.raises(ValueError, match="document 1"):
            list(DataLoader(pieces, batch_sampler=sampler, collate_fn=CalledCollate(8)))


def test_python_packs_fields_that_the_core_would_pack_differently(tmp_path: Path) -> None:
    columns = {"input_ids": [np.arange(3)], "weight": [np.arange(3)], "labels": [np.arange(3) / 2]}
    documents = json_lines(columns, tmp_path)
    sampler = PackedBatchSampler([3], length=4, shuffle=False)
    # Labels that are not integers, padding that turns integers into floats, and a missing field.
    assert not packs_natively(sampler.pieces(documents), PackCollate(4))
    whole = json_lines({name: columns[name] for name in ("input_ids", "weight")}, tmp_path)
    assert packs_natively(sampler.pieces(whole, ["weight"]), PackCollate(4))
    assert not packs_natively(sampler.pieces(whole, ["weight"]), PackCollate(4, pad_values={"weight": 0.5}))
    assert not packs_natively(sampler.pieces(whole, ["reward"]), PackCollate(4))
    assert not packs_natively(sampler.pieces(documents), CalledCollate(4))
