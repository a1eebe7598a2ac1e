"""`ImageFolderDataset(masks=...)`: images and masks in two folders, transformed together."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from sluicegate import DamagedImageError, DataLoader, ImageFolderDataset, decode_image
from sluicegate import transforms as T

IMAGES = 12


def mask_of(number: int) -> Image.Image:
    values = np.random.default_rng(number).integers(0, 21, (9, 11), dtype=np.uint8)
    mask = Image.fromarray(values.repeat(8, 0).repeat(8, 1)[: 60 + number % 3, : 70 + number % 5], "P")
    mask.putpalette([(7 * value) % 256 for value in range(768)])
    return mask


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    images, masks = tmp_path / "images", tmp_path / "masks"
    for number in range(IMAGES):
        name = f"{'ab'[number % 2]}/{number:02}"
        mask = mask_of(number)
        for folder, suffix, image in ((images, "jpg", photograph(number, *mask.size)), (masks, "png", mask)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.{suffix}").write_bytes(
                encoded(image) if suffix == "jpg" else encoded(image, "png", bits=8)
            )
    (masks / "a" / "notes.txt").write_text("not a mask")
    return images, masks


def order() -> list[int]:
    return [*range(0, IMAGES, 2), *range(1, IMAGES, 2)]


def test_samples_are_pairs(folders: tuple[Path, Path]) -> None:
    dataset = ImageFolderDataset(folders[0], masks=folders[1])
    assert len(dataset) == IMAGES
    assert dataset.classes == []
    for (image, mask), number in zip(dataset, order(), strict=True):
        name = f"{'ab'[number % 2]}/{number:02}"
        assert torch.equal(image, decode_image(folders[0] / f"{name}.jpg"))
        assert torch.equal(mask, torch.from_numpy(np.array(mask_of(number)))[None])
    assert [Path(path).stem for path in dataset.mask_paths or ()] == [f"{number:02}" for number in order()]
    assert [Path(path).stem for path, _ in dataset.samples] == [f"{number:02}" for number in order()]


def geometry(module: Any) -> Any:
    steps = [module.RandomAffine(20, translate=(0.1, 0.1)), module.RandomResizedCrop(32, antialias=True)]
    return module.Compose([*steps, module.RandomHorizontalFlip(), module.ToDtype(torch.float32, scale=True)])


def test_images_and_masks_move_as_by_torchvision(folders: tuple[Path, Path]) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    plain = ImageFolderDataset(folders[0], masks=folders[1])

    def own(image: Any, target: dict[str, Any]) -> Any:
        return geometry(v2)(image, target)

    for transform in (geometry(T), geometry(v2), own):
        dataset = ImageFolderDataset(folders[0], transform, masks=folders[1], exact=True)
        for number in range(IMAGES):
            image, mask = plain[number]
            torch.manual_seed(number)
            expected = geometry(v2)(tv_tensors.Image(image), tv_tensors.Mask(mask))
            torch.manual_seed(number)
            found = dataset[number]
            torch.testing.assert_close(found[0], expected[0].as_subclass(torch.Tensor), atol=1.01 / 255, rtol=0)
            assert torch.equal(found[1], expected[1].as_subclass(torch.Tensor))


def test_batches_are_equal_by_every_way(folders: tuple[Path, Path]) -> None:
    dataset = ImageFolderDataset(folders[0], geometry(T), masks=folders[1])
    assert dataset.is_native
    options: dict[str, Any] = {"batch_size": 5, "seed": 3, "shuffle": True}
    native = list(DataLoader(dataset, num_workers=2, **options))
    assert [mask.shape for _, mask in native] == [(5, 1, 32, 32), (5, 1, 32, 32), (2, 1, 32, 32)]
    copied = pickle.loads(pickle.dumps(dataset))
    assert_same(list(DataLoader(copied, **options)), native)
    copied.is_native = False
    for more in ({}, {"num_workers": 2}, {"num_workers": 1, "worker_type": "thread"}):
        assert_same(list(DataLoader(copied, **options, **more)), native)
    cached = ImageFolderDataset(folders[0], geometry(T), masks=folders[1], cache="memory")
    loader = DataLoader(cached, num_workers=2, **options)
    whole = ImageFolderDataset(folders[0], geometry(T), masks=folders[1], exact=True)
    for _ in range(2):
        loader.set_epoch(0)
        for (_, mask), (_, expected) in zip(loader, DataLoader(whole, **options), strict=True):
            assert torch.equal(mask, expected)
    dataset.transform = T.CenterCrop(8)
    (batch,) = DataLoader(dataset, batch_size=IMAGES)
    assert batch[1].shape == (IMAGES, 1, 8, 8)


def test_a_missing_partner_is_named(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    (masks / "a" / "99.png").write_bytes(encoded(mask_of(1), "png"))
    with pytest.raises(FileNotFoundError, match=r"the mask '.*masks/a/99\.png' has no image in '.*images'"):
        ImageFolderDataset(images, masks=masks)
    # If the caller selects some images, the masks of the others may exist.
    chosen = ImageFolderDataset(images, masks=masks, is_valid_file=lambda path: "/a/" in path)
    assert len(chosen) == IMAGES // 2
    assert torch.equal(chosen[1][1], torch.from_numpy(np.array(mask_of(2)))[None])
    (masks / "b" / "03.png").unlink()
    assert len(ImageFolderDataset(images, masks=masks, is_valid_file=lambda path: "/a/" in path)) == IMAGES // 2
    with pytest.raises(
        FileNotFoundError, match=r"the image '.*images/b/03\.jpg' has no mask; add the file '.*masks/b/03'"
    ):
        ImageFolderDataset(images, masks=masks)
    with pytest.raises(FileNotFoundError):
        ImageFolderDataset(images, masks=masks, on_error="skip")


def test_two_files_of_one_name_are_an_error(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    (masks / "a" / "00.tif").write_bytes(encoded(mask_of(0), "tiff"))
    with pytest.raises(ValueError, match=r"two files of the masks .*00\.png' and '.*00\.tif'|00\.tif' and '.*00\.png'"):
        ImageFolderDataset(images, masks=masks)
    (masks / "a" / "00.tif").unlink()
    (images / "a" / "00.png").write_bytes(encoded(photograph(1), "png"))
    with pytest.raises(ValueError, match="two files of the images"):
        ImageFolderDataset(images, masks=masks)


def test_damaged_images_and_masks_are_errors_or_skipped(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    (images / "a" / "02.jpg").write_bytes(b"text")
    (masks / "b" / "03.png").write_bytes(b"text")
    dataset = ImageFolderDataset(images, T.CenterCrop(8), masks=masks)
    for place, name in ((1, r"02\.jpg"), (7, r"03\.png")):
        with pytest.raises(DamagedImageError, match=name):
            dataset[place]
        with pytest.raises(DamagedImageError, match=name):
            list(DataLoader(dataset, sampler=[place]))
    whole = ImageFolderDataset(images, T.CenterCrop(8), masks=masks, on_error="skip")
    assert [int(Path(path).stem) for path in whole.mask_paths or ()] == [n for n in order() if n not in (2, 3)]
    assert [int(Path(path).stem) for path, _ in whole.samples] == [n for n in order() if n not in (2, 3)]
    assert len(whole.damages) == 2
    (batch,) = DataLoader(whole, batch_size=IMAGES)
    assert len(batch[1]) == IMAGES - 2
    (masks / "a" / "00.png").write_bytes(encoded(Image.new("L", (3, 4)), "png"))
    with pytest.raises(DamagedImageError, match="the mask has 3 x 4 pixels, but its image has 70 x 60"):
        ImageFolderDataset(images, T.CenterCrop(8), masks=masks)[0]


def test_masks_exclude_labels_and_need_an_existing_folder(folders: tuple[Path, Path]) -> None:
    for labels in (r"(a|b)/", lambda path: 1):
        with pytest.raises(ValueError, match="masks: samples are"):
            ImageFolderDataset(folders[0], masks=folders[1], labels=labels)
    assert len(ImageFolderDataset(folders[0], masks=folders[1], labels=None)) == IMAGES
    with pytest.raises(TypeError, match="TrivialAugmentWide: expected only images"):
        ImageFolderDataset(folders[0], T.TrivialAugmentWide(), masks=folders[1])
    assert ImageFolderDataset(folders[0]).mask_paths is None
    with pytest.raises(FileNotFoundError):
        ImageFolderDataset(folders[0], masks=folders[1] / "none")
