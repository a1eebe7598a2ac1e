"""`Terminal`: a stream that programs treat as a terminal."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """Keeps the text that is written to it."""

    def isatty(self) -> bool:
        return True
