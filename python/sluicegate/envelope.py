"""What travels from a worker process beside the tensors of a batch: how they are nested, strings, numbers, objects.

The envelope is a pickle in which every tensor and array is replaced by the number of its *leaf*; their bytes lie in the
shared segment. Tensors arrive as they do from torch's workers: those that share a storage share one again, leaves that
need a gradient need one, sparse, quantised and nested tensors and subclasses are rebuilt from their storages.
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

from . import _core, _torch

# A storage much larger than what a batch shows of it (rows of a whole dataset, perhaps) is not carried whole.
_LARGEST_WASTE = 4
_SMALL = 64 << 10


class Placed(NamedTuple):
    """A tensor that was stacked straight into the shared segment, by the number of its leaf."""

    leaf: int


class _View(NamedTuple):
    """A tensor over a storage that lies in the segment as bytes."""

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
        RuntimeError: a tensor that needs a gradient and is no leaf, in torch's words; no room for the batch.
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
    """The batch: the envelope's content with `tensors`, which lie in the segment, in their places."""
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


def _build(view: _View, tensors: list[torch.Tensor]) -> torch.Tensor:
    storage = tensors[view.field].untyped_storage()
    with torch.no_grad():
        tensor = torch.empty(0, dtype=view.dtype).set_(storage, view.offset, view.shape, view.strides)
    return tensor.requires_grad_() if view.requires_grad else tensor


class _Pickler(ForkingPickler):
    """Pickles a batch, and collects its tensors, arrays and storages.

    Derived from the pickler of `multiprocessing`: reductions that users registered there are used, as torch's loader
    uses them.
    """

    def __init__(self, stream: io.BytesIO, placed: int) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.placed = placed
        self.leaves: list[Any] = []
        self.storages: dict[tuple[int, int], int] = {}

    def reducer_override(self, item: Any) -> Any:
        kind = type(item)
        if kind is Placed:
            return _leaf, (item.leaf,)
        if kind is torch.Tensor:
            _refuse_graph(item)
            if _torch.tensor_is_dense(item):
                return _leaf, (self._add(item),)
            # Torch shares the memory of these by handles of its own: on a device, the only way.
            return NotImplemented if item.device.type not in ("cpu", "meta") else item.__reduce_ex__(self.proto)
        if kind is np.ndarray:
            if item.dtype.hasobject or item.size == 0 or not item.dtype.isnative:
                # The way of older protocols, which torch's loader has them take: elements become native on it.
                return item.__reduce__()
            order = "F" if item.flags.f_contiguous and not item.flags.c_contiguous else "C"
            return _array, (self._add(item), item.dtype, item.shape, order)
        if isinstance(item, (torch.UntypedStorage, torch.TypedStorage)) and item.device.type == "cpu":
            dtype = item.dtype if isinstance(item, torch.TypedStorage) else None
            return _storage, (self._add_storage(_torch.untyped(item)), dtype)
        if isinstance(item, torch.nn.Parameter) and kind is torch.nn.Parameter:
            return torch.nn.Parameter, (item.detach(), item.requires_grad)
        if isinstance(item, torch.Tensor):
            _refuse_graph(item)
        return NotImplemented

    proto = pickle.HIGHEST_PROTOCOL

    def _add(self, item: Any) -> int:
        self.leaves.append(item)
        return self.placed + len(self.leaves) - 1

    def _add_storage(self, storage: torch.UntypedStorage) -> int:
        key = (storage.data_ptr(), storage.nbytes())
        if key not in self.storages or key[1] == 0:
            self.storages[key] = self._add(storage)
        return self.storages[key]

    def place(self, end: _core.WorkerEnd) -> list[int | _View] | None:
        """Copy the leaves into the segment. What the reader has to know of them; None when they are as they lie."""
        views: list[Any] = [*range(self.placed), *(None for _ in self.leaves)]
        by_storage: dict[Any, list[int]] = defaultdict(list)
        for number, item in enumerate(self.leaves, self.placed):
            if isinstance(item, torch.Tensor):
                by_storage[item.untyped_storage().data_ptr() if item.numel() else number].append(number)
            else:
                views[number] = _copy_bytes(item, end)
        for numbers in by_storage.values():
            tensors = [self.leaves[number - self.placed] for number in numbers]
            if len(tensors) > 1 or not _lies_plainly(tensors[0]):
                for number, view in zip(numbers, _copy_storage(tensors, end), strict=True):
                    views[number] = view
            else:
                views[numbers[0]] = _copy(tensors[0], end)
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


def _lies_plainly(tensor: torch.Tensor) -> bool:
    """Whether the tensor is all that can be told of its storage."""
    return bool(tensor.is_contiguous() and tensor.storage_offset() == 0) and not tensor.requires_grad


def _copy(tensor: torch.Tensor, end: _core.WorkerEnd) -> int:
    field, room = end.place(_torch.dtype_name(tensor.dtype), tuple(tensor.shape))
    room.copy_(tensor.detach())
    return field


def _copy_bytes(item: Any, end: _core.WorkerEnd) -> int:
    """Copy an array, or a storage, as bytes."""
    if isinstance(item, np.ndarray):
        field, room = end.place("uint8", (item.nbytes,))
        order = "F" if item.flags.f_contiguous and not item.flags.c_contiguous else "C"
        np.copyto(room.numpy().view(item.dtype).reshape(item.shape, order=order), item)
        return field
    return _copy(torch.empty(0, dtype=torch.uint8).set_(item), end)


def _copy_storage(tensors: list[torch.Tensor], end: _core.WorkerEnd) -> list[int | _View]:
    """Copy what `tensors`, which share a storage, show of it."""
    ranges = [_byte_range(tensor) for tensor in tensors]
    shown = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    start, stop = min(low for low, _ in ranges), max(high for _, high in ranges)
    if stop <= _LARGEST_WASTE * shown + _SMALL:
        start = 0
    elif stop - start > _LARGEST_WASTE * shown + _SMALL:
        # Columns of a large table, perhaps: their rows lie far apart. They are compacted, and no longer share memory.
        fields = [_copy(tensor.contiguous(), end) for tensor in tensors]
        return [
            _View(field, tensor.dtype, 0, tuple(tensor.shape), _c_strides(tensor), True)
            if tensor.requires_grad
            else field
            for field, tensor in zip(fields, tensors, strict=True)
        ]
    start -= start % 16  # the largest element
    source = torch.empty(0, dtype=torch.uint8).set_(tensors[0].untyped_storage(), start, (stop - start,), (1,))
    field = _copy(source, end)
    return [
        _View(
            field,
            tensor.dtype,
            int(tensor.storage_offset()) - start // tensor.element_size(),
            tuple(tensor.shape),
            tensor.stride(),
            tensor.requires_grad,
        )
        for tensor in tensors
    ]


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    item = tensor.element_size()
    start = int(tensor.storage_offset()) * item
    if tensor.numel() == 0:
        return start, start
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + int(steps + 1) * item


def _c_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(tuple(tensor.shape), device="meta").stride()
