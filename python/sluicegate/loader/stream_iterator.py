"""`StreamIterator`: the iterator over a stream of the core that threads of this process read."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from sluicegate.order.ids import BatchIds
from sluicegate.worker.group import WorkerGroup
from sluicegate.worker.thread_workers import ThreadWorkers
from sluicegate.worker.work import WorkerSettings

from .resources import LoaderResources
from .worker_iterator import WorkerIterator

# How long this thread waits for samples before it leaves the batch to a worker: that wait can be ended and reported on.
_PATIENCE = 0.05


class StreamIterator(WorkerIterator):
    """Epochs of a stream of the core that threads of this process read together.

    Batches are fetched ahead by the threads only while that pays, see `Pace`. Otherwise the calling thread fetches each
    when it is due, in place of its worker. Batches and states are the same either way.
    """

    _shares_pass = True
    _is_torn = False

    def _take_workers(self, resources: LoaderResources) -> WorkerGroup:
        self._resources = resources
        group = super()._take_workers(resources)
        # Not for loaders that share workers, each of which fetches batches for several loaders.
        self._threads = group if type(group) is ThreadWorkers else None
        return group

    def _begin_without_requests(self) -> None:
        super()._begin_without_requests()
        # The batch that is being fetched here, and its worker: if a signal handler raises, the next call fetches it.
        self._here: tuple[int, BatchIds] | None = None
        # True if that has left a worker anywhere between two batches.
        self._is_torn = False

    def _next_data(self) -> Any:
        if (threads := self._threads) is None:
            return super()._next_data()
        pays_ahead = threads.pace.pays_ahead() and self._here is None
        self._ahead.is_paused = not pays_ahead
        if pays_ahead or not self._primed or self._next_under_way() is not None:
            return super()._next_data()
        return self._next_here(threads)

    def _request_turn(self) -> bool:
        # Fetching here begins with the next batch.
        return self._ahead.request_in_pause() or super()._request_turn()

    def _next_here(self, threads: ThreadWorkers) -> Any:
        threads.check()
        if threads.closed:
            raise StopIteration
        self._destination.check()
        if self._is_torn:
            threads = self._restart_workers()
        ahead = self._ahead
        while (here := self._here or ahead.next()) is not None:
            worker, ids = self._here = here
            if not threads.can_fetch(worker, ids.request, _PATIENCE):
                self._here = None
                ahead.replace_deferred(worker, ids)
                return super()._next_data()
            self._is_torn = True
            answer = threads.answer_on_calling_thread(worker, self._epoch, ahead.under_way.asked, ids)
            threads.pace.since = time.perf_counter()
            if answer.ended:
                self._reports.retire(worker, answer.report)
                self._retire(worker, ahead.assignment)
                self._end_here(worker)
                continue
            if answer.error is not None and threads.closed:
                raise StopIteration  # Another thread has ended the workers, as in `receive`.
            ids.worker = worker
            is_wanted = self._receive(worker, ids, answer.report)
            self._end_here(worker)
            if is_wanted or answer.error is not None:
                return self._destination.deliver(answer.batch())
        self._finish()
        raise StopIteration

    def _end_here(self, worker: int) -> None:
        self._ahead.assignment.done(worker)
        self._here, self._is_torn = None, False

    def _restart_workers(self) -> ThreadWorkers:
        """Start the workers again where their last batches were received; return them.

        A signal handler has raised while a batch was fetched here, at an unknown position.
        """
        if self._here is not None and self._progress.received.last_ids is self._here[1]:
            self._end_here(self._here[0])
        places = self._reports.places()
        self._group.close()
        self._places = places
        self._group = self._take_workers(self._resources)
        self._epoch = self._group.first_epoch
        self._ahead.use(self._group, self._epoch)
        for worker in self._reports.retired:
            self._retire(worker, self._ahead.assignment)
        self._is_torn = False
        assert self._threads is not None
        return self._threads

    def _worker_settings(self) -> WorkerSettings:
        worker_settings = super()._worker_settings()
        return dataclasses.replace(worker_settings, places=self._places) if self._is_torn else worker_settings
