"""`known_length`: a length, if there is one."""

from __future__ import annotations

from typing import Any


def known_length(sized: Any) -> int | None:
    """Return `len(sized)`; None for a stream, sampler, or loader without a length, or with a negative one.

    Accelerate's `skip_first_batches` has a negative length if it skips more batches than there are.

    Examples:
        >>> known_length(range(3)), known_length(iter(range(3)))
        (3, None)
    """
    try:
        return len(sized)
    except (TypeError, NotImplementedError, ValueError):
        return None
