"""Damaged streams yield an error with its position, or the intact samples, and never use more memory than allowed."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import tarfile
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from checks.programs import Run
from doubles.tar_files import FIELDS, many, put
from doubles.tfrecord_files import put_some
from sluicegate import CsvStream, DataLoader, JsonLinesStream, RawStream, ShuffleBuffer, TarStream, TFRecordStream


def streams(tmp_path: pathlib.Path) -> list[tuple[Any, bytes]]:
    def data(path: Any) -> bytes:
        return pathlib.Path(path).read_bytes()

    tar = data(put(tmp_path / "a.tar", many(4)))
    lines = "".join(json.dumps({"a": number, "b": "x" * number}) + "\n" for number in range(30)).encode()
    rows = b"a,b\n" + b"".join(b'%d,"x\n%d"\n' % (number, number) for number in range(30))
    return [
        (lambda file, **more: TarStream(file, FIELDS, **more), tar),
        (lambda file, **more: TarStream(file, **more), tar),
        (lambda file, **more: JsonLinesStream(file, **more), lines),
        (lambda file, **more: JsonLinesStream(file, {"a": int, "b": str}, **more), lines),
        (lambda file, **more: CsvStream(file, **more), rows),
        (lambda file, **more: TFRecordStream(file, **more), data(put_some(tmp_path / "a.tfrecord", 12))),
        (lambda file, **more: RawStream(file, dtype="u1", shape=7, **more), lines[:70]),
    ]


def outcome(stream: Any) -> list[Any] | None:
    """Return the samples, or None for an error that damage may cause."""
    try:
        return list(stream)
    except (ValueError, OSError):
        return None


@pytest.mark.parametrize("packed", [False, True])
def test_truncated_and_flipped_streams_end_or_are_refused(tmp_path: pathlib.Path, packed: bool) -> None:
    generator = np.random.default_rng(0)
    path = tmp_path / "damaged"
    for make, whole in streams(tmp_path):
        plain = gzip.compress(whole) if packed else whole
        count = len(outcome(make(io.BytesIO(whole))) or [])
        assert count > 3
        for end in {*range(0, len(plain), max(1, len(plain) // 40)), len(plain) - 1}:
            path.write_bytes(plain[:end])
            for on_error in ("raise", "skip"):
                samples = outcome(make(str(path), on_error=on_error, unpack=packed))
                assert samples is None or len(samples) <= count
        for _ in range(60):
            flipped = bytearray(plain)
            flipped[generator.integers(len(flipped))] ^= 1 << generator.integers(8)
            path.write_bytes(flipped)
            for on_error in ("raise", "skip"):
                outcome(make(str(path), on_error=on_error, unpack=packed))


def test_a_damaged_sample_is_named_or_left_out_and_keeps_its_ordinal(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 0}\n{"a": 1}\n\nnonsense\n{"a": 3}\n{"a": "b"}\n{"a": 5}')
    with pytest.raises(ValueError, match=r"x.jsonl, byte 20: sample 2: line 4: column 2: invalid JSON"):
        list(JsonLinesStream(path, {"a": int}))
    stream = JsonLinesStream(path, {"a": int}, on_error="skip")
    assert [sample["a"] for sample in stream] == [0, 1, 3, 5]
    assert [text.partition(":")[0] for text in stream.damages] == [f"{path}, byte 20", f"{path}, byte 45"]
    for rank, expected in enumerate([[0, 3], [1], [5]]):
        shard = JsonLinesStream(path, {"a": int}, on_error="skip", shard=(rank, 3))
        assert [sample["a"] for sample in shard] == expected


def test_a_damaged_member_is_named_or_its_sample_left_out(tmp_path: pathlib.Path) -> None:
    members = many(5)
    members[8] = (members[8][0], b"not a number")
    path = put(tmp_path / "a.tar", members)
    with pytest.raises(ValueError, match=r"sample 1: member `train.v1/0001.cls`: `not a number` is not a valid"):
        list(TarStream(path, FIELDS))
    stream = TarStream(path, FIELDS, on_error="skip")
    assert [sample["__key__"][-1] for sample in stream] == ["0", "2", "3", "4"]
    assert len(stream.damages) == 1
    twice = put(tmp_path / "twice.tar", [("a.txt", b"1"), ("a.TXT", b"2"), ("b.txt", b"3")])
    with pytest.raises(ValueError, match=r"member `a\.TXT`: it occurs twice"):
        list(TarStream(twice, {"txt": "str"}))
    assert [sample["txt"] for sample in TarStream(twice, {"txt": "str"}, on_error="skip")] == ["3"]
    lacking = put(tmp_path / "lacking.tar", [("a.txt", b"1"), ("b.cls", b"2"), ("c.txt", b"3")])
    with pytest.raises(ValueError, match="sample 1: `b` has no member `txt`"):
        list(TarStream(lacking, {"txt": "str"}))
    for rank in range(2):
        stream = TarStream(lacking, {"txt": "str"}, on_missing="skip", shard=(rank, 2))
        assert [sample["txt"] for sample in stream] == [["1"], ["3"]][rank]


def test_names_links_devices_and_folders_are_never_followed_nor_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "odd.tar"
    with tarfile.open(path, "w") as shard:
        for name in ("../../up.txt", "/root/absolute.txt", b"\xff\xfe.txt".decode("utf8", "surrogateescape")):
            member = tarfile.TarInfo(name)
            member.size = 2
            shard.addfile(member, io.BytesIO(b"hi"))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo("odd.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            shard.addfile(member)
    before = sorted(tmp_path.rglob("*"))
    samples = list(TarStream(path, {"txt": "str"}))
    assert [sample["__key__"] for sample in samples] == ["../../up", "/root/absolute", "\udcff\udcfe"]
    assert sorted(tmp_path.rglob("*")) == before


def test_samples_larger_than_max_sample_bytes_are_named(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "a.tar", [("a.txt", b"1" * 100), ("b.txt", b"1" * 5000), ("c.txt", b"3")])
    with pytest.raises(
        ValueError, match=r"sample 1: member `b.txt`: .* 5005 bytes up to .*, but at most 1000 are allowed"
    ):
        list(TarStream(path, {"txt": "str"}, max_sample_bytes=1000))
    stream = TarStream(path, {"txt": "str"}, max_sample_bytes=1000, on_error="skip")
    assert [sample["__key__"] for sample in stream] == ["a", "c"]
    lines = tmp_path / "x.jsonl"
    lines.write_bytes(b'1\n"' + b"x" * 10**6 + b'"\n3\n')
    with pytest.raises(ValueError, match="sample 1: line 2: a line has more than 5000 bytes"):
        list(JsonLinesStream(lines, max_sample_bytes=5000))
    assert list(JsonLinesStream(lines, max_sample_bytes=5000, on_error="skip")) == [1, 3]
    rows = tmp_path / "x.csv"
    rows.write_bytes(b"a\n1\n" + b"2" * 9000 + b"\n3\n")
    assert [row["a"] for row in CsvStream(rows, {"a": int}, max_sample_bytes=5000, on_error="skip")] == [1, 3]
    records = put_some(tmp_path / "a.tfrecord", 3)
    with pytest.raises(ValueError, match="but at most 2 are allowed"):
        list(TFRecordStream(records, "bytes", max_sample_bytes=2))
    with pytest.raises(ValueError, match="max_sample_bytes"):
        RawStream(records, dtype="u1", shape=10, max_sample_bytes=5)


def test_a_bomb_takes_no_more_memory_than_is_allowed(run: Run, tmp_path: pathlib.Path) -> None:
    piece = gzip.compress(b" " * (1 << 24))
    (tmp_path / "bomb.gz").write_bytes(piece * 20)
    program = (
        "import resource, sluicegate\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for kind in (sluicegate.JsonLinesStream, sluicegate.TarStream, sluicegate.CsvStream):\n"
        "    try:\n"
        "        list(kind(path, max_sample_bytes=1 << 22))\n"
        "    except ValueError as error:\n"
        "        print('refused')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = run(program, path=str(tmp_path / "bomb.gz"))
    done.check()
    *words, grown = done.stdout.split()
    assert words == ["refused"] * 3, done.stderr
    assert int(grown) < 150 << 10  # KiB


def test_a_header_that_promises_much_makes_no_room_for_it(tmp_path: pathlib.Path) -> None:
    member = tarfile.TarInfo("a.txt")
    member.size = 1 << 40
    (tmp_path / "x.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + b"x" * 1000)
    for urls in (tmp_path / "x.tar", f"pipe:cat {tmp_path}/x.tar"):
        with pytest.raises(ValueError, match=r"byte 0: sample 0: member `a.txt` has \d+ bytes, but only 1000 are left"):
            list(TarStream(urls, {"txt": "bytes"}, max_sample_bytes=1 << 41))


def test_nested_json_is_bounded(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.jsonl").write_text("[" * 10**5 + "\n" + "[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="recursion limit"):
        list(JsonLinesStream(tmp_path / "x.jsonl"))
    assert len(list(JsonLinesStream(tmp_path / "x.jsonl", on_error="skip"))) == 1
    path = put(tmp_path / "a.tar", [("a.json", b"[" * 10**5), ("b.json", b"1")])
    iterator = iter(TarStream(path, {"json": "json"}))
    with pytest.raises(ValueError, match="recursion limit"):
        next(iterator)
    assert next(iterator)["json"] == 1


def test_data_of_a_different_format_is_named(tmp_path: pathlib.Path) -> None:
    for data, words in (
        (b"", "it is empty"),
        (b"hello", "not a tar archive"),
        (b"BZh9" + b"0" * 600, "pipe:bzip2"),
    ):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(ValueError, match=words):
            list(TarStream(tmp_path / "x", {"txt": "str"}))
    (tmp_path / "x").write_bytes(b"")
    assert list(JsonLinesStream(tmp_path / "x")) == list(CsvStream(tmp_path / "x")) == []
    assert list(TFRecordStream(tmp_path / "x", "bytes")) == list(RawStream(tmp_path / "x", dtype="u1")) == []
    (tmp_path / "x").write_bytes('{"a": 1}'.encode("utf-16"))
    with pytest.raises(ValueError, match="UTF-16"):
        list(JsonLinesStream(tmp_path / "x"))
    (tmp_path / "y").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "z").write_bytes(b"b,a\n1,2\n")
    with pytest.raises(ValueError, match=r"z, byte 0: .*the header is"):
        list(CsvStream([tmp_path / "y", tmp_path / "z"]))


def test_a_damaged_sample_that_also_lacks_a_field_is_not_counted(tmp_path: pathlib.Path) -> None:
    fields = {"txt": "str", "cls": int}
    members = []
    for number in range(12):
        members.append((f"{number:02d}.cls", b"nonsense" if number % 3 == 0 else b"%d" % number))
        if number % 3 or number == 9:
            members.append((f"{number:02d}.txt", b"text"))
    path = put(tmp_path / "a.tar", members)
    whole = [sample["cls"] for sample in TarStream(path, fields, on_missing="skip", on_error="skip")]
    assert whole == [number for number in range(12) if number % 3]
    for world_size in (2, 3):
        found = []
        for rank in range(world_size):
            stream = TarStream(path, fields, on_missing="skip", on_error="skip", shard=(rank, world_size))
            found += [sample["cls"] for sample in stream]
        assert sorted(found) == whole
    # A sample that is too large still raises: `on_missing` does not skip it.
    with pytest.raises(ValueError, match="raise max_sample_bytes"):
        list(TarStream(path, fields, on_missing="skip", max_sample_bytes=8))


def test_a_file_that_ends_before_the_position_of_the_state_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(b'{"a": %d}\n' % number for number in range(20)))
    stream = JsonLinesStream(path, {"a": int})
    iterator = iter(stream)
    for _ in range(10):
        next(iterator)
    state = json.loads(json.dumps(stream.state_dict()))
    path.write_bytes(path.read_bytes()[:30])
    resumed = JsonLinesStream(path, {"a": int})
    resumed.load_state_dict(state)
    with pytest.raises(ValueError, match=r"x.jsonl had been read up to byte .*; resume with the data"):
        list(resumed)


def read_until_error(loader: Any) -> tuple[list[int], str]:
    """Return the samples before the error, and its text."""
    samples: list[int] = []
    try:
        for batch in loader:
            samples += torch.as_tensor(batch).reshape(-1).tolist()
    except ValueError as error:
        return samples, str(error)
    pytest.fail(f"no error behind {len(samples)} samples")


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("size", [None, 4])
def test_an_error_is_raised_after_the_samples_before_it_for_any_batch_size(
    tmp_path: pathlib.Path, workers: dict[str, Any], seed: int | None, size: int | None
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{number}\n" for number in range(10)) + "{broken\n11\n12\n")

    def stream() -> Any:
        lines = JsonLinesStream(path)
        return lines if size is None else ShuffleBuffer(lines, size, 1)

    arguments = {**workers, "seed": seed}
    one_by_one, said = read_until_error(DataLoader(stream(), batch_size=None, **arguments))
    assert "sample 10: line 11" in said
    for batch_size in (1, 3, 4, 5, 20):
        found, told = read_until_error(DataLoader(stream(), batch_size=batch_size, **arguments))
        assert told.splitlines()[0] == said.splitlines()[0]
        if not workers:  # Workers yield in turn, and with larger batches in larger turns.
            assert found == one_by_one
        found, told = read_until_error(DataLoader(stream(), batch_size=batch_size, drop_last=True, **arguments))
        assert told.splitlines()[0] == said.splitlines()[0]
        assert len(found) % batch_size == 0


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("size", [None, 4])
def test_a_state_before_an_error_leads_to_it_and_one_before_the_end_to_the_next_epoch(
    tmp_path: pathlib.Path, seed: int | None, size: int | None
) -> None:
    def loader() -> Any:
        lines = JsonLinesStream(tmp_path / "a.jsonl")
        return DataLoader(lines if size is None else ShuffleBuffer(lines, size, 1), batch_size=4, seed=seed)

    (tmp_path / "a.jsonl").write_text("".join(f"{number}\n" for number in range(10)))
    whole = loader()
    epochs = [[(batch, whole.state_dict()) for batch in whole] for _ in range(2)]
    resumed = loader()
    resumed.load_state_dict(epochs[0][-1][1])
    assert list(resumed) == []
    assert_same(list(resumed), [batch for batch, _ in epochs[1]])
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write("{broken\n")
    broken = loader()
    iterator, states = iter(broken), []
    with pytest.raises(ValueError, match="sample 10"):  # noqa: PT012
        while True:
            states.append((next(iterator), broken.state_dict()))
    # The samples that the buffer still holds were not delivered.
    assert [len(batch) for batch, _ in states] == ([4, 4, 2] if size is None else [4, 3])
    resumed = loader()
    resumed.load_state_dict(states[-1][1])
    with pytest.raises(ValueError, match="sample 10"):
        next(iter(resumed))
