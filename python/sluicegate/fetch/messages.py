"""How messages describe samples: their indices, where those came from, and their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler

from sluicegate.state.stateful import attribute

# The most indices named in a message; a batch may have thousands.
_NAMED_INDICES = 16


def sampler_name(index_sampler: Any) -> str:
    """Return the class to blame for an index: a BatchSampler only groups what another sampler yields."""
    inner = attribute(index_sampler, "sampler") if isinstance(index_sampler, BatchSampler) else None
    # Accelerate's batch samplers are subclasses that contain a batch sampler instead.
    return type(index_sampler if inner is None else inner).__name__


def indices_in_words(index: Any) -> str:
    """Return `index` for a message: all indices of a small batch, the first ones of a large one."""
    try:
        return _in_words(index)
    except Exception:  # The message matters, not that the index can't be shown.
        return f"<{type(index).__name__}>"


def request_in_words(index: Any) -> str:
    """Return a request to a worker for a message. In a request for samples of a stream, each index is None."""
    if index is None or (isinstance(index, list) and all(each is None for each in index)):
        return "the next samples of its stream"
    return f"indices {indices_in_words(index)}"


def _in_words(index: Any) -> str:
    if isinstance(index, (list, tuple)) and len(index) > _NAMED_INDICES:
        shown = ", ".join(map(repr, index[:_NAMED_INDICES]))
        return f"[{shown}, ... {len(index) - _NAMED_INDICES} more]"
    text = repr(index)
    return text if len(text) <= 1000 else f"{text[:1000]}..."


def shapes_of(sample: Any) -> Any:
    """Return the shapes of the tensors and arrays in a sample, in the same nesting."""
    if isinstance(sample, dict):
        return {key: shapes_of(value) for key, value in sample.items()}
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return [shapes_of(value) for value in sample]
    shape = getattr(sample, "shape", None)
    return tuple(shape) if isinstance(shape, (torch.Size, tuple)) else None


def shapes_in_words(shapes: Any) -> str:
    """Return a result of `shapes_of` as text for a message."""
    return f"shape {shapes}" if isinstance(shapes, tuple) else f"shapes {shapes}"
