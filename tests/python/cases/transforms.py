"""Every transform of `sluicegate.transforms` with arguments, for tests that use each in every supported way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from doubles.photographs import photograph
from sluicegate import transforms

Made = Callable[[Any], Any]

# Warnings of torchvision about its own transforms.
IGNORED_WARNINGS = [
    pytest.mark.filterwarnings("ignore:The transform `ToTensor"),
    pytest.mark.filterwarnings("ignore:RandomErasing"),
    pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities"),
]

FLOATS = {"dtype": torch.float32, "scale": True}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "AugMix": [{}, {"severity": 7, "mixture_width": 2, "all_ops": False, "interpolation": "nearest"}],
    "AutoAugment": [{}],
    "CenterCrop": [{"size": 40}, {"size": (90, 30)}],
    "ClampBoundingBoxes": [{}],
    "ColorJitter": [{"brightness": 0.4, "contrast": 0.4}, {"saturation": 0.4}, {"hue": 0.1}],
    "ConvertBoundingBoxFormat": [{"format": "XYWH"}],
    "ConvertImageDtype": [{"dtype": torch.float32}],
    "FiveCrop": [{"size": 30}, {"size": (50, 41)}],
    "GaussianBlur": [{"kernel_size": (5, 3)}],
    "GaussianNoise": [{}, {"mean": 0.1, "sigma": 0.3, "clip": False}],
    "Grayscale": [{}, {"num_output_channels": 3}],
    "Identity": [{}],
    "JPEG": [{"quality": 40}, {"quality": (5, 95)}],
    "Normalize": [{"mean": MEAN, "std": STD}],
    "PILToTensor": [{}],
    "Pad": [{"padding": 3}, {"padding": (1, 2), "padding_mode": "reflect"}, {"padding": 2, "fill": (1, 2, 3)}],
    "RGB": [{}],
    "RandAugment": [{}],
    "RandomAdjustSharpness": [{"sharpness_factor": 2}],
    "RandomAffine": [{"degrees": 20, "translate": (0.1, 0.2)}],
    "RandomAutocontrast": [{}],
    "RandomChannelPermutation": [{}],
    "RandomCrop": [{"size": 32, "padding": 4}, {"size": (60, 20)}, {"size": 90, "pad_if_needed": True}],
    "RandomEqualize": [{}],
    "RandomErasing": [{"p": 0.8}],
    "RandomGrayscale": [{"p": 0.5}],
    "RandomHorizontalFlip": [{}],
    "RandomInvert": [{}],
    "RandomPerspective": [{"p": 0.9}, {"distortion_scale": 0.3, "p": 1.0, "interpolation": "nearest", "fill": 9}],
    "RandomPhotometricDistort": [{}],
    "RandomPosterize": [{"bits": 3}],
    "RandomResize": [{"min_size": 20, "max_size": 60}],
    "RandomResizedCrop": [{"size": 32}, {"size": 24, "interpolation": 3}],
    "RandomRotation": [{"degrees": 30}, {"degrees": 30, "expand": True, "interpolation": 2}],
    "RandomShortestSize": [{"min_size": [20, 33, 70]}, {"min_size": 60, "max_size": 66, "interpolation": 3}],
    "RandomSolarize": [{"threshold": 128}],
    "RandomVerticalFlip": [{}],
    "RandomZoomOut": [{"side_range": (1.0, 1.5)}, {"side_range": (1.0, 2.0), "fill": (1, 2, 3)}],
    "Resize": [{"size": 40}, {"size": (33, 50), "interpolation": 3}, {"size": 30, "interpolation": 0}],
    "ScaleJitter": [{"target_size": (40, 52)}],
    "TenCrop": [{"size": 30}, {"size": (50, 41), "vertical_flip": True}],
    "ToDtype": [FLOATS],
    "ToImage": [{}],
    "ToPILImage": [{}],
    "ToPureTensor": [{}],
    "ToTensor": [{}],
    "TrivialAugmentWide": [{}],
}
# Transforms that take batches, and names that are not transforms; those that need boxes are in `test_boxes` and
# `test_iou_crop`.
NO_TRANSFORMS = ("CutMix", "MixUp", "RandomIoUCrop", "SanitizeBoundingBoxes", "Transform", "recognize")
CONTAINERS: dict[str, Made] = {
    "Compose": lambda module: module.Compose([module.CenterCrop(40), module.RandomInvert()]),
    "RandomApply": lambda module: module.RandomApply([module.RandomInvert(), module.Pad(1)], p=0.5),
    "RandomChoice": lambda module: module.RandomChoice(
        [module.RandomInvert(), module.Pad(1), module.Pad(2)], p=[1, 2, 3]
    ),
    "RandomOrder": lambda module: module.RandomOrder([module.RandomInvert(), module.CenterCrop(20), module.Pad(1)]),
}
# Transforms that may round a pixel on the border between two source pixels either way.
WARPS = (
    *("AugMix", "AutoAugment", "RandAugment", "RandomAffine", "RandomPerspective", "RandomRotation"),
    "TrivialAugmentWide",
)


def _made(name: str, arguments: dict[str, Any]) -> Made:
    return lambda module: getattr(module, name)(**arguments)


CASES: list[tuple[str, str, Made]] = [
    (name, f"{name}-{number}", _made(name, arguments))
    for name, each in ARGUMENTS.items()
    for number, arguments in enumerate(each)
] + [(name, name, made) for name, made in CONTAINERS.items()]

assert {name for name, *_ in CASES} | set(NO_TRANSFORMS) == set(transforms.__all__)


def random_pipeline(generator: random.Random, names: list[str]) -> list[Made]:
    """Return two to six transforms with these names, in any order that torchvision accepts for tensors."""
    chosen = [case for case in CASES if case[0] in names]
    return [generator.choice(chosen)[2] for _ in range(generator.randrange(2, 7))]


def drawn(seed: int, call: Any, *inputs: Any) -> tuple[Any, torch.Tensor]:
    """Return the result, or the error's type, and the generator's state afterward."""
    torch.manual_seed(seed)
    try:
        made = call(*inputs)
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        return type(error), torch.zeros(0)
    return made, torch.get_rng_state()


def tensor(value: Any) -> torch.Tensor:
    """Return the values (channels, height, width) of a Pillow image, a tensor, or an array."""
    if not isinstance(value, Image.Image):
        return torch.as_tensor(value).as_subclass(torch.Tensor)
    array = np.array(value)
    return torch.from_numpy(array[:, :, None] if array.ndim == 2 else array).permute(2, 0, 1)


def assert_close(found: Any, expected: Any, is_warp: bool = False, levels: float = 1.0, deviation: float = 1.0) -> None:
    """Assert that types, data types, and shapes are equal, and that values differ by at most `levels` of 256."""
    assert type(found) is type(expected)
    if isinstance(expected, type):
        return
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, is_warp, levels, deviation)
        return
    if isinstance(expected, Image.Image):
        assert found.mode == expected.mode
    found, expected = tensor(found), tensor(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    level = 1 if not found.is_floating_point() else 1 / 255
    far = (found.double() - expected.double()).abs() > levels * level / deviation + 1e-4
    assert far.double().mean() <= (0.01 if is_warp else 0.0)


IMAGES = [photograph(number, 50 + 9 * number, 60 + 4 * number) for number in range(4)]
