"""Opening indexed files, and resuming at 90 % of their shuffled samples, for every format."""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import os
import statistics
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import figures
from loaders import IMPORTS
from machine import CACHE
from protocol import Case, Contender, Metrics, Workload

SAMPLES = 100_000
BATCH_SIZE = 64
SHARE = 0.9
REPEATS = 9

_FOLDER = CACHE / "resume"


def _csv(path: Path) -> None:
    path.write_text("id,score\n" + "".join(f"{index},{index / 7}\n" for index in range(SAMPLES)))


def _folder(path: Path) -> None:
    path.mkdir()
    for index in range(SAMPLES):
        (path / f"{index:06d}.bin").write_bytes(index.to_bytes(8, "little"))


def _json_lines(path: Path) -> None:
    path.write_text("".join(f'{{"id": {index}, "text": "sample {index}"}}\n' for index in range(SAMPLES)))


def _mds(path: Path) -> None:
    path.mkdir()
    columns: dict[str, list[Any]] = {"column_names": ["id"], "column_encodings": ["int"], "column_sizes": [8]}
    first = 4 * (SAMPLES + 2)
    offsets = np.arange(first, first + 8 * SAMPLES + 1, 8, dtype="<u4")
    contents = struct.pack("<I", SAMPLES) + offsets.tobytes() + np.arange(SAMPLES, dtype="<i8").tobytes()
    (path / "shard.00000.mds").write_bytes(contents)
    shard = {
        "format": "mds",
        "version": 2,
        "compression": None,
        "hashes": [],
        "samples": SAMPLES,
        "size_limit": 1 << 30,
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(contents), "hashes": {}},
        "zip_data": None,
        **columns,
    }
    (path / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))


def _npy(path: Path) -> None:
    np.save(path, np.arange(4 * SAMPLES, dtype=np.float32).reshape(-1, 4))


def _raw(path: Path) -> None:
    np.arange(4 * SAMPLES, dtype=np.float32).tofile(path)


def _safetensors(path: Path) -> None:
    header = json.dumps({"x": {"dtype": "I64", "shape": [SAMPLES], "data_offsets": [0, 8 * SAMPLES]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.arange(SAMPLES).tobytes())


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for index in range(SAMPLES):
            member = tarfile.TarInfo(f"{index:06d}.txt")
            member.size = 6
            archive.addfile(member, io.BytesIO(b"%06d" % index))


def _tfrecord(path: Path) -> None:
    import tfrecord

    writer = tfrecord.TFRecordWriter(str(path))
    for index in range(SAMPLES):
        writer.write({"id": (index, "int")})
    writer.close()


def _tokens(path: Path) -> None:
    np.arange(128 * SAMPLES + 1).astype(np.uint16).tofile(path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "CsvDataset": _csv,
    "FolderDataset": _folder,
    "JsonLinesDataset": _json_lines,
    "MdsDataset": _mds,
    "NpyDataset": _npy,
    "RawDataset": _raw,
    "SafetensorsDataset": _safetensors,
    "TarDataset": _tar,
    "TFRecordDataset": _tfrecord,
    "TokensDataset": _tokens,
}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "RawDataset": {"dtype": "<f4", "shape": 4},
    "TarDataset": {"fields": {"txt": "str"}},
    "TokensDataset": {"length": 128, "dtype": "uint16"},
}
ENDINGS = {"NpyDataset": ".npy"}


def _path(format_class: str) -> Path:
    return _FOLDER / f"{format_class}{ENDINGS.get(format_class, '')}"


def _prepare() -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name, write in WRITERS.items():
        if _path(name).exists() or (name == "TFRecordDataset" and importlib.util.find_spec("tfrecord") is None):
            continue
        unfinished = _FOLDER / f"unfinished-{name}{ENDINGS.get(name, '')}"
        write(unfinished)
        os.replace(unfinished, _path(name))


def _resumed(name: str) -> Metrics:
    import sluicegate

    def opened() -> Any:
        return getattr(sluicegate, name)(_path(name), **ARGUMENTS.get(name, {}))

    def loader(dataset: Any) -> Any:
        return sluicegate.DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, seed=7)

    begin = time.perf_counter()
    dataset = opened()
    first = time.perf_counter() - begin
    assert len(dataset) == SAMPLES
    running = loader(dataset)
    batches = iter(running)
    for _batch in itertools.islice(batches, int(SHARE * SAMPLES) // BATCH_SIZE):
        pass
    state = json.dumps(running.state_dict())
    following = next(batches)
    opens, resumes = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        dataset = opened()
        opens.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        resumed = loader(dataset)
        resumed.load_state_dict(json.loads(state))
        batch = next(iter(resumed))
        resumes.append(time.perf_counter() - begin)
        assert str(batch) == str(following), "another batch than that of the run that was not interrupted"
    return {
        "resume and first batch, ms": statistics.median(resumes) * 1e3,
        "opening, ms": statistics.median(opens) * 1e3,
        "opening for the first time, ms": first * 1e3,
    }


WORKLOAD = Workload(
    name="resume",
    title="Resume at 90 % of 100,000 samples of every format, shuffled, batches of 64",
    measure=figures.measure,
    tables=figures.tables,
    prepare=_prepare,
    cases=(
        Case(
            "formats",
            "one file of each, page cache warm",
            tuple(
                Contender(name, lambda _, name=name: _resumed(name), IMPORTS["sluicegate"])  # type: ignore[misc]
                for name in WRITERS
                if name != "TFRecordDataset" or importlib.util.find_spec("tfrecord")
            ),
        ),
    ),
)
