"""`MovedParts`: an image after its transform, with the parts of its sample that moved with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from .box_rows import row_count, rows_of


class MovedParts(NamedTuple):
    """An image after its transform, and the parts of its sample that moved with it.

    Attributes:
        image: the image.
        boxes: by field of boxes, what is there.
        masks: by field of masks, what is there.
        fields: by name, the fields that belong to boxes.
        keypoints: by field of key points, what is there.
    """

    image: Any
    boxes: list[Any]
    masks: list[Any]
    fields: dict[str, Any]
    keypoints: list[Any]

    def with_rows(self, rows: Sequence[int], count: int, of_boxes: Collection[int]) -> MovedParts:
        """Returns the same with these rows of the fields, and of the masks at `of_boxes` that have `count` planes."""
        masks = [
            rows_of(mask, rows) if number in of_boxes and row_count(mask) == count else mask
            for number, mask in enumerate(self.masks)
        ]
        fields = {name: None if value is None else rows_of(value, rows) for name, value in self.fields.items()}
        return self._replace(masks=masks, fields=fields)
