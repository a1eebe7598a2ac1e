"""W6: WebDataset's shards. 20 tar archives of 5,000 samples, each 10 KB and a small JSON, shuffled over a window."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import throughput
from loaders import IMPORTS, present
from machine import CACHE
from processes import Processes
from protocol import Case, Contender, Epoch, Workload

SHARDS = 20
SAMPLES_PER_SHARD = 5_000
SAMPLES = SHARDS * SAMPLES_PER_SHARD
IMAGE_BYTES = 10_000
BATCH_SIZE = 64
# A window of the same number of samples for all: we shuffle whole blocks of a shard, the others single samples.
BLOCK = 250
WINDOW = 5_000

_FOLDER = CACHE / "w6"
# Headers, contents, and padding of both files of a sample.
_SAMPLE_BYTES = 512 + 10_240 + 512 + 512


def _image(index: int) -> bytes:
    """Return the number, and bytes that all samples share, so that comparing them costs less than loading them."""
    return index.to_bytes(8, "little") + _REST


_REST = np.random.default_rng(6).bytes(IMAGE_BYTES - 8)


def _label(index: int) -> dict[str, Any]:
    return {"id": index, "caption": f"a photograph of thing number {index}", "width": 640, "height": 480}


def paths() -> list[str]:
    return [str(_FOLDER / f"{shard:05d}.tar") for shard in range(SHARDS)]


def _prepare() -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for shard, path in enumerate(paths()):
        if Path(path).exists():
            continue
        with tarfile.open(f"{path}.unfinished", "w") as archive:
            for index in range(shard * SAMPLES_PER_SHARD, (shard + 1) * SAMPLES_PER_SHARD):
                for extension, contents in (("jpg", _image(index)), ("json", json.dumps(_label(index)).encode())):
                    member = tarfile.TarInfo(f"{index:08d}.{extension}")
                    member.size = len(contents)
                    archive.addfile(member, io.BytesIO(contents))
        os.replace(f"{path}.unfinished", path)
    _convert()


def _check(_source: list[str], batch: Any) -> npt.NDArray[np.int64]:
    if isinstance(batch, range):  # the limit delivers no data
        return np.arange(batch.start, batch.stop)
    ids = [int.from_bytes(image[:8], "little") for image in batch["jpg"]]
    assert all(image == _image(index) for image, index in zip(batch["jpg"], ids, strict=True)), "bytes differ"
    assert [int(key) for key in batch["__key__"]] == ids, "keys differ"
    labels = batch["json"]
    if isinstance(labels, dict):  # torch's default collate function returns dicts like this
        labels = [dict(zip(labels, values, strict=True)) for values in zip(*labels.values(), strict=True)]
        labels = [{**label, **{name: int(label[name]) for name in ("id", "width", "height")}} for label in labels]
    labels = [json.loads(label) if isinstance(label, bytes) else label for label in labels]
    assert labels == [_label(index) for index in ids], "labels differ"
    return np.array(ids)


def _ours(workers: int, field: Literal["json", "bytes"]) -> Contender:
    def make(paths: list[str]) -> Epoch:
        from sluicegate import BlockShuffleSampler, DataLoader, TarDataset

        dataset = TarDataset(paths, {"jpg": "bytes", "json": field})
        sampler = BlockShuffleSampler(dataset, block=BLOCK, window=WINDOW // BLOCK, seed=6)
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=workers)
        return lambda: iter(loader)

    note = "" if field == "json" else " (JSON left as bytes)"
    return Contender(f"sluicegate, {workers} workers{note}", make, IMPORTS["sluicegate"])


def _ours_streamed(workers: int) -> Contender:
    def make(paths: list[str]) -> Epoch:
        from sluicegate import DataLoader, ShuffleBuffer, TarStream

        stream = TarStream(paths, {"jpg": "bytes", "json": "json"})
        shuffled = ShuffleBuffer(stream, WINDOW // max(workers, 1), seed=6)
        loader = DataLoader(shuffled, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(loader)

    return Contender(f"sluicegate, a stream, {workers} workers", make, IMPORTS["sluicegate"])


def _lists(samples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Collate into lists, as webdataset's own collate does with values that are not numbers."""
    return {name: [sample[name] for sample in samples] for name in samples[0]}


def _read(paths: list[str], worker: int, workers: int) -> Iterator[dict[str, Any]]:
    """Yield the samples of every `workers`-th archive, with Python's tarfile, through a shuffle buffer."""
    generator = random.Random(worker)
    buffer: list[dict[str, Any]] = []
    for path in paths[worker::workers]:
        with tarfile.open(path) as archive:
            sample: dict[str, Any] = {}
            for member in archive:
                key, _, extension = member.name.partition(".")
                file = archive.extractfile(member)
                assert file is not None
                sample[extension] = file.read()
                if extension == "json":
                    label = json.loads(sample["json"])
                    buffer.append({"__key__": key, "jpg": sample["jpg"], "json": label})
                    sample = {}
                    if len(buffer) > WINDOW // workers:
                        place = generator.randrange(len(buffer))
                        buffer[place], buffer[-1] = buffer[-1], buffer[place]
                        yield buffer.pop()
    generator.shuffle(buffer)
    yield from buffer


