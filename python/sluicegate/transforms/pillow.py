"""Transforms called with Pillow's images: torchvision's do the work, so that the values are Pillow's."""

from __future__ import annotations

import importlib
from typing import Any

from .arguments import interpolation_of
from .torch_draws import drawing_from_current

__all__ = ["on_pillow"]


def on_pillow(transform: Any, sample: Any) -> Any:
    """What torchvision's transform of the name and the arguments of `transform` makes of `sample`.

    Raises:
        ModuleNotFoundError: torchvision is not installed.
        TypeError: torchvision has no transform of that name, or refuses the image.
    """
    kind = next(each for each in type(transform).__mro__ if each.__module__.rpartition(".")[0] == __package__)
    name = kind.__name__
    try:
        v2 = importlib.import_module("torchvision.transforms.v2")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name}: a Pillow image is transformed by torchvision, which is not installed ({error}): put ToImage() or "
            "ToTensor() before it, which make tensors"
        ) from None
    theirs = getattr(v2, name, None)
    if theirs is None:
        raise TypeError(
            f"{type(transform).__name__}: torchvision has no transform of this name for a Pillow image: put ToImage() "
            "before it, which makes a tensor"
        )
    arguments = {key: _as_theirs(v2, key, value) for key, value in transform.arguments().items()}
    with drawing_from_current():
        return theirs(**arguments)(sample)


def _as_theirs(v2: Any, name: str, value: Any) -> Any:
    if name == "interpolation":
        return v2.InterpolationMode(interpolation_of(value))
    return v2.AutoAugmentPolicy(value) if name == "policy" and isinstance(value, str) else value
