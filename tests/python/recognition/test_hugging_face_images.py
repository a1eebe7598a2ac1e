"""Hugging Face's `Image` columns: files given by path, and images rotated by EXIF data, as in `datasets`."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from sluicegate import ArrowDataset, DamagedImageError, DataLoader, ImageField, ParquetDataset, decode_image
from sluicegate import transforms as T

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
datasets = pytest.importorskip("datasets")

KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FORMATS = ("jpeg", "png", "webp", "tiff")


def turned(number: int, form: str = "png") -> bytes:
    """Return a photograph that is wider than high, with one of the eight orientations."""
    exif = Image.Exif()
    exif[0x0112] = number % 8 + 1
    file = io.BytesIO()
    options = {"lossless": True} if form == "webp" else {}
    photograph(number, 33, 21).save(file, form, exif=exif, **options)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write images as bytes, with a relative path, with an absolute path, and with both; return their folder."""
    (tmp_path / "images").mkdir()
    rows = []
    for number in range(16):
        content = turned(number, FORMATS[number // 2 % 4])
        file = tmp_path / "images" / f"{number}.bin"
        file.write_bytes(content)
        rows.append(
            [
                {"bytes": content, "path": None},
                {"bytes": None, "path": f"images/{number}.bin"},
                {"bytes": None, "path": str(file)},
                {"bytes": content, "path": "not/there.png"},
            ][number % 4]
        )
    table = pa.table({"image": pa.array(rows, KIND), "label": pa.array(range(16))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    return tmp_path


def theirs(folder: Path) -> list[torch.Tensor]:
    """What `datasets` makes of the column, from the folder that relative paths begin at."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        read = datasets.load_dataset(
            "parquet", data_files=str(folder / "a.parquet"), features=features, split="train", streaming=True
        )
        return [torch.from_numpy(np.array(row["image"].convert("RGB"))).permute(2, 0, 1).contiguous() for row in read]
    finally:
        os.chdir(before)


@pytest.mark.parametrize("kind", [ParquetDataset, ArrowDataset])
@pytest.mark.parametrize("nulls", ["error", "mask"])
def test_images_are_those_of_datasets(folder: Path, kind: Any, nulls: str) -> None:
    path = folder / ("a.parquet" if kind is ParquetDataset else "a.arrow")
    dataset = kind(path, {"image": "image", "label": None}, nulls=nulls)
    expected = theirs(folder)
    assert {tuple(image.shape) for image in expected} == {(3, 21, 33), (3, 33, 21)}
    for number, image in enumerate(expected):
        assert torch.equal(dataset[number]["image"], image), number
    for options in ({}, {"num_workers": 2}, {"num_workers": 1, "worker_type": "thread"}):
        loaded = [sample["image"] for sample in DataLoader(dataset, batch_size=None, **options)]
        assert_same(loaded, expected)
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[1]["image"], expected[1])


@pytest.mark.parametrize("kind", [ParquetDataset, ArrowDataset])
def test_batches_made_in_rust_are_the_same(folder: Path, kind: Any) -> None:
    path = folder / ("a.parquet" if kind is ParquetDataset else "a.arrow")
    steps = [T.Resize((20, 20)), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)]
    expected = torch.stack([T.Compose([steps[0], steps[2]])(image) for image in theirs(folder)])
    for cache in (None, "memory"):
        field = ImageField(T.Compose([steps[0], steps[2]]), exact=True, cache=cache)
        dataset = kind(path, {"image": field, "label": None})
        assert dataset.is_native
        for _ in range(2):
            (batch,) = DataLoader(dataset, batch_size=16, num_workers=2)
            assert torch.equal(batch["image"], expected)
    dataset = kind(path, {"image": ImageField(T.Compose(steps)), "label": None})
    native = list(DataLoader(dataset, batch_size=4, seed=1, num_workers=2))
    dataset.is_native = False
    assert_same(list(DataLoader(dataset, batch_size=4, seed=1)), native)


def test_exif_orientation_determines_whether_images_are_rotated(folder: Path) -> None:
    dataset = ParquetDataset(folder / "a.parquet", {"image": ImageField(exif_orientation=False)})
    for number, sample in enumerate(DataLoader(dataset, batch_size=None)):
        # Pillow itself rotates TIFF files.
        width, height = Image.open(io.BytesIO(turned(number, FORMATS[number // 2 % 4]))).size
        assert sample["image"].shape == (3, height, width)
        assert (width, height) == (33, 21) or FORMATS[number // 2 % 4] == "tiff"
    # Bytes outside a struct are decoded as by `decode_image`.
    pq.write_table(pa.table({"image": [turned(7, "jpeg")]}), folder / "b.parquet")
    for field, is_turned in (("image", False), (ImageField(exif_orientation=True), True)):
        image = ParquetDataset(folder / "b.parquet", {"image": field})[0]["image"]
        assert torch.equal(image, decode_image(turned(7, "jpeg"), exif_orientation=is_turned))
        assert image.shape == ((3, 33, 21) if is_turned else (3, 21, 33))


def test_masks_are_read_through_their_paths(tmp_path: Path) -> None:
    rows, masks = [], []
    for number in range(6):
        mask = Image.fromarray(np.random.default_rng(number).integers(0, 9, (21, 33), dtype=np.uint8))
        (tmp_path / f"{number}.png").write_bytes(encoded(mask, "png"))
        rows.append({"bytes": encoded(photograph(number, 33, 21)), "path": None})
        masks.append({"bytes": None, "path": f"{number}.png"})
    pq.write_table(pa.table({"image": pa.array(rows, KIND), "mask": pa.array(masks, KIND)}), tmp_path / "a.parquet")
    columns = {"image": ImageField(T.CenterCrop(20), masks="mask"), "mask": ImageField(mode="P")}
    dataset = ParquetDataset(tmp_path / "a.parquet", columns)
    assert dataset.is_native
    (batch,) = DataLoader(dataset, batch_size=6)
    for number in range(6):
        expected = T.CenterCrop(20)(decode_image(tmp_path / f"{number}.png", "P"))
        assert torch.equal(dataset[number]["mask"], expected)
        assert torch.equal(batch["mask"][number], expected)


def test_unreadable_images_are_errors_or_skipped(folder: Path) -> None:
    rows = [
        {"bytes": encoded(photograph(1)), "path": None},
        {"bytes": None, "path": "not/there.png"},
        {"bytes": None, "path": "https://example.com/a.png"},
        {"bytes": None, "path": None},
        {"bytes": b"text", "path": None},
        None,
        {"bytes": None, "path": "images/1.bin"},
    ]
    pq.write_table(pa.table({"image": pa.array(rows, KIND)}), folder / "b.parquet")
    for field in (ImageField(), ImageField(T.Resize((4, 4)))):
        dataset = ParquetDataset(folder / "b.parquet", {"image": field})
        reasons = {1: "not/there.png", 2: "is not a local path", 3: "null", 4: "text", 5: "null"}
        for number, reason in reasons.items():
            with pytest.raises(DamagedImageError, match=rf"row {number} of .*b\.parquet: .*{reason}"):
                dataset[number]
            with pytest.raises(DamagedImageError, match=reason):
                list(DataLoader(dataset, batch_size=1, sampler=[number]))
        whole = ParquetDataset(folder / "b.parquet", {"image": field}, on_error="skip")
        assert len(whole) == 2
        assert len(whole.damages) == 5
        assert torch.equal(whole[1]["image"], dataset[6]["image"])
        masked = ParquetDataset(folder / "b.parquet", {"image": field}, nulls="mask")
        assert masked[3]["image"] is None
        assert masked[5]["image"] is None
        assert torch.equal(masked[6]["image"], dataset[6]["image"])
        whole = ParquetDataset(folder / "b.parquet", {"image": field}, nulls="mask", on_error="skip")
        assert [sample["image"] is None for sample in whole] == [False, True, True, False]


def test_relative_paths_of_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(encoded(photograph(ord(name)), "png"))
        pq.write_table(
            pa.table({"image": pa.array([{"bytes": None, "path": "x.png"}], KIND)}), tmp_path / name / "x.parquet"
        )
    dataset = ParquetDataset([tmp_path / "a" / "x.parquet", tmp_path / "b" / "x.parquet"], {"image": "image"})
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(DamagedImageError, match="relative, but the files of the dataset are in several folders"):
        dataset[0]
    # As in `datasets`, if there is no such file next to the table.
    (tmp_path / "a" / "x.png").unlink()
    dataset = ParquetDataset(tmp_path / "a" / "x.parquet", {"image": "image"})
    assert torch.equal(dataset[0]["image"], decode_image(tmp_path / "b" / "x.png"))


# Kinds of stored images, by Pillow's mode. Not 16-bit gray, which Pillow clips at 255, as documented.
KINDS = ("RGB", "L", "LA", "RGBA", "P", "1", "CMYK")


def of_kind(kind: str, number: int) -> bytes:
    image = photograph(number, 33, 21)
    if kind in ("LA", "RGBA"):
        image.putalpha(photograph(number + 9, 33, 21).convert("L"))
    return encoded(image.convert(kind), "tiff" if kind == "CMYK" else "png")


@pytest.fixture(params=["L", "RGB", "RGBA", None])
def with_mode(request: Any, tmp_path: Path) -> tuple[Path, Any]:
    """Return a folder and its table with images of every kind, which `datasets` converts to one mode."""
    features = datasets.Features({"image": datasets.Image(mode=request.param), "label": datasets.Value("int64")})
    rows = [{"bytes": of_kind(kind, number), "path": None} for number, kind in enumerate(KINDS)]
    table = datasets.Dataset.from_dict({"image": rows, "label": list(range(len(rows)))}, features=features)
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "saved")
    return tmp_path, table


@pytest.mark.parametrize("kind", [ParquetDataset, ArrowDataset])
def test_the_mode_is_that_of_the_column(with_mode: tuple[Path, Any], kind: Any) -> None:
    folder, table = with_mode
    mode = table.features["image"].mode
    paths = [folder / "a.parquet"] if kind is ParquetDataset else sorted((folder / "saved").glob("*.arrow"))
    dataset = kind(paths, {"image": "image", "label": None})
    if kind is ParquetDataset:
        table = datasets.load_dataset(
            "parquet", data_files=str(paths[0]), split="train", cache_dir=str(folder / "cache")
        )
        assert table.features["image"].mode == mode
    for number, row in enumerate(table):
        image = row["image"] if mode is not None else row["image"].convert("RGB")
        array = np.array(image)
        expected = torch.from_numpy(array[:, :, None] if array.ndim == 2 else array).permute(2, 0, 1)
        for one in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert torch.equal(one[number]["image"], expected), KINDS[number]
    # The same for whole batches, with transforms and a cache.
    fixed = kind(paths, {"image": ImageField(T.CenterCrop(9), cache="memory"), "label": None})
    assert fixed.is_native
    (batch,) = DataLoader(fixed, batch_size=len(KINDS))
    for number in range(len(KINDS)):
        assert torch.equal(batch["image"][number], T.CenterCrop(9)(dataset[number]["image"]))
    # An explicit mode overrides the column's.
    chosen = kind(paths, {"image": ImageField(mode="L"), "label": None})
    assert chosen[0]["image"].shape == (1, 21, 33)


def test_datasets_with_a_mode_are_read_as_torch_reads_them(with_mode: tuple[Path, Any]) -> None:
    """The package's own datasets decode their images themselves, with either loader."""
    _, table = with_mode
    if table.features["image"].mode is None:
        table = table.cast_column("image", datasets.Image(mode="RGB"))
    for dataset in (table.with_format("torch"), table.to_iterable_dataset().with_format("torch")):
        expected = list(torch.utils.data.DataLoader(dataset, batch_size=3))
        for options in ({}, {"num_workers": 1}):
            assert_same(list(DataLoader(dataset, batch_size=3, **options)), expected)
    lists = table.add_column(
        "images", [[row] for row in table.cast_column("image", datasets.Image(decode=False))["image"]]
    )
    features = datasets.Features({**table.features, "images": datasets.List(table.features["image"])})
    lists = lists.cast(features).with_format("torch")
    assert_same(list(DataLoader(lists, batch_size=2)), list(torch.utils.data.DataLoader(lists, batch_size=2)))


@pytest.mark.parametrize("mode", ["P", "1", "CMYK", "I", "F"])
def test_unsupported_image_modes_are_refused(tmp_path: Path, mode: str) -> None:
    features = datasets.Features({"image": datasets.Image(mode=mode)})
    rows = [{"bytes": turned(1), "path": None}]
    datasets.Dataset.from_dict({"image": rows}, features=features).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        ValueError, match=rf"columns\['image'\]: expected Image\(mode=...\) .* got '{mode}'; choose a mode"
    ):
        ParquetDataset(tmp_path / "a.parquet", {"image": "image"})
    chosen = ParquetDataset(tmp_path / "a.parquet", {"image": ImageField(mode="RGB", exif_orientation=False)})
    assert torch.equal(chosen[0]["image"], decode_image(turned(1)))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"info": 3}', '{"info": {"features": [1]}}'])
def test_invalid_metadata_is_ignored(tmp_path: Path, text: str) -> None:
    table = pa.table({"image": pa.array([{"bytes": turned(0), "path": None}], KIND)})
    pq.write_table(table.replace_schema_metadata({"huggingface": text}), tmp_path / "a.parquet")
    assert ParquetDataset(tmp_path / "a.parquet", {"image": "image"})[0]["image"].shape == (3, 21, 33)


def test_images_in_structs_are_refused(tmp_path: Path) -> None:
    features = datasets.Features({"pair": {"left": datasets.Image(mode="L"), "right": datasets.Image(mode="RGBA")}})
    image = {"bytes": turned(0), "path": None}
    rows = [{"left": image, "right": image}]
    datasets.Dataset.from_dict({"pair": rows}, features=features).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"columns\['pair.left'\]: expected a column of images"):
        ParquetDataset(tmp_path / "a.parquet", {"pair.left": "image", "pair.right": "image"})
