"""`recognize`: transforms that the core can run, including torchvision's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from . import container, conversion, identity, only_boxes, perspective, warp
from .called import CalledTransforms, is_exactly, is_sequential
from .drawing import compiled
from .image_kind import ImageKind
from .specification import as_json
from .transform import Transform
from .v1 import applied_of_v1, as_of_pillow, inside, is_v1, own_of_v1

_CONTAINERS = ("Compose", "RandomApply", "RandomOrder")
# The attributes of every module.
_MODULE = frozenset(vars(torch.nn.Module()))
# Arguments that torchvision stores in a different form.
_KEPT = "_fill", "_labels_getter", "_log_ratio", "_policies", "_PARAMETER_MAX"
_V1, _V2 = "torchvision.transforms", "torchvision.transforms.v2"
# With other modes, Pillow's values differ: it multiplies colors by alpha when it resizes.
_MODES_LIKE_PILLOW = ("RGB", "L")
# The core's names of transforms that only change values.
_OF_VALUES = ("Normalize", "ToDtype", "ToImage")


class Divided(NamedTuple):
    """A transform, divided into the part that the core runs and the part that is called after it.

    Attributes:
        native: the transforms of the core, a list for JSON; empty if there are none.
        called: the transforms that are called with the resulting image; None if there are none.
        reason: which transform is the first to be called, and why; None if none is.
        labels: for each of `native`, a description of its transform.
    """

    native: list[Any]
    called: CalledTransforms | None
    reason: str | None
    labels: list[str]

    @property
    def random(self) -> str | None:
        """A description of the first random transform of the core; None if there is none."""
        drawn = (label for label, spec in zip(self.labels, self.native, strict=True) if _is_random(spec))
        return next(drawn, None)


def _is_random(spec: Any) -> bool:
    return compiled(as_json([spec])).is_random()


class NotRecognizedError(Exception):
    """The reason why the core does not run a transform."""


def recognize(transform: Any) -> list[Any] | None:
    """Return the transform as a list for JSON that `_core.ImageTransforms` takes; None if the core does not know it.

    It knows this package's transforms, those of `torchvision.transforms.v2` of the same names, `Compose`,
    `RandomApply`, `RandomOrder` and `torch.nn.Sequential` of them, and those of `torchvision.transforms` (v1) whose
    values are the same on Pillow images within the rounding of each step: exactly these classes, not subclasses, which
    may differ. Torchvision is not imported for this: its transforms exist only if it was imported.

    Args:
        transform: any object.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.recognize(transforms.RandomHorizontalFlip())
        [{'RandomHorizontalFlip': {'p': 0.5}}]
        >>> transforms.recognize(len) is None
        True
    """
    found = divide(transform)
    return found.native if found.called is None else None


def divide(
    transform: Any, *, mode: str = "RGB", has_places: bool = False, has_keypoints: bool = False, box_fields: int = 1
) -> Divided:
    """Divide `transform` before the first transform that the core does not know: it runs the part before that.

    Args:
        transform: any callable.
        mode: the mode that images are decoded in.
        has_places: True if boxes or masks move with the image.
        has_keypoints: True if key points move with the image.
        box_fields: the number of fields of boxes.
    """
    native: list[Any] = []
    labels: list[str] = []
    kind = ImageKind(is_pillow=is_v1(transform), is_gray=mode == "L")
    # The transform that made images of Pillow's of tensors, with its position.
    to_pillow: tuple[str, Any] | None = None
    steps = list(steps_of(transform, ""))
    for number, (label, step) in enumerate(steps):
        try:
            own = own_of(step, kind.is_pillow)
            _check(own, mode if kind.is_pillow else None, kind.dtype, has_places)
            if kind.is_gray:
                _check_means(step)
            _check_boxes(own, box_fields)
            if has_keypoints:
                _check_key_points(own)
            if has_places:
                _check_marks(own, [each for _, each in steps[number + 1 :]])
        except NotRecognizedError as error:
            rest = [each for _, each in steps[number:]]
            called = CalledTransforms(rest, takes_pillow=kind.is_pillow, takes_marked=kind.is_marked)
            return Divided(native, called, f"{label}{name_of(step)}: {error}", labels)
        native += own.spec() or []
        labels += [f"{label}{name_of(step)}"] * (len(native) - len(labels))
        kind = kind.after(own)
        if isinstance(own, conversion.ToPILImage):
            to_pillow = label, step
        elif not kind.is_pillow:
            to_pillow = None
    if to_pillow is not None:
        label, step = to_pillow
        called = CalledTransforms([step])
        return Divided(native, called, f"{label}{name_of(step)}: makes an image of Pillow's, in Python", labels)
    return Divided(native, None, None, labels)


def steps_of(transform: Any, label: str) -> Iterator[tuple[str, Any]]:
    """Return the transforms of a pipeline in order, with descriptions of their positions."""
    is_compose = any(is_exactly(transform, module, ("Compose",)) for module in (_V1, _V2, __package__))
    if not (is_compose or is_sequential(transform)):
        yield f"transform {label}, " if label else "", transform
        return
    for number, each in enumerate(transform.transforms if is_compose else transform, 1):
        yield from steps_of(each, f"{label}.{number}" if label else str(number))


def name_of(transform: Any) -> str:
    """Return the name of a transform for messages."""
    name = getattr(transform, "__qualname__", None)
    return f"`{name if isinstance(name, str) else type(transform).__name__}`"


def own_of(transform: Any, is_pillow: bool) -> Transform:
    """Return this package's equivalent of `transform`; raise `NotRecognizedError` if there is none."""
    if is_sequential(transform):
        parts = [own_of(each, is_pillow) for each in transform]
        return container.Compose(parts) if parts else identity.Identity()
    name, ours = type(transform).__name__, _ours()
    origin = next((module for module in (__package__, _V2, _V1) if is_exactly(transform, module, tuple(ours))), None)
    if origin is None:
        raise NotRecognizedError(why_not(transform))
    try:
        if name in _CONTAINERS and not (origin == _V1 and name == "RandomOrder"):
            parts = [own_of(each, False) for each in transform.transforms]
            if name != "RandomApply":
                own: Transform = ours[name](parts)
            else:
                apply = applied_of_v1 if origin == _V1 else container.RandomApply
                own = apply(parts, transform.p)
        elif origin == __package__:
            own = transform
        elif origin == _V1:
            own = own_of_v1(transform, ours[name])
        else:
            check_fill_kept(transform)
            own = ours[name].__new__(ours[name])
            for attribute, value in vars(transform).items():
                if attribute not in _MODULE and attribute not in _KEPT:
                    setattr(own, attribute, value)
        if is_pillow and not isinstance(own, conversion.ToImage):
            own = as_of_pillow(own)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise NotRecognizedError(str(error)) from None
    return own


