"""`stitch`: puts predictions for the windows of a dataset back together, in a Zarr store."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from .dataset import WindowDataset
from .windows import Windows


def stitch(
    predictions: Iterable[Any],
    dataset: WindowDataset,
    path: str | os.PathLike[str],
    dims: Sequence[str],
    *,
    name: str = "prediction",
) -> None:
    """Write predictions for all windows of `dataset` to a new Zarr store: the mean where windows overlap.

    The store has one variable, with the coordinates of the data along its dimensions, and is opened by
    `xarray.open_zarr(path)`. Its data type is that of the predictions if that is a floating-point type of NumPy, and
    otherwise float64. Sums are float64. Elements that are in no window are NaN. Each chunk has as many elements as the
    strides of the windows. Rows along the first dimension of the windows are written when no later window overlaps
    them, and only those that are left are in memory. If an error is raised, the store is incomplete. Needs zarr 3.

    Args:
        predictions: batches of predictions, in the order of the windows: not shuffled, and without `drop_last`. Each is
            a tensor or an array, with the windows along its first axis.
        dataset: what the windows are of.
        path: the folder of the new store.
        dims: the dimensions of a prediction, after the axis of the windows, in this order. They include all dimensions
            that windows are cut along; others are whole, or dimensions of the prediction alone (`"channel"`).
        name: the name of the variable.

    Raises:
        FileExistsError: something is at `path` already.
        ValueError: `dims` lack a dimension; a prediction does not have the shape of a window; there are fewer or more
            predictions than windows.

    Examples:
        >>> import numpy, tempfile, xarray
        >>> from sluicegate import DataLoader
        >>> from sluicegate.xarray import WindowDataset, stitch
        >>> field = xarray.DataArray(numpy.arange(5.0), dims=["x"])
        >>> dataset = WindowDataset(field, {"x": 3}, {"x": 1})
        >>> path = tempfile.mkdtemp() + "/doubled"
        >>> stitch((2 * batch for batch in DataLoader(dataset, batch_size=2)), dataset, path, ["x"])
        >>> xarray.open_zarr(path, chunks=None)["prediction"].values.tolist()
        [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    windows, data = dataset.windows, dataset.data
    if missing := [dimension for dimension in windows.dimensions if dimension not in dims]:
        raise ValueError(
            f"dims: expected all dimensions of the windows, {list(windows.dimensions)}, but {missing} are missing"
        )
    if os.path.exists(path):
        raise FileExistsError(f"path: expected a folder that does not exist, but got {os.fspath(path)!r}")
    index, output = 0, None
    for batch in predictions:
        for values in np.asarray(batch.detach().cpu() if isinstance(batch, torch.Tensor) else batch):
            if index == len(windows):
                raise ValueError(f"predictions: expected one for each of {len(windows)} windows, but got more")
            if output is None:
                output = _Output(data, windows, os.fspath(path), tuple(dims), name, values)
            output.add(index, values)
            index += 1
    if output is None or index < len(windows):
        raise ValueError(f"predictions: expected one for each of {len(windows)} windows, but got {index}")
    output.finish()


class _Output:
    """The array in the store, and the sums of its rows that are not complete yet."""

    def __init__(
        self, data: Any, windows: Windows, path: str, dims: tuple[str, ...], name: str, first: np.ndarray[Any, Any]
    ) -> None:
        import zarr  # Only this function needs it.

        self.consolidate = zarr.consolidate_metadata
        self.windows = windows
        self.dims = dims
        if first.ndim != len(dims):
            raise ValueError(f"predictions: expected the dimensions {dims}, but got the shape {first.shape}")
        lengths = dict(zip(windows.dimensions, windows.lengths, strict=True))
        strides = dict(zip(windows.dimensions, windows.strides, strict=True))
        own = dict(zip(dims, first.shape, strict=True))
        sizes = {each: data.sizes.get(each, own[each]) for each in dims}
        self.window_shape = tuple(lengths.get(each, sizes[each]) for each in dims)
        shape = tuple(sizes.values())
        is_floating = first.dtype.kind == "f"
        self.axis = dims.index(windows.dimensions[0])
        self.length = windows.lengths[0]
        slab = list(shape)
        slab[self.axis] = self.length
        self.sums = np.zeros(slab)
        self.counts = np.zeros(
            [size if each in lengths else 1 for each, size in zip(dims, slab, strict=True)], np.int64
        )
        # The first row of the slab.
        self.start = 0
        coordinates = data.coords.to_dataset()
        kept = [each for each, one in coordinates.variables.items() if set(one.dims) <= set(dims)]
        coordinates[kept].drop_encoding().to_zarr(path, mode="w-", zarr_format=3, consolidated=False)
        self.group = zarr.open_group(path)
        self.array = self.group.create_array(
            name,
            shape=shape,
            chunks=tuple(min(strides.get(each, size), size) for each, size in sizes.items()),
            dtype=first.dtype if is_floating else np.dtype(np.float64),
            fill_value=np.nan,
            dimension_names=dims,
        )

    def add(self, index: int, values: np.ndarray[Any, Any]) -> None:
        """Add the prediction for window `index`, which is not before any that was added."""
        if values.shape != self.window_shape:
            raise ValueError(
                f"predictions: expected the shape {self.window_shape} for the dimensions {self.dims}, but got "
                f"{values.shape} for window {index}"
            )
        starts = dict(zip(self.windows.dimensions, self.windows.starts(index), strict=True))
        first = starts[self.dims[self.axis]]
        if first > self.start:
            self._write(first - self.start)
        starts[self.dims[self.axis]] = 0
        place = tuple(
            slice(starts.get(each, 0), starts.get(each, 0) + length)
            for each, length in zip(self.dims, self.window_shape, strict=True)
        )
        self.sums[place] += values
        self.counts[
            tuple(part if size > 1 else slice(None) for part, size in zip(place, self.counts.shape, strict=True))
        ] += 1

    def _write(self, rows: int) -> None:
        """Write the first rows of the slab, which are complete, and move the others to its start."""
        done, others = self._part(0, rows), self._part(rows, self.length)
        place = [slice(None)] * len(self.dims)
        place[self.axis] = slice(self.start, self.start + rows)
        with np.errstate(invalid="ignore"):
            self.array[tuple(place)] = (self.sums[done] / self.counts[done]).astype(self.array.dtype)
        kept = self._part(0, self.length - rows)
        for slab in (self.sums, self.counts):
            slab[kept] = slab[others].copy()
            slab[self._part(self.length - rows, self.length)] = 0
        self.start += rows

    def _part(self, start: int, end: int) -> tuple[slice, ...]:
        part = [slice(None)] * len(self.dims)
        part[self.axis] = slice(start, end)
        return tuple(part)

    def finish(self) -> None:
        """Write the remaining windows, and the metadata that xarray reads in one file."""
        self._write(self.length)
        with warnings.catch_warnings():
            # The warning that the specification lacks this metadata, which xarray also writes.
            warnings.simplefilter("ignore")
            self.consolidate(self.group.store)
