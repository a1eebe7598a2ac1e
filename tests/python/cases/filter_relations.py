"""The relations of filters, and their equivalents in Python."""

from __future__ import annotations

import operator
from typing import Any

RELATIONS: dict[str, Any] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda found, values: found in values,
    "not in": lambda found, values: found not in values,
}


def holds(found: Any, relation: str, value: Any) -> bool:
    """Return True if a filter keeps the row with the value `found`."""
    return found is not None and bool(RELATIONS[relation](found, value))
