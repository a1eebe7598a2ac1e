"""torchvision's `ImageFolder`, as the core reads it: the bits that Pillow decodes, and what else is left to Pillow."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

from . import _core
from .native_dataset import Kind
from .torchvision_facts import loads_by_pillow
from .transforms.exact_pillow import exact_steps
from .transforms.recognise import NotRecognizedError

_IN_COLOR = 3


def folder_parts(dataset: Any) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Returns what the core reads in place of `dataset`, an `ImageFolder` as torchvision has it.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    if (reason := loads_by_pillow(dataset)) is not None:
        raise NotRecognizedError(reason)
    paths, labels = _files(dataset.samples)
    steps = exact_steps(dataset.transform, _IN_COLOR)
    row = ("1", "int64", labels.data_ptr(), tuple(labels.shape), (8,), labels.untyped_storage())
    return _core.file_images(paths, [row], json.dumps(steps), _Pillow()), [0, 1], ("tensor", "number")


def _files(samples: Any) -> tuple[bytes, torch.Tensor]:
    """The paths, separated by zeros, and the labels."""
    if type(samples) is not list or not samples:
        raise NotRecognizedError("samples is not a list of files")
    if not all(
        type(each) is tuple and len(each) == 2 and type(each[0]) is str and type(each[1]) is int for each in samples
    ):
        raise NotRecognizedError("samples are not all pairs of a path and an int")
    paths = b"\0".join(os.fsencode(path) for path, _ in samples)
    if paths.count(b"\0") != len(samples) - 1:
        raise NotRecognizedError("a path has a zero in it")
    return paths, torch.tensor([label for _, label in samples], dtype=torch.int64, device="cpu")


class _Pillow:
    """Reads the files that the core leaves to Pillow, on the core's threads.

    Its methods raise what Pillow raises; the batch is then made in Python, where that is raised again.
    """

    def size(self, path: bytes) -> tuple[int, int]:
        """Returns the height and the width."""
        from PIL import Image

        with open(path, "rb") as file, Image.open(file) as image:
            return image.height, image.width

    def decode(self, path: bytes) -> tuple[int, int, bytes]:
        """Returns the height, the width and the pixels, in color."""
        image = sys.modules["torchvision.datasets.folder"].pil_loader(os.fsdecode(path))
        return image.height, image.width, image.tobytes()
