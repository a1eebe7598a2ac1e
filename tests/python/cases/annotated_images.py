"""Images with boxes and masks, in a shard."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from doubles.photographs import encoded, photograph
from sluicegate import ImageField, TarDataset, decode_image

v2 = pytest.importorskip("torchvision.transforms.v2")


tv_tensors = pytest.importorskip("torchvision.tv_tensors")


SAMPLES = 14


def boxes_of(number: int) -> np.ndarray[Any, Any]:
    """Return the boxes of an image; some images have none."""
    generator = np.random.default_rng(number)
    start = generator.uniform(0, 40, (number % 4, 2))
    return np.concatenate([start, start + generator.uniform(5, 30, start.shape)], 1).astype(np.float32)


def mask_of(number: int, size: tuple[int, int]) -> Image.Image:
    """Return a mask with a palette, as in Pascal VOC."""
    numbers = np.random.default_rng(number).integers(0, 21, (size[1] // 8 + 1, size[0] // 8 + 1), dtype=np.uint8)
    mask = Image.fromarray(numbers.repeat(8, 0).repeat(8, 1)[: size[1], : size[0]], "P")
    mask.putpalette([(7 * value) % 256 for value in range(768)])
    return mask


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("annotated") / "shard.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(SAMPLES):
            image = photograph(number, 70 + 3 * (number % 5), 60 + 5 * (number % 3))
            box = io.BytesIO()
            np.save(box, boxes_of(number))
            files = {"jpg": encoded(image), "box.npy": box.getvalue(), "json": b'{"bbox": [[1, 2, 3, 4]]}'}
            files["seg.png"] = encoded(mask_of(number, image.size), "png", bits=8)
            for name, content in files.items():
                member = tarfile.TarInfo(f"{number:03}.{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def dataset_of(shard: Path, transform: Any, **options: Any) -> TarDataset:
    fields: dict[str, Any] = {
        "jpg": ImageField(transform, boxes="box.npy", masks="seg.png", exact=True, **options),
        "box.npy": ["npy"],
        "seg.png": ImageField(mode="P"),
    }
    return TarDataset(shard, fields)


def marked(number: int) -> dict[str, Any]:
    """Return the sample that torchvision's users start with."""
    image = photograph(number, 70 + 3 * (number % 5), 60 + 5 * (number % 3))
    pixels = decode_image(encoded(image))
    boxes = torch.from_numpy(boxes_of(number)).reshape(-1, 4)
    return {
        "jpg": tv_tensors.Image(pixels),
        "box.npy": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=tuple(pixels.shape[-2:])),
        "seg.png": tv_tensors.Mask(v2.functional.pil_to_tensor(mask_of(number, image.size))),
    }


def assert_as_torchvisions(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found["jpg"], expected["jpg"].as_subclass(torch.Tensor), atol=1.01 / 255, rtol=0)
    torch.testing.assert_close(found["box.npy"], expected["box.npy"].as_subclass(torch.Tensor), atol=1e-4, rtol=1e-5)
    assert torch.equal(found["seg.png"], expected["seg.png"].as_subclass(torch.Tensor))
