"""Transforms with random arguments, in every way of running them: values, draws, boxes, and masks are torchvision's.

`SLUICEGATE_TRANSFORM_TRIALS` sets how many arguments are drawn for each test.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate.transforms as ours
from checks.equality import assert_same
from doubles.photographs import InPython, encoded, photograph
from sluicegate import DataLoader, ImageField, ImageFolderDataset, decode_image
from sluicegate.loader.native_iterator import NativeIterator
from sluicegate.rng.sample import sample_rng

tv_tensors = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

# A warning of torchvision's functions for `JPEG`.
pytestmark = pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities")

TRIALS = int(os.environ.get("SLUICEGATE_TRANSFORM_TRIALS", "4"))
Arguments = dict[str, Any]
Choice = Callable[[random.Random], Arguments]


def resampling(random: random.Random) -> Arguments:
    # Without antialiasing, a bicubic `Resize` differs by up to two gray levels.
    bicubic = [("bicubic", True), (3, True)]
    linear = [(name, on) for name in ("bilinear", v2.InterpolationMode.BILINEAR) for on in (True, False, None)]
    interpolation, antialias = random.choice([*bicubic, *linear, ("nearest", True), ("nearest-exact", None)])
    return {"interpolation": interpolation, "antialias": antialias}


def random_resize(random: random.Random) -> Arguments:
    least = random.randrange(8, 60)
    return {"min_size": least, "max_size": least + random.choice([1, 2, 50]), **resampling(random)}


def random_shortest_size(random: random.Random) -> Arguments:
    sizes = random.choice([random.randrange(9, 70), [random.randrange(9, 70) for _ in range(3)]])
    return {"min_size": sizes, "max_size": random.choice([None, 30, 60, 90]), **resampling(random)}


def scale_jitter(random: random.Random) -> Arguments:
    least = random.uniform(0.3, 1)
    scales = {"target_size": (random.randrange(20, 90), random.randrange(20, 90)), "scale_range": (least, 2 * least)}
    return {**scales, **resampling(random)} if random.random() < 0.8 else {"target_size": (200, 190)}


def random_perspective(random: random.Random) -> Arguments:
    fill = random.choice([0, 100, None, (1, 2, 3), {"others": 3}])
    scale = random.choice([0.0, 0.2, 0.5, 1.0])
    interpolation = random.choice(["nearest", "bilinear", v2.InterpolationMode.NEAREST])
    return {"distortion_scale": scale, "p": random.choice([0.5, 1.0]), "interpolation": interpolation, "fill": fill}


def jpeg(random: random.Random) -> Arguments:
    least = random.randrange(1, 101)
    return {"quality": random.choice([least, (least, random.randrange(least, 101))])}


def gaussian_noise(random: random.Random) -> Arguments:
    clip = random.random() < 0.7
    return {"mean": random.choice([0.0, 0.2, -0.1]), "sigma": random.choice([0.0, 0.1, 0.6]), "clip": clip}


def aug_mix(random: random.Random) -> Arguments:
    arguments = {"severity": random.randrange(1, 11), "chain_depth": random.choice([-1, 1, 4])}
    arguments |= {"mixture_width": random.randrange(1, 5), "alpha": random.choice([0.3, 1.0, 2.5])}
    interpolation, fill = random.choice(["nearest", "bilinear"]), random.choice([None, 0, 99])
    return {**arguments, "all_ops": random.random() < 0.7, "interpolation": interpolation, "fill": fill}


CHOICES: dict[str, Choice] = {
    "AugMix": aug_mix,
    "GaussianNoise": gaussian_noise,
    "JPEG": jpeg,
    "RandomPerspective": random_perspective,
    "RandomResize": random_resize,
    "RandomShortestSize": random_shortest_size,
    "ScaleJitter": scale_jitter,
}
# The documented difference of floats from torchvision's.
ROUNDED = {"AugMix": 1e-6, "RandomResize": 2e-5, "RandomShortestSize": 2e-5, "ScaleJitter": 2e-5}
# In these, values halfway between two pixels depend on the last bit of torch's matrix product; `match_products` detects
# how it rounds, but a library may round in a third way.
WARPS = ("RandomPerspective",)


def drawn(name: str, module_seed: int) -> list[tuple[Any, Any]]:
    """Return pairs of our transform and torchvision's, with random arguments."""
    generator = random.Random(f"{name} {module_seed}")
    arguments = [CHOICES[name](generator) for _ in range(TRIALS)]
    return [(getattr(ours, name)(**each), getattr(v2, name)(**each)) for each in arguments]