def check_fill_kept(transform: Any) -> None:
    """Refuse a transform of torchvision's v2 whose `fill` was changed after construction, which it ignores.

    Raises:
        NotRecognizedError: it was.
    """
    kept, fill = (vars(transform).get(name) for name in ("_fill", "fill"))
    if not isinstance(kept, dict) or "others" not in kept or isinstance(fill, dict):
        return
    expected = fill if fill is None or isinstance(fill, (int, float)) else [float(each) for each in fill]
    if kept["others"] != expected:
        raise NotRecognizedError("its fill was changed after it was made, which torchvision ignores")


@functools.cache
def _ours() -> dict[str, Any]:
    """Return the transforms of this package by their names."""
    package = sys.modules[__package__]
    found = {name: getattr(package, name) for name in package.__all__}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and kind is not Transform}


def _check(own: Transform, mode_of_pillow: str | None, dtype: str, has_places: bool) -> None:
    """Raise `NotRecognizedError` if the core can't apply `own` to such an image."""
    try:
        spec, mask_spec = own.spec(), own.mask_spec()
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        # torchvision raises the same error when it is called
        raise NotRecognizedError(str(error)) from None
    if spec is None:
        raise NotRecognizedError("it runs only in Python")
    if spec != mask_spec:
        raise NotRecognizedError("it fills masks with different values than images")
    is_conversion = isinstance(own, conversion.ToImage)
    if mode_of_pillow not in (None, *_MODES_LIKE_PILLOW) and not is_conversion:
        raise NotRecognizedError(f"mode={mode_of_pillow!r}: Pillow's values differ")
    if isinstance(own, conversion.ToPILImage) and (own.mode is not None or dtype != "uint8"):
        raise NotRecognizedError("it changes the kind of image")
    if has_places and any(isinstance(each, conversion.ConvertImageDtype) for each in _all(own)):
        raise NotRecognizedError("it changes the data type of boxes and masks, too")


