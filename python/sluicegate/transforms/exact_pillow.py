"""`exact_steps`: torchvision's transforms of Pillow images that the core runs bit for bit.

`recognize` accepts rounding differences. This module recognizes only transforms whose values and draws are identical.

| transform, v1 and v2 | of a Pillow image | of the tensor made of it |
| --- | --- | --- |
| `RandomHorizontalFlip`, `RandomVerticalFlip`, `CenterCrop` | yes | yes |
| `RandomCrop`, `Pad` | `fill` of whole numbers from 0 to 255 | one number as `fill` |
| `Resize`, `RandomResizedCrop` | any interpolation; `antialias` not False | v2, of uint8: bilinear, bicubic |
| `Grayscale`, and `RGB` of v2 | yes | v2, of gray |
| `RandomGrayscale`, `ColorJitter`, `RandomInvert`, `RandomPosterize`, | yes | no |
| `RandomSolarize`, `RandomAutocontrast`, `RandomEqualize`, `RandomAdjustSharpness` | yes | no |
| `RandomChannelPermutation`, `RandomPhotometricDistort` (of v2) | yes | no |
| `RandomRotation`, `RandomAffine`, | nearest and bilinear; `fill` as of `Pad` | no |
| `TrivialAugmentWide`, `RandAugment`, `AutoAugment` | the same | no |
| `ToTensor`, `PILToTensor`, `ToImage` | yes | no |
| `ConvertImageDtype`, `ToDtype` | no | from uint8 to float32 |
| `Normalize` | no | of float32 |
| `RandomErasing` | no | of float32 |
| `RandomApply`, `RandomChoice`, and `RandomOrder` | of what leaves its mode | of what leaves its data type |
| `Compose`, `torch.nn.Sequential`, `Identity`, `ToPureTensor` | yes | yes |
| the preset of pretrained weights for images (`ResNet50_Weights.DEFAULT.transforms()`) | yes | no |

Images with a palette (mode "P"), such as masks, can only be moved, cropped, resized, and converted to tensors of their
indices. Pillow resizes them to the nearest pixels, whatever the interpolation.

All of these draw from torch's generator, except for `RandomChoice` and `RandomOrder` of v1, which draw from Python's.
Python runs `GaussianBlur`, whose sums depend on the processor.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch

from .arguments import padding_of
from .called import is_exactly
from .drawing import compiled
from .pillow_resize import resize_method
from .pillow_steps import PILLOW_STEPS, pillow_step
from .recognize import NotRecognizedError, name_of, own_of, steps_of, why_not
from .specification import as_json
from .tensor_resize import check_tensor_resize
from .torchs_draws import check_choices, check_normal_deviates
from .v1 import probability_of_v1

_V1, _V2 = "torchvision.transforms", "torchvision.transforms.v2"
_PRESETS = "torchvision.transforms._presets"
_MOVES = ("CenterCrop", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip")
_TO_TENSOR = ("PILToTensor", "ToImage", "ToTensor")
_TO_DTYPE = ("ConvertImageDtype", "ToDtype")
_NOTHING = ("Identity", "ToPureTensor")


def exact_steps(transform: Any, mode: str) -> list[Any]:
    """Return the transform as a list for JSON that the core takes.

    Args:
        transform: any callable.
        mode: of the Pillow image that it is called with: "L", "RGB", or "P".

    Raises:
        NotRecognizedError: the core can't do the same to the last bit; the message says which step, and why.
    """
    image = ExactImage(mode)
    native = image.after_all(transform)
    if image.is_pillow:
        raise NotRecognizedError("the transform returns a Pillow image; end it with ToTensor or ToImage")
    return native


class ExactImage:
    """The properties of an image between two transforms.

    Args:
        mode: Pillow's mode of the image: "L", "RGB", or "P".
    """

    def __init__(self, mode: str) -> None:
        self.channels = len(mode)
        self.has_palette = mode == "P"
        self.is_pillow = True
        self.dtype = "uint8"

    def after_all(self, transform: Any) -> list[Any]:
        """Return the steps of `transform` as a list for the core, and update this to the properties of their result."""
        native: list[Any] = []
        for label, step in steps_of(transform, ""):
            try:
                specs = self._after(step)
                _refuse_lengths(specs)
                compiled(as_json(specs))  # The core refuses wrong arguments, too.
                native += specs
            except _ERRORS as error:
                raise NotRecognizedError(f"{label}{name_of(step)}: {error}") from None
        return native

    def _after(self, step: Any) -> list[Any]:
        name = type(step).__name__
        if is_exactly(step, _PRESETS, ("ImageClassification",)):
            return self.after_all(_steps_of_preset(step))
        is_v1 = is_exactly(step, _V1, _KNOWN)
        if not is_v1 and not is_exactly(step, _V2, _KNOWN):
            raise NotRecognizedError(_not_known(step))
        if name in _NOTHING:
            return []
        if name in PILLOW_STEPS:
            return self._of_pillow(step, is_v1=is_v1)
        if name in _MOVES:
            self._check_move(step, name)
            spec: Any = own_of(step, is_pillow=False).spec()
            return list(spec)
        return _AFTER[name](self, step, is_v1)

    def _of_pillow(self, step: Any, *, is_v1: bool) -> list[Any]:
        if not self.is_pillow:
            return self._repeated(step, is_v1=is_v1)
        if self.has_palette:
            raise NotRecognizedError(_WITH_PALETTE)
        native, self.channels = pillow_step(step, self.channels, is_v1=is_v1)
        return native

    def _repeated(self, step: Any, *, is_v1: bool) -> list[Any]:
        """Return a step that repeats the channel of a gray tensor: it copies without computing."""
        name = type(step).__name__
        channels = {"RGB": 3, "Grayscale": getattr(step, "num_output_channels", None)}.get(name)
        if is_v1 or self.channels != 1 or channels not in (1, 3):
            raise NotRecognizedError(_OF_TENSORS)
        self.channels = channels
        return ["RGB"] if channels == 3 else []

    def _kept(self, transform: Any) -> list[Any]:
        """Return the steps of a transform that is not always run, or not here: they must keep the kind of image."""
        before = dict(vars(self))
        native = self.after_all(transform)
        if vars(self) != before:
            raise NotRecognizedError("it changes the kind of image, but not always")
        return native

    def _apply(self, step: Any, is_v1: bool) -> list[Any]:
        p = probability_of_v1(step.p) if is_v1 else float(step.p)
        native = [each for part in step.transforms for each in self._kept(part)]
        return [{"RandomApply": {"transforms": native, "p": p}}]

    def _composed(self, step: Any) -> list[Any]:
        """Return the transforms of `step`, each as one for the core."""
        return [{"Compose": {"transforms": self._kept(part)}} for part in step.transforms]

    def _choice(self, step: Any, is_v1: bool) -> list[Any]:
        if is_v1:
            return [{"RandomChoiceByPython": {"transforms": self._composed(step), "cumulative": _cumulative(step)}}]
        shares = torch.tensor(step.p, dtype=torch.float32)
        if shares.shape != (len(step.transforms),) or not (
            shares.isfinite().all() and shares.min() >= 0 < shares.max()
        ):
            raise NotRecognizedError(f"p={step.p!r}: expected a probability for each transform")
        check_choices()
        return [{"RandomChoice": {"transforms": self._composed(step), "p": shares.tolist()}}]

    def _order(self, step: Any, is_v1: bool) -> list[Any]:
        return [{"RandomOrderByPython" if is_v1 else "RandomOrder": {"transforms": self._composed(step)}}]

    def _erase(self, step: Any, is_v1: bool) -> list[Any]:
        if self.is_pillow or self.dtype != "float32":
            raise NotRecognizedError("the image is not a tensor of float32")
        spec: Any = own_of(step, is_pillow=False).spec()
        (arguments,) = spec[0].values()
        if arguments["value"] == "random":
            check_normal_deviates()
        elif not all(map(math.isfinite, arguments["value"]["color"])):
            raise NotRecognizedError(f"value is {step.value!r}, not made of finite numbers")
        elif len(arguments["value"]["color"]) not in (1, self.channels):
            raise NotRecognizedError(f"value={step.value!r}: the image has {self.channels} channels")
        arguments["log_ratio"] = _log_ratio(step, is_v1=is_v1)
        return [{"RandomErasing": arguments}]

    def _to_tensor(self, step: Any, _: bool) -> list[Any]:
        if not self.is_pillow:
            raise NotRecognizedError("the image is a tensor already")
        self.is_pillow = False
        if type(step).__name__ != "ToTensor":
            return []
        self.dtype = "float32"
        return [{"ToDtype": {"dtype": "float32", "values": "divided"}}]

    def _to_dtype(self, step: Any, is_v1: bool) -> list[Any]:
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

    def _normalize(self, step: Any, _: bool) -> list[Any]:
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

    def _resize(self, step: Any, is_v1: bool) -> list[Any]:
        spec: Any = own_of(step, is_pillow=False).spec()
        (arguments,) = spec[0].values()
        if self.is_pillow:
            if step.antialias is False:
                raise NotRecognizedError("antialias=False: torchvision warns of it with each image")
            arguments["antialias"] = resize_method()
            if self.has_palette:  # Pillow resizes indices in no other way.
                arguments["interpolation"] = "nearest"
        else:
            arguments["antialias"] = self._tensor_resize(step, arguments["interpolation"], is_v1=is_v1)
        name = type(step).__name__
        if name == "RandomResizedCrop":
            arguments["log_ratio"] = _log_ratio(step, is_v1=is_v1)
        return [{name: arguments}]

    def _tensor_resize(self, step: Any, interpolation: str, *, is_v1: bool) -> str:
        """Return the core's way to resize a tensor."""
        if is_v1:
            raise NotRecognizedError(_OF_TENSORS)
        if self.dtype != "uint8" or interpolation not in ("bilinear", "bicubic") or step.antialias is not True:
            raise NotRecognizedError(f"{_OF_TENSORS}; only uint8, bilinear or bicubic, with antialias is recognized")
        return check_tensor_resize(interpolation)

    def _check_move(self, step: Any, name: str) -> None:
        """Refuse transforms that do not move pixels as the core does."""
        if name not in ("Pad", "RandomCrop"):
            return
        if self.is_pillow and self.has_palette and (name == "Pad" or step.padding is not None or step.pad_if_needed):
            raise NotRecognizedError(_WITH_PALETTE)
        if step.padding is not None:
            sides = step.padding if name == "RandomCrop" and len(_list(step.padding)) == 4 else padding_of(step.padding)
            if min(_list(sides)) < 0:
                raise NotRecognizedError("negative padding")
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


