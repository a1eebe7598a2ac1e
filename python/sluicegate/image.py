"""Images: `decode_image` makes tensors of the bytes of image files."""

from __future__ import annotations

import functools
import operator
import os
from typing import Any, Literal, get_args

import torch

from . import _core, _torch
from .damaged_image import DamagedImageError

Mode = Literal["RGB", "L", "RGBA", "P", "unchanged"]
Truncated = Literal["error", "fill"]

# Where Pillow's `Image.open` raises: twice its `MAX_IMAGE_PIXELS`.
MAX_PIXELS = 178_956_970


def decode_image(
    image: Any,
    mode: Mode = "RGB",
    *,
    exif_orientation: bool = False,
    truncated: Truncated = "error",
    max_pixels: int = MAX_PIXELS,
) -> torch.Tensor:
    """The pixels of an image: a uint8 tensor of shape (channels, height, width).

    JPEG, PNG, WebP, BMP, GIF (its first frame), TIFF (its first page) and PNM are known, by what they begin with. JPEG
    has the values that Pillow and torchvision have, bit for bit: the decoder is libjpeg-turbo, which the package brings
    along. So have the others, but for 16 bits a channel (see `mode`), and for lossy WebP and JPEG in TIFF, which may
    differ by a grey level. TIFF with a palette, with grey and alpha, of floats, or packed by zstd is refused. The GIL
    is not held while an image is decoded, so threads do it side by side.

    Args:
        image: the bytes of a file (`bytes`, or whatever shows its memory: a `bytearray`, an array, a uint8 tensor), or
            the path of one (`str` or `os.PathLike`).
        mode: the channels, by Pillow's names. "RGB", whatever is stored: grey is all three, alpha is dropped; "L":
            grey, by Pillow's weights; "RGBA"; "P": numbers instead of colours, as masks of segmentation have them: of a
            palette (in a PNG) those of the pixels, of grey the values, 8 bits; or "unchanged": the channels that are
            stored (1, 2, 3 or 4), of palettes the colours, in uint16 where so much is stored. Other modes take the
            upper 8 of 16 bits, where Pillow cuts grey off at 255. Printers' colours (CMYK) become RGB as with Pillow's
            `convert`.
        exif_orientation: whether the image is turned as its EXIF data say. Pillow and torchvision do so only when they
            are asked to, too.
        truncated: "error", or "fill": of a JPEG that is cut short or damaged what there is, with grey for the rest, as
            with Pillow's `LOAD_TRUNCATED_IMAGES`.
        max_pixels: an image with more is refused before any of it is decoded.

    Raises:
        DamagedImageError: it is not an image, is damaged, or has more than `max_pixels`; both an `OSError` and a
            `ValueError`. The message includes what the decoder reported.
        OSError: the file can't be read.

    Examples:
        >>> import torch
        >>> from sluicegate import decode_image
        >>> decode_image(b"P5 2 1 255 " + bytes([7, 9]), "L")
        tensor([[[7, 9]]], dtype=torch.uint8)
    """
    decoder = image_decoder(mode, exif_orientation, truncated, operator.index(max_pixels))
    if not isinstance(image, (str, os.PathLike)):
        return decoder.decode(_bytes(image))
    with open(image, "rb") as file:
        encoded = file.read()
    try:
        return decoder.decode(encoded)
    except DamagedImageError as error:
        raise DamagedImageError(f"{os.fsdecode(image)}: {error}") from None


@functools.lru_cache(maxsize=16)
def image_decoder(mode: str, exif_orientation: bool, truncated: str, max_pixels: int) -> _core.ImageDecoder:
    """What decodes images as `decode_image` does with these arguments."""
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
