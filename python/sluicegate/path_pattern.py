"""`matches`: the paths that a pattern of names stands for.

They are those of `glob.glob(pattern, recursive=True)`, except that glob silently skips folders that it could not read:
a process that has run out of file descriptors would get a shorter dataset without any error.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterator
from glob import has_magic

# Errors that a shell skips, too: the path is gone, not a folder, or not permitted.
_PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)

__all__ = ["has_magic", "matches"]


def matches(pattern: str) -> Iterator[str]:
    """Yield the paths that match, in no particular order, some of them twice if `**` occurs twice.

    `*`, `?` and `[...]` match within one name, and `**` matches any number of folders. A name that begins with a dot is
    matched only by a pattern that begins with one. Folders without read permission are skipped.

    Raises:
        OSError: a folder can't be read for another reason: there are no file descriptors left, or the disk is failing.
    """
    start = os.sep if pattern.startswith(os.sep) else ""
    parts = pattern.split(os.sep)
    # Consecutive slashes count as one, except at the end: a slash there asks for folders.
    return _matches(start, [part for part in parts[:-1] if part] + parts[-1:], ())


def _matches(folder: str, parts: list[str], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _at_any_depth(folder, rest, above)
    elif has_magic(part):
        for entry in _entries(folder, part):
            path = os.path.join(folder, entry.name)
            if not rest:
                yield path
            elif _is_folder(entry):
                yield from _matches(path, rest, above)
    else:
        path = os.path.join(folder, part)
        # With nothing after the last slash it must be a folder, which the `stat` shows.
        if rest:
            yield from _matches(path, rest, above)
        elif path and _looked_at(path) is not None:
            yield path


def _at_any_depth(folder: str, rest: list[str], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    found = _looked_at(os.path.join(folder, ""))
    # A link to a folder that contains it would recurse forever.
    if found is None or (identity := (found.st_dev, found.st_ino)) in above:
        return
    if rest:
        yield from _matches(folder, rest, above)
    elif folder:
        yield folder
    for entry in _entries(folder, "*"):
        path = os.path.join(folder, entry.name)
        if _is_folder(entry):
            yield from _at_any_depth(path, rest, (*above, identity))
        elif not rest:
            yield path


def _entries(folder: str, part: str) -> Iterator[os.DirEntry[str]]:
    """Return the matching entries of the folder. All are read at once, so that only one folder is open at a time."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            found = list(entries)
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return iter(())
    names = set(fnmatch.filter([entry.name for entry in found], part))
    return (entry for entry in found if entry.name in names and (part[0] == "." or entry.name[0] != "."))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return False


def _looked_at(path: str) -> os.stat_result | None:
    try:
        # A link's target matters only if a folder is required.
        return os.stat(path or os.curdir) if path.endswith(os.sep) or not path else os.lstat(path)
    except ValueError:  # A null character: there is no such path.
        return None
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return None
