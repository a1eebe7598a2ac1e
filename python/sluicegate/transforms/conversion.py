"""Conversions: from other types of images to tensors, and between data types."""

from __future__ import annotations

from typing import Any

import torch

from .leaves import IMAGES, MARKED, marked_image, tensor_of, wrapped
from .pillow_image import of_pillow, pillow_image
from .transform import Transform

# Values are multiplied by this, so that equal ranges of floats map to each integer: those just below 1 to the greatest.
_BELOW_NEXT = 1.0 - 1e-3


class ToImage(Transform):
    """Convert Pillow images, arrays (height, width, channels) and tensors to tensors (channels, height, width).

    If torchvision is imported, they are marked as its `tv_tensors.Image`. Values do not change.

    Examples:
        >>> import numpy as np
        >>> from sluicegate import transforms
        >>> transforms.ToImage()(np.zeros((480, 640, 3), np.uint8)).shape
        torch.Size([3, 480, 640])
    """

    _converted_kinds: tuple[str, ...] = ("tensor", "PIL", "array")

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core."""
        return ["ToImage"]

    def fuses(self, is_first: bool) -> bool:
        """Return False: the input may not be a tensor yet."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        return self._of_leaves(inputs if len(inputs) > 1 else inputs[0], self._converted_kinds, self._convert)

    def _convert(self, leaf: Any, kind: str) -> torch.Tensor:
        return marked_image(leaf if kind == "tensor" else tensor_of(leaf))


class PILToTensor(ToImage):
    """Convert Pillow images to tensors (channels, height, width). Values do not change.

    Examples:
        >>> from PIL import Image
        >>> from sluicegate import transforms
        >>> transforms.PILToTensor()(Image.new("RGB", (640, 480))).shape
        torch.Size([3, 480, 640])
    """

    _converted_kinds = ("PIL",)

    def _convert(self, leaf: Any, kind: str) -> torch.Tensor:
        return tensor_of(leaf)


class ToTensor(ToImage):
    """Convert Pillow images and arrays (height, width, channels) to tensors (channels, height, width).

    Bytes are divided by 255 and become floats from 0 to 1, in torch's default data type. Tensors do not change, as
    with torchvision; in the pipeline of an `ImageField` the image counts as a Pillow image.

    Examples:
        >>> import numpy
        >>> from sluicegate import transforms
        >>> transforms.ToTensor()(numpy.array([[[0], [51], [255]]], dtype=numpy.uint8))
        tensor([[[0.0000, 0.2000, 1.0000]]])
    """

    _converted_kinds = ("PIL", "array")

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core; None if torch's default data type is not float32."""
        if torch.get_default_dtype() != torch.float32:
            return None
        return ["ToImage", {"ToDtype": {"dtype": "float32", "values": "divided"}}]

    def _convert(self, leaf: Any, kind: str) -> torch.Tensor:
        tensor = of_pillow(leaf) if kind == "PIL" else tensor_of(leaf)
        return divided(tensor) if tensor.dtype == torch.uint8 else tensor


class ToPILImage(ToImage):
    """Convert tensors (channels, height, width) and arrays (height, width, channels) to Pillow images.

    Floats are multiplied by 255 and truncated to bytes, unless `mode` is "F".

    Args:
        mode: Pillow's mode. Default None: chosen by channels and data type: "L", "LA", "RGB" or "RGBA" for 1 to 4
            channels of bytes; "I;16" and "I" for one channel of 16 and 32 bits.

    Raises:
        ModuleNotFoundError: when called, Pillow is not installed.
        TypeError: when called, values of a data type that Pillow does not have.
        ValueError: when called, more than four channels, or a mode that does not fit.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.ToPILImage()(torch.zeros(3, 480, 640, dtype=torch.uint8)).size
        (640, 480)
    """

    _converted_kinds = ("tensor", "Image", "array")

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def _convert(self, leaf: Any, kind: str) -> Any:
        return pillow_image(leaf, self.mode)


class ToPureTensor(ToImage):
    """Convert marked tensors (torchvision's `tv_tensors`) to plain ones. Values and other parts do not change.

    Examples:
        >>> import torch
        >>> from torchvision import tv_tensors
        >>> from sluicegate import transforms
        >>> type(transforms.ToPureTensor()(tv_tensors.Image(torch.zeros(3, 2, 2)))).__name__
        'Tensor'
    """

    _converted_kinds = MARKED

    def _convert(self, leaf: Any, kind: str) -> torch.Tensor:
        tensor: torch.Tensor = leaf.as_subclass(torch.Tensor)
        return tensor


