"""`add_note`: what an error says beside its own text."""

from __future__ import annotations

import contextlib


def add_note(error: BaseException, note: str) -> None:
    """Add a note to `error`, where Python has notes; once, though the same error may be raised again."""
    with contextlib.suppress(Exception):  # One that takes none, as a frozen dataclass, is raised without.
        if note not in getattr(error, "__notes__", ()):
            if hasattr(error, "add_note"):
                error.add_note(note)
            else:  # Python 3.10 shows none, but whoever looks finds it.
                error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