def images() -> list[torch.Tensor]:
    sizes = [(64, 48), (31, 57), (40, 40)]
    return [decode_image(encoded(photograph(number, *size), "png")) for number, size in enumerate(sizes)]


def call(transform: Any, seed: int, *sample: Any) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(seed)
    return transform(*sample), torch.get_rng_state()


def assert_image(name: str, found: torch.Tensor, expected: torch.Tensor, what: Any) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    if name in ROUNDED and found.is_floating_point():
        torch.testing.assert_close(found, expected.as_subclass(torch.Tensor), atol=ROUNDED[name], rtol=0)
    elif name in WARPS:
        difference = (found.double() - expected.double()).abs()
        assert (difference > 1e-3).float().mean() < 1e-4, what
    else:
        assert torch.equal(found, expected.as_subclass(torch.Tensor)), what


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_called_on_tensors(name: str, dtype: torch.dtype) -> None:
    for seed, (own, other) in enumerate(drawn(name, 1)):
        for image in images():
            image = v2.functional.to_dtype(image, dtype, scale=True)
            if name == "JPEG" and dtype == torch.float32:
                for transform in (own, other):
                    with pytest.raises((ValueError, RuntimeError)):
                        transform(image)
                continue
            for view in (
                image,
                image[:1],
                image.permute(1, 2, 0).contiguous().permute(2, 0, 1),
                image.repeat(2, 1, 1, 1),
            ):
                if isinstance(getattr(own, "fill", None), tuple) and view.shape[-3] != 3:
                    continue
                if name == "AugMix" and view.ndim > 3:
                    # torchvision draws different weights for each image.
                    with pytest.raises(TypeError, match="stack"):
                        own(view)
                    continue
                (found, place), (expected, expected_place) = (call(each, seed, view) for each in (own, other))
                assert_image(name, found, expected, (own, view.shape))
                assert torch.equal(place, expected_place), own


@pytest.mark.filterwarnings("ignore:Anti-alias option is always applied for PIL")
@pytest.mark.parametrize("name", CHOICES)
def test_called_on_arrays_and_images_of_pillow(name: str) -> None:
    for seed, (own, other) in enumerate(drawn(name, 2)):
        for number in range(2):
            image = photograph(number, 50, 40)
            array = np.array(image)
            tensor = torch.from_numpy(array).permute(2, 0, 1).contiguous()
            expected, place = call(own, seed, tensor)
            if name == "GaussianNoise":
                for each in (own, other):
                    with pytest.raises(ValueError, match="not implemented for PIL"):
                        each(image)
                place_of_pillow = place
            else:
                (found, place_of_pillow), (theirs, _) = (call(each, seed, image) for each in (own, other))
                assert np.array_equal(np.array(found), np.array(theirs)), own
            of_array, place_of_array = call(own, seed, array)
            assert isinstance(of_array, np.ndarray)
            assert torch.equal(torch.from_numpy(of_array).permute(2, 0, 1), expected), own
            assert torch.equal(place, place_of_pillow)
            assert torch.equal(place, place_of_array)


@pytest.mark.parametrize("name", CHOICES)
def test_transforms_with_random_arguments_between_others_equal_torchvisions(name: str) -> None:
    for seed, (own, other) in enumerate(drawn(name, 3)):
        for image in images():

            def pipeline(module: Any, transform: Any) -> Any:
                apply = module.RandomApply([transform], p=0.7)
                return module.Compose([module.RandomHorizontalFlip(), apply, module.RandomCrop(20, pad_if_needed=True)])

            (found, place), (expected, expected_place) = (
                call(pipeline(module, each), seed, image) for module, each in ((ours, own), (v2, other))
            )
            assert_image(name, found, expected, own)
            assert torch.equal(place, expected_place), own


