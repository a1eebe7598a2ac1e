"""`FolderDataset`: the files below a folder, one per sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import has_magic
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import NativeDataset, leaves_out, native_format
from sluicegate.paths import Paths, local, matches, without_braces


@native_format
class FolderDataset(NativeDataset):
    """The files below a folder: sample i is `{"bytes": ..., "path": ...}` of file i.

    `bytes` is the whole content of the file, and `path` its path relative to the folder. With `classes=True` there is a
    third field, `class`: the number of the top-level folder that contains the file, in the order of the folders' names,
    as in torchvision's `ImageFolder`; files outside any such folder are then left out. A batch has a list of `bytes`, a
    list of `str` and an int64 tensor.

    The order is also that of `ImageFolder`: by top-level folder, then by folder path, then by name, each compared as
    bytes. Files are listed when the dataset is created and opened when they are read. Anything that is not a regular
    file is left out. Names that are not UTF-8 are decoded with `os.fsdecode`, so that `os.path.join(dataset.root,
    path)` opens the file.

    Several folders are concatenated in the given order. Their `root` is then their common parent folder, and `path` is
    relative to it. A class is a top-level folder of any of them; equal names are one class.

    A map-style dataset that also works under torch's own loader. `sluicegate.DataLoader` reads it in Rust. It can be
    pickled: only the arguments are, and unpickling lists the folder again. It is thread-safe.

    Args:
        root: the folder, or several: a list, a brace range (`photos-{00..15}`), or a pattern that matches folders
            (`photos-*`). Or a `glob` pattern of files, such as `photos/*/*.jpg`: its folder is the part before the
            first `*`, `?` or `[`, and the rest must match the path from there.
        extensions: the file name endings to include, such as `(".jpg", ".png")`, ignoring case. Default: all.
        classes: True if the top-level folders are classes.
        follow_links: True if symbolic links may lead out of the folder. Links that stay inside are always followed.
        on_error: "raise", or "skip": files that cannot be opened, and broken links, are excluded when the dataset is
            opened, from `len`, indices, ids and batches. This opens each file once, in every process that opens the
            dataset; file contents are not checked.

    Attributes:
        root: the folder, as an absolute path.
        folders: if there are several, their paths relative to `root`; otherwise one empty path.
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.
        classes: the class names, by number; empty without `classes=True`.
        class_to_idx: the class numbers, by name.

    Raises:
        FileNotFoundError: the folder does not exist, no file matches, or a link is broken.
        ValueError: a link leads out of the folder, or to a folder that contains it; or a class has no file.
        OSError: a folder cannot be read; or, while reading, a file changed.

    Examples:
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
        root: Paths,
        *,
        extensions: str | Sequence[str] = (),
        classes: bool = False,
        follow_links: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        folders, self.pattern = _folders(root)
        self.root = os.path.commonpath(folders)
        self.folders = tuple("" if path == self.root else os.path.relpath(path, self.root) for path in folders)
        ends = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        self.extensions = tuple(end if end.startswith(".") else f".{end}" for end in ends)
        self.has_classes = classes
        self.follow_links = follow_links
        self.on_error = on_error
        self._open()

    def _open(self) -> None:
        core, names, self.damages = _core.folder_dataset(
            self.root,
            list(self.folders),
            self.pattern,
            list(self.extensions),
            self.has_classes,
            self.follow_links,
            leaves_out(self.on_error),
        )
        if len(core) == 0 and not self.damages:
            meant = f" matches {self.pattern!r}" if self.pattern else ""
            ends = f"{' and' * bool(meant)} ends in {' or '.join(self.extensions)}" if self.extensions else ""
            raise FileNotFoundError(
                f"root: no file in {self.root!r} or its subfolders{' that' * bool(meant or ends)}{meant}{ends}"
            )
        self.classes = names
        self.class_to_idx = {name: number for number, name in enumerate(names)}
        structure: dict[str, Any] = {"bytes": 0, "path": 1}
        kinds = ["bytes", "path"]
        if self.has_classes:
            structure["class"] = 2
            kinds.append("number")
        self._set_core(core, structure, kinds)

    def _shown(self) -> str:
        first = os.path.join(self.root, *filter(None, (self.folders[0], self.pattern)))
        root = repr(first) if len(self.folders) == 1 else f"[{first!r}, ... {len(self.folders)} folders]"
        return f"{root}, extensions={self.extensions}, classes={self.has_classes}"


def _folders(root: Paths) -> tuple[list[str], str | None]:
    """Return the folders that `root` names, as absolute paths, and the pattern of their files, if there is one."""
    roots = [root] if isinstance(root, (str, bytes, os.PathLike)) else list(root)
    found = [part for each in roots for part in _of_one(local("root", each))]
    if not found:
        raise ValueError("root: expected at least one folder, but got an empty list")
    patterns = list(dict.fromkeys(pattern for _, pattern in found))
    if len(patterns) > 1:
        raise ValueError(f"root: expected one pattern for the files of all folders, but got {patterns}")
    return [folder for folder, _ in found], patterns[0]


def _of_one(path: str) -> list[tuple[str, str | None]]:
    if os.path.isdir(path):
        return [(path, None)]
    found: list[tuple[str, str | None]] = []
    for each in without_braces(path):
        # `**` is not expanded here. Matches are not listed, because there may be very many files.
        pattern = os.sep.join("*" if part == "**" else part for part in each.split(os.sep))
        first = [] if os.path.isdir(each) else matches(pattern, most=1)
        folders = matches(pattern) if first and os.path.isdir(first[0]) else []
        if folders and all(map(os.path.isdir, folders)):
            found += [(folder, None) for folder in folders]
        else:
            found.append((each, None) if os.path.isdir(each) else _split(each))
    return found


def _split(path: str) -> tuple[str, str | None]:
    """Split a pattern into the folder it begins with and the rest."""
    parts = path.split(os.sep)
    magic = next((place for place, part in enumerate(parts) if has_magic(part)), None)
    if magic is None:
        return path, None
    return os.sep.join(parts[:magic]) or os.sep, os.sep.join(parts[magic:])
