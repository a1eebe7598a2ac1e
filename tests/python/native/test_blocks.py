"""Formats stored in blocks: their sizes, and how often each block is decoded."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.utils.data

from sluicegate import ArrowDataset, BlockShuffleSampler, DataLoader, MdsDataset, ParquetDataset, TarDataset

SIZES = [20 + block * 37 % 91 for block in range(60)]
LENGTH = sum(SIZES)
WINDOW = 6
BATCH = 32


def table(start: int, size: int) -> Any:
    rows = range(start, start + size)
    return pa.table({"x": pa.array(rows, pa.int64()), "t": [f"text {row}" * (row % 4) for row in rows]})


def parquet(folder: Path, columns: Any) -> Callable[..., Any]:
    """Write row groups of 120 rows, which a filter reduces to the sizes of the blocks; return a function to open it."""
    parts, start = [], 0
    for size in SIZES:
        left = pa.concat_tables([table(start, size), table(0, 120 - size)])
        parts.append(left.append_column("is_left", [[row < size for row in range(120)]]))
        start += size
    path = folder / "x.parquet"
    pq.write_table(pa.concat_tables(parts), path, row_group_size=120)
    return lambda **options: ParquetDataset(path, columns, filter=("is_left", "==", True), **options)


def arrow(folder: Path, columns: Any) -> Callable[..., Any]:
    path = folder / "x.arrow"
    with pa.ipc.new_file(str(path), table(0, 1).schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for end, size in zip(itertools.accumulate(SIZES), SIZES, strict=True):
            writer.write_table(table(end - size, size))
    return lambda **options: ArrowDataset(path, columns, **options)


def mds(folder: Path, columns: Any) -> Callable[..., Any]:
    entries, names = [], ["x", "t"]
    for number, (end, size) in enumerate(zip(itertools.accumulate(SIZES), SIZES, strict=True)):
        samples = []
        for row in range(end - size, end):
            text = (f"text {row}" * (row % 4)).encode()
            samples.append(struct.pack("<I", len(text)) + struct.pack("<q", row) + text)
        places = [4 + 4 * (size + 1), *map(len, samples)]
        raw = struct.pack("<I", size) + np.cumsum(places, dtype=np.uint32).tobytes() + b"".join(samples)
        packed = bytes(pa.compress(raw, "zstd", asbytes=True))
        (folder / f"{number}.mds.zstd").write_bytes(packed)
        entries.append(
            {
                "column_names": names,
                "column_encodings": ["int", "str"],
                "column_sizes": [8, None],
                "compression": "zstd",
                "format": "mds",
                "version": 2,
                "samples": size,
                "raw_data": {"basename": f"{number}.mds", "bytes": len(raw)},
                "zip_data": {"basename": f"{number}.mds.zstd", "bytes": len(packed)},
            }
        )
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return lambda **options: MdsDataset(str(folder), columns, **options)


FORMATS = {"parquet": parquet, "arrow": arrow, "mds": mds}
Case = tuple[Callable[..., Any], list[int]]


@pytest.fixture(scope="module", params=itertools.product(FORMATS, [["x", "t"], ["x"]]), ids=lambda param: f"{param}")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return a function that opens a dataset of blocks, and the decoded size of each block in bytes."""
    name, columns = request.param
    opened = FORMATS[name](tmp_path_factory.mktemp(name), columns)
    dataset, sizes = opened(), []
    for end in itertools.accumulate(SIZES):
        before = dataset.cache_info().bytes
        dataset[end - 1]
        sizes.append(dataset.cache_info().bytes - before)
    assert dataset.cache_info().decoded == dataset.cache_info().blocks == len(SIZES)
    assert min(sizes) > 0
    return opened, sizes


def largest_window(dataset: Any, sizes: list[int], epochs: int) -> int:
    """Return the bytes of the largest window of the first `epochs` epochs with seed 3."""
    sampler = BlockShuffleSampler(dataset, window=WINDOW, seed=3)
    block_of = np.repeat(np.arange(len(SIZES)), SIZES)
    largest = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        blocks = list(dict.fromkeys(block_of[list(sampler)].tolist()))
        windows = [blocks[first : first + WINDOW] for first in range(0, len(blocks), WINDOW)]
        largest = max(largest, *(sum(sizes[block] for block in window) for window in windows))
    return largest


def loader(dataset: Any, **arguments: Any) -> Any:
    return DataLoader(dataset, BATCH, sampler=BlockShuffleSampler(dataset, window=WINDOW), seed=3, **arguments)


def test_block_sizes_are_those_of_the_format(case: Case) -> None:
    opened, _ = case
    dataset = opened()
    assert dataset.block_sizes.dtype == np.int64
    assert dataset.block_sizes.tolist() == SIZES
    assert dataset.block_size == max(set(SIZES), key=lambda size: (SIZES.count(size), size))
    with pytest.raises(ValueError, match="read-only"):
        dataset.block_sizes[0] = 1
    copied = pickle.loads(pickle.dumps(dataset))
    assert copied.block_sizes.tolist() == SIZES
    assert copied.cache_info().decoded <= 1
    assert list(BlockShuffleSampler(dataset, window=2, seed=7)) == list(
        BlockShuffleSampler(range(LENGTH), SIZES, 2, seed=7)
    )


