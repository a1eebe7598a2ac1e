"""Windows of labeled arrays: `WindowDataset` cuts xarray objects, and `stitch` puts predictions back together.

Windows are those of the package xbatcher. Data that is stored in Zarr is read in Rust. Needs xarray; `stitch` also
needs zarr.
"""

from __future__ import annotations

from .dataset import WindowDataset
from .stitch import stitch

__all__ = ["WindowDataset", "stitch"]

for _public in (WindowDataset, stitch):
    _public.__module__ = __name__
