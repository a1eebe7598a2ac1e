"""`write_zarr`: killed or interrupted jobs resume, and the store equals that of an uninterrupted one."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.zarr_stores import (
    OPTIONS,
    ROWS,
    Interrupted,
    X,
    Y,
    assert_stored,
    batches,
    begun,
    files,
)
from checks.programs import Run, exit_code
from sluicegate import DataLoader, StackDataset, write_zarr

zarr = pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")

from sluicegate.writers import zarr_job, zarr_store  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Counting(StackDataset[Any]):
    """Counts how often each sample is read, and kills its process at one."""

    def __init__(self, killed_at: int | None = None) -> None:
        super().__init__(x=X, y=Y)
        self.reads = [0] * len(X)
        self.killed_at = killed_at

    def __getitem__(self, index: int) -> Any:
        self.reads[index] += 1
        if index == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)

    __getitems__ = None


def save_each_row() -> None:
    zarr_job._INTERVAL = 0


def write_and_die(path: Path, killed_at: int) -> None:
    save_each_row()
    # Makes each batch a sample.
    write_zarr(lambda start: DataLoader(Counting(killed_at), sampler=range(start, len(X))), path, **OPTIONS)


@pytest.mark.parametrize("killed_at", [0, 3, 4, 13, 22])
def test_killed_it_resumes_after_the_last_complete_row(tmp_path: Path, killed_at: int) -> None:
    path = tmp_path / "store"
    assert exit_code(write_and_die, path, killed_at) == -signal.SIGKILL
    assert not path.exists()
    rows = 0
    if killed_at:
        assert (tmp_path / "store.unfinished").exists()
        rows = len(json.loads((tmp_path / "store.shards.json").read_text())["rows"])
        # One row may still be in the writing thread.
        assert killed_at // 4 - 1 <= rows <= killed_at // 4
        for folder in ("", "x"):
            # As if it had been killed while zarr wrote the metadata of an array that grows.
            (tmp_path / "store.unfinished" / folder / "zarr.7f03.partial").write_text("{")
    starts: list[int] = []
    kept = files(tmp_path / "store.unfinished" / "x" / "c") if rows else {}

    def rest(start: int) -> Any:
        starts.append(start)
        return DataLoader(ROWS, sampler=range(start, len(X)))

    write_zarr(rest, path, **OPTIONS)
    assert starts == [4 * rows]
    assert_stored(path)
    whole = files(path / "x" / "c")
    assert all(whole[name] == data for name, data in kept.items() if int(name.split("/")[0]) < rows)
    write_zarr(lambda start: batches(start, 4), tmp_path / "at once", **OPTIONS)
    assert files(tmp_path / "at once") == files(path)


JOB = """
import numpy as np
from sluicegate import write_zarr
from sluicegate.writers import zarr_job
zarr_job._INTERVAL = 0

class Rows:
    def __len__(self):
        return 600

    def __getitem__(self, index):
        if index == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full(50, index)

write_zarr(Rows(), path, shards={"sample": 10}, num_workers=workers)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_program_that_was_killed_resumes(run: Run, tmp_path: Path, workers: int) -> None:
    path = tmp_path / "store"
    # A killed worker process is an error of the program, which then ends.
    ended = run(JOB, path=str(path), workers=workers, killed_at=500, deadline=100.0)
    ended.check(1 if workers else -signal.SIGKILL, stderr=None)
    assert not path.exists()
    known = json.loads((tmp_path / "store.shards.json").read_text())
    assert known["samples"] == 10 * len(known["rows"]) >= 200
    run(JOB, path=str(path), workers=workers, killed_at=known["samples"] - 1, deadline=100.0).check(stderr=None)
    assert (zarr.open(path)["data"][:] == np.arange(600)[:, None]).all()


