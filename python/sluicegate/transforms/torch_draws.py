"""Makes other code, mainly torchvision, draw from this thread's generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .drawing import current_generator

_DRAWS = frozenset(
    {
        torch.bernoulli,
        torch.multinomial,
        torch.normal,
        torch.rand,
        torch.randint,
        torch.randn,
        torch.randperm,
        torch._sample_dirichlet,
        torch.Tensor.bernoulli_,
        torch.Tensor.exponential_,
        torch.Tensor.multinomial,
        torch.Tensor.normal_,
        torch.Tensor.random_,
        torch.Tensor.uniform_,
    }
)


def drawing_from_current() -> AbstractContextManager[Any]:
    """Return a context in which torch's functions draw from `current_generator()` in this thread.

    Torchvision's transforms take no generator. In this way they draw from the generator of the sample that a loader
    with a seed fetches, like the transforms of this package: the default generator can't be set for only one of
    several threads. Draws with an explicit generator and draws on other devices do not change.
    """
    generator = current_generator()
    return nullcontext() if generator is torch.default_generator else _Drawing(generator)


class _Drawing(TorchFunctionMode):
    """Passes `generator` to each function that draws."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is torch.randn_like and _is_on_cpu(args, named):
            # `randn_like` takes no generator.
            return torch.empty_like(*args, **named).normal_(generator=self._generator)
        if func is torch.rand_like and _is_on_cpu(args, named):
            return torch.empty_like(*args, **named).uniform_(generator=self._generator)
        if func in _DRAWS and named.get("generator") is None and _is_on_cpu(args, named):
            named["generator"] = self._generator
        return func(*args, **named)


def _is_on_cpu(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    device = named.get("device")
    if device is not None:
        return torch.device(device).type == "cpu"
    tensors = [each for each in args[:1] if isinstance(each, torch.Tensor)]
    return tensors[0].device.type == "cpu" if tensors else torch.get_default_device().type == "cpu"
