"""Boxes and masks that are transformed with the image of a sample: as by torchvision, in any process."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cases.annotated_images import (
    SAMPLES,
    assert_as_torchvisions,
    boxes_of,
    dataset_of,
    marked,
    mask_of,
    tv_tensors,
    v2,
)
from cases.annotated_images import shard as shard
from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from sluicegate import DataLoader, ImageField, ParquetDataset, TarDataset, TarStream, decode_image
from sluicegate import transforms as T
from sluicegate.loader.native_iterator import NativeIterator


def geometry(module: Any = T) -> Any:
    return module.Compose(
        [
            module.RandomAffine(20, translate=(0.1, 0.1), scale=(0.8, 1.2)),
            module.RandomResizedCrop(48, antialias=True),
            module.RandomHorizontalFlip(),
            module.ColorJitter(0.4),
            module.ToDtype(torch.float32, scale=True),
        ]
    )


@pytest.mark.parametrize("module", [T, v2])
def test_places_move_as_torchvision_moves_them(shard: Path, module: Any) -> None:
    dataset = dataset_of(shard, geometry(module))
    for number in range(SAMPLES):
        torch.manual_seed(number)
        expected = geometry(v2)(marked(number))
        torch.manual_seed(number)
        assert_as_torchvisions(dataset[number], expected)


def test_batches_are_equal_whoever_makes_them(shard: Path) -> None:
    dataset = dataset_of(shard, geometry())
    native = list(DataLoader(dataset, batch_size=4, seed=3, shuffle=True))
    assert isinstance(iter(DataLoader(dataset, seed=3)), NativeIterator)
    assert native[0]["seg.png"].shape == (4, 1, 48, 48)
    assert native[0]["box.npy"]["values"].shape == (int(native[0]["box.npy"]["offsets"][-1]), 4)
    in_python = dataset_of(shard, geometry())
    in_python.is_native = False
    for other, options in [
        (in_python, {}),
        (in_python, {"num_workers": 2}),
        (dataset, {"num_workers": 2}),
        (pickle.loads(pickle.dumps(dataset)), {"num_workers": 1, "worker_type": "thread"}),
    ]:
        assert_same(list(DataLoader(other, batch_size=4, seed=3, shuffle=True, **options)), native)


def test_without_a_seed_the_order_of_draws_is_torchs(shard: Path) -> None:
    dataset = dataset_of(shard, geometry())
    torch.manual_seed(5)
    theirs = list(torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=dataset.collate))
    torch.manual_seed(5)
    assert_same(list(DataLoader(dataset, batch_size=4)), theirs)


def test_a_stream_moves_boxes_and_masks(shard: Path) -> None:
    dataset = dataset_of(shard, geometry())
    assert dataset.fields is not None
    stream = TarStream(str(shard), dataset.fields)
    torch.manual_seed(5)
    theirs = list(torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=dataset.collate))
    for loader in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(5)
        batches = list(loader(stream, batch_size=4, collate_fn=stream.collate))
        for batch, expected in zip(batches, theirs, strict=True):
            assert_same({**batch, "__url__": expected["__url__"]}, expected)
    torch.manual_seed(5)
    assert_same(list(DataLoader(stream, batch_size=4))[1]["box.npy"], theirs[1]["box.npy"])
    with pytest.raises(ValueError, match=r"expected one of the fields .*, but got 'box'"):
        TarStream(str(shard), {"jpg": ImageField(boxes="box")})


def test_lists_of_json_become_ragged(shard: Path) -> None:
    fields: dict[str, Any] = {"jpg": ImageField(T.CenterCrop(40), boxes="box.json"), "box.json": "json"}
    with tarfile.open(shard.with_name("json.tar"), "w") as archive:
        for number in range(4):
            boxes = json.dumps(boxes_of(number).tolist()).encode()
            for name, content in (("jpg", encoded(photograph(number))), ("box.json", boxes)):
                member = tarfile.TarInfo(f"{number}.{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    for source in (TarDataset, TarStream):
        (batch,) = DataLoader(source(str(shard.with_name("json.tar")), fields), batch_size=4)
        assert batch["box.json"]["offsets"].tolist() == [0, 0, 1, 3, 6]


def test_an_image_that_is_missing_leaves_its_boxes(shard: Path) -> None:
    fields: dict[str, Any] = {"webp": ImageField(T.CenterCrop(4), boxes="box.npy"), "jpg": "image", "box.npy": ["npy"]}
    dataset = TarDataset(shard, fields, on_missing="none")
    (batch, *_) = DataLoader(dataset, batch_size=3)
    assert batch["webp"] == [None] * 3
    assert [image.shape[0] for image in batch["jpg"]] == [3] * 3
    assert torch.equal(batch["box.npy"][2], torch.from_numpy(boxes_of(2)))


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_cache_forgets_no_place(shard: Path, tmp_path: Path, cache: Any) -> None:
    steps = [T.Resize((50, 60), antialias=True), T.RandomCrop(40), T.RandomVerticalFlip()]
    plain = dataset_of(shard, T.Compose(steps))
    cached = dataset_of(shard, T.Compose(steps), cache=cache, cache_folder=tmp_path)
    expected = list(DataLoader(plain, batch_size=4, seed=1))
    loader = DataLoader(cached, batch_size=4, seed=1)
    for _ in range(2):
        loader.set_epoch(0)
        assert_same(list(loader), expected)


def test_another_format_of_boxes(tmp_path: Path) -> None:
    corners = torch.tensor([[10.0, 20.0, 30.0, 50.0]])
    for form in ("XYWH", "CXCYWH"):
        boxes = v2.functional.convert_bounding_box_format(corners, v2_format("XYXY"), v2_format(form))
        field = ImageField(T.Compose([T.RandomHorizontalFlip(1), T.CenterCrop(32)]), boxes="b", box_format=form)
        _, (moved,), *_ = field.decode_moved(encoded(photograph(1, 64, 48)), 0, [boxes], [])
        turned = tv_tensors.BoundingBoxes(boxes, format=form, canvas_size=(48, 64))
        expected = v2.Compose([v2.RandomHorizontalFlip(1), v2.CenterCrop(32)])(turned)
        torch.testing.assert_close(moved, expected.as_subclass(torch.Tensor))


def v2_format(name: str) -> Any:
    return tv_tensors.BoundingBoxFormat[name]


def test_integers_stay_integers_and_arrays_are_masks() -> None:
    field = ImageField(T.Compose([T.CenterCrop(20)]), boxes="b", masks="m")
    mask = torch.arange(48 * 64).reshape(1, 48, 64)
    image, (boxes,), (moved,), *_ = field.decode_moved(encoded(photograph(1, 64, 48)), 0, [[[22, 14, 60, 40]]], [mask])
    assert image.shape == (3, 20, 20)
    assert boxes.tolist() == [[0, 0, 20, 20]]
    assert torch.equal(moved, mask[:, 14:34, 22:42])
    assert field.decode_moved(encoded(photograph(1)), 0, [[]], [None])[1:3] == (
        [pytest.approx(np.zeros((0, 4)))],
        [None],
    )


def test_a_transform_of_ones_own_gets_marked_tensors(shard: Path) -> None:
    def mirror(image: Any, target: dict[str, Any]) -> Any:
        assert isinstance(image, tv_tensors.Image)
        assert isinstance(target["box.npy"], tv_tensors.BoundingBoxes)
        assert isinstance(target["seg.png"], tv_tensors.Mask)
        return v2.functional.horizontal_flip(image), {
            name: v2.functional.horizontal_flip(each) for name, each in target.items()
        }

    dataset = dataset_of(shard, mirror)
    assert not dataset.is_native
    expected = v2.RandomHorizontalFlip(1)(marked(3))
    assert_as_torchvisions({**dataset[3], "jpg": dataset[3]["jpg"]}, expected)
    assert type(dataset[3]["jpg"]) is torch.Tensor


def test_samples_are_tv_tensors_on_request(shard: Path) -> None:
    dataset = dataset_of(shard, T.Compose([T.CenterCrop(40)]), tv_tensors=True)
    sample = dataset[2]
    assert isinstance(sample["jpg"], tv_tensors.Image)
    assert isinstance(sample["box.npy"], tv_tensors.BoundingBoxes)
    assert sample["box.npy"].canvas_size == (40, 40)
    assert isinstance(sample["seg.png"], tv_tensors.Mask)
    theirs = list(torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=dataset.collate))
    ours = list(DataLoader(dataset, batch_size=4))
    assert_same(ours, theirs)
    assert type(ours[0]["jpg"]) is type(theirs[0]["jpg"]) is torch.Tensor


def test_parquet_has_boxes_in_a_struct(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    boxes = [boxes_of(number).tolist() for number in range(6)]
    objects = pa.array([{"bbox": each} for each in boxes], pa.struct([("bbox", pa.list_(pa.list_(pa.float32(), 4)))]))
    files = [{"bytes": encoded(photograph(number)), "path": None} for number in range(6)]
    pq.write_table(pa.table({"image": pa.array(files), "objects": objects}), tmp_path / "a.parquet")
    field = ImageField(T.Compose([T.RandomHorizontalFlip(1), T.CenterCrop(60)]), boxes="objects.bbox")
    dataset = ParquetDataset(tmp_path / "a.parquet", columns={"image": field, "objects": None})
    for number in range(6):
        given = torch.tensor(boxes[number]).reshape(-1, 4)
        turned = tv_tensors.BoundingBoxes(given, format="XYXY", canvas_size=(80, 96))
        expected = v2.Compose([v2.RandomHorizontalFlip(1), v2.CenterCrop(60)])(turned).as_subclass(torch.Tensor)
        torch.testing.assert_close(dataset[number]["objects"]["bbox"], expected)
    batch = next(iter(DataLoader(dataset, batch_size=6, seed=1)))
    assert batch["objects"]["bbox"]["offsets"].tolist() == np.cumsum([0, *map(len, boxes)]).tolist()


def test_annotations_that_do_not_fit_are_refused(shard: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="TrivialAugmentWide: expected only images"):
        ImageField(T.TrivialAugmentWide(), boxes="b")
    with pytest.raises(ValueError, match="box_format"):
        ImageField(boxes="b", box_format="YXYX")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected one of the fields .*, but got 'b'"):
        TarDataset(shard, {"jpg": ImageField(boxes="b")})
    with pytest.raises(ValueError, match="a mask without transform and cache"):
        TarDataset(shard, {"jpg": ImageField(masks="seg.png"), "seg.png": ImageField(T.CenterCrop(3))})
    with pytest.raises(ValueError, match=r"got 'box.npy' twice"):
        TarDataset(shard, {"jpg": ImageField(boxes=["box.npy", "box.npy"]), "box.npy": ["npy"]})
    field = ImageField(T.CenterCrop(3), masks="m", boxes="b")
    with pytest.raises(ValueError, match="the mask has 7 x 5 pixels, but its image has 96 x 80"):
        field.decode_moved(encoded(photograph(1)), 0, [None], [torch.zeros(5, 7)])
    with pytest.raises(ValueError, match=r"expected boxes of shape \(\.\.\., 4\), but got"):
        field.decode_moved(encoded(photograph(1)), 0, [torch.zeros(2, 5)], [None])


def test_a_mask_of_another_size_is_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        files = {"jpg": encoded(photograph(1)), "png": encoded(mask_of(1, (30, 20)), "png")}
        for name, content in files.items():
            member = tarfile.TarInfo(f"first.{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    fields: dict[str, Any] = {"jpg": ImageField(T.CenterCrop(8), masks="png"), "png": ImageField(mode="P")}
    dataset = TarDataset(tmp_path / "a.tar", fields)
    for read in (lambda: dataset[0], lambda: next(iter(DataLoader(dataset)))):
        with pytest.raises(ValueError, match=r"a\.tar.*30 x 20 pixels, but its image has 96 x 80"):
            read()


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_numbers_of_palettes_are_pillows(bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, 2**bits, (13, 17), dtype=np.uint8)
    image = Image.fromarray(numbers, "P")
    image.putpalette([(11 * value) % 256 for value in range(3 << bits)])
    decoded = decode_image(encoded(image, "png", bits=bits), "P")
    assert torch.equal(decoded, torch.from_numpy(numbers)[None])
    gray = Image.fromarray(numbers)
    assert torch.equal(decode_image(encoded(gray, "png"), "P"), torch.from_numpy(numbers)[None])
    with pytest.raises(ValueError, match="mode 'P' needs a PNG with a palette"):
        decode_image(encoded(photograph(1)), "P")
