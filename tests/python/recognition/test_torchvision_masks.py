"""torchvision's datasets of images with a segmentation mask each."""

from __future__ import annotations

import functools
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset

import sluicegate
from checks import epochs
from checks.equality import assert_same

pytest.importorskip("torchvision")

from PIL import Image
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

from cases.image_folders import DAMAGES, INTERPOLATIONS, KINDS, FolderPipelines, damage, image_file
from cases.image_lists import set_transforms, setting
from sluicegate.recognition import pillow_files

SCRIPTS = int(os.environ.get("SLUICEGATE_MASK_SCRIPTS", "40"))
FIRST = int(os.environ.get("SLUICEGATE_MASK_SEED", "0"))

pytestmark = [
    pytest.mark.timeout(300 + SCRIPTS),
    pytest.mark.filterwarnings("ignore:The transform `ToTensor`"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.leaves_files_open,
]

assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=3, shuffle=True)
# Pillow's mode of the masks of each class.
MODES = {"VOCSegmentation": "P", "OxfordIIITPet": "L"}
IMAGES = v1.Compose([v1.Resize((24, 30)), v1.RandomHorizontalFlip(), v1.ColorJitter(0.4), v1.ToTensor()])
MASKS = v1.Compose([v1.Resize((24, 30), v1.InterpolationMode.NEAREST), v1.PILToTensor()])


def save_mask(path: Path, mode: str, draw: random.Random, size: tuple[int, int], **options: Any) -> None:
    """Write a mask of this height and width."""
    values = np.random.RandomState(draw.randrange(2**32)).randint(0, 21, (5, 6), dtype=np.uint8)
    mask = Image.fromarray(values).resize(size[::-1], Image.Resampling.NEAREST)
    if mode == "P":
        mask = Image.frombytes("P", mask.size, mask.tobytes())
        mask.putpalette([draw.randrange(256) for _ in range(63)])
    path.parent.mkdir(parents=True, exist_ok=True)
    mask.convert(mode).save(path, "png", **options)


def masked(name: str, root: Path, draw: random.Random, count: int = 10) -> tuple[Any, list[Path], list[Path]]:
    """Write `count` images and masks; return torchvision's dataset with transforms, and the paths of its files."""
    images, masks = [], []
    for number in range(count):
        size = (draw.randint(1, 90), draw.randint(1, 90))
        kind = draw.choice(("jpeg", "jpeg", "gray jpeg", "png"))
        if name == "VOCSegmentation":
            folder = root / "VOCdevkit" / "VOC2012"
            image, mask = folder / "JPEGImages" / f"{number}.jpg", folder / "SegmentationClass" / f"{number}.png"
        else:
            folder = root / "oxford-iiit-pet"
            image, mask = folder / "images" / f"a_{number}.jpg", folder / "annotations" / "trimaps" / f"a_{number}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        images.append(image_file(root / "written", kind, draw, size).rename(image))
        save_mask(mask, MODES[name], draw, size)
        masks.append(mask)
    given = {"transform": IMAGES, "target_transform": MASKS}
    if name == "VOCSegmentation":
        splits = folder / "ImageSets" / "Segmentation"
        splits.mkdir(parents=True)
        (splits / "train.txt").write_text("\n".join(path.stem for path in images))
        return datasets.VOCSegmentation(root, **given), images, masks
    (folder / "annotations" / "trainval.txt").write_text("\n".join(f"{path.stem} 1 1 1" for path in images))
    return datasets.OxfordIIITPet(root, target_types="segmentation", **given), images, masks


