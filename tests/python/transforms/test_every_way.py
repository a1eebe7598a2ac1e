"""Every transform in a dataset of images gives torchvision's results, run by the core wholly, in part, or not."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import sluicegate.transforms as ours
from cases.transforms import (
    CASES,
    IGNORED_WARNINGS,
    IMAGES,
    MEAN,
    STD,
    WARPS,
    Made,
    assert_close,
    drawn,
    random_pipeline,
    tensor,
)
from checks.equality import assert_same
from doubles.photographs import InPython
from doubles.unknown_transforms import unknown
from sluicegate import DataLoader, ImageField, ImageFolderDataset

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
torchvision_datasets = pytest.importorskip("torchvision.datasets")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

pytestmark = IGNORED_WARNINGS

EVERY = pytest.mark.parametrize(
    ("name", "made"), [(case[0], case[2]) for case in CASES], ids=[case[1] for case in CASES]
)
# torchvision's versions of these take only floats.
ON_FLOATS = ("Normalize",)
NOT_NATIVE = ("RandomChoice", "ToPILImage", "FiveCrop", "TenCrop")


def of_dataset(module: Any, made: Made, name: str) -> tuple[list[Any], Any]:
    """Return the transforms of a dataset's pipeline, and torchvision's transform for comparison."""
    before = [module.ToDtype(torch.float32, scale=True)] if name in ON_FLOATS else []
    reference = v2.Compose([*([v2.ToDtype(torch.float32, scale=True)] if before else []), made(v2)])
    return [*before, made(module)], reference


@EVERY
@pytest.mark.parametrize("origin", ["ours", "v2"])
@pytest.mark.parametrize("where", ["whole", "after", "before", "both"])
def test_every_transform_in_a_dataset_equals_torchvisions(
    root: Path, name: str, made: Made, origin: str, where: str
) -> None:
    module = ours if origin == "ours" else v2
    steps, reference = of_dataset(module, made, name)
    steps = (
        ([unknown] if where in ("before", "both") else []) + steps + ([unknown] if where in ("after", "both") else [])
    )
    dataset = ImageFolderDataset(root, module.Compose(steps), exact=True)
    reason = dataset.python_reason
    if where == "whole" and name not in NOT_NATIVE:
        assert reason is None or "any size" in reason
    else:
        assert reason is not None
        if "any size" not in reason:
            assert reason in repr(dataset)
    for number, photo in enumerate(IMAGES):
        # Noise is drawn in memory order: datasets have (channels, height, width).
        image = photo if name == "ToTensor" else v2.functional.pil_to_tensor(photo).contiguous()
        (found, state), (expected, after) = (
            drawn(number, lambda at: dataset[at][0], number),
            drawn(number, reference, image),
        )
        assert_close(found, plain(expected), name in WARPS, deviation=0.2 if name in ON_FLOATS else 1.0)
        assert torch.equal(state, after)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.as_subclass(torch.Tensor) if isinstance(value, tv_tensors.Image) else value


@EVERY
def test_every_transform_in_a_seeded_loader_draws_the_same(root: Path, name: str, made: Made) -> None:
    def batches(kind: type[ImageFolderDataset], steps: list[Any], **options: Any) -> list[Any]:
        dataset = kind(root, ours.Compose(steps), exact=True)
        collate = {} if name != "ToPILImage" else {"collate_fn": list}
        return [each[0] for each in DataLoader(dataset, batch_size=1, seed=7, **collate, **options)]

    def close(found: list[Any], expected: list[Any]) -> None:
        for one, other in zip(found, expected, strict=True):
            if name == "ToPILImage":
                one, other = one[0], other[0]
            if isinstance(other, list):
                one, other = tuple(one), tuple(other)
            assert_close(one, other, name in WARPS, deviation=0.2 if name in ON_FLOATS else 1.0)

    steps, _ = of_dataset(ours, made, name)
    expected = batches(ImageFolderDataset, steps)
    close(batches(InPython, steps), expected)
    close(batches(ImageFolderDataset, [*steps, unknown]), expected)
    close(batches(ImageFolderDataset, [unknown, *steps]), expected)
    theirs, _ = of_dataset(v2, made, name)
    close(batches(ImageFolderDataset, [unknown, *theirs]), expected)
    close(batches(ImageFolderDataset, [unknown, *theirs], num_workers=2, worker_type="thread"), expected)


V1 = [case for case in CASES if hasattr(v1, case[0]) and case[0] != "ToPILImage"]


@pytest.mark.parametrize(("name", "made"), [(case[0], case[2]) for case in V1], ids=[case[1] for case in V1])
@pytest.mark.parametrize(
    ("where", "mode"), [("whole", "RGB"), ("after", "RGB"), ("before", "RGB"), ("whole", "L"), ("whole", "RGBA")]
)
def test_every_v1_transform_in_a_dataset_equals_torchvisions(
    root: Path, name: str, made: Made, where: str, mode: Any
) -> None:
    if name in ("ToTensor", "PILToTensor"):
        steps = [made(v1)]
    elif name in ("Normalize", "RandomErasing", "ConvertImageDtype"):
        steps = [v1.ToTensor(), made(v1)]
    else:
        steps = [made(v1), v1.PILToTensor()]
    reference = v1.Compose(steps)
    steps = ([unknown] if where == "before" else []) + steps + ([unknown] if where == "after" else [])
    dataset = ImageFolderDataset(root, v1.Compose(steps), exact=True, mode=mode)
    for number, photo in enumerate(IMAGES):
        random.seed(number)
        expected, after = drawn(number, reference, photo.convert(mode))
        random.seed(number)
        found, state = drawn(number, lambda at: dataset[at][0], number)
        if isinstance(expected, type):
            assert isinstance(found, type), (name, mode, expected, type(found))
            continue
        assert_close(found, expected, levels=2.0, deviation=0.2 if name == "Normalize" else 1.0)
        assert torch.equal(state, after)


@pytest.mark.parametrize("module", [ours, v1, v2])
def test_floats_of_bytes_are_torchvisions_to_the_last_bit(root: Path, module: Any) -> None:
    expected = v1.ToTensor()(IMAGES[0])
    for steps in (
        [module.ToTensor()],
        [unknown, module.ToTensor()],
        [module.ToTensor(), unknown],
        [module.RandomHorizontalFlip(0.0), unknown, module.RandomApply([unknown]), module.ToTensor(), unknown],
    ):
        assert_same(ImageFolderDataset(root, module.Compose(steps))[0][0], expected)
        assert_same(ours.Compose(steps)(IMAGES[0]), expected)
    nested = v2.RandomChoice([v2.Compose([unknown, v2.ToTensor()])])
    assert_same(ImageFolderDataset(root, v2.Compose([v2.CenterCrop((60, 50)), nested]))[0][0], expected)


def test_existing_scripts_are_recognized(root: Path) -> None:
    train = v1.Compose(
        [
            v1.RandomResizedCrop(24),
            v1.RandomHorizontalFlip(),
            v1.RandomApply([v1.ColorJitter(0.4, 0.4, 0.4)], p=0.8),
            v1.RandomGrayscale(0.2),
            v1.ToTensor(),
            v1.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            v1.RandomErasing(),
        ]
    )
    dataset = ImageFolderDataset(root, train)
    assert dataset.is_native
    assert dataset.python_reason is None
    assert "decoded and transformed in Rust" in repr(dataset)
    dataset.transform = v1.Compose([v1.Resize(40), v1.CenterCrop(32), v1.ColorJitter(hue=0.1), v1.ToTensor()])
    assert dataset.python_reason == "transform 3, `ColorJitter`: Pillow's hues differ"
    assert dataset.python_reason in repr(dataset)
    assert dataset[0][0].dtype == torch.float32
    dataset.transform = None
    assert "of 1 classes, decoded in Rust, batches made in Python: images may have any size" in repr(dataset)


def test_called_transforms_get_the_types_that_torchvision_passes(root: Path) -> None:
    seen: list[Any] = []

    def see(image: Any) -> Any:
        seen.append(image)
        return image

    for steps in (
        v1.Compose([v1.CenterCrop(9), see, v1.ToTensor(), see]),
        v2.Compose([v2.CenterCrop(9), see, v2.ToTensor(), see]),
        v1.Compose([v1.CenterCrop(9), v1.PILToTensor(), see]),
        see,
    ):
        ImageFolderDataset(root, steps)[0]
    assert [type(each) for each in seen] == [Image.Image, *[torch.Tensor] * 5]
    assert [getattr(each, "dtype", None) for each in seen[1:]] == [
        torch.float32,
        torch.uint8,
        torch.float32,
        torch.uint8,
        torch.uint8,
    ]


def test_the_reason_for_python_names_the_transform() -> None:
    class Own(v2.RandomHorizontalFlip):
        pass

    hooked = v2.CenterCrop(3)
    hooked.register_forward_hook(lambda *_: None)
    for transform, reason in (
        (unknown, "`unknown`: not recognized"),
        (v2.Lambda(unknown), "`Lambda`: not recognized"),
        (v2.Compose([v2.CenterCrop(3), v2.Compose([v2.RGB(), unknown])]), "transform 2.2, `unknown`: not recognized"),
        (v2.Compose([Own()]), "transform 1, `.*Own`: a subclass of `RandomHorizontalFlip`"),
        (v2.Compose([v2.RGB(), hooked]), "transform 2, `CenterCrop`: it has hooks, or its `forward` was replaced"),
        (v2.Compose([v2.RandomAffine(3, interpolation=3)]), "transform 1, `RandomAffine`: interpolation: expected"),
        (v2.RandomChoice([v2.RGB()]), "`RandomChoice`: it runs only in Python"),
        (v1.RandAugment(), "`RandAugment`: torchvision.transforms .v1. draws different values"),
        (ours.RandomCrop(3, fill={"Mask": 7}), "`RandomCrop`: it fills masks"),
        (v2.Resize(9), "any size"),
    ):
        found = ImageField(transform).python_reason
        assert found is not None
        assert re.search(reason, found), found
    assert ImageField(v2.CenterCrop(3)).python_reason is None


NAMES = [
    *("AugMix", "CenterCrop", "ColorJitter", "GaussianBlur", "GaussianNoise", "Grayscale", "Identity", "JPEG", "Pad"),
    *("RGB", "RandomAdjustSharpness", "RandomApply", "RandomAutocontrast", "RandomChannelPermutation", "RandomChoice"),
    *("RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomResize"),
    *("RandomPhotometricDistort", "RandomResizedCrop", "RandomShortestSize", "RandomVerticalFlip", "Resize"),
    *("ScaleJitter", "ToImage", "ToPureTensor"),
]


def test_random_pipelines(root: Path) -> None:
    """Set `SLUICEGATE_PIPELINES=5000` to try that many."""
    generator = random.Random(int(os.environ.get("SLUICEGATE_PIPELINES_SEED", "3")))
    for _ in range(int(os.environ.get("SLUICEGATE_PIPELINES", "40"))):
        steps = random_pipeline(generator, NAMES)
        module = generator.choice([ours, v2])
        made = [each(module) for each in steps]
        place, end = generator.randrange(len(made) + 1), generator.choice([[], [module.ToTensor()]])
        whole = ImageFolderDataset(root, module.Compose([*made, *end]), exact=True)
        parts = ImageFolderDataset(root, module.Compose([*made[:place], unknown, *made[place:], *end]), exact=True)
        for number, photo in enumerate(IMAGES[:2]):
            seed = generator.randrange(1 << 30)
            reference = v2.Compose([*[each(v2) for each in steps]])
            expected, after = drawn(seed, reference, v2.functional.pil_to_tensor(photo).contiguous())
            for dataset in (whole, parts):
                found, state = drawn(seed, lambda at, dataset=dataset: dataset[at][0], number)
                said = f"seed {seed}: {dataset.transform}"
                if isinstance(expected, type):
                    assert isinstance(found, type), said
                    continue
                assert torch.equal(state, after), said
                wanted = tensor(expected)
                assert found.dtype == (torch.float32 if end else torch.uint8), said
                assert found.shape == wanted.shape, said
                levels = found.double() * (255 if end else 1)
                # A difference of one gray level after one step may grow in the next ones.
                assert (levels - wanted.double()).abs().mean() < 1.5, said


@pytest.mark.parametrize("is_gray", [False, True])
@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("of_tensors", [False, True])
def test_the_first_version_makes_as_many_gray_channels_as_a_tensor_has(
    root: Path, is_gray: bool, is_applied: bool, of_tensors: bool
) -> None:
    gray: Any = v1.RandomApply([v1.Grayscale(3)], p=1.0) if is_applied else v1.Grayscale(3)
    steps = v1.Compose(
        [
            v1.RandomCrop(40),
            *([v1.Grayscale(1)] if is_gray else []),
            *([v1.ToTensor(), gray] if of_tensors else [gray, v1.ToTensor()]),
        ]
    )
    dataset = ImageFolderDataset(root, steps, exact=True)
    wanted = drawn(3, torchvision_datasets.ImageFolder(str(root), steps).__getitem__, 0)[0][0]
    found = drawn(3, dataset.__getitem__, 0)[0][0]
    assert found.shape == wanted.shape == (1 if is_gray and of_tensors else 3, 40, 40)
    assert (found - wanted).abs().max() < 2 / 255
    assert ("as many channels" in str(dataset.python_reason)) == of_tensors


@pytest.mark.parametrize("module", [v1, v2])
@pytest.mark.parametrize("means", [1, 3])
@pytest.mark.parametrize("where", ["mode", "transform", "both"])
def test_several_means_of_a_gray_image(root: Path, module: Any, means: int, where: str) -> None:
    steps = module.Compose(
        [
            module.CenterCrop(20),
            *([module.Grayscale(1)] if where != "mode" else []),
            module.ToTensor(),
            module.Normalize(MEAN[:means], STD[:means]),
        ]
    )
    mode: Any = "RGB" if where == "transform" else "L"
    expected = drawn(0, steps, IMAGES[0].convert(mode))[0]
    dataset = ImageFolderDataset(root, steps, mode=mode, exact=True)
    found = drawn(0, dataset.__getitem__, 0)[0]
    # The first version refuses them; the second makes a channel for each.
    assert (expected is RuntimeError) == (module is v1 and means > 1)
    assert_close(found if expected is RuntimeError else found[0], expected, deviation=0.2)
    assert ("one mean for a gray image" in str(dataset.python_reason)) == (expected is RuntimeError)


NAMES_OF_V1 = [
    *("AutoAugment", "CenterCrop", "ColorJitter", "GaussianBlur", "Grayscale", "Pad", "RandAugment", "RandomAffine"),
    *("RandomAdjustSharpness", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize"),
    *("RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPosterize", "RandomResizedCrop"),
    *("RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize", "TrivialAugmentWide"),
]


def check_called(root: Path, head: list[Any], tail: list[Any], number: int, seed: int, expected: Any) -> Any:
    """Return the output of `head` in Rust as floats, after asserting that `tail` turns it into `expected`."""
    random.seed(seed)
    torch.manual_seed(seed)
    made = ImageFolderDataset(root, v1.Compose(head) if head else None, exact=True)[number][0]
    for_tail = made if made.is_floating_point() else v1.functional.to_pil_image(made)
    assert_same(v1.Compose(tail)(for_tail), expected)
    return made if made.is_floating_point() else made / 255


def head_of(root: Path, head: list[Any], number: int, seed: int) -> Any:
    """Return the output of `head` with torchvision."""
    random.seed(seed)
    torch.manual_seed(seed)
    made = v1.Compose(head)(torchvision_datasets.ImageFolder(str(root))[number][0])
    return made if isinstance(made, torch.Tensor) else v1.functional.to_tensor(made)


def test_random_pipelines_of_torchvisions_first_version(root: Path) -> None:
    """Compared with torchvision's `ImageFolder`. Set `SLUICEGATE_PIPELINES=5000` to try that many."""
    generator = random.Random(int(os.environ.get("SLUICEGATE_PIPELINES_SEED", "3")))
    in_part = whole = 0
    for _ in range(int(os.environ.get("SLUICEGATE_PIPELINES", "40"))):
        made = [each(v1) for each in random_pipeline(generator, NAMES_OF_V1)]
        if generator.random() < 0.3:
            made.insert(generator.randrange(len(made) + 1), v1.Lambda(unknown))
        place = len(made) if generator.random() < 0.6 else generator.randrange(len(made) + 1)
        steps = v1.Compose([*made[:place], v1.ToTensor(), *made[place:]])
        expected = torchvision_datasets.ImageFolder(str(root), steps)
        dataset = ImageFolderDataset(root, steps, exact=True)
        reason = dataset.python_reason
        in_part += reason is not None and "any size" not in reason
        whole += reason is None or "any size" in reason
        for number in range(2):
            seed = generator.randrange(1 << 30)
            random.seed(seed)
            wanted, after = drawn(seed, lambda at, expected=expected: expected[at][0], number)
            random.seed(seed)
            found, state = drawn(seed, lambda at, dataset=dataset: dataset[at][0], number)
            said = f"seed {seed}, image {number}: {steps}"
            if isinstance(wanted, type):
                # Some take only bytes, or a fill only for Pillow images: ours may take more.
                continue
            assert torch.equal(state, after), said
            assert (type(found), found.dtype, found.shape) == (type(wanted), wanted.dtype, wanted.shape), said
            if (called := re.match(r"transform (\d+)", str(reason))) is not None:
                # A difference of one level in Rust may grow in called transforms, so these are compared on Rust's
                # output alone.
                head, tail = steps.transforms[: int(called[1]) - 1], steps.transforms[int(called[1]) - 1 :]
                found, wanted = check_called(root, head, tail, number, seed, found), head_of(root, head, number, seed)
            # A difference of one level may grow in these. Equalizing is the worst: it divides by a whole number of
            # pixels, three or four in a small image, and one pixel more changes all levels by a quarter.
            is_equalized = "Equalize" in said or "Augment" in said
            is_sharp = any(each in said for each in ("Posterize", "Solarize", "Autocontrast"))
            assert (found - wanted).abs().mean() < (40 if is_equalized else 20 if is_sharp else 3) / 255, said
    assert in_part
    assert whole
