"""After every successful job, a glob finds its shards and no others, whatever failed in that folder before."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import random
import resource
import signal
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet
import pytest
import torch

from sluicegate import IterableDataset, write_parquet, write_tar, write_tokens
from sluicegate.writers.manifest import ShardManifest

# The number of runs of the driver; 20,000 take about an hour.
RUNS = int(os.environ.get("SLUICEGATE_WRITER_RUNS", "60"))


def size_of(index: int, largest: int) -> int:
    """Return the size of a sample: every 20th is much larger than the others."""
    return largest if index % 20 == 13 else 10 + index * 37 % 300


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, form: str, length: int, variant: int = 0, stop: int | None = None) -> None:
        self.form = form
        self.length = length
        self.variant = variant
        self.stop = stop

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index == self.stop:
            os.kill(os.getpid(), signal.SIGKILL)
        size = size_of(index, 6000)
        if self.form == "tokens":
            return [index, self.variant] + [7] * (size // 2)
        content = f"{index} {self.variant} ".encode() + random.Random(index).randbytes(size)
        return {"bin": content} if self.form == "tar" else {"bin": content, "index": index}


class Stream(IterableDataset[Any]):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        return map(self.samples.__getitem__, range(len(self.samples)))


def read_tar(paths: list[str]) -> list[tuple[int, int]]:
    found = []
    for path in paths:
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member)
                assert content is not None
                index, variant, _ = content.read().split(b" ", 2)
                found.append((int(index), int(variant)))
    return sorted(found)


def read_parquet(paths: list[str]) -> list[tuple[int, int]]:
    found = []
    for path in paths:
        for content in pyarrow.parquet.read_table(path)["bin"].to_pylist():
            index, variant, _ = content.split(b" ", 2)
            found.append((int(index), int(variant)))
    return sorted(found)


def read_tokens(paths: list[str]) -> list[tuple[int, int]]:
    tokens = b"".join(pathlib.Path(path).read_bytes() for path in sorted(paths))
    found, place = [], 0
    while place < len(tokens):
        index, variant = (int.from_bytes(tokens[place + at : place + at + 2], "little") for at in (0, 2))
        found.append((index, variant))
        place += 2 * (2 + size_of(index, 6000) // 2)
    return sorted(found)


FORMS: dict[str, tuple[Callable[..., list[str]], Callable[[list[str]], list[tuple[int, int]]], str]] = {
    "tar": (write_tar, read_tar, "tar"),
    "parquet": (write_parquet, read_parquet, "parquet"),
    "tokens": (write_tokens, read_tokens, "bin"),
}


def write(form: str, folder: pathlib.Path, dataset: Any, width: int = 3, **more: Any) -> list[str]:
    function, _, suffix = FORMS[form]
    return function(dataset, folder / f"a-{{:0{width}d}}.{suffix}", **{"shard_bytes": 3000, **more})


def shards(form: str, folder: pathlib.Path) -> list[str]:
    return glob.glob(str(folder / f"a-*.{FORMS[form][2]}"))


def read(form: str, folder: pathlib.Path) -> list[tuple[int, int]]:
    return FORMS[form][1](shards(form, folder))


def expected(length: int, variant: int = 0) -> list[tuple[int, int]]:
    return [(index, variant) for index in range(length)]


def in_child(job: Callable[[], Any], kill_after: float | None = None) -> int:
    """Run `job` in a child process; return 0, 1 after an error, or minus the number of the signal that killed it."""
    # Else SIGINT may come before the `try`, and the child would end the test run as if it were its parent.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            job()
            code = 0
        except (OSError, ValueError, KeyboardInterrupt):
            pass
        except BaseException:
            traceback.print_exc()
            code = 2
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, random.choice([signal.SIGKILL, signal.SIGINT]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def with_full_disk(job: Callable[[], Any], largest: int) -> None:
    """Run `job` with files of at most `largest` bytes, which is like a full disk for larger ones."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    job()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("resume", [True, False])
def test_a_shard_that_a_full_disk_left_does_not_survive(tmp_path: pathlib.Path, form: str, resume: bool) -> None:
    # Shards with a large sample can't be written; later shards can.
    def job() -> None:
        write(form, tmp_path, Samples(form, 150), threads=4)

    assert in_child(lambda: with_full_disk(job, 5000)) == 1
    listed = []
    for manifest in tmp_path.glob("*.shards.json"):
        listed = json.loads(manifest.read_text())["shards"]
    assert len(shards(form, tmp_path)) == len(listed)
    if not resume:
        write(form, tmp_path, Samples(form, 120), resume=False)
        assert read(form, tmp_path) == expected(120)
    else:
        write(form, tmp_path, Samples(form, 150))
        assert read(form, tmp_path) == expected(150)


@pytest.mark.parametrize("form", FORMS)
def test_shards_of_a_killed_job_that_no_manifest_lists_do_not_survive(tmp_path: pathlib.Path, form: str) -> None:
    write(form, tmp_path, Stream(Samples(form, 150)))
    (path,) = tmp_path.glob("*.shards.json")
    # As if it had been killed before the manifest listed any shard.
    known = json.loads(path.read_text())
    manifest = ShardManifest(str(tmp_path / f"a-{{:03d}}.{FORMS[form][2]}"), {}, lambda path: [path])
    manifest.arguments, manifest.reserved = known["arguments"], known["reserved"]
    manifest.save()
    write(form, tmp_path, Stream(Samples(form, 100)))
    assert read(form, tmp_path) == expected(100)


