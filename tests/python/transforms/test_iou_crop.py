"""`RandomIoUCrop`, which draws by the boxes of each image: torchvision's crops, boxes, masks, and labels, in Rust."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.cached_images import assert_same_from_cache
from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from doubles.tar_files import npy, put
from sluicegate import DamagedImageError, DataLoader, ImageField, TarDataset, TarStream, decode_image
from sluicegate import transforms as ours

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

HEIGHT, WIDTH = 72, 96
FORMATS = ("XYXY", "XYWH", "CXCYWH")
DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "default": {},
    "as it is": {"sampler_options": [1.0]},
    "any overlap": {"sampler_options": [0.0, 3]},
    "much": {"sampler_options": [0.75, 0.9, 1.0]},
    "negative": {"sampler_options": (-1.0, 1.5)},
    "one trial": {"trials": 1},
    "no trial": {"trials": 0},
    "small": {"min_scale": 0.1, "max_scale": 0.4, "sampler_options": [0.0, 0.05, 1.0]},
    "one size": {"min_scale": 0.5, "max_scale": 0.5},
    "from large to small": {"min_scale": 0.9, "max_scale": 0.2},
    "any shape": {"min_aspect_ratio": 0.0, "max_aspect_ratio": 100.0, "min_scale": 0.02},
    "wide": {"min_aspect_ratio": 1.5, "max_aspect_ratio": 3.0},
}


def boxes_of(seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Return no boxes, or some inside the image, past its edges, as large as it, without an area, or inverted."""
    generator = np.random.default_rng(seed)
    start = generator.uniform(-20, [WIDTH, HEIGHT], (seed % 9, 2))
    size = generator.choice([0.0, 0.5, 1.0, 3.0, 20.0, 60.0], start.shape) + generator.choice([0.0, 0.3], start.shape)
    boxes = np.concatenate([start, start + size], 1)
    boxes[generator.random(len(boxes)) < 0.2] = [0, 0, WIDTH, HEIGHT]
    inverted = generator.random(len(boxes)) < 0.15
    boxes[inverted] = boxes[inverted][:, [2, 1, 0, 3]]
    boxes[generator.random(len(boxes)) < 0.1] = 0
    return torch.from_numpy(boxes).to(dtype)


