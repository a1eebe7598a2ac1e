"""Lists of archives that other packages wrote: wids and Megatron-Energon."""

from __future__ import annotations

import json
import pathlib
import pickle
import struct
import tarfile
import warnings
from typing import Any

import pytest

from checks.formats import check_format
from sluicegate import TarDataset, write_tar
from sluicegate.formats.tar_listing import listing_of


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "shards").mkdir()
    samples = [{"txt": str(index)} for index in range(10)]
    paths = write_tar(samples, tmp_path / "shards/s-{}.tar", shard_bytes=6000)
    assert len(paths) == 3
    return tmp_path


def texts(dataset: TarDataset) -> list[int]:
    return [int(sample["txt"]) for sample in dataset]


def wids(folder: pathlib.Path, **more: Any) -> pathlib.Path:
    path = folder / "index.json"
    shards = [{"url": f"shards/s-{number}.tar", "nsamples": count} for number, count in enumerate((4, 4, 2))]
    path.write_text(json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards, **more}))
    return path


def test_an_index_of_wids_names_the_archives(folder: pathlib.Path) -> None:
    dataset = TarDataset(wids(folder), {"txt": "str"})
    assert texts(dataset) == list(range(10))
    assert dataset.urls == [str(folder / f"shards/s-{number}.tar") for number in range(3)]
    assert texts(pickle.loads(pickle.dumps(dataset))) == list(range(10))
    shards = [{"url": "s-1.tar", "nsamples": 4}]
    assert texts(TarDataset(wids(folder, shardlist=shards, base_path="shards"), {"txt": "str"})) == [4, 5, 6, 7]
    parts = [{"shardlist": [{"url": f"file://{folder}/shards/s-{number}.tar"}]} for number in (2, 0)]
    assert texts(TarDataset(wids(folder, shardlist=[], datasets=parts), {"txt": "str"})) == [8, 9, 0, 1, 2, 3]


def test_wrong_sample_counts_in_a_list_of_archives_are_a_warning(folder: pathlib.Path) -> None:
    shards = [{"url": "shards/s-0.tar", "nsamples": 4}, {"url": "shards/s-1.tar", "nsamples": 5}]
    with pytest.warns(UserWarning, match=r"index\.json' lists 5 samples in .*s-1\.tar', but found 4"):
        dataset = TarDataset(wids(folder, shardlist=shards), {"txt": "str"})
    assert texts(dataset) == list(range(8))


SPLIT = """\
# Made by a tool.
exclude:
  - shards/s-1.tar
split_parts:
  train:
  - shards/s-{0..1}.tar
  - 'shards/s-2.tar'
  val: []
  "test":
    - shards/s-1.tar
"""


def energon(folder: pathlib.Path, split: str = SPLIT, name: str = "split.yaml") -> pathlib.Path:
    meta = folder / ".nv-meta"
    meta.mkdir(exist_ok=True)
    (meta / name).write_text(split)
    (meta / ".info.yaml").write_text("shard_counts:\n  shards/s-0.tar: 4\n  shards/s-1.tar: 4\n  shards/s-2.tar: 2\n")
    return folder


