"""Kinds of large samples: their layout in memory, and the other objects that hold them and modify them later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy
import torch


class Image(torch.Tensor):
    """A subclass of tensor, whose batches torch makes."""


class Picture(numpy.ndarray):
    """A subclass of array."""


Mutator = Callable[[float], Any]


class Data(Protocol):
    """The objects that a dataset keeps: buffers to reuse, and functions that then modify earlier samples."""

    buffers: dict[Any, Any]
    mutators: list[Mutator]


Maker = Callable[[Data, int, tuple[int, ...], str], Any]


def tensor_of(index: int, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 251 + index).to(getattr(torch, dtype)).reshape(shape).clone()


def array_of(index: int, shape: tuple[int, ...], dtype: str) -> Any:
    count = torch.Size(shape).numel()
    return (numpy.arange(count) % 251 + index).astype(dtype).reshape(shape).copy()


MAKERS: dict[str, Maker] = {}


def maker(function: Maker) -> Maker:
    MAKERS[function.__name__] = function
    return function


@maker
def fresh(data: Data, *facts: Any) -> Any:
    return tensor_of(*facts)


@maker
def fresh_array(data: Data, *facts: Any) -> Any:
    return array_of(*facts)


@maker
def kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    data.mutators.append(value.fill_)
    return value


@maker
def kept_array(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    data.mutators.append(value.fill)
    return value


@maker
def view_is_kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    data.mutators.append(value.reshape(-1)[:1].fill_)
    return value


@maker
def alias_is_kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    data.mutators.append(value.detach().fill_)
    return value


@maker
def array_of_tensor_is_kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    data.mutators.append(value.numpy().fill)
    return value


@maker
def storage_is_kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    storage = value.untyped_storage()
    data.mutators.append(lambda number: storage.fill_(int(number) % 2))
    return value


@maker
def capsule_is_kept(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    value = tensor_of(index, shape, dtype)
    if dtype == "bool":
        return value
    capsules = [torch.utils.dlpack.to_dlpack(value)]
    data.mutators.append(lambda number: capsules and torch.from_dlpack(capsules.pop()).fill_(number))
    return value


@maker
def weakly_kept(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    known = weakref.ref(value)
    data.mutators.append(lambda number: None if (there := known()) is None else there.fill_(number))
    return value


@maker
def weakly_kept_array(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    known = weakref.ref(value)
    data.mutators.append(lambda number: None if (there := known()) is None else there.fill(number))
    return value


@maker
def buffer(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Return one tensor for all samples: with torch, every row has the content of the last one."""
    value = data.buffers.setdefault((shape, dtype), tensor_of(0, shape, dtype))
    return value.copy_(tensor_of(index, shape, dtype))


@maker
def view_of_a_buffer(data: Data, *facts: Any) -> Any:
    return buffer(data, *facts).view(facts[1])


@maker
def array_over_a_buffer(data: Data, *facts: Any) -> Any:
    return buffer(data, *facts).numpy()


