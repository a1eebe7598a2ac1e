"""`as_json`: transforms as the JSON text that the core takes."""

from __future__ import annotations

import json
import operator
from typing import Any


def as_json(specs: list[Any]) -> str:
    """Return the specifications of transforms as JSON; NumPy's and torch's numbers are written as plain numbers.

    Args:
        specs: what `Transform.spec` returns, for several transforms in a row.

    Raises:
        TypeError: an argument is not a number where one is expected.
    """
    return json.dumps(specs, default=_plain)


def _plain(value: Any) -> Any:
    """Return a number that `json` does not know, such as those of NumPy and torch, as one that it does."""
    try:
        return operator.index(value)
    except TypeError:
        return float(value)
