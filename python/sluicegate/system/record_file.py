"""`RecordFile`: a small JSON file that is replaced as a whole, and notices when it was changed."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from .own_file import open_new, read_regular


class RecordFile:
    """The progress of a job in a file: after a crash, it holds the last complete record.

    Args:
        path: the path of the file.

    Examples:
        >>> import tempfile
        >>> file = RecordFile(f"{tempfile.mkdtemp()}/progress.json")
        >>> file.write({"done": 3})
        >>> file.read()["done"]
        3
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> dict[str, Any] | None:
        """Return the record; None if there is no file.

        Raises:
            ValueError: the file was changed or cut off.
            OSError: it can't be read, or is not a regular file.
        """
        try:
            found = json.loads(read_regular(self.path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.pop("digest", None) != _digest(found):
            raise ValueError(f"{self.path!r} is damaged")
        return found

    def write(self, record: dict[str, Any]) -> None:
        """Replace the record, on disk, by one that can be written as JSON."""
        unfinished = f"{self.path}.unfinished"
        try:
            with open(open_new(unfinished), "w", encoding="utf-8") as file:
                json.dump({**record, "digest": _digest(record)}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
        except BaseException as error:
            if os.path.lexists(unfinished):
                os.remove(unfinished)
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                # A failed write does not name its file.
                raise OSError(error.errno, error.strerror, unfinished) from error
            raise


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
