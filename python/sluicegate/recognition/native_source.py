"""Which datasets the core can read by itself, and how.

A dataset is *native* if reading it in Rust gives the same results as reading it in Python. It is exactly one of these:

- a plain CPU tensor or a NumPy array;
- a `TensorDataset`;
- one of our formats;
- a Hugging Face dataset in torch's format;
- a dataset of torchvision's, as `torchvision_datasets` describes;
- torch's `Subset`, `ConcatDataset` or `StackDataset` over native datasets.

A subclass may override anything, so it is a Python dataset. So is everything that torch treats in a special way
(tensors that require grad, arrays of strings, parts of unequal type).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset, default_collate

from sluicegate import _core, _torch
from sluicegate.native.dataset import (
    FORMAT_METHODS,
    READING_METHODS,
    VIEWED,
    NativeDataset,
    has_methods,
    renumbered,
)

from . import hugging_face, torchvision_datasets
from .captured import captured_parts, captured_subset
from .int64_indices import int64_array
from .source import Source

TENSOR_DTYPES = frozenset(_torch.DTYPE_NAMES.values())

# The dtypes that torch has tensors of. Elements of a one-dimensional array are NumPy scalars; of these, torch refuses
# uint64.
ARRAY_DTYPES = TENSOR_DTYPES - {"bfloat16", "complex32", *VIEWED}
SCALAR_DTYPES = ARRAY_DTYPES - {"uint64"}

# If a method of torch's classes is replaced, Python reads them.
_METHODS: dict[tuple[type, str], Any] = {
    (cls, name): function
    for cls in (TensorDataset, Subset, ConcatDataset, StackDataset)
    for name in READING_METHODS
    if (function := getattr(cls, name, None)) is None or _torch.is_torchs_own(function)
}


def native_source(dataset: Any, *, in_worker: bool) -> Source | None:
    """Return `dataset` as the core reads it, or None if it is a Python dataset.

    Args:
        dataset: any map-style dataset.
        in_worker: True if torch would collate in worker processes, where it stacks into C order whatever the strides of
            rows.
    """
    if _torch.modes_are_active():
        return None
    try:
        return _read_natively(dataset, in_worker)
    except AttributeError:  # One of torch's own datasets without its parts: torch raises the error.
        return None


def _read_natively(dataset: Any, in_worker: bool) -> Source | None:
    if type(dataset) is torch.Tensor:
        return _tensors([dataset], 0, (), in_worker)
    if type(dataset) in (np.ndarray, np.memmap):
        return _array(dataset, in_worker)
    if type(dataset).__module__ == "datasets.arrow_dataset":
        return _hugging_face(dataset, in_worker)
    if torchvision_datasets.is_dataset(dataset):
        return _torchvision(dataset, in_worker)
    if not is_untouched(dataset):
        return None
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        return _tensors(tensors, list(range(len(tensors))), (_attribute_check(dataset, "tensors"),), in_worker)
    if isinstance(dataset, NativeDataset):
        if not dataset.is_native:
            return None
        checks = (_attribute_check(dataset, "core"),)
        return Source(dataset.core, dataset.structure, dataset.kinds, checks)
    if type(dataset) is Subset:
        inner = _read_natively(dataset.dataset, in_worker)
        return None if inner is None else subset_source(dataset, inner)
    if type(dataset) is ConcatDataset:
        return _concat(dataset, in_worker)
    if type(dataset) is StackDataset:
        return _stack(dataset, in_worker)
    return None


def _hugging_face(dataset: Any, in_worker: bool) -> Source | None:
    found = hugging_face.native_parts(dataset) if hugging_face.is_dataset(dataset) else None
    if found is None:
        return None
    (core, structure, kinds), is_same = found
    if in_worker:  # A worker process has the table in the format that it had when the epoch began.
        return Source(core, structure, kinds, is_captured=True)
    return Source(core, structure, kinds, (is_same,))


def _torchvision(dataset: Any, in_worker: bool) -> Source | None:
    found = torchvision_datasets.native_parts(dataset, in_worker=in_worker)
    if found is None:
        return None
    (core, structure, kinds), is_same = found
    falls_back = torchvision_datasets.reads_files(dataset)
    captured = torchvision_datasets.captured(dataset) if in_worker and falls_back else None
    return Source(core, structure, kinds, (is_same,), is_captured=in_worker, captured=captured, falls_back=falls_back)


def is_untouched(dataset: Any) -> bool:
    """Return True if class and object have their original methods. Other special methods are always the class's."""
    is_format = isinstance(dataset, NativeDataset)
    return has_methods(dataset, FORMAT_METHODS) if is_format else has_methods(dataset, _METHODS)


