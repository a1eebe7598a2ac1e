"""The only file that touches underscored names of torch, each with the reason why it must."""

from __future__ import annotations

import functools
import os
import pkgutil
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.overrides
import torch.utils.data
import torch.utils.data.graph_settings
from torch.autograd import forward_ad
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
from torch.utils.data.dataloader import (
    _InfiniteConstantSampler,  # Asks a stream for the next sample, without end.
)

__all__ = ["BaseDataLoaderIter", "DatasetKind", "get_distributed_settings"]

# torch.from_dlpack without the Python wrapper, which first looks up a device: half of the time of a hand-over.
from_dlpack = torch._C._from_dlpack

# True while a profiler runs: a `record_function` without one costs more than a whole hand-over.
profiler_enabled: Callable[[], bool] = torch._C._autograd._profiler_enabled

# Torch's treatment of a batch when `pin_memory` is set, which includes custom batch types.
pin_memory: Callable[..., Any] = _utils.pin_memory.pin_memory

_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def constant_batch_size(sampler: object) -> int | None:
    """Return the size of the batches that torch's loader requests from a stream; None for a different sampler."""
    if type(sampler) is torch.utils.data.BatchSampler and type(sampler.sampler) is _InfiniteConstantSampler:
        return sampler.batch_size
    return None


def is_torchs_own(function: Any) -> bool:
    """Return True if `function` is written in torch's files: users patch functions, some before this import."""
    return is_written_in(function, _TORCH_FOLDER)


def is_written_in(function: Any, folder: str) -> bool:
    """Return True if `function` is written in Python, in a file below `folder`, which ends with a separator."""
    return hasattr(function, "__code__") and function.__code__.co_filename.startswith(folder)


# By class: the iteration of torch's samplers, unless another function had taken its place before this import.
_ITERATIONS = {
    cls: iteration
    for cls in (
        torch.utils.data.BatchSampler,
        torch.utils.data.DistributedSampler,
        torch.utils.data.RandomSampler,
        torch.utils.data.SequentialSampler,
        torch.utils.data.SubsetRandomSampler,
        torch.utils.data.WeightedRandomSampler,
    )
    if is_torchs_own(iteration := vars(cls)["__iter__"])
}


def iterates_as_torchs(cls: type) -> bool:
    """Return True if `cls` is one of torch's samplers, and its `__iter__` is torch's own."""
    return cls in _ITERATIONS and vars(cls).get("__iter__") is _ITERATIONS[cls]


# The functions that torch's default collate calls for tensors, NumPy arrays, and scalars. If a user replaces one in the
# map, the default collate is no longer the stacking that the core does.
COLLATE_MAP = {
    kind: function for kind, function in _utils.collate.default_collate_fn_map.items() if is_torchs_own(function)
}


# The default collate with a map as argument: torch documents it for custom collate functions, but does not export it
# from `torch.utils.data`.
collate = _utils.collate.collate

# Torch's own, if it was not replaced before this import: what a user puts in its place is that user's function.
_DEFAULT_COLLATE: Any = None
if is_torchs_own(torch.utils.data.default_collate) and is_torchs_own(collate):
    _DEFAULT_COLLATE = torch.utils.data.default_collate


def collate_is_default(collate_fn: object) -> bool:
    """Return True if `collate_fn` is torch's default collate function, with the behavior of torch's own code."""
    return (
        collate_fn is _DEFAULT_COLLATE
        and _utils.collate.collate is collate
        and _utils.collate.default_collate_fn_map == COLLATE_MAP
    )


def tensor_is_plain(tensor: torch.Tensor) -> bool:
    """Return True if `tensor` is dense CPU memory whose bytes are its values: the core may read it by its address."""
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


# Methods that return True if the bytes of a plain CPU tensor are not its values: lazily negated tensors, and named ones
# in the versions of torch that have them.
TENSOR_FLAGS = ["is_neg", *(["has_names"] if hasattr(torch.Tensor, "has_names") else [])]


def operations_are_plain() -> bool:
    """Return True if torch currently makes ordinary CPU tensors, with no mode that observes or extends them.

    Called for every batch. Unlike `modes_are_active`, it also covers a default device, the wrapped tensors of
    `torch.func`, and the tangents of forward-mode differentiation.
    """
    return (
        torch._C._len_torch_function_stack() == 0
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        # `torch.set_default_tensor_type` sets this without a mode.
        and torch._C._get_default_device() == "cpu"
    )