def _torch(workers: int) -> Contender:
    def make(paths: list[str]) -> Epoch:
        import torch.utils.data

        class Archives(torch.utils.data.IterableDataset[Any]):
            def __iter__(self) -> Iterator[dict[str, Any]]:
                info = torch.utils.data.get_worker_info()
                return _read(paths, info.id if info else 0, info.num_workers if info else 1)

        loader = torch.utils.data.DataLoader(
            Archives(), batch_size=BATCH_SIZE, num_workers=workers, collate_fn=_lists, persistent_workers=workers > 0
        )
        return lambda: iter(loader)

    column = "torch, 0 workers" if workers == 0 else None
    return Contender(f"torch over tarfile, {workers} workers", make, IMPORTS["torch"], column)


def _webdataset(workers: int) -> Contender:
    def make(paths: list[str]) -> Epoch:
        import torch.utils.data
        import webdataset

        dataset = webdataset.WebDataset(paths, shardshuffle=SHARDS, empty_check=False)
        dataset = dataset.shuffle(WINDOW // max(workers, 1)).decode().batched(BATCH_SIZE, collation_fn=_lists)
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0
        )
        return lambda: iter(loader)

    column = "WebDataset, 0 workers" if workers == 0 else None
    return Contender(f"WebDataset, {workers} workers", make, (*IMPORTS["torch"], "webdataset"), column)


def _sample(index: int) -> dict[str, Any]:
    return {"__key__": f"{index:08d}", "jpg": _image(index), "json": _label(index)}


def _write_litdata(folder: Path) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes="64MB")
    for index in range(SAMPLES):
        writer[index] = _sample(index)
    writer.done()
    writer.merge()


def _write_streaming(folder: Path) -> None:
    import streaming

    columns = {"__key__": "str", "jpg": "bytes", "json": "json"}
    with streaming.MDSWriter(out=str(folder), columns=columns, size_limit=64 << 20) as writer:
        for index in range(SAMPLES):
            writer.write(_sample(index))


# Packages that need the samples in their own format.
_CONVERTED = {"litdata": _write_litdata, "streaming": _write_streaming}


def _convert() -> None:
    for package, write in _CONVERTED.items():
        folder = _FOLDER / package
        if importlib.util.find_spec(package) is None or folder.exists():
            continue
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(folder)


def _litdata(_paths: list[str]) -> Epoch:
    """LitData's own loader, with its own shuffling."""
    import litdata

    dataset = litdata.StreamingDataset(str(_FOLDER / "litdata"), shuffle=True, seed=6)
    loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=0, collate_fn=_lists)
    return lambda: iter(loader)


def _streaming(_paths: list[str]) -> Epoch:
    """Streaming's own dataset with torch's loader, shuffled over the same number of samples as the others."""
    import streaming
    import torch.utils.data

    dataset = streaming.StreamingDataset(
        local=str(_FOLDER / "streaming"),
        shuffle=True,
        shuffle_algo="py1e",
        shuffle_block_size=WINDOW,
        batch_size=BATCH_SIZE,
    )
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, collate_fn=_lists)
    return lambda: iter(loader)


def _bytes_alone(paths: list[str]) -> Epoch:
    """One system call for both files of a sample, into a reused buffer; blocks of an archive in turn."""
    files = [os.open(path, os.O_RDONLY) for path in paths]
    buffers = [bytearray(_SAMPLE_BYTES)]

    def work(indices: range) -> None:
        for index in indices:
            shard, place = index % SHARDS, index // SHARDS
            os.preadv(files[shard], buffers, place * _SAMPLE_BYTES)

    processes = Processes(1, work)
    return lambda: processes.epoch(SAMPLES, BATCH_SIZE)


WORKLOAD = Workload(
    name="w6",
    title="W6: tar archives, 10 KB and JSON a sample, batches of 64, shuffled over a window of 5,000",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=_prepare,
    cases=(
        Case(
            name="tar",
            title="20 archives of 5,000 samples, page cache warm",
            open=paths,
            samples=SAMPLES,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=present(
                _torch(0),
                _torch(2),
                _webdataset(0),
                _webdataset(2),
                Contender("LitData, 0 workers, its own format", _litdata, (*IMPORTS["torch"], "litdata")),
                Contender("Streaming, 0 workers, its own format", _streaming, (*IMPORTS["torch"], "streaming")),
                Contender("reading the bytes alone", _bytes_alone, is_limit=True),
                _ours(0, "json"),
                _ours(2, "json"),
                _ours(0, "bytes"),
                _ours_streamed(0),
                _ours_streamed(2),
            ),
        ),
    ),
)
