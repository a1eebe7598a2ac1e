"""torchvision's `FakeData`, as the core makes its samples.

A sample is a normal deviate for each value, times 255, as a Pillow image, and a label, drawn from a generator with a
seed of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.transforms.exact_pillow import exact_steps
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.specification import as_json
from sluicegate.transforms.torchs_draws import check_normal_deviates

from .torchvision_facts import Form

_MODES = {1: "L", 3: "RGB"}
_MOST_SEEDS = 1 << 63
_MOST_LABELS = 1 << 28
_MOST_VALUES = 1 << 28


@dataclass(frozen=True)
class FakeForm(Form):
    """How `FakeData` describes its samples."""


FAKE_FORMS = {
    "FakeData": FakeForm("fakedata", (), settings=("size", "num_classes", "image_size", "random_offset")),
}


def fake_parts(dataset: Any, transform: Any, *, in_worker: bool) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Return the parts that the core reads in place of `dataset`.

    Args:
        dataset: one of torchvision's.
        transform: the callable for an image.
        in_worker: True if torch would make the samples in worker processes.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    if not in_worker and torch.accelerator.is_available():
        raise NotRecognizedError("each sample seeds the generators of the devices, too; pass num_workers=1 or more")
    size, labels, shape, offset = dataset.size, dataset.num_classes, dataset.image_size, dataset.random_offset
    if type(shape) is not tuple or len(shape) != 3 or not all(type(each) is int and each > 0 for each in shape):
        raise NotRecognizedError(f"image_size={shape!r}: expected a tuple of three lengths")
    channels, height, width = shape
    if channels not in _MODES or channels * height * width > _MOST_VALUES:
        raise NotRecognizedError(f"image_size={shape!r}: only images with 1 or 3 channels are recognized")
    for name, value, most in (("size", size, _MOST_SEEDS), ("num_classes", labels, _MOST_LABELS)):
        if type(value) is not int or not 0 < value < most:
            raise NotRecognizedError(f"{name}={value!r}: expected an integer above 0")
    if type(offset) is not int or not 0 <= offset < _MOST_SEEDS - size:
        raise NotRecognizedError(f"random_offset={offset!r}: expected an integer of at least 0")
    check_normal_deviates()
    steps = exact_steps(transform, _MODES[channels])
    return _core.fake_images(size, offset, labels, shape, as_json(steps)), [0, 1], ("tensor", "number")
