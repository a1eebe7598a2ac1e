"""Helpers for the end and the errors of a worker, as the consumer sees them."""

from __future__ import annotations

import time
from typing import Any


def story(error: BaseException) -> str:
    """Return everything the error says: its text, its notes, and its causes."""
    said = [str(error), *getattr(error, "__notes__", [])]
    if error.__cause__ is not None:
        said.append(story(error.__cause__))
    return "\n".join(said)


def ended_workers(workers: list[Any]) -> bool:
    deadline = time.monotonic() + 10
    while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(worker.is_alive() for worker in workers)


def read_until_error(iterator: Any) -> tuple[list[Any], BaseException]:
    """Return the batches delivered before the iterator failed, and the error without its frames."""
    delivered: list[Any] = []
    try:
        for batch in iterator:
            delivered.append(batch)
    except Exception as error:
        return delivered, error.with_traceback(None)
    raise AssertionError(f"no error, but {len(delivered)} batches")
