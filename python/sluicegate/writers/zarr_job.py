"""`ZarrJob`: which rows of a Zarr store are finished, and which store belongs to the job."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sluicegate.system.exclusive_lock import ExclusiveLock
from sluicegate.system.record_file import RecordFile

from .zarr_layout import ZarrLayout
from .zarr_store import ZarrStore

_VERSION = 1

# Seconds between two records on disk.
_INTERVAL = 0.2


class ZarrJob:
    """The record of a job that writes a store, a small JSON file next to it, and the exclusive right to write it.

    The store is called `*.unfinished` until it is complete and on disk. The record holds the arguments of the job, the
    layouts of the arrays, and the size of each row that is on disk. With it, a later call resumes after these rows. It
    also shows that the store was written by this function, and so may be replaced.

    Args:
        path: the path of the store.
        arguments: what the store depends on in addition to the samples, in JSON types.
    """

    def __init__(self, path: str, arguments: dict[str, Any]) -> None:
        self.path = path
        self.folder = f"{path}.unfinished"
        self.arguments = {"version": _VERSION, **arguments}
        self.rows: list[int] = []
        """The size of each row on disk, in bytes."""
        self.samples = 0
        """The number of samples in these rows."""
        self.store: ZarrStore | None = None
        """The store, as soon as the layouts are known."""
        self.is_whole = False
        self._layouts: Sequence[ZarrLayout] = []
        self._metadata: str | None = None
        self._file = RecordFile(f"{path}.shards.json")
        self._lock = ExclusiveLock(f"{path}.shards.json.lock", f"writes to {path!r}", "path")
        # Rows that were written, but may not be on disk.
        self._written = 0
        self._saved = 0.0

    def load(self, resume: bool) -> None:
        """Take over the store of an earlier job, or remove it if `resume` is False.

        Raises:
            ValueError: it was begun with other arguments, or the record or a finished store is damaged.
            FileExistsError: a folder is in the way that this function has not written, or that was changed since.
        """
        fault, known = "does not exist", None
        try:
            known = self._file.read()
        except ValueError as error:
            fault = "is damaged"
            if resume:
                raise ValueError(f"{error}; pass resume=False to write the store again") from None
        if known is not None and known["whole"] and not os.path.lexists(self.path):
            self._rename(known)
        is_there, is_begun = os.path.lexists(self.path), os.path.lexists(self.folder)
        if known is None:
            for path in [self.path] * is_there + [self.folder] * is_begun:
                raise self._foreign(path, f"{self._file.path!r}, which shows that this function wrote it, {fault}")
            return
        if is_there and (not known["whole"] or _metadata(ZarrStore(self.path, _layouts(known))) != known["metadata"]):
            raise self._foreign(self.path, "it was not written by this function, or changed since")
        if is_there and is_begun:
            raise self._foreign(self.folder, "it was not written by this function")
        if resume and (is_there or is_begun):
            self._compare(known["arguments"])
            self._resume(known)
        else:
            self._remove(is_there)

    def _rename(self, known: dict[str, Any]) -> None:
        """Give a whole store its name, if the job was killed before it could, and the store was not removed."""
        if _metadata(ZarrStore(self.folder, _layouts(known))) == known["metadata"]:
            os.rename(self.folder, self.path)

    def _foreign(self, path: str, reason: str) -> FileExistsError:
        return FileExistsError(f"path: {path!r} exists, but {reason}; remove it, or pass a different path")

    def _compare(self, known: dict[str, Any]) -> None:
        for name, given in self.arguments.items():
            # As text, because NaN is not equal to itself.
            if json.dumps(known.get(name), sort_keys=True) != json.dumps(given, sort_keys=True):
                raise ValueError(
                    f"{name}: expected {known.get(name)!r}, with which {self.path!r} was started, but got {given!r}; "
                    "pass the same, or resume=False to write the store again"
                )

    def _resume(self, known: dict[str, Any]) -> None:
        self.is_whole = known["whole"]
        if not known["rows"]:
            # It may have been killed before all arrays were there.
            shutil.rmtree(self.folder)
            return
        self._layouts = _layouts(known)
        store = ZarrStore(self.path if self.is_whole else self.folder, self._layouts)
        kept = next(
            (number for number, size in enumerate(known["rows"]) if store.size(number) != size), len(known["rows"])
        )
        if self.is_whole:
            if kept < len(known["rows"]):
                raise ValueError(
                    f"path: a shard of row {kept} of {self.path!r} is missing or was changed; pass resume=False to "
                    "write the store again"
                )
            return
        self.samples = min(kept * store.row, known["samples"])
        if self.samples != self.arguments["length"]:
            # More samples belong into a row that was not filled.
            kept = self.samples // store.row
            self.samples = kept * store.row
        self.rows = known["rows"][:kept]
        store.remove_from(kept)
        store.open()
        self.store = store

    def _remove(self, is_there: bool) -> None:
        """Remove the store; wherever this is interrupted, it still belongs to the job."""
        if is_there:
            os.rename(self.path, self.folder)
        self._save()
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)
        os.remove(self._file.path)

    def begin(self, layouts: Sequence[ZarrLayout]) -> ZarrStore:
        """Create the store.

        Raises:
            FileExistsError: the path exists by now.
        """
        self._layouts = layouts
        self._save()
        self.store = ZarrStore(self.folder, layouts)
        self.store.create(
            self.arguments["length"],
            self.arguments["compression"],
            self.arguments["attributes"],
            self.arguments["field_attributes"],
        )
        return self.store

    def add(self, samples: int) -> None:
        """Record that the next row was written, with this number of samples."""
        self._written += 1
        self.samples += samples
        if time.monotonic() - self._saved >= _INTERVAL:
            self._note()
            self._save()

    def _note(self) -> None:
        assert self.store is not None
        while self._written:
            self.rows.append(self.store.sync(len(self.rows)))
            self._written -= 1

    def _save(self) -> None:
        self._file.write(
            {
                "arguments": self.arguments,
                "layouts": [each.as_json() for each in self._layouts],
                "rows": self.rows,
                "samples": self.samples,
                "metadata": self._metadata,
                "whole": self.is_whole,
            }
        )
        self._saved = time.monotonic()

    def finish(self) -> None:
        """Give the store its name.

        Raises:
            OSError: something has appeared there in the meantime.
        """
        assert self.store is not None
        self._note()
        self.store.finish(self.samples)
        self._metadata, self.is_whole = _metadata(self.store), True
        self._save()
        os.rename(self.folder, self.path)

    def discard(self) -> None:
        """Keep the finished rows of a failed job; leave no files if there are none."""
        if self.store is None:
            return
        with suppress(OSError):
            if not self.is_whole:
                self._note()
                self._save()
            if not self.rows:
                shutil.rmtree(self.folder, ignore_errors=True)
                os.remove(self._file.path)

    def __enter__(self) -> ZarrJob:
        """Take the right to write the store.

        Raises:
            RuntimeError: another process or thread has it.
        """
        self._lock.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up the right to write."""
        self._lock.__exit__()


def _layouts(known: dict[str, Any]) -> list[ZarrLayout]:
    return [ZarrLayout.from_json(each) for each in known["layouts"]]


def _metadata(store: ZarrStore) -> str | None:
    """Return a digest of the metadata of the arrays, but not of the store, to which others may add coordinates."""
    digest = hashlib.sha256()
    try:
        for path in store.metadata_paths()[1:]:
            with open(path, "rb") as file:
                digest.update(file.read())
    except OSError:
        return None
    return digest.hexdigest()
