"""`ShardManifest`: which shards of a job are finished, and which files belong to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sluicegate.system.exclusive_lock import ExclusiveLock
from sluicegate.system.record_file import RecordFile

from .shard_names import ShardNames, without_number

# Version of the file's contents; a manifest of another version belongs to another job.
_VERSION = 4


class ShardManifest:
    """The record of a job that writes shards, a small JSON file next to them, and the exclusive right to write them.

    It holds the job's arguments, the number of samples and bytes of each finished shard, and the digests of the first
    sample and of each shard's last sample. A resumed job reads these samples again and compares them.

    It also records which files belong to the job: a shard's number is reserved here, on disk, before a file of that
    name can appear. After a crash or a full disk, files with reserved numbers belong to the job and may be removed.
    Other files are never removed or replaced. If a glob would read one of them together with the shards, it is an
    error.

    One process or thread at a time has the right to write; the operating system takes it from a process that dies.

    Args:
        pattern: the path of the shards, with a placeholder for their number.
        arguments: what the shards depend on in addition to the samples, in JSON types.
        files: returns the files of which the shard at a path consists, or that would change how it is read.

    Examples:
        >>> import tempfile
        >>> pattern = f"{tempfile.mkdtemp()}/out-{{:03d}}.bin"
        >>> with ShardManifest(pattern, {"shard_bytes": 10}, lambda path: [path]) as manifest:
        ...     manifest.load(resume=True)
        ...     manifest.samples, manifest.is_whole, os.path.basename(manifest.path)
        (0, False, 'out-.bin.shards.json')
    """

    def __init__(self, pattern: str, arguments: dict[str, Any], files: Callable[[str], list[str]]) -> None:
        self.pattern = pattern
        folder, name = os.path.split(pattern)
        names = [os.path.basename(path) for path in files(pattern)]
        self.names = ShardNames(folder, names)
        self.arguments: dict[str, Any] = {"version": _VERSION, "names": names, **arguments}
        self.path = os.path.join(folder, without_number(name) + ".shards.json")
        self.shards: list[dict[str, Any]] = []
        self.reserved = 0
        """Shards with lower numbers belong to this job."""
        self.first: str | None = None
        """The digest of the first sample; None while there is none."""
        self.form: Any = None
        """What the first samples determine for all, in JSON types."""
        self.is_whole = False
        self._waiting: dict[int, dict[str, Any]] = {}
        self._is_writing = False
        self._file = RecordFile(self.path)
        self._lock = ExclusiveLock(f"{self.path}.lock", f"writes to {pattern!r}", "pattern")

    @property
    def samples(self) -> int:
        """The number of samples in finished shards."""
        return sum(shard["samples"] for shard in self.shards)

    def load(self, resume: bool) -> None:
        """Take over the output of an earlier job, or remove it if `resume` is False.

        Raises:
            ValueError: it was begun with other arguments, or the file is damaged.
            FileExistsError: files that no manifest lists would be read together with the shards.
        """
        is_damaged = False
        try:
            known = self._file.read()
        except ValueError:
            # A damaged manifest cannot be trusted to list only its own files.
            known, is_damaged = None, True
        if resume and is_damaged:
            raise ValueError(f"{self.path!r} is damaged; pass resume=False to write all shards again")
        if resume and known is not None and known["arguments"] != self.arguments:
            raise ValueError(
                f"{self.path!r}: expected the arguments that these shards were started with, {known['arguments']}, "
                f"but got {self.arguments}; pass the same arguments, or resume=False"
            )
        if known is not None:
            _remove_unfinished(*_owned(known, self.names))
        if resume and known is not None:
            self.reserved = known["reserved"]
        self._refuse_look_alikes(known, is_damaged=is_damaged)
        if not resume:
            if known is not None:
                names, reserved = _owned(known, self.names)
                for path in names.present(range(reserved)):
                    os.remove(path)
            self.save()
            return
        if known is None:
            self.save()
            return
        self.first, self.form = known["first"], known["form"]
        for number, shard in enumerate(known["shards"]):
            if self._bytes(number) != shard["bytes"]:
                break
            self.shards.append(shard)
        self.is_whole = bool(known["whole"]) and len(self.shards) == len(known["shards"])

    def _refuse_look_alikes(self, known: dict[str, Any] | None, *, is_damaged: bool) -> None:
        """Raise an error if a glob would find files other than this job's or those of a job that it replaces."""
        names, reserved = (self.names, 0) if known is None else _owned(known, self.names)
        owned = set(names.present(range(reserved)))
        others = [path for path in self.names.look_alikes() if path not in owned]
        if others:
            missing = "is damaged" if is_damaged else "does not exist" if known is None else "does not list it"
            raise FileExistsError(
                f"{others[0]!r} exists, but {self.path!r}, which lists the shards written by this function, {missing}; "
                "remove the file (it would be read as one of the shards), or pass a different pattern"
            )

    def _bytes(self, number: int) -> int:
        """Return the total size of all files of a shard."""
        return sum(os.path.getsize(path) for path in self.names.paths(number) if os.path.isfile(path))

    def reserve(self, number: int) -> None:
        """Make shard `number` the job's own, before anything is written under its name.

        Raises:
            FileExistsError: a file of that name has appeared since the job began.
        """
        self._is_writing = True
        if number < self.reserved:
            return
        # Reserves some more, because writing this file for each of very many small shards would take long.
        reserved = number + 1 + number // 8
        for path in self.names.present(range(self.reserved, reserved)):
            raise FileExistsError(f"{path!r} appeared while these shards were written; remove it, and resume")
        self.reserved = reserved
        self.save()

    def add(self, number: int, *, samples: int, size: int, last: str) -> bool:
        """Record that shard `number` is finished. Return True if the manifest should be saved."""
        self._waiting[number] = {"samples": samples, "bytes": size, "last": last}
        before = len(self.shards)
        # Without gaps: a job resumes after the samples of the shards listed here.
        while len(self.shards) in self._waiting:
            self.shards.append(self._waiting.pop(len(self.shards)))
        return len(self.shards) > before

    def remove_unlisted(self) -> None:
        """Remove the job's files after the last listed shard.

        They were finished before one with a lower number that failed, or come from a longer job.
        """
        for path in self.names.present(range(len(self.shards), self.reserved)):
            os.remove(path)
        self.reserved = len(self.shards)

    def save(self) -> None:
        """Write the manifest to disk."""
        self._file.write(
            {
                "arguments": self.arguments,
                "form": self.form,
                "first": self.first,
                "shards": self.shards,
                "reserved": self.reserved,
                "whole": self.is_whole,
            }
        )

    def finish(self) -> None:
        """Record that all shards are listed, and remove other files of the job."""
        self.remove_unlisted()
        self.is_whole = True
        self.save()

    def discard(self) -> None:
        """Keep the listed shards of a failed job; leave no files if none are listed.

        If even that fails, the manifest on disk still lists the files that belong to the job.
        """
        with suppress(OSError):
            # A job that failed before it wrote anything may have been given the wrong samples: keep its files.
            if self._is_writing:
                self.remove_unlisted()
                self.save()
            if not self.reserved:
                os.remove(self.path)

    def paths(self) -> list[str]:
        """Return the paths of the listed shards."""
        return [self.pattern.format(number) for number in range(len(self.shards))]

    def __enter__(self) -> ShardManifest:
        """Take the right to write the shards.

        Raises:
            RuntimeError: another process or thread has it.
        """
        self._lock.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up the right to write."""
        self._lock.__exit__()


def _owned(known: dict[str, Any], names: ShardNames) -> tuple[ShardNames, int]:
    """Return the names of the shards that a manifest lists or has reserved, and how many there are."""
    # Manifests of version 3 have neither key.
    patterns = known["arguments"].get("names", names.patterns)
    return ShardNames(names.folder, patterns), known.get("reserved", len(known["shards"]))


def _remove_unfinished(names: ShardNames, reserved: int) -> None:
    """Remove unfinished files left by a killed process."""
    for number in range(reserved):
        for path in names.paths(number):
            with suppress(FileNotFoundError):
                os.remove(f"{path}.unfinished")
