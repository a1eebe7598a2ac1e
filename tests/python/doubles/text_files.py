"""Text files, as tests write them."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, text: str | bytes) -> str:
    """Writes `text` as it is: its ends of lines are kept."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)
