"""`ImageLinks`: images whose files are named by paths in a table, instead of stored in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sluicegate import _core


class ImageLinks(NamedTuple):
    """The fields with the paths of images, as in Hugging Face's `Image` columns.

    Attributes:
        paths: maps the field with the bytes of an image to the field with its path, which is read if there are no
            bytes.
        folder: the base of relative paths: the folder of the files, or, if that has no such file, the working
            directory, as in `datasets`. None if the files are in several folders: relative paths are errors then.
    """

    paths: Mapping[int, int] = {}
    folder: str | None = None

    @classmethod
    def of_files(cls, paths: Mapping[int, int], files: Sequence[str | os.PathLike[str]]) -> ImageLinks:
        """Return the links of a dataset that is read from `files`."""
        folders = {os.path.dirname(os.path.abspath(os.fsdecode(file))) for file in files}
        return cls(paths, folders.pop() if len(folders) == 1 else None)

    def core(self) -> tuple[list[tuple[int, int]], str | None]:
        """Return the links as the core takes them."""
        return list(self.paths.items()), self.folder

    def read(self, path: str) -> bytes:
        """Return the bytes of the image file at `path`.

        Raises:
            DamagedImageError: it cannot be read.
        """
        return _core.linked_image(path, self.folder)


NO_LINKS = ImageLinks()