def sample(seed: int, dtype: torch.dtype = torch.float32, form: str = "XYXY") -> dict[str, Any]:
    boxes = tv_tensors.BoundingBoxes(boxes_of(seed, dtype), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    # More masks than boxes: an equal number would be masks of the boxes.
    return {
        "image": tv_tensors.Image(decode_image(encoded(photograph(seed, WIDTH, HEIGHT)))),
        "boxes": v2.functional.convert_bounding_box_format(boxes, new_format=form),
        "masks": tv_tensors.Mask((torch.arange(11 * HEIGHT * WIDTH) % 251).reshape(11, HEIGHT, WIDTH).to(torch.uint8)),
        "labels": torch.arange(len(boxes)),
    }


def assert_as_torchvision(field: ImageField, theirs: Any, given: dict[str, Any], seed: int) -> int:
    """Compare values, boxes, masks, labels, and the generator; return the number of boxes that are zero or dropped."""
    torch.manual_seed(seed)
    expected = theirs(given)
    after = torch.get_rng_state()
    torch.manual_seed(seed)
    boxes, masks = given["boxes"].as_subclass(torch.Tensor), given["masks"].as_subclass(torch.Tensor)
    file = encoded(photograph(seed, WIDTH, HEIGHT))
    found = field.decode_moved(file, 0, [boxes], [masks], {"labels": given["labels"]})
    assert torch.equal(torch.get_rng_state(), after), seed
    assert torch.equal(found.image, expected["image"].as_subclass(torch.Tensor)), seed
    moved = expected["boxes"].as_subclass(torch.Tensor)
    assert found.boxes[0].dtype == moved.dtype
    assert torch.equal(found.boxes[0], moved), seed
    assert torch.equal(found.masks[0], expected["masks"].as_subclass(torch.Tensor)), seed
    assert torch.equal(found.fields["labels"], expected["labels"]), seed
    return len(boxes) - int((moved != 0).any(1).sum())


def field_of(transform: Any) -> ImageField:
    options: dict[str, Any] = {"boxes": "boxes", "masks": "masks", "box_fields": "labels"}
    return ImageField(transform, exact=True, **options)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("module", [ours, v2])
def test_crops_equal_torchvisions(module: Any, form: str, name: str) -> None:
    options: dict[str, Any] = {"boxes": "boxes", "masks": "masks", "box_fields": "labels", "box_format": form}
    field = ImageField(module.RandomIoUCrop(**ARGUMENTS[name]), exact=True, **options)
    assert not field.is_called
    blank = 0
    for seed in range(9):
        given = sample(seed, DTYPES[seed % 4], form)
        blank += assert_as_torchvision(field, v2.RandomIoUCrop(**ARGUMENTS[name]), given, seed)
    assert blank > 0


@pytest.mark.parametrize("module", [ours, v2])
def test_iou_crops_in_pipelines_equal_torchvisions(module: Any) -> None:
    """After steps that move, drop, and convert boxes, in containers, and twice."""

    def steps(of: Any) -> list[Any]:
        crop, sanitize = of.RandomIoUCrop(), of.SanitizeBoundingBoxes()
        return [
            of.Compose([of.RandomHorizontalFlip(), of.RandomZoomOut(side_range=(1.0, 1.5)), crop, sanitize]),
            of.Compose([of.RandomCrop(60), sanitize, crop, of.ConvertBoundingBoxFormat("CXCYWH"), crop, sanitize]),
            of.RandomApply([of.Pad(5), crop, of.Compose([sanitize, of.RandomVerticalFlip()])], p=0.7),
            of.RandomOrder([crop, of.RandomHorizontalFlip(), of.CenterCrop(50), sanitize]),
            of.RandomApply([of.RandomOrder([crop, of.RandomVerticalFlip(), of.Compose([crop, of.Pad(2)])])], p=0.9),
        ]

    for own, theirs in zip(steps(module), steps(v2), strict=True):
        field = field_of(own)
        assert not field.is_called
        samples = ((sample(seed, DTYPES[seed % 4]), seed) for seed in range(1, 9))
        assert sum(assert_as_torchvision(field, theirs, *each) for each in samples) > 0


def test_boxes_that_are_not_numbers_are_in_no_crop() -> None:
    for seed in range(12):
        given = sample(seed)
        boxes = given["boxes"].as_subclass(torch.Tensor).clone()
        boxes[::2, seed % 4] = [float("nan"), float("inf"), -float("inf")][seed % 3]
        given["boxes"] = tv_tensors.wrap(boxes, like=given["boxes"])
        torch.manual_seed(seed)
        expected = v2.RandomIoUCrop()(given)
        torch.manual_seed(seed)
        file = encoded(photograph(seed, WIDTH, HEIGHT))
        found = ImageField(ours.RandomIoUCrop(), exact=True, boxes="boxes").decode_moved(file, 0, [boxes], [])
        assert torch.equal(found.image, expected["image"].as_subclass(torch.Tensor))
        torch.testing.assert_close(
            found.boxes[0], expected["boxes"].as_subclass(torch.Tensor), rtol=0, atol=0, equal_nan=True
        )


def test_boxes_may_be_lists_or_groups() -> None:
    """All boxes of groups (..., n, 4) count, which torchvision refuses. An empty list has no boxes."""
    field, given = ImageField(ours.RandomIoUCrop(), exact=True, boxes="boxes"), sample(8)
    file, boxes = encoded(photograph(8, WIDTH, HEIGHT)), given["boxes"].as_subclass(torch.Tensor)
    for seed in range(9):
        found = []
        for form in (boxes, boxes.tolist(), boxes.numpy(), boxes.reshape(2, 4, 4)):
            torch.manual_seed(seed)
            found.append(field.decode_moved(file, 0, [form], []))
        assert all(torch.equal(each.image, found[0].image) for each in found)
        assert all(torch.equal(each.boxes[0].reshape(-1, 4), found[0].boxes[0]) for each in found)
        assert found[3].boxes[0].shape == (2, 4, 4)
    assert field.decode_moved(file, 0, [[]], []).boxes[0].shape == (0, 4)


@pytest.mark.parametrize("form", FORMATS)
def test_iou_crops_called_with_samples_equal_torchvisions(form: str) -> None:
    for seed in range(9):
        given = sample(seed, DTYPES[seed % 4], form)
        torch.manual_seed(seed)
        expected = v2.RandomIoUCrop()(given)
        torch.manual_seed(seed)
        found = ours.RandomIoUCrop()(given)
        for name, value in expected.items():
            assert type(found[name]) is type(value)
            assert torch.equal(found[name].as_subclass(torch.Tensor), value.as_subclass(torch.Tensor))
    with pytest.raises(TypeError, match="requires input sample to contain"):
        ours.RandomIoUCrop()(torch.zeros(3, 9, 9))


@pytest.mark.parametrize(
    "arguments",
    [
        {"sampler_options": [0.0, 0.5]},
        {"sampler_options": []},
        {"max_scale": 1.2},
        {"min_scale": -0.1},
        {"max_aspect_ratio": float("inf")},
        {"trials": 1.5},
    ],
)
@pytest.mark.parametrize("module", [ours, v2])
def test_other_numbers_are_torchvisions(module: Any, arguments: dict[str, Any]) -> None:
    crop = module.RandomIoUCrop(**arguments)
    assert ours.recognize(crop) is None
    assert "`RandomIoUCrop`" in str(ImageField(crop, boxes="boxes").python_reason)


def test_scales_above_one_are_called() -> None:
    own, theirs = field_of(ours.RandomIoUCrop(max_scale=1.2)), v2.RandomIoUCrop(max_scale=1.2)
    assert own.is_called
    for seed in range(1, 9):
        assert_as_torchvision(own, theirs, sample(seed), seed)


@pytest.mark.parametrize("boxes", [(), ("a", "b")])
@pytest.mark.parametrize("module", [ours, v2])
def test_of_no_boxes_or_several_fields_they_are_called(module: Any, boxes: tuple[str, ...]) -> None:
    steps = module.Compose([module.RandomHorizontalFlip(), module.RandomApply([module.RandomIoUCrop()])])
    field = ImageField(steps, boxes=boxes)
    reason = (
        f"transform 2, `RandomApply`: it draws by the boxes of one field, but there are {len(boxes)} fields of boxes"
    )
    assert field.python_reason == reason


def test_an_iou_crop_without_boxes_is_an_error() -> None:
    """torchvision refuses such a sample too. None does not mean a sample without boxes."""
    file = encoded(photograph(1, WIDTH, HEIGHT))
    field = ImageField(ours.RandomIoUCrop(), boxes="box")
    with pytest.raises(
        TypeError, match=r"boxes: `RandomIoUCrop` needs the boxes of each image, got None in 'box'; .* shape \(0, 4\)"
    ):
        field.decode_moved(file, 0, [None], [])
    with pytest.raises(DamagedImageError, match="RandomIoUCrop needs the boxes of the image"):
        field.decode(file)
    with pytest.raises(DamagedImageError, match=r"expected boxes of shape \(\.\.\., 4\), but got"):
        field.decode_moved(file, 0, [torch.zeros(2, 5)], [])
    with pytest.raises(TypeError, match="requires input sample to contain"):
        ImageField(ours.RandomIoUCrop()).decode(file)


def test_an_image_that_is_too_small_is_an_error() -> None:
    """torchvision divides by zero here."""
    small, boxes = b"P5 40 1 255 " + bytes(40), torch.tensor([[0, 0, 40, 1]])
    crop = {"max_scale": 0.9, "sampler_options": [0.0, 0.0, 0.0, 1.0]}
    torch.manual_seed(3)
    given = tv_tensors.Image(decode_image(small)), tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(1, 40))
    with pytest.raises(ZeroDivisionError):
        v2.RandomIoUCrop(**crop)(*given)
    torch.manual_seed(3)
    field = ImageField(ours.RandomIoUCrop(**crop), boxes="box")
    with pytest.raises(DamagedImageError, match=r"min_scale: a crop of 0\.3 of 1 rows is empty; use larger images"):
        field.decode_moved(small, 0, [boxes], [])


