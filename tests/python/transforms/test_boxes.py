"""Transforms of boxes, and `RandomZoomOut`, equal torchvision's, called with samples and in an `ImageField`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.cached_images import assert_same_from_cache
from doubles.photographs import encoded, photograph
from doubles.tar_files import npy, put
from doubles.unknown_transforms import Unknown
from sluicegate import DamagedImageError, DataLoader, ImageField, TarDataset, decode_image
from sluicegate import transforms as T

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

SIZE = 72, 96


def boxes_of(seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return boxes inside the image, outside of it, and at its edges, some of less than a pixel."""
    generator = np.random.default_rng(seed)
    start = generator.uniform(-20, 90, (seed % 9, 2))
    size = generator.choice([0.0, 0.5, 1.0, 3.0, 20.0, 60.0], start.shape) + generator.choice([0.0, 0.3], start.shape)
    boxes = np.concatenate([start, start + size], 1)
    boxes[generator.random(len(boxes)) < 0.2] = [0, 0, SIZE[1], SIZE[0]]
    return torch.from_numpy(boxes).to(dtype)


def sample(seed: int, dtype: torch.dtype = torch.float32, form: str = "XYXY") -> dict[str, Any]:
    boxes = tv_tensors.BoundingBoxes(boxes_of(seed, dtype), format="XYXY", canvas_size=SIZE)
    boxes = v2.functional.convert_bounding_box_format(boxes, new_format=form)
    image = tv_tensors.Image(decode_image(encoded(photograph(seed, SIZE[1], SIZE[0]))))
    masks = tv_tensors.Mask((torch.arange(len(boxes))[:, None, None] * torch.ones(SIZE)).to(torch.uint8))
    return {"image": image, "boxes": boxes, "masks": masks, "labels": torch.arange(len(boxes))}


def archive(folder: Path) -> str:
    """Write images with boxes, of which a center crop leaves less than a pixel of some, and with a label per box."""
    members = []
    for number in range(9):
        generator = np.random.default_rng(number)
        start = generator.uniform(0, 60, (number % 6, 2))
        boxes = np.concatenate([start, start + generator.uniform(0.2, 25, start.shape)], 1).astype(np.float32)
        members += [
            (f"{number}.jpg", encoded(photograph(number, 70, 70))),
            (f"{number}.box", npy(boxes)),
            (f"{number}.label", npy(np.arange(number % 6))),
        ]
    return put(folder / "a.tar", members)


def called(transform: Any, given: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    return transform(given)


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert type(found[name]) is type(value)
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name].as_subclass(torch.Tensor), value.as_subclass(torch.Tensor)), name
    assert found["boxes"].format == expected["boxes"].format
    assert found["boxes"].canvas_size == expected["boxes"].canvas_size


CASES: list[tuple[str, dict[str, Any]]] = [
    ("ClampBoundingBoxes", {}),
    ("ClampBoundingBoxes", {"clamping_mode": None}),
    ("ClampBoundingBoxes", {"clamping_mode": "hard"}),
    ("ConvertBoundingBoxFormat", {"format": "XYWH"}),
    ("ConvertBoundingBoxFormat", {"format": "CXCYWH"}),
    ("SanitizeBoundingBoxes", {}),
    ("SanitizeBoundingBoxes", {"labels_getter": None}),
    ("SanitizeBoundingBoxes", {"min_size": 3, "min_area": 10.5, "labels_getter": lambda sample: sample["labels"]}),
    ("RandomZoomOut", {}),
    ("RandomZoomOut", {"p": 1.0, "side_range": (1.0, 1.6), "fill": 9}),
    ("RandomZoomOut", {"fill": {tv_tensors.Image: (1, 2, 3), tv_tensors.Mask: 7}, "p": 0.8}),
]


