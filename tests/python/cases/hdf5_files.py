"""Files of HDF5 with arrays of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write(path: Path, arrays: dict[str, np.ndarray[Any, Any]], **options: Any) -> Path:
    import h5py  # Tests are skipped if it is not installed.

    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, **options)
    return path
