"""`exact_steps`: torchvision's transforms of Pillow images that the core does bit for bit.

`recognise` accepts differences of rounding. Here nothing is recognized whose values, or whose draws, could differ.

| transform, v1 and v2 | of a Pillow image | of the tensor made of it |
| --- | --- | --- |
| `RandomHorizontalFlip`, `RandomVerticalFlip`, `CenterCrop` | yes | yes |
| `RandomCrop`, `Pad` | `fill` of whole numbers from 0 to 255 | one number as `fill` |
| `Resize`, `RandomResizedCrop` | any interpolation; `antialias` not False | no |
| `ToTensor`, `PILToTensor`, `ToImage` | yes | no |
| `ConvertImageDtype`, `ToDtype` | no | from uint8 to float32 |
| `Normalize` | no | of float32 |
| `RandomApply` | of transforms that move pixels | the same |
| `Compose`, `torch.nn.Sequential`, `Identity`, `ToPureTensor` | yes | yes |
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch

from .arguments import padding_of
from .called import is_exactly
from .pillow_resize import way_to_resize
from .recognise import NotRecognizedError, name_of, own_of, steps_of, why_not

__all__ = ["exact_steps"]

_V1, _V2 = "torchvision.transforms", "torchvision.transforms.v2"
_MOVES = ("CenterCrop", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip")
_RESIZES = ("RandomResizedCrop", "Resize")
_TO_TENSOR = ("PILToTensor", "ToImage", "ToTensor")
_TO_DTYPE = ("ConvertImageDtype", "ToDtype")
_NOTHING = ("Identity", "ToPureTensor")
_KNOWN = (*_MOVES, *_RESIZES, *_TO_TENSOR, *_TO_DTYPE, *_NOTHING, "Normalize", "RandomApply")


def exact_steps(transform: Any, channels: int) -> list[Any]:
    """Returns the transform as a list for JSON that the core takes.

    Args:
        transform: any callable.
        channels: of the Pillow image that it is called with: 1 (mode "L") or 3 ("RGB").

    Raises:
        NotRecognizedError: the core can't do the same to the last bit; the message says which step, and why.
    """
    image = _Image(channels)
    native: list[Any] = []
    for label, step in steps_of(transform, ""):
        try:
            native += image.after(step)
        except (AttributeError, IndexError, TypeError, ValueError, NotRecognizedError) as error:
            raise NotRecognizedError(f"{label}{name_of(step)}: {error}") from None
    if image.is_pillow:
        raise NotRecognizedError("the transform returns a Pillow image; end it with ToTensor or ToImage")
    return native


class _Image:
    """What an image is between two transforms."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.is_pillow = True
        self.dtype = "uint8"

    def after(self, step: Any) -> list[Any]:
        """Returns the step as a list for the core, and becomes what it makes."""
        is_v1, name = is_exactly(step, _V1, _KNOWN), type(step).__name__
        if not is_v1 and not is_exactly(step, _V2, _KNOWN):
            raise NotRecognizedError(_not_known(step))
        if name in _NOTHING:
            return []
        if name in _TO_TENSOR:
            return self._to_tensor(step, name)
        if name in _TO_DTYPE:
            return self._to_dtype(step, is_v1=is_v1)
        if name == "Normalize":
            return self._normalize(step)
        if name in _RESIZES:
            return self._resize(step, name, is_v1=is_v1)
        self._check_moves(step)
        spec: Any = own_of(step, is_pillow=False).spec()
        return list(spec)

    def _to_tensor(self, step: Any, name: str) -> list[Any]:
        if not self.is_pillow:
            raise NotRecognizedError("the image is a tensor already")
        self.is_pillow = False
        if name != "ToTensor":
            return []
        self.dtype = "float32"
        return [{"ToDtype": {"dtype": "float32", "values": "divided"}}]

    def _to_dtype(self, step: Any, *, is_v1: bool) -> list[Any]:
        if self.is_pillow:
            raise NotRecognizedError("the image is one of Pillow's; put ToImage or PILToTensor before it")
        if not isinstance(step.dtype, torch.dtype):
            raise NotRecognizedError("only one dtype is recognized, not one for each type")
        dtype = str(step.dtype).removeprefix("torch.")
        if dtype == self.dtype:
            return []
        if (self.dtype, dtype) != ("uint8", "float32"):
            raise NotRecognizedError(f"from {self.dtype} to {dtype}; only from uint8 to float32 is recognized")
        self.dtype = dtype
        scales = type(step).__name__ == "ConvertImageDtype" or bool(step.scale)
        # v1 divides by 255, v2 multiplies by its inverse.
        values = "kept" if not scales else "divided" if is_v1 else "scaled"
        return [{"ToDtype": {"dtype": dtype, "values": values}}]

    def _normalize(self, step: Any) -> list[Any]:
        if self.is_pillow or self.dtype != "float32":
            raise NotRecognizedError("the image is not a tensor of float32")
        mean, std = ([value] if isinstance(value, (int, float)) else list(value) for value in (step.mean, step.std))
        for name, values in (("mean", mean), ("std", std)):
            if len(values) not in (1, self.channels):
                raise NotRecognizedError(f"{name} has {len(values)} values for {self.channels} channels")
            if not all(type(value) in (int, float) and math.isfinite(value) for value in values):
                raise NotRecognizedError(f"{name} is not made of plain numbers")
        if not all(torch.tensor(std, dtype=torch.float32).tolist()):
            raise NotRecognizedError("std has a zero")
        return [{"Normalize": {"mean": [float(each) for each in mean], "std": [float(each) for each in std]}}]

    def _resize(self, step: Any, name: str, *, is_v1: bool) -> list[Any]:
        if not self.is_pillow:
            raise NotRecognizedError("its values may differ in the last bit from those for tensors")
        if step.antialias is False:
            raise NotRecognizedError("antialias=False: torchvision warns of it with each image")
        spec: Any = own_of(step, is_pillow=False).spec()
        (arguments,) = spec[0].values()
        arguments["antialias"] = way_to_resize()
        if name == "RandomResizedCrop":
            log_ratio = torch.log(torch.tensor(step.ratio)) if is_v1 else step._log_ratio
            if log_ratio.dtype is not torch.float32 or log_ratio.shape != (2,):
                raise NotRecognizedError("ratio is not a pair of numbers")
            arguments["log_ratio"] = log_ratio.tolist()
        return [{name: arguments}]

    def _check_moves(self, step: Any) -> None:
        """Refuses what does not move pixels as the core does."""
        name = type(step).__name__
        if name == "RandomApply":
            for part in step.transforms:
                for label, each in steps_of(part, ""):
                    if not any(is_exactly(each, module, _KNOWN) for module in (_V1, _V2)):
                        raise NotRecognizedError(f"{label}{name_of(each)}: {_not_known(each)}")
                    if type(each).__name__ not in (*_MOVES, "RandomApply"):
                        raise NotRecognizedError(f"{label}{name_of(each)}: it does not only move pixels")
                    self._check_moves(each)
        elif name not in _MOVES:
            raise NotRecognizedError("not recognized here")
        elif name in ("Pad", "RandomCrop") and step.padding is not None:
            sides = step.padding if name == "RandomCrop" and len(_list(step.padding)) == 4 else padding_of(step.padding)
            if min(_list(sides)) < 0:
                raise NotRecognizedError("negative padding")
        if name in ("Pad", "RandomCrop"):
            self._check_fill(step.fill)

    def _check_fill(self, fill: Any) -> None:
        values = _list(fill)
        if self.is_pillow:
            is_plain = len(values) == 1 if isinstance(fill, (int, float)) else len(values) == self.channels > 1
            if not is_plain or not all(type(each) in (int, float) and each in range(256) for each in values):
                raise NotRecognizedError(f"fill={fill!r}: only whole numbers from 0 to 255 are recognized")
        elif type(fill) not in (int, float) or not math.isfinite(fill):
            raise NotRecognizedError(f"fill={fill!r}: only one number is recognized for a tensor")
        elif self.dtype == "uint8" and fill not in range(256):
            raise NotRecognizedError(f"fill={fill!r}: only whole numbers from 0 to 255 are recognized")


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _not_known(step: Any) -> str:
    """Why this step is not one of those in the table."""
    name = type(step).__name__
    # Of those that this package has, too, which are done in Rust elsewhere.
    if name in sys.modules[__package__].__all__ and any(is_exactly(step, each, (name,)) for each in (_V1, _V2)):
        return "its values or its draws may differ in the last bit from those for Pillow images"
    return why_not(step)
