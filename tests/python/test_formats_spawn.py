"""Formats whose samples are parsed, in worker processes that inherit nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import torch
import torch.utils.data

import test_arrow
import test_mds
import test_parquet
import test_safetensors
import test_tfrecord
from equality import assert_same
from sluicegate import (
    ArrowDataset,
    CsvDataset,
    JsonLinesDataset,
    MdsDataset,
    ParquetDataset,
    SafetensorsDataset,
    TFRecordDataset,
)


def test_spawned_workers_open_the_files_again(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"n": {n}, "l": [{n}]}}\n' for n in range(6)))
    (tmp_path / "x.csv").write_text("n,t\n" + "".join(f"{n},t{n}\n" for n in range(6)))
    test_tfrecord.put(tmp_path / "x.tfrecord", *(test_tfrecord.example({"n": [n]}) for n in range(6)))
    test_safetensors.written(tmp_path / "x.safetensors", {"x": torch.rand(6, 2).bfloat16()})
    encoded = [{"i": struct.pack("<q", n)} for n in range(6)]
    datasets = [
        JsonLinesDataset(tmp_path / "x.jsonl", {"n": int, "l": (torch.float32, 1)}),
        CsvDataset(tmp_path / "x.csv"),
        TFRecordDataset(tmp_path / "x.tfrecord"),
        SafetensorsDataset(tmp_path / "x.safetensors"),
        ArrowDataset(test_arrow.written(tmp_path / "x.arrow", test_arrow.table(6)), columns=["id", "text"]),
        MdsDataset(test_mds.written(tmp_path / "mds", {"i": "int"}, [encoded], "zstd")),
        ParquetDataset(test_parquet.written(tmp_path / "x.parquet", {"n": range(6), "t": list("abcdef")})),
    ]
    all_of_them = torch.utils.data.StackDataset(*datasets)
    here = list(torch.utils.data.DataLoader(all_of_them, batch_size=4))
    there = list(torch.utils.data.DataLoader(all_of_them, batch_size=4, num_workers=1, multiprocessing_context="spawn"))
    assert_same(there, here)