def _attribute_check(dataset: Any, name: str) -> Callable[[], bool]:
    """Return a function that is True if `dataset` is unchanged: its class, its part called `name`, its methods."""
    cls, part = type(dataset), getattr(dataset, name)

    def is_same() -> bool:
        state = dataset.__dict__
        return state.get(name) is part and type(dataset) is cls and "__getitems__" not in state

    return is_same


def _tensors(
    tensors: Sequence[torch.Tensor], structure: Any, checks: tuple[Callable[[], bool], ...], in_worker: bool
) -> Source | None:
    if not tensors or not all(map(_torch.tensor_is_plain, tensors)):
        return None
    arrays = []
    memory_checks = []
    for field, tensor in enumerate(tensors):
        dtype = str(tensor.dtype).removeprefix("torch.")
        shape, strides, address = tuple(tensor.shape), tensor.stride(), tensor.data_ptr()
        if dtype not in TENSOR_DTYPES or not shape or shape[0] != tensors[0].size(0):
            return None
        if address == 0 and tensor.numel() > 0:  # Its storage was freed.
            return None
        if not (in_worker or _stacks_in_c_order(shape[1:], strides[1:])):
            return None
        item = tensor.element_size()
        # The storage owns the memory: the tensor may get another storage while threads still read this one. Memory that
        # the storage itself releases, by `resize_`, can't be kept alive: the checks detect that before the next batch.
        owner = tensor.untyped_storage()
        arrays.append((str(field), dtype, address, shape, tuple(map(item.__mul__, strides)), owner))
        memory_checks.append(_memory_check(tensor, address))
    return Source(_core.Dataset.in_memory(arrays), structure, ("tensor",) * len(arrays), (*checks, *memory_checks))


def _memory_check(tensor: torch.Tensor, address: int) -> Callable[[], bool]:
    shape, strides, dtype = tensor.shape, tensor.stride(), tensor.dtype

    def is_same() -> bool:
        return (
            tensor.data_ptr() == address
            and tensor.shape == shape
            and tensor.stride() == strides
            and tensor.dtype is dtype
            and not tensor.requires_grad
        )

    return is_same