def modules_have_global_hooks() -> bool:
    """Return True if there are hooks that run whenever any `torch.nn.Module` is called."""
    module = torch.nn.modules.module
    return bool(module._global_forward_hooks or module._global_forward_pre_hooks)


def modes_are_active() -> bool:
    """Return True if a mode is active that may change any call of torch (fake tensors, tracing, logging)."""
    if torch._C._len_torch_dispatch_stack() > 0:
        return True
    if torch._C._len_torch_function_stack() == 0:
        return False
    # `torch.set_default_device` is such a mode too, but one that leaves operations on given tensors alone.
    return any(type(mode) is not DeviceContext for mode in torch.overrides._get_current_function_mode_stack())


def memory_has_one_owner(tensor: torch.Tensor) -> bool:
    """Return True if `tensor` is the only object that refers to its memory; False if this torch cannot tell.

    Memory of another library, such as NumPy, may be used by objects that torch does not count.
    """
    alone = _sole_owner_counts()
    if alone is None:
        return False
    storage = tensor.untyped_storage()
    return _owner_counts(tensor, storage) == alone and storage.resizable()


def _owner_counts(tensor: torch.Tensor, storage: torch.UntypedStorage) -> tuple[int, ...]:
    """Return the reference counts of the tensor and its storage, in C++ and in Python."""
    in_core = tensor._use_count(), torch._C._storage_Use_Count(storage._cdata)
    return *in_core, sys.getrefcount(storage), weakref.getweakrefcount(storage)


