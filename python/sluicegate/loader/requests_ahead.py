"""`RequestsAhead`: the requests that an epoch sends to its workers, and their timing."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator

from sluicegate import _core
from sluicegate.order.ids import BatchIds
from sluicegate.worker.group import WorkerGroup

from .assignment import Assignment
from .under_way import UnderWay

# Raised by `pickle` for indices that can't be sent, on every attempt.
_UNPICKLABLE = (AttributeError, TypeError, pickle.PicklingError)


class RequestsAhead:
    """Requests batches of workers before their turn, as far as there is room for them, in number and in bytes.

    Args:
        group: the workers.
        epoch: the number that the epoch has for them.
        requests: the batches of the epoch.
        assignment: which worker fetches which of them.
        party: the epoch's part of what may be ahead in bytes; None for no bound.

    Attributes:
        assignment: the argument.
        under_way: the batches requested and not delivered yet.
        is_exhausted: True if there is nothing more to request.
        is_paused: True while deferred batches stay deferred, even if there is room for them.
    """

    def __init__(
        self,
        group: WorkerGroup,
        epoch: int,
        requests: Iterator[BatchIds],
        assignment: Assignment,
        party: _core.Party | None,
    ) -> None:
        self.assignment = assignment
        self.under_way = UnderWay()
        self.is_exhausted = self.is_paused = False
        self._group, self._epoch = group, epoch
        self._requests, self._party = requests, party
        # The number of batches to request once the bound in bytes allows it.
        self._deferred = 0

    def use(self, group: WorkerGroup, epoch: int) -> None:
        """Request of other workers from now on; the arguments are those of the constructor."""
        self._group, self._epoch = group, epoch

    def begin(self) -> None:
        """Request the first batches."""
        self.assignment.share(self._group.iterators_served)
        for _ in range(self.assignment.ahead - len(self.under_way) - self._deferred):
            self.request_one_more()

    def refill(self) -> None:
        """Send missing requests, after an exception between taking a batch and requesting the next one."""
        if self.is_exhausted:
            return
        for _ in range(self.assignment.capacity - len(self.under_way) - self._deferred):
            self.request_one_more()

    def request_one_more(self) -> None:
        """Request one more batch: now, or when there is room for it in bytes."""
        self._deferred += 1
        self.request_deferred()

    def request_deferred(self) -> bool:
        """Request deferred batches as far as there is room for them; return True if there was any."""
        asked, party = self.under_way.asked, self._party
        while self._deferred and not self.is_paused and (party is None or len(self.under_way) < party.room):
            self._request_one_deferred()
        return self.under_way.asked > asked

    def request_in_pause(self) -> bool:
        """Request one deferred batch while paused; return True if there was one."""
        if not self.is_paused or not self._deferred or self.is_exhausted:
            return False
        self._request_one_deferred()
        return True

    def _request_one_deferred(self) -> None:
        self._deferred -= 1
        if (following := self.next()) is not None:
            self._request_next(*following)

    def replace_deferred(self, worker: int, ids: BatchIds) -> None:
        """Send a result of `next`, in place of a deferred batch."""
        self._deferred -= 1
        self._request_next(worker, ids)

    def next(self) -> tuple[int, BatchIds] | None:
        """Return the next batch to request, and the worker it is for; None if there is none."""
        # In this order: a batch that no worker could be asked for would be lost.
        worker = self.assignment.next_worker()
        if worker is None:
            return None
        ids = None if self.is_exhausted else next(self._requests, None)
        if ids is None:
            self.is_exhausted = True
            self.assignment.done(worker)
            return None
        return worker, ids

    def _request_next(self, worker: int, ids: BatchIds) -> None:
        ids.worker = worker
        self._request(self.under_way.asked, ids)

    def request_rest(self, number: int, ids: BatchIds) -> None:
        """Request the remaining samples of a batch that was removed from those under way, in its place."""
        self.assignment.under_way[ids.worker] += 1
        self._request(number, ids)

    def _request(self, number: int, ids: BatchIds) -> None:
        try:
            self.under_way.add(number, ids)
            self._group.fetch(ids.worker, self._epoch, number, ids)
        except BaseException as error:
            # No worker was asked, so none must be waited for; the next attempt requests it again.
            self.under_way.withdraw(number)
            self.assignment.done(ids.worker)
            if not isinstance(error, _UNPICKLABLE):
                self._requests = itertools.chain((ids,), self._requests)
            raise

    def leave(self) -> None:
        """Give back the epoch's share of the bound on prefetched bytes."""
        self._party = None
