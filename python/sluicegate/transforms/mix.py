"""Transforms of batches: `MixUp` and `CutMix`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import one_hot

from .leaves import IMAGES, flatten, kind_of, to_transform, unflatten, wrapped
from .transform import Transform


class _Mix(Transform):
    """Mixes each sample of a batch with the previous one, and their labels too."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: Callable[[Any], Any] | str | None = "default",
    ) -> None:
        self.alpha = float(alpha)
        # It raises the error for an `alpha` that is not positive.
        self._shares = torch.distributions.Beta(torch.tensor([alpha]), torch.tensor([alpha]))
        self.num_classes = num_classes
        if labels_getter != "default" and labels_getter is not None and not callable(labels_getter):
            raise ValueError(f"labels_getter: expected 'default', a callable or None, but got {labels_getter!r}")
        self._labels_getter = labels_getter

    def spec(self) -> list[Any] | None:
        """Return None: the core does not mix batches."""
        return None

    def fuses(self, is_first: bool) -> bool:
        """Return False."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Return the batch, mixed, with labels of shape (batch_size, num_classes)."""
        batch = inputs if len(inputs) > 1 else inputs[0]
        leaves = flatten(batch)
        kinds = [kind_of(leaf) for leaf in leaves]
        chosen = to_transform(kinds, IMAGES)
        for kind in kinds:
            if kind in ("PIL", "BoundingBoxes", "Mask", "KeyPoints"):
                raise ValueError(f"{type(self).__name__}: expected only tensors of images and labels, but got {kind}")
        labels = self._labels(batch)
        images = [leaf for leaf, is_chosen in zip(leaves, chosen, strict=True) if is_chosen and leaf is not labels]
        for image, kind in zip(leaves, kinds, strict=True):
            if kind in IMAGES and any(image is each for each in images):
                _check_batch(image, 5 if kind == "Video" else 4, labels.shape[0])
        share, mix = self._draw(images)
        after = []
        for leaf, kind, is_chosen in zip(leaves, kinds, chosen, strict=True):
            if leaf is labels:
                after.append(self._mix_labels(labels, share))
            elif is_chosen:
                mixed = mix(leaf.as_subclass(torch.Tensor))
                after.append(mixed if kind == "tensor" else wrapped(mixed, leaf))
            else:
                after.append(leaf)
        return unflatten(batch, iter(after))

    def _draw(self, images: list[torch.Tensor]) -> tuple[float, Callable[[torch.Tensor], torch.Tensor]]:
        """Return the share of its own label that a sample keeps, and the function that mixes images."""
        raise NotImplementedError

    def _labels(self, batch: Any) -> torch.Tensor:
        getter = self._labels_getter
        labels = getter(batch) if callable(getter) else None if getter is None else _find_labels(batch)
        if not isinstance(labels, torch.Tensor):
            raise ValueError(f"labels: expected a tensor, but got {type(labels).__name__}")
        if labels.ndim not in (1, 2):
            raise ValueError(
                f"labels: expected the shape (batch_size,) or (batch_size, classes), but got {tuple(labels.shape)}"
            )
        if labels.ndim == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(f"labels: expected num_classes={self.num_classes} classes, but got {labels.shape[-1]}")
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError(
                "num_classes: expected a number, because labels are class numbers, but got None; pass num_classes="
            )
        return labels

    def _mix_labels(self, labels: torch.Tensor, share: float) -> torch.Tensor:
        if labels.ndim == 1:
            labels = one_hot(labels, num_classes=self.num_classes or -1)
        if not labels.dtype.is_floating_point:
            labels = labels.float()
        return labels.roll(1, 0).mul_(1.0 - share).add_(labels.mul(share))