def test_a_folder_of_energon_names_the_archives_of_a_split(folder: pathlib.Path) -> None:
    for path in (energon(folder), folder / ".nv-meta"):
        dataset = TarDataset(path, {"txt": "str"})
        assert texts(dataset) == [0, 1, 2, 3, 8, 9]
    listing = listing_of(folder, "train")
    assert listing is not None
    assert listing.samples == [4, 2]
    with pytest.raises(ValueError, match="split: no archives in 'val' of"):
        TarDataset(folder, split="val")
    with pytest.raises(ValueError, match=r"split: expected one of 'train', 'val', 'test' in .*, but got 'validation'"):
        TarDataset(folder, split="validation")
    (folder / ".nv-meta/.info.json").write_text(json.dumps({"shard_counts": {"shards/s-0.tar": 3}}))
    with pytest.warns(UserWarning, match="lists 3 samples in .*, but found 4"):
        TarDataset(folder, {"txt": "str"})
    (folder / ".nv-meta/split.yaml").unlink()
    energon(folder, json.dumps({"split_parts": {"train": ["shards/s-2.tar"]}}), "split.json")
    assert texts(TarDataset(folder, {"txt": "str"})) == [8, 9]


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("exclude: [a, b]\n", r"split\.yaml, line 1: only keys, .* are read, got '\[a, b\]'"),
        ("split_parts:\n  train: &x\n", "line 2: only keys, .* are read, got '&x'"),
        ("split_parts:\n  train:\n  - {a: 1}\n", r"line 3: only keys, .* are read, got '\{a: 1\}'"),
        ("split_parts:\n  train\n", "line 2: only keys, .* are read, got 'train'"),
        ("- a\n- b\n", "line 1|expected 'split_parts'"),
        ("split_parts: []\n", "expected 'split_parts'"),
        ("split_parts:\n  train: a.tar\n", "expected a list of names"),
        ("split_parts:\n  train:\n    a: b\n", "expected a list of names"),
        ("\ufeff", "split_parts|are read"),
        ("", "expected 'split_parts'"),
        ('split_parts:\n  train:\n  - "a\\x.tar"\n', "line 3"),
    ],
)
def test_unsupported_yaml_is_named(folder: pathlib.Path, split: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TarDataset(energon(folder, split))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "expected a wids index"),
        ("{}", "with a 'shardlist' of archives, but got no archives"),
        ('{"shardlist": 3}', "expected a wids index"),
        ('{"shardlist": [3]}', "expected a 'url' in shard 0 of the list, but got "),
        ('{"shardlist": [{"url": ""}]}', "expected a 'url' in shard 0 of the list, but got "),
        ('{"shardlist": [{"url": "https://x/a.tar"}]}', "only local archives are read, got"),
        ('{"shardlist": [{"url": "pipe:cat a.tar"}]}', "only local archives are read, got"),
        ('{"wids_version": 2, "shardlist": []}', "expected version 1 of wids, but got 2"),
        ('{"source_url": "x.json"}', "it refers to 'x.json'"),
    ],
)
def test_a_damaged_index_of_wids_is_named(tmp_path: pathlib.Path, text: str, words: str) -> None:
    path = tmp_path / "index.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"index\.json: .*{words}"):
        TarDataset(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        TarDataset(path)


def test_stored_offsets_next_to_an_archive_change_nothing(tmp_path: pathlib.Path) -> None:
    (path,) = write_tar([{"txt": str(index), "cls": index} for index in range(3000)], tmp_path / "{}.tar")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    offsets = [member.offset for member in members[::2]]
    offsets.append(members[-1].offset_data + 512)
    found = []
    for contents in (offsets, [offset + 512 for offset in offsets], [0] * 3001):
        (tmp_path / "0.tar.idx").write_bytes(struct.pack("<3001Q", *contents))
        index_folder = tmp_path / str(len(found))
        dataset = TarDataset(path, {"txt": "str", "cls": int}, index_folder=index_folder)
        found.append([(sample["__key__"], sample["txt"], sample["cls"]) for sample in dataset])
    assert found[0] == found[1] == found[2] == [(f"{index:09d}", str(index), index) for index in range(3000)]


def test_energon_excludes_single_samples(folder: pathlib.Path) -> None:
    keys = [sample["__key__"] for sample in TarDataset(str(folder / "shards/s-{0..2}.tar"))]
    excluded = [f"shards/s-1.tar/{keys[5]}", "shards/s-0.tar", f"shards/s-{{1..2}}.tar/{keys[8]}", "shards/s-2.tar/no"]
    split = json.dumps({"split_parts": {"train": ["shards/s-{0..2}.tar"]}, "exclude": excluded})
    dataset = TarDataset(energon(folder, split, "split.json"), {"txt": "str"})
    assert texts(dataset) == [4, 6, 7, 9]
    assert texts(pickle.loads(pickle.dumps(dataset))) == [4, 6, 7, 9]
    indices = folder / "indices"
    indices.mkdir()
    # Stored indices must not apply exclusions to datasets that have different ones.
    assert texts(TarDataset(folder, {"txt": "str"}, index_folder=indices)) == [4, 6, 7, 9]
    assert texts(TarDataset(str(folder / "shards/s-{1..2}.tar"), {"txt": "str"}, index_folder=indices)) == [
        *range(4, 10)
    ]
    parts = {"train": ["shards/s-{0..2}.tar"]}
    energon(folder, json.dumps({"split_parts": parts}), "split.json")
    everything = TarDataset(folder, {"txt": "str"}, index_folder=indices)
    assert texts(everything) == [*range(10)]
    energon(folder, json.dumps({"split_parts": parts, "exclude": [f"shards/s-1.tar/{keys[5]}"]}), "split.json")
    for on_missing in ("error", "skip"):
        some = TarDataset(folder, {"txt": "str"}, on_missing=on_missing, index_folder=indices)
        check_format(some, [sample for sample in everything if sample["__key__"] != keys[5]])


def test_an_index_of_wids_is_found_in_the_folder_of_the_archives(folder: pathlib.Path) -> None:
    wids(folder)
    assert texts(TarDataset(folder, {"txt": "str"})) == [*range(10)]
    beside = folder / "shards" / "any.json"
    beside.write_text(json.dumps({"shardlist": [{"url": f"s-{n}.tar", "nsamples": 4} for n in range(3)]}))
    (folder / "shards" / "other.json").write_text("[" * 100_000 + '"shardlist"')
    (folder / "shards" / "labels.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"any\.json' lists 4 samples in .*s-2\.tar', but found 2"):
        assert texts(TarDataset(str(folder / "shards/s-*.tar"), {"txt": "str"})) == [*range(10)]
    # A list that is right about the given archives, or does not name all of them, causes no warning.
    assert texts(TarDataset(str(folder / "shards/s-{0..1}.tar"), {"txt": "str"})) == [*range(8)]
    beside.write_text(json.dumps({"shardlist": [{"url": "s-0.tar", "nsamples": 9}]}))
    assert texts(TarDataset(str(folder / "shards/s-*.tar"), {"txt": "str"})) == [*range(10)]
    (folder / "empty").mkdir()
    with pytest.raises(
        ValueError, match=r"urls: expected a folder prepared .* but got neither in .*; pass the paths of the archives"
    ):
        TarDataset(folder / "empty")
    (folder / "shards" / "second.json").write_text(json.dumps({"shardlist": [{"url": "s-1.tar"}]}))
    with pytest.raises(ValueError, match=r"but got \['any\.json', 'second\.json'\]"):
        TarDataset(folder / "shards")


@pytest.mark.parametrize("name", ["wids", "split.yaml", "split.json", ".info.yaml"])
def test_a_list_with_damage_anywhere_is_read_or_named(folder: pathlib.Path, name: str) -> None:
    split = {"split_parts": {"train": ["shards/s-{0..2}.tar"]}, "exclude": ["shards/s-1.tar/4"]}
    if name == "split.json":
        energon(folder, json.dumps(split), name)
    else:
        energon(folder)
    given = wids(folder) if name == "wids" else folder
    path = given if name == "wids" else folder / ".nv-meta" / name
    whole = path.read_bytes()
    for place in range(len(whole)):
        for other in (b"", bytes([whole[place] ^ 1 << place % 8]), b"\0", b"\xff"):
            path.write_bytes(whole[:place] + other + (whole[place + 1 :] if other else b""))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    read = texts(TarDataset(given, {"txt": "str"}, index_folder="/proc/no-folder"))
            except (ValueError, OSError) as error:
                assert str(folder) in str(error)  # noqa: PT017
            else:
                assert set(read) <= set(range(10))
