"""Samples that torchvision transforms: those with Pillow images or key points, or for transforms of boxes alone."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .arguments import interpolation_of
from .torch_draws import drawing_from_current


class Needed(NamedTuple):
    """Why torchvision is needed.

    Attributes:
        what: the part of a sample that it transforms, with a verb.
        remedy: how to avoid it; "" if that is not possible.
    """

    what: str
    remedy: str


PILLOW = Needed("a Pillow image is", "; put ToImage() or ToTensor(), which make tensors, before it")
BOXES = Needed("boxes are", "")
KEY_POINTS = Needed("key points are", "")


def is_own(kind: type) -> bool:
    """Return True for a class of this package; user-defined subclasses are not."""
    return f"{kind.__module__}.".startswith(f"{__package__}.")


def by_torchvision(transform: Any, sample: Any, needed: Needed) -> Any:
    """Return the result of torchvision's transform with the name and arguments of `transform` for `sample`.

    Args:
        transform: one of this package's.
        sample: the argument of the call.
        needed: why this package does not transform it, for errors.

    Raises:
        ModuleNotFoundError: torchvision is not installed.
        TypeError: torchvision has no transform of that name, or refuses the sample.
    """
    kind = next(each for each in type(transform).__mro__ if is_own(each))
    name = kind.__name__
    try:
        v2 = importlib.import_module("torchvision.transforms.v2")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name}: {needed.what} transformed by torchvision, which is not installed ({error}){needed.remedy}"
        ) from None
    theirs = getattr(v2, name, None)
    if theirs is None:
        raise TypeError(
            f"{type(transform).__name__}: {needed.what} transformed by torchvision, which has no transform of this "
            f"name{needed.remedy}"
        )
    arguments = {key: _as_theirs(v2, key, value) for key, value in transform.arguments().items()}
    with drawing_from_current():
        return theirs(**arguments)(sample)


def _as_theirs(v2: Any, name: str, value: Any) -> Any:
    if name == "interpolation":
        return v2.InterpolationMode(interpolation_of(value))
    return v2.AutoAugmentPolicy(value) if name == "policy" and isinstance(value, str) else value
