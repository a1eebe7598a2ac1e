"""TIFF files of every layout: Pillow's pixels, or an error."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cases.tiff_files import TiffFile
from checks.pillow import pillows
from sluicegate import DamagedImageError, ImageFolderDataset, _core, decode_image

# The number of channels by photometric interpretation.
COLORS = {0: 1, 1: 1, 2: 3, 5: 4}


def pixels(channels: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (21, 37, channels), dtype=np.uint8)


def random_file(draw: random.Random) -> TiffFile:
    photometric = draw.choice([*COLORS])
    extra = draw.choice([None, None, [0], [1], [2], [0, 0]])
    return TiffFile(
        pixels(COLORS[photometric] + len(extra or [])),
        photometric,
        tile=draw.choice([None, 16, 32]),
        rows_per_strip=draw.choice([1, 7, 21]),
        # Pillow does not invert planar gray.
        is_planar=photometric != 0 and draw.random() < 0.2,
        is_predicted=(is_deflated := draw.random() < 0.5) and draw.random() < 0.5,
        is_deflated=is_deflated,
        extra=extra,
        orientation=draw.choice([None, None, *range(1, 9)]),
        fill_order=draw.choice([1, 1, 1, 2]),
        order=draw.choice("<>"),
    )


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_random_files_have_pillows_pixels_or_are_refused(mode: str) -> None:
    draw = random.Random(mode)
    decoded = 0
    for _ in range(300):
        file = random_file(draw)
        try:
            found, expected = decode_image(file.encoded(), mode), pillows(file.encoded(), mode)
        except (DamagedImageError, OSError, ValueError):  # Pillow does not read every layout either.
            continue
        decoded += 1
        assert torch.equal(found, expected), file
    assert decoded > 80


READ: list[dict[str, Any]] = [
    *({"photometric": photometric, "tile": tile} for photometric in COLORS for tile in (None, 16)),
    {"photometric": 2, "extra": [2], "tile": 16},
    {"photometric": 2, "extra": [1]},
    {"photometric": 2, "extra": [0]},
    {"photometric": 2, "is_planar": True},
    {"photometric": 2, "is_predicted": True, "is_deflated": True, "tile": 16},
]


@pytest.mark.parametrize("given", READ, ids=str)
@pytest.mark.parametrize("order", "<>")
def test_common_layouts_are_read(given: dict[str, Any], order: str) -> None:
    channels = COLORS[given["photometric"]] + len(given.get("extra", []))
    data = TiffFile(pixels(channels), order=order, **given).encoded()
    assert torch.equal(decode_image(data), pillows(data, "RGB"))


REFUSED = [
    ({"photometric": 2, "extra": [0], "tile": 16}, r"ExtraSamples \[0\]"),
    ({"photometric": 2, "extra": [0], "is_predicted": True}, r"ExtraSamples \[0\]"),
    ({"photometric": 2, "is_planar": True, "tile": 16}, "tiles with one channel each"),
    ({"photometric": 2, "fill_order": 2}, "FillOrder 2"),
    ({"photometric": 5, "is_planar": True}, "CMYK in separate planes"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=str)
def test_tiff_files_whose_pixels_would_differ_are_refused(given: dict[str, Any], words: str) -> None:
    channels = COLORS[given["photometric"]] + len(given.get("extra", []))
    with pytest.raises(DamagedImageError, match=f"{words}.*not supported; save it as PNG"):
        decode_image(TiffFile(pixels(channels), **given).encoded())


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_file_is_rotated_as_by_pillow(tmp_path: Path, orientation: int) -> None:
    data = TiffFile(pixels(3), 2, orientation=orientation).encoded()
    expected = pillows(data, "RGB")
    assert torch.equal(decode_image(data), expected)
    assert torch.equal(decode_image(data, exif_orientation=True), expected)
    assert _core.ImageDecoder.size(data) == Image.open(io.BytesIO(data)).size
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "image.tif").write_bytes(data)
    assert torch.equal(ImageFolderDataset(tmp_path)[0][0], expected)
