"""`OrderedSampler` and `OrderedBatchSampler`: a loader's samplers as other code sees them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler

if TYPE_CHECKING:
    from .loader_order import LoaderOrder

# Where lists, arrays, and tensors come from: C code reads these by their layout, so nothing else may claim to be one.
_PLAIN = ("builtins", "numpy", "torch")
# A sampler with a state says where its own iteration is, and a pass over a view is none.
_HIDDEN = ("state_dict", "load_state_dict")


class OrderedSampler:
    """A sampler whose iteration is an epoch of the loader that it belongs to, seed and shard included.

    In everything else it is the sampler that the loader was given: attributes are read from it and set on it, and
    `isinstance` sees its class. Each pass counts as an epoch of the loader. `set_epoch` sets the loader's epoch.

    Args:
        inner: the sampler that the loader was given.
        order: the loader's order.
    """

    __slots__ = ("__weakref__", "_inner", "_order")
    _inner: Any
    _order: LoaderOrder

    def __init__(self, inner: Any, order: LoaderOrder) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_order", order)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the sampler, for `isinstance`: trainers ask it whether a loader shuffles, or shards."""
        cls = type(self._inner)
        return type(self) if cls.__module__ in _PLAIN else cls

    def __iter__(self) -> Iterator[Any]:
        """One epoch of the loader; it begins at the first `next`."""
        return self._order.requests(self._inner, False)

    def __len__(self) -> int:
        """How many indices this rank reads."""
        return self._order.length(self._inner, False)

    def set_epoch(self, epoch: int) -> None:
        """Makes the epoch that begins next number `epoch`, for the loader too."""
        self._order.set_epoch(epoch)
        if hasattr(self._inner, "set_epoch"):
            self._inner.set_epoch(epoch)

    def __getattr__(self, name: str) -> Any:
        if name in _HIDDEN:
            raise AttributeError(f"{type(self).__name__} has no {name}: use the loader's")
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self._inner, self._order)


class OrderedBatchSampler(OrderedSampler):
    """As `OrderedSampler`, for the batch sampler that a loader was given."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        """One epoch of the loader, in batches; it begins at the first `next`."""
        return self._order.requests(self._inner, True)

    def __len__(self) -> int:
        """How many batches this rank reads."""
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
    """True if `sampler` is one of these."""
    return type(sampler) in (OrderedSampler, OrderedBatchSampler)


def inner_of(sampler: Any) -> Any:
    """The sampler behind a view; any other sampler itself."""
    return sampler._inner if is_view(sampler) else sampler


def order_of(sampler: Any) -> LoaderOrder | None:
    """The order that a view gives; None for any other sampler."""
    order: LoaderOrder | None = sampler._order if is_view(sampler) else None
    return order


def show(batch_sampler: Any, sampler: Any) -> None:
    """Makes torch's `batch_sampler` cut `sampler` into batches, and pass on the epochs that a view can be told.

    The Trainer of transformers sets the epoch of the batch sampler that `skip_first_batches` wraps only.
    """
    batch_sampler.sampler = sampler
    vars(batch_sampler).pop("set_epoch", None)
    if is_view(sampler):
        batch_sampler.set_epoch = sampler.set_epoch


def without_view(batch_sampler: Any) -> Any:
    """`batch_sampler`, or a copy that cuts the sampler behind the view that it cuts."""
    if type(batch_sampler) is not BatchSampler or not is_view(batch_sampler.sampler):
        return batch_sampler
    bare = copy.copy(batch_sampler)
    show(bare, inner_of(batch_sampler.sampler))
    return bare
