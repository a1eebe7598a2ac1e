"""torchvision's `ImageFolder`, as the core reads it: the bits that Pillow decodes, and what else is left to Pillow."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .native_dataset import Kind
from .torchvision_facts import Form, loads_by_pillow
from .torchvision_labels import listed, plain, row_of
from .transforms.exact_pillow import exact_steps
from .transforms.recognise import NotRecognizedError

_IN_COLOR = 3
_PATHS = (str, type(pathlib.Path()))


@dataclass(frozen=True)
class FileForm(Form):
    """How a class of torchvision's lists its files.

    Attributes:
        paths: returns the paths of a dataset's files.
        labels: returns their labels, as a list or a tensor with a row for each.
        loader: the name of the attribute with what opens them; None if Pillow does.
        converts: True if images are converted to color where there is no loader.
    """

    paths: Callable[[Any], Sequence[Any]] = list
    labels: Callable[[Any], Any] = list
    loader: str | None = "loader"
    converts: bool = True


def file_labels(dataset: Any, form: FileForm, *, copies: bool, is_transformed: bool) -> torch.Tensor:
    """Returns the labels of `dataset`: a copy, or the very memory of a tensor.

    Args:
        dataset: one of torchvision's.
        form: that of its class.
        copies: True for a copy in any case.
        is_transformed: True if they are transformed, so that they have to be of type int.

    Raises:
        NotRecognizedError: they have no form that a batch is made of; the message says why.
    """
    labels = form.labels(dataset)
    if type(labels) is not list:
        if is_transformed:
            raise NotRecognizedError("target_transform is called in Python: labels are tensors")
        return plain(labels, copies=copies)
    return listed(labels, (int,)) if is_transformed else listed(labels)


def file_parts(
    dataset: Any, form: FileForm, transform: Any, labels: torch.Tensor
) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Returns what the core reads in place of `dataset`, whose labels have been transformed already.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    loader = None if form.loader is None else getattr(dataset, form.loader)
    converts = form.converts or loader is not None
    if (reason := loads_by_pillow(loader)) is not None or (loader is None and form.loader and form.converts):
        raise NotRecognizedError(reason or "its loader is not torchvision's")
    paths = form.paths(dataset)
    if not paths or len(paths) != len(labels) or len(dataset) != len(paths):
        raise NotRecognizedError(f"there are {len(paths)} files and {len(labels)} labels")
    if not all(type(each) in _PATHS for each in paths):
        raise NotRecognizedError("paths are not all of type str or Path")
    joined = b"\0".join(os.fsencode(path) for path in paths)
    if joined.count(b"\0") != len(paths) - 1:
        raise NotRecognizedError("a path has a zero in it")
    row, kind = row_of(labels)
    steps = json.dumps(exact_steps(transform, _IN_COLOR))
    return _core.file_images(joined, [row], steps, _Pillow(converts=converts), converts), [0, 1], ("tensor", kind)


def _pairs(dataset: Any, name: str) -> list[tuple[Any, Any]]:
    samples = vars(dataset)[name]
    if type(samples) is not list or not samples:
        raise NotRecognizedError(f"{name} is not a list of files")
    if not all(type(each) is tuple and len(each) == 2 for each in samples):
        raise NotRecognizedError(f"{name} are not all pairs of a path and a label")
    return samples


def _of_pairs(module: str, name: str, *, loader: str | None = "loader", calls_both: bool = False) -> FileForm:
    return FileForm(
        module,
        (name,),
        calls_both,
        lambda dataset: [path for path, _ in _pairs(dataset, name)],
        lambda dataset: [label for _, label in _pairs(dataset, name)],
        loader,
    )


FILE_FORMS = {"ImageFolder": _of_pairs("folder", "samples")}


class _Pillow:
    """Reads the files that the core leaves to Pillow, on the core's threads.

    Its methods raise what Pillow raises; the batch is then made in Python, where that is raised again.

    Args:
        converts: True if images are converted to color; otherwise an image that is not in color is an error.
    """

    def __init__(self, *, converts: bool) -> None:
        self._converts = converts

    def size(self, path: bytes) -> tuple[int, int]:
        """Returns the height and the width."""
        from PIL import Image

        with open(path, "rb") as file, Image.open(file) as image:
            self._check(image)
            return image.height, image.width

    def decode(self, path: bytes) -> tuple[int, int, bytes]:
        """Returns the height, the width and the pixels, in color."""
        if self._converts:
            image = sys.modules["torchvision.datasets.folder"].pil_loader(os.fsdecode(path))
        else:
            from PIL import Image

            with open(path, "rb") as file:
                image = Image.open(file)
                self._check(image)
                image.load()
        return image.height, image.width, image.tobytes()

    def _check(self, image: Any) -> None:
        if not self._converts and image.mode != "RGB":
            raise ValueError(f"an image of mode {image.mode}, which is not converted to RGB")