# What an attribute of a kind that torchvision does not expect may raise.
_ERRORS = (
    *(AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError),
    NotRecognizedError,
)
_WITH_PALETTE = "the image has a palette"
_MOST_PIXELS = 1 << 17
# Integers below are floats, too.
_EXACT = 1 << 53
_OF_TENSORS = "its values may differ in the last bit from those for tensors"
_AFTER: dict[str, Callable[[ExactImage, Any, bool], list[Any]]] = {
    **dict.fromkeys(_TO_TENSOR, ExactImage._to_tensor),
    **dict.fromkeys(_TO_DTYPE, ExactImage._to_dtype),
    "Normalize": ExactImage._normalize,
    "RandomApply": ExactImage._apply,
    "RandomChoice": ExactImage._choice,
    "RandomErasing": ExactImage._erase,
    "RandomOrder": ExactImage._order,
    "RandomResizedCrop": ExactImage._resize,
    "Resize": ExactImage._resize,
}
_KNOWN = (*_MOVES, *_NOTHING, *PILLOW_STEPS, *_AFTER)


def _refuse_lengths(spec: Any) -> None:
    """Refuse integers that can only be mistakes, such as a size for which no memory would suffice."""
    if isinstance(spec, int) and abs(spec) > _MOST_PIXELS:
        raise NotRecognizedError(f"{spec} is too large for a length in pixels")
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, (list, tuple)) else ():
        _refuse_lengths(part)


