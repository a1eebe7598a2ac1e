"""Arrays in stores of Zarr, written by its package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write(folder: Path, version: int, name: str, values: Any, chunks: tuple[int, ...], **attributes: Any) -> None:
    """Write an array to a group of this version, with names for its dimensions."""
    import zarr  # Tests are skipped if it is not installed.

    group = zarr.open_group(folder, mode="a", zarr_format=version)
    names = ["time", "y", "x"][-np.ndim(values) :]
    options: dict[str, Any] = {"dimension_names": names} if version == 3 else {}
    fill = attributes.pop("fill_value", None)
    array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype, fill_value=fill, **options)
    array[:] = values
    array.attrs.update(attributes if version == 3 else {**attributes, "_ARRAY_DIMENSIONS": names})
