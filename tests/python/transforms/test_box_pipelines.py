"""Random pipelines of transforms that move, drop, and convert boxes, compared with torchvision's."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from doubles.tar_files import npy, put
from doubles.unknown_transforms import Unknown
from sluicegate import DamagedImageError, DataLoader, ImageField, TarDataset, decode_image
from sluicegate import transforms as ours

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

Made = Callable[[Any], Any]
FORMATS = ("XYXY", "XYWH", "CXCYWH")

# Without rotated boxes: torch's matrix product adds in an order that depends on the number of boxes. Without a
# `CenterCrop` larger than its image: for odd margins, torchvision moves pixels and boxes one pixel apart.
STEPS: list[Made] = [
    lambda of: of.Compose([of.Resize((60, 71)), of.CenterCrop((50, 70))]),
    lambda of: of.ClampBoundingBoxes(),
    lambda of: of.ClampBoundingBoxes("hard"),
    lambda of: of.ConvertBoundingBoxFormat("XYXY"),
    lambda of: of.ConvertBoundingBoxFormat("xywh"),
    lambda of: of.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.CXCYWH),
    lambda of: of.Pad((3, 5, 7, 9)),
    lambda of: of.RandomApply([of.RandomIoUCrop(sampler_options=[0.05, 0.5, 1.0]), of.RandomHorizontalFlip()], p=0.7),
    lambda of: of.RandomApply([of.SanitizeBoundingBoxes(labels_getter=None), of.RandomVerticalFlip(1.0)]),
    lambda of: of.RandomCrop(40, pad_if_needed=True),
    lambda of: of.RandomGrayscale(),
    lambda of: of.RandomHorizontalFlip(),
    lambda of: of.RandomIoUCrop(),
    lambda of: of.RandomIoUCrop(0.2, 0.8, 0.3, 3.0, [0.0, 0.2, 2.0], 5),
    lambda of: of.RandomOrder([of.RandomIoUCrop(trials=7), of.Resize((50, 70)), of.RandomZoomOut()]),
    lambda of: of.RandomOrder([of.RandomHorizontalFlip(), of.SanitizeBoundingBoxes(3), of.Pad(2)]),
    lambda of: of.RandomResize(30, 90),
    lambda of: of.RandomResizedCrop(40),
    lambda of: of.RandomShortestSize([30, 50], max_size=90),
    lambda of: of.RandomVerticalFlip(),
    lambda of: of.RandomZoomOut(side_range=(1.0, 1.6)),
    lambda of: of.Resize((33, 71)),
    lambda of: of.SanitizeBoundingBoxes(),
    lambda of: of.SanitizeBoundingBoxes(min_size=2.5, min_area=30),
    lambda of: of.ScaleJitter((50, 60)),
    lambda of: of.ToImage(),
]


def boxes_of(generator: np.random.Generator, width: int, height: int, dtype: torch.dtype) -> torch.Tensor:
    """Return boxes inside the image, past its edges, outside of it, and inverted, some of less than a pixel."""
    start = generator.uniform(-20, [width, height], (int(generator.integers(9)), 2))
    size = generator.choice([0.0, 0.5, 1.0, 3.0, 20.0, 60.0], start.shape) + generator.choice([0.0, 0.3], start.shape)
    boxes = np.concatenate([start, start + size], 1)
    boxes[generator.random(len(boxes)) < 0.2] = [0, 0, width, height]
    inverted = generator.random(len(boxes)) < 0.1
    boxes[inverted] = boxes[inverted][:, [2, 1, 0, 3]]
    return torch.from_numpy(boxes).to(dtype)


def with_labels(transform: Any) -> Any:
    """Return torchvision's transform, with the labels of these boxes in every `SanitizeBoundingBoxes`."""
    if isinstance(transform, v2.SanitizeBoundingBoxes):
        return v2.SanitizeBoundingBoxes(transform.min_size, transform.min_area, lambda inputs: inputs[1]["labels"])
    if isinstance(transform, (v2.Compose, v2.RandomApply, v2.RandomOrder)):
        parts = [with_labels(each) for each in transform.transforms]
        return v2.RandomApply(parts, transform.p) if isinstance(transform, v2.RandomApply) else type(transform)(parts)
    return transform


