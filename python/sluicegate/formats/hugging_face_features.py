"""Column metadata that Hugging Face's `datasets` writes into Parquet and Arrow files."""

from __future__ import annotations

import json
from typing import Any

# The key in the schema's metadata.
METADATA = "huggingface"


def image_mode(metadata: str | None, column: str) -> str | None:
    """Return the mode that `datasets` converts the images of a column to; None if it leaves them as they are.

    Args:
        metadata: the text under `METADATA`, which is JSON.
        column: its name.
    """
    try:
        part: Any = json.loads(metadata or "{}")
    except ValueError:
        return None
    for step in ("info", "features", column):
        part = part.get(step) if isinstance(part, dict) else None
    mode = part.get("mode") if isinstance(part, dict) and part.get("_type") == "Image" else None
    return mode if isinstance(mode, str) else None