def _cumulative(step: Any) -> list[float] | None:
    """Return the sums of the weights of a `RandomChoice` of v1, as `random.choices` adds them."""
    if step.p is None:
        return None
    if len(step.p) != len(step.transforms) or not all(type(each) in (int, float) for each in step.p):
        raise NotRecognizedError(f"p={step.p!r}: expected a weight for each transform")
    sums = list(accumulate(step.p))
    if not all(abs(each) < _EXACT for each in sums) or sums[-1] <= 0.0:  # This refuses what is not a number, too.
        raise NotRecognizedError(f"p={step.p!r}: expected weights with a finite sum above 0")
    return [float(each) for each in sums]


def _log_ratio(step: Any, *, is_v1: bool) -> Any:
    """Return the logarithms between which aspect ratios are drawn, as torch computes them."""
    log_ratio = torch.log(torch.tensor(step.ratio)) if is_v1 else step._log_ratio
    if log_ratio.dtype is not torch.float32 or log_ratio.shape != (2,):
        raise NotRecognizedError("ratio is not a pair of numbers")
    return log_ratio.tolist()


def _steps_of_preset(step: Any) -> Any:
    """Return the transforms whose functions a preset calls, one after another."""
    v1 = sys.modules[_V1]
    steps = [
        v1.Resize(step.resize_size, step.interpolation, antialias=step.antialias),
        v1.CenterCrop(step.crop_size),
        v1.PILToTensor(),
        v1.ConvertImageDtype(torch.float32),
        v1.Normalize(step.mean, step.std),
    ]
    return v1.Compose(steps)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _not_known(step: Any) -> str:
    """Return the reason why this step is not in the table."""
    name = type(step).__name__
    # For transforms that this package has too, which run in Rust elsewhere.
    if name in sys.modules[__package__].__all__ and any(is_exactly(step, each, (name,)) for each in (_V1, _V2)):
        return "its values or its draws may differ in the last bit from those for Pillow images"
    return why_not(step)
