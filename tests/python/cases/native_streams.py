"""Streams that the core reads, and the samples they yield."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from doubles.tar_files import FIELDS, many, put
from doubles.tfrecord_files import put_some
from sluicegate import (
    CsvDataset,
    CsvStream,
    JsonLinesDataset,
    JsonLinesStream,
    RawDataset,
    RawStream,
    TarDataset,
    TarStream,
    TFRecordDataset,
    TFRecordStream,
)

Case = tuple[Callable[..., Any], Any, str]


def tar(tmp_path: pathlib.Path) -> Case:
    path = put(tmp_path / "a.tar", many(23))
    return (lambda urls, **more: TarStream(urls, FIELDS, **more)), TarDataset(path, FIELDS), path


def tar_with_gaps(tmp_path: pathlib.Path) -> Case:
    members = [member for number, member in enumerate(many(23)) if number % 7]
    path = put(tmp_path / "gaps.tar", members)
    fields = {name: field for name, field in FIELDS.items() if name != "seg.npy"}
    return (
        (lambda urls, **more: TarStream(urls, fields, on_missing="none", **more)),
        TarDataset(path, fields, on_missing="none"),
        path,
    )


def json_lines(tmp_path: pathlib.Path) -> Case:
    path = tmp_path / "a.jsonl"
    lines = [
        json.dumps({"text": f"é{number}", "ids": list(range(number % 4)), "x": number / 3}) for number in range(31)
    ]
    path.write_text("\ufeff" + "\r\n\n".join(lines), newline="")
    fields = {"text": str, "ids": [int], "x": float}
    return (lambda urls, **more: JsonLinesStream(urls, fields, **more)), JsonLinesDataset(path, fields), str(path)


def whole_lines(tmp_path: pathlib.Path) -> Case:
    path = tmp_path / "whole.jsonl"
    path.write_text("".join(json.dumps({"a": number, "b": ["x", number / 2]}) + "\n" for number in range(31)))
    return JsonLinesStream, JsonLinesDataset(path), str(path)


def csv(tmp_path: pathlib.Path) -> Case:
    path = tmp_path / "a.csv"
    rows = [f'"a ""{number}"",\n",{number},{number / 7},' for number in range(29)]
    path.write_text("name,size,share,note\n" + "\r\n\n".join(rows), newline="")
    return CsvStream, CsvDataset(path), str(path)


def tfrecord(tmp_path: pathlib.Path) -> Case:
    path = put_some(tmp_path / "a.tfrecord", 27)
    return TFRecordStream, TFRecordDataset(path), path


def raw(tmp_path: pathlib.Path) -> Case:
    path = tmp_path / "a.bin"
    point = np.dtype([("position", ">f4", 3), ("class", "u1")])
    values = np.zeros(25, point)
    values["position"] = np.arange(75).reshape(25, 3)
    values["class"] = np.arange(25)
    path.write_bytes(b"head" + values.tobytes())
    arguments: dict[str, Any] = {"dtype": point, "header_bytes": 4}
    return (lambda urls, **more: RawStream(urls, **arguments, **more)), RawDataset(path, **arguments), str(path)


CASES = [tar, tar_with_gaps, json_lines, whole_lines, csv, tfrecord, raw]


@pytest.fixture(params=CASES, ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Case:
    """Each stream, with the dataset of the same samples and the path of both."""
    made: Case = request.param(tmp_path)
    return made
