"""Streams that can only be streams: the samples of the map-style classes, from any source of bytes."""

from __future__ import annotations

import gzip
import io
import json
import os
import pathlib
import pickle
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from cases import native_streams
from cases.native_streams import Case, tar
from checks.equality import assert_same
from sluicegate import ShuffleBuffer, shard_iterable

case = native_streams.case


def samples_of(dataset: Any) -> list[Any]:
    return [dataset[index] for index in range(len(dataset))]


def named(samples: list[Any], url: str) -> list[Any]:
    """Return the same samples with a different archive name."""
    return [{**sample, "__url__": url} if "__url__" in sample else sample for sample in samples]


def test_the_samples_are_those_of_the_map_style_class(case: Case) -> None:
    make, dataset, path = case
    samples = samples_of(dataset)
    for unpacked in (path, f"pipe:cat {path}"):
        stream = make(unpacked)
        for _ in range(2):
            assert_same(list(stream), named(samples, unpacked))
    assert_same(list(pickle.loads(pickle.dumps(make(path)))), samples)
    # Several files, one after another.
    assert_same(list(make([path, path])), samples * 2)


def test_gzip_is_known_by_its_first_bytes(case: Case, tmp_path: pathlib.Path) -> None:
    make, dataset, path = case
    packed = tmp_path / "packed"
    with open(path, "rb") as file:
        data = file.read()
    # Two members, as `cat a.gz b.gz` makes them.
    packed.write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
    assert_same(list(make(packed, unpack=True)), named(samples_of(dataset), str(packed)))


def zstandard(data: bytes) -> bytes:
    """Return a frame of raw blocks, after a skippable frame."""
    blocks = [data[start : start + (1 << 17)] for start in range(0, len(data), 1 << 17)]
    framed = b"\x28\xb5\x2f\xfd\xe0" + len(data).to_bytes(8, "little")
    for number, block in enumerate(blocks, 1):
        framed += (len(block) << 3 | (number == len(blocks))).to_bytes(3, "little") + block
    return b"\x51\x2a\x4d\x18\x03\0\0\0abc" + framed


def test_zstandard_is_known_by_its_first_bytes(case: Case, tmp_path: pathlib.Path) -> None:
    make, dataset, path = case
    packed = tmp_path / "packed"
    with open(path, "rb") as file:
        data = file.read()
    packed.write_bytes(zstandard(data[:200]) + zstandard(data[200:]))
    assert_same(list(make(packed, unpack=True)), named(samples_of(dataset), str(packed)))
    packed.write_bytes(zstandard(data)[:-50])
    with pytest.raises(ValueError, match=r"can't be decompressed from here on|sample"):
        list(make(packed, unpack=True))


def test_fifos_descriptors_and_file_objects(case: Case, tmp_path: pathlib.Path) -> None:
    make, dataset, path = case
    samples = samples_of(dataset)
    with open(path, "rb") as file:
        data = file.read()
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    stream = make(fifo)
    for _ in range(2):  # each epoch waits for a new writer
        writer = threading.Thread(target=pathlib.Path(fifo).write_bytes, args=(data,))
        writer.start()
        assert_same(list(stream), named(samples, fifo))
        writer.join()
    with open(path, "rb") as file:
        stream = make(file)
        assert_same(list(stream), samples)
        with pytest.raises(ValueError, match="read only once, but got a second iteration"):
            iter(stream)
    assert_same(list(make(io.BytesIO(data))), named(samples, "<BytesIO>"))
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        number = program.stdout.fileno()
        assert_same(list(make(number)), named(samples, f"<descriptor {number}>"))
    with gzip.open(_gzipped(tmp_path, data), "rb") as unpacking:
        assert_same(list(make(unpacking)), named(samples, str(tmp_path / "x.gz")))


