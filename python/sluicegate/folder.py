"""`FolderDataset`: one file a sample."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any

from . import _core
from .native_dataset import NativeDataset, native_format


@native_format
class FolderDataset(NativeDataset):
    """The files below a folder: sample i is `{"bytes": ..., "path": ...}` of file i.

    `bytes` is all that is in the file, and `path` its path from the folder. With `classes=True` there is a third part,
    `class`: the number of the folder at the top that the file lies in, as torchvision's `ImageFolder` counts them, in
    the order of their names; files that lie in no folder are then left out. A batch has a list of `bytes`, a list of
    `str` and an int64 tensor.

    The order is that of `ImageFolder` too: by the folder at the top, then by the whole folder, then by name, each by
    its bytes. The files are found at once and opened when they are read. What is no regular file is left out. Names
    that are not UTF-8 are decoded as Python does it everywhere (`os.fsdecode`), so that
    `os.path.join(dataset.root, path)` opens the file.

    A map-style dataset as any other, under torch's own loader too. `sluicegate.DataLoader` reads it in Rust. It can be
    pickled: the arguments travel, and the folder is read again on the other side.

    Args:
        root: the folder; or a pattern as of `glob`, such as `photos/*/*.jpg`: its folder is what comes before the first
            of the signs `*`, `?` and `[`, and the rest must match the path from there.
        extensions: the ends of the names that are meant, such as `(".jpg", ".png")`, in upper or lower case.
        classes: whether the folders at the top are classes.
        follow_links: whether symbolic links may lead out of the folder. Those that stay inside are always followed.

    Attributes:
        root: the folder, as an absolute path.
        classes: the names of the classes, by number; none without `classes=True`.
        class_to_idx: the numbers by the names.

    Raises:
        FileNotFoundError: there is no such folder, no file is meant, or a link leads nowhere.
        ValueError: a link leads out of the folder, or to a folder that it lies in itself; or a class has no file.
        OSError: a folder can't be read; or, while reading, a file changed.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.txt", "dog/2.txt"):
        ...     (folder / name).parent.mkdir()
        ...     _ = (folder / name).write_text(f"this is {name}")
        >>> FolderDataset(folder, classes=True)[1]
        {'bytes': b'this is dog/2.txt', 'path': 'dog/2.txt', 'class': 1}
    """

    def __init__(
        self,
        root: str | bytes | os.PathLike[str],
        *,
        extensions: str | Sequence[str] = (),
        classes: bool = False,
        follow_links: bool = False,
    ) -> None:
        path = os.path.abspath(os.fsdecode(root))
        self.root, self.pattern = (path, None) if os.path.isdir(path) else _split(path)
        ends = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        self.extensions = tuple(end if end.startswith(".") else f".{end}" for end in ends)
        self.has_classes = classes
        self.follow_links = follow_links
        self._open()

    def _open(self) -> None:
        core, names = _core.Dataset.folder(
            self.root, self.pattern, list(self.extensions), self.has_classes, self.follow_links
        )
        if len(core) == 0:
            meant = f" matches {self.pattern!r}" if self.pattern else ""
            ends = f" ends in {' or '.join(self.extensions)}" if self.extensions else ""
            raise FileNotFoundError(f"no file below {self.root!r}{' that' * bool(meant or ends)}{meant}{ends}")
        self.classes = names
        self.class_to_idx = {name: number for number, name in enumerate(names)}
        structure: dict[str, Any] = {"bytes": 0, "path": 1}
        kinds = ["bytes", "path"]
        if self.has_classes:
            structure["class"] = 2
            kinds.append("number")
        self._set_core(core, structure, kinds)

    def __repr__(self) -> str:
        """The constructor's call."""
        root = self.root if self.pattern is None else os.path.join(self.root, self.pattern)
        return f"FolderDataset({root!r}, extensions={self.extensions}, classes={self.has_classes})"


def _split(path: str) -> tuple[str, str | None]:
    """The folder that a pattern begins with, and the rest of it."""
    parts = path.split(os.sep)
    magic = next((place for place, part in enumerate(parts) if glob.has_magic(part)), None)
    if magic is None:
        return path, None
    return os.sep.join(parts[:magic]) or os.sep, os.sep.join(parts[magic:])
