"""`Transform`: the common parts of this package's transforms."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .by_torchvision import PILLOW, by_torchvision, is_own
from .leaves import IMAGES, flatten, kind_of, to_transform, unflatten
from .running import run


class Transform:
    """A transform of images, with the name, the arguments and the draws of torchvision's (`torchvision.transforms.v2`).

    Call it with a sample: an image (a uint8 or float32 tensor of shape (..., channels, height, width)), or
    dictionaries, lists and tuples that contain images, masks and bounding boxes, marked by torchvision's `tv_tensors`.
    All of these are transformed by one draw. If no tensor is marked as an image, the first unmarked one is the image. A
    NumPy array by itself, (height, width, channels) or (height, width), is also an image, and stays an array;
    torchvision's transforms ignore arrays.

    A sample with Pillow images or key points is transformed by torchvision's transform of the same name, which must be
    installed; Pillow images then have Pillow's values.

    Random values are drawn from torch's default generator, as in torchvision: after the same `torch.manual_seed`, the
    results are the same. While a `sluicegate.DataLoader` with a seed fetches a sample, they are drawn from
    `sluicegate.sample_rng().torch`, the sample's own generator.

    Values are torchvision's to the last bit, except where several pixels are summed, because torch sums them in a
    different order. So resized or blurred uint8 images may differ by one level, and float images with values from 0 to
    1 as documented for each transform.

    Threads may share a transform, and it can be pickled.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> flip = transforms.RandomHorizontalFlip(p=1.0)
        >>> isinstance(flip, transforms.Transform)
        True
        >>> flip({"image": torch.tensor([[[1, 2]]], dtype=torch.uint8), "label": 3})
        {'image': tensor([[[2, 1]]], dtype=torch.uint8), 'label': 3}
    """

    # Kinds of leaves that torchvision's transform of this name returns unchanged.
    passes: ClassVar[tuple[str, ...]] = ()

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core, for JSON; None if only Python can do it."""
        raise NotImplementedError

    def mask_spec(self) -> list[Any] | None:
        """Return the same for masks, which may be filled with other values."""
        return self.spec()

    def fuses(self, is_first: bool) -> bool:
        """Return True if it may share a call of the core with its neighbors; `is_first` if none precedes it."""
        return True

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample, or to several parts of one."""
        return run([self], inputs if len(inputs) > 1 else inputs[0])

    def _of_leaves(self, sample: Any, meant: tuple[str, ...], convert: Callable[[Any, str], Any]) -> Any:
        """Return `sample` with each leaf of the kinds in `meant` replaced by `convert(leaf, kind)`."""
        leaves = flatten(sample)
        kinds = [kind_of(leaf) for leaf in leaves]
        chosen = to_transform(kinds, meant)
        after = [
            convert(leaf, str(kind)) if is_chosen else leaf
            for leaf, kind, is_chosen in zip(leaves, kinds, chosen, strict=True)
        ]
        return unflatten(sample, iter(after))

    def _of_images(self, sample: Any, convert: Callable[[Any, str], Any]) -> Any:
        """Do so for images. torchvision transforms Pillow images; an array is an image if it is the whole sample."""
        if any(kind_of(leaf) == "PIL" for leaf in flatten(sample)):
            return by_torchvision(self, sample, PILLOW)
        return self._of_leaves(sample, ("array",) if isinstance(sample, np.ndarray) else IMAGES, convert)

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments that make an equal transform, by name."""
        kind = next(each for each in type(self).__mro__ if is_own(each))
        return {name: getattr(self, name) for name in inspect.signature(kind).parameters}

    def forward(self, *inputs: Any) -> Any:
        """Apply the transform, like a call."""
        return self(*inputs)

    def extra_repr(self) -> str:
        """Return the public arguments, as torchvision shows them."""
        shown = (bool, int, float, str, tuple, list, enum.Enum)
        public = ((name, value) for name, value in vars(self).items() if not name.startswith("_"))
        return ", ".join(f"{name}={value}" for name, value in public if isinstance(value, shown))

    def __repr__(self) -> str:
        """Return the class and its arguments."""
        lines = self.extra_repr().split("\n")
        inside = lines[0] if len(lines) == 1 else "\n  " + "\n  ".join(lines) + "\n"
        return f"{type(self).__name__}({inside})"


class FilledTransform(Transform):
    """A transform that fills the area outside of the image, possibly with other values for masks."""

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return self._spec("Image")

    def mask_spec(self) -> list[Any]:
        """Return the same for masks."""
        return self._spec("Mask")

    def _spec(self, kind: str) -> list[Any]:
        """Return the same for leaves of this kind."""
        raise NotImplementedError


class OptionalTransform(Transform):
    """A transform that is applied with probability `p`, 0 <= p <= 1."""

    def __init__(self, p: float = 0.5) -> None:
        check_probability(p)
        self.p = p

    def spec(self) -> list[Any] | None:
        """Return the transform as a list for the core."""
        return [{type(self).__name__: {"p": float(self.p)}}]


def check_probability(p: float) -> None:
    """Raise ValueError if `p` is invalid."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p: expected a probability, 0 <= p <= 1, but got {p!r}")
