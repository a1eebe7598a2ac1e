"""Torch's DataLoader and ours as contenders: the same dataset, the same arguments.

The datasets are plain classes at the top of their files, so that any start method can hand them to a worker.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from protocol import Contender, Epoch

IMPORTS = {
    "torch": ("torch", "torch.utils.data"),
    "sluicegate": ("torch", "torch.utils.data", "sluicegate"),
}


def data_loader(package: str, dataset: Any, **arguments: Any) -> Any:
    """The DataLoader of `package`, a key of `IMPORTS`."""
    return importlib.import_module(IMPORTS[package][-1]).DataLoader(dataset, **arguments)


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
    """The loader of `package` over `dataset(source)`, with `collate(source)`; shuffled, with persistent workers."""

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
