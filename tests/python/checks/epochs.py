"""Epochs of either loader, as a script sees them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same


def next_item(iterator: Iterator[Any]) -> Any:
    """Return the next batch, or the type of the error raised instead; None at the end."""
    try:
        return next(iterator)
    except StopIteration:
        return None
    except Exception as error:
        # Torch raises a worker's error from a frame that refers to it, so a cycle holds the iterator. If a worker
        # forked later collects it, queues are closed before their last use: `Bad file descriptor` in a thread.
        return type(error.with_traceback(None))


def seen_by(
    kind: Any, dataset: Any, change: Callable[[int], None] | None = None, *, epochs: int = 2, **arguments: Any
) -> list[Any]:
    """Return the batches and types of errors of each epoch, and the states of torch's and Python's generators after it.

    Args:
        kind: the class of the loader.
        dataset: the dataset.
        change: called after each batch with the number of items seen so far.
        epochs: their number; one is enough with worker processes if only the files differ from those of other tests.
        **arguments: the arguments of the loader.
    """
    torch.manual_seed(5)
    random.seed(6)
    loader = kind(dataset, **arguments)
    seen: list[Any] = []
    for _ in range(epochs):
        iterator = iter(loader)
        while (item := next_item(iterator)) is not None:
            seen.append(item)
            if change is not None:
                change(len(seen))
        seen += [torch.random.get_rng_state(), random.getstate()]
    return seen


def assert_as_torch(dataset: Any, *, epochs: int = 2, **arguments: Any) -> list[Any]:
    """Assert that the core reads `dataset`, and that both loaders yield the same items, and return these."""
    expected = seen_by(torch.utils.data.DataLoader, dataset, epochs=epochs, **arguments)
    assert sluicegate.DataLoader(dataset, **arguments).explain().engine == "rust"
    assert_same(seen_by(sluicegate.DataLoader, dataset, epochs=epochs, **arguments), expected)
    return expected


def assert_resumes_as_torch(dataset: Any, **arguments: Any) -> None:
    """Assert that two batches, and those of another loader that resumes after them, are the epoch of torch's loader."""
    torch.manual_seed(5)
    random.seed(6)
    loader = sluicegate.DataLoader(dataset, **arguments)
    seen: list[Any] = list(itertools.islice(loader, 2))
    resumed = sluicegate.DataLoader(dataset, **arguments)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    seen += resumed
    torch.manual_seed(5)
    assert_same(seen, list(torch.utils.data.DataLoader(dataset, **arguments)))
