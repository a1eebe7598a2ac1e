"""Key points move with their image as torchvision's do: in samples passed to transforms, and in datasets."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cases.transforms import CASES, NO_TRANSFORMS, Made, drawn
from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from doubles.tar_files import npy, put
from sluicegate import DamagedImageError, DataLoader, ImageField, ParquetDataset, TarDataset, TarStream, decode_image
from sluicegate import transforms as ours

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
if not hasattr(tv_tensors, "KeyPoints"):
    pytest.skip("this torchvision has no key points", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore:The transform `ToTensor"),
    pytest.mark.filterwarnings("ignore:RandomErasing"),
    pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities"),
]

SAMPLES, WIDTH, HEIGHT = 8, 70, 60


def points_of(number: int) -> np.ndarray[Any, Any]:
    """Return as many skeletons of four points as there are boxes."""
    return np.random.default_rng(number).uniform(0, 60, (number % 5, 4, 2)).astype(np.float32)


def boxes_of(number: int) -> np.ndarray[Any, Any]:
    """Return the boxes around the skeletons, one of them of less than a pixel."""
    points = points_of(number)
    boxes = np.concatenate([points.min(1, initial=99), points.max(1, initial=0)], 1)
    boxes[1:2, 2:] = boxes[1:2, :2] + 0.5
    return boxes


def tar(folder: Path) -> Path:
    members = []
    for number in range(SAMPLES):
        members += [
            (f"{number:04}.jpg", encoded(photograph(number, WIDTH, HEIGHT))),
            (f"{number:04}.points", npy(points_of(number))),
            (f"{number:04}.box", npy(boxes_of(number))),
            (f"{number:04}.label", npy(np.arange(number % 5))),
        ]
    return Path(put(folder / "a.tar", members))


FIELDS: dict[str, Any] = {"points": ["npy"], "box": ["npy"], "label": ["npy"]}


def marked(number: int) -> tuple[Any, dict[str, Any]]:
    """Return the sample that torchvision's users start with."""
    image = decode_image(encoded(photograph(number, WIDTH, HEIGHT)))
    size = tuple(image.shape[-2:])
    boxes = torch.from_numpy(boxes_of(number)).reshape(-1, 4)
    return tv_tensors.Image(image), {
        "points": tv_tensors.KeyPoints(torch.from_numpy(points_of(number)), canvas_size=size),
        "box": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
        "label": torch.arange(number % 5),
    }


def assert_equal(found: Any, expected: Any) -> None:
    found, expected = (each if isinstance(each, torch.Tensor) else torch.as_tensor(each) for each in (found, expected))
    assert torch.equal(found.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))


@pytest.mark.parametrize(("name", "made"), [(case[0], case[2]) for case in CASES], ids=[case[1] for case in CASES])
@pytest.mark.parametrize("points", ["float32", "int64", "skeletons"])
def test_called_with_key_points(name: str, made: Made, points: str) -> None:
    """Both give the same points, or both refuse the sample: an image never moves without its points."""
    size = (HEIGHT, WIDTH)
    image = tv_tensors.Image(decode_image(encoded(photograph(1, WIDTH, HEIGHT))))
    if name == "Normalize":
        image = v2.functional.to_dtype(image, torch.float32, scale=True)
    places = torch.rand((9, 2, 2) if points == "skeletons" else (9, 2)) * 60
    places = places.to(torch.int64 if points == "int64" else torch.float32)
    for seed in range(4):
        sample = {"image": image, "points": tv_tensors.KeyPoints(places, canvas_size=size), "label": 7}
        found, state = drawn(seed, made(ours), sample)
        if name in ("FiveCrop", "TenCrop"):
            # torchvision does not move the points, and warns.
            assert found is TypeError
            continue
        expected, after = drawn(seed, made(v2), sample)
        assert torch.equal(state, after)
        if isinstance(expected, type):
            assert isinstance(found, type)
            continue
        assert type(found["points"]) is type(expected["points"])
        assert_equal(found["points"], expected["points"])
        assert getattr(found["points"], "canvas_size", None) == getattr(expected["points"], "canvas_size", None)
        assert found["image"].shape == expected["image"].shape if name != "ToPILImage" else True
        # The same with Pillow images.
        pillow = {**sample, "image": photograph(1, WIDTH, HEIGHT)}
        found, expected = drawn(seed, made(ours), pillow)[0], drawn(seed, made(v2), pillow)[0]
        if not isinstance(expected, type):
            assert_equal(found["points"], expected["points"])


def test_every_transform_is_tried() -> None:
    assert {name for name, *_ in CASES} | set(NO_TRANSFORMS) == set(ours.__all__)


