"""`ImageLinks`: images whose files a table names by their paths, instead of holding their bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import _core


class ImageLinks(NamedTuple):
    """The fields with the paths of images, as Hugging Face's `Image` columns have them.

    Attributes:
        paths: by the field with the bytes of an image the field with its path, which is read if there are no bytes.
        folder: where relative paths begin: the folder of the files, or, if there is no such file in it, the working
            directory, as with `datasets`. None if the files lie in several folders: relative paths are errors then.
    """

    paths: Mapping[int, int] = {}
    folder: str | None = None

    @classmethod
    def of_files(cls, paths: Mapping[int, int], files: Sequence[str | os.PathLike[str]]) -> ImageLinks:
        """Returns the links of a dataset that is read from `files`."""
        folders = {os.path.dirname(os.path.abspath(os.fsdecode(file))) for file in files}
        return cls(paths, folders.pop() if len(folders) == 1 else None)

    def core(self) -> tuple[list[tuple[int, int]], str | None]:
        """Returns the links as the core takes them."""
        return list(self.paths.items()), self.folder

    def read(self, path: str) -> bytes:
        """Returns the bytes of the image file at `path`; a DamagedImageError if it cannot be read."""
        return _core.linked_image(path, self.folder)


NO_LINKS = ImageLinks()
