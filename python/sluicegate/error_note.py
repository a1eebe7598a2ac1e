"""`add_note`: adds to an error without changing its message."""

from __future__ import annotations

import contextlib


def add_note(error: BaseException, note: str) -> None:
    """Add a note to `error`, only once even if the same error is raised again."""
    with contextlib.suppress(Exception):  # An error that accepts none (a frozen dataclass) is raised without it.
        if note not in getattr(error, "__notes__", ()):
            if hasattr(error, "add_note"):
                error.add_note(note)
            else:  # Python 3.10 does not show notes, but they can be looked up.
                error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
