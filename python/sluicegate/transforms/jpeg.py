"""`JPEG`: the losses of a JPEG file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import check_sequence
from .transform import Transform


class JPEG(Transform):
    """Encode the image as JPEG, with a random quality, and decode it again.

    Only images of uint8 with 1 or 3 channels. Boxes and masks do not change.

    Args:
        quality: from 1 to 100, or the (min, max) that may be drawn.

    Raises:
        TypeError: `quality` is not an integer or a sequence of two.
        ValueError: it is outside of 1 to 100; when called, an image of floats or with a different number of channels.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.JPEG((50, 90))
        JPEG(quality=(50, 90))
    """

    def __init__(self, quality: int | Sequence[int]) -> None:
        if isinstance(quality, bool):
            raise TypeError("quality: expected an integer from 1 to 100 or two of them, but got a bool")
        if isinstance(quality, int):
            quality = [quality, quality]
        else:
            check_sequence(quality, "quality", (2,))
        self.quality = quality
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        least, most = self.quality
        if not (isinstance(least, int) and isinstance(most, int) and 1 <= least <= most <= 100):
            raise ValueError(
                f"quality: expected an integer from 1 to 100, or the (min, max) one, but got {self.quality!r}"
            )
        return [{"JPEG": {"quality": [least, most]}}]
