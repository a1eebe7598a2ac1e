"""`OrderedSampler` and `OrderedBatchSampler`: a loader's samplers as other code sees them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Protocol

from torch.utils.data import BatchSampler

# The modules of lists, arrays and tensors: C code reads these by their layout, so nothing else may claim to be one.
_PLAIN = ("builtins", "numpy", "torch")
# A stateful sampler reports the position of its own iteration, which a pass over a view is not.
_HIDDEN = ("state_dict", "load_state_dict")


class Order(Protocol):
    """The order of a loader's epochs."""

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, for the loader too."""

    def length(self, sampler: Any, auto_collation: bool) -> int:
        """Return the number of requests in a pass."""

    def requests(self, sampler: Any, auto_collation: bool) -> Iterator[Any]:
        """Yield one pass: the items of `sampler`, in the loader's order."""


class OrderedSampler:
    """A sampler whose iteration is an epoch of the loader that it belongs to, including seed and shard.

    In all other respects it is the sampler that the loader was given: attributes are read from it and set on it, and
    `isinstance` sees its class. Each pass counts as an epoch of the loader. `set_epoch` sets the loader's epoch.

    Args:
        inner: the sampler that the loader was given.
        order: the loader's order.
    """

    __slots__ = ("__weakref__", "_inner", "_order")
    _inner: Any
    _order: Order

    def __init__(self, inner: Any, order: Order) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_order", order)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the sampler, for `isinstance`, with which trainers check if a loader shuffles or shards."""
        cls = type(self._inner)
        return type(self) if cls.__module__ in _PLAIN else cls

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over one epoch of the loader, which begins at the first `next`."""
        return self._order.requests(self._inner, False)

    def __len__(self) -> int:
        """Return how many indices this rank reads."""
        return self._order.length(self._inner, False)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, for the loader too."""
        self._order.set_epoch(epoch)
        if hasattr(self._inner, "set_epoch"):
            self._inner.set_epoch(epoch)

    def __getattr__(self, name: str) -> Any:
        if name in _HIDDEN:
            raise AttributeError(f"{type(self).__name__} has no {name}; use the loader's")
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self._inner, self._order)


class OrderedBatchSampler(OrderedSampler):
    """Like `OrderedSampler`, for the batch sampler that a loader was given."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over one epoch of the loader, in batches, which begins at the first `next`."""
        return self._order.requests(self._inner, True)

    def __len__(self) -> int:
        """Return how many batches this rank reads."""
        return self._order.length(self._inner, True)

    @property
    def sampler(self) -> Any:
        """The sampler that is cut into batches, if there is one."""
        inner = self._inner.sampler
        return OrderedSampler(inner, self._order) if type(self._inner) is BatchSampler else inner

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self._inner.sampler = sampler


def is_view(sampler: Any) -> bool:
    """Return True if `sampler` is a view: one of these classes."""
    return type(sampler) in (OrderedSampler, OrderedBatchSampler)


def inner_of(sampler: Any) -> Any:
    """Return the sampler behind a view; any other sampler unchanged."""
    return sampler._inner if is_view(sampler) else sampler


def order_of(sampler: Any) -> Any:
    """Return the order of a view; None for any other sampler."""
    return sampler._order if is_view(sampler) else None


def show(batch_sampler: Any, sampler: Any) -> None:
    """Make torch's `batch_sampler` cut `sampler` into batches, and forward `set_epoch` to a view.

    The Trainer of transformers calls only the `set_epoch` of the batch sampler that `skip_first_batches` wraps.
    """
    batch_sampler.sampler = sampler
    vars(batch_sampler).pop("set_epoch", None)
    if is_view(sampler):
        batch_sampler.set_epoch = sampler.set_epoch


def without_view(batch_sampler: Any) -> Any:
    """Return `batch_sampler`, or a copy of it without the view around its sampler."""
    if type(batch_sampler) is not BatchSampler or not is_view(batch_sampler.sampler):
        return batch_sampler
    bare = copy.copy(batch_sampler)
    show(bare, inner_of(batch_sampler.sampler))
    return bare