def test_a_map_style_dataset_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zarr_job, "_INTERVAL", 0)
    dataset = Counting()
    write_zarr(dataset, tmp_path / "store", **OPTIONS)
    assert dataset.reads == [1] * len(X)
    before = {path: os.stat(path).st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    # A finished store is kept, and no samples are read.
    write_zarr(dataset, tmp_path / "store", **OPTIONS)
    assert dataset.reads == [1] * len(X)
    assert {path: os.stat(path).st_mtime_ns for path in (tmp_path / "store").rglob("*")} == before
    assert_stored(tmp_path / "store")


def test_each_shard_is_written_once_and_none_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    found: list[str] = []
    local = zarr.storage.LocalStore
    get, put = local.get, local.set

    async def counted_get(self: Any, key: str, *arguments: Any, **more: Any) -> Any:
        value = await get(self, key, *arguments, **more)
        found.extend([key] if "/c/" in key and value is not None else [])
        return value

    async def counted_set(self: Any, key: str, *arguments: Any, **more: Any) -> Any:
        written.extend([key] if "/c/" in key else [])
        return await put(self, key, *arguments, **more)

    monkeypatch.setattr(local, "get", counted_get)
    monkeypatch.setattr(local, "set", counted_set)
    write_zarr(batches(), tmp_path / "store", **OPTIONS)
    assert len(written) == len(set(written)) == 18
    assert found == []


def kill_at_step(step: int, write: Callable[[], Any]) -> int | None:
    """Kill a process at a step of its file operations; return 0 if there are fewer steps."""

    def job() -> None:
        save_each_row()
        steps = itertools.count()

        def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **more: Any) -> Any:
                if next(steps) == step:
                    if function.__name__ == "rmtree":
                        # In the middle of removing the tree.
                        os.remove(next(Path(arguments[0]).rglob("x/zarr.json")))
                    os.kill(os.getpid(), signal.SIGKILL)
                result = function(*arguments, **more)
                if next(steps) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return called

        for owner, name in (
            (zarr_job.RecordFile, "write"),
            (zarr_job.os, "rename"),
            (zarr_job.os, "remove"),
            (shutil, "rmtree"),
            (zarr_store.ZarrStore, "create"),
            (zarr_store.ZarrStore, "write"),
            (zarr_store.ZarrStore, "finish"),
        ):
            setattr(owner, name, deadly(getattr(owner, name)))
        write()

    return exit_code(job)


@pytest.mark.parametrize("kind", ["new", "replaced", "stream"])
def test_killed_at_any_step_it_resumes(tmp_path: Path, kind: str) -> None:
    # Three rows.
    options = {**OPTIONS, "shards": {"time": 8, "lat": 6}}
    (tmp_path / "expected").mkdir()
    write_zarr(ROWS, tmp_path / "expected" / "store", **options)
    assert_stored(tmp_path / "expected" / "store")
    expected = files(tmp_path / "expected" / "store")
    for step in itertools.count():
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "store"
        if kind == "replaced":
            write_zarr(batches(3), path, **options)
        dataset = DataLoader(ROWS, batch_size=3) if kind == "stream" else ROWS
        ended = kill_at_step(step, lambda dataset=dataset, path=path: write_zarr(  # type: ignore[misc]
            dataset, path, **options, resume=kind != "replaced"
        ))  # fmt: skip
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        if path.exists() and kind != "replaced":
            assert files(path) == expected
        # A job killed before it removed the old store removes it now; one killed later resumes.
        record = folder / "store.shards.json"
        is_old = record.exists() and json.loads(record.read_text())["arguments"]["length"] != (
            None if kind == "stream" else len(X)
        )
        write_zarr(dataset, path, **options, resume=not is_old)
        assert files(path) == expected
        assert sorted(os.listdir(folder)) == ["store", "store.shards.json"]
    assert step > 20


@pytest.mark.parametrize("stop", [0, 1, 4, 5, 12, 22])
def test_interrupted_anywhere_it_resumes(tmp_path: Path, stop: int) -> None:
    path = tmp_path / "store"
    with pytest.raises(ZeroDivisionError):
        write_zarr(DataLoader(Interrupted(stop), batch_size=1), path, **OPTIONS)
    left = sorted(each.name for each in tmp_path.iterdir())
    # Without a complete row, no files are left.
    assert left == (["store.shards.json", "store.unfinished"] if stop >= 4 else [])
    if left:
        assert len(json.loads((tmp_path / "store.shards.json").read_text())["rows"]) == stop // 4
    write_zarr(DataLoader(Interrupted(-1), batch_size=6), path, **OPTIONS)
    assert_stored(path)


def test_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    path = begun(tmp_path)
    # Files of unrecorded rows, of a longer stream, and of the package zarr.
    for name in ("x/c/3/0/0", "x/c/9/1/0", "y/c/7", "y/c/3.0123456789abcdef.partial"):
        (tmp_path / "store.unfinished" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store.unfinished" / name).write_bytes(b"left")
    write_zarr(batches(), path, **OPTIONS)
    assert_stored(path)
    write_zarr(batches(), tmp_path / "at once", **OPTIONS)
    assert files(path) == files(tmp_path / "at once")


def test_rows_that_were_lost_are_written_again(tmp_path: Path) -> None:
    path = begun(tmp_path)
    os.remove(tmp_path / "store.unfinished" / "x" / "c" / "1" / "0" / "0")
    starts: list[int] = []

    def rest(start: int) -> Any:
        starts.append(start)
        return batches(start)

    write_zarr(rest, path, **OPTIONS)
    assert starts == [4]
    assert_stored(path)