def sample_of(image: torch.Tensor, dtype: torch.dtype, form: str, generator: torch.Generator) -> dict[str, Any]:
    height, width = size = tuple(image.shape[-2:])
    start = torch.rand(5, 2, generator=generator) * torch.tensor([width, height]) * 0.6
    corners = torch.cat([start, start + torch.rand(5, 2, generator=generator) * 20 + 1], 1).to(dtype)
    boxes = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=size)
    mask = torch.randint(0, 9, size, generator=generator)
    return {
        "image": tv_tensors.Image(image),
        "boxes": v2.functional.convert_bounding_box_format(boxes, new_format=form),
        "masks": [tv_tensors.Mask(mask), tv_tensors.Mask((mask > 4).repeat(2, 1, 1)), tv_tensors.Mask(mask.byte())],
        "label": 7,
    }


@pytest.mark.parametrize("name", CHOICES)
def test_boxes_and_masks_move_along(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    for seed, (own, other) in enumerate(drawn(name, 4)):
        if isinstance(getattr(own, "fill", None), tuple):
            # Masks have no colors.
            continue
        for image in images():
            for dtype, form in ((torch.float32, "XYXY"), (torch.float32, "CXCYWH"), (torch.int64, "XYWH")):
                sample = sample_of(image, dtype, form, generator)
                if name == "AugMix":
                    for transform in (own, other):
                        with pytest.raises(TypeError):
                            transform(sample)
                    continue
                (found, place), (expected, expected_place) = (call(each, seed, sample) for each in (own, other))
                assert torch.equal(place, expected_place), own
                assert_image(name, found["image"], expected["image"], own)
                assert found["label"] == 7
                boxes, as_expected = found["boxes"], expected["boxes"]
                assert (boxes.format, boxes.canvas_size) == (as_expected.format, tuple(as_expected.canvas_size))
                assert boxes.dtype == dtype
                near = 1e-3 if dtype.is_floating_point else 1
                torch.testing.assert_close(boxes, as_expected, atol=near, rtol=1e-5, msg=repr(own))
                for mask, expected_mask in zip(found["masks"], expected["masks"], strict=True):
                    assert type(mask) is tv_tensors.Mask
                    assert (mask.dtype, mask.shape) == (expected_mask.dtype, expected_mask.shape)
                    different = (mask != expected_mask).float().mean()
                    assert different <= (2e-3 if name in WARPS else 0), own


@pytest.mark.parametrize("name", CHOICES)
def test_transforms_with_random_arguments_fused_with_decoding_equal_torchvisions(name: str) -> None:
    for seed, (own, other) in enumerate(drawn(name, 5)):
        assert ours.recognize(other) == ours.recognize(own)
        for number, format in ((1, "png"), (2, "jpeg")):
            file = encoded(photograph(number, 60, 44), format)
            for transform in (own, other):
                field = ImageField(v2.Compose([transform, v2.ToDtype(torch.float32, scale=True)]), exact=True)
                assert not field.is_called
                found, place = call(field.decode, seed, file)
                bytes_, expected_place = call(other, seed, decode_image(file))
                assert_image("" if name in ROUNDED else name, found, v2.functional.to_dtype(bytes_, scale=True), own)
                assert torch.equal(place, expected_place), own


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "class"
    folder.mkdir()
    for number in range(10):
        image = photograph(number, 50 + 7 * (number % 3), 40 + 5 * (number % 4))
        (folder / f"{number}.png").write_bytes(encoded(image, "png"))
    return folder.parent


@pytest.mark.parametrize("name", CHOICES)
def test_batches_of_threads_with_a_seed(root: Path, name: str) -> None:
    def batches(dataset: Any, **options: Any) -> list[Any]:
        return list(DataLoader(dataset, batch_size=4, seed=5, shuffle=True, **options))

    for own, other in drawn(name, 6):
        pipeline = ours.Compose([own, ours.CenterCrop(32)])
        dataset = ImageFolderDataset(root, pipeline)
        assert isinstance(iter(DataLoader(dataset, seed=5)), NativeIterator)
        expected = batches(InPython(root, pipeline))
        assert_same(batches(dataset), expected)
        assert_same(batches(dataset, num_workers=2), expected)
        assert_same(batches(pickle.loads(pickle.dumps(dataset)), num_workers=1), expected)

        def torchvisions(image: torch.Tensor, other: Any = other) -> torch.Tensor:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(sample_rng().torch.get_state())
                result: torch.Tensor = v2.Compose([other, v2.CenterCrop(32)])(image)
            return result

        for (found, _), (as_expected, _) in zip(expected, batches(ImageFolderDataset(root, torchvisions)), strict=True):
            assert_image(name, found, as_expected, own)


def test_noise_follows_the_order_of_memory() -> None:
    """As with torch's: the noise of an image differs if its channels are interleaved."""
    image = images()[0]
    last = image.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    own, other = ours.GaussianNoise(), v2.GaussianNoise()
    assert not torch.equal(call(other, 0, image)[0], call(other, 0, last)[0])
    for each in (image, last, image[:, 3:9, 2:], image.transpose(1, 2)):
        assert torch.equal(call(own, 0, each)[0], call(other, 0, each)[0])


def test_noise_on_other_data_types() -> None:
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        image = images()[0].to(dtype) / 255
        assert torch.equal(call(ours.GaussianNoise(), 3, image)[0], call(v2.GaussianNoise(), 3, image)[0])
    for module in (ours, v2):
        with pytest.raises(ValueError):
            module.GaussianNoise()(images()[0].int())


@pytest.mark.parametrize(
    ("name", "arguments"), [("FiveCrop", {}), ("TenCrop", {}), ("TenCrop", {"vertical_flip": True})]
)
@pytest.mark.parametrize("size", [9, (31, 20), [12], (31, 57)])
def test_five_and_ten_crops_equal_torchvisions(name: str, arguments: Arguments, size: Any) -> None:
    image = images()[1].permute(0, 2, 1)
    own, other = getattr(ours, name)(size, **arguments), getattr(v2, name)(size, **arguments)
    for sample in (image, image.float(), image[None, :1], tv_tensors.Image(image), {"a": (image, 3)}):
        if tuple(own.size) == (31, 57):
            for transform in (own, other):
                with pytest.raises(ValueError):
                    transform(torch.zeros(3, 31, 56))
            sample = torch.zeros(3, 31, 57)
        assert_same(own(sample), other(sample))
    array = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)
    if max(own.size) < 40:
        parts, expected = own(array), other(torch.from_numpy(array).permute(2, 0, 1))
        for part, as_expected in zip(parts, expected, strict=True):
            assert isinstance(part, np.ndarray)
            assert torch.equal(torch.from_numpy(part).permute(2, 0, 1), as_expected)
    mask = tv_tensors.Mask(torch.zeros(60, 60))
    for transform in (own, other):
        with pytest.raises(TypeError):
            transform(torch.zeros(3, 60, 60), mask)


