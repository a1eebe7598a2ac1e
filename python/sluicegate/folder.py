"""`FolderDataset`: one file a sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from . import _core
from .native_dataset import NativeDataset, leaves_out, native_format
from .path_pattern import has_magic, matches
from .paths import Paths, local, without_braces


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

    Several folders follow one another, in the order in which they are given. Their `root` is then the folder in which
    they all lie, and `path` begins there. A class is the folder at the top of each of them, and one that several have
    is one class.

    A map-style dataset as any other, under torch's own loader too. `sluicegate.DataLoader` reads it in Rust. It can be
    pickled: the arguments travel, and the folder is read again on the other side.

    Args:
        root: the folder, or several: a list of them, a range in braces (`photos-{00..15}`), a pattern that folders
            match (`photos-*`). Or a pattern of files as of `glob`, such as `photos/*/*.jpg`: its folder is what comes
            before the first of the signs `*`, `?` and `[`, and the rest must match the path from there.
        extensions: the ends of the names that are meant, such as `(".jpg", ".png")`, in upper or lower case.
        classes: whether the folders at the top are classes.
        follow_links: whether symbolic links may lead out of the folder. Those that stay inside are always followed.
        on_error: "raise", or "skip": files that can't be opened, and links that lead nowhere, are left out when the
            dataset is opened, and count for nothing: `len`, indices, ids and batches are those of what is left. Each
            file is opened once for that, in every process that opens the dataset; its contents are not looked at.

    Attributes:
        root: the folder, as an absolute path.
        folders: where there are several, their paths from there; otherwise an empty path.
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.
        classes: the names of the classes, by number; none without `classes=True`.
        class_to_idx: the numbers by the names.

    Raises:
        FileNotFoundError: there is no such folder, no file is meant, or a link leads nowhere.
        ValueError: a link leads out of the folder, or to a folder that it lies in itself; or a class has no file.
        OSError: a folder can't be read; or, while reading, a file changed.

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
        core, names, self.damages = _core.Dataset.folder(
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

    def _shown(self) -> str:
        first = os.path.join(self.root, *filter(None, (self.folders[0], self.pattern)))
        root = repr(first) if len(self.folders) == 1 else f"[{first!r}, ... {len(self.folders)} folders]"
        return f"{root}, extensions={self.extensions}, classes={self.has_classes}"


def _folders(root: Paths) -> tuple[list[str], str | None]:
    """The folders that are meant, as absolute paths, and the pattern of their files, if there is one."""
    roots = [root] if isinstance(root, (str, bytes, os.PathLike)) else list(root)
    found = [part for each in roots for part in _of_one(local("root", each))]
    if not found:
        raise ValueError("root: expected at least one folder, but got an empty list")
    patterns = list(dict.fromkeys(pattern for _, pattern in found))
    if len(patterns) > 1:
        raise ValueError(f"root: several folders have one pattern for their files, but got {patterns}")
    return [folder for folder, _ in found], patterns[0]


def _of_one(path: str) -> list[tuple[str, str | None]]:
    if os.path.isdir(path):
        return [(path, None)]
    found: list[tuple[str, str | None]] = []
    for each in without_braces(path):
        # What lies at any depth is not looked for here, and what matches may be very many files: they are not listed.
        pattern = os.sep.join("*" if part == "**" else part for part in each.split(os.sep))
        first = None if os.path.isdir(each) else next(matches(pattern), None)
        folders = sorted(matches(pattern)) if first is not None and os.path.isdir(first) else []
        if folders and all(map(os.path.isdir, folders)):
            found += [(folder, None) for folder in folders]
        else:
            found.append((each, None) if os.path.isdir(each) else _split(each))
    return found


def _split(path: str) -> tuple[str, str | None]:
    """The folder that a pattern begins with, and the rest of it."""
    parts = path.split(os.sep)
    magic = next((place for place, part in enumerate(parts) if has_magic(part)), None)
    if magic is None:
        return path, None
    return os.sep.join(parts[:magic]) or os.sep, os.sep.join(parts[magic:])
