"""`int64_array`: indices that a script gives in another form than a list, as the core reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def int64_array(indices: Any) -> torch.Tensor | None:
    """Return the integers of an array, tensor or range as contiguous int64, perhaps their memory; otherwise None."""
    if type(indices) is range:
        return torch.arange(indices.start, indices.stop, indices.step, device="cpu")
    if type(indices) is np.ndarray and indices.ndim == 1 and indices.dtype.kind == "i":
        array = np.ascontiguousarray(indices, dtype=np.int64)
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    if type(indices) is torch.Tensor and indices.ndim == 1 and indices.dtype in (torch.int64, torch.int32):
        return indices.detach().to(device="cpu", dtype=torch.int64).contiguous()
    return None
