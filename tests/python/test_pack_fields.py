"""Packed rows of documents with labels and other fields."""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import StackDataset

from checks.equality import assert_same
from sluicegate import (
    DataLoader,
    JsonLinesDataset,
    PackCollate,
    PackedBatchSampler,
    ParquetDataset,
    TokenDocumentsDataset,
    write_tokens,
)

CASES = int(os.environ.get("SLUICEGATE_PACK_CASES", "60"))


def documents_of(lengths: list[int]) -> list[dict[str, Any]]:
    """Return documents whose values identify the document and the token; the first half of each is a prompt."""
    return [
        {
            "input_ids": [1000 * number + token + 1 for token in range(length)],
            "labels": [-100 if token < length // 2 else 1000 * number + token + 1 for token in range(length)],
            "weight": [number + token / 64 for token in range(length)],
            "text": f"document {number}",
        }
        for number, length in enumerate(lengths)
    ]


def test_labels_of_a_prompt_are_not_trained_on() -> None:
    """The convention of Hugging Face's and TRL's collate functions: label k is for token k, and the model shifts."""
    documents = [{"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 4]}, {"input_ids": [5, 6], "labels": [5, -100]}]
    sampler = PackedBatchSampler([4, 2], length=8, shuffle=False)
    pieces = sampler.pieces(documents)
    (batch,) = DataLoader(pieces, batch_sampler=sampler, collate_fn=sampler.collate)
    assert batch["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 0, 0]]
    assert batch["labels"].tolist() == [[-100, -100, 3, 4, -100, -100, -100, -100]]
    (batch,) = DataLoader(pieces, batch_sampler=sampler, collate_fn=PackCollate(8, pad_token=9, shift_labels=True))
    assert batch["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 9, 9]]
    assert batch["labels"].tolist() == [[-100, 3, 4, -100, -100, -100, -100, -100]]


def test_labels_are_those_of_transformers_collate_function() -> None:
    """`DataCollatorWithFlattening` of transformers concatenates the pieces of a row."""
    transformers = pytest.importorskip("transformers")
    documents = [{name: document[name] for name in ("input_ids", "labels")} for document in documents_of([5, 3, 8])]
    sampler = PackedBatchSampler([5, 3, 8], length=16, strategy="concat", shuffle=False)
    (batch,) = DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate)
    expected = transformers.DataCollatorWithFlattening()(documents)
    for name in ("input_ids", "labels", "position_ids"):
        assert batch[name].tolist() == expected[name].tolist()


@pytest.mark.parametrize("case", range(CASES))
def test_every_value_stands_next_to_its_token(case: int) -> None:
    draw = random.Random(case)
    lengths = [draw.randrange(12) for _ in range(draw.randrange(1, 30))]
    documents: Any = documents_of(lengths)
    length, shift, pad = draw.randrange(1, 20), draw.random() < 0.5, draw.choice([0, -1.5])
    kind = draw.choice(["list", "tensor", "array"])
    if kind != "list":
        make = torch.tensor if kind == "tensor" else np.array
        fields = ("input_ids", "labels", "weight")
        dtypes = {"weight": torch.float32 if kind == "tensor" else np.float32}
        whole = torch.int64 if kind == "tensor" else np.int64
        documents = [{n: make(each[n], dtype=dtypes.get(n, whole)) for n in fields} for each in documents]
    sampler = PackedBatchSampler(
        lengths,
        length=length,
        rows_per_batch=draw.randrange(1, 4),
        strategy=draw.choice(["concat", "first_fit", "best_fit"]),
        seed=case,
    )
    collate = PackCollate(length, shift_labels=shift, pad_values={"weight": pad})
    loader = DataLoader(
        sampler.pieces(documents, fields=["weight"]),
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=draw.choice([0, 0, 2]),
        worker_type="thread",
    )
    seen = []
    for batch in loader:
        assert batch["weight"].dtype == torch.float32
        assert batch["labels"].dtype == torch.int64
        assert batch["weight"].shape == batch["labels"].shape == batch["input_ids"].shape
        tokens, labels, weights = (batch[name].view(-1).tolist() for name in ("input_ids", "labels", "weight"))
        inside = batch["document_ids"].view(-1).tolist()
        for start, stop in itertools.pairwise(batch["cu_seqlens"].tolist()):
            expected = [-100] * (stop - start)
            for place in range(start, stop):
                if inside[place] < 0:
                    assert weights[place] == pad
                    continue
                number, token = divmod(tokens[place] - 1, 1000)
                seen.append((number, token))
                assert weights[place] == number + token / 64
                of = place - start - shift
                if of >= 0 and (shift or of > 0):
                    expected[of] = -100 if token < lengths[number] // 2 else tokens[place]
            assert labels[start:stop] == expected
    assert sorted(seen) == [(number, token) for number, length in enumerate(lengths) for token in range(length)]


def test_several_values_for_each_token() -> None:
    documents = [{"input_ids": torch.tensor([1, 2]), "logits": torch.ones(2, 3, dtype=torch.float16)}]
    sampler = PackedBatchSampler([2], length=4, shuffle=False)
    collate = PackCollate(4, pad_values={"logits": -1.0})
    loader = DataLoader(sampler.pieces(documents, ["logits"]), batch_sampler=sampler, collate_fn=collate)
    (batch,) = loader
    assert batch["logits"].dtype == torch.float16
    assert batch["logits"].tolist() == [[[1.0] * 3, [1.0] * 3, [-1.0] * 3, [-1.0] * 3]]
    assert batch["labels"].tolist() == [[-100, 2, -100, -100]]


def test_documents_of_files_and_of_stacked_files(tmp_path: Path) -> None:
    lengths = [7, 3, 5, 9]
    documents = documents_of(lengths)
    sampler = PackedBatchSampler(lengths, length=8, rows_per_batch=2, seed=3)

    def batches(source: Any) -> list[Any]:
        loader = DataLoader(sampler.pieces(source, ["weight"]), batch_sampler=sampler, collate_fn=sampler.collate)
        return list(loader)

    expected = batches([{**each, "weight": torch.tensor(each["weight"], dtype=torch.float64)} for each in documents])
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(documents), tmp_path / "documents.parquet", row_group_size=2)
    assert_same(batches(ParquetDataset(str(tmp_path / "documents.parquet"))), expected)
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(documents).with_format("numpy")
    wide = [{**row, "weight": torch.tensor(row["weight"]).double()} for row in table]
    assert_same(batches(wide), expected)
    lines = pa.Table.from_pylist(documents).to_pylist()
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = batches(JsonLinesDataset(str(tmp_path / "documents.jsonl")))
    assert_same([{**each, "weight": each["weight"].double()} for each in found], expected)
    for name in ("input_ids", "labels"):
        write_tokens(
            [each[name] for each in documents], f"{tmp_path}/{name}-{{}}.bin", layout="megatron", dtype="int32"
        )
    files = {name: TokenDocumentsDataset(f"{tmp_path}/{name}-*.bin") for name in ("input_ids", "labels")}
    pieces = sampler.pieces(StackDataset(**files))
    found = list(DataLoader(pieces, batch_sampler=sampler, collate_fn=sampler.collate))
    assert_same(found, [{name: each[name] for name in each if name != "weight"} for each in expected])


def packed(documents: list[Any], lengths: list[int], fields: Any = (), **arguments: Any) -> Any:
    sampler = PackedBatchSampler(lengths, length=8, shuffle=False, strategy="concat")
    loader = DataLoader(
        sampler.pieces(documents, fields), batch_sampler=sampler, collate_fn=PackCollate(8, **arguments)
    )
    return next(iter(loader))


@pytest.mark.parametrize(
    ("documents", "fields", "message"),
    [
        ([{"input_ids": [1, 2], "labels": [1]}], (), r"document 0: 'labels' has the shape \(1,\), but .* 2 tokens"),
        ([{"input_ids": [1, 2], "labels": [[1], [2]]}], (), r"document 0: 'labels' has the shape \(2, 1\)"),
        ([{"input_ids": [1, 2], "labels": [1.0, 2.0]}], (), "document 0: labels should be integers"),
        ([{"input_ids": [1, 2], "w": [1.0] * 3}], ["w"], r"document 0: 'w' has the shape \(3,\), but .* 2 tokens"),
        ([{"input_ids": [1, 2]}], ["w"], "document 0: expected the field 'w' of fields=, but it is missing"),
        ([[1, 2]], ["w"], "document 0: expected the field 'w' of fields=, but it is missing"),
        ([{"tokens": [1, 2]}], (), r"document 0: expected the field 'input_ids', but got the fields \['tokens'\]"),
        (
            [{"input_ids": [1, 2], "labels": [1, 2]}, {"input_ids": [1, 2]}],
            (),
            "document 0 has the field 'labels', but document 1 does not",
        ),
        (
            [{"input_ids": [1, 2], "w": [1, 2]}, {"input_ids": [1, 2], "w": [0.5, 1.0]}],
            ["w"],
            r"field 'w': documents of one batch differ: torch.int64 .* torch.float32 .*pass pad_values=\{'w': 0.0\}",
        ),
    ],
)
def test_fields_that_do_not_fit_are_errors_that_name_document_and_field(
    documents: list[Any], fields: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        packed(documents, [2] * len(documents), fields)


def test_integers_become_floats_where_the_padding_is_one() -> None:
    documents = [{"input_ids": [1, 2], "w": [1, 2]}, {"input_ids": [1, 2], "w": [0.5, 1.0]}]
    batch = packed(documents, [2, 2], ["w"], pad_values={"w": 0.0})
    assert batch["w"].tolist() == [[1.0, 2.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0]]


def test_names_that_a_batch_uses_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fields: 'position_ids' is reserved"):
        packed([[1]], [1], ["position_ids"])
    with pytest.raises(ValueError, match=r"pass \['weight'\]"):
        packed([[1]], [1], "weight")
    for name in ("labels", "cu_seqlens", "input_ids"):
        with pytest.raises(ValueError, match=f"pad_values: the padding of '{name}'"):
            PackCollate(4, pad_values={name: 0})
    np.arange(4, dtype=np.uint16).tofile(tmp_path / "a.bin")
    documents = TokenDocumentsDataset(str(tmp_path / "a.bin"))
    with pytest.raises(ValueError, match="TokenDocumentsDataset has tokens only"):
        PackedBatchSampler(documents.lengths, length=4).pieces(documents, ["weight"])