@functools.cache
def _sole_owner_counts() -> tuple[int, ...] | None:
    """Return the counts of an unshared tensor; which references they include depends on the version of torch."""
    if not (hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")):
        return None
    tensor = torch.empty(1, device="cpu")

    def counts() -> tuple[int, ...]:
        storage = tensor.untyped_storage()
        return _owner_counts(tensor, storage)

    alone = counts()
    alias = tensor.detach()
    with_alias = counts()
    del alias
    kept = tensor.untyped_storage()
    with_storage = counts()
    del kept
    return None if alone in (with_alias, with_storage) or counts() != alone else alone


def tensor_is_dense(tensor: torch.Tensor) -> bool:
    """Return True if `tensor` is a plain view of a CPU storage, whose bytes can be copied."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.dtype in DTYPE_NAMES
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


DTYPE_NAMES = {
    dtype: name
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
    if (dtype := getattr(torch, name, None)) is not None
}


# The inverse.
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name for `dtype`, which is also the core's."""
    return DTYPE_NAMES[dtype]


# Rebuilds a pickled sparse tensor. It adds the tensor to a list of this thread that only `torch.load` clears.
rebuild_sparse_tensor: Callable[..., torch.Tensor] = torch._utils._rebuild_sparse_tensor


def untyped(storage: Any) -> torch.UntypedStorage:
    """Return the bytes of a storage of either kind; the public way warns that typed storages are deprecated."""
    return storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage


def identity(storage: torch.UntypedStorage) -> int:
    """Return an identifier of a storage that is the same in two Python objects: memory addresses may be reused."""
    return int(storage._cdata)


def storage_of(tensor: torch.Tensor, dtype: torch.dtype | None) -> Any:
    """Return the storage of `tensor`, of the kind that torch's own pickles hold: typed if there is a `dtype`."""
    storage = tensor.untyped_storage()
    if dtype is None:
        return storage
    return torch.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


# The class of the result of `torch.utils.data.get_worker_info`, which users' code calls in a worker.
WorkerInfo: Any = _utils.worker.WorkerInfo


def set_worker_info(info: Any) -> None:
    """Set the result of `get_worker_info` in this process."""
    _utils.worker._worker_info = info


def is_worker_info_of_process(info: Any) -> bool:
    """Return True if `info` is the value that `set_worker_info` replaces."""
    return getattr(_utils.worker, "_worker_info", None) is info


_infos = threading.local()


def set_worker_info_of_thread(info: Any) -> None:
    """Set the result of `get_worker_info` in this thread, after `answer_per_thread`."""
    _infos.info = info


def call_as_worker(info: Any, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call `function` while `get_worker_info` returns `info` in this thread; with None, as outside of workers."""
    before = getattr(_infos, "info", None)
    _infos.info = info
    try:
        return function(*arguments, **named)
    finally:
        _infos.info = before


def of_no_worker_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` of torch's collate map without its shared memory, which a worker thread does not need."""

    def call(samples: Any, *, collate_fn_map: Any = None) -> Any:
        return call_as_worker(None, function, samples, collate_fn_map=collate_fn_map)

    return call


def worker_info() -> Any:
    """Return the result of `get_worker_info`, even if it is hidden."""
    info = getattr(_infos, "info", None)
    return _utils.worker._worker_info if info is None else info


def _hides_nothing() -> bool:
    return False


def answer_per_thread() -> None:
    """Make `get_worker_info` answer per thread: with its global per process, every thread would read everything.

    This replaces its code rather than the function, because user modules hold the function itself.
    """
    module: Any = _utils.worker
    if not hasattr(module, "_sluicegate_info"):
        module._sluicegate_info = worker_info
        module._sluicegate_hides_worker = _hides_nothing
        module.get_worker_info.__code__ = _get_worker_info.__code__


def hide_worker(hides: Callable[[], bool]) -> None:
    """Make `get_worker_info` return None, as in no worker, wherever `hides` returns True."""
    answer_per_thread()
    module: Any = _utils.worker
    module._sluicegate_hides_worker = hides


def hide_rank(hides: Callable[[], bool]) -> None:
    """Make `torch.distributed` return rank 0 of 1 wherever `hides` returns True, except to its own modules."""
    if not torch.distributed.is_available():
        return
    module: Any = sys.modules[torch.distributed.get_rank.__module__]
    if hasattr(module, "_sluicegate_hides_rank"):
        return
    module._sluicegate_hides_rank = hides
    for name, replacement in (("get_rank", _get_rank), ("get_world_size", _get_world_size)):
        function = getattr(module, name)
        copy = types.FunctionType(function.__code__, module.__dict__, name, function.__defaults__)
        setattr(module, f"_sluicegate_{name}", copy)
        function.__code__ = replacement.__code__


# The functions below run with the globals of torch's modules.


def _get_worker_info() -> Any:
    return None if _sluicegate_hides_worker() else _sluicegate_info()  # type: ignore[name-defined]  # noqa: F821


def _get_rank(group: Any = None) -> Any:
    rank = _sluicegate_get_rank(group)  # type: ignore[name-defined]  # noqa: F821
    return 0 if rank > 0 and _sluicegate_hides_rank() else rank  # type: ignore[name-defined]  # noqa: F821


def _get_world_size(group: Any = None) -> Any:
    size = _sluicegate_get_world_size(group)  # type: ignore[name-defined]  # noqa: F821
    return 1 if size > 1 and _sluicegate_hides_rank() else size  # type: ignore[name-defined]  # noqa: F821


# How a worker handles fatal signals: it reports which one it was, and ends quietly when its consumer asks it to.
set_worker_signal_handlers: Callable[[], None] = torch._C._set_worker_signal_handlers

# NumPy's seed in a worker, as torch mixes it.
numpy_seed: Callable[[int, int], list[int]] = _utils.worker._generate_state


def set_thread_name(name: str) -> None:
    """Name this thread, for tools such as `top`, if torch can."""
    if hasattr(torch.multiprocessing, "_set_thread_name"):
        torch.multiprocessing._set_thread_name(name)


def sharding_init_fn(init_fn: Any, world_size: int, rank: int) -> Any:
    """Return a function that shards a DataPipe by workers and ranks, and then calls `init_fn`."""
    return functools.partial(torch.utils.data.dataloader._sharding_worker_init_fn, init_fn, world_size, rank)


def leave_untraced() -> None:
    """Have `torch.compile` leave this package's loader alone, as it does torch's; its transforms may be compiled."""
    # If it was not imported, nothing is compiled, and importing it takes a second.
    rules = getattr(sys.modules.get("torch._dynamo"), "trace_rules", None)
    if rules is not None:
        _leave_to(rules)


@functools.cache
def _leave_to(rules: Any) -> None:
    for module in pkgutil.iter_modules(sys.modules["sluicegate"].__path__, "sluicegate."):
        if module.name != "sluicegate.transforms":
            rules.add(module.name)
