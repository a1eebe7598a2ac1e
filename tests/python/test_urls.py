"""URLs where a path is expected: the error calls them URLs and gives a remedy, rather than reporting a missing file."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sluicegate
from doubles.tar_files import put
from sluicegate import paths

READERS: dict[str, Callable[[Any], Any]] = {
    "Arrow": sluicegate.ArrowDataset,
    "Csv": sluicegate.CsvDataset,
    "CsvStream": sluicegate.CsvStream,
    "Folder": sluicegate.FolderDataset,
    "ImageFolder": sluicegate.ImageFolderDataset,
    "JsonLines": sluicegate.JsonLinesDataset,
    "JsonLinesStream": sluicegate.JsonLinesStream,
    "Mds": sluicegate.MdsDataset,
    "Npy": sluicegate.NpyDataset,
    "Npz": sluicegate.NpzDataset,
    "Parquet": sluicegate.ParquetDataset,
    "Raw": lambda path: sluicegate.RawDataset(path, dtype="u1"),
    "RawStream": lambda path: sluicegate.RawStream(path, dtype="u1"),
    "Safetensors": sluicegate.SafetensorsDataset,
    "TFRecord": lambda path: sluicegate.TFRecordDataset(path),
    "TFRecordStream": lambda path: sluicegate.TFRecordStream(path),
    "Tar": lambda path: sluicegate.TarDataset(path, {"txt": "bytes"}),
    "TarStream": lambda path: sluicegate.TarStream(path, {"txt": "bytes"}),
    "Tokens": lambda path: sluicegate.TokensDataset(path, 4),
    "TokenDocuments": sluicegate.TokenDocumentsDataset,
    "Zarr": sluicegate.ZarrDataset,
    "Hdf5": sluicegate.Hdf5Dataset,
    "write_tokens": lambda path: sluicegate.write_tokens([[1]], f"{path}-{{}}.bin"),
    "write_parquet": lambda path: sluicegate.write_parquet([{"x": 1}], f"{path}-{{}}.parquet"),
    "write_zarr": lambda path: sluicegate.write_zarr([1], path),
    "write_tar": lambda path: sluicegate.write_tar([{"x.txt": b"1"}], f"{path}-{{}}.tar"),
}

URLS = {
    "https://example.com/train.bin": "curl -sfL",
    "s3://bucket/train-{000..009}.tar": "pipe:aws s3 cp URL -",
    "gs://bucket/*.parquet": "pipe:gcloud storage cat URL",
    "hf://datasets/x/y": r"huggingface_hub\.snapshot_download",
    "HTTP://example.com": "curl",
    "file:///data/train.bin": "pass the path without the scheme",
    "file:/data/train.bin": "pass the path without the scheme",
    "az+x.1://container": "download it first",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("url", URLS)
def test_a_url_is_refused_as_such(name: str, url: str) -> None:
    expected = f"only local files are read, got the URL .*{URLS[url]}"
    if name.startswith("write_") and not url.startswith("file:"):
        expected = "only local files are written, got the URL .*; write to a local folder, and upload it"
    with pytest.raises(ValueError, match=expected):
        READERS[name](url)


@pytest.mark.parametrize("name", ["Arrow", "Csv", "JsonLines", "Parquet", "ImageFolder"])
def test_urls_among_paths_and_as_index_folder_are_refused(tmp_path: Path, name: str) -> None:
    reader: Any = READERS[name]
    if name != "ImageFolder":
        with pytest.raises(ValueError, match="paths: only local files are read, got the URL 's3://b/x'"):
            reader([str(tmp_path / "a"), "s3://b/x"])
    with pytest.raises(ValueError, match="only local files are read, got the URL"):
        reader(str(tmp_path), index_folder="s3://b/x")


@pytest.mark.parametrize("url", URLS)
def test_a_url_of_an_image_is_refused_as_such(url: str) -> None:
    with pytest.raises(ValueError, match="image: only local files are read, got the URL"):
        sluicegate.decode_image(url)


def test_a_url_of_the_users_cache_is_refused_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_CACHE", "s3://bucket/cache")
    path = Path(put(tmp_path / "x.tar", [("0.txt", b"x")]))
    (packed := tmp_path / "x.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(ValueError, match=r"SLUICEGATE_CACHE: .*got the URL .*s3://bucket/cache"):
        sluicegate.TarDataset(packed, {"txt": "str"})
    with pytest.raises(ValueError, match=r"SLUICEGATE_CACHE: .*got the URL .*s3://bucket/cache"):
        sluicegate.ImageField(cache="disk").of_dataset(1)
    assert not (tmp_path / "s3:").exists()


def test_a_local_path_may_look_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "https:" / "example.com").mkdir(parents=True)
    (tmp_path / "https:" / "example.com" / "a.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert paths.expand("https://example.com/a.txt") == [str(tmp_path / "https:" / "example.com" / "a.txt")]
    # Names with a colon are not URLs.
    for name in ("a:b", "c:\\x", "12://x", "x:/y"):
        assert paths.expand(name) == [str(tmp_path / name)]