@maker
def array_in_a_tensor(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    data.mutators.append(value.fill)
    return torch.from_numpy(value)


@maker
def only_array_in_a_tensor(data: Data, *facts: Any) -> Any:
    return torch.from_numpy(array_of(*facts))


@maker
def reshaped_array(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return array_of(index, (torch.Size(shape).numel(),), dtype).reshape(shape)


@maker
def base_of_array_is_kept(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    value = array_of(index, (torch.Size(shape).numel(),), dtype)
    data.mutators.append(value.fill)
    return value.reshape(shape)


@maker
def base_of_array_is_weakly_kept(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    value = array_of(index, (torch.Size(shape).numel(),), dtype)
    known = weakref.ref(value)
    data.mutators.append(lambda number: None if (there := known()) is None else there.fill(number))
    return value.reshape(shape)


@maker
def memoryview_is_kept(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    view = memoryview(value)
    data.mutators.append(lambda number: numpy.asarray(view).fill(number))
    return value


@maker
def slices_of_one(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    rows = data.buffers.setdefault((shape, dtype, "rows"), tensor_of(index, (40, *shape), dtype))
    rows[(index + 1) % 40].fill_(index)
    return rows[index % 40]


@maker
def part_of_fresh(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return tensor_of(index, (2, *shape), dtype)[1]


@maker
def part_of_fresh_array(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return array_of(index, (2, *shape), dtype)[1]


@maker
def without_gradients(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    with torch.no_grad():
        return tensor_of(index, (2, *shape), dtype)[0]


@maker
def in_inference_mode(data: Data, *facts: Any) -> Any:
    with torch.inference_mode():
        return tensor_of(*facts)


@maker
def turned(data: Data, *facts: Any) -> Any:
    return tensor_of(*facts).mT.clone() if len(facts[1]) > 1 else tensor_of(*facts)


@maker
def turned_view(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    return value.permute(*range(1, value.ndim), 0) if value.ndim else value


@maker
def fortran_array(data: Data, *facts: Any) -> Any:
    return numpy.asfortranarray(array_of(*facts))


@maker
def flipped_array(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    return value[::-1] if value.ndim and len(value) > 1 else value


@maker
def foreign_order(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    return value.astype(value.dtype.newbyteorder())


@maker
def array_for_reading(data: Data, *facts: Any) -> Any:
    value = array_of(*facts)
    value.flags.writeable = False
    return value


@maker
def channels_last(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    return value.to(memory_format=torch.channels_last) if value.ndim == 4 else value


@maker
def odd_steps(data: Data, *facts: Any) -> Any:
    """Return a tensor whose axes of size one have strides that mean nothing, but still suggest a memory format."""
    value = tensor_of(*facts)
    steps = [1 if size == 1 else step for size, step in zip(value.shape, value.stride(), strict=True)]
    return value.as_strided(value.shape, steps)


@maker
def expanded(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts)
    return value[:1].expand(value.shape) if value.ndim else value


@maker
def with_gradient(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return tensor_of(index, shape, "float32").requires_grad_()


@maker
def conjugated(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return tensor_of(index, shape, "complex64").mul_(1j).conj()


@maker
def negated(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return torch._neg_view(tensor_of(index, shape, "float32"))


@maker
def subclass(data: Data, *facts: Any) -> Any:
    return tensor_of(*facts).as_subclass(Image)


@maker
def subclass_of_array(data: Data, *facts: Any) -> Any:
    return array_of(*facts).view(Picture)


@maker
def parameter(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return torch.nn.Parameter(tensor_of(index, shape, "float32"), requires_grad=False)


@maker
def shared(data: Data, *facts: Any) -> Any:
    value = tensor_of(*facts).share_memory_()
    data.mutators.append(value[:0].fill_)
    return value


@maker
def objects(data: Data, *facts: Any) -> Any:
    return array_of(*facts).astype(object)


@maker
def long_integers(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return array_of(index, shape, "int64").astype(numpy.longlong)


@maker
def cached(data: Data, index: int, *facts: Any) -> Any:
    return data.buffers.setdefault((index % 3, *facts), tensor_of(index % 3, *facts))


@maker
def in_a_cycle(data: Data, *facts: Any) -> Any:
    value: Any = tensor_of(*facts)
    value.itself = value
    return value


@maker
def scalar(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return float(index)


@maker
def text(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return f"sample {index}"


@maker
def numpy_scalar(data: Data, index: int, shape: tuple[int, ...], dtype: str) -> Any:
    return numpy.float32(index)


# Makers that keep nothing, so that their results do not depend on the order of the calls.
WITHOUT_MEMORY = [
    "fresh",
    "fresh_array",
    "part_of_fresh",
    "reshaped_array",
    "turned",
    "scalar",
    "text",
    "without_gradients",
]
