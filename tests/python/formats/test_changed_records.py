"""Manifests, leases, and lists next to archives: no change to them makes a sample wrong.

`SLUICEGATE_SIDE_FILE_CHANGES=800 pytest tests/python/formats/test_changed_records.py` makes that many changes
to each kind.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases.byte_changes import CHANGES, SEED, changed
from doubles import tar_files
from sluicegate import TarDataset, write_tokens

pytestmark = pytest.mark.timeout(4 * 3600)


def _texts(dataset: Any) -> list[str]:
    texts: list[str] = dataset[:]["txt"]
    return texts


def _archive(path: Path, letter: str, count: int = 30) -> None:
    tar_files.put(path, [(f"{number:05}.txt", f"{letter}{number}".encode()) for number in range(count)])


def test_no_change_of_a_manifest_makes_a_shard_wrong(tmp_path: Path) -> None:
    generator = random.Random(f"{SEED} manifest")
    pattern = tmp_path / "out" / "a-{:03d}.bin"
    pattern.parent.mkdir()

    def documents(variant: int) -> list[list[int]]:
        return [[variant, number] * (number % 5 + 1) for number in range(40)]

    def write(variant: int = 0, **more: Any) -> bytes:
        paths = write_tokens(documents(variant), pattern, shard_bytes=100, **more)
        assert sorted(pattern.parent.glob("a-*.bin")) == [Path(path) for path in paths]
        return b"".join(Path(path).read_bytes() for path in paths)

    write(1)
    other = (pattern.parent / "a-.bin.shards.json").read_bytes()
    expected = write(resume=False)
    kept = {path: path.read_bytes() for path in pattern.parent.iterdir()}
    manifest = pattern.parent / "a-.bin.shards.json"
    assert write() == expected
    outcomes = {"right": 0, "error": 0}
    for turn in range(CHANGES):
        for path in pattern.parent.iterdir():
            if path not in kept:
                path.unlink()
        for path, contents in kept.items():
            path.write_bytes(contents)
        manifest.write_bytes(changed(kept[manifest], [other], generator))
        # Files may be missing, as after a kill.
        for path in generator.sample(sorted(kept), generator.choice([0, 0, 1, 3])):
            if path != manifest:
                path.unlink()
        failed = ""
        try:
            assert write() == expected, f"change {turn} with seed {SEED}"
            outcomes["right"] += 1
        except (OSError, ValueError) as error:
            failed = str(error)
        if failed:
            outcomes["error"] += 1
            assert manifest.name in failed, f"change {turn} with seed {SEED}"
            # Apply the remedy that the error names.
            for path in pattern.parent.glob("a-*.bin"):
                path.unlink()
            assert write(resume=False) == expected, f"change {turn} with seed {SEED}"
    print(f"manifest: {CHANGES} changes, 0 wrong, {outcomes}")
    assert outcomes["error"] > 0


def test_no_change_of_a_lease_makes_a_sample_wrong(tmp_path: Path) -> None:
    generator = random.Random(f"{SEED} lease")
    cache, paths = tmp_path / "cache", [tmp_path / f"{letter}.tar.gz" for letter in "ab"]
    for path, letter in zip(paths, "ab", strict=True):
        _archive(path.with_suffix(""), letter)
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))

    def opened(path: Path, limit: int) -> Any:
        return TarDataset(path, {"txt": "str"}, cache_folder=cache, cache_bytes=limit)

    size = paths[0].with_suffix("").stat().st_size
    expected = [f"a{number}" for number in range(30)]
    outcomes = {"kept": 0, "removed": 0}
    for turn in range(CHANGES):
        one = opened(paths[0], 2 * size)
        (lease,) = cache.glob("*.lease")
        (copy,) = cache.glob("a.tar.*.unpacked")
        text, of_other = lease.read_bytes(), b""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            two = opened(paths[1], 2 * size)
            of_other = next(each.read_bytes() for each in cache.glob("*.lease") if each != lease)
            del two
            for each in cache.glob("b.tar.*"):
                each.unlink()
            lease.write_bytes(changed(text, [of_other], generator))
            two = opened(paths[1], size)
        assert _texts(two) == [f"b{number}" for number in range(30)]
        # The copy may be removed only if the lease is intact, its own or the other archive's; open files stay readable.
        outcomes["kept" if copy.exists() else "removed"] += 1
        assert copy.exists() or lease.read_bytes() in (text, of_other), f"change {turn} with seed {SEED}"
        assert _texts(one) == expected, f"change {turn} with seed {SEED}"
        del one, two
        for each in cache.glob("b.tar.*"):
            each.unlink()
    print(f"lease: {CHANGES} changes, 0 wrong, {outcomes}")
    assert outcomes["kept"] > outcomes["removed"]


def _wids(folder: Path, letter: str) -> Path:
    shards = [{"url": f"{name}.tar", "nsamples": 30} for name in (f"{letter}0", f"{letter}1")]
    path = folder / f"{letter}.json"
    path.write_text(json.dumps({"wids_version": 1, "shardlist": shards}))
    return path


def _offsets(folder: Path, letter: str) -> Path:
    path = folder / f"{letter}0.tar.idx"
    shift = 0 if letter == "a" else 512
    path.write_bytes(struct.pack("<2201Q", *(number * 1024 + shift for number in range(2201))))
    return path


def _counts(folder: Path, letter: str) -> Path:
    meta = folder / letter / ".nv-meta"
    meta.mkdir(parents=True)
    names = [f"../{letter}0.tar", f"../{letter}1.tar"]
    (meta / "split.yaml").write_text("split_parts:\n  train:\n" + "".join(f"  - {name}\n" for name in names))
    path = meta / ".info.json"
    path.write_text(json.dumps({"shard_counts": dict.fromkeys(names, 30)}))
    return path


# By kind: the function that writes the list for the archives of a letter, and the first archive's number of samples.
LISTS: dict[str, tuple[Callable[[Path, str], Path], int]] = {
    "wids": (_wids, 30),
    "offsets": (_offsets, 2200),
    "counts": (_counts, 30),
}


@pytest.mark.parametrize("kind", LISTS)
def test_no_change_of_a_list_next_to_archives_makes_a_sample_wrong(tmp_path: Path, kind: str) -> None:
    generator = random.Random(f"{SEED} {kind}")
    put, count = LISTS[kind]
    for letter in "ab":
        _archive(tmp_path / f"{letter}0.tar", letter, count)
        _archive(tmp_path / f"{letter}1.tar", letter)
    path, other = put(tmp_path, "a"), put(tmp_path, "b").read_bytes()
    kept = path.read_bytes()
    urls: Any = tmp_path / "a" if kind == "counts" else [tmp_path / "a0.tar", tmp_path / "a1.tar"]

    def read() -> list[str]:
        # Without an index, the archives are read each time.
        return _texts(TarDataset(urls, {"txt": "str"}, index_folder="/proc/none"))

    expected = read()
    assert len(expected) == count + 30
    outcomes = {"right": 0, "error": 0, "noticed": 0}
    for turn in range(CHANGES):
        path.write_bytes(changed(kept, [other], generator))
        failed = path.name
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                assert read() == expected, f"change {turn} with seed {SEED}"
                outcomes["right"] += 1
            except (OSError, ValueError) as error:
                outcomes["error"] += 1
                failed = str(error)
        assert path.name in failed, f"change {turn} with seed {SEED}"
        outcomes["noticed"] += bool(said)
    print(f"{kind}: {CHANGES} changes, 0 wrong, {outcomes}")
