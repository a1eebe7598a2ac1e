"""Formats whose samples are parsed, in spawned worker processes."""

from __future__ import annotations

import struct
from pathlib import Path

import torch
import torch.utils.data

from checks.equality import assert_same
from doubles import arrow_files, mds_files, parquet_files, safetensors_files, tfrecord_files
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
    tfrecord_files.put(tmp_path / "x.tfrecord", *(tfrecord_files.example({"n": [n]}) for n in range(6)))
    safetensors_files.written(tmp_path / "x.safetensors", {"x": torch.rand(6, 2).bfloat16()})
    encoded = [{"i": struct.pack("<q", n)} for n in range(6)]
    datasets = [
        JsonLinesDataset(tmp_path / "x.jsonl", {"n": int, "l": (torch.float32, 1)}),
        CsvDataset(tmp_path / "x.csv"),
        TFRecordDataset(tmp_path / "x.tfrecord"),
        SafetensorsDataset(tmp_path / "x.safetensors"),
        ArrowDataset(arrow_files.written(tmp_path / "x.arrow", arrow_files.table(6)), columns=["id", "text"]),
        MdsDataset(mds_files.written(tmp_path / "mds", {"i": "int"}, [encoded], "zstd")),
        ParquetDataset(parquet_files.written(tmp_path / "x.parquet", {"n": range(6), "t": list("abcdef")})),
    ]
    all_of_them = torch.utils.data.StackDataset(*datasets)
    here = list(torch.utils.data.DataLoader(all_of_them, batch_size=4))
    there = list(torch.utils.data.DataLoader(all_of_them, batch_size=4, num_workers=1, multiprocessing_context="spawn"))
    assert_same(there, here)
