"""`WorkerIterator`: the iterator over a Python dataset in worker processes or threads."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from typing import Any

from torch.utils.data import IterDataPipe, MapDataPipe

from sluicegate import _torch
from sluicegate.fetch.collate import stacking
from sluicegate.fetch.messages import sampler_name
from sluicegate.order.ids import BatchIds
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.requests import without
from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.sample import GlobalDrawWatch
from sluicegate.state.place_state import PlaceState
from sluicegate.state.stateful import UnavailableState
from sluicegate.stream.whole import refuse_workers
from sluicegate.system import deadlines
from sluicegate.system.deferred_signals import DeferredSignals
from sluicegate.worker.group import Answer, WorkerGroup
from sluicegate.worker.process_workers import ProcessWorkers
from sluicegate.worker.report import Report
from sluicegate.worker.thread_workers import ThreadWorkers
from sluicegate.worker.work import Work, WorkerSettings

from .assignment import Assignment
from .epoch_iterator import EpochIterator
from .requests_ahead import RequestsAhead
from .resources import LoaderResources, resources_of
from .stream_reports import Reports


class WorkerIterator(EpochIterator):
    """Epochs of a dataset whose samples workers fetch; batches are assigned to workers exactly as in torch.

    The order of what is delivered does not depend on whether the workers are processes or threads.
    """

    # True if threads of this process read a stream of the core together.
    _shares_pass = False

    def __init__(self, loader: LoaderArguments, settings: LoaderSettings, progress: LoaderProgress) -> None:
        super().__init__(loader, settings, progress)
        if settings.prefetch_factor is None or settings.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._in_order = settings.in_order
        self._prefetch_factor: int = settings.prefetch_factor
        resources = resources_of(loader)
        self.engine = resources.engine(settings)
        self._is_stream = settings.is_stream
        if self._is_stream:
            refuse_workers(self._dataset)
        self._epoch = 0
        self._warned_of: set[str] = set()
        # True if an epoch begins with the dataset as the last one left it: threads read that of this process.
        self._are_threads = settings.worker_type == "thread"
        self._goes_on = self._persistent_workers or self._are_threads
        self._places = self._resumed_places()
        self._group = self._take_workers(resources)
        self._epoch = self._group.first_epoch
        # Torch's loader with workers begins its first epoch twice, and makes the draws of its beginning twice.
        super()._reset(loader, True)
        self._begin()

    def _resumed_places(self) -> list[PlaceState | None]:
        """By worker: its position when the state was taken; for a state with other workers, the nearest known one."""
        resumed = self._progress.resumed
        if not (resumed.in_epoch or self._goes_on):
            return []
        places = self._stream_places(resumed) if self._is_stream else resumed.fetching.places
        if resumed.in_epoch:
            self._warn_of_reading(places)
        if self._is_stream or resumed.num_workers == self._num_workers or not places:
            return list(places)
        # The own state of a map-style dataset need not belong to a worker; the draws of its generators do.
        return [
            None if (place := places[worker % len(places)]) is None else dataclasses.replace(place, rng=None)
            for worker in range(self._num_workers)
        ]

    def _worker_settings(self) -> WorkerSettings:
        """Return the information for workers that start now."""
        resumed = self._progress.resumed
        is_carried = resumed.in_epoch or self._goes_on
        return WorkerSettings(
            dataset_kind=self._dataset_kind,
            auto_collation=self._auto_collation,
            drop_last=self._drop_last,
            base_seed=int(self._base_seed),
            num_workers=self._num_workers,
            shared_seed=self._shared_seed,
            sampler=sampler_name(self._index_sampler),
            seed=None if self._seeding is None else self._seed,
            seed_samples=self._seed_samples,
            epoch=self._progress.epoch,
            sets_epoch=self._sets_epoch(),
            snapshot_every=self.settings.snapshot_every,
            run=self._run,
            allows_native=self.settings.allows_native,
            # Processes that do not persist begin every epoch as the dataset is in this one.
            places=self._places if is_carried else [],
        )

    def _take_workers(self, resources: LoaderResources) -> WorkerGroup:
        init_fn = self.settings.worker_init_fn
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            init_fn = _torch.sharding_init_fn(init_fn, self._world_size, self._rank)
        work = Work(
            settings=self.settings,
            worker_settings=self._worker_settings(),
            dataset=self._dataset,
            collate_fn=self._collate_fn,
            init_fn=init_fn,
            prefetch_factor=self._prefetch_factor,
            bytes_ahead=self.engine.bytes_ahead,
            memory=resources.worker_memory,
            pinned=self._destination.memory,
            key=self._destination.key,
            shares_pass=self._shares_pass,
        )
        shared = None if any(place is not None for place in self._places) else resources.shared_workers
        share = None if shared is None else shared.share(work, self._start_workers)
        group = self._start_workers(work) if share is None else share
        self._workers: list[Any] = group.workers
        return group

    def _start_workers(self, work: Work) -> WorkerGroup:
        if work.shares_pass or work.settings.worker_type == "thread":
            collate_fn = stacking(work.collate_fn, self.engine, work.pinned, in_worker=True)
            return ThreadWorkers(dataclasses.replace(work, collate_fn=collate_fn))
        return ProcessWorkers(work)

    def _reset(self, loader: LoaderArguments, first_iter: bool = False) -> None:
        """Begin another epoch; torch calls this on the iterator of persistent workers."""
        super()._reset(loader, first_iter)
        self._epoch += 1
        # Batches fetched ahead of an epoch that was left have advanced the workers, although they were never received.
        reports, self._places = self._reports, []
        for answer in self._ahead.under_way.answers():
            reports.note(answer)
        # If the wait below is interrupted, there must be no epoch rather than one without workers.
        self._begin_without_requests()
        if self._group.closed or self._group.is_foreign:
            self._group = self._take_workers(resources_of(loader))
            self._epoch = self._group.first_epoch
        else:
            number, sets_epoch = self._progress.epoch, self._sets_epoch()
            self._group.resume(self._epoch, self._shared_seed, number, sets_epoch, self._wait, reports.note)
            # Until workers report new ones.
            self._places = reports.left()
        self._begin()

    def _begin(self) -> None:
        self._begin_without_requests()
        progress = self._progress
        resumed = progress.resumed
        first = self._group.first_worker
        if resumed.in_epoch:
            is_same = resumed.num_workers == self._num_workers
            first = resumed.fetching.next_worker if is_same else progress.received.count % self._num_workers
        if self._is_stream:
            progress.fix_epoch()
        assignment = Assignment(self._num_workers, self._prefetch_factor, self._in_order, first)
        progress.received.out_of_turn |= not self._in_order and not self._is_stream
        self._reports = Reports(self._num_workers, self._places or progress.places_before, first)
        for worker in self._reports.retired:
            self._retire(worker, assignment)
        progress.fetching = self._reports.state
        party = self.engine.bytes_ahead.join()
        self._open(self.engine)
        self._ahead = RequestsAhead(self._group, self._epoch, self._requests, assignment, party)
        self._primed = False
        # Threads share the global generators, which are therefore not seeded per sample. Draws from them are detected
        # while the consumer waits for the first batch and draws nothing itself.
        self._watch: GlobalDrawWatch | None = None
        if self._seeding is not None and self._are_threads and self._seed_samples:
            self._watch = GlobalDrawWatch()
        # The watch must not mistake draws of the consumer for draws of the threads.
        waits = self._waits_for_epoch() or self._watch is not None
        self._restore_generators(None if waits else self._prime)

    def _begin_without_requests(self) -> None:
        assignment = Assignment(self._num_workers, self._prefetch_factor, self._in_order)
        self._ahead = RequestsAhead(self._group, self._epoch, iter(()), assignment, None)
        self._primed = True

    def _prime(self) -> None:
        if self._watch is not None:
            self._watch.arm()
        self._ahead.begin()
        self._primed = True

    def _next_data(self) -> Any:
        self._group.check()
        if self._group.closed:
            self._group.check()  # At the end of the interpreter, a thread here must report no error.
            raise StopIteration
        self._destination.check()
        if not self._primed:
            # Not in `iter()`: trainers set the epoch of such a sampler between that call and the first batch.
            self._prime()
        if self._dataset_kind == _torch.DatasetKind.Map:
            self._ahead.refill()
        while True:
            turn = self._turn()
            answer = self._ahead.under_way.answer(turn)
            if answer is None and (answer := self._await(turn)) is None:
                continue
            if answer.ended:
                self._end_stream(answer)
                continue
            # In this order: if a signal handler raises in between, a batch is lost, but is not waited for.
            if self._watch is not None:
                self._warn_of_draws(self._watch)
            number, worker = answer.number, answer.worker
            ids = self._ahead.under_way.remove(number)
            self._ahead.assignment.done(worker)
            if answer.size:
                # Only when it is its turn: how far other workers read ahead must not depend on timing.
                self.engine.bytes_ahead.learn(answer.size)
            is_left_out = self._is_left_out(number, ids)
            if number not in self._ahead.under_way:  # Otherwise the rest of the batch takes its place.
                self._ahead.request_one_more()
            if is_left_out:
                continue
            if not self._receive(worker, ids, answer.report):
                continue
            try:
                return self._destination.deliver(answer.batch())
            finally:
                self._begin_ahead()

    def _receive(self, worker: int, ids: BatchIds, report: Report | None) -> bool:
        """Record that a batch is received; return False if it was left out of a stream."""
        last, untold = None if report is None else report[0], None
        if self._is_stream:
            ids.batch_index = self._progress.received.count
        if last is not None:
            first, count, sample_ids = last
            if isinstance(sample_ids, UnavailableState):
                untold, sample_ids = sample_ids, None
            if self._is_stream:
                ids.set_stream(first, count, sample_ids)
            else:
                ids.sample_ids = sample_ids
        # One right after the other: a signal handler that raises in between leaves a state between two batches.
        self._reports.deliver(worker, report)
        self._progress.received.deliver(ids)
        if self._reports.warning is not None:
            self._warn_for_worker()
        if untold is not None:
            reason = untold.reason
            raise TypeError(f"sample_id: a sample's id must be picklable with worker processes: {reason}")
        return not (self._is_stream and self._progress.left_out.has_batch(ids.epoch, ids.batch_index))

    def _begin_ahead(self) -> None:
        """Start copying the next batches that have arrived, as many as the destination wants."""
        if self._destination.memory is None or self._group.closed:
            return
        self._group.gather()  # Pinned blocks are filled from now on.
        # A copy: threads may add to the inbox at any time.
        inbox = [answer for answer in tuple(self._group.inbox) if answer.epoch == self._epoch]
        for answer in itertools.islice(self._ahead.under_way.ready(inbox, self._in_order), self._destination.ahead):
            answer.begin(self._destination)

    def _warn_of_draws(self, watch: GlobalDrawWatch) -> None:
        drawn, self._watch = watch.drawn(), None
        if drawn and self._progress.epochs.warns_of_draws():
            warnings.warn(
                f"{type(self._dataset).__name__} draws from the global generator of {' and '.join(drawn)}, which "
                "worker threads share: its samples are not the same in every run, whatever the seed; draw from "
                "sluicegate.sample_rng() instead, or use worker processes",
                UserWarning,
                stacklevel=5,
            )

    def _warn_for_worker(self) -> None:
        text, self._reports.warning = self._reports.warning, None
        if text is not None and text not in self._warned_of:  # Every worker may say so.
            self._warned_of.add(text)
            warnings.warn(text, RuntimeWarning, stacklevel=5)

    def _is_left_out(self, number: int, ids: BatchIds) -> bool:
        """Return True if the batch, or a sample of it, was left out after the request; the rest is requested again."""
        left_out = self._progress.left_out
        if not left_out.is_something or self._is_stream:
            return False
        remaining = None
        if not left_out.has_batch(ids.epoch, ids.batch_index):
            remaining = without(ids.request, left_out.samples) if left_out.samples else ids.request
        if remaining is ids.request:
            return False
        if remaining is not None:
            ids.request = remaining
            self._ahead.request_rest(number, ids)
        else:
            self._progress.received.skip(ids)
        return True

    def _turn(self) -> int:
        """Return the number of the next batch, in order, that can still arrive."""
        while True:
            if (turn := self._next_under_way()) is not None:
                return turn
            # Deferred batches are requested if all others belong to streams that have ended.
            if not self._request_turn():
                self._finish()
                raise StopIteration

    def _next_under_way(self) -> int | None:
        """Return the number of the next batch, in order, that was requested and can still arrive."""
        return self._ahead.under_way.next(self._ahead.assignment.active)

    def _request_turn(self) -> bool:
        """Request the batch to deliver next; return True if there was one."""
        return self._ahead.request_deferred()

    def _finish(self) -> None:
        self._progress.finished = True
        if self._are_threads and self._is_stream:
            self._progress.leave = self._reports.left
        self._ahead.leave()
        if not self._persistent_workers:
            self._shutdown_workers()

    def _await(self, number: int) -> Answer | None:
        """Wait for an answer; return it if its batch is the one to deliver now."""
        self._wait(self._ahead.under_way.worker(number))
        answer = self._group.inbox[0]
        # None waits for those of an earlier epoch.
        is_kept = answer.epoch == self._epoch and self._ahead.under_way.keep(answer)
        # Last: if a signal handler raises before this, the answer is taken again.
        self._group.inbox.popleft()
        return answer if is_kept and (answer.number == number or not self._in_order) else None

    def _end_stream(self, answer: Answer) -> None:
        """Handle the end of a stream at its turn: how far other workers read ahead must not depend on timing."""
        ahead = self._ahead
        if ahead.assignment.active[answer.worker]:
            self._reports.retire(answer.worker, answer.report)
            self._retire(answer.worker, ahead.assignment)
            ahead.request_one_more()
        # Last: if a signal handler raises before this, the end is handled again.
        ahead.under_way.remove(answer.number)

    def _retire(self, worker: int, assignment: Assignment) -> None:
        assignment.end(worker)
        if not self._persistent_workers:
            self._group.dismiss(worker)

    def _wait(self, worker: int) -> None:
        """Wait until an answer is in the inbox; if that takes too long, report on `worker`."""
        limit = self._timeout if self._timeout > 0 else deadlines.STALL
        if self._group.receive(limit):
            return
        report = self._group.report(worker)
        if self._timeout > 0:
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: {report}; if a batch may take this long, "
                "raise timeout"
            )
        warnings.warn(
            f"DataLoader has waited for {limit:g} seconds: {report}; still waiting; pass timeout= to raise an error "
            "instead",
            RuntimeWarning,
            stacklevel=6,
        )
        self._group.receive(None)

    def count_ready(self) -> None:
        """Count what workers have made since they were last heard."""
        if not (self._group.closed or self._group.is_foreign):
            self._group.listen()

    def _shutdown_workers(self) -> None:
        """Stop the workers; trainers call this to end an iterator early."""
        self._ahead.leave()
        self._group.close()

    def __del__(self) -> None:
        """Stop the workers together with their iterator."""
        if (held := self.__dict__).get("_group") is None or self._group.closed:
            return
        # Kept until this returns, when deferred signals arrive again.
        signals = DeferredSignals()
        try:
            self._group.close(is_hurried=lambda: signals.is_hurried)
            # Finalizers of workers and processes run Python code, where a signal must not arrive either.
            for name in ("_ahead", "_group", "_workers"):
                held.pop(name, None)
        finally:
            signals.restore()