def geometry(of: Any) -> Any:
    return of.Compose(
        [
            of.RandomAffine(20, translate=(0.1, 0.1), scale=(0.8, 1.2)),
            of.RandomResizedCrop(48, antialias=True),
            of.ColorJitter(0.4),
            of.RandomApply([of.RandomHorizontalFlip()]),
            of.ToDtype(torch.float32, scale=True),
        ]
    )


@pytest.mark.parametrize("module", [ours, v2])
@pytest.mark.parametrize("kind", [TarDataset, TarStream])
def test_key_points_in_a_dataset_move_as_torchvisions(tmp_path: Path, module: Any, kind: Any) -> None:
    image = ImageField(geometry(module), keypoints="points", boxes="box", box_fields="label")
    dataset = kind(str(tar(tmp_path)), {"jpg": image, **FIELDS})
    reason = "transform 1, `RandomAffine`: key points rotate with the image, and only torchvision rotates those"
    assert dataset.python_reason == reason
    assert reason in repr(dataset)
    torch.manual_seed(3)
    found = list(dataset)
    torch.manual_seed(3)
    for number, sample in enumerate(found):
        pixels, expected = geometry(v2)(*marked(number))
        torch.testing.assert_close(sample["jpg"], pixels.as_subclass(torch.Tensor), atol=1.01 / 255, rtol=0)
        for name in FIELDS:
            assert type(sample[name]) is torch.Tensor
            assert_equal(sample[name], expected[name])
    loader = DataLoader(dataset, batch_size=3, seed=1)
    assert loader.stats().explanation.reason == reason
    batches = list(loader)
    assert batches[0]["points"]["values"].shape[1:] == (4, 2)
    other = kind(str(tmp_path / "a.tar"), {"jpg": pickle.loads(pickle.dumps(image)), **FIELDS})
    options: dict[str, Any] = {"num_workers": 2} if kind is TarDataset else {"num_workers": 1}
    assert_same(list(DataLoader(other, batch_size=3, seed=1, **options)), batches)


@pytest.mark.parametrize("module", [ours, v2])
@pytest.mark.parametrize("wraps", [False, True])
def test_skeletons_are_dropped_with_their_boxes(tmp_path: Path, module: Any, wraps: bool) -> None:
    """The remaining ones still move with later transforms."""
    sanitize = module.SanitizeBoundingBoxes(2)
    steps = [module.Resize((40, 40)), module.RandomApply([sanitize], p=1.0) if wraps else sanitize]
    steps.append(module.RandomHorizontalFlip(1.0))
    options: dict[str, Any] = {"keypoints": "points", "boxes": "box", "tv_tensors": True}
    path = str(tar(tmp_path))
    image = ImageField(module.Compose(steps), box_fields=["label", "points"], **options)
    dataset, dropped = TarDataset(path, {"jpg": image, **FIELDS}), 0
    getter = v2.SanitizeBoundingBoxes(2, labels_getter=lambda inputs: (inputs[1]["label"], inputs[1]["rows"]))
    for number in range(SAMPLES):
        pixels, target = marked(number)
        rows = {"rows": torch.arange(number % 5)}
        reference = v2.Compose([v2.Resize((40, 40)), getter, v2.RandomHorizontalFlip(1.0)])
        _, expected = reference(pixels, {**target, **rows})
        sample = dataset[number]
        assert isinstance(sample["points"], tv_tensors.KeyPoints)
        # torchvision keeps all of them, because its `SanitizeBoundingBoxes` ignores key points.
        assert_equal(sample["points"], expected["points"].as_subclass(torch.Tensor)[expected["rows"]])
        assert_equal(sample["label"], expected["label"])
        assert_equal(sample["box"], expected["box"])
        dropped += number % 5 - len(sample["points"])
    assert dropped > 0
    undeclared = TarDataset(path, {"jpg": ImageField(module.Compose(steps), **options), **FIELDS})
    with pytest.raises(ValueError, match="number of boxes in 'box' from 2 to 1, but 'points' still has 2 rows"):
        undeclared[2]


def test_points_that_are_dropped(tmp_path: Path) -> None:
    steps = v2.Compose([v2.CenterCrop(20), v2.SanitizeKeyPoints()])
    image = ImageField(steps, keypoints="points")
    dataset = TarDataset(str(tar(tmp_path)), {"jpg": image, **FIELDS})
    with pytest.raises(ValueError, match="number of key points in 'points' from 4 to 0, but 'box' still has 4 rows"):
        dataset[4]
    alone = TarDataset(str(tmp_path / "a.tar"), {"jpg": image, "points": ["npy"]})
    assert alone[4]["points"].shape == (0, 4, 2)


