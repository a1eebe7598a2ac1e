"""`write_tar`: reading returns what was written, whatever happens in between; also with compressed archives."""

from __future__ import annotations

import gzip
import hashlib
import multiprocessing
import os
import pathlib
import subprocess
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from sluicegate import IterableDataset, TarDataset, write_tar

FIELDS = {"jpg": "bytes", "txt": "str", "cls": int, "score": float, "json": "json", "seg.npy": "npy"}


def sample(index: int) -> dict[str, Any]:
    return {
        "__key__": f"d/{index:04d}",
        "jpg": bytes([index % 256]) * (index * 7 % 3000),
        "txt": f"text {index} ü",
        "cls": torch.tensor(index % 10),
        "score": np.float64(index / 3),
        "json": {"index": index, "list": [1, None, "x"]},
        "seg.npy": torch.full((2, 3), index, dtype=torch.int16),
    }


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return sample(index)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(sample, range(100))


def digests(paths: list[str]) -> list[str]:
    return [hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() for path in paths]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_written_archives_read_back_as_written(tmp_path: pathlib.Path, num_workers: int) -> None:
    paths = write_tar(Samples(100), tmp_path / "a-{:03d}.tar", shard_bytes=100_000, num_workers=num_workers)
    assert len(paths) > 3
    assert all(os.path.getsize(path) <= 100_000 for path in paths)
    dataset = TarDataset(paths, FIELDS)
    assert len(dataset) == 100
    for index in (0, 1, 50, 99):
        found = dataset[index]
        expected = sample(index)
        assert found.pop("__url__") in paths
        assert_same(found, {**expected, "cls": index % 10, "score": index / 3})
    count = 0
    for path in paths:
        with tarfile.open(path) as shard:
            count += len(shard.getnames())
    assert count == 600
    again = write_tar(Stream(), tmp_path / "b-{:03d}.tar", shard_bytes=100_000, threads=1)
    assert digests(again) == digests(paths)
    few = torch.utils.data.Subset(dataset, range(5))
    one_by_one = write_tar(few, tmp_path / "c-{}.tar", shard_bytes=1)
    assert one_by_one == [str(tmp_path / f"c-{number}.tar") for number in range(5)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ([1], TypeError, "sample 0: expected a dict"),
        ([{"__key__": "a.b", "txt": "x"}], ValueError, "without dots"),
        ([{"__key__": 3, "txt": "x"}], ValueError, "expected a key, a string"),
        ([{"x": object()}], TypeError, "sample 0, 'x': expected bytes, a str or a number, but got object"),
        ([{"x.json": object()}], TypeError, "sample 0, 'x.json'"),
        ([{"x.json": {"a": float("nan")}}], ValueError, "not JSON compliant"),
        ([{"npy": np.array([object()], object)}], ValueError, "sample 0, 'npy'"),
        ([{"txt": None}], ValueError, "expected at least one part"),
        ([{"a/b": "x"}], ValueError, "without slashes"),
        ([{"__key__": "a", "txt": "x"}] * 2, ValueError, "sample 1: its key 'a'"),
        ([{"__key__": key, "txt": "x"} for key in "aba"], ValueError, "sample 2: its key 'a' is that of another"),
        (
            [{"txt": "x", "TXT": "y"}],
            ValueError,
            "sample 0: expected extensions that differ in lower case, .* got 'TXT' twice",
        ),
        ([{"__key__": "__a__/b", "txt": "x"}], ValueError, "readers skip '__a__/b.txt'"),
        ([{"__key__": "a\0b", "txt": "x"}], ValueError, "expected a key, a string"),
        ([{"txt": "x"}, {"txt": "\ud800"}], ValueError, "sample 1, 'txt': .*surrogates"),
        ([{"__key__": "\ud800", "txt": "x"}], ValueError, "sample 0, 'txt': .*surrogates"),
    ],
)
def test_samples_that_can_not_be_written_are_named(
    tmp_path: pathlib.Path, wrong: list[Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        write_tar(wrong, tmp_path / "a-{}.tar")
    assert not list(tmp_path.glob("*.tar"))
    with pytest.raises(ValueError, match="a placeholder for the shard number"):
        write_tar(wrong, tmp_path / "a.tar")


def _open(urls: list[str], cache: str, results: Any) -> None:
    results.put([sample["txt"] for sample in TarDataset(urls, {"txt": "str"}, cache_folder=cache)])


def test_compressed_archives_are_unpacked_once(tmp_path: pathlib.Path) -> None:
    paths = write_tar(Samples(40), tmp_path / "a-{}.tar", shard_bytes=100_000)
    packed = []
    for path in paths:
        contents = pathlib.Path(path).read_bytes()
        # Two members, as from `cat a.gz b.gz`.
        pathlib.Path(f"{path}.gz").write_bytes(gzip.compress(contents[:5000]) + gzip.compress(contents[5000:]))
        packed.append(f"{path}.gz")
    cache = tmp_path / "cache"
    context = multiprocessing.get_context("forkserver")
    results = context.Queue()
    processes = [context.Process(target=_open, args=(packed, str(cache), results)) for _ in range(3)]
    for process in processes:
        process.start()
    texts = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert texts == [[sample(index)["txt"] for index in range(40)]] * 3
    assert len(list(cache.glob("*.unpacked"))) == len(packed)
    assert not list(cache.glob("*.unfinished"))
    dataset = TarDataset(packed, FIELDS, cache_folder=cache)
    assert dataset[3]["__url__"] == packed[0]
    with pytest.raises(ValueError, match=r"decompresses to more than .* raise cache_bytes"):
        TarDataset(packed, FIELDS, cache_folder=tmp_path / "small", cache_bytes=50_000)
    assert not list((tmp_path / "small").glob("*.unfinished"))
    # The first archive is removed to make space for the second.
    total = sum(os.path.getsize(path) for path in paths)
    assert len(TarDataset(packed[:1], FIELDS, cache_folder=tmp_path / "bounded", cache_bytes=total)) > 5
    bound = max(os.path.getsize(path) for path in paths) + 1000
    assert len(TarDataset(packed[1:2], FIELDS, cache_folder=tmp_path / "bounded", cache_bytes=bound)) > 5
    assert len(list((tmp_path / "bounded").glob("*.unpacked"))) == 1


def test_zstandard_archives_are_read_and_damage_is_named(tmp_path: pathlib.Path) -> None:
    zstd = ["zstd", "-q", "-f"]
    paths = write_tar(Samples(40), tmp_path / "a-{}.tar", shard_bytes=1 << 20)
    try:
        subprocess.run([*zstd, paths[0], "-o", f"{paths[0]}.zst"], check=True)
    except FileNotFoundError:
        pytest.skip("zstd is not installed")
    whole = pathlib.Path(f"{paths[0]}.zst").read_bytes()
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    (tmp_path / "b.tar.zst").write_bytes(skippable + whole + skippable)
    dataset = TarDataset(tmp_path / "b.tar.zst", FIELDS, cache_folder=tmp_path / "cache")
    assert [sample["txt"] for sample in dataset] == [sample(index)["txt"] for index in range(40)]
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for number, contents in enumerate((whole[:-5], whole[: len(whole) // 2], bytes(damaged), b"no zstd at all")):
        path = tmp_path / f"{number}.tar.zst"
        path.write_bytes(contents)
        with pytest.raises(
            ValueError, match=rf"{number}\.tar\.zst, byte \d+: after \d+ decompressed bytes: .*damaged or truncated"
        ):
            TarDataset(path, FIELDS, cache_folder=tmp_path / "cache")


def test_a_bomb_is_bounded_and_a_damaged_gzip_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    with pytest.raises(ValueError, match="decompresses to more than the 1000000 bytes"):
        TarDataset(path, cache_folder=tmp_path / "cache", cache_bytes=1_000_000)
    assert not [name for name in os.listdir(tmp_path / "cache") if not name.endswith(".lock")]
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[-8] ^= 1  # the checksum
    for contents in (whole[:-1], whole[:1000], bytes(damaged), b"", b"no gzip"):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=r"bomb\.tar\.gz, byte \d+"):
            TarDataset(path, cache_folder=tmp_path / "cache")


def test_keys_may_come_again_in_another_archive(tmp_path: pathlib.Path) -> None:
    samples = [{"__key__": key, "txt": f"{number}" * 4000} for number, key in enumerate("abcabc")]
    paths = write_tar(samples, tmp_path / "a-{}.tar", shard_bytes=16_000)
    assert len(paths) == 2
    assert [sample["__key__"] for sample in TarDataset(paths, {"txt": "str"})] == [*"abcabc"]


def test_an_archive_that_is_named_twice_is_unpacked_once(tmp_path: pathlib.Path) -> None:
    (path,) = write_tar(Samples(300), tmp_path / "a-{}.tar")
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))
    for turn in range(10):
        cache = tmp_path / f"cache {turn}"
        twice = TarDataset([packed, packed], {"txt": "str"}, cache_folder=cache)
        assert len(twice) == 600
        assert len([*cache.glob("*.unpacked")]) == 1
        assert not [*cache.glob("*.unfinished")]


def test_threads_that_unpack_one_archive_do_not_meet(tmp_path: pathlib.Path) -> None:
    (path,) = write_tar(Samples(300), tmp_path / "a-{}.tar")
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))
    with ThreadPoolExecutor(4) as threads:
        for turn in range(10):
            cache = tmp_path / f"cache {turn}"
            opened = [threads.submit(TarDataset, packed, {"txt": "str"}, cache_folder=cache) for _ in range(4)]
            assert [len(each.result()) for each in opened] == [300] * 4
