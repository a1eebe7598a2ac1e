"""Torch's DataLoader and ours as contenders: the same dataset, the same arguments.

The datasets are plain top-level classes, so that every start method can pass them to a worker.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from protocol import Contender, Epoch

IMPORTS = {
    "torch": ("torch", "torch.utils.data"),
    "sluicegate": ("torch", "torch.utils.data", "sluicegate"),
    "torchdata": ("torch", "torch.utils.data", "torchdata", "torchdata.stateful_dataloader"),
    "grain": ("grain", "grain.python"),
}


def present(*contenders: Contender) -> tuple[Contender, ...]:
    """Return the contenders whose packages are installed: torchdata and Grain are not locked, and may be missing."""
    tops = {contender.name: {name.partition(".")[0] for name in contender.imports} for contender in contenders}
    return tuple(c for c in contenders if all(importlib.util.find_spec(top) for top in tops[c.name]))


def data_loader(package: str, dataset: Any, **arguments: Any) -> Any:
    """Return the DataLoader of `package`: torch's, or one with the same interface."""
    name = "StatefulDataLoader" if package == "torchdata" else "DataLoader"
    return getattr(importlib.import_module(IMPORTS[package][-1]), name)(dataset, **arguments)


def contender(
    package: str,
    dataset: Callable[[Any], Any],
    workers: int,
    *,
    note: str = "",
    column: str | None = None,
    collate: Callable[[Any], Callable[[list[Any]], Any]] | None = None,
    **arguments: Any,
) -> Contender:
    """Return `package`'s loader for `dataset(source)`, with `collate(source)`; shuffled, with persistent workers."""

    def make(source: Any) -> Epoch:
        loader = data_loader(
            package,
            dataset(source),
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            collate_fn=collate and collate(source),
            **arguments,
        )
        return lambda: iter(loader)

    return Contender(f"{package}, {workers} workers{note}", make, IMPORTS[package], column)
