"""The only file that touches underscored names of torch, each with the reason why it must."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.overrides
import torch.utils._python_dispatch
import torch.utils.data
import torch.utils.data.graph_settings
from torch.utils._device import DeviceContext
from torch.utils.data import _utils
from torch.utils.data.dataloader import (  # Trainers ask `isinstance(iterator, _BaseDataLoaderIter)`, and its
    _BaseDataLoaderIter as BaseDataLoaderIter,  # constructor makes torch's draws and warnings at torch's moments.
)
from torch.utils.data.dataloader import (
    _DatasetKind as DatasetKind,  # A public name of torch.utils.data in spite of its underscore: it is in `__all__`.
)
from torch.utils.data.dataloader import (
    _get_distributed_settings as get_distributed_settings,  # DataPipes shard themselves by it, in every process.
)

__all__ = [
    "BaseDataLoaderIter",
    "DatasetKind",
    "collate_is_default",
    "from_dlpack",
    "get_distributed_settings",
    "is_torchs_own",
    "make_fetcher",
    "modes_are_active",
    "pin_memory",
    "profiler_enabled",
    "tensor_is_plain",
]

# torch.from_dlpack without the Python wrapper, which asks for a device first: half of the time of a hand-over.
from_dlpack = torch._C._from_dlpack

# Whether somebody profiles: a `record_function` that nobody reads costs more than a whole hand-over.
profiler_enabled: Callable[[], bool] = torch._C._autograd._profiler_enabled

# What torch does to a batch when `pin_memory` is set: custom batch types are part of it.
pin_memory = _utils.pin_memory.pin_memory

_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def is_torchs_own(function: Any) -> bool:
    """Whether `function` is written in torch's files: users patch functions, some before this package is imported."""
    return hasattr(function, "__code__") and function.__code__.co_filename.startswith(_TORCH_FOLDER)


# The functions that torch's default collate calls for tensors, NumPy arrays and scalars. Users may put others into the
# map in place; then the default collate is no longer the stacking that the core does.
_COLLATE_MAP = {
    kind: function for kind, function in _utils.collate.default_collate_fn_map.items() if is_torchs_own(function)
}


def collate_is_default(collate_fn: object) -> bool:
    """Whether `collate_fn` is torch's default collate, and does what it does in torch's files."""
    return collate_fn is _utils.collate.default_collate and _utils.collate.default_collate_fn_map == _COLLATE_MAP


def make_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
    """Torch's fetcher for one dataset: what its loader runs at `num_workers=0`."""
    return DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


def tensor_is_plain(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is dense CPU memory that means what its bytes say: the core may read it by its address."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_nested
        # Lazily conjugated and negated tensors hold the bytes of another value.
        and not tensor.is_conj()
        and not tensor.is_neg()
        # Named tensors, in the versions of torch that have them, collate by name.
        and not getattr(tensor, "has_names", bool)()
        # Inside vmap or grad of torch.func an exact Tensor may wrap another and has no memory of its own.
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def modes_are_active() -> bool:
    """Whether a mode is on that may turn any call of torch into something else (fake tensors, tracing, logging)."""
    functions = torch.overrides._get_current_function_mode_stack()
    # `torch.set_default_device` is such a mode too, but one that leaves operations on given tensors alone.
    if any(type(mode) is not DeviceContext for mode in functions):
        return True
    return bool(torch.utils._python_dispatch._get_current_dispatch_mode_stack())