class MixUp(_Mix):
    """Blend each image of a batch with the previous one, by a random share, and blend their labels in the same way.

    It takes a batch, and draws from torch's default generator: call it in the collate function or in the training loop.

    Source: Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018.

    Args:
        alpha: the parameter of the Beta distribution from which the share is drawn.
        num_classes: the number of classes; may be None if labels have one number for each class.
        labels_getter: finds the labels in the batch: a function of the batch. Default: the second part of a tuple, or,
            if that part (or the batch) is a dictionary, its entry "labels", or one with "label" in its name.

    Raises:
        ValueError: `alpha` is not positive; when called, labels that cannot be found, invalid labels or images, or
            wrong shapes.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> images, labels = transforms.MixUp(num_classes=10)(torch.rand(4, 3, 8, 8), torch.arange(4))
        >>> images.shape, labels.shape
        (torch.Size([4, 3, 8, 8]), torch.Size([4, 10]))
    """

    def _draw(self, images: list[torch.Tensor]) -> tuple[float, Callable[[torch.Tensor], torch.Tensor]]:
        share = float(self._shares.sample(()))
        return share, lambda image: image.roll(1, 0).mul_(1.0 - share).add_(image.mul(share))


class CutMix(_Mix):
    """Replace a rectangle of random area in each image of a batch with that of the previous one; mix labels by area.

    It takes a batch, and draws from torch's default generator: call it in the collate function or in the training loop.

    Source: Yun et al., "CutMix: regularization strategy to train strong classifiers with localizable features",
    ICCV 2019.

    Args:
        alpha, num_classes, labels_getter: as for `MixUp`.

    Raises:
        ValueError: as for `MixUp`.
        TypeError: when called, there are no images in the batch.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> images, labels = transforms.CutMix(num_classes=10)(torch.rand(4, 3, 8, 8), torch.arange(4))
        >>> images.shape, labels.shape
        (torch.Size([4, 3, 8, 8]), torch.Size([4, 10]))
    """

    def _draw(self, images: list[torch.Tensor]) -> tuple[float, Callable[[torch.Tensor], torch.Tensor]]:
        share = float(self._shares.sample(()))
        sizes = {tuple(image.shape[-2:]) for image in images}
        if not sizes:
            raise TypeError("expected images in the batch, but got none")
        if len(sizes) > 1:
            raise ValueError(f"expected images of one size to mix, but got sizes {sizes}")
        height, width = sizes.pop()
        x, y = torch.randint(width, size=(1,)), torch.randint(height, size=(1,))
        half = 0.5 * math.sqrt(1.0 - share)
        half_width, half_height = int(half * width), int(half * height)
        left, right = max(int(x) - half_width, 0), min(int(x) + half_width, width)
        top, bottom = max(int(y) - half_height, 0), min(int(y) + half_height, height)

        def mix(image: torch.Tensor) -> torch.Tensor:
            mixed = image.clone()
            mixed[..., top:bottom, left:right] = image.roll(1, 0)[..., top:bottom, left:right]
            return mixed

        return float(1.0 - (right - left) * (bottom - top) / (width * height)), mix


def _check_batch(images: torch.Tensor, dimensions: int, batch_size: int) -> None:
    if images.ndim != dimensions:
        raise ValueError(
            f"expected a batch of images of {dimensions} dimensions, but got {images.ndim}; mix after collating"
        )
    if images.shape[0] != batch_size:
        raise ValueError(f"labels: expected one for each of {images.shape[0]} images, but got {batch_size}")


def _find_labels(batch: Any) -> Any:
    found = batch[1] if isinstance(batch, (tuple, list)) else batch
    if kind_of(found) == "tensor":
        return found
    if not isinstance(found, Mapping):
        raise ValueError(
            f"labels_getter: expected labels in the batch, but got {type(found).__name__}; pass a function that "
            "returns the labels"
        )
    for key in _label_keys(found):
        return found[key]
    raise ValueError(
        f"labels_getter: expected a key with 'label' in its name, but got {list(found)}; pass a function that returns "
        "the labels"
    )


def _label_keys(found: Mapping[Any, Any]) -> Iterator[Any]:
    yield from (key for key in found if str(key).lower() == "labels")
    yield from (key for key in found if "label" in str(key).lower())
