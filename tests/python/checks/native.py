"""Checks that datasets read by the core give the batches of torch's loader."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same_outcome, outcome_of

Build = Callable[[ModuleType], Any]


def assert_as_torch(data: ModuleType, build: Build, epochs: int = 1, **arguments: Any) -> None:
    """Compare two equal loaders, ours and torch's, whose datasets draw the same random numbers."""
    outcomes = []
    for package in (data, torch.utils.data):
        torch.manual_seed(5)
        dataset = build(package)
        loader = package.DataLoader(dataset, **arguments)
        outcomes.append([outcome_of(lambda loader=loader: loader) for _ in range(epochs)])
    for actual, expected in zip(*outcomes, strict=True):
        assert_same_outcome(actual, expected)


def engine_of(dataset: Any, **arguments: Any) -> str:
    """Return the engine that a loader with these arguments reports."""
    return sluicegate.DataLoader(dataset, **arguments).explain().engine


def array_of(code: str, *shape: int) -> numpy.ndarray:
    dtype = numpy.dtype(code)
    if dtype.kind == "V":
        return numpy.zeros(shape, dtype)
    return (numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape) % 5).astype(dtype)
