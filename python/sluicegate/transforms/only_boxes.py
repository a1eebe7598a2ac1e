"""Transforms that need bounding boxes: `RandomIoUCrop` draws based on them, and the others do not change pixels."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

from .boxes import FORMATS
from .by_torchvision import BOXES, by_torchvision
from .transform import Transform

# The default limits of `RandomIoUCrop`, with which SSD was trained.
_LIMITS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class _BoxTransform(Transform):
    """Calls torchvision's transform of this name with samples: the boxes in them are marked by its `tv_tensors`.

    An `ImageField` with one field of boxes runs it in Rust.
    """

    def fuses(self, is_first: bool) -> bool:
        """Return False: a call with a sample runs torchvision's."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample, or to several parts of one."""
        return by_torchvision(self, inputs if len(inputs) > 1 else inputs[0], BOXES)


class ClampBoundingBoxes(_BoxTransform):
    """Clamp boxes to their image.

    Args:
        clamping_mode: "soft", "hard" (the same for upright boxes), None to keep boxes, or "auto" for the mode of
            the boxes themselves.

    Raises:
        ValueError: `clamping_mode` is not one of these.
        ModuleNotFoundError: when called with a sample, torchvision is not installed.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.ClampBoundingBoxes()
        ClampBoundingBoxes(clamping_mode=auto)
    """

    def __init__(self, clamping_mode: Literal["soft", "hard", "auto"] | None = "auto") -> None:
        if clamping_mode not in ("soft", "hard", "auto", None):
            raise ValueError(f"clamping_mode: expected 'soft', 'hard', 'auto' or None, got {clamping_mode!r}")
        self.clamping_mode = clamping_mode

    def spec(self) -> list[Any]:
        """Return the transform as a list for JSON that the core takes."""
        return [] if self.clamping_mode is None else ["ClampBoundingBoxes"]


class ConvertBoundingBoxFormat(_BoxTransform):
    """Convert boxes to a different format.

    Args:
        format: "XYXY", "XYWH", "CXCYWH", or torchvision's `BoundingBoxFormat`.

    Raises:
        ModuleNotFoundError: when called with a sample, torchvision is not installed.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.ConvertBoundingBoxFormat("XYWH")
        ConvertBoundingBoxFormat(format=XYWH)
    """

    def __init__(self, format: Any) -> None:
        self.format = format

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for JSON that the core takes; None for formats of rotated boxes."""
        name = getattr(self.format, "name", self.format)
        known = isinstance(name, str) and name.upper() in FORMATS
        return [{"ConvertBoundingBoxFormat": {"format": name.upper()}}] if known else None


class RandomIoUCrop(_BoxTransform):
    """Crop a part of the image that contains the center of a box and overlaps enough with such a box, as in SSD.

    A limit is drawn from `sampler_options`, then up to `trials` parts of the image, until one of them meets the limit;
    after that, a new limit is drawn. Boxes whose centers are outside of the part become zeros; put
    `SanitizeBoundingBoxes` after it, which drops these with their labels.

    In an `ImageField` it runs in Rust, with torchvision's draws, for one field of boxes, scales from 0 to 1, and limits
    of which one is at least 1. Without such a limit, torchvision is called, which never ends for images without boxes.

    Source: Liu et al., "SSD: Single shot multibox detector", ECCV 2016.

    Args:
        min_scale, max_scale: the minimum and maximum height and width, as shares of the image's.
        min_aspect_ratio, max_aspect_ratio: the minimum and maximum aspect ratio, width / height.
        sampler_options: the limits, which are equally likely: the minimum overlap (intersection over union) of the part
            with a box whose center is in it. A limit of 1 or more keeps the whole image. Default: 0, 0.1, 0.3, 0.5,
            0.7, 0.9 and 1.
        trials: the number of parts drawn before a new limit is drawn.

    Raises:
        ModuleNotFoundError: when called with a sample, torchvision is not installed.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomIoUCrop(sampler_options=[0.5, 1.0]).options
        [0.5, 1.0]
    """

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        self.min_scale = min_scale
        self.max_scale = max_scale
        self.min_aspect_ratio = min_aspect_ratio
        self.max_aspect_ratio = max_aspect_ratio
        # The name of torchvision's attribute.
        self.options = list(_LIMITS) if sampler_options is None else sampler_options
        self.trials = trials

    @property
    def sampler_options(self) -> Sequence[float]:
        """Return the limits, `options`."""
        return self.options

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for JSON that the core takes; None for numbers that it does not take."""
        limits = [float(limit) for limit in self.options]
        names = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio")
        numbers = {name: float(getattr(self, name)) for name in names}
        is_finite = all(math.isfinite(number) for number in [*limits, *numbers.values()])
        is_part = all(0 <= numbers[name] <= 1 for name in names[:2])
        if not (is_finite and is_part and max(limits, default=0) >= 1):
            return None
        trials = max(operator.index(self.trials), 0)
        return [{"RandomIoUCrop": {**numbers, "sampler_options": limits, "trials": trials}}]


class SanitizeBoundingBoxes(_BoxTransform):
    """Drop boxes that are too small or reach beyond their image, together with their labels.

    In an `ImageField`, the labels are the fields in `box_fields`, whatever `labels_getter` is.

    Args:
        min_size: the minimum width and height, in pixels, at least 1.
        min_area: the minimum area, in square pixels, at least 1.
        labels_getter: finds the labels when it is called with samples: a function of the sample that returns a
            tensor, or several; "default" for the key "labels" of a dict; None for no labels.

    Raises:
        ValueError: `min_size` or `min_area` is below 1.
        ModuleNotFoundError: when called with a sample, torchvision is not installed.

    Examples:
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
        """Return the transform as a list for JSON that the core takes; None if a function finds the labels."""
        if not (self.labels_getter is None or self.labels_getter == "default"):
            return None
        return [{"SanitizeBoundingBoxes": {"min_size": float(self.min_size), "min_area": float(self.min_area)}}]
