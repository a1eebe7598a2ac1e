"""Pipelines inside of others, including `nn.Sequential` and `nn.ModuleList`, give torchvision's results."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sluicegate.transforms as ours
from cases.transforms import CASES, IGNORED_WARNINGS, IMAGES, WARPS, Made, assert_close, drawn
from checks.equality import assert_same
from sluicegate import DataLoader, ImageField, ImageFolderDataset

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

pytestmark = IGNORED_WARNINGS


class Unknown(nn.Module):
    """A module that is not recognized and changes nothing."""

    def forward(self, image: Any) -> Any:
        return image


Nesting = Callable[[Any, list[Any]], Any]
NESTINGS: dict[str, Nesting] = {
    "sequential": lambda module, steps: nn.Sequential(*steps),
    "sequential in compose": lambda module, steps: module.Compose([module.CenterCrop(60), nn.Sequential(*steps)]),
    "sequential in sequential": lambda module, steps: nn.Sequential(nn.Sequential(), nn.Sequential(*steps)),
    "compose in compose": lambda module, steps: module.Compose([module.Compose([module.Compose(steps)])]),
    "applied sequential": lambda module, steps: module.RandomApply([nn.Sequential(*steps)], p=0.6),
    "applied compose": lambda module, steps: module.RandomApply([module.Compose(steps)], p=0.6),
    "applied list": lambda module, steps: module.RandomApply(nn.ModuleList(steps), p=0.6),
    "applied empty": lambda module, steps: module.Compose([module.RandomApply([nn.Sequential()]), *steps]),
}
NESTED = pytest.mark.parametrize("nesting", NESTINGS.values(), ids=NESTINGS)
V2 = [case for case in CASES if case[0] not in ("Compose", "ToPILImage", "FiveCrop", "TenCrop", "Normalize")]


@NESTED
@pytest.mark.parametrize(("name", "made"), [(case[0], case[2]) for case in V2], ids=[case[1] for case in V2])
def test_nested_v2_transforms_equal_torchvisions(root: Path, name: str, made: Made, nesting: Nesting) -> None:
    for more in ([], [Unknown()]):
        steps = nesting(v2, [v2.RandomVerticalFlip(), made(v2), *more])
        dataset = ImageFolderDataset(root, steps, exact=True)
        reason = dataset.python_reason
        if not more and name != "RandomChoice":
            assert reason is None or "any size" in reason
        for number, photo in enumerate(IMAGES[:3]):
            # `ToTensor` leaves a tensor as it is; in a dataset the image counts as one of Pillow's.
            image = photo if name == "ToTensor" else v2.functional.pil_to_tensor(photo).contiguous()
            expected, after = drawn(number, steps, image)
            if name == "ToTensor":
                # It was not applied.
                expected = v2.functional.pil_to_tensor(expected) if not isinstance(expected, torch.Tensor) else expected
            found, state = drawn(number, lambda at, dataset=dataset: dataset[at][0], number)
            plain = expected.as_subclass(torch.Tensor) if isinstance(expected, torch.Tensor) else expected
            assert_close(found, plain, name in WARPS)
            assert torch.equal(state, after)


NAMES_OF_V1 = (
    *("CenterCrop", "ColorJitter", "GaussianBlur", "Grayscale", "Pad", "RandomAdjustSharpness", "RandomAutocontrast"),
    *("RandomCrop", "RandomEqualize", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomPerspective"),
    *("RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize", "Resize"),
)
V1 = [case for case in CASES if case[0] in NAMES_OF_V1]


@NESTED
@pytest.mark.parametrize("made", [case[2] for case in V1], ids=[case[1] for case in V1])
def test_nested_v1_transforms_equal_torchvisions(root: Path, made: Made, nesting: Nesting) -> None:
    for more in ([], [Unknown()]):
        steps = v1.Compose([nesting(v1, [v1.RandomVerticalFlip(), made(v1), *more]), v1.PILToTensor()])
        dataset = ImageFolderDataset(root, steps, exact=True)
        for number, photo in enumerate(IMAGES[:3]):
            random.seed(number)
            expected, after = drawn(number, steps, photo)
            random.seed(number)
            found, state = drawn(number, lambda at, dataset=dataset: dataset[at][0], number)
            assert_close(found, expected, levels=2.0)
            assert torch.equal(state, after)


def test_scriptable_pipelines_are_recognized(root: Path) -> None:
    steps = nn.Sequential(v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True))
    assert ours.recognize(steps) == ours.recognize(ours.Compose(list(steps)))
    assert ImageFolderDataset(root, steps).python_reason is None
    assert ours.recognize(nn.Sequential()) == []
    assert ImageField(nn.Sequential(v2.CenterCrop(9), nn.Sequential(v2.RGB(), Unknown()))).python_reason == (
        "transform 2.2, `Unknown`: not recognized"
    )
    hooked = nn.Sequential(v2.CenterCrop(9))
    hooked.register_forward_hook(lambda *_: None)
    assert ImageField(hooked).python_reason == "`Sequential`: it has hooks, or its `forward` was replaced"

    class Own(nn.Sequential):
        pass

    assert "not recognized" in str(ImageField(Own(v2.CenterCrop(9))).python_reason)


def test_boxes_and_masks_move_through_a_sequential() -> None:
    image = v2.functional.pil_to_tensor(IMAGES[0]).contiguous()
    size = tuple(image.shape[-2:])
    sample = {
        "image": tv_tensors.Image(image),
        "boxes": tv_tensors.BoundingBoxes([[1.0, 2.0, 30.0, 40.0]], format="XYXY", canvas_size=size),
        "mask": tv_tensors.Mask((image[:1] > 90).to(torch.uint8)),
    }
    steps = [v2.RandomHorizontalFlip(1.0), v2.CenterCrop(40)]
    expected = v2.Compose(steps)(sample)
    called = ours.Compose([Unknown(), nn.Sequential(*steps)])
    assert_same(called(sample)["boxes"], expected["boxes"])
    assert_same(called(sample)["mask"], expected["mask"])


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_nested_transforms_draw_from_the_generator_of_the_sample(root: Path, worker_type: Any) -> None:
    def batches(steps: list[Any], **options: Any) -> list[Any]:
        dataset = ImageFolderDataset(root, v2.Compose(steps), exact=True)
        return [each[0] for each in DataLoader(dataset, batch_size=1, seed=7, **options)]

    flips = [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(), v2.ToTensor()]
    expected = batches([v2.RandomApply([*flips[:2], v2.ToDtype(torch.float32, scale=True)], p=1.0)])
    for inside in (flips, [nn.Sequential(*flips)], [v2.Compose(flips)], [Unknown(), *flips]):
        steps = [Unknown(), v2.RandomApply(inside, p=1.0)]
        for found, wanted in zip(batches(steps, num_workers=2, worker_type=worker_type), expected, strict=True):
            torch.testing.assert_close(found, wanted)
