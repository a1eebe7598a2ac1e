"""`TarDataset`: the same samples as other readers of the same archives, and errors with their position."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import pathlib
import tarfile
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.formats import check_format
from doubles.tar_files import FIELDS, many, npy, put
from sluicegate import TarDataset


def read(path: str) -> list[dict[str, Any]]:
    """Return the samples of an archive by an independent reader: tarfile, and grouping by name."""
    samples: dict[str, dict[str, Any]] = {}
    with tarfile.open(path) as shard:
        for member in shard:
            folder, base = os.path.split(member.name)
            stem, dot, extension = base.partition(".")
            if member.isreg() and dot and stem:
                key = os.path.join(folder, stem)
                sample = samples.setdefault(key, {"__key__": key, "__url__": path})
                contents = shard.extractfile(member)
                assert contents is not None
                sample[extension.lower()] = contents.read()
    return list(samples.values())


def decoded(sample: dict[str, Any]) -> dict[str, Any]:
    return {
        "__key__": sample["__key__"],
        "__url__": sample["__url__"],
        "jpg": sample["jpg"],
        "json": json.loads(sample["json"]),
        "cls": int(sample["cls"]),
        "seg.npy": torch.from_numpy(np.load(io.BytesIO(sample["seg.npy"]))),
        "score": float(sample["score"]),
        "txt": sample["txt"].decode(),
    }


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_equal_those_of_an_independent_reader_in_every_access(tmp_path: pathlib.Path, form: int) -> None:
    members = many()
    urls = [
        put(tmp_path / "0.tar", members[:36], format=form),
        put(tmp_path / "1.tar", sorted(members[36:], key=lambda member: member[0][::-1]), format=form),
    ]
    samples = [decoded(sample) for url in urls for sample in read(url)]
    dataset = TarDataset(str(tmp_path / "{0..1}.tar"), FIELDS)
    assert dataset.urls == urls
    check_format(dataset, samples)
    check_format(TarDataset(urls), [sample for url in urls for sample in _raw(url)])


def _raw(url: str) -> list[dict[str, Any]]:
    order = ["jpg", "json", "cls", "seg.npy", "score", "txt"]
    return [
        {"__key__": sample["__key__"], "__url__": url, **{name: sample[name] for name in order}} for sample in read(url)
    ]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_the_same(tmp_path: pathlib.Path) -> None:
    import webdataset

    urls = [put(tmp_path / f"{number}.tar", many()[36 * number :][:36]) for number in range(2)]
    theirs = list(webdataset.WebDataset(urls, shardshuffle=False))
    ours = TarDataset(urls)
    gc.collect()  # The other reader leaves its files open.
    assert len(ours) == len(theirs)
    for index, expected in enumerate(theirs):
        sample = ours[index]
        assert {name: sample[name] for name in expected if name != "__local_path__"} == {
            name: value for name, value in expected.items() if name != "__local_path__"
        }


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_names_that_are_not_utf8_and_other_members(tmp_path: pathlib.Path, form: int) -> None:
    names = [
        "d/" * 90 + "x" * 120 + ".txt",
        "../../etc/passwd.txt",
        "/absolute.txt",
        os.fsdecode(b"\xff\xfe.txt"),
        "é.txt",
    ]
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w", format=form, errors="surrogateescape", encoding="utf-8") as shard:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            other = tarfile.TarInfo(f"other{kind.decode()}.txt")
            other.type, other.linkname = kind, "/etc/passwd"
            shard.addfile(other)
        for name in (*names, "plain", ".hidden.txt", "__meta__/info.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1
            shard.addfile(member, io.BytesIO(b"x"))
    dataset = TarDataset(path, {"txt": "str"})
    assert [sample["__key__"] for sample in dataset] == [name.removesuffix(".txt") for name in names]
    assert not (tmp_path.parent.parent / "etc").exists()


def test_missing_fields_are_an_error_left_out_or_none(tmp_path: pathlib.Path) -> None:
    members = [(name, data) for name, data in many(8) if name not in ("train.v1/0003.cls", "train.v1/0005.seg.NPY")]
    members = [(name, data) for name, data in members if not name.startswith("train.v1/0006.j")]
    path = put(tmp_path / "0.tar", members)
    dataset = TarDataset(path, FIELDS)
    assert len(dataset) == 8
    assert dataset[0]["cls"] == 0
    with pytest.raises(
        ValueError, match=r"sample 3, field `cls`: sample `train.v1/0003` of .*0\.tar has no such member"
    ):
        dataset[3]
    whole = [decoded(sample) for sample in read(path) if len(sample) == 8]
    check_format(TarDataset(path, FIELDS, on_missing="skip"), whole)
    empty: dict[str, Any] = dict.fromkeys(FIELDS)
    filled = [{**empty, **_decode_some(sample)} for sample in read(path)]
    filled = [{"__key__": s["__key__"], "__url__": s["__url__"], **{name: s[name] for name in FIELDS}} for s in filled]
    check_format(TarDataset(path, FIELDS, on_missing="none"), filled)
    (batch,) = sluicegate.DataLoader(TarDataset(path, FIELDS, on_missing="none"), batch_size=8)
    assert batch["cls"] == [0, 1, 2, None, 1, 2, 0, 1]
    assert [batch["seg.npy"][5], batch["jpg"][6], batch["json"][6]] == [None] * 3
    with pytest.raises(ValueError, match=r"no sample has `png`; there are jpg, json, cls.*, in .*\.tar"):
        TarDataset(path, {"png": "bytes"})
    assert TarDataset(path, {"png;jpg": "bytes"})[1]["png;jpg"] == read(path)[1]["jpg"]


def _decode_some(sample: dict[str, Any]) -> dict[str, Any]:
    full = {"jpg": b"", "json": b"0", "cls": b"0", "seg.npy": npy([0]), "score": b"0", "txt": b"", **sample}
    return {name: value for name, value in decoded(full).items() if name in sample}


@pytest.mark.parametrize(
    ("field", "contents", "words"),
    [
        (int, b"cat", "`cat` is not a valid integer"),
        (int, b"9" * 1000, "1000 bytes are not a number"),
        (float, b"", "is not a valid number"),
        ("str", b"ab\xff", "not UTF-8 text from byte 2"),
        ("json", b"[" * 100_000, "invalid JSON"),
        ("npy", b"\x93NUMPY", "ends inside its header"),
        ("npy", npy(np.zeros((2, 4), np.float32)), "arrays of one field are stacked"),
        ("npy", npy(np.zeros((2, 3), np.float64)), "arrays of one field are stacked"),
        ("npy", npy(np.zeros((2, 3), np.float32))[:-1], "the file is truncated"),
    ],
)
def test_members_that_do_not_match_their_field_are_named(
    tmp_path: pathlib.Path, field: Any, contents: bytes, words: str
) -> None:
    good = {int: b"1", float: b"1", "str": b"x", "json": b"1", "npy": npy(np.zeros((2, 3), np.float32))}[field]
    path = put(tmp_path / "0.tar", [("a.x", good), ("b.x", contents), ("c.x", good)])
    dataset = TarDataset(path, {"x": field})
    with pytest.raises(ValueError, match=words):
        dataset[1]
    with pytest.raises(ValueError, match=words):
        list(sluicegate.DataLoader(dataset, num_workers=1))
    assert dataset[2]["__key__"] == "c"


def test_no_array_of_objects_is_ever_read(tmp_path: pathlib.Path) -> None:
    file = io.BytesIO()
    np.save(file, np.array([object], object), allow_pickle=True)
    path = put(tmp_path / "0.tar", [("a.npy", file.getvalue())])
    with pytest.raises(ValueError, match="Python objects"):
        TarDataset(path, {"npy": "npy"})


def test_damage_is_named_or_left_out(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(put(tmp_path / "0.tar", [(f"{number}.txt", b"x" * 600) for number in range(5)]))
    whole = path.read_bytes()
    # Each member is a header and two blocks.
    damaged = bytearray(whole)
    damaged[3 * 1536 + 10] ^= 1
    for contents, words in (
        (bytes(damaged), "byte 4608: the checksum"),
        (whole[: 3 * 1536 + 700], "`3.txt` has 600 bytes"),
    ):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=words):
            TarDataset(path)
        for _ in range(2):
            left = TarDataset(path, {"txt": "bytes"}, on_error="skip")
            assert [sample["__key__"] for sample in left] == ["0", "1", "2"][: len(left)]
            assert len(left) >= 2
            (damage,) = left.damages
            assert words.split(":")[0] in damage
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="the file is empty"):
        TarDataset(path)
    assert len(TarDataset(path, on_error="skip")) == 0
    path.write_bytes(gzip.compress(whole))
    with pytest.raises(ValueError, match=r"name that ends in \.tar\.gz"):
        TarDataset(path)
    path.write_bytes(os.urandom(2000))
    with pytest.raises(ValueError, match="not a tar archive"):
        TarDataset(path)
    with pytest.raises(FileNotFoundError):
        TarDataset(tmp_path / "none.tar")


def test_sparse_files_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as shard:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 3
            if number == 1:
                member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
            shard.addfile(member, io.BytesIO(b"abc"))
    with pytest.raises(ValueError, match="sparse"):
        TarDataset(path)
    assert [sample["__key__"] for sample in TarDataset(path, on_error="skip")] == ["0", "2"]


def test_an_archive_that_is_replaced_while_open_is_named(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(put(tmp_path / "0.tar", many(3)))
    dataset = TarDataset(path, FIELDS)
    dataset[0]
    put(tmp_path / "1.tar", many(4))
    os.replace(tmp_path / "1.tar", path)
    with pytest.raises(OSError, match=r"0\.tar changed while it was in use"):
        dataset[1]
    assert len(TarDataset(path, FIELDS)) == 4, "the old index was used"


def test_ten_thousand_archives_are_opened_when_they_are_read(tmp_path: pathlib.Path) -> None:
    first = pathlib.Path(put(tmp_path / "first.tar", many(1)))
    for number in range(10_000):
        os.link(first, tmp_path / f"{number:05d}.tar")
    dataset = TarDataset(str(tmp_path / "{00000..09999}.tar"), FIELDS)
    assert len(dataset) == 10_000
    loader = sluicegate.DataLoader(dataset, batch_size=100, shuffle=True, seed=1, num_workers=2)
    urls = [url for batch in loader for url in batch["__url__"]]
    assert sorted(urls) == dataset.urls
    descriptors = os.listdir("/proc/self/fd")
    assert len(descriptors) < 500


def test_arguments_are_checked(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "0.tar", many(1))
    for wrong in ({"jpg": "picture"}, {"jpg": list}, {"__key__": "str"}):
        with pytest.raises(ValueError, match="fields"):
            TarDataset(path, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_missing"):
        TarDataset(path, on_missing="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_error"):
        TarDataset(path, on_error="ignore")  # type: ignore[arg-type]
    assert repr(TarDataset(path, {"cls": int})) == f"TarDataset({path!r}, {{'cls': {int!r}}})"
    assert_same(len(TarDataset(path)), 1)
