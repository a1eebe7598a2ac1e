"""Every transform, called with Pillow images, tensors, and arrays, gives torchvision's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import sluicegate.transforms as ours
from cases.transforms import CASES, IGNORED_WARNINGS, IMAGES, WARPS, Made, assert_close, drawn, tensor
from checks.equality import assert_same

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

pytestmark = IGNORED_WARNINGS

EVERY = pytest.mark.parametrize(
    ("name", "made"), [(case[0], case[2]) for case in CASES], ids=[case[1] for case in CASES]
)


def floats(image: Image.Image) -> torch.Tensor:
    made: torch.Tensor = v2.functional.to_dtype(v2.functional.pil_to_tensor(image), torch.float32, scale=True)
    return made


def as_arrays(value: Any) -> Any:
    return tuple(map(as_arrays, value)) if isinstance(value, tuple) else value.permute(1, 2, 0).numpy()


@EVERY
def test_called_with_an_image_of_pillows(name: str, made: Made) -> None:
    for seed, image in enumerate([*IMAGES, IMAGES[0].convert("L"), IMAGES[1].convert("RGBA"), IMAGES[0].convert("1")]):
        before = image.copy()
        (found, state), (expected, after) = (drawn(seed, made(module), image) for module in (ours, v2))
        assert_close(found, expected, levels=0.0)
        assert torch.equal(state, after)
        assert image == before


@EVERY
@pytest.mark.parametrize("kind", ["tensor", "float", "Image", "Video", "gray"])
def test_called_with_a_tensor(name: str, made: Made, kind: str) -> None:
    for seed, photo in enumerate(IMAGES):
        image = floats(photo) if kind == "float" else v2.functional.pil_to_tensor(photo)
        if kind == "Image":
            image = tv_tensors.Image(image)
        elif kind == "Video":
            image = tv_tensors.Video(torch.stack([image, image.flip(-1)]))
        elif kind == "gray":
            image = image[:1]
        (found, state), (expected, after) = (drawn(seed, made(module), image) for module in (ours, v2))
        if name == "RandomEqualize" and kind == "float":
            # If a value is between two levels, torch's last bit decides.
            assert (found - expected).abs().max() <= 1 / 255 + 1e-4
            continue
        assert_close(found, expected, name in WARPS, levels=1.0)
        assert torch.equal(state, after)


RESIZING = ("RandomResize", "RandomResizedCrop", "RandomShortestSize", "Resize", "ScaleJitter")
SUMMED = (
    *("AugMix", "AutoAugment", "ColorJitter", "GaussianBlur", "RandAugment", "RandomAdjustSharpness"),
    *("RandomPhotometricDistort", "TrivialAugmentWide"),
)


@EVERY
def test_floats_differ_at_most_as_documented(name: str, made: Made) -> None:
    bound = 2e-5 if name in RESIZING else 1e-6 if name in SUMMED else 0.0
    docs = str(getattr(ours, name).__doc__)
    assert ("by up to 2e-5" in docs, "by up to 1e-6" in docs) == (bound == 2e-5, bound == 1e-6)
    if name in ("RandomEqualize", "ToPILImage"):
        return
    for seed in range(8):
        image = floats(IMAGES[seed % 4]).contiguous()
        found, expected = (drawn(seed, made(module), image)[0] for module in (ours, v2))
        found, expected = (each if isinstance(each, tuple) else (each,) for each in (found, expected))
        for one, other in zip(found, expected, strict=True):
            if isinstance(other, type):
                assert issubclass(one, (TypeError, ValueError, RuntimeError))
            else:
                torch.testing.assert_close(tensor(one), tensor(other), rtol=0, atol=bound)


@EVERY
def test_called_with_an_array(name: str, made: Made) -> None:
    array = np.array(IMAGES[0])
    if name in ("ToImage", "ToTensor", "ToPILImage"):
        for each in (array, array[:, :, 0], array.astype(np.float32) / 255, array[:, :, 0].astype(np.int32)):
            assert_close(drawn(0, made(ours), each)[0], drawn(0, made(v2), each)[0], levels=0.0)
    elif name in ("ToPureTensor", "PILToTensor", "ToDtype", "ConvertImageDtype"):
        # Conversions leave arrays as they are, as torchvision's do.
        assert all(np.array_equal(drawn(0, made(each), array)[0], array) for each in (ours, v2))
    elif name == "Normalize":
        assert drawn(0, made(ours), array)[0] is TypeError  # as for a tensor of bytes
    else:
        # Torchvision ignores arrays; here they are images, like tensors.
        (found, _), (expected, _) = (drawn(3, made(ours), each) for each in (array, tensor(IMAGES[0]).contiguous()))
        if name in ("Identity", "ClampBoundingBoxes", "ConvertBoundingBoxFormat"):
            assert np.array_equal(found, array)
        else:
            assert_same(found, as_arrays(expected))


@EVERY
def test_called_with_masks_and_boxes(name: str, made: Made) -> None:
    photo = tv_tensors.Image(v2.functional.pil_to_tensor(IMAGES[2]))
    size = tuple(photo.shape[-2:])
    sample = {
        "image": photo,
        "mask": tv_tensors.Mask((photo[:1] > 90).to(torch.uint8)),
        "boxes": tv_tensors.BoundingBoxes([[1.0, 2.0, 30.0, 40.0]], format="XYXY", canvas_size=size),
        "label": 7,
    }
    (found, state), (expected, after) = (drawn(1, made(module), sample) for module in (ours, v2))
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        for key in ("image", "mask"):
            assert_close(found[key], expected[key], name in WARPS)
        assert_close(found["boxes"] if isinstance(found["boxes"], torch.Tensor) else 0, expected["boxes"], levels=0.1)
        assert found["boxes"].dtype == expected["boxes"].dtype
        assert found["label"] == 7
        assert torch.equal(state, after)


def test_data_types_of_pillows_and_back() -> None:
    sixteen = Image.fromarray(np.arange(0, 60_000, 5_000, dtype=np.uint16).reshape(3, 4))
    whole = Image.fromarray(np.arange(12, dtype=np.int32).reshape(3, 4))
    for image in (sixteen, whole, Image.fromarray(np.ones((3, 4), np.float32)), IMAGES[0].convert("CMYK")):
        for name in ("ToTensor", "ToImage", "PILToTensor"):
            assert_close(getattr(ours, name)()(image), getattr(v2, name)()(image), levels=0.0)
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64, torch.float16):
        for channels in (1, 2, 3, 4, 5):
            for mode in (None, "L", "F", "RGB", "HSV", "CMYK", "I;16"):
                values = (torch.rand(channels, 3, 4, generator=torch.Generator().manual_seed(1)) * 200).to(dtype)
                values = values / 255 if dtype.is_floating_point else values
                if dtype != torch.uint8 and not dtype.is_floating_point and channels > 1:
                    # Torchvision takes a bytes object as a list of colors.
                    with pytest.raises((TypeError, ValueError)):
                        ours.ToPILImage(mode)(values)
                    continue
                (found, _), (expected, _) = (drawn(0, module.ToPILImage(mode), values) for module in (ours, v2))
                assert isinstance(found, type) == isinstance(expected, type), (dtype, channels, mode)
                if not isinstance(expected, type):
                    assert_close(found, expected, levels=0.0)


def test_torchs_default_data_type() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for transform in (ours.ToTensor(), ours.Compose([ours.CenterCrop(9), ours.ToTensor()])):
            assert transform(IMAGES[0]).dtype == torch.float64
        assert ours.recognize(ours.ToTensor()) is None
    finally:
        torch.set_default_dtype(torch.float32)


def test_pillow_images_draw_as_tensors_do_with_a_seed() -> None:
    from sluicegate.rng.sample import SampleSeeding

    seeding = SampleSeeding(seed=7, seed_globals=False)
    seeding.begin(epoch=0)
    made: list[Any] = []
    for module in (ours, ours):
        before = torch.get_rng_state()
        with seeding.batch():
            seeding.sample(42)
            transform = module.Compose([module.RandomResizedCrop(32), module.RandomHorizontalFlip(), module.ToTensor()])
            made.append((transform(IMAGES[0]), transform(IMAGES[0])))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(made[0][0], made[1][0])
    assert torch.equal(made[0][1], made[1][1])
    assert not torch.equal(made[0][0], made[0][1])
    with seeding.batch():
        seeding.sample(42)
        # It draws as for a tensor.
        image = ours.Compose([ours.ToImage(), ours.RandomResizedCrop(32), ours.RandomHorizontalFlip()])(IMAGES[0])
    assert (made[0][0] * 255 - image).abs().max() < 2.1
