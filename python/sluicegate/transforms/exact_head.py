"""`exact_heads`: the first transforms of a pipeline that the core runs bit for bit, with a later one in Python."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from sluicegate import _core

from .called import is_exactly
from .exact_pillow import ExactImage
from .leaves import marked_image
from .recognize import NotRecognizedError
from .specification import as_json
from .v1 import inside

_COMPOSED = "torchvision.transforms", "torchvision.transforms.v2"
_TO_TENSOR = ("ToTensor", "PILToTensor", "ToImage")
# For tensors. Other transforms return views, whose strides are visible to other code.
_OF_TENSORS = ("ConvertImageDtype", "Normalize", "ToDtype", "ToPureTensor")
# For Pillow images, the transforms that keep the metadata of the file (`Image.info`): others, such as changes of
# brightness, drop it, some only for some of their draws.
_KEEP_INFO = (
    *("CenterCrop", "RandomCrop", "RandomResizedCrop", "Resize", "RandomHorizontalFlip", "RandomVerticalFlip"),
    *("RandomAffine", "RandomRotation", "Grayscale", "RandomGrayscale", "RGB", "RandomInvert", "RandomPosterize"),
    *("RandomSolarize", "RandomAutocontrast", "RandomEqualize"),
)
_DTYPES = {"uint8": torch.uint8, "float32": torch.float32}


@dataclass(frozen=True)
class ExactHead:
    """A pipeline, divided into its head, which the core runs, and the rest, which is called.

    Attributes:
        core: runs the head.
        steps: torchvision's transforms that the head replaces, in order.
        rest: torchvision's `Compose` of the transforms after them; None if there are none.
        dtype: of the tensor that the head makes; None if it makes a Pillow image.
        is_last: True if the channels of that tensor are last in memory, as in the image that torchvision makes it of.
        is_marked: True if it is a `torchvision.tv_tensors.Image`.
    """

    core: _core.PillowHead
    steps: tuple[Any, ...]
    rest: Any
    dtype: torch.dtype | None
    is_last: bool
    is_marked: bool

    def run(self, encoded: bytes, generator: object | None) -> Any:
        """Return the head's result for a JPEG file; None, without draws, if it must be left to Pillow.

        Args:
            encoded: the bytes of the file.
            generator: the way to the generator that random transforms draw from, a `fastest_torch_access`.
        """
        made = self.core.run(encoded, generator if self.core.is_random else None)
        if made is None:
            return None
        shape, values = made
        if self.dtype is None:
            return _pillow_image(values, shape)
        tensor = torch.frombuffer(values, dtype=self.dtype).view(shape)
        tensor = tensor.permute(2, 0, 1) if self.is_last else tensor
        return marked_image(tensor) if self.is_marked else tensor

    def in_python(self, image: Any) -> Any:
        """Return the result of torchvision's own transforms for a Pillow image."""
        for step in self.steps:
            image = step(image)
        return image


def exact_heads(transform: Any) -> list[ExactHead]:
    """Return the heads of a pipeline of color images: the longest one, then the longest that ends with a Pillow image.

    Args:
        transform: any callable; only torchvision's `Compose` has a head.
    """
    if not any(is_exactly(transform, module, ("Compose",)) for module in _COMPOSED):
        return []
    image = ExactImage("RGB")
    steps: list[Any] = []
    native: list[Any] = []
    heads: dict[bool, ExactHead] = {}
    is_last = is_marked = False
    keeps_info = True
    for number, step in enumerate(transform.transforms, 1):
        was_pillow, name = image.is_pillow, type(step).__name__
        try:
            added = image.after_all(step)
        except NotRecognizedError:
            break
        if _draws_from_python(step):
            break  # Only torch's generator is at hand where heads run.
        if not image.is_pillow and name not in (_TO_TENSOR if was_pillow else _OF_TENSORS):
            break
        if is_marked and is_exactly(step, _COMPOSED[0], (name,)):
            break  # v1 keeps some marks and drops others
        keeps_info = keeps_info and _keeps_info(step)
        if was_pillow and not image.is_pillow:
            is_last, is_marked = name != "ToTensor", name == "ToImage"
        is_marked = is_marked and name != "ToPureTensor"
        steps.append(step)
        native += added
        if image.is_pillow and not keeps_info:
            continue
        rest = list(transform.transforms)[number:]
        heads[image.is_pillow] = ExactHead(
            _core.PillowHead(as_json(native), image.is_pillow or is_last),
            tuple(steps),
            type(transform)(rest) if rest else None,
            None if image.is_pillow else _DTYPES[image.dtype],
            is_last,
            is_marked,
        )
    return [heads[is_pillow] for is_pillow in (False, True) if is_pillow in heads]


def _draws_from_python(step: Any) -> bool:
    return is_exactly(step, _COMPOSED[0], ("RandomChoice", "RandomOrder")) or any(map(_draws_from_python, inside(step)))


def _keeps_info(step: Any) -> bool:
    parts = list(inside(step))
    if parts:
        return all(map(_keeps_info, parts))
    return type(step).__name__ in _KEEP_INFO and not getattr(step, "pad_if_needed", False)


def _pillow_image(values: bytearray, shape: list[int]) -> Any:
    height, width, channels = shape
    image = importlib.import_module("PIL.Image")
    return image.frombytes("L" if channels == 1 else "RGB", (width, height), bytes(values))
