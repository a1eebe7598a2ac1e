"""GIF files whose first frame does not cover the image: Pillow's pixels around it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from checks.pillow import pillows
from sluicegate import decode_image

COLORS = [[10, 20, 30], [200, 0, 0], [0, 200, 0], [0, 0, 200]]


def gif(place: tuple[int, int, int, int], transparent: int | None, has_own_colors: bool) -> bytes:
    """Return a GIF of 6 x 5 pixels with a frame of color 1 at `place`: left, top, width, and height."""
    palette = bytes(np.array(COLORS, np.uint8))
    frame = struct.pack("<4H", *place)
    pixels = place[2] * place[3]
    # Codes of three bits: clear and color 1 alternate, so that codes never get longer; then the end.
    codes = [code for _ in range(pixels) for code in (4, 1)] + [5]
    bits = "".join(f"{code:03b}" for code in reversed(codes))
    packed = int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")
    control = b"" if transparent is None else b"\x21\xf9\4\1\0\0" + bytes([transparent, 0])
    head = b"GIF89a" + struct.pack("<HH", 6, 5) + b"\x91\2\0" + palette[:: -1 if has_own_colors else 1]
    own = b"\x81" + palette if has_own_colors else b"\0"
    return head + control + b"," + frame + own + b"\2" + bytes([len(packed)]) + packed + b"\0;"


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("place", [(1, 1, 3, 2), (0, 0, 6, 4), (2, 0, 4, 5), (0, 0, 6, 5)])
@pytest.mark.parametrize("transparent", [None, 0, 1, 3])
@pytest.mark.parametrize("has_own_colors", [False, True])
def test_the_color_around_the_first_frame(
    mode: str, place: tuple[int, int, int, int], transparent: int | None, has_own_colors: bool
) -> None:
    data = gif(place, transparent, has_own_colors)
    assert torch.equal(decode_image(data, mode), pillows(data, mode))