def random_masks(draw: random.Random, mode: str) -> Any:
    """Return a random pipeline for masks, in which every step is recognized."""
    kind, size = draw.choice((v1, v2)), draw.choice((24, (17, 30), [33, 12]))
    steps: list[Any] = [kind.Resize((21, 26), draw.choice(INTERPOLATIONS))]
    if draw.random() < 0.5:
        steps = [kind.Resize(20, draw.choice(INTERPOLATIONS), draw.choice((None, 47))), kind.CenterCrop(size)]
    if draw.random() < 0.3:
        steps = [kind.RandomResizedCrop(size, interpolation=draw.choice(INTERPOLATIONS))]
    if draw.random() < 0.3:
        steps.insert(draw.randint(0, len(steps)), kind.RandomVerticalFlip(draw.choice((0.5, 1.0))))
    if mode == "L" and draw.random() < 0.3:
        steps.append(kind.Pad(2, fill=7))
    end = draw.choice(([v1.ToTensor()], [v1.PILToTensor()], [v2.ToImage()], [v2.PILToTensor()]))
    return draw.choice((v1, v2)).Compose(steps + end)


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_images_and_masks_are_those_of_torch(tmp_path: Path, name: str, num_workers: int) -> None:
    dataset, _, _ = masked(name, tmp_path, random.Random(1))
    seen = assert_as_torch(dataset, num_workers=num_workers)
    assert seen[0][1].dtype is torch.uint8
    assert seen[0][1].shape == (3, 1, 24, 30)