def test_a_dataset_of_several_crops(root: Path) -> None:
    stacked = ours.Compose([ours.Resize(40), ours.FiveCrop(32), torch.stack])
    images_of = [batch for batch, _ in DataLoader(ImageFolderDataset(root, stacked), batch_size=5)]
    assert [batch.shape for batch in images_of] == [(5, 5, 3, 32, 32)] * 2
    listed = next(
        iter(DataLoader(ImageFolderDataset(root, v2.Compose([v2.Resize(40), v2.FiveCrop(32)])), batch_size=5))
    )
    assert torch.equal(torch.stack(listed[0], 1), images_of[0])


def test_invalid_random_arguments_are_refused_with_a_message() -> None:
    image = images()[0]
    with pytest.raises(ValueError, match="max_size: expected more than min_size"):
        ours.RandomResize(9, 9)
    with pytest.raises(ValueError, match="min_size: expected at least one"):
        ours.RandomShortestSize([])
    with pytest.raises(ValueError, match="scale_range: expected positive"):
        ours.ScaleJitter((9, 9), (0, 1))
    with pytest.raises(ValueError, match="can't be resized"):
        ours.ScaleJitter((9, 9), (1e-3, 1e-3))(image)
    with pytest.raises(ValueError, match="quality: expected an integer"):
        ours.JPEG(0)
    with pytest.raises(ValueError, match="floats"):
        ours.JPEG(50)(image.float())
    with pytest.raises(ValueError, match="1 or 3 channels"):
        ours.JPEG(50)(image[:2])
    with pytest.raises(ValueError, match="sigma"):
        ours.GaussianNoise(sigma=-1)
    with pytest.raises(ValueError, match="perspective"):
        ours.RandomPerspective(p=1.0)(image[:, :, :1])
    with pytest.raises(ValueError, match="resize the image first"):
        ours.FiveCrop(99)(image)
