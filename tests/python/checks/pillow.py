"""`pillows`: an image as Pillow decodes it."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image


def pillows(data: bytes, mode: str) -> torch.Tensor:
    """Return the pixels of a file's bytes, converted to `mode`, with the channels first."""
    array = np.array(Image.open(io.BytesIO(data)).convert(mode))
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())