def test_lists_of_points(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [points_of(number)[:, 0].tolist() for number in range(SAMPLES)]
    images = [encoded(photograph(number, WIDTH, HEIGHT)) for number in range(SAMPLES)]
    table = pa.table({"jpg": images, "points": pa.array(rows, pa.list_(pa.list_(pa.float32())))})
    pq.write_table(table, tmp_path / "a.parquet")
    for transform in (v2.RandomHorizontalFlip(1.0), None):
        image = ImageField(transform, keypoints="points")
        dataset = ParquetDataset(tmp_path / "a.parquet", {"jpg": image, "points": None})
        for number in range(SAMPLES):
            expected = tv_tensors.KeyPoints(torch.tensor(rows[number]).reshape(-1, 2), canvas_size=(HEIGHT, WIDTH))
            assert_equal(dataset[number]["points"], expected if transform is None else transform(expected))


def test_invalid_key_points_are_refused(tmp_path: Path) -> None:
    path = str(tar(tmp_path))
    with pytest.raises(DamagedImageError, match=r"expected key points of shape .*, but got shape \(1, 4\)"):
        TarDataset(path, {"jpg": ImageField(v2.Pad(1), keypoints="box"), **FIELDS})[1]
    with pytest.raises(ValueError, match=r"v1. does not transform boxes, masks and key points"):
        ImageField(v1.Compose([v1.RandomAffine(9), v1.ToTensor()]), keypoints="points")
    with pytest.raises(ValueError, match=r"keypoints: expected one of the fields .*, but got 'joints'"):
        TarDataset(path, {"jpg": ImageField(keypoints="joints"), **FIELDS})
    with pytest.raises(ValueError, match=r"got '.*' twice"):
        TarDataset(path, {"jpg": ImageField(keypoints="box", boxes="box"), **FIELDS})
    with pytest.raises(TypeError, match=r"KeyPoints|key points"):
        TarDataset(path, {"jpg": ImageField(v2.AutoAugment(), keypoints="points"), **FIELDS})[1]
    assert repr(ImageField(keypoints="points")) == "ImageField(keypoints=('points',))"


def moving(of: Any) -> dict[str, Any]:
    """Return the transforms that move key points in Rust."""
    return {
        "flip": of.RandomHorizontalFlip(),
        "vertical flip": of.RandomVerticalFlip(),
        "crop": of.RandomCrop(50, padding=3),
        "padded crop": of.RandomCrop((80, 33), pad_if_needed=True),
        "middle": of.CenterCrop((31, 44)),
        "resized crop": of.RandomResizedCrop(48),
        "pad": of.Pad((1, 2, 3, 4)),
        "size": of.Resize((33, 71)),
        "same size": of.Resize((HEIGHT, WIDTH)),
        "shortest": of.RandomShortestSize([30, 47], max_size=90),
        "jitter": of.ScaleJitter((50, 60)),
        "zoom": of.RandomZoomOut(side_range=(1.0, 1.7)),
        "order": of.RandomOrder([of.RandomHorizontalFlip(), of.Resize(41), of.RandomApply([of.Pad(7)])]),
        "values": of.Compose([of.ColorJitter(0.4), of.RandomGrayscale(0.3), of.ToDtype(torch.float32, scale=True)]),
    }


@pytest.mark.parametrize("name", moving(v2))
@pytest.mark.parametrize("module", [ours, v2])
def test_key_points_moved_in_rust_equal_torchvisions(module: Any, name: str) -> None:
    fields = [
        ImageField(moving(module)[name], keypoints="points", exact=True, tv_tensors=is_marked) for is_marked in (0, 1)
    ]
    assert not any(field.is_called for field in fields)
    theirs = moving(v2)[name]
    for seed in range(12):
        dtype = (torch.float32, torch.float64, torch.int64, torch.int32)[seed % 4]
        points = torch.rand((seed % 3, 5, 2)) * 120 - 30
        points = [points, points[..., 0, :], points[:, :0]][seed % 3 - 1].to(dtype)
        file = encoded(photograph(seed, WIDTH, HEIGHT))
        image = tv_tensors.Image(decode_image(file))
        marks = {"points": tv_tensors.KeyPoints(points, canvas_size=(HEIGHT, WIDTH))}
        (pixels, expected), after = drawn(seed, theirs, image, marks)
        for field in fields:
            found, state = drawn(
                seed, lambda given, field=field: field.decode_moved(*given), (file, 0, [], [], {}, (), [points])
            )
            assert torch.equal(state, after)
            assert found.keypoints[0].dtype == dtype
            assert_equal(found.keypoints[0], expected["points"])
            assert found.image.shape == pixels.shape
        assert found.keypoints[0].canvas_size == expected["points"].canvas_size


def test_a_crop_is_drawn_by_boxes_and_moves_key_points(tmp_path: Path) -> None:
    def steps(of: Any) -> Any:
        return of.Compose([of.RandomIoUCrop(), of.SanitizeBoundingBoxes(2), of.Resize((30, 30))])

    image = ImageField(steps(ours), keypoints="points", boxes="box", box_fields=["label", "points"])
    dataset = TarDataset(str(tar(tmp_path)), {"jpg": image, **FIELDS})
    assert not dataset.is_native
    assert dataset.python_reason == "key points move with each image, so samples are made one by one"
    getter = v2.SanitizeBoundingBoxes(2, labels_getter=lambda inputs: (inputs[1]["label"], inputs[1]["rows"]))
    dropped = 0
    for number in range(SAMPLES):
        pixels, target = marked(number)
        target["rows"] = torch.arange(number % 5)
        reference = v2.Compose([v2.RandomIoUCrop(), getter, v2.Resize((30, 30))])
        (_, expected), after = drawn(number, reference, pixels, target)
        found, state = drawn(number, lambda at: dataset[at], number)
        assert torch.equal(state, after)
        assert_equal(found["points"], expected["points"].as_subclass(torch.Tensor)[expected["rows"]])
        assert_equal(found["box"], expected["box"])
        dropped += number % 5 - len(found["points"])
    assert dropped > 0


@pytest.mark.parametrize("kind", [TarDataset, TarStream])
def test_key_points_moved_in_rust_are_the_same_with_workers(tmp_path: Path, kind: Any) -> None:
    """With a seed, batches are the same for any workers; without one, samples are torchvision's."""

    def steps(of: Any) -> Any:
        return of.Compose([of.RandomResizedCrop(48, antialias=True), of.RandomHorizontalFlip(), of.CenterCrop(40)])

    image = ImageField(steps(ours), keypoints="points", boxes="box", box_fields="label")
    assert not image.is_called
    dataset = kind(str(tar(tmp_path)), {"jpg": image, **FIELDS})
    torch.manual_seed(3)
    found = list(dataset)
    torch.manual_seed(3)
    for number, sample in enumerate(found):
        pixels, expected = steps(v2)(*marked(number))
        assert (sample["jpg"].double() - pixels.double()).abs().mean() < 1.5
        for name in FIELDS:
            assert_equal(sample[name], expected[name])
    batches = list(DataLoader(dataset, batch_size=3, seed=1))
    options: dict[str, Any] = {"num_workers": 2} if kind is TarDataset else {"num_workers": 1}
    assert_same(list(DataLoader(dataset, batch_size=3, seed=1, **options)), batches)


NAMES = [
    *("ColorJitter", "Pad", "RandomAffine", "RandomApply", "RandomCrop", "RandomHorizontalFlip"),
    *("RandomOrder", "RandomPerspective", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip"),
    *("RandomShortestSize", "RandomZoomOut", "Resize", "ScaleJitter"),
]


def test_random_pipelines(tmp_path: Path) -> None:
    """Set `SLUICEGATE_KEYPOINT_PIPELINES=5000` to try that many."""
    choose = random.Random(int(os.environ.get("SLUICEGATE_KEYPOINT_SEED", "1")))
    made_by_name, path = [case[2] for case in CASES if case[0] in NAMES], str(tar(tmp_path))
    # A crop larger than its image moves pixels and key points one pixel apart in torchvision.
    made_by_name.append(lambda of: of.Compose([of.Resize((60, 71)), of.CenterCrop((50, 70))]))
    called = 0
    for _ in range(int(os.environ.get("SLUICEGATE_KEYPOINT_PIPELINES", "20"))):
        steps = [choose.choice(made_by_name) for _ in range(choose.randrange(1, 5))]
        module, seed, number = choose.choice([ours, v2]), choose.randrange(1 << 30), choose.randrange(SAMPLES)
        image = ImageField(module.Compose([made(module) for made in steps]), keypoints="points")
        dataset = TarDataset(path, {"jpg": image, "points": ["npy"]})
        pixels, target = marked(number)
        reference = v2.Compose([made(v2) for made in steps])
        expected, after = drawn(seed, reference, pixels, {"points": target["points"]})
        found, state = drawn(seed, lambda at, dataset=dataset: dataset[at], number)
        if isinstance(expected, type):
            assert isinstance(found, type)
            continue
        assert torch.equal(state, after), f"seed {seed}: {image}"
        assert_equal(found["points"], expected[1]["points"])
        assert found["jpg"].shape == expected[0].shape
        called += image.is_called
    assert called > 0