class ToDtype(Transform):
    """Convert images to a different data type.

    Args:
        dtype: the data type of images; or a dictionary of them by tensor type (`torch.Tensor`, torchvision's `Image`,
            `Mask` and so on) or "others", with None to keep the type.
        scale: True to scale values to the range of the type: 255 in uint8 is 1.0 in floats. Only for images.

    Raises:
        ValueError: `dtype` is invalid; when called, a dictionary that does not cover a tensor.
        RuntimeError: when called, `scale` is True, and floats have too few digits for the integer type.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.ToDtype(torch.float32, scale=True)(torch.tensor([[[0, 51, 255]]], dtype=torch.uint8))
        tensor([[[0.0000, 0.2000, 1.0000]]])
    """

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        if not isinstance(dtype, (dict, torch.dtype)):
            raise ValueError(f"dtype: expected a torch.dtype or a dict of them, but got {dtype!r}")
        self.dtype = dtype
        self.scale = scale

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core; None for a dictionary."""
        if isinstance(self.dtype, dict):
            return None
        dtype = str(self.dtype).removeprefix("torch.")
        return [{"ToDtype": {"dtype": dtype, "values": "scaled" if self.scale else "kept"}}]

    def fuses(self, is_first: bool) -> bool:
        """Return True for conversions between the types of images in the core."""
        return not is_first and self.dtype in (torch.uint8, torch.float32)

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        return self._of_leaves(inputs if len(inputs) > 1 else inputs[0], ("tensor", *MARKED), self._convert)

    def _convert(self, leaf: torch.Tensor, kind: str) -> torch.Tensor:
        is_image = kind in IMAGES
        dtype = self.dtype
        if isinstance(dtype, dict):
            if type(leaf) not in dtype and "others" not in dtype:
                raise ValueError(
                    f"dtype: expected a key for {type(leaf).__name__}, but got {list(dtype)}; add it, or 'others' for "
                    "all other types"
                )
            dtype = dtype[type(leaf)] if type(leaf) in dtype else dtype["others"]
        elif not is_image:
            return leaf
        return leaf if dtype is None else converted(leaf, dtype, scale=self.scale and is_image)


class ConvertImageDtype(Transform):
    """Convert images to a different data type, with scaling: `ToDtype(dtype, scale=True)`.

    Masks, boxes and key points also get the data type, but keep their values, as with torchvision.

    Args:
        dtype: the data type.

    Raises:
        RuntimeError: as for `ToDtype`.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.ConvertImageDtype()(torch.tensor([[[0, 51, 255]]], dtype=torch.uint8))
        tensor([[[0.0000, 0.2000, 1.0000]]])
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core."""
        return ToDtype(self.dtype, scale=True).spec()

    def fuses(self, is_first: bool) -> bool:
        """Return False: it changes more than pixels."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        return ToDtype({torch.Tensor: self.dtype, "others": self.dtype}, scale=True)(*inputs)


def divided(image: torch.Tensor) -> torch.Tensor:
    """Return bytes as floats from 0 to 1, in torch's default data type."""
    return image.to(torch.get_default_dtype()).div(255)


def converted(image: torch.Tensor, dtype: torch.dtype, *, scale: bool) -> torch.Tensor:
    """Return `image` in `dtype`, with its marks."""
    if image.dtype == dtype:
        return image
    plain = image.as_subclass(torch.Tensor)
    after = _scaled(plain, dtype) if scale else plain.to(dtype)
    return after if type(image) is torch.Tensor else wrapped(after, image)


def _scaled(image: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    before = image.dtype
    if before.is_floating_point and dtype.is_floating_point:
        return image.to(dtype)
    if before.is_floating_point:
        if (before, dtype) in _UNSAFE:
            raise RuntimeError(
                f"dtype: with scale=True, expected a type whose largest value {before} can represent, but got {dtype}"
            )
        return image.mul(torch.iinfo(dtype).max + _BELOW_NEXT).to(dtype)
    if before == torch.bool and dtype.is_floating_point:
        return image.to(dtype)
    most = torch.iinfo(before).max
    if dtype.is_floating_point:
        return image.to(dtype).mul_(1.0 / most)
    # Low bits are added below, and removed here.
    steps = torch.iinfo(dtype).max.bit_length() - most.bit_length()
    wide = image.to(torch.int64)
    return (wide << steps if steps >= 0 else wide >> -steps).to(dtype)


_UNSAFE = {
    (torch.float32, torch.int32),
    (torch.float32, torch.int64),
    (torch.float64, torch.int64),
}
