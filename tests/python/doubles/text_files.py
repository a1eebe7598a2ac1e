"""Text files, as tests write them."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, text: str | bytes) -> str:
    """Write `text` with its line endings unchanged."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)
