"""Windows of labeled arrays: `WindowDataset` cuts xarray objects, and `stitch` puts predictions back together.

Windows are those of the package xbatcher, whose `MapDataset` and `IterableDataset` have their counterparts here. Data
that is stored in Zarr, netCDF, or HDF5 is read in Rust. Needs xarray; `stitch` also needs zarr.
"""

from __future__ import annotations

from .dataset import WindowDataset
from .loaders import IterableDataset, MapDataset, to_tensor
from .stitch import stitch

__all__ = ["IterableDataset", "MapDataset", "WindowDataset", "stitch", "to_tensor"]

for _public in (IterableDataset, MapDataset, WindowDataset, stitch, to_tensor):
    _public.__module__ = __name__
