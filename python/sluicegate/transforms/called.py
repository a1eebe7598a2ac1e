"""`CalledTransforms`: the transforms of a pipeline that are called in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from . import container, conversion, identity
from .leaves import flatten, kind_of, marked_image, to_transform, unflatten
from .pillow_image import pillow_image
from .torch_draws import drawing_from_current

_CONTAINERS = ("Compose", "RandomApply", "RandomChoice", "RandomOrder")


class CalledTransforms:
    """Transforms that are called in Python with an image that the core has decoded, one after another.

    Torchvision's draw from the same generator as the earlier transforms in the core. `ToTensor` converts the image to
    floats from 0 to 1, although it is already a tensor.

    Args:
        transforms: the transforms.
        takes_pillow: True if the image is a Pillow image; otherwise it is a tensor (channels, height, width).
        takes_marked: True if the tensor is marked as `torchvision.tv_tensors.Image`, as after a `ToImage`.
    """

    def __init__(
        self, transforms: Sequence[Callable[..., Any]], *, takes_pillow: bool = False, takes_marked: bool = False
    ) -> None:
        self.transforms = [_as_called(each) for each in transforms]
        self.takes_pillow = takes_pillow
        self.takes_marked = takes_marked

    def with_each(self, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> CalledTransforms:
        """Return the same with the results of `change` for each transform."""
        changed = [change(each) for each in self.transforms]
        return CalledTransforms(changed, takes_pillow=self.takes_pillow, takes_marked=self.takes_marked)

    def __call__(self, image: Any, *targets: Any) -> Any:
        """Transform the image, or `(image, target)`."""
        if self.takes_pillow and isinstance(image, torch.Tensor):
            image = pillow_image(image)
        elif self.takes_marked:
            image = marked_image(image)
        inputs: Any = (image, *targets)
        for transform in self.transforms:
            with _draws_of(transform):
                outputs = transform(*inputs)
            inputs = outputs if targets else (outputs,)
        return outputs


class _ToTensor:
    """`transform`, a `ToTensor`, for an image that may already be a tensor."""

    def __init__(self, transform: Callable[..., Any]) -> None:
        self._transform = transform

    def __call__(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        leaves = flatten(sample)
        chosen = to_transform([kind_of(leaf) for leaf in leaves], ("tensor", "Image"))
        floats = [
            conversion.divided(leaf.as_subclass(torch.Tensor)) if is_chosen and leaf.dtype == torch.uint8 else leaf
            for leaf, is_chosen in zip(leaves, chosen, strict=True)
        ]
        return self._transform(unflatten(sample, iter(floats)))


def is_exactly(transform: Any, module: str, names: Sequence[str]) -> bool:
    """Return True if it is an object of one of these classes of a module, without hooks."""
    kind = type(transform)
    found = sys.modules.get(module)
    if found is None or kind.__name__ not in names or getattr(found, kind.__name__, None) is not kind:
        return False
    own = vars(transform)
    return not (own.get("_forward_hooks") or own.get("_forward_pre_hooks") or "forward" in own)


def is_sequential(transform: Any) -> bool:
    """Return True if it is a `torch.nn.Sequential`, which torchvision recommends for scripted pipelines."""
    return is_exactly(transform, "torch.nn", ("Sequential",))


def with_each_part(transform: Any, change: Callable[[Any], Any]) -> Any:
    """Return `transform` with each transform in it replaced by `change`, if it is a container.

    Containers are `Compose`, `RandomApply`, `RandomChoice` and `RandomOrder` of torchvision (v2) and of this package.
    Anything else is returned unchanged, as is a container without changes.
    """
    modules = ("torchvision.transforms.v2", __package__)
    if not any(is_exactly(transform, module, _CONTAINERS) for module in modules):
        return transform
    parts = [change(each) for each in transform.transforms]
    if all(part is each for part, each in zip(parts, transform.transforms, strict=True)):
        return transform
    kind = getattr(container, type(transform).__name__)
    return kind(parts) if kind in (container.Compose, container.RandomOrder) else kind(parts, transform.p)


def _as_called(transform: Any) -> Any:
    modules = ("torchvision.transforms.v2", __package__)
    if any(is_exactly(transform, module, ("ToTensor",)) for module in modules):
        return _ToTensor(transform)
    if is_sequential(transform):
        # A sequential module takes one argument, not an image with its boxes and masks.
        return container.Compose([_as_called(each) for each in transform]) if len(transform) else identity.Identity()
    return with_each_part(transform, _as_called)


def _draws_of(transform: Any) -> AbstractContextManager[Any]:
    kind = type(transform)
    # A container of this package may replace one of torchvision's, and contain torchvision's transforms.
    is_meant = kind.__module__.startswith("torchvision.") or kind in (getattr(container, name) for name in _CONTAINERS)
    return drawing_from_current() if is_meant else nullcontext()
