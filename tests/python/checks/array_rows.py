"""`assert_rows`: the samples of a dataset are the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from checks.equality import assert_same


def assert_rows(dataset: Any, expected: np.ndarray[Any, Any]) -> None:
    """Assert that the rows of `dataset` are those of `expected`, in bytes and data type."""
    native = expected.astype(expected.dtype.newbyteorder("="))
    rows = dataset.__getitems__(range(len(expected)))
    assert_same(rows, [torch.from_numpy(np.array(row)) for row in native])
