"""How a stream of Hugging Face's `datasets` applies a state that it was given."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import get_worker_info


def keeps_loaded_state(item: Any) -> bool:
    """Return True for a Hugging Face stream, which would begin every later iteration at a state that it was given."""
    module = sys.modules.get("datasets.iterable_dataset")
    cls = getattr(module, "IterableDataset", None)
    return cls is not None and isinstance(item, cls) and hasattr(item, "_starting_state_dict")


def parts_of(stream: Any) -> Iterator[Any]:
    """Return what a Hugging Face stream is made of: sources, and what changes, mixes, or shuffles them."""
    parts = [stream._ex_iterable]
    while parts:
        part = parts.pop()
        parts += filter(None, [getattr(part, "ex_iterable", None), *getattr(part, "ex_iterables", ())])
        yield part


@contextlib.contextmanager
def restored_once_split(stream: Any) -> Iterator[None]:
    """Have a Hugging Face stream in a worker apply its state only after it was split among workers.

    `datasets` also applies it before, to the whole stream. The state is that of the worker's part, which has fewer
    shards, and a shuffle buffer over several shards fails at that. So does a concatenated stream, which is left alone:
    the states of its parts can be after samples that they have not yielded, which would be lost without an error.
    """
    prepare = getattr(stream, "_prepare_ex_iterable_for_iteration", None)
    is_concatenated = any(type(part).__name__.startswith("VerticallyConcatenated") for part in parts_of(stream))
    if prepare is None or is_concatenated or get_worker_info() is None:
        yield
        return

    def prepare_whole(*args: Any, **kwargs: Any) -> Any:
        state, stream._starting_state_dict = stream._starting_state_dict, None
        try:
            return prepare(*args, **kwargs)
        finally:
            stream._starting_state_dict = state

    stream._prepare_ex_iterable_for_iteration = prepare_whole
    try:
        yield
    finally:
        del stream._prepare_ex_iterable_for_iteration