def test_a_cache_of_one_window_has_each_block_decoded_once_an_epoch(case: Case) -> None:
    opened, sizes = case
    limit = largest_window(opened(), sizes, 2)
    dataset = opened(cache_bytes=limit)
    reading = loader(dataset)
    for epoch in range(2):
        before = dataset.cache_info().decoded
        seen = torch.cat([torch.as_tensor(batch["x"]) for batch in reading])
        assert sorted(seen.tolist()) == list(range(LENGTH))
        info = dataset.cache_info()
        # The second epoch may reuse blocks that the first one left.
        kept = info.blocks if epoch else 0
        assert len(SIZES) - kept <= info.decoded - before <= len(SIZES)
        assert info.decoded_in_part == 0
        assert info.bytes <= info.limit == limit
        assert info.found > len(SIZES)


def test_a_rank_needs_room_for_two_windows(case: Case) -> None:
    opened, sizes = case
    dataset = opened(cache_bytes=2 * largest_window(opened(), sizes, 1))
    seen = sum(len(batch["x"]) for batch in loader(dataset, shard=(1, 3), remainder="exact"))
    assert seen == -(-LENGTH // 3)
    assert dataset.cache_info().decoded == len(SIZES)


def test_threads_that_read_ahead_share_the_cache(case: Case) -> None:
    opened, sizes = case
    dataset = opened(cache_bytes=2 * largest_window(opened(), sizes, 1))
    seen = torch.cat([torch.as_tensor(batch["x"]) for batch in loader(dataset, num_workers=2)])
    assert sorted(seen.tolist()) == list(range(LENGTH))
    assert dataset.cache_info().decoded == len(SIZES)


def test_with_less_than_a_window_blocks_are_decoded_again(case: Case) -> None:
    opened, sizes = case
    dataset = opened(cache_bytes=largest_window(opened(), sizes, 1) // 2)
    assert sum(len(batch["x"]) for batch in loader(dataset)) == LENGTH
    info = dataset.cache_info()
    assert info.decoded + info.decoded_in_part > 3 * len(SIZES)


class Counting(torch.utils.data.Dataset[Any]):
    """Samples with the process that read them, and the number of blocks that it has decoded so far."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        samples = self.dataset.__getitems__(indices)
        decoded = self.dataset.cache_info().decoded
        return [(os.getpid(), decoded, torch.as_tensor(sample["x"])) for sample in samples]


def test_each_worker_process_decodes_each_block_once(case: Case) -> None:
    opened, sizes = case
    dataset = Counting(opened(cache_bytes=2 * largest_window(opened(), sizes, 1)))
    sampler = BlockShuffleSampler(dataset, SIZES, WINDOW)
    decoded: dict[int, int] = {}
    before = dataset.dataset.cache_info().decoded
    for pids, counts, _ in DataLoader(dataset, BATCH, sampler=sampler, seed=3, num_workers=2):
        decoded[int(pids[0])] = int(counts[0])
    assert len(decoded) == 2
    assert os.getpid() not in decoded
    # Batches of both workers have samples of every block, and each worker decodes a block once.
    assert all(len(SIZES) // 2 < count <= len(SIZES) for count in decoded.values())
    assert dataset.dataset.cache_info().decoded == before


def test_threads_that_run_python_share_the_cache(case: Case) -> None:
    opened, sizes = case
    dataset = Counting(opened(cache_bytes=2 * largest_window(opened(), sizes, 1)))
    sampler = BlockShuffleSampler(dataset, SIZES, WINDOW)
    reading = DataLoader(dataset, BATCH, sampler=sampler, seed=3, num_workers=2, worker_type="thread")
    assert sum(len(pids) for pids, _, _ in reading) == LENGTH
    assert dataset.dataset.cache_info().decoded == len(SIZES)


def test_archives_are_blocks_of_the_samples_that_are_counted(tmp_path: Path) -> None:
    for number, size in enumerate([3, 1, 0, 4]):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as shard:
            for sample in range(size):
                for name in ["txt", "cls"] if sample % 2 == 0 else ["txt"]:
                    member = tarfile.TarInfo(f"{sample}.{name}")
                    member.size = 1
                    shard.addfile(member, io.BytesIO(b"1"))
    pattern = tmp_path / "{0..3}.tar"
    whole = TarDataset(pattern, {"txt": "str"})
    assert whole.block_sizes.tolist() == [3, 1, 0, 4]
    some = TarDataset(pattern, {"txt": "str", "cls": int}, on_missing="skip")
    assert some.block_sizes.tolist() == [2, 1, 0, 2]
    assert some.block_size == 2
    assert len(some) == 5
    read = [sample["__url__"] for sample in torch.utils.data.Subset(some, list(BlockShuffleSampler(some, window=1)))]
    assert len(list(itertools.groupby(read))) == 3
    assert TarDataset(tmp_path / "2.tar", {}).block_size == 1


def test_folders_have_the_blocks_of_all(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        mds(tmp_path / name, None)
    dataset = MdsDataset([str(tmp_path / "a"), str(tmp_path / "b")], cache_bytes=10**6)
    assert dataset.block_sizes.tolist() == 2 * SIZES
    before = dataset.cache_info()
    assert dataset[LENGTH]["x"] == 0
    assert before.limit == 2 * 10**6
    assert dataset.cache_info().decoded == before.decoded + 1
    with pytest.raises(ValueError, match=r"cache_bytes should be 0 or more, and below .*, but got -1"):
        MdsDataset(str(tmp_path / "a"), cache_bytes=-1)
