"""`recognise`: transforms that the core can run, torchvision's among them."""

from __future__ import annotations

import sys
from typing import Any

import torch

from . import augment, color, container, conversion, geometry, identity, values, warp
from .transform import Transform

__all__ = ["recognise"]

_MODULES = (geometry, warp, color, values, conversion, augment, container, identity)
_OURS = {name: getattr(module, name) for module in _MODULES for name in module.__all__}
# What every module has.
_MODULE = frozenset(vars(torch.nn.Module()))
# Arguments that torchvision keeps under another form than it takes them.
_KEPT = "_fill", "_log_ratio", "_policies"


def recognise(transform: Any) -> list[Any] | None:
    """The transform as a list for JSON that `_core.ImageTransforms` takes; None where the core does not know it.

    Known are this package's transforms, those of `torchvision.transforms.v2` of the same names, `Compose` and
    `RandomApply` of them: the very classes, not subclasses, which may do something else. Torchvision is not imported
    for it: who has one of its transforms has imported it.

    Example:
        >>> from sluicegate import transforms
        >>> transforms.recognise(transforms.RandomHorizontalFlip())
        [{'RandomHorizontalFlip': {'p': 0.5}}]
        >>> transforms.recognise(len) is None
        True
    """
    own = _own(transform)
    return None if own is None else own.spec()


def _own(transform: Any) -> Transform | None:
    """The transform of this package that does what `transform` does."""
    kind = type(transform)
    if kind in _OURS.values():
        if kind not in (container.Compose, container.RandomApply):
            return _known(transform)
    elif not _is_torchvisions(kind):
        return None
    theirs = vars(transform)
    if theirs.get("_forward_hooks") or theirs.get("_forward_pre_hooks") or "forward" in theirs:
        return None
    name = kind.__name__
    if name in ("Compose", "RandomApply"):
        inside = [_own(each) for each in transform.transforms]
        if any(each is None for each in inside):
            return None
        known = [each for each in inside if each is not None]
        return container.Compose(known) if name == "Compose" else container.RandomApply(known, transform.p)
    ours: Transform = _OURS[name].__new__(_OURS[name])
    for attribute, value in theirs.items():
        if attribute not in _MODULE and attribute not in _KEPT:
            setattr(ours, attribute, value)
    return _known(ours)


def _is_torchvisions(kind: type) -> bool:
    v2 = sys.modules.get("torchvision.transforms.v2")
    return v2 is not None and kind.__name__ in _OURS and getattr(v2, kind.__name__, None) is kind


def _known(transform: Transform) -> Transform | None:
    """`transform`, unless the core can't do what it does with these arguments."""
    try:
        if transform.spec() is None or transform.mask_spec() != transform.spec():
            return None
    except (AttributeError, IndexError, TypeError, ValueError):
        # Torchvision says so when it is called.
        return None
    return transform
