"""Transforms of bounding boxes alone: pixels stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from .boxes import FORMATS
from .by_torchvision import BOXES, by_torchvision
from .transform import Transform

__all__ = ["ClampBoundingBoxes", "ConvertBoundingBoxFormat", "SanitizeBoundingBoxes"]


class _OfBoxes(Transform):
    """Calls torchvision's transform of this name with samples: the boxes in them are marked by its `tv_tensors`.

    An `ImageField` with one field of boxes runs it in Rust.
    """

    def fuses(self, is_first: bool) -> bool:
        """Never: what is called with a sample is torchvision's."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """What becomes of the sample, or of several parts of one."""
        return by_torchvision(self, inputs if len(inputs) > 1 else inputs[0], BOXES)


class ClampBoundingBoxes(_OfBoxes):
    """Boxes end where their image does.

    Args:
        clamping_mode: "soft", "hard" (the same for upright boxes), None for boxes as they are, or "auto" for what the
            boxes say themselves.

    Raises:
        ValueError: `clamping_mode` is none of these.

    Example:
        >>> from sluicegate import transforms
        >>> transforms.ClampBoundingBoxes()
        ClampBoundingBoxes(clamping_mode=auto)
    """

    def __init__(self, clamping_mode: Literal["soft", "hard", "auto"] | None = "auto") -> None:
        if clamping_mode not in ("soft", "hard", "auto", None):
            raise ValueError(f"clamping_mode: expected 'soft', 'hard', 'auto' or None, got {clamping_mode!r}")
        self.clamping_mode = clamping_mode

    def spec(self) -> list[Any]:
        """Returns the transform as a list for JSON that the core takes."""
        return [] if self.clamping_mode is None else ["ClampBoundingBoxes"]


class ConvertBoundingBoxFormat(_OfBoxes):
    """Boxes in another format.

    Args:
        format: "XYXY", "XYWH", "CXCYWH", or torchvision's `BoundingBoxFormat`.

    Example:
        >>> from sluicegate import transforms
        >>> transforms.ConvertBoundingBoxFormat("XYWH")
        ConvertBoundingBoxFormat(format=XYWH)
    """

    def __init__(self, format: Any) -> None:
        self.format = format

    def spec(self) -> list[Any] | None:
        """Returns the transform as a list for JSON that the core takes; None for formats of rotated boxes."""
        name = getattr(self.format, "name", self.format)
        known = isinstance(name, str) and name.upper() in FORMATS
        return [{"ConvertBoundingBoxFormat": {"format": name.upper()}}] if known else None


class SanitizeBoundingBoxes(_OfBoxes):
    """Drops boxes that are too small, or reach past their image, and the labels that belong to them.

    In an `ImageField` these are the fields `box_fields`, whatever `labels_getter` is.

    Args:
        min_size: the least width and height, in pixels, at least 1.
        min_area: the least area, in square pixels, at least 1.
        labels_getter: where the labels are, if it is called with samples: a function of the sample that returns a
            tensor, or several; "default" for the key "labels" of a dict; None for none.

    Raises:
        ValueError: `min_size` or `min_area` is below 1.

    Example:
        >>> from sluicegate import transforms
        >>> transforms.SanitizeBoundingBoxes(min_size=2, labels_getter=None)
        SanitizeBoundingBoxes(min_size=2, min_area=1.0)
    """

    def __init__(
        self,
        min_size: float = 1.0,
        min_area: float = 1.0,
        labels_getter: Callable[[Any], Any] | Literal["default"] | None = "default",
    ) -> None:
        for name, value in (("min_size", min_size), ("min_area", min_area)):
            if not value >= 1:
                raise ValueError(f"{name}: expected at least 1, got {value!r}")
        self.min_size = min_size
        self.min_area = min_area
        self.labels_getter = labels_getter

    def spec(self) -> list[Any] | None:
        """Returns the transform as a list for JSON that the core takes; None if a function finds the labels."""
        if not (self.labels_getter is None or self.labels_getter == "default"):
            return None
        return [{"SanitizeBoundingBoxes": {"min_size": float(self.min_size), "min_area": float(self.min_area)}}]
