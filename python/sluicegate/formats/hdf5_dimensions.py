"""`Dimensions`: the names of the axes of arrays of HDF5, as netCDF stores them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .hdf5_types import NotReadError

# How netCDF-4 begins the name of a variable that has the name of a dimension and is not its coordinate.
NOT_COORDINATE = "_nc4_non_coord_"


def text_of(value: Any) -> str:
    """Return the text of an attribute; the empty text if it is something else."""
    found = np.asarray(value)
    text = found.item() if found.size == 1 else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def is_scale(dataset: Any) -> bool:
    """Return True if an array has the coordinates of a dimension."""
    return text_of(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE"


class Dimensions:
    """The dimensions of the arrays of a file."""

    def __init__(self) -> None:
        # The size of each scale, by its place in the file.
        self._sizes: dict[str, int] = {}

    def names(self, dataset: Any) -> list[str]:
        """Return the names of the axes of `dataset`: those of their scales, or their labels.

        Raises:
            NotReadError: an axis has fewer elements than its dimension.
        """
        return [self._name(dataset, axis, dimension) for axis, dimension in enumerate(dataset.dims)]

    def _name(self, dataset: Any, axis: int, dimension: Any) -> str:
        try:
            scale = dimension[0] if len(dimension) else None
        except RuntimeError:
            # It was deleted.
            scale = None
        if scale is None or scale.name is None or len(scale.shape) != 1:
            own = dataset.name.rsplit("/", 1)[-1]
            return own if is_scale(dataset) and dataset.ndim == 1 else dimension.label or f"dim_{axis}"
        name = str(scale.name).rsplit("/", 1)[-1].removeprefix(NOT_COORDINATE)
        size = self._size(scale)
        if size != dataset.shape[axis]:
            raise NotReadError(
                f"it has {dataset.shape[axis]} elements along dimension {name!r}, which has {size}; read it with "
                "xarray, through sluicegate.xarray.WindowDataset"
            )
        return name

    def _size(self, scale: Any) -> int:
        """Return the size of a dimension: of an unlimited one, that of its longest array."""
        if scale.name not in self._sizes:
            size = int(scale.shape[0])
            if scale.maxshape[0] is None:
                for reference, axis in scale.attrs.get("REFERENCE_LIST", ()):
                    attached = scale.file[reference] if reference else None
                    size = max(size, attached.shape[axis] if attached is not None else 0)
            self._sizes[scale.name] = size
        return self._sizes[scale.name]
