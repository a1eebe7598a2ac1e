"""The envelope: everything in a worker process's batch except tensor data: nesting, strings, numbers, objects.

The envelope is a pickle in which every tensor and array is replaced by the number of its *leaf*; their bytes lie in the
shared segment. Tensors arrive as they do from torch's workers:

- tensors that share a storage share one again;
- leaves that require a gradient still require one;
- sparse, quantized and nested tensors and subclasses are rebuilt from their storages.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections import defaultdict
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils.hooks

from sluicegate import _core, _torch
from sluicegate.fetch.collate_in_place import Placed

# A storage much larger than the part that a batch uses (rows of a whole dataset, perhaps) is not copied whole.
_LARGEST_WASTE = 4
_SMALL = 64 << 10


class _View(NamedTuple):
    """A tensor over a storage whose bytes are in the segment."""

    field: int
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool


def write(batch: Any, end: _core.WorkerEnd) -> bytes:
    """Copy the tensors and arrays of `batch` into the batch that `end` is making, and return the envelope.

    Args:
        batch: what the collate function returned.
        end: where to write.

    Raises:
        RuntimeError: a tensor requires a gradient and is not a leaf (torch's message), or there is no room for the
            batch.
        Exception: what pickle raises for an object that can't be pickled.
    """
    stream = io.BytesIO()
    stream.seek(1)
    pickler = _Pickler(stream, end.placed)
    pickler.dump(batch)
    views = pickler.place(end) if pickler.leaves else None
    if views is None:
        stream.seek(0)
        stream.write(b"\0")
        return stream.getvalue()
    return b"\1" + pickle.dumps((views, stream.getvalue()[1:]))


def read(envelope: bytes, tensors: list[torch.Tensor]) -> Any:
    """Return the batch: the envelope's content, with the leaves replaced by `tensors`, which are in the segment."""
    leaves: list[Any] = tensors
    content = memoryview(envelope)[1:]
    if envelope[0]:
        views, content = pickle.loads(content)
        leaves = [tensors[view] if isinstance(view, int) else _build(view, tensors) for view in views]
    before = getattr(_reading, "leaves", None)
    _reading.leaves = leaves
    try:
        return pickle.loads(content)
    finally:
        _reading.leaves = before


# The leaves of the batch that this thread is unpickling.
_reading = threading.local()


def _leaf(number: int) -> Any:
    return _reading.leaves[number]


def _array(number: int, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any) -> Any:
    return _reading.leaves[number].numpy().view(dtype).reshape(shape, order=order)


def _storage(number: int, dtype: torch.dtype | None) -> Any:
    return _torch.storage_of(_reading.leaves[number], dtype)


# By the bytes of an element.
_INTEGERS = {1: torch.uint8, 2: torch.int16}


def _as_integers(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a view of a tensor, of a dtype that the core does not know, as integers; None for other tensors."""
    is_strided = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    integers = _INTEGERS.get(tensor.element_size())
    return tensor.view(integers) if is_strided and tensor.dtype not in _torch.DTYPE_NAMES and integers else None


def _with_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.view(dtype)


def _sparse(layout: torch.layout, parts: tuple[Any, ...]) -> torch.Tensor:
    """Rebuild a sparse tensor without torch's helper, which keeps each one for `torch.load` to validate: forever."""
    if layout is torch.sparse_coo:
        indices, values, size, is_coalesced = parts
        return torch.sparse_coo_tensor(indices, values, size, check_invariants=False, is_coalesced=is_coalesced)
    compressed, plain, values, size = parts
    return torch.sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=False)


def _build(view: _View, tensors: list[torch.Tensor]) -> torch.Tensor:
    storage = tensors[view.field].untyped_storage()
    with torch.no_grad():
        tensor = torch.empty(0, dtype=view.dtype, device="cpu").set_(storage, view.offset, view.shape, view.strides)
    return tensor.requires_grad_() if view.requires_grad else tensor


class _Pickler(ForkingPickler):
    """Pickles a batch and collects its tensors, arrays and storages.

    Derived from multiprocessing's pickler so that reductions that users registered there apply, as in torch's loader.
    """

    def __init__(self, stream: io.BytesIO, placed: int) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.placed = placed
        self.leaves: list[Any] = []

    def reducer_override(self, item: Any) -> Any:
        kind = type(item)
        if kind is Placed:
            return _leaf, (item.leaf,)
        if kind is torch.Tensor:
            _refuse_graph(item)
            if _torch.tensor_is_dense(item):
                return _leaf, (self._add(item),)
            # Torch shares the memory of these through its own handles: on a device, the only way.
            if item.device.type not in ("cpu", "meta"):
                return NotImplemented
            if (integers := _as_integers(item)) is not None:
                return _with_dtype, (integers, item.dtype)
            rebuild, arguments, *rest = item.__reduce_ex__(self.proto)
            return (_sparse if rebuild is _torch.rebuild_sparse_tensor else rebuild, arguments, *rest)
        if kind is np.ndarray:
            if item.dtype.hasobject or item.nbytes == 0 or not item.dtype.isnative:
                # The way of older pickle protocols, which torch's loader uses: it makes elements native.
                return item.__reduce__()
            order = "F" if item.flags.f_contiguous and not item.flags.c_contiguous else "C"
            return _array, (self._add(item), item.dtype, item.shape, order)
        if isinstance(item, (torch.UntypedStorage, torch.TypedStorage)):
            storage = _torch.untyped(item)
            if storage.device.type == "cpu":
                dtype = item.dtype if isinstance(item, torch.TypedStorage) else None
                return _storage, (self._add(storage), dtype)
        if isinstance(item, torch.nn.Parameter) and kind is torch.nn.Parameter:
            return torch.nn.Parameter, (item.detach(), item.requires_grad)
        return NotImplemented

    proto = pickle.HIGHEST_PROTOCOL

    def _add(self, item: Any) -> int:
        self.leaves.append(item)
        return self.placed + len(self.leaves) - 1

    def place(self, end: _core.WorkerEnd) -> list[int | _View] | None:
        """Copy the leaves into the segment. Return the layouts that the reader needs; None if all are plain."""
        views: list[Any] = [*range(self.placed), *(None for _ in self.leaves)]
        by_storage: dict[int, list[int]] = defaultdict(list)
        held = []  # Keeps storages alive: the identity of a freed storage could be reused.
        for number, item in enumerate(self.leaves, self.placed):
            if isinstance(item, np.ndarray):
                views[number] = _copy_array(item, end)
            else:
                held.append(item.untyped_storage() if isinstance(item, torch.Tensor) else item)
                by_storage[_torch.identity(held[-1])].append(number)
        for numbers in by_storage.values():
            items = [self.leaves[number - self.placed] for number in numbers]
            if len(items) == 1 and isinstance(items[0], torch.Tensor) and _covers_storage(items[0]):
                views[numbers[0]] = _copy(items[0], end)
            else:
                for number, view in zip(numbers, _copy_storage(items, end), strict=True):
                    views[number] = view
        return None if views == list(range(len(views))) else views


def _refuse_graph(tensor: torch.Tensor) -> None:
    if not tensor.requires_grad:
        return
    if not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)


