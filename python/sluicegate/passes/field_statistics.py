"""`FieldStatistics`: the result of `statistics` for a field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

_Values = TypeVar("_Values", torch.Tensor, np.ndarray[Any, Any])


@dataclass(frozen=True)
class FieldStatistics:
    """The statistics of all elements of a field that are not NaN.

    `dataclasses.asdict` makes a dict of numbers for JSON, or for the attributes of a store.

    Attributes:
        count: the number of elements that are not NaN.
        missing: the number of elements that are NaN.
        mean: the mean; NaN without elements.
        std: the standard deviation of the population (divided by `count`); NaN without elements.
        min: the smallest element, as the nearest float; NaN without elements.
        max: the largest element, as the nearest float; NaN without elements.

    Examples:
        >>> import torch
        >>> field = FieldStatistics(count=4, missing=0, mean=3.0, std=2.0, min=1.0, max=5.0)
        >>> field.normalize(torch.tensor([1.0, 3.0, 5.0]))
        tensor([-1.,  0.,  1.])
        >>> field.denormalize(torch.tensor([-1.0, 0.0]))
        tensor([1., 3.])
    """

    count: int
    missing: int
    mean: float
    std: float
    min: float
    max: float

    def normalize(self, values: _Values) -> _Values:
        """Return `(values - mean) / std`, or zeros if all elements are the same."""
        return (values - self.mean) / self._scale

    def denormalize(self, values: _Values) -> _Values:
        """Return the values that `normalize` turned into `values`, up to rounding."""
        return values * self._scale + self.mean

    @property
    def _scale(self) -> float:
        return self.std if self.std > 0 or math.isnan(self.std) else 1.0