@pytest.mark.parametrize(("name", "arguments"), CASES)
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_called_box_transforms_equal_torchvisions(
    name: str, arguments: dict[str, Any], form: str, dtype: torch.dtype
) -> None:
    own, other = getattr(T, name)(**arguments), getattr(v2, name)(**arguments)
    for seed in range(9):
        given = sample(seed, dtype, form)
        found, expected = called(own, given, seed), called(other, given, seed)
        assert_equal(found, expected)
        assert repr(own) == repr(other)


def pipelines(module: Any, labels_getter: Any = None) -> dict[str, Any]:
    sanitize = {"labels_getter": labels_getter}
    return {
        "sanitize": module.SanitizeBoundingBoxes(**sanitize),
        "clamp": module.Compose([module.ClampBoundingBoxes(), module.RandomHorizontalFlip()]),
        "clamp and sanitize": module.Compose(
            [module.ClampBoundingBoxes("hard"), module.SanitizeBoundingBoxes(min_size=3, **sanitize)]
        ),
        "zoom": module.Compose(
            [
                module.RandomZoomOut(fill=3, side_range=(1.0, 2.0), p=0.7),
                module.RandomCrop(60, pad_if_needed=True),
                module.RandomHorizontalFlip(),
                module.SanitizeBoundingBoxes(min_area=20, **sanitize),
                module.ToDtype(torch.float32, scale=True),
            ]
        ),
        "in the middle": module.Compose(
            [
                module.CenterCrop(50),
                module.SanitizeBoundingBoxes(**sanitize),
                module.RandomRotation(30, expand=True),
                module.ClampBoundingBoxes(),
                module.SanitizeBoundingBoxes(min_size=9),
                module.RandomVerticalFlip(),
            ]
        ),
        "by chance": module.Compose(
            [module.CenterCrop(60), module.RandomApply([module.SanitizeBoundingBoxes(**sanitize)])]
        ),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("name", pipelines(v2))
@pytest.mark.parametrize("module", [T, v2])
def test_box_transforms_in_an_image_field_equal_torchvisions(module: Any, name: str, dtype: torch.dtype) -> None:
    field = ImageField(pipelines(module)[name], boxes="boxes", masks="masks", box_fields="labels", exact=True)
    assert not field.is_called
    theirs = pipelines(v2, "default")[name]
    for seed in range(27):
        given = sample(seed, dtype)
        boxes, masks = given["boxes"].as_subclass(torch.Tensor), given["masks"].as_subclass(torch.Tensor)
        file = encoded(photograph(seed, SIZE[1], SIZE[0]))
        torch.manual_seed(seed)
        found = field.decode_moved(file, 0, [boxes], [masks], {"labels": given["labels"]}, [0])
        expected = called(theirs, given, seed)
        assert torch.equal(found.image, expected["image"].as_subclass(torch.Tensor))
        assert torch.equal(found.masks[0], expected["masks"].as_subclass(torch.Tensor))
        assert torch.equal(found.fields["labels"], expected["labels"])
        moved = expected["boxes"].as_subclass(torch.Tensor)
        assert found.boxes[0].dtype == moved.dtype
        assert found.boxes[0].shape == moved.shape
        if name == "in the middle":
            torch.testing.assert_close(found.boxes[0], moved, atol=1e-3, rtol=1e-5)
        else:
            assert torch.equal(found.boxes[0], moved)


GEOMETRY: dict[str, dict[str, Any]] = {
    "RandomHorizontalFlip": {"p": 1},
    "RandomVerticalFlip": {"p": 1},
    "Pad": {"padding": (3, 5, 7, 9)},
    "CenterCrop": {"size": (50, 120)},
    "RandomCrop": {"size": 60},
    "Resize": {"size": (33, 71)},
    "RandomResizedCrop": {"size": 40},
    "RandomRotation": {"degrees": 45, "expand": True},
    "RandomAffine": {"degrees": 20, "translate": (0.1, 0.2), "scale": (0.7, 1.3), "shear": 5},
}


@pytest.mark.parametrize("name", GEOMETRY)
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32])
def test_boxes_of_every_format_move_as_torchvisions(name: str, form: str, dtype: torch.dtype) -> None:
    own, other = getattr(T, name)(**GEOMETRY[name]), getattr(v2, name)(**GEOMETRY[name])
    for seed in range(18):
        boxes = sample(seed, dtype, form)["boxes"]
        if len(boxes) == 0:
            continue  # without boxes, torchvision does not update the size of the image
        found, expected = called(own, boxes, seed), called(other, boxes, seed)
        assert found.canvas_size == expected.canvas_size
        assert found.dtype == expected.dtype
        found, expected = (each.as_subclass(torch.Tensor) for each in (found, expected))
        if name in ("RandomRotation", "RandomAffine") and dtype.is_floating_point:
            # The order of additions in a matrix product differs.
            torch.testing.assert_close(found, expected, atol=1e-4 if dtype == torch.float32 else 1e-12, rtol=1e-6)
        else:
            assert torch.equal(found, expected), seed