@pytest.mark.parametrize("name", MODES)
def test_plain_masks_are_not_left_to_pillow(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, _, masks = masked(name, tmp_path, random.Random(14))
    save_mask(masks[3], MODES[name], random.Random(15), (20, 30), bits=4 if MODES[name] == "P" else 8)
    left: list[str] = []
    decode = pillow_files._Pillow.decode

    def counting(self: Any, path: bytes) -> Any:
        left.append(Path(path.decode()).name)
        return decode(self, path)

    monkeypatch.setattr(pillow_files._Pillow, "decode", counting)
    list(sluicegate.DataLoader(dataset, batch_size=5))
    assert left == ([masks[3].name] if MODES[name] == "P" else [])


@pytest.mark.parametrize("part", range(2))
def test_random_pipelines_make_the_batches_of_torch(tmp_path: Path, part: int) -> None:
    written = {name: masked(name, tmp_path / name, random.Random(FIRST + part), 12)[0] for name in MODES}
    for seed in range(FIRST + part, FIRST + SCRIPTS, 2):
        draw = random.Random(seed)
        name = draw.choice(list(MODES))
        dataset = written[name]
        set_transforms(dataset, FolderPipelines(draw).draw(), random_masks(draw, MODES[name]))
        try:
            assert_as_torch(dataset, num_workers=draw.choice((0, 0, 2)), batch_size=draw.choice((2, 5)))
        except AssertionError as error:
            raise AssertionError(f"script {seed}: {dataset}") from error


RANDOM_MASKS = v2.Compose([v2.RandomResizedCrop(16, interpolation=0), v2.RandomHorizontalFlip(), v2.ToImage()])


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("images", [IMAGES, v1.Compose([v1.Resize((9, 9)), v1.ToTensor()])])
def test_a_mask_draws_after_its_image(tmp_path: Path, name: str, images: Any) -> None:
    dataset, _, _ = masked(name, tmp_path, random.Random(2))
    set_transforms(dataset, images, RANDOM_MASKS)
    assert_as_torch(dataset, num_workers=0)
    for num_workers in (0, 2):
        assert_as_torch(ConcatDataset([Subset(dataset, [5, 2]), dataset]), num_workers=num_workers)


def test_with_a_seed_a_mask_draws_after_its_image(tmp_path: Path) -> None:
    dataset, _, _ = masked("VOCSegmentation", tmp_path, random.Random(2))
    set_transforms(dataset, IMAGES, RANDOM_MASKS)
    seen = []
    for num_workers, native in ((0, True), (2, True), (0, False)):
        loader = sluicegate.DataLoader(dataset, 3, True, num_workers=num_workers, native=native, seed=7)
        assert loader.explain().engine == ("rust" if native else "python")
        seen.append([*loader, *loader])
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_of_masks_is_resumed(tmp_path: Path, name: str, num_workers: int) -> None:
    dataset, _, _ = masked(name, tmp_path, random.Random(3))
    set_transforms(dataset, IMAGES, RANDOM_MASKS)
    epochs.assert_resumes_as_torch(dataset, batch_size=3, shuffle=True, num_workers=num_workers)


def test_subsets_and_concatenations(tmp_path: Path) -> None:
    first, _, _ = masked("VOCSegmentation", tmp_path / "1", random.Random(4))
    second, _, _ = masked("OxfordIIITPet", tmp_path / "2", random.Random(5))
    for num_workers in (0, 2):
        assert_as_torch(ConcatDataset([Subset(first, [7, 1, 1, 4]), second]), num_workers=num_workers)


def _shorten_palette(path: Path, _: random.Random) -> None:
    """Write a mask of eight bits whose palette has two colors, and which has indices up to 255."""
    mask = Image.frombytes("P", (16, 16), bytes(range(256)))
    mask.putpalette(bytes(768))
    mask.save(path)
    encoded = path.read_bytes()
    start = encoded.index(b"PLTE")
    colors = b"PLTE" + bytes(6)
    palette = (6).to_bytes(4, "big") + colors + zlib.crc32(colors).to_bytes(4, "big")
    path.write_bytes(encoded[: start - 4] + palette + encoded[start + 4 + 768 + 4 :])


ODD_MASKS: dict[str, Callable[[Path, random.Random], object]] = {
    "a gray mask": lambda path, draw: save_mask(path, "L", draw, (20, 30)),
    "a mask with a palette": lambda path, draw: save_mask(path, "P", draw, (20, 30)),
    "a mask of two colors": lambda path, draw: save_mask(path, "1", draw, (20, 30)),
    "a mask in color": lambda path, draw: save_mask(path, "RGB", draw, (20, 30)),
    "a mask with transparency": lambda path, draw: save_mask(path, "P", draw, (20, 30), transparency=3),
    "a mask of four bits": lambda path, draw: save_mask(path, "P", draw, (20, 30), bits=4),
    "an empty mask": lambda path, draw: path.write_bytes(b""),
    "a gray JPEG": lambda path, draw: image_file(path, "gray jpeg", draw, (20, 30)).rename(path),
    "indices beyond the palette": _shorten_palette,
    "a deep mask": lambda path, draw: image_file(path, "deep png", draw, (20, 30)).rename(path),
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("odd", ODD_MASKS)
def test_an_odd_mask_is_read_as_pillow_reads_it(tmp_path: Path, name: str, odd: str) -> None:
    dataset, _, masks = masked(name, tmp_path, random.Random(6))
    ODD_MASKS[odd](masks[4], random.Random(7))
    assert_as_torch(dataset, num_workers=0)
    # A worker of torch fails to stack bools and integers, if bools come first.
    batch_size = 1 if name == "VOCSegmentation" or odd == "a mask of two colors" else 3
    assert_as_torch(dataset, num_workers=2, batch_size=batch_size, epochs=1)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("which", ["image", "mask"])
def test_a_damaged_file_raises_the_error_of_torch(tmp_path: Path, how: str, which: str) -> None:
    dataset, images, masks = masked("VOCSegmentation", tmp_path, random.Random(8))
    damage((images if which == "image" else masks)[4], how)
    for num_workers in (0, 2):
        seen = assert_as_torch(dataset, num_workers=num_workers, epochs=1)
        assert sum(isinstance(each, type) for each in seen) == 1


def _both(image: Any, mask: Any) -> Any:
    return IMAGES(image), MASKS(mask)


PYTHON: dict[str, tuple[Callable[[Any], None], str]] = {
    "no target_transform": (lambda dataset: set_transforms(dataset, IMAGES), "without a target_transform"),
    "no transform": (lambda dataset: set_transforms(dataset, None, MASKS), "without a transform"),
    "a function of both": (setting(transforms=_both), "transforms is called with image and label"),
    "a Lambda": (
        lambda dataset: set_transforms(dataset, IMAGES, v1.Compose([*MASKS.transforms, v1.Lambda(torch.squeeze)])),
        "target_transform is called in Python: transform 3, `Lambda`",
    ),
    "a Pillow image": (
        lambda dataset: set_transforms(dataset, IMAGES, v1.Resize((24, 30))),
        "target_transform is called in Python: the transform returns a Pillow image",
    ),
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("case", PYTHON)
def test_what_python_reads_says_why(tmp_path: Path, name: str, case: str) -> None:
    dataset, _, _ = masked(name, tmp_path, random.Random(9))
    assert sluicegate.DataLoader(dataset).explain().engine == "rust"
    change, reason = PYTHON[case]
    change(dataset)
    explanation = sluicegate.DataLoader(dataset).explain()
    assert explanation.engine == "python"
    assert reason in str(explanation)


@pytest.mark.parametrize(
    "step", [v1.Pad(1), v1.RandomCrop(8, padding=2), v1.RandomCrop(99, pad_if_needed=True), v2.RGB(), v1.Grayscale()]
)
def test_steps_that_differ_for_a_palette_are_called_in_python(tmp_path: Path, step: Any) -> None:
    dataset, _, _ = masked("VOCSegmentation", tmp_path, random.Random(10))
    set_transforms(dataset, v1.Compose([v1.Resize((9, 9)), v1.ToTensor()]), v1.Compose([step, *MASKS.transforms]))
    explanation = sluicegate.DataLoader(dataset).explain()
    assert explanation.engine == "python"
    assert "the image has a palette" in str(explanation)


def _change_masks(dataset: Any) -> None:
    masks = vars(dataset)["targets"]
    masks[5:] = masks[:5]


def _change_interpolation(dataset: Any) -> None:
    dataset.target_transform.transforms[0].size = [24, 12]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("change", [_change_masks, _change_interpolation])
def test_a_change_during_an_epoch_is_seen_as_with_torch(
    tmp_path: Path, num_workers: int, change: Callable[[Any], None]
) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        dataset, _, _ = masked("VOCSegmentation", tmp_path / kind.__module__, random.Random(11))
        masks = v1.Compose([v1.Resize((24, 30), v1.InterpolationMode.NEAREST), v1.PILToTensor()])
        set_transforms(dataset, IMAGES, masks)
        changes = {2: functools.partial(change, dataset)}

        def at(count: int, changes: dict[int, Callable[[], None]] = changes) -> None:
            changes.get(count, lambda: None)()

        seen.append(epochs.seen_by(kind, dataset, at, batch_size=3, num_workers=num_workers))
    assert_same(*seen)


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_batch_that_python_makes_is_of_the_dataset_when_workers_began(
    tmp_path: Path, persistent_workers: bool
) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        dataset, _, masks = masked("OxfordIIITPet", tmp_path / kind.__module__, random.Random(16))
        save_mask(masks[6], "P", random.Random(17), (20, 30))
        crop = v1.CenterCrop(8)
        set_transforms(dataset, IMAGES, v1.Compose([crop, v1.PILToTensor()]))
        subset = ConcatDataset([Subset(dataset, list(range(10)))])
        loader = kind(subset, batch_size=2, num_workers=2, persistent_workers=persistent_workers)
        shapes = []
        for _ in range(2):
            for _, batch in loader:
                shapes.append(batch.shape)
                crop.size = (4, 4)
                dataset._segs[7:] = dataset._segs[:3]
        seen.append(shapes)
    assert seen[0] == seen[1]


def test_with_a_seed_a_batch_that_python_makes_leaves_the_global_generator(tmp_path: Path) -> None:
    dataset, _, masks = masked("VOCSegmentation", tmp_path, random.Random(18))
    save_mask(masks[5], "L", random.Random(19), (20, 30))
    seen = []
    for native in (False, True):
        torch.manual_seed(1)
        loader = sluicegate.DataLoader(dataset, batch_size=2, num_workers=2, seed=3, native=native)
        seen.append([float(torch.rand(())) for _ in loader])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", KINDS)
def test_masks_of_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    for name in MODES:
        dataset, _, masks = masked(name, tmp_path / name, random.Random(12), 6)
        for path in masks[1:3]:
            image_file(path, kind, random.Random(13), (20, 30)).rename(path)
        assert_as_torch(dataset, num_workers=0, batch_size=1)
