"""Fields with one row per box, whose rows are dropped together with the box."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sluicegate.transforms import only_boxes
from sluicegate.transforms.called import is_exactly, with_each_part
from sluicegate.transforms.leaves import wrapped

Transform = Callable[..., Any]
_V2 = "torchvision.transforms.v2"


def checked_box_fields(box_fields: Any, boxes: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """Return the argument `box_fields` of `ImageField` by field of boxes; None if it was not given.

    Raises:
        TypeError: it is not a name, several names, or a dict of these.
        ValueError: it names fields for boxes that are not in `boxes`.
    """
    if box_fields is None:
        return None
    if not isinstance(box_fields, Mapping):
        if len(boxes) != 1 and box_fields:
            raise ValueError(
                f"box_fields: expected a dict by field of boxes, because boxes has {len(boxes)} fields, but got "
                f"{box_fields!r}"
            )
        box_fields = {boxes[0]: box_fields} if boxes else {}
    by_boxes = {name: (of,) if isinstance(of, str) else tuple(of) for name, of in box_fields.items()}
    for name, of in by_boxes.items():
        if name not in boxes:
            raise ValueError(f"box_fields: expected fields of boxes, {list(boxes)}, but got {name!r}")
        if not all(isinstance(each, str) for each in of):
            raise TypeError(f"box_fields: expected names of fields, got {of!r}")
    return {name: by_boxes.get(name, ()) for name in boxes}


def row_count(value: Any) -> int | None:
    """Return the number of rows in a tensor, an array or a list; None for anything else."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.shape[0]) if value.ndim else None
    return len(value) if isinstance(value, list) else None


def rows_of(value: Any, rows: Sequence[int]) -> Any:
    """Return the rows of a tensor, an array or a list at the indices `rows`."""
    if isinstance(value, list):
        return [value[row] for row in rows]
    if type(value) is not torch.Tensor and isinstance(value, torch.Tensor):
        # Keep the mark of key points: without it, the next transform would not move them.
        return wrapped(rows_of(value.as_subclass(torch.Tensor), rows), value)
    return value[torch.as_tensor(rows, dtype=torch.int64)] if isinstance(value, torch.Tensor) else value[list(rows)]


def undeclared(name: str, value: Any, count: int) -> Iterator[str]:
    """Yield the paths of `value`, in field `name`, that have `count` rows: the field, or parts of dicts in it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from undeclared(f"{name}.{key}", part, count)
    elif row_count(value) == count:
        yield name


def check_rows(
    boxes: Mapping[str, Any],
    box_fields: Mapping[str, Sequence[str]] | None,
    fields: Mapping[str, Any],
    error: type[ValueError],
    found: str,
) -> None:
    """Raise `error` if one of `fields` does not have as many rows as the boxes that it belongs to."""
    for name, names in (box_fields or {}).items():
        for field in names:
            if boxes[name] is None or (value := fields.get(field)) is None:
                continue
            if (count := row_count(value)) is None:
                kind = type(value).__name__
                raise error(f"box_fields: expected a tensor, an array or a list in {field!r}, but got {kind}")
            if count != len(boxes[name]):
                raise error(
                    f"box_fields: expected a row for each box, but {found} {len(boxes[name])} boxes in {name!r} and "
                    f"{count} rows in {field!r}; drop the same rows of both"
                )


def following(transform: Transform, boxes: str, names: Sequence[str]) -> Transform:
    """Return `transform` with every `SanitizeBoundingBoxes` also dropping rows of the fields `names`.

    It is recognized as the transform itself, or in a container; it is called with `(image, target)`.
    """
    modules = (_V2, only_boxes.__package__)
    if any(is_exactly(transform, module, ("SanitizeBoundingBoxes",)) for module in modules):
        return _Sanitize(transform, boxes, names)
    changed: Transform = with_each_part(transform, lambda step: following(step, boxes, names))
    return changed


class _Sanitize:
    """torchvision's `SanitizeBoundingBoxes` with row numbers as labels, which show the boxes that it kept."""

    def __init__(self, sanitize: Any, boxes: str, names: Sequence[str]) -> None:
        kind = importlib.import_module(_V2).SanitizeBoundingBoxes
        sizes = {"min_size": sanitize.min_size, "min_area": sanitize.min_area}
        self._sanitize = kind(**sizes, labels_getter=lambda inputs: inputs[2])
        self._boxes, self._names = boxes, names

    def __call__(self, image: Any, target: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if target[self._boxes] is None:
            return image, target
        numbers = torch.arange(len(target[self._boxes]))
        fields = {name: target[name] for name in self._names}
        others = {name: value for name, value in target.items() if name not in fields}
        image, others, rows = self._sanitize(image, others, numbers)
        kept = {name: None if value is None else rows_of(value, rows.tolist()) for name, value in fields.items()}
        return image, {name: kept[name] if name in kept else others[name] for name in target}
