"""`MapDataset`, `IterableDataset`, `to_tensor`: what `xbatcher.loaders.torch` has, with the same arguments."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.data
import xarray

from sluicegate.native.dataset import native_format

from .dataset import WindowDataset

Transform = Callable[[Any], Any]


def to_tensor(data: xarray.Dataset | xarray.DataArray) -> torch.Tensor:
    """Return the values of a `DataArray`, or of the only variable of a `Dataset`, as a tensor with its own memory.

    Raises:
        ValueError: the `Dataset` has several variables, or none.

    Examples:
        >>> import xarray
        >>> from sluicegate.xarray import to_tensor
        >>> to_tensor(xarray.DataArray([1, 2], dims=["x"]))
        tensor([1, 2])
    """
    if isinstance(data, xarray.Dataset):
        names = list(data.data_vars)
        if len(names) != 1:
            raise ValueError(f"data: expected a Dataset with one variable, but got {names}; select one of them")
        data = data[names[0]]
    return torch.tensor(data.values)


@native_format
class MapDataset(WindowDataset):
    """The windows of generators of xbatcher, as tensors: for code that uses `xbatcher.loaders.torch.MapDataset`.

    Sample i is window i of `X_generator` as a tensor, or, with `y_generator`, a tuple of it and window i of that. The
    windows are read as those of `WindowDataset`: in Rust if the data is stored in Zarr, netCDF, or HDF5, and no
    transform needs Python.

    Args:
        X_generator: an `xbatcher.BatchGenerator`, of a `DataArray` or of a `Dataset` with one variable.
        y_generator: the same for the targets, with as many windows.
        transform: called with the xarray object of each window of the inputs; returns a tensor. Default:
            `to_tensor`.
        target_transform: the same for the targets.

    Raises:
        TypeError: a generator is not a `BatchGenerator`.
        ValueError: a `Dataset` has several variables, and there is no transform for them; the numbers of windows
            differ.

    Examples:
        >>> import numpy, xarray, xbatcher
        >>> from sluicegate.xarray import MapDataset
        >>> field = xarray.DataArray(numpy.arange(4.0), dims=["x"])
        >>> dataset = MapDataset(xbatcher.BatchGenerator(field, {"x": 2}))
        >>> dataset[1]
        tensor([2., 3.], dtype=torch.float64)
    """

    def __init__(
        self,
        X_generator: Any,  # noqa: N803  (xbatcher's name)
        y_generator: Any = None,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
    ) -> None:
        inputs, own_transform = _tensor_windows("X_generator", X_generator, transform)
        targets, own_target_transform = None, None
        if y_generator is not None:
            targets, own_target_transform = _tensor_windows("y_generator", y_generator, target_transform)
        super().__init__(
            inputs,
            target=targets,
            transform=own_transform,
            target_transform=own_target_transform,
            as_xarray=True,
        )

    def __getitem__(self, index: Any) -> Any:
        """Return the window at `index`, which may be a tensor of one number.

        Raises:
            NotImplementedError: `index` is a tensor of several numbers, as in xbatcher.
        """
        if isinstance(index, torch.Tensor) and index.numel() != 1:
            raise NotImplementedError(f"index: expected one number, but got {index}; pass a list for a batch")
        return super().__getitem__(index)


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """The windows of `MapDataset` in their order, as `xbatcher.loaders.torch.IterableDataset` yields them.

    As with xbatcher, each worker yields all of them: use at most one worker, or `shard_iterable`.

    Args:
        X_generator: an `xbatcher.BatchGenerator`, as for `MapDataset`.
        y_generator: the same for the targets.

    Raises:
        TypeError, ValueError: as for `MapDataset`.

    Examples:
        >>> import numpy, xarray, xbatcher
        >>> from sluicegate.xarray import IterableDataset
        >>> generator = xbatcher.BatchGenerator(xarray.DataArray(numpy.arange(4), dims=["x"]), {"x": 2})
        >>> [(x.tolist(), y.tolist()) for x, y in IterableDataset(generator, generator)]
        [([0, 1], [0, 1]), ([2, 3], [2, 3])]
    """

    def __init__(self, X_generator: Any, y_generator: Any) -> None:  # noqa: N803  (xbatcher's name)
        self.windows = MapDataset(X_generator, y_generator)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the windows."""
        return (self.windows[index] for index in range(len(self.windows)))


def _tensor_windows(argument: str, generator: Any, transform: Transform | None) -> tuple[Any, Transform | None]:
    """Return a generator whose windows `WindowDataset` converts to tensors, and the functions left to call on them."""
    data = getattr(generator, "ds", None)
    if not isinstance(data, (xarray.Dataset, xarray.DataArray)):
        raise TypeError(f"{argument}: expected an xbatcher.BatchGenerator, but got {type(generator).__name__}")
    if transform is to_tensor or transform is getattr(
        sys.modules.get("xbatcher.loaders.torch"), "to_tensor", to_tensor
    ):
        transform = None
    if transform is not None or isinstance(data, xarray.DataArray):
        return generator, transform
    names = list(data.data_vars)
    if len(names) != 1:
        raise ValueError(
            f"{argument}: expected a Dataset with one variable, but got {names}; pass a transform that makes one "
            "tensor of them, or use WindowDataset"
        )
    if generator.concat_input_dims or generator.cache is not None:
        return generator, to_tensor
    chosen = copy.copy(generator)
    chosen.ds = data[names[0]]
    return chosen, None
