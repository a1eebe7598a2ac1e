"""Streams whose classes are letters, and what is read from each class."""

from __future__ import annotations

import threading
from typing import Any


def stream(text: str) -> list[dict[str, Any]]:
    """Return one sample per letter, with the letter as its class."""
    return [{"kind": letter, "x": place} for place, letter in enumerate(text)]


def places(loader: Any) -> list[int]:
    return [place for batch in loader for place in batch["x"].tolist()]


def expected(text: str, letter: str) -> list[int]:
    return [place for place, each in enumerate(text) if each == letter]


def in_threads(loaders: Any, names: str, read: Any = places) -> dict[str, Any]:
    """Read every class in its own thread."""
    found: dict[str, Any] = {}

    def run(name: str) -> None:
        try:
            found[name] = read(loaders[name])
        except Exception as error:  # errors are compared as well
            found[name] = error

    threads = [threading.Thread(target=run, args=(name,), name=f"reader-{name}") for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found
