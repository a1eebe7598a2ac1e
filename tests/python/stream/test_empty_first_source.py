"""Native streams infer their fields from the first source that has a sample."""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks.equality import assert_same
from doubles import tar_files, tfrecord_files
from doubles.tfrecord_files import example
from sluicegate import (
    CsvDataset,
    CsvStream,
    DataLoader,
    TarDataset,
    TarStream,
    TFRecordDataset,
    TFRecordStream,
)

# The stream, the dataset, sources without samples, and one with samples.
Case = tuple[Callable[..., Any], Callable[..., Any], list[str], str]

SAMPLES = 5


def tfrecord(folder: pathlib.Path) -> Case:
    full = tfrecord_files.put(folder / "full", *(example({"x": [n], "name": [b"%d" % n]}) for n in range(SAMPLES)))
    empty = [tfrecord_files.put(folder / f"empty-{number}") for number in range(2)]
    return TFRecordStream, TFRecordDataset, empty, full


def archives(folder: pathlib.Path) -> tuple[list[str], str]:
    members = [
        (f"{number}.{extension}", contents)
        for number in range(SAMPLES)
        for extension, contents in (("cls", b"%d" % number), ("npy", tar_files.npy(np.arange(3) + number)))
    ]
    empty = [
        tar_files.put(folder / "empty.tar", []),
        tar_files.put(folder / "readme.tar", [("README", b"x" * 1000)]),
    ]
    return empty, tar_files.put(folder / "full.tar", members)


def tar(folder: pathlib.Path) -> Case:
    return (TarStream, TarDataset, *archives(folder))


def arrays(folder: pathlib.Path) -> Case:
    fields = {"npy": "npy"}
    return (
        lambda urls, **more: TarStream(urls, fields, **more),
        lambda urls: TarDataset(urls, fields),
        *archives(folder),
    )


def csv(folder: pathlib.Path) -> Case:
    rows = "".join(f"{number},{number / 2},text {number}\n" for number in range(SAMPLES))
    for name, text in (("empty", ""), ("header", "x,y,z\n"), ("full", f"x,y,z\n{rows}")):
        (folder / name).write_text(text)
    return CsvStream, CsvDataset, [str(folder / "empty"), str(folder / "header")], str(folder / "full")


def typed_csv(folder: pathlib.Path) -> Case:
    _, _, empty, full = csv(folder)
    fields = {"y": float}
    return lambda urls, **more: CsvStream(urls, fields, **more), lambda urls: CsvDataset(urls, fields), empty, full


@pytest.fixture(params=[tfrecord, tar, arrays, csv, typed_csv], ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Case:
    made: Case = request.param(tmp_path)
    return made


def test_sources_without_samples_come_first(case: Case) -> None:
    stream, dataset, empty, full = case
    for sources in ([full], [empty[0], full], [empty[1], full], [*empty, full], [*empty, full, empty[0], full]):
        expected = list(dataset(sources))
        assert len(expected) == SAMPLES * sources.count(full)
        assert_same(list(stream(sources)), expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_has_the_same_batches(case: Case, workers: int) -> None:
    stream, _, empty, full = case
    expected = list(DataLoader(stream([full]), batch_size=2, num_workers=workers))
    assert_same(list(DataLoader(stream([*empty, full]), batch_size=2, num_workers=workers)), expected)


def test_a_stream_resumes_after_sources_without_samples(case: Case) -> None:
    stream, dataset, empty, full = case
    sources = [*empty, full]
    for read in range(SAMPLES):
        begun = stream(sources)
        iterator = iter(begun)
        for _ in range(read):
            next(iterator)
        again = stream(sources)
        again.load_state_dict(json.loads(json.dumps(begun.state_dict())))
        assert_same(list(again), list(dataset(sources))[read:])


def test_sources_that_can_be_read_only_once_are_read_once(case: Case) -> None:
    stream, dataset, empty, full = case

    def opened(path: str) -> io.BytesIO:
        return io.BytesIO(pathlib.Path(path).read_bytes())

    def names_only(samples: list[Any]) -> list[Any]:
        return [{name: value for name, value in sample.items() if name != "__url__"} for sample in samples]

    expected = names_only(list(dataset([full])))
    for sources in ([*map(opened, empty), opened(full)], [empty[0], opened(empty[1]), opened(full)]):
        assert_same(names_only(list(stream(sources))), expected)
    commands = [f"pipe:cat {path}" for path in (*empty, full)]
    assert_same(names_only(list(stream(commands))), expected)


def test_without_samples_a_stream_is_empty(tmp_path: pathlib.Path) -> None:
    for make in (tfrecord, tar, arrays, csv):
        stream, _, empty, _ = make(tmp_path)
        assert list(stream(empty)) == list(stream(empty[::-1])) == list(stream(empty[:1])) == []
    (tmp_path / "empty").write_text("")
    with pytest.raises(ValueError, match="there is no column `y`"):
        list(CsvStream([str(tmp_path / "empty")] * 2, {"y": float}))


def test_a_different_header_after_one_without_rows_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").write_text("a,b\n")
    (tmp_path / "2").write_text("b,a\n1,2\n")
    with pytest.raises(ValueError, match=r'/2, byte 0: .*the header is \["b", "a"\], but that of the first file'):
        list(CsvStream([str(tmp_path / "1"), str(tmp_path / "2")]))


def test_fields_that_are_inferred_from_another_source_do_not_end_one_that_continues(tmp_path: pathlib.Path) -> None:
    members = [(f"{number}.cls", b"%d" % number) for number in range(SAMPLES)]
    first = tar_files.put(tmp_path / "first.tar", members[:1])
    rest = pathlib.Path(tar_files.put(tmp_path / "rest.tar", members[1:])).read_bytes()

    stream = TarStream([first, io.BytesIO(rest)], continues=True)
    samples = iter(stream)
    assert [next(samples)["cls"] for _ in range(2)] == [b"0", b"1"]
    # The header and the contents of a member are 512 bytes each.
    resumed = TarStream([first, io.BytesIO(rest[1024:])], continues=True)
    resumed.load_state_dict(stream.state_dict())
    assert [sample["cls"] for sample in resumed] == [b"2", b"3", b"4"]