def test_another_width_of_numbers_is_another_job(tmp_path: pathlib.Path) -> None:
    write("tar", tmp_path, Samples("tar", 60))
    with pytest.raises(ValueError, match="resume=False"):
        write("tar", tmp_path, Samples("tar", 60), width=5)
    write("tar", tmp_path, Samples("tar", 60), width=5, resume=False)
    assert read("tar", tmp_path) == expected(60)


@pytest.mark.parametrize("name", ["a-007.tar", "a-99999.tar", "a-7.tar"])
@pytest.mark.parametrize("resume", [True, False])
def test_files_of_others_are_neither_removed_nor_read(tmp_path: pathlib.Path, name: str, resume: bool) -> None:
    (tmp_path / name).write_text("foreign")
    with pytest.raises(FileExistsError, match=f"{name}.* exists, but .* does not exist; remove the file"):
        write("tar", tmp_path, Samples("tar", 60), resume=resume)
    (tmp_path / name).unlink()
    (tmp_path / "a-notes.tar").write_text("not a number")
    write("tar", tmp_path, Samples("tar", 60))
    (tmp_path / "a-99999.tar").write_text("foreign")
    with pytest.raises(FileExistsError, match=r"a-99999.* does not list it"):
        write("tar", tmp_path, Samples("tar", 60), resume=resume)
    assert (tmp_path / "a-99999.tar").read_text() == "foreign"


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: pathlib.Path) -> None:
    class Appearing(Samples):
        def __getitem__(self, index: int) -> Any:
            if index == 30:
                (tmp_path / "a-039.tar").write_text("foreign")
            return super().__getitem__(index)

    with pytest.raises(FileExistsError, match="appeared while these shards were written"):
        write("tar", tmp_path, Appearing("tar", 400))
    assert (tmp_path / "a-039.tar").read_text() == "foreign"


def test_the_wrong_samples_remove_nothing(tmp_path: pathlib.Path) -> None:
    paths = write("tar", tmp_path, Samples("tar", 60))
    os.remove(paths[2])
    with pytest.raises(ValueError, match="differs from the one written"):
        write("tar", tmp_path, Samples("tar", 60, variant=1))
    assert len(shards("tar", tmp_path)) == len(paths) - 1
    write("tar", tmp_path, Samples("tar", 60))
    assert read("tar", tmp_path) == expected(60)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [0, 1, 59, 61, 200])
def test_a_finished_stream_of_another_length_is_refused(tmp_path: pathlib.Path, form: str, length: int) -> None:
    paths = write(form, tmp_path, Stream(Samples(form, 60)))
    with pytest.raises(ValueError, match=r"resume=False"):
        write(form, tmp_path, Stream(Samples(form, length)))
    assert read(form, tmp_path) == expected(60)
    assert write(form, tmp_path, Stream(Samples(form, 60))) == paths
    write(form, tmp_path, Stream(Samples(form, length)), resume=False)
    assert read(form, tmp_path) == expected(length)


def test_a_successful_job_leaves_only_its_own_shards_after_any_failures(tmp_path: pathlib.Path) -> None:
    seed = int(os.environ.get("SLUICEGATE_WRITER_SEED", "0"))
    succeeded = failed = 0
    for run in range(seed, seed + RUNS):
        rng = random.Random(run)
        random.seed(run)
        folder = tmp_path / str(run)
        folder.mkdir()
        form = rng.choice(list(FORMS))
        foreign = {}

        def job(folder: pathlib.Path, form: str, rng: random.Random, stop: int | None = None) -> tuple[Any, ...]:
            length, variant = rng.choice([40, 90, 120, 150]), int(rng.random() < 0.1)
            samples: Any = Samples(form, length, variant, stop)
            more = {
                "threads": rng.choice([1, 2, 4]),
                "resume": rng.random() < 0.6,
                "width": rng.choice([3, 3, 3, 5]),
                "shard_bytes": rng.choice([3000, 3000, 3000, 9000]),
            }
            return (Stream(samples) if rng.random() < 0.4 else samples), length, variant, more

        for _ in range(rng.choice([1, 1, 2, 3])):
            how = rng.choice(["full", "kill", "stop", "foreign"])
            dataset, _, _, more = job(folder, form, rng, rng.randrange(150) if how == "stop" else None)

            def write_it(dataset: Any = dataset, more: dict[str, Any] = more) -> None:
                write(form, folder, dataset, **more)  # noqa: B023

            if how == "full":
                largest = rng.choice([100, 700, 3500, 5000, 7000])
                code = in_child(lambda: with_full_disk(write_it, largest))  # noqa: B023
            elif how == "foreign":
                name = f"a-{rng.choice([0, 2, 30, 500]):03d}.{FORMS[form][2]}"
                if not (folder / name).exists():
                    (folder / name).write_text("foreign")
                    foreign[name] = "foreign"
                code = 0
            else:
                code = in_child(write_it, rng.random() * 0.15 if how == "kill" else None)
            assert code in (0, 1, -signal.SIGKILL), (run, how)
        dataset, length, variant, more = job(folder, form, rng)
        try:
            write(form, folder, dataset, **more)
        except (FileExistsError, ValueError):
            failed += 1
        else:
            succeeded += 1
            assert not foreign, run
            assert read(form, folder) == expected(length, variant), run
        for name, text in foreign.items():
            assert (folder / name).read_text() == text, run
            (folder / name).unlink()
        write(form, folder, dataset, **{**more, "resume": False})
        assert read(form, folder) == expected(length, variant), run
        assert {path.suffix for path in folder.iterdir()} == {f".{FORMS[form][2]}", ".json"}, run
    print(f"{RUNS} runs: {succeeded} second runs succeeded, {failed} refused, 0 wrong")
    assert succeeded > RUNS // 10
    assert failed > RUNS // 20