def _array(array: np.ndarray[Any, Any], in_worker: bool) -> Source | None:
    kind = "scalar" if array.ndim == 1 else "array"
    if array.ndim == 0 or array.dtype.name not in (SCALAR_DTYPES if kind == "scalar" else ARRAY_DTYPES):
        return None
    if not array.dtype.isnative or min(array.strides) < 0 or torch.get_default_device().type != "cpu":
        return None
    if any(stride % array.itemsize for stride in array.strides[1:]):
        return None
    if not in_worker:
        steps = tuple(stride // array.itemsize for stride in array.strides[1:])
        if not _stacks_in_c_order(array.shape[1:], steps):
            return None
    if not _collates_plainly(array):
        return None
    address, shape, strides, dtype = _array_facts(array)
    facts = (address, shape, strides, dtype)

    def is_same() -> bool:
        return _array_facts(array) == facts and torch.get_default_device().type == "cpu"

    fields = [("0", dtype.name, address, shape, strides, array)]
    return Source(_core.Dataset.in_memory(fields), 0, (kind,), (is_same,))


def _array_facts(array: np.ndarray[Any, Any]) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _collates_plainly(array: np.ndarray[Any, Any]) -> bool:
    """Return True if this version of torch makes a tensor of the same dtype of a row. Includes torch's warnings."""
    if len(array) == 0:
        return False
    try:
        batch = default_collate([array[0]])
    except (TypeError, ValueError):
        return False
    return isinstance(batch, torch.Tensor) and str(batch.dtype).removeprefix("torch.") == array.dtype.name


def subset_source(dataset: Subset[Any], inner: Source) -> Source | None:
    """Return the samples of `dataset`, given `inner`, the source of `dataset.dataset`."""
    indices: Any = dataset.indices
    if type(indices) is tuple:
        indices = list(indices)
    elif type(indices) is not list:
        array = int64_array(indices)
        if array is None:
            return None
        indices = _core.Indices(array.data_ptr(), len(array), array)
    subset = _core.Dataset.subset(inner.dataset, indices)
    if subset is None:
        return None
    inner = replace(inner, dataset=subset, captured=captured_subset(dataset, inner.captured))
    if inner.is_captured:
        return inner
    chosen, length = dataset.indices, len(dataset)
    checks = (_attribute_check(dataset, "dataset"), _attribute_check(dataset, "indices"), lambda: len(chosen) == length)
    return replace(inner, checks=(*checks, *inner.checks))


def _concat(dataset: ConcatDataset[Any], in_worker: bool) -> Source | None:
    parts = [_read_natively(part, in_worker) for part in dataset.datasets]
    sources = [part for part in parts if part is not None]
    if len(sources) != len(parts):
        return None
    first = sources[0]
    for source in sources[1:]:
        # Torch promotes unequal types and refuses unequal shapes, batch by batch, so torch has to do this.
        if (source.structure, source.kinds) != (first.structure, first.kinds):
            return None
        if not source.dataset.stacks_with(first.dataset):
            return None
    if dataset.cumulative_sizes != ConcatDataset.cumsum(dataset.datasets):
        return None
    inner = tuple(check for source in sources for check in source.checks)
    is_captured = all(source.is_captured for source in sources)
    own = (_attribute_check(dataset, "datasets"), _parts_check(lambda: dataset.datasets))
    return Source(
        _core.Dataset.concat([source.dataset for source in sources]),
        first.structure,
        first.kinds,
        inner if is_captured else (*own, *inner),
        is_captured=is_captured,
        captured=captured_parts(dataset, [source.captured for source in sources]),
        falls_back=any(source.falls_back for source in sources),
    )


def _stack(dataset: StackDataset[Any], in_worker: bool) -> Source | None:
    if type(dataset.datasets) not in (dict, tuple):
        return None
    named = _named_parts(dataset)
    sources: dict[str, Source] = {}
    structures: dict[str, Any] = {}
    fields = 0
    for name, part in named.items():
        source = _read_natively(part, in_worker)
        if source is None or len(source.dataset) != len(dataset):
            return None
        if source.is_random and any(part.is_random for part in sources.values()):
            return None  # In Python the second one draws after the first.
        sources[name] = source
        structures[name] = renumbered(source.structure, fields)
        fields += len(source.kinds)
    return Source(
        _core.Dataset.stack([(name, source.dataset) for name, source in sources.items()]),
        structures if named is dataset.datasets else list(structures.values()),
        tuple(kind for source in sources.values() for kind in source.kinds),
        (
            _attribute_check(dataset, "datasets"),
            _parts_check(lambda: list(_named_parts(dataset).values())),
            *(check for source in sources.values() for check in source.checks),
        ),
        is_captured=any(source.is_captured for source in sources.values()),
        captured=captured_parts(dataset, [source.captured for source in sources.values()]),
        falls_back=any(source.falls_back for source in sources.values()),
    )


def _named_parts(dataset: StackDataset[Any]) -> dict[str, Any]:
    """Return the parts by name, or by position if they have no names."""
    parts: Any = dataset.datasets
    return parts if isinstance(parts, dict) else {str(number): part for number, part in enumerate(parts)}


def _parts_check(parts: Callable[[], Sequence[Any]]) -> Callable[[], bool]:
    """Return a function that is True if no part was replaced by another dataset."""
    known = list(parts())

    def is_same() -> bool:
        now = parts()
        return len(now) == len(known) and all(map(operator.is_, now, known))

    return is_same


def _stacks_in_c_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True if torch stacks rows of this shape and these strides into C order.

    It does, except for rows of four or five axes in channels-last layout, which the batch takes over. The test is that
    of c10's `is_channels_last_strides_2d` and `_3d` (`c10/core/MemoryFormat.h`), which only considers the order of the
    strides.
    """
    if len(shape) not in (4, 5):
        return True
    if strides[1] == 0:
        return True
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least:
            return True
        if axis == 0 and least == strides[1]:
            return True
        least = strides[axis] * max(shape[axis], 1) if shape[axis] > 1 else strides[axis]
    return False