@pytest.mark.parametrize("form", ["XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_box_transforms_of_other_formats_equal_torchvisions(form: str, dtype: torch.dtype) -> None:
    for module in (T, v2):
        steps = lambda of: of.Compose(  # noqa: E731
            [
                of.CenterCrop(50),
                of.ClampBoundingBoxes(),
                of.SanitizeBoundingBoxes(),
                of.ConvertBoundingBoxFormat("XYXY" if form == "XYWH" else "xywh"),
                of.RandomHorizontalFlip(1),
            ]
        )
        options: dict[str, Any] = {"boxes": "boxes", "box_format": form, "box_fields": "labels"}
        field, marked = ImageField(steps(module), **options), ImageField(steps(module), tv_tensors=True, **options)
        assert not field.is_called
        for seed in range(9):
            given = sample(seed, dtype, form)
            arguments = (encoded(photograph(seed, SIZE[1], SIZE[0])), 0, [given["boxes"]], [])
            found = field.decode_moved(*arguments, {"labels": given["labels"]})
            expected = steps(v2)(given)
            assert torch.equal(found.boxes[0], expected["boxes"].as_subclass(torch.Tensor))
            assert torch.equal(found.fields["labels"], expected["labels"])
            assert marked.decode_moved(*arguments, {"labels": given["labels"]}).boxes[0].format == (
                expected["boxes"].format
            )


def test_batches_whose_boxes_are_dropped_are_made_sample_by_sample(tmp_path: Any) -> None:
    fields: dict[str, Any] = {"box": ["npy"], "label": ["npy"]}
    steps = [T.CenterCrop(40), T.RandomHorizontalFlip()]
    clamped = ImageField(T.Compose([T.ClampBoundingBoxes(), *steps]), boxes="box", box_fields="label")
    assert TarDataset(archive(tmp_path), {"jpg": clamped, **fields}).is_native
    dropping = ImageField(T.Compose([*steps, T.SanitizeBoundingBoxes()]), boxes="box", box_fields="label")
    dataset = TarDataset(str(tmp_path / "a.tar"), {"jpg": dropping, **fields})
    assert not dataset.is_native
    assert "drops boxes" in str(dropping.python_reason)
    options: dict[str, Any] = {"batch_size": 4, "seed": 1, "shuffle": True}
    batches = list(DataLoader(dataset, **options))
    for batch in batches:
        assert torch.equal(batch["box"]["offsets"], batch["label"]["offsets"])
    others = list(DataLoader(pickle.loads(pickle.dumps(dataset)), num_workers=2, **options))
    for batch, other in zip(batches, others, strict=True):
        assert torch.equal(batch["box"]["values"], other["box"]["values"])
        assert torch.equal(batch["label"]["values"], other["label"]["values"])


@pytest.mark.parametrize("module", [T, v2])
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_past_the_image_reach_a_called_transform_as_they_are(module: Any, form: str) -> None:
    """No earlier step clamps them, so a `SanitizeBoundingBoxes` after a called transform drops them."""

    def steps(of: Any) -> Any:
        return of.Compose([of.ToDtype(torch.float32, scale=True), Unknown(), of.SanitizeBoundingBoxes()])

    field = ImageField(steps(module), boxes="boxes", box_format=form, box_fields="labels")
    assert "`Unknown`" in str(field.python_reason)
    dropped = 0
    for seed in range(9):
        given = sample(seed, torch.float32, form)
        file = encoded(photograph(seed, SIZE[1], SIZE[0]))
        plain_boxes = given["boxes"].as_subclass(torch.Tensor)
        found = field.decode_moved(file, 0, [plain_boxes], [], {"labels": given["labels"]})
        expected = steps(v2)(given)
        assert torch.equal(found.boxes[0], expected["boxes"].as_subclass(torch.Tensor))
        assert torch.equal(found.fields["labels"], expected["labels"])
        dropped += len(given["labels"]) - len(expected["labels"])
    assert dropped > 0


def test_a_called_transform_gets_the_format_and_the_rows_that_are_left() -> None:
    """Steps that run in Rust before it have dropped boxes, with their labels, and converted the others."""
    seen: list[str] = []

    def note(image: Any, target: dict[str, Any]) -> Any:
        seen.append(target["boxes"].format.name)
        return image, target

    def steps(of: Any) -> Any:
        return of.Compose([of.CenterCrop(50), of.SanitizeBoundingBoxes(), of.ConvertBoundingBoxFormat("CXCYWH")])

    after = v2.RandomHorizontalFlip(1)
    field = ImageField(T.Compose([steps(T), note, after]), boxes="boxes", box_fields="labels")
    for seed in range(9):
        given = sample(seed)
        file = encoded(photograph(seed, SIZE[1], SIZE[0]))
        found = field.decode_moved(file, 0, [given["boxes"].as_subclass(torch.Tensor)], [], {"labels": given["labels"]})
        expected = after(steps(v2)(given))
        assert torch.equal(found.boxes[0], expected["boxes"].as_subclass(torch.Tensor))
        assert torch.equal(found.fields["labels"], expected["labels"])
    assert set(seen) == {"CXCYWH"}


@pytest.mark.parametrize("boxes", [(), ("a", "b")])
def test_boxes_are_dropped_in_rust_for_one_field_of_boxes_alone(boxes: tuple[str, ...]) -> None:
    field = ImageField(T.Compose([T.CenterCrop(9), T.SanitizeBoundingBoxes(labels_getter=None)]), boxes=boxes)
    assert f"transform 2, `SanitizeBoundingBoxes`: it drops boxes of one field, but there are {len(boxes)}" in str(
        field.python_reason
    )


def test_box_transforms_are_recognized() -> None:
    assert T.recognize(v2.ClampBoundingBoxes()) == ["ClampBoundingBoxes"]
    assert T.recognize(v2.ClampBoundingBoxes(None)) == []
    assert T.recognize(v2.SanitizeBoundingBoxes(2)) == [{"SanitizeBoundingBoxes": {"min_size": 2.0, "min_area": 1.0}}]
    assert T.recognize(v2.SanitizeBoundingBoxes(labels_getter=lambda sample: None)) is None
    assert T.recognize(v2.ConvertBoundingBoxFormat("XYWH")) == [{"ConvertBoundingBoxFormat": {"format": "XYWH"}}]
    assert T.recognize(v2.ConvertBoundingBoxFormat("XYXYXYXY")) is None
    numbers = {"min_scale": 0.3, "max_scale": 1.0, "min_aspect_ratio": 0.5, "max_aspect_ratio": 2.0, "trials": 40}
    limits = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    assert T.recognize(v2.RandomIoUCrop()) == [{"RandomIoUCrop": {**numbers, "sampler_options": limits}}]
    assert T.recognize(v2.RandomZoomOut(p=1)) == [
        {"RandomZoomOut": {"fill": [0.0], "side_range": [1.0, 4.0], "p": 1.0}}
    ]
    # Without boxes, torchvision's transform runs, and raises this error.
    with pytest.raises(ValueError, match="No bounding boxes"):
        ImageField(v2.SanitizeBoundingBoxes(labels_getter=None)).decode(encoded(photograph(1)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ClampBoundingBoxes", {"clamping_mode": "no"}),
        ("SanitizeBoundingBoxes", {"min_size": 0.5}),
        ("SanitizeBoundingBoxes", {"min_area": 0}),
        ("RandomZoomOut", {"side_range": (0.5, 2)}),
        ("RandomZoomOut", {"side_range": (3, 2)}),
        ("RandomZoomOut", {"side_range": (1, 2, 3)}),
        ("RandomZoomOut", {"p": 2}),
    ],
)
def test_invalid_arguments_of_box_transforms_are_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}: expected"):
        getattr(T, name)(**arguments)


def test_cached_images_drop_the_same_boxes(tmp_path: Any) -> None:
    """Deterministic steps at the beginning are applied to an image before it is cached, but to boxes each time."""
    steps = [T.Resize((60, 60)), T.SanitizeBoundingBoxes(9), T.ConvertBoundingBoxFormat("CXCYWH")]
    steps.append(T.RandomVerticalFlip())
    assert_same_from_cache(archive(tmp_path), T.Compose(steps))


def test_boxes_in_groups_are_not_dropped() -> None:
    field = ImageField(T.SanitizeBoundingBoxes(), boxes="boxes")
    groups = torch.tensor([[[0, 0, 5, 5], [1, 1, 1, 1]]])
    with pytest.raises(DamagedImageError, match=r"shape \(n, 4\), .*, but got shape \(1, 2, 4\)"):
        field.decode_moved(encoded(photograph(1)), 0, [groups], [])


@pytest.mark.parametrize("module", [T, v2])
def test_boxes_without_a_tv_tensor_type_are_not_moved(module: Any) -> None:
    """After `ToPureTensor`, torchvision moves only images."""

    def steps(of: Any) -> list[Any]:
        turn, pure = of.RandomHorizontalFlip(1.0), of.ToPureTensor()
        floats = of.ToDtype(torch.float32, scale=True)
        return [
            of.Compose([of.Pad(3), pure, turn]),
            of.Compose([turn, of.RandomApply([of.Compose([pure, floats])], p=1.0), of.CenterCrop(30)]),
            of.Compose([turn, pure, Unknown(), turn]),
            of.RandomApply([pure, turn], p=1.0),
            of.Compose([of.CenterCrop(50), of.ToImage(), floats, pure, of.Normalize([0.5], [0.5])]),
        ]

    for number, (own, theirs) in enumerate(zip(steps(module), steps(v2), strict=True)):
        field = ImageField(own, boxes="boxes", masks="masks", exact=True)
        assert field.is_called == (number < 4)
        assert ("boxes, masks and key points no longer move" in str(field.python_reason)) == (number < 4)
        given = sample(7)
        boxes, masks = given["boxes"].as_subclass(torch.Tensor), given["masks"].as_subclass(torch.Tensor)
        found = field.decode_moved(encoded(photograph(7, SIZE[1], SIZE[0])), 0, [boxes], [masks])
        image, target = theirs(given["image"], {"boxes": given["boxes"], "masks": given["masks"]})
        torch.testing.assert_close(found.image, image.as_subclass(torch.Tensor))
        assert torch.equal(found.boxes[0], target["boxes"].as_subclass(torch.Tensor))
        assert torch.equal(found.masks[0], target["masks"].as_subclass(torch.Tensor))
    with pytest.raises(TypeError, match="requires input sample to contain"):
        ImageField(module.Compose([module.ToPureTensor(), module.RandomIoUCrop()]), boxes="boxes").decode_moved(
            encoded(photograph(7, SIZE[1], SIZE[0])), 0, [boxes], []
        )
