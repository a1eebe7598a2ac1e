"""`YieldedRequests`: the requests that a user-defined sampler has yielded in an epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

# The number of requests kept before those received are removed.
_MANY = 64


class YieldedRequests:
    """What a user-defined sampler without a state has yielded in an epoch.

    A resumed loader draws the epoch again, without what others drew in between: a training loop with dropout, or a
    dataset without workers. Therefore the state has the requests made ahead, and a checksum of those received, which
    shows whether the epoch that is drawn again is the same.

    Args:
        ahead: requests that were made ahead when the state was taken that the epoch resumes from.
        received: how many were received before these.
        checksum: of those received; None if it is not known.

    Examples:
        >>> yielded = YieldedRequests()
        >>> for number, request in enumerate([[0, 3], [2, 1], [4]]):
        ...     yielded.add(number, request, received=1)
        >>> yielded.ahead(received=1)
        [[2, 1], [4]]
        >>> again = YieldedRequests()
        >>> again.add(0, [0, 3], received=1)
        >>> again.checksum(received=1) == yielded.checksum(received=1)
        True
    """

    def __init__(self, ahead: Iterable[Any] = (), received: int = 0, checksum: int | None = None) -> None:
        self._kept: deque[Any] = deque(ahead)
        # The number of the first one that is kept, and the checksum of those before it; None if they are not integers.
        self._first = received
        # 0 from earlier states means that none were added.
        self._checksum = (checksum or None) if received else 0

    def add(self, number: int, request: Any, received: int) -> None:
        """Add request `number` of the epoch, unless it was added before; `received` were received by now."""
        kept = self._kept
        if number == self._first + len(kept):
            # A copy: a dataset may change the list that it is given.
            kept.append(request.copy() if type(request) is list else request)
            if len(kept) >= _MANY:  # Not for each batch: that took longer than a small batch should.
                self._drop(received)

    def ahead(self, received: int) -> list[Any]:
        """Return the requests after the first `received` ones; none if they are not lists of integers, or integers."""
        self._drop(received)
        return list(self._kept) if all(map(_is_of_integers, self._kept)) else []

    def checksum(self, received: int) -> int | None:
        """Return the checksum of the first `received` requests, the same in every process; None if there is none."""
        self._drop(received)
        return self._checksum if self._first >= received else None

    def is_like(self, other: YieldedRequests, received: int) -> bool:
        """Return True if the requests are those of `other`, as far as they are known: older states have none."""
        checksum, ahead = self.checksum(received), self.ahead(received)
        return checksum in (None, other.checksum(received)) and ahead in ([], other.ahead(received))

    def _drop(self, received: int) -> None:
        while self._kept and self._first < received:
            request = self._kept.popleft()
            self._first += 1
            if self._checksum is not None:
                # Hashes of integers, and of tuples of them, do not depend on the process.
                is_of_integers = _is_of_integers(request)
                self._checksum = hash((self._checksum, *_indices(request))) if is_of_integers else None


def _indices(request: Any) -> Any:
    return request if type(request) is list else (request,)


def _is_of_integers(request: Any) -> bool:
    return set(map(type, _indices(request))) <= {int}
