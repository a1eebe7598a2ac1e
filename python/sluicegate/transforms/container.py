"""Transforms of transforms: `Compose`, `RandomApply`, `RandomChoice` and `RandomOrder`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import torch

from .by_torchvision import is_own
from .drawing import current_generator
from .running import run
from .transform import Transform, check_probability


class _Several(Transform):
    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        if not isinstance(transforms, (Sequence, torch.nn.ModuleList)):
            raise TypeError(f"transforms: expected a sequence of transforms, but got {transforms!r}")
        if not transforms:
            raise ValueError("transforms: expected at least one, but got an empty sequence")
        self.transforms = transforms

    def extra_repr(self) -> str:
        """Return one transform per line."""
        return "\n".join(f"    {transform}" for transform in self.transforms)

    def fuses(self, is_first: bool) -> bool:
        """Return True if all of them do."""
        return all(_fuses(each, is_first and number == 0) for number, each in enumerate(self.transforms))

    def _specs(self, name: str) -> list[Any] | None:
        """Return the lists of all for the core; None if it does not know one of them."""
        specs: list[Any] = []
        for transform in self.transforms:
            spec = getattr(transform, name)() if isinstance(transform, Transform) else None
            if spec is None:
                return None
            specs += spec
        return specs

    def _run(self, inputs: tuple[Any, ...]) -> Any:
        """Run them one after another; neighbors that the core knows are one call of it."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        for step in self._steps():
            if isinstance(step, list):
                sample = run(step, sample)
                continue
            sample = step(*sample) if len(inputs) > 1 else step(sample)
        return sample

    def _steps(self) -> Iterator[Any]:
        """Yield lists of neighbors that are one call of the core, and single transforms that are called."""
        together: list[Transform] = []
        for transform in self.transforms:
            if _fuses(transform, not together):
                together.append(transform)
                continue
            if together:
                yield together
                together = []
            yield transform
        if together:
            yield together


def _fuses(transform: Any, is_first: bool) -> TypeGuard[Transform]:
    # A user-defined subclass may do anything.
    return isinstance(transform, Transform) and is_own(type(transform)) and transform.fuses(is_first)


class Compose(_Several):
    """Apply transforms one after another.

    Those of this package run in Rust, neighbors without a tensor in between; any other callable is called in its
    place.

    Args:
        transforms: a sequence of transforms, or of any callables that take and return a sample.

    Raises:
        TypeError: `transforms` is not a sequence.
        ValueError: it is empty.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.Compose([transforms.CenterCrop(2), transforms.RandomVerticalFlip()])
        Compose(
              CenterCrop(size=(2, 2))
              RandomVerticalFlip(p=0.5)
        )
    """

    def spec(self) -> list[Any] | None:
        """Return the transforms as a list for the core; None if it does not know one of them."""
        return self._specs("spec")

    def mask_spec(self) -> list[Any] | None:
        """Return the same for masks."""
        return self._specs("mask_spec")

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        return self._run(inputs)


class RandomApply(_Several):
    """Apply all transforms, one after another, with probability `p`; otherwise apply none.

    Args:
        transforms: as for `Compose`.
        p: the probability, 0 to 1.

    Raises:
        TypeError: `transforms` is not a sequence.
        ValueError: it is empty, or `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> blur = transforms.RandomApply([transforms.GaussianBlur(3)], p=0.0)
        >>> blur(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[1, 2], [3, 4]]]
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        super().__init__(transforms)
        check_probability(p)
        self.p = p

    def spec(self) -> list[Any] | None:
        """Return the transforms as a list for the core; None if it does not know one of them."""
        return self._applied(self._specs("spec"))

    def mask_spec(self) -> list[Any] | None:
        """Return the same for masks."""
        return self._applied(self._specs("mask_spec"))

    def _applied(self, specs: list[Any] | None) -> list[Any] | None:
        return None if specs is None else [{"RandomApply": {"transforms": specs, "p": float(self.p)}}]

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        if bool(torch.rand(1, generator=current_generator()) >= self.p):
            return inputs if len(inputs) > 1 else inputs[0]
        return self._run(inputs)


class RandomChoice(_Several):
    """Apply one of the transforms, at random.

    An `ImageField` calls it in Python: the choice is drawn by torch's `multinomial`, whose draws depend on the
    processor and on how torch was built.

    Args:
        transforms: as for `Compose`.
        p: the weight of each transform; they need not sum to one. None for equal weights.

    Raises:
        TypeError: `transforms` is not a sequence.
        ValueError: it is empty, or `p` has a different length.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomChoice([transforms.CenterCrop(2), transforms.Identity()], p=[3, 1]).p
        [0.75, 0.25]
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is None:
            p = [1] * len(transforms)
        elif len(p) != len(transforms):
            raise ValueError(f"p: expected {len(transforms)} probabilities, one for each transform, but got {p!r}")
        self.p = [each / sum(p) for each in p]

    def spec(self) -> list[Any] | None:
        """Return None: only Python can do it."""
        return None

    def fuses(self, is_first: bool) -> bool:
        """Return False: the choice is drawn in Python."""
        return False

    def extra_repr(self) -> str:
        """Return the public arguments, as torchvision shows them."""
        return Transform.extra_repr(self)

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        drawn = torch.multinomial(torch.tensor(self.p), 1, generator=current_generator())
        return self.transforms[int(drawn)](*inputs)


class RandomOrder(_Several):
    """Apply all of the transforms, in random order.

    Args:
        transforms: as for `Compose`.

    Raises:
        TypeError: `transforms` is not a sequence.
        ValueError: it is empty.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> both = [transforms.RandomHorizontalFlip(p=1.0), transforms.RandomVerticalFlip(p=1.0)]
        >>> transforms.RandomOrder(both)(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[4, 3], [2, 1]]]
    """

    def spec(self) -> list[Any] | None:
        """Return the transforms as a list for the core; None if it does not know one of them."""
        return self._ordered("spec")

    def mask_spec(self) -> list[Any] | None:
        """Return the same for masks."""
        return self._ordered("mask_spec")

    def _ordered(self, name: str) -> list[Any] | None:
        each = [Compose([transform])._specs(name) for transform in self.transforms]
        if None in each:
            return None
        return [{"RandomOrder": {"transforms": [{"Compose": {"transforms": specs}} for specs in each]}}]

    def extra_repr(self) -> str:
        """Return the public arguments, as torchvision shows them."""
        return Transform.extra_repr(self)

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        outputs: Any = inputs if len(inputs) > 1 else inputs[0]
        for drawn in torch.randperm(len(self.transforms), generator=current_generator()).tolist():
            transform = self.transforms[drawn]
            outputs = transform(*outputs) if len(inputs) > 1 else transform(outputs)
        return outputs
