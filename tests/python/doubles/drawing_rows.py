"""A dataset that draws from its own generators."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

import sluicegate
from doubles.stateful import Indices


class OwnDrawingRows(Indices):
    """Draws from the sample's own generators."""

    def __getitem__(self, index: int) -> Any:
        rng = sluicegate.sample_rng()
        assert isinstance(rng.python, random.Random)
        assert isinstance(rng.numpy, numpy.random.Generator)
        assert isinstance(rng.torch, torch.Generator)
        return index, rng.python.random(), rng.numpy.random(), torch.rand(2, generator=rng.torch)
