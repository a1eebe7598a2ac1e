"""`operations`: records which of torch's operations run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


@contextlib.contextmanager
def operations() -> Iterator[list[str]]:
    """Yield a list that collects the names of the operations that this thread calls meanwhile."""
    seen: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    with Watch():
        yield seen
