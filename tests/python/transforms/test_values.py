"""Transforms give torchvision's values on photographs, and move boxes and masks with them."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate.transforms as ours

tv_tensors = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")
datasets = pytest.importorskip("sklearn.datasets")

# A temple of 143 x 214 pixels, and a flower of 110 x 90.
TEMPLE, FLOWER = (torch.from_numpy(np.array(array)).permute(2, 0, 1) for array in datasets.load_sample_images().images)
PHOTOGRAPHS = [TEMPLE[:, ::3, ::3].contiguous(), FLOWER[:, 40:260:2, 100:280:2].contiguous()]

TRANSFORMS: dict[str, list[dict[str, Any]]] = {
    "CenterCrop": [{"size": 100}, {"size": (120, 300)}],
    "ColorJitter": [{"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}],
    "GaussianBlur": [{"kernel_size": (5, 9)}],
    "Grayscale": [{}, {"num_output_channels": 3}],
    "Pad": [{"padding": (3, 1, 4, 1), "fill": (9, 8, 7)}, {"padding": 5, "padding_mode": "reflect"}],
    "RandAugment": [{"num_ops": 3}],
    "RandomAffine": [{"degrees": 20, "translate": (0.1, 0.1), "scale": (0.8, 1.2), "shear": 5, "fill": 128}],
    "RandomAdjustSharpness": [{"sharpness_factor": 2}],
    "RandomAutocontrast": [{}],
    "RandomChannelPermutation": [{}],
    "RandomCrop": [{"size": 90, "padding": 4}, {"size": 200, "pad_if_needed": True}],
    "RandomEqualize": [{}],
    "RandomErasing": [{"p": 0.9, "value": (1, 2, 3)}],
    "RandomGrayscale": [{"p": 0.5}],
    "RandomHorizontalFlip": [{}],
    "RandomInvert": [{}],
    "RandomPhotometricDistort": [{}],
    "RandomPosterize": [{"bits": 3}],
    "RandomResizedCrop": [{"size": 64}, {"size": (90, 50), "interpolation": "bicubic"}],
    "RandomRotation": [
        {"degrees": 40, "interpolation": "bilinear"},
        {"degrees": 40, "expand": True, "fill": (1, 2, 3)},
    ],
    "RandomSolarize": [{"threshold": 128}],
    "RandomVerticalFlip": [{}],
    "RandomZoomOut": [{"p": 0.9, "side_range": (1.0, 1.8), "fill": (1, 2, 3)}],
    "Resize": [
        {"size": 70},
        {"size": (90, 120), "interpolation": "bicubic", "antialias": False},
        {"size": (200, 90), "antialias": False},
    ],
    "TrivialAugmentWide": [{}],
}
CASES = [(name, arguments) for name, each in TRANSFORMS.items() for arguments in each]
ON_FLOATS = [case for case in CASES if "Augment" not in case[0] and case[0] not in ("RandomSolarize", "RandomEqualize")]


def call(transform: Any, seed: int, *sample: Any) -> Any:
    torch.manual_seed(seed)
    return transform(*sample)


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_bytes_are_within_a_gray_level(name: str, arguments: dict[str, Any]) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    for seed in range(2):
        for photograph in PHOTOGRAPHS:
            image, expected = (call(each, seed, photograph) for each in (own, other))
            assert image.dtype == torch.uint8
            assert image.shape == expected.shape
            difference = (image.int() - expected.int()).abs()
            # A pixel between two others may round to either one.
            allowed = 1 if "Rotation" not in name and "Affine" not in name and "Augment" not in name else 255
            assert difference.max() <= allowed
            assert difference.float().mean() < 0.25


@pytest.mark.parametrize(("name", "arguments"), ON_FLOATS)
def test_floats_are_within_1e_4(name: str, arguments: dict[str, Any]) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    photograph = PHOTOGRAPHS[1].float() / 255
    image, expected = (call(each, 1, photograph) for each in (own, other))
    assert image.dtype == torch.float32
    differs = (image - expected).abs() > 1e-4
    assert differs.float().mean() < (1e-3 if "Rotation" in name or "Affine" in name else 1e-9)


def test_a_pipeline_of_training_gives_torchvisions_batch() -> None:
    def pipeline(module: Any) -> Any:
        return module.Compose(
            [
                module.ToImage(),
                module.RandomResizedCrop(64),
                module.RandomHorizontalFlip(),
                module.TrivialAugmentWide(),
                torch.clone,
                module.ToDtype(torch.float32, scale=True),
                module.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
                module.RandomErasing(),
            ]
        )

    for seed in range(4):
        photograph = PHOTOGRAPHS[seed % 2].permute(1, 2, 0).numpy()
        image, expected = (call(pipeline(module), seed, photograph) for module in (ours, v2))
        assert type(image) is type(expected)
        # One gray level, divided by the smallest deviation, if the crop is resized.
        assert (image - expected).abs().mean() < 0.02


def test_stacks_with_any_leading_axes_are_transformed_like_single_images() -> None:
    photograph = PHOTOGRAPHS[0]
    stack = torch.stack([photograph, photograph.flip(-1), photograph.flip(-2), photograph]).reshape(
        2, 2, *photograph.shape
    )
    for transform, other in ((ours.ColorJitter(0.4), v2.ColorJitter(0.4)), (ours.CenterCrop(40), v2.CenterCrop(40))):
        image, expected = (call(each, 3, stack) for each in (transform, other))
        assert image.shape == expected.shape
        assert (image.int() - expected.int()).abs().max() <= 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Grayscale", {"num_output_channels": 1}),
        ("RandomRotation", {"degrees": (90, 90), "expand": True}),
        ("Pad", {"padding": 2}),
        ("RandomResizedCrop", {"size": (3, 5)}),
    ],
)
def test_a_stack_of_no_images_has_the_shape_and_the_draws_of_one(name: str, arguments: dict[str, Any]) -> None:
    image, expected = (call(getattr(module, name)(**arguments), 3, torch.zeros(0, 3, 4, 9)) for module in (ours, v2))
    assert image.shape == expected.shape
    states = []
    for module in (ours, v2):
        torch.manual_seed(3)
        getattr(module, name)(**arguments)(torch.zeros(0, 3, 4, 9))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


Named = collections.namedtuple("Named", ["image", "rest"])


def test_all_of_a_sample_is_transformed_by_one_draw() -> None:
    photograph = PHOTOGRAPHS[0]
    size = tuple(photograph.shape[-2:])
    corners = torch.tensor([[10.0, 20.0, 60.0, 90.0], [100.0, 30.0, 140.0, 31.0]])
    boxes = {
        form: tv_tensors.BoundingBoxes(box, format=form, canvas_size=size)
        for form, box in (("XYXY", corners), ("XYWH", corners - torch.tensor([0, 0, 9, 19])))
    }
    mask = (photograph[0] > 100).to(torch.uint8)
    sample = {
        "named": Named(tv_tensors.Image(photograph), [boxes["XYXY"], (boxes["XYWH"],)]),
        "masks": tv_tensors.Mask(mask.repeat(2, 1, 1).bool()),
        "mask": tv_tensors.Mask(mask),
        "unmarked": torch.ones(3, 4),
        "text": "text",
    }
    for names in (
        [("RandomResizedCrop", {"size": 64}), ("RandomHorizontalFlip", {})],
        [("RandomCrop", {"size": 100, "padding": 3}), ("ColorJitter", {"brightness": 0.4})],
        [("Pad", {"padding": 4, "fill": {tv_tensors.Image: 200, tv_tensors.Mask: 1}})],
        [("RandomAffine", {"degrees": 20, "scale": (0.8, 1.2)})],
        [("Resize", {"size": 64}), ("RandomVerticalFlip", {"p": 0.7})],
    ):
        own, other = (
            module.Compose([getattr(module, name)(**arguments) for name, arguments in names]) for module in (ours, v2)
        )
        for seed in range(3):
            found, expected = (call(each, seed, sample) for each in (own, other))
            leaves, structure = torch.utils._pytree.tree_flatten(found)
            expected_leaves, expected_structure = torch.utils._pytree.tree_flatten(expected)
            assert structure == expected_structure
            for leaf, as_expected in zip(leaves, expected_leaves, strict=True):
                assert type(leaf) is type(as_expected)
                if not isinstance(leaf, torch.Tensor):
                    assert leaf == as_expected
                    continue
                assert (leaf.shape, leaf.dtype) == (as_expected.shape, as_expected.dtype)
                if isinstance(leaf, tv_tensors.BoundingBoxes):
                    assert (leaf.format, leaf.canvas_size) == (as_expected.format, tuple(as_expected.canvas_size))
                    torch.testing.assert_close(leaf, as_expected, rtol=0, atol=1e-3)
                else:
                    assert (leaf.float() - as_expected.float()).abs().mean() < 0.25


def test_of_unmarked_tensors_the_first_is_the_image() -> None:
    photograph, other = PHOTOGRAPHS
    first, second, label = call(ours.CenterCrop(9), 0, photograph, other, 7)
    assert first.shape == (3, 9, 9)
    assert second is other
    assert label == 7
    marked, unmarked = ours.CenterCrop(9)({"a": other, "b": tv_tensors.Image(photograph)}).values()
    assert marked is other
    assert unmarked.shape == (3, 9, 9)


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_images_of_pillow_and_arrays_become_tensors() -> None:
    pillow = pytest.importorskip("PIL.Image")
    photograph = PHOTOGRAPHS[0]
    array = photograph.permute(1, 2, 0).numpy()
    for image in (pillow.fromarray(array), pillow.fromarray(array[..., 0])):
        for name in ("ToImage", "PILToTensor", "ToTensor"):
            found, expected = (getattr(module, name)()(image) for module in (ours, v2))
            assert type(found) is type(expected)
            torch.testing.assert_close(found, expected)
    assert torch.equal(ours.ToImage()(array), v2.ToImage()(array))
    assert torch.equal(ours.ToTensor()(array), v2.ToTensor()(array))


@pytest.mark.parametrize("scale", [True, False])
def test_data_types_are_converted_as_torchvision_converts_them(scale: bool) -> None:
    types = (torch.uint8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for before in types:
        levels = torch.linspace(0, 1, 300).reshape(1, 15, 20)
        image = levels.to(before) if before.is_floating_point else (levels * torch.iinfo(before).max).to(before)
        for after in types:
            if before.is_floating_point and after == torch.int32 and scale:
                continue
            found, expected = (module.ToDtype(after, scale=scale)(image) for module in (ours, v2))
            assert found.dtype == after
            assert torch.equal(found, expected), (before, after)
    bits = torch.tensor([[[True, False]]])
    found, expected = (module.ToDtype(torch.float32, scale=scale)(bits) for module in (ours, v2))
    assert torch.equal(found, expected)
    mixed = {"image": tv_tensors.Image(image.to(torch.uint8)), "mask": tv_tensors.Mask(torch.ones(15, 20))}
    to = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    found, expected = (module.ToDtype(to, scale=scale)(mixed) for module in (ours, v2))
    assert all(torch.equal(found[key], expected[key]) and found[key].dtype == expected[key].dtype for key in mixed)


def test_inputs_that_can_not_be_transformed_are_refused_with_a_message() -> None:
    photograph = PHOTOGRAPHS[0]
    size = tuple(photograph.shape[-2:])
    boxes = tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYXY", canvas_size=size)
    with pytest.raises(TypeError, match="ToDtype"):
        ours.Normalize([0.5], [0.5])(photograph)
    with pytest.raises(TypeError, match="ToDtype"):
        ours.CenterCrop(3)(photograph.double())
    with pytest.raises(TypeError, match="boxes"):
        ours.RandAugment()(photograph, boxes)
    with pytest.raises(TypeError, match="expected an image, mask or bounding box"):
        ours.CenterCrop(3)("image")
    with pytest.raises(TypeError, match="shape"):
        ours.CenterCrop(3)(photograph[0])
    with pytest.raises(TypeError, match="key points"):
        ours.FiveCrop(3)(photograph, tv_tensors.KeyPoints([[1, 2]], canvas_size=size))
    with pytest.raises(ValueError, match="to have the same size, but got"):
        ours.CenterCrop(3)(tv_tensors.Image(photograph), tv_tensors.Mask(torch.ones(3, 4)))
    with pytest.raises(ValueError, match="larger"):
        ours.RandomCrop(999)(photograph)
