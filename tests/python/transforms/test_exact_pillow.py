"""Which of torchvision's transforms of Pillow images are recognized, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same

pytest.importorskip("torchvision")

from PIL import Image, ImageEnhance
from torchvision import transforms as v1
from torchvision.models import EfficientNet_B0_Weights, ResNet50_Weights
from torchvision.transforms import InterpolationMode, v2

from cases.torchvision_datasets import made
from sluicegate.transforms.exact_pillow import exact_steps
from sluicegate.transforms.pillow_arithmetic import check_arithmetic, is_the_same
from sluicegate.transforms.recognize import NotRecognizedError


def before_floats(*steps: Any) -> Any:
    return v1.Compose([*steps, v1.ToTensor()])


def after_floats(*steps: Any) -> Any:
    return v1.Compose([v1.ToTensor(), *steps])


def after_bytes(*steps: Any) -> Any:
    return v1.Compose([v1.PILToTensor(), *steps])


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "colors of a tensor": (lambda: after_bytes(v2.ColorJitter(0.5)), "those for tensors"),
    "a turned tensor": (lambda: after_floats(v2.RandomRotation(5)), "those for tensors"),
    "a tensor resized by v1": (lambda: after_bytes(v1.Resize((8, 8))), "those for tensors"),
    "resized floats": (lambda: after_floats(v2.Resize((8, 8))), "only uint8"),
    "a tensor resized without antialias": (lambda: after_bytes(v2.Resize((8, 8), antialias=False)), "only uint8"),
    "a tensor of nearest pixels": (lambda: after_bytes(v2.Resize((8, 8), InterpolationMode.NEAREST)), "only uint8"),
    "an erased image of bytes": (lambda: after_bytes(v2.RandomErasing()), "not a tensor of float32"),
    "too few values": (lambda: after_floats(v2.RandomErasing(value=(1, 2))), "the image has 3 channels"),
    "an infinite value": (lambda: after_floats(v1.RandomErasing(value=float("inf"))), "not made of finite numbers"),
    "a blur": (lambda: before_floats(v2.GaussianBlur(3)), "may differ in the last bit"),
    "a choice of modes": (
        lambda: before_floats(v2.RandomChoice([v2.Grayscale(), v2.RGB()])),
        "it changes the kind of image, but not always",
    ),
    "a weight for no transform": (
        lambda: before_floats(v1.RandomChoice([v1.RandomInvert()], p=[1, 1])),
        "expected a weight for each transform",
    ),
    "weights of another type": (
        lambda: before_floats(v1.RandomChoice([v1.RandomInvert()], p=[np.float32(1)])),
        "expected a weight for each transform",
    ),
    "no weight": (
        lambda: before_floats(v1.RandomChoice([v1.RandomInvert(), v1.RandomInvert()], p=[0, 0.0])),
        "a finite sum above 0",
    ),
    "an infinite weight": (
        lambda: before_floats(v1.RandomChoice([v1.RandomInvert()], p=[float("nan")])),
        "a finite sum above 0",
    ),
    "a choice of sizes": (
        lambda: before_floats(v1.RandomOrder([v1.Grayscale(), v1.RandomInvert()])),
        "it changes the kind of image, but not always",
    ),
    "no bits": (lambda: before_floats(v1.RandomPosterize(0)), "bits is 0"),
    "bits of another type": (lambda: before_floats(v2.RandomPosterize(3.0)), "bits is 3.0"),
    "an infinite threshold": (lambda: before_floats(v2.RandomSolarize(float("inf"))), "threshold is inf"),
    "a factor without bounds": (lambda: before_floats(v2.RandomAdjustSharpness(1e300)), "sharpness_factor is 1e+300"),
    "a jitter without bounds": (lambda: before_floats(v1.ColorJitter((0, 1e300))), "brightness is"),
    "two channels of gray": (lambda: before_floats(v1.Grayscale(2)), "num_output_channels is 2"),
    "a broken fill": (lambda: before_floats(v2.RandomAffine(5, fill=0.5)), "fill=0.5"),
    "a fill of two values": (lambda: before_floats(v1.RandomRotation(5, fill=(1, 2))), "fill=(1, 2)"),
    "a fill by type": (lambda: before_floats(v2.RandAugment(fill={Image.Image: 3})), "fill={"),
    "another interpolation": (
        lambda: before_floats(v1.RandomRotation(5, InterpolationMode.BICUBIC)),
        "expected one of nearest, bilinear",
    ),
    "another interpolation of a policy": (
        lambda: before_floats(v2.AutoAugment(interpolation=InterpolationMode.BICUBIC)),
        "expected one of nearest, bilinear",
    ),
    "one strength": (lambda: before_floats(v1.TrivialAugmentWide(1)), "num_magnitude_bins is 1"),
    "a strength that is not there": (lambda: before_floats(v1.RandAugment(magnitude=31)), "an integer from 0 to 30"),
    "gray sometimes": (
        lambda: before_floats(v2.RandomApply([v2.Grayscale()])),
        "it changes the kind of image, but not always",
    ),
    "a tensor twice": (lambda: v1.Compose([v1.ToTensor(), v1.ToTensor()]), "the image is a tensor already"),
    "a tensor sometimes": (lambda: v1.RandomApply([v1.ToTensor()]), "it changes the kind of image, but not always"),
    "a preset for tensors": (lambda: after_bytes(ResNet50_Weights.DEFAULT.transforms()), "those for tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unrecognized_transforms_name_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(NotRecognizedError) as error:
        exact_steps(make(), "RGB")
    assert reason in str(error.value)


def test_a_policy_that_was_changed_is_not_recognized() -> None:
    for policy in (v1.AutoAugment(), v2.AutoAugment()):
        exact_steps(before_floats(policy), "RGB")
        vars(policy)["policies" if isinstance(policy, v1.AutoAugment) else "_policies"].pop()
        with pytest.raises(NotRecognizedError, match="policies were replaced"):
            exact_steps(before_floats(policy), "RGB")


@pytest.fixture
def forgotten_arithmetic() -> Iterator[None]:
    is_the_same.cache_clear()
    yield
    is_the_same.cache_clear()


@pytest.mark.usefixtures("forgotten_arithmetic")
def test_a_pillow_with_other_values_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(self: Any, factor: float) -> Image.Image:
        return Image.blend(self.degenerate, self.image, factor + 1e-3)

    monkeypatch.setattr(ImageEnhance.Contrast, "enhance", rounded, raising=False)
    check_arithmetic(("Equalize", "Hue"), "v1")
    with pytest.raises(NotRecognizedError, match=r"different values \(Brightness\)"):
        exact_steps(before_floats(v2.ColorJitter(hue=0.1)), "RGB")


@pytest.mark.usefixtures("forgotten_arithmetic")
def test_a_pillow_that_rounds_sums_of_products_once_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # As compiled for processors with a fused instruction; few values differ.
    def fused(self: Any, factor: float) -> Image.Image:
        before, after = (np.asarray(image).astype(float) for image in (self.degenerate, self.image))
        blended = (before + float(np.float32(factor)) * (after - before)).astype(np.float32)
        return Image.fromarray(blended.clip(0, 255).astype(np.uint8))

    monkeypatch.setattr(ImageEnhance.Contrast, "enhance", fused, raising=False)
    with pytest.raises(NotRecognizedError, match="different values"):
        check_arithmetic(("Saturation",), "v1")
    check_arithmetic(("Autocontrast",), "v1")


@pytest.mark.parametrize("weights", [ResNet50_Weights.DEFAULT, EfficientNet_B0_Weights.DEFAULT])
def test_a_preset_of_weights_is_recognized(weights: Any) -> None:
    dataset = made("CIFAR10", weights.transforms(), size=6)
    ours = sluicegate.DataLoader(dataset, batch_size=4)
    assert ours.explain().engine == "rust"
    assert_same(list(ours), list(torch.utils.data.DataLoader(dataset, batch_size=4)))


def test_a_function_that_was_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = made("CIFAR10", before_floats(v2.ColorJitter(hue=0.1)))
    loader = sluicegate.DataLoader(dataset)
    assert loader.explain().engine == "rust"
    monkeypatch.setattr("torchvision.transforms.v2.functional.adjust_hue", lambda image, hue_factor: image)
    assert "adjust_hue was replaced" in str(loader.explain())


def test_a_rotation_that_changes_the_size_is_recognized() -> None:
    for kind in (v1, v2):
        for mode in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
            turn = kind.RandomRotation(170, mode, expand=True, fill=9)
            # Later draws depend on the size.
            steps = [turn, kind.RandomAffine(10, (0.3, 0.3)), kind.CenterCrop(12)]
            dataset = made("CIFAR10", before_floats(*steps))
            assert sluicegate.DataLoader(dataset).explain().engine == "rust"
            seen = []
            for loader in (sluicegate.DataLoader, torch.utils.data.DataLoader):
                torch.manual_seed(3)
                seen.append([*loader(dataset, batch_size=8), torch.get_rng_state()])
            assert_same(*seen)