def _covers_storage(tensor: torch.Tensor) -> bool:
    """Return True if the tensor covers its storage plainly: offset 0, C order, no gradient required."""
    # `is_contiguous` ignores the strides of axes of size 1, which are preserved, too.
    return bool(tensor.storage_offset() == 0) and not tensor.requires_grad and tensor.stride() == _c_strides(tensor)


def _copy(tensor: torch.Tensor, end: _core.WorkerEnd) -> int:
    field, room = end.place(_torch.dtype_name(tensor.dtype), tuple(tensor.shape))
    room.copy_(tensor.detach())
    return field


def _copy_array(array: np.ndarray[Any, Any], end: _core.WorkerEnd) -> int:
    field, room = end.place("uint8", (array.nbytes,))
    into = room.numpy()
    if array.flags.c_contiguous:  # Including the padding between the fields of a structure.
        np.copyto(into, array.reshape(-1).view(np.uint8))
    elif array.flags.f_contiguous:
        np.copyto(into, array.T.reshape(-1).view(np.uint8))
    else:
        into.fill(0)
        np.copyto(into.view(array.dtype).reshape(array.shape), array)
    return field


def _copy_storage(items: list[Any], end: _core.WorkerEnd) -> list[int | _View]:
    """Copy the part of a storage that `items` use: tensors over that storage and perhaps the storage itself."""
    storages = [item for item in items if isinstance(item, torch.UntypedStorage)]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    storage = storages[0] if storages else tensors[0].untyped_storage()
    # Empty tensors use no bytes, whatever their offset.
    ranges = [_byte_range(tensor) for tensor in tensors if tensor.numel()]
    ranges += [(0, each.nbytes()) for each in storages] or [(0, 0)] * (not ranges)
    shown = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    start, stop = min(low for low, _ in ranges), max(high for _, high in ranges)
    if stop > storage.nbytes():
        raise RuntimeError(
            f"a tensor of the batch spans {stop} bytes of a storage of {storage.nbytes()} bytes, whose memory was "
            "freed; do not resize the storage of a tensor that you return"
        )
    if storages or stop <= _LARGEST_WASTE * shown + _SMALL:
        start = 0
    elif stop - start > _LARGEST_WASTE * shown + _SMALL:
        # Such as columns of a large table, whose rows are far apart. They are compacted and no longer share memory.
        return [_compacted(tensor, end) for tensor in tensors]
    start -= start % 16  # The largest element has 16 bytes.
    source = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage, start, (stop - start,), (1,))
    field = _copy(source, end)
    return [
        field
        if isinstance(item, torch.UntypedStorage)
        else _View(
            field,
            item.dtype,
            max(int(item.storage_offset()) - start // item.element_size(), 0),
            tuple(item.shape),
            item.stride(),
            item.requires_grad,
        )
        for item in items
    ]


def _compacted(tensor: torch.Tensor, end: _core.WorkerEnd) -> int | _View:
    field = _copy(tensor.contiguous(), end)
    if not tensor.requires_grad:
        return field
    return _View(field, tensor.dtype, 0, tuple(tensor.shape), _c_strides(tensor), True)


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    item = tensor.element_size()
    start = int(tensor.storage_offset()) * item
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + int(steps + 1) * item


def _c_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(tensor.shape):
        strides.append(step)
        step *= max(int(size), 1)
    return tuple(reversed(strides))