def _check_boxes(own: Transform, box_fields: int) -> None:
    """Raise `NotRecognizedError` if `own` drops boxes or draws by them, and there is not exactly one field of them.

    Torchvision uses the first of several fields to drop boxes and to draw, and refuses samples without boxes.
    """
    if box_fields == 1:
        return
    for kind, what in (
        (only_boxes.SanitizeBoundingBoxes, "drops boxes"),
        (only_boxes.RandomIoUCrop, "draws by the boxes"),
    ):
        if any(isinstance(each, kind) for each in _all(own)):
            raise NotRecognizedError(f"it {what} of one field, but there are {box_fields} fields of boxes")


def _check_means(transform: Any) -> None:
    """Raise `NotRecognizedError` for a v1 `Normalize` that refuses a gray image; v2 makes a channel for each mean."""
    if is_exactly(transform, _V1, ("Normalize",)) and torch.as_tensor(transform.mean).numel() > 1:
        raise NotRecognizedError("torchvision.transforms (v1) takes one mean for a gray image")


def _check_key_points(own: Transform) -> None:
    """Raise `NotRecognizedError` if `own` rotates the image: torch adds up products for key points in its own order."""
    turning = (warp.RandomRotation, warp.RandomAffine, perspective.RandomPerspective)
    if any(isinstance(each, turning) for each in _all(own)):
        raise NotRecognizedError("key points rotate with the image, and only torchvision rotates those")


def _check_marks(own: Transform, later: Sequence[Any]) -> None:
    """Raise `NotRecognizedError` if `own` removes marks from boxes or masks, and it or `later` moves these.

    Torchvision does not move unmarked tensors. Called transforms get marked ones again, so `own` must be called too.
    """
    parts = [each for each in _all(own) if not inside(each)]
    takes_marks_off = any(isinstance(each, conversion.ToPureTensor) for each in parts)
    if takes_marks_off and not all(map(_is_of_values, [*parts, *later])):
        raise NotRecognizedError("boxes, masks and key points no longer move after it; put it at the end")


def _is_of_values(transform: Any) -> bool:
    try:
        spec = own_of(transform, is_pillow=False).spec()
    except (NotRecognizedError, AttributeError, IndexError, TypeError, ValueError):
        return False
    names = [each if isinstance(each, str) else next(iter(each)) for each in spec or []]
    return spec is not None and all(name in _OF_VALUES for name in names)


def _all(own: Transform) -> Iterator[Any]:
    yield own
    for each in inside(own):
        yield from _all(each)


def why_not(transform: Any) -> str:
    """Return the reason why a transform is not recognized."""
    if type(transform) is torch.nn.Sequential:
        return "it has hooks, or its `forward` was replaced"
    for kind in type(transform).__mro__:
        if kind.__name__ in _ours() and kind.__module__.startswith(("torchvision.transforms", __package__)):
            if kind is type(transform):
                return "it has hooks, or its `forward` was replaced"
            return f"a subclass of `{kind.__name__}`, which may do something else"
    return "not recognized"
