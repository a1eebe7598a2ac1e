"""More files than a process may map: a limited number is mapped, and all are read."""

from __future__ import annotations

import io
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doubles import safetensors_files
from sluicegate import DataLoader, NpyDataset, RawDataset, SafetensorsDataset

FILES = 4300

# The files that stay mapped, the 64 that were read last, and those that threads are reading.
MAPPED = 4096 + 64 + 16


def put(folder: Path, name: str) -> list[Path]:
    """Write files of two samples each: the number of the file, and twice that."""
    saved = io.BytesIO()
    np.save(saved, np.zeros(2, "<i4"))
    header = {"npy": saved.getvalue()[:-8], "raw": b""}.get(name)
    if header is None:
        path = safetensors_files.written(folder / "x", {"n": torch.zeros(2, dtype=torch.int32)})
        header = Path(path).read_bytes()[:-8]
    paths = [folder / f"{number:04}" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(header + np.array([number, 2 * number], "<i4").tobytes())
    return paths


def open_(name: str, paths: list[Path]) -> Any:
    if name == "npy":
        return NpyDataset(n=paths)
    if name == "raw":
        return RawDataset(paths, dtype=[("n", "<i4")])
    return SafetensorsDataset(paths, ["n"])


def mapped(folder: Path) -> int:
    with open("/proc/self/maps") as maps:
        return sum(str(folder) in line for line in maps)


def expected(index: int) -> int:
    return index // 2 * (1 + index % 2)


def _read(dataset: Any, indices: list[int], folder: Path, answers: Any) -> None:
    batch = dataset[indices]["n"].tolist()
    answers.put((batch == [expected(index) for index in indices], mapped(folder)))


@pytest.mark.parametrize("name", ["npy", "raw", "safetensors"])
def test_a_limited_number_of_many_files_is_mapped_and_all_are_read(tmp_path: Path, name: str) -> None:
    paths = put(tmp_path, name)
    dataset = open_(name, paths)
    assert len(dataset) == 2 * FILES
    assert 4096 <= mapped(tmp_path) <= MAPPED
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    for num_workers in (0, 2):
        loader = DataLoader(dataset, batch_size=500, sampler=order, num_workers=num_workers)
        assert [n for batch in loader for n in batch["n"].tolist()] == [*map(expected, order)]
        assert mapped(tmp_path) <= MAPPED
    last = [len(dataset) - 1, 0, len(dataset) - 2]
    # In a child that inherits the mapped files, and in one that opens them itself.
    for method in ("fork", "forkserver"):
        context: Any = multiprocessing.get_context(method)
        answers = context.Queue()
        child = context.Process(target=_read, args=(dataset, last, tmp_path, answers))
        child.start()
        is_equal, count = answers.get(timeout=60)
        child.join()
        assert is_equal
        assert count <= MAPPED


@pytest.mark.parametrize("name", ["npy", "raw", "safetensors"])
def test_a_file_that_is_not_mapped_and_is_another_now_is_named(tmp_path: Path, name: str) -> None:
    paths = put(tmp_path, name)
    dataset = open_(name, paths)
    os.truncate(paths[4200], paths[4200].stat().st_size - 1)
    with pytest.raises(OSError, match=r"/4200 shrank since it was opened"):
        dataset[8400]
    paths[0].rename(paths[4201])
    with pytest.raises(OSError, match=r"/4201 changed while it was in use: it was replaced by a different file"):
        dataset[8402]
    paths[4202].unlink()
    with pytest.raises(FileNotFoundError, match=r"/4202"):
        dataset[8404]
    assert dataset[8407]["n"] == 2 * 4203


def test_unequal_files_are_named_wherever_they_are(tmp_path: Path) -> None:
    paths = put(tmp_path, "npy")
    np.save(tmp_path / "other.npy", np.zeros(2))
    with pytest.raises(
        ValueError, match=r"other\.npy: its rows are float64 \[\], but those of the first file, .*/0000,"
    ):
        NpyDataset([*paths, tmp_path / "other.npy"])
