"""Paths as users give them: one, several, or a pattern for several."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from glob import has_magic
from typing import Any

from . import _core

Path = str | bytes | os.PathLike[str]
Paths = Path | Iterable[Path]

# Innermost braces: a range of numbers, or alternatives.
_BRACES = re.compile(r"\{(?:(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([^{}]*,[^{}]*))\}")

# The scheme of a URL; "file:" may be followed by one slash only.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):/")

# By scheme: a way to download a URL, and a command that writes its contents to standard output.
_DOWNLOADS = {"hf": "huggingface_hub.snapshot_download", "s3": "aws s3 cp", "gs": "gcloud storage cp"}
_PROGRAMS = {
    "http": "curl -sfL",
    "https": "curl -sfL",
    "s3": "aws s3 cp",
    "gs": "gcloud storage cat",
}

# A pattern for more paths than this is a typo: the file system is not asked for so many.
_MOST = 1_000_000


def expand(paths: Paths) -> list[str]:
    """Return the files that `paths` stand for, as absolute paths: never an empty list.

    A path that exists is taken as it is, whatever its name contains. In any other, braces are expanded first, as in a
    shell:

    - a range `{000..009}` (`{0..90..10}` in steps; with leading zeros all numbers get the same number of digits);
    - alternatives `{train,test}`.

    Then `*`, `?`, `[...]` and `**` stand for the matching files, sorted by name, character by character: `10` comes
    before `2`. A path without such characters need not exist.

    Args:
        paths: one path, or several, whose order is kept.

    Raises:
        FileNotFoundError: no file matches a pattern, which the message names.
        OSError: a folder along a pattern can't be read, although it exists and its permissions allow it.
        ValueError: an empty list; braces that stand for more than a million paths; a URL.
        TypeError: not a path.

    Examples:
        >>> [os.path.basename(path) for path in expand("shard-{08..10}.{bin,idx}")][:3]
        ['shard-08.bin', 'shard-08.idx', 'shard-09.bin']
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        found = list(_matching(os.fsdecode(paths)))
    else:
        each = paths if isinstance(paths, Iterable) else [paths]
        found = list(itertools.chain.from_iterable(_matching(os.fsdecode(_checked(path))) for path in each))
    if not found:
        raise ValueError("paths: expected at least one, but got an empty list")
    return found


def local(argument: str, path: Path, *, is_written: bool = False) -> str:
    """Return `path` as an absolute path.

    Args:
        argument: the name of the argument, for messages.
        path: a path that may not exist yet.
        is_written: True for a path that is written.

    Raises:
        ValueError: it is a URL.
        TypeError: it is not a path.
    """
    text = os.fsdecode(_checked(path, f"{argument}: expected a path"))
    _refuse_url(argument, text, is_written=is_written)
    return os.path.abspath(text)


def _refuse_url(argument: str, path: str, *, is_written: bool = False) -> None:
    scheme = _SCHEME.match(path)
    if scheme is None or os.path.lexists(path):
        return
    name = (scheme.group(1) or scheme.group(2)).lower()
    if is_written and name != "file":
        raise ValueError(
            f"{argument}: only local files are written, got the URL {path!r}; write to a local folder, and upload it"
        )
    if name == "file":
        remedy = "pass the path without the scheme"
    else:
        program = _PROGRAMS.get(name)
        remedy = f"download it first ({_DOWNLOADS.get(name, program or 'with its own tools')})"
        if program is not None:
            end = " -" if name == "s3" else ""
            remedy += f", or pass 'pipe:{program} URL{end}' to a stream of its format, such as TarStream"
    raise ValueError(f"{argument}: only local files are read, got the URL {path!r}; {remedy}")


def listed(paths: Sequence[str]) -> str:
    """Return the paths for a constructor's `repr`: a single one as it is, of several the first and the number."""
    return repr(paths[0]) if len(paths) == 1 else f"[{paths[0]!r}, ... {len(paths)} files]"


def _checked(path: Any, expected: str = "paths: expected one or more paths") -> Path:
    if isinstance(path, (str, bytes, os.PathLike)):
        return path
    raise TypeError(f"{expected}, but got {path!r} ({type(path).__name__})")


def _matching(path: str) -> Iterator[str]:
    if os.path.lexists(path):
        yield os.path.abspath(path)
        return
    _refuse_url("paths", path)
    if sum(1 for _ in itertools.islice(without_braces(path), _MOST + 1)) > _MOST:
        raise ValueError(f"paths: expected at most {_MOST:,} paths, but got more from {path!r}")
    for pattern in without_braces(path):
        if os.path.lexists(pattern) or not has_magic(pattern):
            yield os.path.abspath(pattern)
            continue
        found = matches(pattern)
        if not found:
            of = "" if pattern == path else f" (of {path!r})"
            raise FileNotFoundError(f"no file matches {pattern!r}{of}")
        yield from map(os.path.abspath, found)


def matches(pattern: str, most: int = sys.maxsize) -> list[str]:
    """Return the paths that match `pattern`, sorted by name.

    `*`, `?` and `[...]` match within one name, and `**` matches any number of folders. A name that begins with a dot is
    matched only by a pattern that begins with one. Folders without read permission are skipped. Braces are letters.

    Args:
        pattern: the pattern.
        most: how many paths are enough.

    Raises:
        OSError: a folder can't be read for another reason: there are no file descriptors left, or the disk is failing.
    """
    return sorted(set(_core.matching_paths(pattern, most)))


def without_braces(pattern: str) -> Iterator[str]:
    """Yield the paths to which the braces of `pattern` expand; the pattern itself if it has none."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    first, last, step, alternatives = braces.groups()
    choices: Iterable[str] = _numbers(first, last, step) if alternatives is None else alternatives.split(",")
    for choice in choices:
        yield from without_braces(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _numbers(first: str, last: str, step: str | None) -> Iterator[str]:
    digits = 0
    if any(re.match(r"-?0\d", number) for number in (first, last)):
        digits = max(len(first), len(last))
    begin, end = int(first), int(last)
    by = max(abs(int(step or 1)), 1)
    for number in range(begin, end + 1, by) if begin <= end else range(begin, end - 1, -by):
        yield f"{number:0{digits}d}"


def file_version(path: str) -> tuple[int, ...]:
    """Return numbers that change when the file is written to or replaced.

    Raises:
        OSError: there is no such file.
    """
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def make_private_folder(path: str) -> None:
    """Make a folder and missing folders above it, for this user alone, because a cache may hold private data.

    Raises:
        OSError: it can't be made.
    """
    if path and not os.path.isdir(path):
        make_private_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def user_cache_folder() -> str:
    """Return the folder of caches not kept with any data: `$SLUICEGATE_CACHE`, or one in the user's cache folder.

    Raises:
        ValueError: the variable is a URL.
    """
    if own := os.environ.get("SLUICEGATE_CACHE"):
        return local("SLUICEGATE_CACHE", own)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "sluicegate")
