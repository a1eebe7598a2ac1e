"""`moved`: moves a batch of any structure to a device: its tensors, and other parts that can be moved."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import torch


def moved(data: Any, move_tensor: Callable[[torch.Tensor], Any], move_object: Callable[[Any], Any]) -> Any:
    """Return `data` with its tensors moved, in containers like those that torch's `pin_memory` makes.

    Args:
        data: a batch: tensors, mappings, sequences, named tuples, dataclasses, and anything in them.
        move_tensor: moves one tensor.
        move_object: moves an object with a method `pin_memory`, or a non-container with a method `to`.
    """

    def again(item: Any) -> Any:
        return moved(item, move_tensor, move_object)

    if isinstance(data, torch.Tensor):
        return move_tensor(data)
    if hasattr(data, "pin_memory"):
        return move_object(data)
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _mapping(data, again)
    if isinstance(data, tuple):
        items = (again(item) for item in data)
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    if isinstance(data, Sequence):
        return _sequence(data, again)
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        clone = copy.copy(data)
        for field in dataclasses.fields(data):
            if hasattr(data, field.name):
                object.__setattr__(clone, field.name, again(getattr(data, field.name)))
        return clone
    if not isinstance(data, type) and callable(getattr(data, "to", None)):
        return move_object(data)
    return data


def _mapping(data: Mapping[Any, Any], again: Callable[[Any], Any]) -> Any:
    items = {key: again(item) for key, item in data.items()}
    kind: Any = type(data)
    try:
        if isinstance(data, MutableMapping):
            # It may have more than its items.
            clone = copy.copy(data)
            clone.update(items)
            return clone
        return kind(items)
    except TypeError:
        return items


def _sequence(data: Sequence[Any], again: Callable[[Any], Any]) -> Any:
    items = [again(item) for item in data]
    kind: Any = type(data)
    try:
        if isinstance(data, MutableSequence):
            clone = copy.copy(data)
            for index, item in enumerate(items):
                clone[index] = item
            return clone
        return kind(items)
    except TypeError:
        return items


def _parts(data: Any) -> Iterable[Any] | None:
    """Return the parts of `data` if it is a container that `moved` takes apart."""
    if isinstance(data, Mapping):
        return data.values()
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return data
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return [getattr(data, field.name, None) for field in dataclasses.fields(data)]
    return None


def tensors_of(data: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in the containers that `moved` takes apart."""
    if isinstance(data, torch.Tensor):
        yield data
    elif (parts := _parts(data)) is not None:
        for part in parts:
            yield from tensors_of(part)


def is_one_block(tensor: torch.Tensor) -> bool:
    """Return True if `tensor` has one block of memory, whose users torch's allocator can track."""
    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized


def hides_tensors(data: Any) -> bool:
    """Return True if something in `data` may contain tensors that `tensors_of` does not find."""
    if isinstance(data, torch.Tensor):
        return not is_one_block(data)
    if data is None or isinstance(data, (str, bytes, int, float, complex)):
        return False
    parts = _parts(data)
    return parts is None or any(map(hides_tensors, parts))


def move_object(data: Any, device: torch.device) -> Any:
    """Return an object on `device`, moved by its own methods."""
    if hasattr(data, "pin_memory"):
        data = data.pin_memory()
    if not hasattr(data, "to"):
        return data
    try:
        return data.to(device, non_blocking=True)
    except TypeError:  # It does not accept this argument.
        return data.to(device)
