"""`pillow_files`: image files that torchvision opens with Pillow, as the core reads them."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from sluicegate import _core
from sluicegate.transforms.exact_pillow import exact_steps
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.specification import as_json

_PATHS = (str, type(pathlib.Path()))
# The mode of files that are all converted to color.
_CONVERTED = "converted"


def pillow_files(
    paths: Sequence[Any], rows: Sequence[Any], transform: Any, mode: str, folder: str | None
) -> _core.Dataset:
    """Return images in files, and other fields, as the core reads them.

    Args:
        paths: the paths of the files.
        rows: the other fields.
        transform: called with each image.
        mode: "converted" if all images are converted to color; otherwise Pillow's mode of the files.
        folder: the folder that relative paths start from; None for the current directory at the time of reading.

    Raises:
        NotRecognizedError, ValueError: the core can't read them; the message says why.
    """
    if not all(type(each) in _PATHS for each in paths):
        raise NotRecognizedError("paths are not all of type str or Path")
    joined = b"\0".join(os.fsencode(path) for path in paths)
    if joined.count(b"\0") != len(paths) - 1:
        raise NotRecognizedError("a path contains a NUL byte")
    steps = as_json(exact_steps(transform, "RGB" if mode == _CONVERTED else mode))
    return _core.file_images(joined, rows, steps, _Pillow(mode), mode, folder)


class _Pillow:
    """Reads the files that the core leaves to Pillow, on the core's threads.

    Its methods raise Pillow's errors; the batch is then made in Python, which raises them again.

    Args:
        mode: as for `pillow_files`; an image of another mode is an error.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def size(self, path: bytes) -> tuple[int, int]:
        """Return the height and the width."""
        from PIL import Image

        with open(path, "rb") as file, Image.open(file) as image:
            self._check(image)
            return image.height, image.width

    def decode(self, path: bytes) -> tuple[int, int, bytes]:
        """Return the height, the width and the pixels."""
        if self._mode == _CONVERTED:
            image = sys.modules["torchvision.datasets.folder"].pil_loader(os.fsdecode(path))
        else:
            from PIL import Image

            with open(path, "rb") as file:
                image = Image.open(file)
                self._check(image)
                image.load()
                self._check(image)
        return image.height, image.width, image.tobytes()

    def _check(self, image: Any) -> None:
        if self._mode not in (_CONVERTED, image.mode):
            raise ValueError(f"expected an image of mode {self._mode}, but got mode {image.mode}")
