"""`WindowDataset`: windows of an xarray object, as xbatcher cuts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray
from torch.utils.data import default_collate

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.native.dataset import NativeDataset, native_format, renumbered

from .part import Part, is_generator
from .windows import Windows, windows_of

# Default limit of the cache of decoded chunks.
_CACHE_BYTES = 256 << 20


@native_format
class WindowDataset(NativeDataset):
    """Windows of an xarray `Dataset` or `DataArray`: a map-style dataset with the windows and values of xbatcher.

    Sample i is window i: a tensor for a `DataArray`, a dict of tensors by variable for a `Dataset`; with `target`, a
    tuple of the inputs and the targets. Windows are computed, never listed.

    If all variables are lazily read from one Zarr store in a local folder, or one file of netCDF or HDF5
    (`xarray.open_dataset(path)` with the engine h5netcdf, netcdf4, or scipy, and slices of it by `isel` and `sel`),
    `sluicegate.DataLoader` reads the windows in Rust, as `ZarrDataset` and `Hdf5Dataset` do.
    Anything else (in memory, computed, dask) is read through xarray, in worker processes. `python_reason` says
    why, and so does `DataLoader.explain()`. With transforms, coordinates, several stacked dimensions, or a dimension
    that was removed by selecting one element, chunks are still decoded in Rust, and Python finishes each window.

    The object and its store must not be changed while the dataset is used. It can be pickled if the object can. It is
    thread-safe if the transforms are.

    Args:
        ds: the data: a `Dataset`, a `DataArray`, or an `xbatcher.BatchGenerator`, whose windows are used as they are.
        input_dims: the number of elements of a window by dimension, such as `{"time": 24, "y": 64, "x": 64}`. Windows
            are numbered like nested loops: over `batch_dims`, then over these dimensions. What is left at the end of a
            dimension is in no window. Required, except for a `BatchGenerator`.
        input_overlap: how many elements neighboring windows share, by dimension. Default: none.
        batch_dims: the number of elements of a window along other dimensions. As in xbatcher, if a window has several
            dimensions that are not in `input_dims`, they are stacked into one dimension `sample`, which comes first.
        target: what the targets are cut from: the name of a variable of `ds`, a list of names, an object with the same
            dimensions and sizes along the windows, or a `BatchGenerator` with the same number of windows. Variables
            that are named are not in the inputs; a single name, not in a list, makes each target that variable alone.
        transform: called with the inputs of each sample; what it returns replaces them.
        target_transform: the same for the targets.
        as_xarray: True to call transforms with xarray objects in memory, which have coordinates, instead of
            tensors.
        with_coords: True to add the coordinates of the inputs to each sample as its last element: a dict of
            tensors by name. Times are int64, in nanoseconds since 1970-01-01. Coordinates that are neither numbers nor
            times are left out.
        cache_bytes: size limit of the cache of decoded chunks, in bytes; 256 MiB by default, for inputs and for
            targets.

    Attributes:
        block_sizes: the number of windows in each row of chunks, for `BlockShuffleSampler`, if the core reads the
            inputs.

    Raises:
        TypeError: `ds` or `target` is not an xarray object or a `BatchGenerator`, or an argument is not a mapping of
            names to integers. While reading: torch does not have the data type of a variable.
        ValueError: a dimension or a target does not exist; a window does not fit into its dimension; the numbers of
            windows of inputs and targets differ.

    Examples:
        >>> import numpy, xarray
        >>> from sluicegate.xarray import WindowDataset
        >>> field = xarray.DataArray(numpy.arange(12.0).reshape(3, 4), dims=["time", "x"])
        >>> dataset = WindowDataset(field, {"time": 2, "x": 2}, {"time": 1})
        >>> len(dataset), dataset[3]
        (4, tensor([[ 6.,  7.],
                [10., 11.]], dtype=torch.float64))
        >>> dataset.windows.selector(3)
        {'time': slice(1, 3, None), 'x': slice(2, 4, None)}
    """

    _OPENED = (*NativeDataset._OPENED, "_inputs", "_targets", "_parts")

    _inputs: Part
    _targets: Part | None
    _parts: tuple[Part, ...]

    def __init__(
        self,
        ds: Any,
        input_dims: Mapping[Any, int] | None = None,
        input_overlap: Mapping[Any, int] | None = None,
        batch_dims: Mapping[Any, int] | None = None,
        *,
        target: Any = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        as_xarray: bool = False,
        with_coords: bool = False,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        if not is_generator(ds):
            _check_type("ds", ds)
            if input_dims is None:
                raise ValueError(
                    f"input_dims: expected window lengths by dimension, for one or more of {list(ds.sizes)}, but got "
                    "None"
                )
        elif input_dims is not None or input_overlap is not None or batch_dims is not None:
            raise ValueError("input_dims: expected None with a BatchGenerator, which has its own windows; leave it out")
        if target_transform is not None and target is None:
            raise ValueError("target_transform: expected None without target, but got a function; pass target")
        self.ds = ds
        self.input_dims = input_dims
        self.input_overlap = input_overlap
        self.batch_dims = batch_dims
        self.target = target
        self.transform = transform
        self.target_transform = target_transform
        self.as_xarray = bool(as_xarray)
        self.with_coords = bool(with_coords)
        self.cache_bytes = checked_number("cache_bytes", cache_bytes)
        self._open()

    def _open(self) -> None:
        inputs, targets, source = _data(self.ds), self.target, self.target
        if isinstance(targets, (str, list, tuple)):
            inputs, targets = _taken_out(inputs, targets)
            source = self.ds
        self._inputs = self._part("ds", self.ds, inputs)
        self._targets = None if targets is None else self._part("target", source, _data(targets))
        self._parts = (self._inputs,) if self._targets is None else (self._inputs, self._targets)
        if len(self._parts[-1]) != len(self._inputs):
            raise ValueError(
                f"target: expected as many windows as there are of the inputs, {len(self._inputs)}, but got "
                f"{len(self._parts[-1])}"
            )
        self._set_parts()

    def _part(self, argument: str, source: Any, data: Any) -> Part:
        """Return the windows of `data`, with the dimensions of `source` if that is a `BatchGenerator`."""
        if not is_generator(source):
            _check_type(argument, data)
            windows = _windows(data, self.ds if is_generator(self.ds) else self)
        elif source.concat_input_dims or source.cache is not None:
            if data is not source.ds:
                raise ValueError(
                    "target: expected a BatchGenerator, because that of the inputs joins or caches windows, but got "
                    f"{self.target!r}"
                )
            return Part(data, None, source, self.cache_bytes)
        else:
            windows = _windows(data, source)
        return Part(data, windows, None, self.cache_bytes)

    def _set_parts(self) -> None:
        """Have the core read samples alone if nothing needs Python."""
        reasons = [
            *(part.reason for part in self._parts),
            None if self.transform is None else "transform is called in Python",
            None if self.target_transform is None else "target_transform is called in Python",
            "with_coords takes the coordinates from the xarray object" if self.with_coords else None,
        ]
        reason = next(filter(None, reasons), None)
        natives = [part.native for part in self._parts if part.native is not None]
        if reason is None and len(natives) == 1:
            core, structure = natives[0].dataset.core, self._inputs.structure
        elif reason is None:
            core = _core.Dataset.stack([(str(number), native.dataset.core) for number, native in enumerate(natives)])
            structure = [self._inputs.structure, renumbered(self._parts[1].structure, len(natives[0].names))]
        else:
            self._images, self._decoding = {}, None
            self.structure, self.kinds, self.is_native, self._core_reason = 0, (), False, reason
            return
        self._set_core(core, structure, ["tensor"] * len(core.fields))

    @property
    def data(self) -> xarray.Dataset | xarray.DataArray:
        """The object that the inputs are cut from: `ds` or that of its generator, without the variables of `target`."""
        return self._inputs.data

    @property
    def windows(self) -> Windows:
        """Where the windows of the inputs lie: `windows.selector(i)` is window i, as an argument of `isel`.

        Raises:
            AttributeError: a `BatchGenerator` joins several windows to one.
        """
        if self._inputs.windows is None:
            raise AttributeError("windows: not available for a BatchGenerator that joins or caches windows")
        return self._inputs.windows

    @property
    def block_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of windows in each row of chunks along the first dimension, int64; for `BlockShuffleSampler`.

        Raises:
            AttributeError: the inputs are not read by the core.
        """
        if self._inputs.native is None:
            raise AttributeError(f"block_sizes: the inputs have no known chunks: {self._inputs.reason}")
        return self._inputs.native.dataset.block_sizes

    def window(self, index: int) -> Any:
        """Return the inputs of sample `index` as an xarray object in memory, with coordinates, as xbatcher does.

        Raises:
            IndexError: `index` is out of range.
        """
        return self._inputs.window(self._index_of(index))

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._inputs)

    def _sample(self, index: int) -> Any:
        if self.is_native:
            return super()._sample(index)
        sample = [self._transformed(self._inputs, self.transform, index)]
        if self._targets is not None:
            sample.append(self._transformed(self._targets, self.target_transform, index))
        if self.with_coords:
            sample.append(self._inputs.coordinates(index))
        return sample[0] if len(sample) == 1 else tuple(sample)

    def _transformed(self, part: Part, transform: Callable[[Any], Any] | None, index: int) -> Any:
        if transform is None:
            return part.tensors(index)
        return transform(part.window(index) if self.as_xarray else part.tensors(index))

    def _samples(self, indices: list[int]) -> list[Any]:
        return super()._samples(indices) if self.is_native else list(map(self._sample, indices))

    def _batch(self, indices: list[int]) -> Any:
        return super()._batch(indices) if self.is_native else self.collate(self._samples(indices))

    def collate(self, samples: Sequence[Any]) -> Any:
        """Return the batch of `samples` that torch's default collate makes."""
        return default_collate(list(samples))

    def _shown(self) -> str:
        return f"{type(_data(self.ds)).__name__}, {len(self)} windows"


