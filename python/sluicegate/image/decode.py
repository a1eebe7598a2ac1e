"""Images: `decode_image` decodes the bytes of an image file to a tensor."""

from __future__ import annotations

import functools
import operator
import os
from typing import Any, Literal, get_args

import torch

from sluicegate import _core, _torch
from sluicegate.paths import local

from .damaged import DamagedImageError

Mode = Literal["RGB", "L", "RGBA", "P", "unchanged"]
Truncated = Literal["error", "fill"]

# The size above which Pillow's `Image.open` raises: twice its `MAX_IMAGE_PIXELS`.
MAX_PIXELS = 178_956_970


def decode_image(
    image: Any,
    mode: Mode = "RGB",
    *,
    exif_orientation: bool = False,
    truncated: Truncated = "error",
    max_pixels: int = MAX_PIXELS,
) -> torch.Tensor:
    """Decode an image to a uint8 tensor of shape (channels, height, width).

    Supports JPEG, PNG, WebP, BMP, GIF (first frame), TIFF (first page) and PNM, recognized by their first bytes. JPEG
    values equal those of Pillow and torchvision bit for bit: the decoder is libjpeg-turbo, which is bundled. The other
    formats match too, except for 16 bits per channel (see `mode`), for PNG of 2 or 4 bits of gray with a transparent
    gray (where Pillow takes another gray), and for lossy WebP, JPEG in TIFF, BMP of 16 bits per pixel, and PNM whose
    largest value is not 255, which may differ by one gray level. TIFF is rejected with a palette, with gray and alpha,
    with gray of 2 or 4 bits, with floats or signed numbers, with tiles of single channels, with FillOrder 2, with more
    channels together with tiles or a predictor, or compressed with zstd. Decoding releases the GIL, so threads can
    decode in parallel.

    Args:
        image: the bytes of a file (`bytes`, or any object with the buffer protocol: a `bytearray`, an array, a uint8
            tensor), or its path (`str` or `os.PathLike`).
        mode: the channels, by Pillow's names. Modes other than "unchanged" take the upper 8 of 16 bits, where Pillow
            clips gray at 255. CMYK becomes RGB as with Pillow's `convert`.

            - "RGB": whatever is stored; gray is copied to all three channels, alpha is dropped;
            - "L": gray, by Pillow's weights;
            - "RGBA";
            - "P": numbers instead of colors, as in segmentation masks: palette indices (of a PNG), or 8-bit gray
              values;
            - "unchanged": the stored channels (1, 2, 3 or 4); palettes become colors, and 16-bit images uint16.
        exif_orientation: True to rotate the image according to its EXIF data. As in Pillow and torchvision, a TIFF is
            always rotated.
        truncated: "error", or "fill": decode the intact part of a truncated or damaged JPEG, with gray for the rest, as
            with Pillow's `LOAD_TRUNCATED_IMAGES` (which shows nothing of some progressive ones).
        max_pixels: an image with more pixels is rejected before any of it is decoded.

    Raises:
        DamagedImageError: the input is not an image, is damaged, or has more than `max_pixels`. It is both an `OSError`
            and a `ValueError`. The message includes what the decoder reported.
        OSError: the file cannot be read.
        ValueError: the path is a URL, or `mode` or `truncated` is not one of its choices.
        TypeError: `image` is neither bytes nor a path.

    Examples:
        >>> import torch
        >>> from sluicegate import decode_image
        >>> decode_image(b"P5 2 1 255 " + bytes([7, 9]), "L")
        tensor([[[7, 9]]], dtype=torch.uint8)
    """
    decoder = image_decoder(mode, exif_orientation, truncated, operator.index(max_pixels))
    if isinstance(image, (str, os.PathLike)):
        local("image", image)  # Reject URLs.
        with open(image, "rb") as file:
            name, encoded = os.fsdecode(image), file.read()
    else:
        name, encoded = "image", _bytes(image)
    try:
        return decoder.decode(encoded)
    except DamagedImageError as error:
        raise DamagedImageError(f"{name}: {error}") from None


@functools.lru_cache(maxsize=16)
def image_decoder(mode: str, exif_orientation: bool, truncated: str, max_pixels: int) -> _core.ImageDecoder:
    """Return a decoder that decodes images like `decode_image` with these arguments."""
    if truncated not in get_args(Truncated):
        raise ValueError(f"truncated: expected 'error' or 'fill', but got {truncated!r}")
    if max_pixels < 1:
        raise ValueError(f"max_pixels: expected at least 1, but got {max_pixels}")
    return _core.ImageDecoder(mode, bool(exif_orientation), truncated == "fill", max_pixels, _torch.from_dlpack)


def _bytes(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, torch.Tensor):
        image = image.numpy()
    try:
        return bytes(memoryview(image))
    except TypeError:
        kind = type(image).__name__
        raise TypeError(f"image: expected the bytes of a file, or its path, but got {kind}") from None
