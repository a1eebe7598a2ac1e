"""Lists of archives written by other tools: the JSON of wids, and folders prepared by Megatron-Energon.

Sources: the description of `wids.ShardListDataset` in WebDataset's documentation, and "Dataset Format on Disk" in
Megatron-Energon's.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.paths import Paths, expand, local

_META = ".nv-meta"

# A sample in an archive, in Megatron-Energon's notation.
_SAMPLE = re.compile(r"(?P<archive>.*?\.(?:tar|tgz|tzst)(?:\.gz|\.zst)?)/(?P<key>.+)", re.DOTALL)

# If there are more JSON files than this next to archives, they are data, not lists.
_MOST_LISTS = 16

# The maximum size of an index in bytes; a larger file is not an index.
_LARGEST = 1 << 30

# The same for an index that was not named, but found next to archives.
_LARGEST_BESIDE = 64 << 20


class Listing(NamedTuple):
    """Archives, with the information of their list."""

    path: str
    """The list itself."""
    archives: list[str]
    samples: list[int | None]
    """The number of samples that the list gives for each archive."""
    excluded: Sequence[tuple[str, str]] = ()
    """Samples to leave out: archive and key."""

    def compare(self, found: Sequence[int]) -> None:
        """Warn if the list gives a wrong number of samples for an archive; the actual samples are used."""
        for archive, said, count in zip(self.archives, self.samples, found, strict=True):
            if said is not None and said != count:
                warnings.warn(
                    f"{self.path!r} lists {said:,} samples in {archive!r}, but found {count:,}, all of which are "
                    "read; write the list again",
                    stacklevel=4,
                )
                return


def listing_of(urls: Paths, split: str) -> Listing | None:
    """Return the archives of a list if `urls` is one; otherwise None.

    A list is the path of a `.json` file, or of a folder that contains one or is prepared.

    Args:
        urls: as in `TarDataset`.
        split: which split of a prepared folder.

    Raises:
        ValueError: the list is damaged, or has unsupported content (the message says which).

    Examples:
        >>> listing_of("train-{000..146}.tar", "train")
    """
    if not isinstance(urls, (str, bytes, os.PathLike)):
        return None
    path = local("urls", urls)
    if path.endswith((".json", ".index")) and os.path.isfile(path):
        return _wids(path)
    folder = os.path.dirname(path) if os.path.basename(path) == _META else path
    if os.path.isdir(os.path.join(folder, _META)):
        return _energon(folder, split)
    if not os.path.isdir(path):
        return None
    found = _lists_in(path)
    if len(found) != 1:
        names = [os.path.basename(each.path) for each in found] if found else "neither"
        raise ValueError(
            "urls: expected a folder prepared by Megatron-Energon, or with one wids index (a .json with a "
            f"'shardlist'), but got {names} in {path!r}; pass the paths of the archives"
        )
    return found[0]


def listing_beside(archives: Sequence[str]) -> Listing | None:
    """Return the wids index in the folder of the first archive that names all `archives`; None if there is none."""
    for listing in _lists_in(os.path.dirname(archives[0])):
        said = dict(zip(listing.archives, listing.samples, strict=True))
        if all(archive in said for archive in archives):
            return Listing(listing.path, [*archives], [said[archive] for archive in archives])
    return None


def _lists_in(folder: str) -> list[Listing]:
    """Return the wids indices in a folder, by name; none if many files could be one."""
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.endswith((".json", ".index"))]
    except OSError:
        return []
    found = []
    for name in names if len(names) <= _MOST_LISTS else []:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST_BESIDE and '"shardlist"' in _text(path):
                found.append(_wids(path))
        except (OSError, ValueError):
            # Ignore errors, because this file was not requested.
            continue
    return found


def _wids(path: str) -> Listing:
    known = _json(path)
    archives: list[str] = []
    samples: list[int | None] = []
    _shards(path, known, os.path.dirname(path), archives, samples)
    if not archives:
        raise ValueError(f"{path}: expected a wids index with a 'shardlist' of archives, but got no archives")
    return Listing(path, archives, samples)


def _shards(path: str, known: Any, folder: str, archives: list[str], samples: list[int | None]) -> None:
    if not isinstance(known, dict) or not isinstance(known.get("shardlist", []), list):
        raise ValueError(f"{path}: expected a wids index with a 'shardlist' of archives, but got {reprlib.repr(known)}")
    if known.get("wids_version", 1) != 1:
        raise ValueError(
            f"{path}: expected version 1 of wids, but got {known['wids_version']}; pass the paths of the archives"
        )
    if "source_url" in known:
        raise ValueError(
            f"{path}: it refers to {known['source_url']!r}; pass the path of that index, or those of the archives"
        )
    base = known.get("base_path") or known.get("base") or ""
    for number, shard in enumerate(known.get("shardlist", [])):
        url = shard.get("url") if isinstance(shard, dict) else None
        if not isinstance(url, str) or not isinstance(base, str) or not url:
            raise ValueError(f"{path}: expected a 'url' in shard {number} of the list, but got {reprlib.repr(shard)}")
        url = os.path.join(base, url).removeprefix("file://")
        if "://" in url or url.startswith("pipe:"):
            raise ValueError(
                f"{path}: only local archives are read, got {url!r} in shard {number}; download them first"
            )
        count = shard.get("nsamples")
        archives.append(os.path.normpath(os.path.join(folder, url)))
        samples.append(count if isinstance(count, int) and not isinstance(count, bool) else None)
    # The list may contain further lists.
    for part in known.get("datasets", []):
        _shards(path, part, folder, archives, samples)


def _energon(folder: str, split: str) -> Listing:
    path = _first(folder, "split.yaml", "split.yml", "split.json")
    if path is None:
        raise ValueError(
            f"urls: no split.yaml in {os.path.join(folder, _META)!r}; prepare the folder, or pass the paths of the "
            "archives"
        )
    known = _read(path)
    parts = known.get("split_parts") if isinstance(known, dict) else None
    if not isinstance(parts, dict) or not parts:
        raise ValueError(
            f"{path}: expected 'split_parts' with a list of archives for each, but got {reprlib.repr(parts)}"
        )
    if split not in parts:
        raise ValueError(f"split: expected one of {', '.join(map(repr, parts))} in {path}, but got {split!r}")
    names = [os.path.relpath(found, folder) for name in _texts(path, parts[split]) for found in _expanded(folder, name)]
    archives, samples_out = _excluded(folder, _texts(path, known.get("exclude")))
    names = [name for name in names if name not in archives]
    if not names:
        raise ValueError(f"split: no archives in {split!r} of {path}; choose a different split")
    counts: Mapping[str, Any] = {}
    info = _first(folder, ".info.json", ".info.yaml", ".info.yml")
    if info is not None:
        found = _read(info)
        said = found.get("shard_counts") if isinstance(found, dict) else None
        counts = said if isinstance(said, dict) else {}
    samples = [int(counts[name]) if str(counts.get(name)).isdecimal() else None for name in names]
    return Listing(info or path, [os.path.join(folder, name) for name in names], samples, samples_out)


def _excluded(folder: str, names: list[str]) -> tuple[set[str], list[tuple[str, str]]]:
    """Return the excluded archives, and excluded samples: `shard-3.tar/key`, where the archive may have braces."""
    archives: set[str] = set()
    samples: list[tuple[str, str]] = []
    for name in names:
        found = _SAMPLE.fullmatch(name)
        if found is None:
            archives.update(os.path.relpath(path, folder) for path in _expanded(folder, name))
        else:
            samples += [(path, found["key"]) for path in _expanded(folder, found["archive"])]
    return archives, samples


def _expanded(folder: str, name: str) -> list[str]:
    return expand(os.path.join(folder, name))


def _first(folder: str, *names: str) -> str | None:
    paths = (os.path.join(folder, _META, name) for name in names)
    return next((path for path in paths if os.path.isfile(path)), None)


def _texts(path: str, names: Any) -> list[str]:
    if names is None or names == "":
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: expected a list of names, but got {names!r}")
    return names


def _read(path: str) -> Any:
    return _json(path) if path.endswith(".json") else _yaml(path, _text(path))


def _text(path: str) -> str:
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(
            f"{path}: expected a list of archives of at most {_LARGEST:,} bytes, but got {os.path.getsize(path):,}"
        )
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, byte {error.start}: not UTF-8 text") from None


def _json(path: str) -> Any:
    try:
        return json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: invalid JSON: {error}") from None


def _yaml(path: str, text: str) -> dict[str, Any]:
    """Parse the subset of YAML in such files: by indentation, keys with strings, lists of strings, or nested keys."""
    whole: dict[str, Any] = {}
    # For each open mapping: its indentation, the mapping, and the key that the next lines belong to.
    open_maps: list[tuple[int, dict[str, Any], str]] = [(-1, {"": whole}, "")]
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content.startswith(("#", "%", "---", "...")):
            continue
        indentation = len(line) - len(line.lstrip(" "))
        if content.startswith("- ") or content == "-":
            # A list may have the same indentation as its key, or more.
            while open_maps[-1][0] > indentation:
                open_maps.pop()
            _, mapping, key = open_maps[-1]
            if mapping[key] in ("", None):
                mapping[key] = []
            if not isinstance(mapping[key], list):
                raise _unread(path, number, content)
            mapping[key].append(_scalar(path, number, content[1:].strip()))
            continue
        key, colon, value = content.rpartition(": ") if ": " in content else content.partition(":")
        if not colon or (value and ": " not in content):
            raise _unread(path, number, content)
        while open_maps[-1][0] >= indentation:
            open_maps.pop()
        _, above, of = open_maps[-1]
        if above[of] in ("", None):
            above[of] = {}
        mapping = above[of]
        if not isinstance(mapping, dict):
            raise _unread(path, number, content)
        key = _scalar(path, number, key)
        value = value.strip()
        mapping[key] = [] if value == "[]" else {} if value == "{}" else _scalar(path, number, value)
        open_maps.append((indentation, mapping, key))
    return whole


def _scalar(path: str, number: int, text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        inner = text[1:-1]
        if text[0] == "'":
            return inner.replace("''", "'")
        if "\\" not in inner:
            return inner
    elif not text.startswith(tuple("[]{}&*!|>'\"%@`")) or (text.startswith("{") and ".." in text):
        return text
    raise _unread(path, number, text)


def _unread(path: str, number: int, text: str) -> ValueError:
    return ValueError(
        f"{path}, line {number}: only keys, strings and lists of YAML are read, got {text[:80]!r}; write the file "
        "as JSON, or pass the paths of the archives"
    )
