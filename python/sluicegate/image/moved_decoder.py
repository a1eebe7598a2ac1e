"""`MovedDecoder`: decodes an image together with the boxes, masks and key points that are transformed with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate import _core
from sluicegate.transforms.boxes import GivenBoxes, given_boxes, moved_boxes
from sluicegate.transforms.key_points import moved_key_points
from sluicegate.transforms.running import moved_mask

from .box_rows import check_rows
from .damaged import DamagedImageError
from .moved_parts import MovedParts
from .tv_tensors import Marks, plain, points_of


@dataclass(frozen=True)
class MovedFields:
    """The other fields of a sample that are transformed with its image: arguments of `ImageField`, checked."""

    boxes: tuple[str, ...]
    masks: tuple[str, ...]
    keypoints: tuple[str, ...]
    box_format: str
    box_fields: dict[str, tuple[str, ...]] | None
    tv_tensors: bool


class MovedDecoder:
    """Decodes an image together with the boxes, masks and key points that are transformed with it.

    Args:
        fields: the other fields.
        pipeline: decodes and transforms the image.
        native: the transforms of `pipeline`, as text.
        called: the transforms that are called in Python after these.
        marks: marks what is given to them, and what they return if `tv_tensors` is set.
    """

    def __init__(
        self,
        fields: MovedFields,
        pipeline: _core.ImagePipeline,
        native: str,
        called: Callable[..., Any] | None,
        marks: Marks | None,
    ) -> None:
        self._fields = fields
        self._pipeline = pipeline
        self._rest = called
        self._marks = marks
        self._moves_before = native != "[]"
        self._drops_boxes = "SanitizeBoundingBoxes" in native
        self._draws_by_boxes = "RandomIoUCrop" in native

    @property
    def single_reason(self) -> str | None:
        """Why samples are made one by one; None if Rust makes whole batches."""
        if self._fields.keypoints:
            return "key points move with each image, so samples are made one by one"
        if self._drops_boxes:
            return "`SanitizeBoundingBoxes` drops boxes, so their number is known only after each sample is made"
        if self._draws_by_boxes:
            return "the draws of `RandomIoUCrop` depend on the boxes of each sample, so samples are made one by one"
        return None

    def decode(
        self,
        encoded: bytes,
        number: int,
        generator: object | None,
        boxes: Sequence[Any],
        masks: Sequence[Any],
        fields: Mapping[str, Any],
        of_boxes: Collection[int],
        keypoints: Sequence[Any],
    ) -> MovedParts:
        """Decode and transform an image and what moves with it; as `ImageField.decode_moved`, with its generator."""
        own = self._fields
        check_rows(dict(zip(own.boxes, boxes, strict=True)), own.box_fields, fields, DamagedImageError, "there are")
        try:
            keypoints = [None if each is None else points_of(each) for each in keypoints]
        except ValueError as error:
            raise DamagedImageError(str(error)) from None
        drawn_by = self._boxes_to_draw_by(boxes)
        image, operations, before = self._pipeline.decode_moved(encoded, number, generator, drawn_by)
        if self._rest is not None and not self._moves_before:
            parts = MovedParts(image, list(boxes), list(masks), dict(fields), list(keypoints))
            return self._called(parts, [own.box_format] * len(boxes))
        try:
            moved = [None if each is None else moved_boxes(each, own.box_format, operations, before) for each in boxes]
            turned = [None if each is None else moved_mask(each, operations, before) for each in masks]
            points = [None if each is None else moved_key_points(each, operations, before) for each in keypoints]
        except ValueError as error:
            raise DamagedImageError(str(error)) from None
        parts = MovedParts(image, [each and each.boxes for each in moved], turned, dict(fields), points)
        if self._drops_boxes and moved[0] is not None and moved[0].rows is not None:
            points_of_boxes = {number for number, name in enumerate(own.keypoints) if name in fields}
            parts = parts.with_rows(moved[0].rows, len(boxes[0]), of_boxes, points_of_boxes)
        if self._rest is not None:
            return self._called(parts, [each and each.form for each in moved])
        if own.tv_tensors and self._marks is not None:
            marks = self._marks
            marked = [each and marks.boxes(each.boxes, each.canvas, each.form) for each in moved]
            masks = [marks.mask(mask) for mask in parts.masks]
            points = [marks.keypoints(each, (image.shape[-2], image.shape[-1])) for each in parts.keypoints]
            parts = MovedParts(marks.image(image), marked, masks, parts.fields, points)
        return parts

    def _boxes_to_draw_by(self, boxes: Sequence[Any]) -> GivenBoxes | None:
        """Return the boxes that transforms run in Rust need for their draws; None if none of them does."""
        if not self._draws_by_boxes:
            return None
        if boxes[0] is None:
            raise TypeError(
                f"boxes: `RandomIoUCrop` needs the boxes of each image, got None in {self._fields.boxes[0]!r}; pass "
                "an array of shape (0, 4) for an image without boxes"
            )
        try:
            return given_boxes(boxes[0], self._fields.box_format)
        except ValueError as error:
            raise DamagedImageError(str(error)) from None

    def _called(self, parts: MovedParts, formats: Sequence[str | None]) -> MovedParts:
        """Apply the transforms that are called in Python to the image, its boxes in `formats`, and the other parts."""
        assert self._marks is not None
        assert self._rest is not None
        own, marks, size = self._fields, self._marks, (int(parts.image.shape[-2]), int(parts.image.shape[-1]))
        given = zip(own.boxes, parts.boxes, formats, strict=True)
        target = {name: marks.boxes(each, size, form) for name, each, form in given}
        target |= {name: marks.mask(each) for name, each in zip(own.masks, parts.masks, strict=True)}
        target |= parts.fields
        points = zip(own.keypoints, parts.keypoints, strict=True)
        target |= {name: marks.keypoints(each, size) for name, each in points}
        image, target = self._rest(marks.image(parts.image), target)
        boxes, masks, keypoints = ([target[name] for name in names] for names in (own.boxes, own.masks, own.keypoints))
        fields = {name: target[name] for name in parts.fields}
        check_rows(dict(zip(own.boxes, boxes, strict=True)), own.box_fields, fields, ValueError, "the transform left")
        if own.tv_tensors:
            return MovedParts(image, boxes, masks, fields, keypoints)
        boxes, masks, keypoints = ([plain(each) for each in parts] for parts in (boxes, masks, keypoints))
        return MovedParts(plain(image), boxes, masks, fields, keypoints)