@pytest.mark.parametrize("where", ["core", "in part"])
def test_random_pipelines(where: str) -> None:
    """Set `SLUICEGATE_BOX_PIPELINES=5000` to try that many."""
    choose = random.Random(int(os.environ.get("SLUICEGATE_BOX_SEED", "5")))
    dropped = 0
    for number in range(int(os.environ.get("SLUICEGATE_BOX_PIPELINES", "60"))):
        steps = [choose.choice(STEPS) for _ in range(choose.randrange(1, 7))]
        module, seed = choose.choice([ours, v2]), choose.randrange(1 << 30)
        form, dtype = choose.choice(FORMATS), choose.choice([torch.float32, torch.float64, torch.int64, torch.int32])
        made = [each(module) for each in steps]
        if where == "in part":
            made.insert(choose.randrange(len(made) + 1), Unknown())
        options: dict[str, Any] = {"boxes": "boxes", "masks": "masks", "box_fields": "labels", "box_format": form}
        field = ImageField(module.Compose(made), exact=True, tv_tensors=True, **options)
        assert field.is_called == (where == "in part")
        width, height = choose.randrange(30, 100), choose.randrange(30, 100)
        boxes = tv_tensors.BoundingBoxes(
            boxes_of(np.random.default_rng(seed), width, height, dtype), format="XYXY", canvas_size=(height, width)
        )
        boxes = v2.functional.convert_bounding_box_format(boxes, new_format=form)
        # The numbers of masks and rows differ from that of boxes: otherwise they would be masks of the boxes.
        masks = torch.randint(0, 255, (11, height, width), dtype=torch.uint8)
        labels = torch.arange(len(boxes))
        file = encoded(photograph(number, width, height))
        target = {"boxes": boxes, "masks": tv_tensors.Mask(masks), "labels": labels}
        torch.manual_seed(seed)
        reference = with_labels(v2.Compose([each(v2) for each in steps]))
        said = f"seed {seed}, {form}, {dtype}, {height} x {width}: {field.transform}"
        plain = boxes.as_subclass(torch.Tensor)
        try:
            image, expected = reference(tv_tensors.Image(decode_image(file)), target)
        except ZeroDivisionError:
            # Nested crops may leave no rows.
            torch.manual_seed(seed)
            with pytest.raises((DamagedImageError, ZeroDivisionError)):
                field.decode_moved(file, 0, [plain], [masks], {"labels": labels}, [0])
            continue
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        found = field.decode_moved(file, 0, [plain], [masks], {"labels": labels}, [0])
        assert torch.equal(torch.get_rng_state(), after), said
        assert found.image.shape == image.shape, said
        # Resizing adds up pixels in a different order.
        assert (found.image.double() - image.double()).abs().mean() < 1.5, said
        assert torch.equal(found.masks[0].as_subclass(torch.Tensor), expected["masks"].as_subclass(torch.Tensor)), said
        assert torch.equal(found.fields["labels"], expected["labels"]), said
        moved = found.boxes[0]
        assert (moved.format, moved.dtype) == (expected["boxes"].format, dtype), said
        if len(moved):
            # Without boxes, torchvision may not update the size of the image.
            assert tuple(moved.canvas_size) == tuple(expected["boxes"].canvas_size), said
        assert torch.equal(moved.as_subclass(torch.Tensor), expected["boxes"].as_subclass(torch.Tensor)), said
        dropped += len(boxes) - len(moved)
    assert dropped > 0


def test_random_pipelines_in_whole_batches(tmp_path: Path) -> None:
    """Batches made by threads, without Python, equal those of samples. Set `SLUICEGATE_BOX_BATCHES=1000` for more."""
    choose = random.Random(int(os.environ.get("SLUICEGATE_BOX_SEED", "7")))
    sizes = [(choose.randrange(30, 100), choose.randrange(30, 100)) for _ in range(6)]
    paths = {}
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
        members = []
        for number, (width, height) in enumerate(sizes):
            boxes = boxes_of(np.random.default_rng(number), width, height, dtype)
            members += [
                (f"{number}.jpg", encoded(photograph(number, width, height))),
                (f"{number}.box", npy(boxes.numpy())),
                (f"{number}.png", encoded(photograph(number + 9, width, height).convert("L"), "png")),
            ]
        paths[dtype] = put(tmp_path / f"{str(dtype)[6:]}.tar", members)
    by_sample = "SanitizeBoundingBoxes", "RandomIoUCrop"
    steps = [made for made in STEPS if not any(name in str(ours.recognize(made(ours))) for name in by_sample)]
    for _ in range(int(os.environ.get("SLUICEGATE_BOX_BATCHES", "12"))):
        made = [choose.choice(steps)(ours) for _ in range(choose.randrange(1, 6))]
        dtype, form = choose.choice(list(paths)), choose.choice(FORMATS)
        place = choose.randrange(len(made) + 1)
        transform = ours.Compose([*made[:place], ours.Resize((32, 40)), *made[place:], ours.Resize((24, 24))])
        cache = choose.choice([None, "memory"])
        image = ImageField(transform, boxes="box", masks="png", box_format=form, cache=cache)
        dataset = TarDataset(paths[dtype], {"jpg": image, "box": ["npy"], "png": ImageField(mode="L")})
        assert dataset.is_native, dataset.python_reason
        options: dict[str, Any] = {"batch_size": 4, "seed": choose.randrange(1 << 30), "shuffle": True}
        native = list(DataLoader(dataset, **options))
        samples = TarDataset(paths[dtype], {"jpg": image, "box": ["npy"], "png": ImageField(mode="L")})
        samples.is_native = False
        assert_same(list(DataLoader(samples, **options)), native)
