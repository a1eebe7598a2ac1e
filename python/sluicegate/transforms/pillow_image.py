"""Conversions between Pillow images and tensors, as in torchvision's `to_pil_image` and `pil_to_tensor`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

from .leaves import tensor_of

# By the number of channels: the valid modes, the first of which is the default for bytes.
_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_ONE_CHANNEL = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}


def of_pillow(image: Any) -> torch.Tensor:
    """Return the tensor (channels, height, width) that torchvision's `to_tensor` scales: black is 0 and white 255."""
    tensor = tensor_of(image)
    if image.mode == "1":
        return tensor.to(torch.uint8) * 255
    return tensor.view(torch.int16) if tensor.dtype == torch.uint16 else tensor


def pillow_image(image: Any, mode: str | None = None) -> Any:
    """Return a tensor (channels, height, width) or an array (height, width, channels) as a Pillow image.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: a data type that Pillow does not have.
        ValueError: a wrong number of dimensions or channels, or a mode that does not fit.
    """
    array = _array(image)
    if np.issubdtype(array.dtype, np.floating) and mode != "F":
        array = (array * 255).astype(np.uint8)
    channels = array.shape[2]
    if channels == 1:
        array = array[:, :, 0]
        expected = _ONE_CHANNEL.get(str(array.dtype))
        if mode is not None and mode != expected:
            raise ValueError(f"mode: expected {expected} for one channel of {array.dtype}, but got {mode!r}")
    else:
        known = _MODES[channels]
        if mode is not None and mode not in known:
            raise ValueError(f"mode: expected one of {', '.join(known)} for {channels} channels, but got {mode!r}")
        expected = (mode or known[0]) if array.dtype == np.uint8 else None
    if expected is None:
        raise TypeError(f"expected a type of image that Pillow has, but got {channels} channels of {array.dtype}")
    try:
        pillow = importlib.import_module("PIL.Image")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a Pillow image needs Pillow, which is not installed ({error})") from None
    height, width = array.shape[:2]
    return pillow.frombytes(expected, (width, height), array.tobytes())


def _array(image: Any) -> np.ndarray[Any, Any]:
    """Return the array (height, width, channels)."""
    if isinstance(image, torch.Tensor):
        plain = image.detach().as_subclass(torch.Tensor)
        image = (plain.permute(1, 2, 0) if plain.ndim == 3 else plain).cpu().resolve_conj().resolve_neg().numpy()
    array: np.ndarray[Any, Any] = image[:, :, None] if image.ndim == 2 else image
    if array.ndim != 3:
        raise ValueError(f"expected an image of 2 or 3 dimensions for Pillow, but got {array.ndim}")
    if not 1 <= array.shape[2] <= 4:
        raise ValueError(f"expected an image of 1 to 4 channels for Pillow, but got {array.shape[2]}")
    return array
