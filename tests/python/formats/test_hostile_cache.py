"""Links, FIFOs, folders, and foreign files in place of every file that the package writes next to data.

`SLUICEGATE_SIDE_FILE_CHANGES=2000 pytest tests/python/formats/test_hostile_cache.py` makes that many placements
for each job.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cases.byte_changes import CHANGES, SEED
from checks.resources import descriptors
from doubles import tar_files
from sluicegate import TarDataset, write_parquet, write_tar, write_tokens

pytestmark = pytest.mark.timeout(4 * 3600)

_TEXTS = [f"text {number}" for number in range(30)]


def _read(path: Path) -> Callable[[Path], Any]:
    def job(folder: Path) -> Any:
        return TarDataset(path, {"txt": "str"}, index_folder=folder, cache_folder=folder)[:]["txt"]

    return job


def _write(function: Any, suffix: str, sample: Any) -> Callable[[Path], Any]:
    def job(folder: Path) -> Any:
        paths = function([sample] * 30, folder / f"a-{{:03d}}.{suffix}", shard_bytes=600)
        assert sorted(map(str, folder.glob(f"a-*.{suffix}"))) == paths
        return [Path(path).read_bytes() for path in paths]

    return job


def _jobs(data: Path) -> dict[str, Callable[[Path], Any]]:
    tar_files.put(data / "x.tar", [(f"{number:02}.txt", text.encode()) for number, text in enumerate(_TEXTS)])
    (data / "x.tar.gz").write_bytes(gzip.compress((data / "x.tar").read_bytes()))
    return {
        "index": _read(data / "x.tar"),
        "unpacked": _read(data / "x.tar.gz"),
        "tar": _write(write_tar, "tar", {"txt": "a text"}),
        "parquet": _write(write_parquet, "parquet", {"number": torch.arange(20)}),
        "tokens": _write(write_tokens, "bin", list(range(50))),
    }


def _names(job: Callable[[Path], Any], folder: Path) -> list[str]:
    """Return the names of the files of a job, finished or not; other names are random."""
    folder.mkdir()
    job(folder)
    made = [path.name for path in folder.iterdir()]
    return sorted({name + end for name in made for end in ("", ".lock", ".unfinished", ".sums")} | {"room.lock"})


def _place(path: Path, other: Path, how: str) -> None:
    """Put something at `path`, in place of the file there."""
    if how == "link":
        path.symlink_to(other)
    elif how == "link to nothing":
        path.symlink_to(other.with_name("missing"))
    elif how == "link to itself":
        path.symlink_to(path)
    elif how == "name of another":
        path.hardlink_to(other)
    elif how == "FIFO":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
        (path / "file").write_text("of others")
    else:
        path.write_text("of others")
        path.chmod(0o666 if how == "open to all" else 0)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)


HOWS = ["link", "link to nothing", "link to itself", "name of another", "FIFO", "folder", "open to all", "closed"]


@pytest.mark.parametrize("name", ["index", "unpacked", "tar", "parquet", "tokens"])
def test_files_placed_by_other_users_are_neither_followed_nor_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SLUICEGATE_CACHE", str(tmp_path / "user"))
    generator = random.Random(f"{SEED} {name}")
    (tmp_path / "data").mkdir()
    job = _jobs(tmp_path / "data")[name]
    names = _names(job, tmp_path / "first")
    (tmp_path / "whole").mkdir()
    expected = job(tmp_path / "whole")
    others = tmp_path / "others"
    others.mkdir()
    other, folder = others / "file", tmp_path / "cache"
    other.write_text("of others")
    other.chmod(0o640)
    outcomes = {"right": 0, "error": 0}
    for turn in range(CHANGES):
        shutil.rmtree(folder, ignore_errors=True)
        if generator.randrange(2):
            folder.mkdir()
        else:
            shutil.copytree(tmp_path / "whole", folder)
        for where in generator.sample(names, generator.choice([1, 1, 2, 3])):
            (folder / where).unlink(missing_ok=True)
            _place(folder / where, other, generator.choice(HOWS))
        failed = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert job(folder) == expected, f"placement {turn} with seed {SEED}"
                outcomes["right"] += 1
            except (OSError, ValueError) as error:
                failed = str(error)
                outcomes["error"] += 1
        assert not failed or str(folder) in failed, f"placement {turn} with seed {SEED}: {failed}"
        assert os.listdir(others) == ["file"], f"placement {turn} with seed {SEED}"
        found = other.stat()
        assert (other.read_text(), stat.S_IMODE(found.st_mode)) == ("of others", 0o640), f"placement {turn}"
    print(f"{name}: {CHANGES} placements at {len(names)} names, 0 wrong, {outcomes}")
    assert outcomes["right"] > 0


def test_a_folder_in_the_place_of_a_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "a-.tar.shards.json").mkdir()
    opened = descriptors()
    with pytest.raises(OSError, match=r"not a regular file; remove it: .*a-\.tar\.shards\.json"):
        write_tar([{"txt": "a text"}], tmp_path / "a-{}.tar")
    assert descriptors() == opened
