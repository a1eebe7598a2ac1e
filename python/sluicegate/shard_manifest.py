"""`ShardManifest`: which shards of a job are whole, and which job that is."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# What stands between names and numbers, by version: another one is another job.
_VERSION = 3


class ShardManifest:
    """A small JSON file beside the shards, that is replaced as a whole; and the right to write them.

    It says with which arguments they were begun, how many samples and bytes each whole one has, and the digests of the
    first sample and of the last one of each: whoever goes on asks for these samples again, and sees whether they are
    what they were. One at a time has the right; the operating system takes it from a process that dies.

    Args:
        pattern: the path of the shards, with a place for their number.
        arguments: what the shards depend on beside the samples; JSON's types.
        files: the files that the shard at a path consists of, or that stand in its way.

    Example:
        >>> import tempfile
        >>> pattern = f"{tempfile.mkdtemp()}/out-{{:03d}}.bin"
        >>> with ShardManifest(pattern, {"shard_bytes": 10}, lambda path: [path]) as manifest:
        ...     manifest.load(resume=True)
        ...     manifest.samples, manifest.is_whole, os.path.basename(manifest.path)
        (0, False, 'out-.bin.shards.json')
    """

    def __init__(self, pattern: str, arguments: dict[str, Any], files: Callable[[str], list[str]]) -> None:
        self.pattern = pattern
        self.arguments: dict[str, Any] = {"version": _VERSION, **arguments}
        self.files = files
        folder, name = os.path.split(pattern)
        self.path = os.path.join(folder, re.sub(r"\{[^{}]*\}", "", name) + ".shards.json")
        self.shards: list[dict[str, Any]] = []
        self.first: str | None = None
        """The digest of the first sample; None as long as there is none."""
        self.form: Any = None
        """What the first samples have told of all, JSON's types."""
        self.is_whole = False
        self._waiting: dict[int, dict[str, Any]] = {}
        self._lock: int | None = None

    @property
    def samples(self) -> int:
        """How many samples are in whole shards."""
        return sum(shard["samples"] for shard in self.shards)

    def load(self, resume: bool) -> None:
        """Finds out what is there; without `resume` removes it.

        Raises:
            ValueError: it was begun with other arguments.
            FileExistsError: the first shard is there, and nothing says whose it is.
        """
        found = None
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            pass
        except (ValueError, RecursionError):
            if resume:
                raise self._damaged() from None
        self._remove_unfinished()
        if not resume:
            self._remove_shards()
            self.save()
            return
        if found is None:
            there = [path for path in self.files(self.pattern.format(0)) if os.path.lexists(path)]
            if there:
                raise FileExistsError(f"{there[0]!r} is there, but not {self.path!r}: remove it, or give resume=False")
            self.save()
            return
        if not isinstance(found, dict) or found.get("digest") != _digest(found):
            raise self._damaged()
        if found["arguments"] != self.arguments:
            arguments = found["arguments"]
            raise ValueError(
                f"{self.path!r} says that these shards were begun with {arguments}, not {self.arguments}: give the "
                "same arguments, or resume=False"
            )
        self.first, self.form = found["first"], found["form"]
        for number, shard in enumerate(found["shards"]):
            if self._bytes(number) != shard["bytes"]:
                break
            self.shards.append(shard)
        self.is_whole = bool(found["whole"]) and len(self.shards) == len(found["shards"])

    def _damaged(self) -> ValueError:
        """The error of a file that `save` has not written."""
        return ValueError(f"{self.path!r} is damaged: give resume=False, and all is written anew")

    def _bytes(self, number: int) -> int:
        """What the files of a shard have together."""
        return sum(os.path.getsize(path) for path in self.files(self.pattern.format(number)) if os.path.isfile(path))

    def _remove_unfinished(self) -> None:
        """Removes what a killed process has left."""
        names = [os.path.basename(path) for path in self.files(self.pattern)]
        # The numbers, however they are written.
        patterns = ["[-+ 0-9a-fA-F]*".join(map(re.escape, re.split(r"\{[^{}]*\}", name))) for name in names]
        unfinished = re.compile(f"(?:{'|'.join(patterns)}){re.escape('.unfinished')}")
        with os.scandir(os.path.dirname(self.pattern)) as entries:
            for entry in entries:
                if unfinished.fullmatch(entry.name):
                    os.remove(entry.path)

    def _remove_shards(self) -> None:
        for number in itertools.count():
            there = [path for path in self.files(self.pattern.format(number)) if os.path.lexists(path)]
            if not there:
                return
            for path in there:
                os.remove(path)

    def add(self, number: int, *, samples: int, size: int, last: str) -> bool:
        """Notes that shard `number` is whole; True when that is to be saved."""
        self._waiting[number] = {"samples": samples, "bytes": size, "last": last}
        before = len(self.shards)
        # Without gaps: from the number of samples follows where to go on.
        while len(self.shards) in self._waiting:
            self.shards.append(self._waiting.pop(len(self.shards)))
        return len(self.shards) > before

    def save(self) -> None:
        """Puts on the disk what is known."""
        unfinished = f"{self.path}.unfinished"
        known = {
            "arguments": self.arguments,
            "form": self.form,
            "first": self.first,
            "shards": self.shards,
            "whole": self.is_whole,
        }
        known["digest"] = _digest(known)
        try:
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(known, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
        except BaseException as error:
            if os.path.lexists(unfinished):
                os.remove(unfinished)
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                # A write that fails does not say of which file.
                raise OSError(error.errno, error.strerror, unfinished) from error
            raise

    def discard(self) -> None:
        """Removes the file of a job that has failed before anything came of it."""
        if not self.shards and not any(map(os.path.lexists, self.files(self.pattern.format(0)))):
            with suppress(FileNotFoundError):
                os.remove(self.path)

    def paths(self) -> list[str]:
        """The paths of the whole shards."""
        return [self.pattern.format(number) for number in range(len(self.shards))]

    def __enter__(self) -> ShardManifest:
        """Takes the right to write the shards.

        Raises:
            RuntimeError: another process has it, or another thread.
        """
        path = f"{self.path}.lock"
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                # Of the open file: threads of one process keep each other out too.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(lock)
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise RuntimeError(
                        f"another process or thread writes to {self.pattern!r}, and has the lock {path!r}: wait for "
                        "it, or give this one another pattern"
                    ) from None
                # A file system without locks.
                return self
            # Whoever had it before may have removed it meanwhile.
            if os.path.lexists(path) and os.path.samestat(os.fstat(lock), os.stat(path)):
                self._lock = lock
                _locked.add(self)
                return self
            os.close(lock)

    def __exit__(self, *_: object) -> None:
        """Gives the right back."""
        if self._lock is not None:
            os.remove(f"{self.path}.lock")
            os.close(self._lock)
            self._lock = None


_locked: weakref.WeakSet[ShardManifest] = weakref.WeakSet()


def _leave_locks_to_parent() -> None:
    """Closes them in a forked child, which would keep the right when its parent has died."""
    for manifest in _locked:
        if manifest._lock is not None:
            with suppress(OSError):
                os.close(manifest._lock)
            manifest._lock = None
    _locked.clear()


os.register_at_fork(after_in_child=_leave_locks_to_parent)


def _digest(known: dict[str, Any]) -> str:
    """What tells that somebody else has written to the file."""
    rest = {name: value for name, value in known.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