def _gzipped(tmp_path: pathlib.Path, data: bytes) -> pathlib.Path:
    (tmp_path / "x.gz").write_bytes(gzip.compress(data))
    return tmp_path / "x.gz"


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_batches_of_both_loaders_and_every_sample_once(case: Case, num_workers: int, loader_cls: Any) -> None:
    make, dataset, path = case
    samples = samples_of(dataset)
    stream = make(path)
    # A worker knows inferred kinds of fields when it starts; `collate` has to have them before that.
    collate = {"collate_fn": stream.collate} if loader_cls is torch.utils.data.DataLoader else {}
    loader = loader_cls(stream, batch_size=4, num_workers=num_workers, **collate)
    # A second epoch of torch's three processes is that of one.
    for _ in range(1 if collate and num_workers > 1 else 2):
        expected = []
        parts = [samples[worker :: max(num_workers, 1)] for worker in range(max(num_workers, 1))]
        while any(parts):
            for number, part in enumerate(parts):
                if part:
                    expected.append(dataset.collate(part[:4]))
                    parts[number] = part[4:]
        assert_same(list(loader), expected)
    if loader_cls is sluicegate.DataLoader:
        threads = loader_cls(make(path), batch_size=4, num_workers=max(num_workers, 1), worker_type="thread")
        assert_same(list(threads), list(loader))
        ordinals = sluicegate.DataLoader(make(path), batch_size=4, drop_last=True)
        assert len(list(ordinals)) == len(samples) // 4


def test_ranks_and_workers_share_one_file_by_ordinal(case: Case) -> None:
    make, dataset, path = case
    samples = samples_of(dataset)
    for rank in range(2):
        assert_same(list(make(path, shard=(rank, 2))), samples[rank::2])
    with pytest.raises(ValueError, match="rank"):
        make(path, shard=(2, 2))
    sharded = list(sluicegate.DataLoader(shard_iterable(make(path)), batch_size=None, num_workers=2))
    assert len(sharded) == len(samples)
    assert_same(sorted(map(repr, sharded)), sorted(map(repr, sluicegate.DataLoader(make(path), batch_size=None))))


def states(stream: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each sample, and the state after it."""
    for sample in stream:
        state = json.loads(json.dumps(stream.state_dict()))
        yield sample, state


@pytest.mark.parametrize("packed", [False, True])
def test_a_native_stream_resumes_at_the_next_sample_from_any_position(case: Case, packed: bool) -> None:
    make, _, path = case
    urls = [f"pipe:cat {path}", path] if packed else [path, path]
    whole = list(states(make(urls, shard=(1, 2))))
    for stop, (_, state) in enumerate(whole):
        resumed = make(urls, shard=(1, 2))
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert_same(list(resumed), [sample for sample, _ in whole[stop + 1 :]])
    stream = make(urls, shard=(1, 2))
    list(stream)
    ended = make(urls, shard=(1, 2))
    ended.load_state_dict(stream.state_dict())
    assert list(ended) == []
    assert_same(list(ended), [sample for sample, _ in whole])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loaders_resume_shuffled_in_seed_mode(tmp_path: pathlib.Path, num_workers: int) -> None:
    make, _, path = tar(tmp_path)

    def loader() -> Any:
        stream = ShuffleBuffer(make(f"pipe:cat {path}"), size=5, seed=3)
        return sluicegate.DataLoader(stream, batch_size=3, num_workers=num_workers, seed=7)

    first = loader()
    epochs = [list(first), list(first)]
    keys = [key for batch in epochs[0] for key in batch["__key__"]]
    assert len(set(keys)) == len(keys) == 23
    assert keys != sorted(keys)
    for stop in range(len(epochs[0])):
        stopped = loader()
        iterator = iter(stopped)
        for _ in range(stop):
            next(iterator)
        state = pickle.loads(pickle.dumps(stopped.state_dict()))
        del iterator
        resumed = loader()
        resumed.load_state_dict(state)
        assert_same(list(resumed), epochs[0][stop:])
        assert_same(list(resumed), epochs[1])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loaders_resume_native_batches(case: Case, num_workers: int) -> None:
    make, _, path = case
    loader = lambda: sluicegate.DataLoader(make(path), batch_size=3, num_workers=num_workers)  # noqa: E731
    whole = list(loader())
    for stop in (0, 1, len(whole) - 1):
        stopped = loader()
        iterator = iter(stopped)
        for _ in range(stop):
            next(iterator)
        state = stopped.state_dict()
        del iterator
        resumed = loader()
        resumed.load_state_dict(state)
        assert_same(list(resumed), whole[stop:])