def archive(folder: Path) -> str:
    """Write images with two fields of boxes, and labels for one of them."""
    members = []
    for number in range(9):
        members += [
            (f"{number}.jpg", encoded(photograph(number, WIDTH, HEIGHT))),
            (f"{number}.box", npy(boxes_of(number + 9, torch.float32).numpy())),
            (f"{number}.label", npy(np.arange(number))),
            (f"{number}.png", encoded(photograph(number + 50, WIDTH, HEIGHT), "png")),
            (f"{number}.other", npy(boxes_of(number + 19, torch.int64).numpy())),
        ]
    return put(folder / "a.tar", members)


def steps(of: Any) -> Any:
    parts = [of.RandomHorizontalFlip(), of.RandomZoomOut(side_range=(1.0, 1.5)), of.RandomIoUCrop()]
    return of.Compose([*parts, of.SanitizeBoundingBoxes(), of.Resize((40, 40))])


@pytest.mark.parametrize("module", [ours, v2])
def test_iou_crops_in_a_dataset_equal_torchvisions(module: Any, tmp_path: Path) -> None:
    """Samples are torchvision's and, with a seed, the same for any workers."""
    path = archive(tmp_path)
    fields: dict[str, Any] = {"box": ["npy"], "label": ["npy"]}
    image = ImageField(steps(module), boxes="box", box_fields="label")
    dataset = TarDataset(path, {"jpg": image, **fields})
    assert not dataset.is_native
    loader = DataLoader(dataset, batch_size=4, seed=1, shuffle=True)
    batches = list(loader)
    for options in ({"num_workers": 2}, {"num_workers": 1, "worker_type": "thread"}):
        again = pickle.loads(pickle.dumps(dataset))
        assert_same(list(DataLoader(again, batch_size=4, seed=1, shuffle=True, **options)), batches)
    original = TarDataset(path, {"jpg": ImageField(boxes="box"), **fields})
    cropped = 0
    for number in range(len(dataset)):
        given = original[number]
        boxes = tv_tensors.BoundingBoxes(given["box"], format="XYXY", canvas_size=given["jpg"].shape[-2:])
        torch.manual_seed(number)
        pixels, target = steps(v2)(tv_tensors.Image(given["jpg"]), {"boxes": boxes, "labels": given["label"]})
        torch.manual_seed(number)
        found = dataset[number]
        assert (found["jpg"].double() - pixels.double()).abs().mean() < 1.5
        assert torch.equal(found["box"], target["boxes"].as_subclass(torch.Tensor))
        assert torch.equal(found["label"], target["labels"])
        cropped += len(found["label"]) < len(given["label"])
    assert cropped > 0


