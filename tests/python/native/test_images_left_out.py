"""`on_error="skip"` of datasets with image fields: samples with an image that can't be decoded are skipped."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from sluicegate import ArrowDataset, BlockShuffleSampler, DataLoader, ImageField, ParquetDataset, TarDataset
from sluicegate import transforms as T

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SAMPLES, BROKEN = 12, {0, 5, 6}
FIELD = ImageField(T.CenterCrop(24))


def files() -> list[bytes]:
    whole = [encoded(photograph(number)) for number in range(SAMPLES)]
    return [file[:-300] if number in BROKEN else file for number, file in enumerate(whole)]


def tar(folder: Path) -> Any:
    for shard in range(2):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for number, file in list(enumerate(files()))[shard::2]:
                for name, content in (("jpg", file), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{number:02}.{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return TarDataset(str(folder / "*.tar"), {"jpg": FIELD, "cls": int}, on_error="skip")


def table() -> Any:
    images = [{"bytes": file, "path": None} for file in files()]
    return pa.table({"jpg": pa.array(images), "cls": pa.array(range(SAMPLES))})


def parquet(folder: Path) -> Any:
    pq.write_table(table(), folder / "a.parquet", row_group_size=4)
    return ParquetDataset(folder / "a.parquet", {"jpg": FIELD, "cls": None}, on_error="skip")


def arrow(folder: Path) -> Any:
    with pa.ipc.new_file(folder / "a.arrow", table().schema) as file:
        for batch in table().to_batches(4):
            file.write_batch(batch)
    return ArrowDataset(folder / "a.arrow", {"jpg": FIELD, "cls": None}, on_error="skip")


@pytest.mark.parametrize("make", [tar, parquet, arrow])
def test_samples_with_broken_images_are_left_out(make: Any, tmp_path: Path) -> None:
    dataset = make(tmp_path)
    order = [*range(0, SAMPLES, 2), *range(1, SAMPLES, 2)] if make is tar else range(SAMPLES)
    kept = [number for number in order if number not in BROKEN]
    assert len(dataset) == SAMPLES - len(BROKEN)
    assert [int(dataset[place]["cls"]) for place in range(len(dataset))] == kept
    assert len(dataset.damages) == len(BROKEN)
    assert all("the image is truncated" in line and tmp_path.name in line for line in dataset.damages)
    assert dataset.block_sizes.sum() == len(dataset)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.damages == dataset.damages
    for options in ({}, {"num_workers": 2}, {"sampler": BlockShuffleSampler(dataset, window=2)}):
        batches = list(DataLoader(dataset, batch_size=4, **options))
        assert sorted(torch.cat([batch["cls"] for batch in batches]).tolist()) == sorted(kept)
    assert_same(list(DataLoader(again, batch_size=4)), list(DataLoader(dataset, batch_size=4)))


def test_the_skipped_samples_are_stored_until_files_or_arguments_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_CACHE", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number, content in enumerate([b"no image", *[bytes(1 << 21)] * 2, encoded(photograph(1))]):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    fields: dict[str, Any] = {"jpg": FIELD}
    folder = tmp_path / "index"
    first = TarDataset(tmp_path / "a.tar", fields, on_error="skip", index_folder=folder)
    kept = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    second = TarDataset(tmp_path / "a.tar", fields, on_error="skip", index_folder=folder)
    assert len(first) == len(second) == 1
    assert first.damages == second.damages
    assert len(first.damages) == 3
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == kept
    gray: dict[str, Any] = {"jpg": ImageField(T.CenterCrop(24), mode="L")}
    assert len(TarDataset(tmp_path / "a.tar", gray, on_error="skip", index_folder=folder)) == 1
    assert len(list(folder.iterdir())) > len(kept)


def test_samples_without_an_image_are_not_skipped_as_damaged(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in [("1.jpg", b"no image"), ("1.cls", b"1"), ("2.cls", b"2")]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    fields: dict[str, Any] = {"jpg": FIELD, "cls": int}
    dataset = TarDataset(tmp_path / "a.tar", fields, on_error="skip", on_missing="none")
    assert [(sample["jpg"], sample["cls"]) for sample in map(dataset.__getitem__, range(len(dataset)))] == [(None, 2)]
