"""`MovedParts`: a transformed image, and the parts of its sample that were transformed with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from .box_rows import row_count, rows_of


class MovedParts(NamedTuple):
    """A transformed image, and the parts of its sample that were transformed with it.

    Attributes:
        image: the image.
        boxes: the value of each field of boxes.
        masks: the value of each field of masks.
        fields: by name, the values of the fields that belong to boxes.
        keypoints: the value of each field of key points.
    """

    image: Any
    boxes: list[Any]
    masks: list[Any]
    fields: dict[str, Any]
    keypoints: list[Any]

    def with_rows(
        self, rows: Sequence[int], count: int, of_boxes: Collection[int], points_of_boxes: Collection[int]
    ) -> MovedParts:
        """Return the same, but keep only these rows of everything that belongs to `count` boxes.

        Args:
            rows: the indices of the boxes to keep.
            count: the number of boxes before.
            of_boxes: the indices of the masks that belong to boxes, if there are as many as boxes.
            points_of_boxes: the indices of the fields of key points that belong to boxes.
        """
        masks = [
            rows_of(mask, rows) if number in of_boxes and row_count(mask) == count else mask
            for number, mask in enumerate(self.masks)
        ]
        fields = {name: None if value is None else rows_of(value, rows) for name, value in self.fields.items()}
        keypoints = [
            rows_of(points, rows) if number in points_of_boxes and points is not None else points
            for number, points in enumerate(self.keypoints)
        ]
        return self._replace(masks=masks, fields=fields, keypoints=keypoints)
