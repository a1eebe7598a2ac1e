"""`DamagedImageError`: one exception for damaged images, from every dataset, loader, and stream."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import sluicegate
from doubles.photographs import encoded, photograph
from sluicegate import (
    DamagedImageError,
    DataLoader,
    ImageField,
    ImageFolderDataset,
    ParquetDataset,
    TarDataset,
    TarStream,
    decode_image,
)
from sluicegate import transforms as T


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, Any]:
    """Return a dataset or stream of each kind in which one image is not an image."""
    files = [encoded(photograph(number)) for number in range(2)] + [b"text"]
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number, content in enumerate(files):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    folder = tmp_path / "folder" / "class"
    folder.mkdir(parents=True)
    for number, content in enumerate(files):
        (folder / f"{number}.jpg").write_bytes(content)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"image": pa.array(files)}), tmp_path / "a.parquet")
    field = ImageField(T.CenterCrop(8))
    return {
        "tar": TarDataset(tmp_path / "a.tar", {"jpg": field}),
        "any size": TarDataset(tmp_path / "a.tar", {"jpg": "image"}),
        "stream": TarStream(str(tmp_path / "a.tar"), {"jpg": field}),
        "folder": ImageFolderDataset(tmp_path / "folder", T.CenterCrop(8)),
        "parquet": ParquetDataset(tmp_path / "a.parquet", {"image": field}),
    }


@pytest.mark.parametrize("name", ["tar", "any size", "stream", "folder", "parquet"])
def test_damaged_image_error_is_an_os_error_and_a_value_error(broken: dict[str, Any], name: str) -> None:
    dataset = broken[name]
    ways: list[Callable[[], Any]] = [
        lambda: list(DataLoader(dataset, batch_size=None)),
        lambda: list(DataLoader(dataset, batch_size=3, collate_fn=list)),
        lambda: list(DataLoader(dataset, batch_size=3, num_workers=1)),
        lambda: list(DataLoader(dataset, batch_size=3, num_workers=1, worker_type="thread")),
        lambda: list(torch.utils.data.DataLoader(dataset, batch_size=3, num_workers=1, collate_fn=list)),
    ]
    if name != "stream":
        ways += [lambda: dataset[2], lambda: dataset[0:3]]
    for way in ways:
        with pytest.raises(DamagedImageError, match="text") as caught:
            way()
        assert isinstance(caught.value, OSError)
        assert isinstance(caught.value, ValueError)


def test_decode_image_raises_it_and_it_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(photograph(1))[:100])
    for image in (tmp_path / "a.jpg", b"text", b""):
        with pytest.raises(DamagedImageError) as caught:
            decode_image(image)
        copied = pickle.loads(pickle.dumps(caught.value))
        assert type(copied) is DamagedImageError
        assert str(copied) == str(caught.value)
    assert sluicegate.DamagedImageError is DamagedImageError


def test_an_error_of_a_transform_is_not_one_of_the_file(tmp_path: Path) -> None:
    def fails(image: Any, *more: Any) -> Any:
        raise ValueError("my own mistake")

    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        for member_name, content in (("0.jpg", encoded(photograph(0))), ("0.json", b"[[1, 2, 3, 4]]")):
            member = tarfile.TarInfo(member_name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    pytest.importorskip("torchvision")
    for fields in ({"jpg": ImageField(fails)}, {"jpg": ImageField(fails, boxes="json"), "json": "json"}):
        for dataset in (
            TarDataset(tmp_path / "b.tar", fields),
            TarStream(str(tmp_path / "b.tar"), fields, on_error="skip"),
        ):
            with pytest.raises(ValueError, match="my own mistake") as caught:
                list(DataLoader(dataset, batch_size=None))
            assert not isinstance(caught.value, DamagedImageError)


UNSUPPORTED = {
    "AVIF": b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(40),
    "AVIF ": b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf" + bytes(40),
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
    "JPEG XL": b"\xff\x0a" + bytes(40),
    "JPEG XL ": b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40),
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_formats_that_are_not_decoded_are_named(name: str) -> None:
    with pytest.raises(DamagedImageError, match=f"the image format {name.strip()} is not supported: expected a JPEG"):
        decode_image(UNSUPPORTED[name])


@pytest.mark.parametrize("form", ["AVIF", "JPEG2000"])
def test_files_of_pillow_in_such_formats_are_named(form: str) -> None:
    file = io.BytesIO()
    try:
        photograph(1).save(file, form)
    except (KeyError, OSError):
        pytest.skip(f"Pillow has no {form} here")
    with pytest.raises(DamagedImageError, match=r"the image format (AVIF|JPEG 2000) is not supported"):
        decode_image(file.getvalue())


@pytest.mark.parametrize("content", [b"\0\0\0\x1cftypisom\0\0\0\0isomavc1mp41", b"\0\0\0\xffftyp", b"\0\0\0\0ftyp"])
def test_a_video_and_a_cut_file_are_not_taken_for_an_image(content: bytes) -> None:
    with pytest.raises(DamagedImageError, match="it begins with"):
        decode_image(content)