def _data(source: Any) -> Any:
    return source.ds if is_generator(source) else source


def _windows(data: Any, own: Any) -> Windows:
    """Return the windows of `data` along the dimensions that a `WindowDataset` or a `BatchGenerator` cuts."""
    overlap = own.input_overlap or {}
    if is_generator(own):
        # It ignores others.
        overlap = {name: overlap[name] for name in overlap if name in own.input_dims or name in own.batch_dims}
    return windows_of(data.sizes, own.input_dims, overlap, own.batch_dims)


def _check_type(argument: str, data: Any) -> None:
    if not isinstance(data, (xarray.Dataset, xarray.DataArray)):
        raise TypeError(
            f"{argument}: expected an xarray Dataset or DataArray, or a BatchGenerator, but got "
            f"{type(data).__name__}; wrap an array in xarray.DataArray(array, dims=[...])"
        )


def _taken_out(data: Any, target: str | Sequence[str]) -> tuple[Any, Any]:
    """Return `data` without the variables of the target, and these."""
    names = [target] if isinstance(target, str) else list(target)
    if not isinstance(data, xarray.Dataset):
        raise ValueError(f"target: expected an xarray object, because ds is a DataArray, but got {target!r}")
    for name in names:
        if name not in data.data_vars:
            raise ValueError(f"target: expected variables of ds, {list(data.data_vars)}, but got {name!r}")
    return data.drop_vars(names), data[target if isinstance(target, str) else names]
