"""`Part`: the windows of one xarray object, which are the inputs or the targets of a `WindowDataset`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray

from sluicegate import _core
from sluicegate.native.dataset import hand_over

from .native_windows import NativeWindows, native_windows
from .stored import NotStoredError
from .windows import Windows


class Part:
    """The windows of one xarray object, read by the core if possible, and otherwise by xarray.

    Thread-safe.

    Attributes:
        data: the object.
        windows: their positions; None if the generator of xbatcher joins several windows.
        native: the core's dataset of them, or None.
        reason: why a window needs Python; None if it does not.
        structure: the numbers of the core's fields: one number, or a dict by variable.
    """

    def __init__(
        self, data: xarray.Dataset | xarray.DataArray, windows: Windows | None, generator: Any, cache_bytes: int
    ) -> None:
        self.data = data
        self.windows = windows
        self.native: NativeWindows | None = None
        self.structure: Any = 0
        self.reason: str | None = "the BatchGenerator joins or caches windows"
        self._generator = generator
        self._reader: _core.Reader | None = None
        if windows is not None:
            self.reason = self._open(windows, cache_bytes)

    def _open(self, windows: Windows, cache_bytes: int) -> str | None:
        is_array = isinstance(self.data, xarray.DataArray)
        variables = (
            {None: self.data.variable}
            if is_array
            else {name: array.variable for name, array in self.data.data_vars.items()}
        )
        try:
            self.native = native_windows(variables, windows, cache_bytes)
        except NotStoredError as error:
            return f"read by xarray: {error}"
        self.structure = 0 if is_array else {name: field for field, name in enumerate(self.native.names)}
        self._reader = _core.Reader(
            self.native.dataset.core, hand_over(self.native.dataset.core, self.structure, ["tensor"] * len(variables))
        )
        if not self.native.is_whole:
            return "a dimension was removed by selecting one element, which xarray does to each window"
        if len(self._stacked_dimensions()) > 1:
            return f"the dimensions {self._stacked_dimensions()} are stacked by xarray"
        return None

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._generator) if self.windows is None else len(self.windows)

    def tensors(self, index: int) -> Any:
        """Return window `index` as a tensor, or as a dict of tensors by variable."""
        if self.reason is None and self._reader is not None:
            return self._reader.sample(index)
        window = self.window(index)
        if isinstance(window, xarray.DataArray):
            return tensor(window.variable, window.name)
        return {name: tensor(array.variable, name) for name, array in window.data_vars.items()}

    def window(self, index: int) -> Any:
        """Return window `index` as an xarray object in memory, as xbatcher returns it."""
        if self.windows is None:
            # The generator takes only instances of int, and loads what it returns.
            return self._generator[int(index)].load()
        window = self.data.isel(self.windows.selector(index))
        if self._reader is not None:
            window = self._with_values(window, self._reader.sample(index))
        window = window.load()
        stacked = self._stacked_dimensions()
        if len(stacked) > 1:
            return window.stack(sample=stacked).transpose("sample", *self.windows.inputs)
        return window

    def _with_values(self, window: Any, read: Any) -> Any:
        """Return `window` with the values that the core has read, without the axes that the selection removed."""
        if isinstance(window, xarray.DataArray):
            return window.copy(deep=False, data=read.numpy().reshape(window.shape))
        values = {name: read[name].numpy().reshape(array.shape) for name, array in window.data_vars.items()}
        return window.copy(deep=False, data=values)

    def coordinates(self, index: int) -> Mapping[Any, torch.Tensor]:
        """Return the coordinates of window `index` that are numbers or times; times as nanoseconds since 1970."""
        if self.windows is None or len(self._stacked_dimensions()) > 1:
            found = self.window(index).coords
        else:
            found = self.data.coords.to_dataset().isel(self.windows.selector(index), missing_dims="ignore").coords
        return {
            name: tensor(coordinate.variable, name)
            for name, coordinate in found.items()
            if coordinate.dtype.kind in "biufcmM"
        }

    def _stacked_dimensions(self) -> list[Any]:
        inputs = () if self.windows is None else self.windows.inputs
        return [dimension for dimension in self.data.sizes if dimension not in inputs]


def tensor(variable: xarray.Variable, name: Any) -> torch.Tensor:
    """Return the values of `variable` as a tensor with its own memory, and times as int64, in nanoseconds.

    Raises:
        TypeError: torch does not have the data type.
    """
    values = np.asarray(variable.values)
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    if values.dtype.kind not in "biufc":
        raise TypeError(
            f"ds: expected numbers or times, but variable {name!r} has the data type {values.dtype}; leave it out with "
            "drop_vars, or pass as_xarray=True and a transform that converts it"
        )
    return torch.from_numpy(np.array(values, dtype=values.dtype.newbyteorder("="), order="C"))


def is_generator(data: Any) -> bool:
    """Return True for a `BatchGenerator` of xbatcher, which is not imported for it."""
    module = sys.modules.get("xbatcher.generators")
    return module is not None and isinstance(data, module.BatchGenerator)
