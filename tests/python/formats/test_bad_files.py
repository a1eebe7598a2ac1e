"""Bad files of every format: nothing crashes, hangs, takes unbounded memory, or reads out of bounds; errors name them.

Features of single formats (checksums, names in archives, arrays of objects) are tested with the format.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.damaged import FORMATS, cut, files_below, index_of, large, names, open_large, read, replace
from checks import drawn
from checks.programs import Run, zygote
from doubles import mds_files
from doubles.tfrecord_files import put as put_tfrecord
from sluicegate import (
    CsvDataset,
    JsonLinesDataset,
    MdsDataset,
    RawDataset,
    SafetensorsDataset,
    TarDataset,
    TFRecordDataset,
    write_tar,
)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs with the writers of files already imported, which takes longer than most of the programs."""
    yield from zygote("cases.damaged")


# Separate programs, so that a crash does not end the tests.
DAMAGE = """
from pathlib import Path
from cases.damaged import damage
from checks.resources import address_space
import resource
limit = address_space() + (3 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
assert damage(name, Path(folder)) > 20
"""


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "folder"])
def test_a_damaged_file_is_read_or_named(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "x").mkdir()
    ended = run(DAMAGE, name=name, folder=str(tmp_path / "x"), deadline=100.0)
    # If a decoding crate panics, that becomes an ordinary error, but stderr has its message.
    panics = re.findall(r"panicked at (\S+)", ended.stderr)
    assert all(re.search(r"/(arrow|parquet)[^/]*/src/", place) for place in panics), ended.stderr
    ended.check(stderr=ended.stderr if panics else "")


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_file_has_no_samples_or_is_named(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    path = form.write(tmp_path, "x")
    for file in files_below(tmp_path):
        whole = file.read_bytes()
        file.write_bytes(b"")
        try:
            samples = read(form.open([path]))
        except (ValueError, OSError) as error:
            assert names(error, tmp_path), error  # noqa: PT017
        else:
            assert samples == [] or name == "folder"
        file.write_bytes(whole)


CHANGED = """
from pathlib import Path
from cases import damaged
folder = Path(folder)
form = damaged.FORMATS[name]
path = form.write(folder, "x")
for file in damaged.files_below(folder):
    whole, dataset = file.read_bytes(), form.open([path])
    before = damaged.read(dataset)
    time.sleep(0.02)  # two writes within one tick of the file system's clock would look like one
    getattr(damaged, change)(file)
    for _ in range(2):
        try:
            samples = damaged.read(dataset)
        except (ValueError, OSError) as error:
            assert damaged.names(error, folder), error
            assert any(word in str(error) for word in ("changed", "shrank", "no such file", "truncated")), error
        else:
            assert file.name.endswith(form.read_once), f"{file} is another, and was read"
            assert name == "folder" or str(samples) == str(before)
    file.unlink()
    file.write_bytes(whole)
"""


@pytest.mark.parametrize("change", ["cut", "replace"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_another_than_it_was_is_named(run: Run, tmp_path: Path, name: str, change: str) -> None:
    (tmp_path / "x").mkdir()
    run(CHANGED, name=name, change=change, folder=str(tmp_path / "x"), deadline=60.0).check()


CUT_UNDER_THREADS = """
from pathlib import Path
from cases import damaged
path, named = Path(folder) / "x", 0
for attempt in range(10):
    path.write_bytes(b"\\1" * (100 << 18))
    dataset = data_of[name](path)
    iterator = iter(data.DataLoader(dataset, batch_size=8, num_workers=2, worker_type="thread"))
    next(iterator)
    cutter = threading.Timer(0.001 * attempt, os.truncate, (path, 1000))
    cutter.start()
    try:
        for batch in iterator:
            assert batch.min() == batch.max() == batch[0, 0] != 0, "other bytes than the file had"
            cutter.join()
    except OSError as error:
        assert "shrank" in str(error) or "changed" in str(error), error
        named += 1
    cutter.join()
assert named >= 5, named
"""


@pytest.mark.parametrize("name", ["raw", "tokens"])
def test_a_file_that_is_cut_while_threads_read_it_ends_nothing(run: Run, tmp_path: Path, name: str) -> None:
    datasets = """
from sluicegate import RawDataset, TokensDataset
data_of = {
    "raw": lambda path: RawDataset(path, dtype="u1", shape=(1 << 18,)),
    "tokens": lambda path: TokensDataset(path, (1 << 18) - 1, "uint8", output="tensor"),
}
"""
    run(datasets + CUT_UNDER_THREADS, name=name, folder=str(tmp_path), deadline=60.0).check()


LARGE = ["csv", "json-lines", "tar", "tfrecord"]

INDEX = """
from pathlib import Path
import random, warnings
from cases import damaged
path, dice, warned = Path(folder) / "x", random.Random(0), 0
def read():
    dataset = damaged.open_large(name, path)
    return [str(dataset[place]) for place in sorted({*range(3), *range(0, len(dataset), 13)})]
damaged.large(name, path)
expected = read()
index = damaged.index_of(path)
whole = index.read_bytes()
for attempt in range(80):
    contents = bytearray(whole)
    for _ in range(dice.choice((1, 2, 500))):
        # An index with a damaged header or digest would be made again.
        contents[dice.randrange(24 if attempt % 5 == 0 else 256, len(whole))] ^= 1 << dice.randrange(8)
    index.write_bytes(contents if attempt % 8 else contents[: dice.randrange(len(whole))])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read() == expected
    for warning in caught:
        assert f"{index}: this index is damaged" in str(warning.message), warning
        warned += 1
assert warned > 2, warned
index.unlink()
# The index itself is cut while it is in use.
dataset = damaged.open_large(name, path)
dataset[0]
os.truncate(index, 300)
for place in range(0, len(dataset), 97):
    try:
        dataset[place]
    except OSError as error:
        assert "sluicegate-index shrank since it was opened" in str(error), repr(error)
    else:
        raise AssertionError("the index was gone, and a sample was read")
"""


@pytest.mark.parametrize("name", LARGE)
def test_a_damaged_index_is_named_and_never_leads_elsewhere(run: Run, tmp_path: Path, name: str) -> None:
    run(INDEX, name=name, folder=str(tmp_path), deadline=100.0).check()


@pytest.mark.parametrize("name", LARGE)
def test_an_index_that_is_older_than_its_file_is_made_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    before = large(name, path)[3]
    old = index_of(path).stat()
    os.utime(path, ns=(0, old.st_mtime_ns - 10**9))
    assert str(open_large(name, path)[3]) == str(before)
    after = large(name, path, shift=5)[3]
    assert str(after) != str(before)


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_that_is_not_utf_8_is_a_name_in_errors_too(tmp_path: Path, name: str) -> None:
    folder = tmp_path / os.fsdecode(b"\xff \xfe.d")
    folder.mkdir()
    form = FORMATS[name]
    path = form.write(folder, os.fsdecode(b"x\xfa"))
    dataset = form.open([path])
    assert read(dataset)
    assert repr(dataset)
    for file in files_below(folder):
        # In these formats, a file cut at its end is still valid.
        if not name.startswith(("folder", "csv", "tar")):
            file.write_bytes(file.read_bytes()[:-3])
            with pytest.raises((ValueError, OSError)) as caught:
                read(form.open([path]))
            assert str(tmp_path) in str(caught.value)
            str(caught.value).encode()
            break


MANY = """
from pathlib import Path
import random
from cases import damaged
from cases.damaged import FORMATS
folder, form = Path(folder), FORMATS[name]
first = form.write(folder, "first")
one = len(form.open([first]))
paths = []
for number in range(shards):
    for file in damaged.files_below(folder / "first") or [first, *folder.glob("first.idx")]:
        path = folder / "many" / f"{number:06}{file.suffix}"
        os.link(file, path)
    paths.append(folder / "many" / f"{number:06}{first.suffix}")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
dataset = form.open(paths)
assert len(dataset) == one * shards or name.startswith("tokens")
order = random.Random(0).sample(range(len(dataset)), 600)
for batch in data.DataLoader(torch.utils.data.Subset(dataset, order), batch_size=100, num_workers=2):
    pass
assert len(os.listdir("/proc/self/fd")) < 64
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""

# An MDS folder is one index of many shards; `test_tar.py` opens archives by the tens of thousands.
SHARDED = ["raw", "safetensors", "tokens", "megatron", "csv", "json-fields", "tfrecord", "tar"]


@pytest.mark.parametrize("name", SHARDED)
def test_thousands_of_shards_need_few_descriptors(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "many").mkdir()
    ended = run(MANY, name=name, shards=5000, folder=str(tmp_path), deadline=100.0)
    ended.check()
    assert int(ended.stdout) < 1500, "MiB"


FEW_DESCRIPTORS = """
from sluicegate import MdsDataset
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
dataset = MdsDataset(folder)
assert len(dataset) == 400
read = [n for batch in data.DataLoader(dataset, batch_size=7, shuffle=True) for n in batch["i"].tolist()]
assert sorted(read) == list(range(400))
"""


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_hundreds_of_shards_of_mds_need_few_descriptors(run: Run, tmp_path: Path, compression: str | None) -> None:
    shards = [[{"i": struct.pack("<q", n)} for n in (2 * k, 2 * k + 1)] for k in range(200)]
    folder = mds_files.written(tmp_path / "x", {"i": "int"}, shards, compression)
    run(FEW_DESCRIPTORS, folder=folder).check()


LITTLE_MEMORY = """
from pathlib import Path
from cases import damaged
from checks.resources import address_space
folder = Path(folder)
form = damaged.FORMATS[name]
path = form.write(folder, "x")
damaged.read(form.open([path]))
limit = address_space() + (mebibytes << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    damaged.read(form.open([path]))
    print("works")
except (MemoryError, OSError, RuntimeError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("name", FORMATS)
def test_too_little_memory_is_an_error(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "x").mkdir()
    (number,) = drawn.numbers(1)
    mebibytes = (1, 4, 16)[number % 3]
    ended = run(LITTLE_MEMORY, name=name, mebibytes=mebibytes, folder=str(tmp_path / "x"))
    ended.check()
    assert ended.stdout.startswith(("works", "MemoryError", "OSError", "RuntimeError")), (mebibytes, ended.stdout)


HUGE_SAMPLE = """
from checks.resources import address_space
from sluicegate import JsonLinesDataset
dataset = JsonLinesDataset(path)
limit = address_space() + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(2):
    try:
        dataset[0]
    except RuntimeError as error:
        print(str(error)[:40])
assert len(dataset) == 1
"""


def test_a_sample_that_memory_can_not_hold_is_an_error(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"")
    os.truncate(path, 300 << 20)  # sparse
    ended = run(HUGE_SAMPLE, path=str(path), deadline=60.0)
    ended.check()
    assert ended.stdout.count("no memory for a batch") == 2


def test_json_of_many_brackets_is_refused(tmp_path: Path) -> None:
    for brackets in (b"[" * 100_000, b'{"":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        path = tmp_path / "x.jsonl"
        path.write_bytes(brackets + b"\n1\n")
        dataset = JsonLinesDataset(path)
        with pytest.raises(ValueError, match=r"x\.jsonl, byte \d+: line 1: .*recursion limit"):
            dataset[0]
        assert dataset[1] == 1
        for text, words in ((b'{"a": ' + brackets, "recursion limit"), (brackets, "object|recursion")):
            path.write_bytes(text)
            with pytest.raises(ValueError, match=words):
                JsonLinesDataset(path, {"b": int})[0]
        header = b'{"x": ' + brackets
        path = tmp_path / "x.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header)
        with pytest.raises(ValueError, match=r"x\.safetensors"):
            SafetensorsDataset(path)
        folder = mds_files.written(tmp_path / "x", {"j": "json"}, [[{"j": brackets}, {"j": b"1"}]])
        mds = MdsDataset(folder)
        with pytest.raises(ValueError, match=r"shard\.00000\.mds, byte \d+: column `j`: .*recursion limit"):
            mds[0]
        assert mds[1] == {"j": 1}
        (tmp_path / "x" / "index.json").write_bytes(brackets)
        with pytest.raises(ValueError, match=r"index\.json, byte 0"):
            MdsDataset(folder)
        shutil.rmtree(folder)


BOMB = """
from checks.resources import address_space, resident
from sluicegate import TarDataset
before = resident()
limit = address_space() + (mebibytes << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    TarDataset(path, cache_folder=cache, cache_bytes=10_000_000)
except (ValueError, MemoryError) as error:
    print(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
assert grown < (mebibytes << 20), grown
assert not [name for name in os.listdir(cache) if not name.endswith(".lock")]
"""


@pytest.mark.parametrize(
    ("head", "mebibytes", "words"),
    [
        # Windows of 1 MiB, of 128 MiB, of 128 MiB without the memory for it, and of 1 TiB; one segment of 2 GiB.
        (struct.pack("<IBB", 0xFD2FB528, 0, 10 << 3), 100, "decompresses to more than the 10000000 bytes"),
        (struct.pack("<IBB", 0xFD2FB528, 0, 17 << 3), 600, "decompresses to more than the 10000000 bytes"),
        (struct.pack("<IBB", 0xFD2FB528, 0, 17 << 3), 100, "no memory for a window of 134217728 bytes, twice"),
        (struct.pack("<IBB", 0xFD2FB528, 0, 30 << 3), 100, "[wW]indow"),
        (struct.pack("<IBI", 0xFD2FB528, 0xA0, 2**31), 100, "[wW]indow"),
    ],
)
def test_a_bomb_in_zstandard_is_bounded(run: Run, tmp_path: Path, head: bytes, mebibytes: int, words: str) -> None:
    path = tmp_path / "bomb.tar.zst"
    path.write_bytes(head + (((1 << 17) << 3 | 2).to_bytes(3, "little") + b"\0") * 2**14)  # 2 GiB
    ended = run(BOMB, path=str(path), cache=str(tmp_path / "cache"), mebibytes=mebibytes)
    ended.check()
    assert "bomb.tar.zst" in ended.stdout
    assert re.search(words, ended.stdout), ended.stdout


def test_samples_after_a_damaged_header_are_left_out(tmp_path: Path) -> None:
    path = FORMATS["tar"].write(tmp_path, "x")
    whole = path.read_bytes()
    assert len(TarDataset(path, {"txt": "str"}, index_folder="/proc/no-folder")) == 5
    # The header of the second sample's second member: nothing after it can be found.
    at = whole.index(b"1.cls")
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    left = TarDataset(path, {"txt": "str"}, on_error="skip", index_folder="/proc/no-folder")
    assert [sample["__key__"] for sample in left] == ["0"]
    (damage,) = left.damages
    assert f"x.tar, byte {at}: the checksum" in damage


def test_a_file_replaced_while_open_is_an_error_and_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    path.write_bytes(bytes(100))
    dataset: Any = RawDataset(path, dtype="u1", shape=(10,))
    replace(path)
    with pytest.raises(OSError, match=r"x\.raw changed while it was in use: it was replaced by a different file"):
        dataset[0]
    cut(path)
    assert len(RawDataset(path, dtype="u1", shape=(10,))) == 5
    assert json.dumps(RawDataset(path, dtype="u1", shape=(10,))[0].tolist()) == str([0] * 10)


CUT_UNDER_PROCESSES = """
import numpy
from sluicegate import NpyDataset
loader_of = {"torch": torch.utils.data.DataLoader, "sluicegate": data.DataLoader}[name]
path = os.path.join(folder, "x.npy")
numpy.save(path, numpy.zeros((6000, 1000), numpy.float32))
# The samples are read in the workers, by copies of the dataset that this process has mapped.
loader = loader_of(NpyDataset(path), batch_size=5, num_workers=2, collate_fn=list, multiprocessing_context="fork")
iterator = iter(loader)
next(iterator)
os.truncate(path, 1 << 20)
found = []
while len(found) < 3:
    try:
        next(iterator)
    except StopIteration:
        break
    except OSError as error:
        found.append(str(error))
assert found and all("shrank" in error for error in found), found
"""


@pytest.mark.parametrize("name", ["torch", "sluicegate"])
def test_a_file_that_is_cut_while_processes_read_it_ends_none(run: Run, tmp_path: Path, name: str) -> None:
    run(CUT_UNDER_PROCESSES, name=name, folder=str(tmp_path), deadline=60.0).check()


@pytest.mark.parametrize("name", ["json_lines", "csv", "tfrecord", "tar"])
def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    opened: Any
    if name == "tar":
        write_tar([{"txt": f"{number}"} for number in range(20)], f"{path}-{{}}.tar")
        path = tmp_path / "x-0.tar"
        opened = TarDataset(path, {"txt": "str"})
    elif name == "tfrecord":
        opened = TFRecordDataset(put_tfrecord(path, *[b"record"] * 20), "bytes")
    elif name == "csv":
        path.write_text("a\n" + "".join(f"{number}\n" for number in range(20)))
        opened = CsvDataset(path)
    else:
        path.write_text("".join(f'{{"a": {number}}}\n' for number in range(20)))
        opened = JsonLinesDataset(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"changed|regular file"):
        opened[3]
