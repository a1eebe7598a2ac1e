"""Side files (indices, checksums, leases, unpacked copies): no change to them makes a sample wrong.

`SLUICEGATE_SIDE_FILE_CHANGES=715 pytest tests/python/formats -k "side_files or changed_records"` makes that many
changes to each of 14 kinds: 10,000 in about ten minutes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import random
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from cases.byte_changes import CHANGES, SEED, changed
from doubles import tar_files, tfrecord_files
from sluicegate import CsvDataset, ImageFolderDataset, JsonLinesDataset, ParquetDataset, TarDataset, TFRecordDataset

# The modification time of all data, so that replacing data does not change it.
_TIME = 1_700_000_000_000_000_000


def _rows(variant: int, count: int) -> list[tuple[int, str]]:
    generator = random.Random(variant)
    # All variants have texts of the same lengths, in different orders.
    lengths = [10 + number * 37 % 200 for number in range(count)]
    generator.shuffle(lengths)
    return [(number * 7 + variant, chr(97 + variant) * length) for number, length in enumerate(lengths)]


def _put_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def _tar(path: Path, variant: int) -> None:
    members = []
    for number, text in _rows(variant, 60):
        if number % 5:
            members.append((f"{number:04}.cls", b"%d" % (number % 9)))
        members.append((f"{number:04}.txt", text.encode()))
    tar_files.put(path, members)


def _json_lines(path: Path, variant: int, broken: bool = False) -> None:
    lines = [b'{"n": %d, "t": "%s%s"}\n' % (n, text.encode(), b"y" * 900) for n, text in _rows(variant, 4700)]
    for place in range(variant, 4700 if broken else 0, 400):
        lines[place] = b"?" * (len(lines[place]) - 1) + b"\n"
    _put_lines(path, lines)


def _csv(path: Path, variant: int) -> None:
    _put_lines(path, [b"n,t\n", *(b"%d,%s%s\n" % (n, text.encode(), b"y" * 900) for n, text in _rows(variant, 4700))])


def _tfrecord(path: Path, variant: int) -> None:
    # Few distinct records, because Python is slow at their checksums.
    framed = [tfrecord_files.framed(b"%d" % variant + b"y" * (8500 + 97 * number)) for number in range(10)]
    generator = random.Random(variant)
    lines = framed * 50
    generator.shuffle(lines)
    _put_lines(path, lines)


def _parquet(path: Path, variant: int) -> None:
    numbers = np.random.default_rng(variant).integers(0, 7, 300_000)
    table = pyarrow.table({"n": np.arange(300_000) + variant, "s": numbers})
    pyarrow.parquet.write_table(
        table, path, row_group_size=20_000, compression="none", use_dictionary=False, write_statistics=False
    )


def _images(path: Path, variant: int) -> None:
    for name in ("a", "b"):
        (path / name).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            header = b"P6 600 600 255 " if (number + variant) % 3 else b"P9 600 600 255 "
            (path / name / f"{number}.ppm").write_bytes(header + bytes([variant * 10 + number]) * (600 * 600 * 3))


def _gzip(path: Path, variant: int) -> None:
    plain = path.with_suffix(".plain")
    _tar(plain, variant)
    path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()


# By kind: the name, the function that writes the data, and the one that reads it with side files in a folder.
KINDS: dict[str, tuple[str, Callable[[Path, int], None], Callable[[Path, Path], Any]]] = {
    "tar": ("x.tar", _tar, lambda path, side: TarDataset(path, {"txt": "str"}, index_folder=side)),
    "tar with members missing": (
        "x.tar",
        _tar,
        lambda path, side: TarDataset(path, {"txt": "str", "cls": int}, on_missing="skip", index_folder=side),
    ),
    "JSON lines": ("x.jsonl", _json_lines, lambda path, side: JsonLinesDataset(path, {"n": int}, index_folder=side)),
    "broken JSON lines": (
        "x.jsonl",
        lambda path, variant: _json_lines(path, variant, True),
        lambda path, side: JsonLinesDataset(path, {"n": int}, on_error="skip", index_folder=side),
    ),
    "CSV": ("x.csv", _csv, lambda path, side: CsvDataset(path, {"n": int}, index_folder=side)),
    "TFRecord": ("x.tfrecord", _tfrecord, lambda path, side: TFRecordDataset(path, "bytes", index_folder=side)),
    "filtered Parquet": (
        "x.parquet",
        _parquet,
        lambda path, side: ParquetDataset(path, filter=("s", "<", 3), index_folder=side),
    ),
    "broken images": (
        "images",
        _images,
        lambda path, side: ImageFolderDataset(path, on_error="skip", index_folder=side),
    ),
    "unpacked": ("x.tar.gz", _gzip, lambda path, side: TarDataset(path, {"txt": "str"}, cache_folder=side)),
}

every_kind = pytest.mark.parametrize("kind", KINDS)


class Case:
    """Data of one kind, and its side files."""

    def __init__(self, kind: str, folder: Path, variant: int = 0) -> None:
        name, self._put, self._open = KINDS[kind]
        self.path, self.side = folder / "data" / name, folder / "side"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.put(variant)

    def put(self, variant: int) -> None:
        """Write the data in place, with the same size and time as before."""
        self._put(self.path, variant)
        paths = [self.path, *self.path.rglob("*")] if self.path.is_dir() else [self.path]
        for path in paths:
            os.utime(path, ns=(_TIME, _TIME))

    def read(self) -> str:
        """Return a digest of all samples."""
        dataset = self._open(self.path, self.side)
        if len(dataset) >= 100:
            return hashlib.sha256(pickle.dumps(_plain(dataset[:]))).hexdigest()
        samples = [_plain(dataset[index]) for index in range(len(dataset))]
        return hashlib.sha256(pickle.dumps(samples)).hexdigest()

    def files(self) -> list[Path]:
        return sorted(path for path in self.side.iterdir() if path.suffix not in (".lease", ".lock"))


def _plain(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: _plain(part) for name, part in batch.items() if name != "__url__"}
    if isinstance(batch, tuple):
        return [_plain(part) for part in batch]
    return batch.tolist() if hasattr(batch, "tolist") else batch


@pytest.mark.timeout(4 * 3600)
@every_kind
def test_no_change_of_a_side_file_makes_a_sample_wrong(tmp_path: Path, kind: str) -> None:
    generator = random.Random(f"{SEED} {kind}")
    other = Case(kind, tmp_path / "other", 1)
    assert other.read()
    case = Case(kind, tmp_path / "case")
    expected = case.read()
    assert expected != other.read()
    assert case.read() == expected
    kept = {path: path.read_bytes() for path in case.files()}
    assert kept
    outcomes = {"right": 0, "error": 0, "noticed": 0}
    for turn in range(CHANGES):
        path = generator.choice(list(kept))
        others = [each.read_bytes() for each in other.files()] + [text for name, text in kept.items() if name != path]
        found = path.stat()
        # In place, as on a damaged disk: the inode stays.
        with open(path, "r+b") as file:
            file.write(changed(kept[path], others, generator))
            file.truncate()
        if generator.randrange(2):
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        failed = str(case.side)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                read = case.read()
                outcomes["right"] += 1
            except (OSError, ValueError) as error:
                # The error names the side file, and the next attempt recreates it.
                outcomes["error"] += 1
                failed = str(error)
                read = case.read()
        assert read == expected, f"change {turn} of {path.name} with seed {SEED}"
        assert str(case.side) in failed, f"change {turn} of {path.name} with seed {SEED}"
        outcomes["noticed"] += any(str(case.side) in str(each.message) for each in said)
        kept = {each: each.read_bytes() for each in case.files()}
    print(f"{kind}: {CHANGES} changes, 0 wrong, {outcomes}")
    assert outcomes["noticed"] + outcomes["error"] > 0


@every_kind
def test_data_replaced_by_data_of_the_same_size_and_time_is_scanned_again(tmp_path: Path, kind: str) -> None:
    case = Case(kind, tmp_path)
    first = case.read()
    for variant in (1, 0, 2):
        case.put(variant)
        fresh = Case(kind, tmp_path / f"fresh {variant}", variant)
        assert case.read() == fresh.read()
    case.put(0)
    assert case.read() == first
    if case.path.is_dir():
        return
    # A different file with this name, rather than different contents.
    replacement = case.path.with_name("replacement")
    KINDS[kind][1](replacement, 1)
    os.utime(replacement, ns=(_TIME, _TIME))
    os.replace(replacement, case.path)
    assert case.read() == Case(kind, tmp_path / "fresh", 1).read()


def test_two_lines_that_change_places_are_scanned_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [b'{"n": %d, "t": "%s"}\n' % (n, b"y" * (900 + n % 2)) for n in range(5000)]
    for swap in (False, True):
        if swap:
            lines[2500], lines[2501] = lines[2501], lines[2500]
        _put_lines(path, lines)
        os.utime(path, ns=(_TIME, _TIME))
        dataset: Any = JsonLinesDataset(path, {"n": int})
        assert dataset[2499:2503]["n"].tolist() == ([2499, 2501, 2500, 2502] if swap else [2499, 2500, 2501, 2502])


def _beside(path: Path) -> Path:
    (index,) = path.parent.glob("*.sluicegate-index")
    return index


def test_a_copied_data_set_keeps_its_index_and_a_changed_copy_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.jsonl"
    path.parent.mkdir()
    _json_lines(path, 0)
    os.utime(path, ns=(_TIME, _TIME))
    expected = JsonLinesDataset(path, {"n": int})[:]["n"].tolist()
    shutil.copytree(path.parent, tmp_path / "b")
    copy = tmp_path / "b" / "x.jsonl"
    time = _beside(copy).stat().st_mtime_ns
    # The copied index is used, and updated for the copy.
    assert JsonLinesDataset(copy, {"n": int})[:]["n"].tolist() == expected
    renewed = _beside(copy)
    assert renewed.stat().st_mtime_ns != time, "it knows the copy now"
    inode = renewed.stat().st_ino
    assert JsonLinesDataset(copy, {"n": int})[:]["n"].tolist() == expected
    assert _beside(copy).stat().st_ino == inode
    shutil.copytree(path.parent, tmp_path / "c")
    changed = tmp_path / "c" / "x.jsonl"
    _json_lines(changed, 1)
    os.utime(changed, ns=(_TIME, _TIME))
    assert JsonLinesDataset(changed, {"n": int})[:]["n"].tolist() == [n for n, _ in _rows(1, 4700)]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o644, 0o644), (0o755, 0o644)])
def test_side_files_are_not_open_to_more_people_than_their_data(tmp_path: Path, mode: int, expected: int) -> None:
    path, packed, cache = tmp_path / "x.tar", tmp_path / "y.tar.gz", tmp_path / "made" / "cache"
    _tar(path, 0)
    _gzip(packed, 0)
    path.chmod(mode)
    packed.chmod(mode)
    TarDataset(path, {"txt": "str"})
    assert _mode(_beside(path)) == expected
    dataset = TarDataset(packed, {"txt": "str"}, cache_folder=cache)
    assert (_mode(cache), _mode(cache.parent)) == (0o700, 0o700)
    made = [each for each in cache.iterdir() if each.suffix in (".unpacked", ".sums", ".sluicegate-index")]
    assert [_mode(each) for each in made] == [expected] * 3
    assert len(dataset) == 60
    # An index of two files gets the permissions that both files grant.
    open_ = tmp_path / "z.tar"
    _tar(open_, 1)
    open_.chmod(0o604)
    side = tmp_path / "side"
    TarDataset([path, open_], {"txt": "str"}, index_folder=side)
    (index,) = side.glob("*.sluicegate-index")
    assert (_mode(side), _mode(index)) == (0o700, expected & 0o604)


def test_links_and_fifos_in_the_place_of_side_files_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_CACHE", str(tmp_path / "user"))
    path, other, cache = tmp_path / "x.tar", tmp_path / "other", tmp_path / "cache"
    _tar(path, 0)
    expected = TarDataset(path, {"txt": "str"})[3]
    index = _beside(path)
    lock = index.with_name(f"{index.name}.lock")
    other.write_text("of others")
    for make in (
        lambda where: where.symlink_to(other),
        lambda where: where.hardlink_to(other),
        lambda where: os.mkfifo(where),
        lambda where: where.symlink_to(tmp_path / "missing"),
    ):
        for where in (lock, index):
            index.unlink(missing_ok=True)
            make(where)
            with warnings.catch_warnings():
                # A file that is not an index counts as damaged.
                warnings.simplefilter("ignore")
                assert TarDataset(path, {"txt": "str"}, index_folder=None)[3] == expected
            assert other.read_text() == "of others"
            assert not (tmp_path / "missing").exists()
            lock.unlink(missing_ok=True)
    packed = tmp_path / "y.tar.gz"
    _gzip(packed, 0)
    TarDataset(packed, {"txt": "str"}, cache_folder=cache)
    (copy,) = cache.glob("*.unpacked")
    for where in (copy, copy.with_name(f"{copy.name}.sums"), cache / "room.lock", copy.with_name(f"{copy.name}.lock")):
        where.unlink(missing_ok=True)
        where.symlink_to(other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert TarDataset(packed, {"txt": "str"}, cache_folder=cache)[3]["txt"] == expected["txt"]
        assert other.read_text() == "of others"
        if where.name.endswith(".lock"):
            where.unlink()