def test_iou_crops_in_a_stream_equal_those_of_a_dataset(tmp_path: Path) -> None:
    path = archive(tmp_path)
    fields: dict[str, Any] = {"box": ["npy"], "label": ["npy"]}
    image = ImageField(steps(ours), boxes="box", box_fields="label")
    stream = TarStream(path, {"jpg": image, **fields})
    torch.manual_seed(3)
    found = list(stream)
    dataset = TarDataset(path, {"jpg": image, **fields})
    torch.manual_seed(3)
    assert_same(found, [dataset[number] for number in range(len(dataset))])
    batches = list(DataLoader(stream, batch_size=3, seed=1))
    assert_same(list(DataLoader(stream, batch_size=3, seed=1, num_workers=1)), batches)


def test_the_reason_for_single_samples_is_reported(tmp_path: Path) -> None:
    path, fields = archive(tmp_path), {"box": ["npy"]}
    crop = ours.Compose([ours.RandomIoUCrop(), ours.Resize((40, 40))])
    image = ImageField(crop, boxes="box")
    dataset = TarDataset(path, {"jpg": image, **fields})
    reason = "the draws of `RandomIoUCrop` depend on the boxes of each sample, so samples are made one by one"
    assert image.python_reason == dataset.python_reason == reason
    assert not dataset.is_native
    loader = DataLoader(dataset, batch_size=4, seed=1, shuffle=True)
    assert loader.stats().explanation.reason == reason
    assert reason in repr(loader)


def test_two_images_draw_by_their_own_boxes(tmp_path: Path) -> None:
    """One after another, from one generator."""
    fields: dict[str, Any] = {"box": ["npy"], "label": ["npy"], "other": ["npy"]}
    images: dict[str, Any] = {
        "jpg": ImageField(steps(ours), boxes="box", box_fields="label", exact=True),
        "png": ImageField(ours.RandomIoUCrop(), boxes="other", exact=True),
    }
    path = archive(tmp_path)
    dataset = TarDataset(path, {**images, **fields})
    original = TarDataset(path, {"jpg": "image", "png": "image", **fields})
    for number in range(len(dataset)):
        given = original[number]
        names = [name for name in given if name in images]
        torch.manual_seed(number)
        expected: dict[str, Any] = {}
        for name in names:
            box = "box" if name == "jpg" else "other"
            size = tuple(given[name].shape[-2:])
            target = {"boxes": tv_tensors.BoundingBoxes(given[box], format="XYXY", canvas_size=size)}
            if name == "jpg":
                target["labels"] = given["label"]
            transform = steps(v2) if name == "jpg" else v2.RandomIoUCrop()
            expected[name], target = transform(tv_tensors.Image(given[name]), target)
            expected[box] = target["boxes"].as_subclass(torch.Tensor)
            if name == "jpg":
                expected["label"] = target["labels"]
        torch.manual_seed(number)
        found = dataset[number]
        for box in ("box", "other", "label"):
            assert torch.equal(found[box], expected[box])
        assert torch.equal(found["png"], expected["png"].as_subclass(torch.Tensor))


def test_images_from_a_cache_are_cropped_like_uncached_ones(tmp_path: Path) -> None:
    """Boxes are moved by the steps before the cache; the crop is drawn each time."""
    parts = [ours.Resize((60, 80)), ours.CenterCrop((60, 70)), ours.ConvertBoundingBoxFormat("CXCYWH")]
    crops = [ours.RandomIoUCrop(), ours.SanitizeBoundingBoxes(), ours.Resize((30, 30))]
    assert_same_from_cache(archive(tmp_path), ours.Compose([*parts, *crops]))
