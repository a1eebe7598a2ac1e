"""`Identity`: a transform that changes nothing."""

from __future__ import annotations

from typing import Any

from .transform import Transform


class Identity(Transform):
    """Return the sample unchanged.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.Identity()("anything")
        'anything'
    """

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return []

    def fuses(self, is_first: bool) -> bool:
        """Return False: the sample may hold anything."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Return the sample."""
        return inputs if len(inputs) > 1 else inputs[0]
