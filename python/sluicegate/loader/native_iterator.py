"""`NativeIterator`: the iterator over a dataset that the core reads."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from sluicegate import _core
from sluicegate.device.containers import tensors_of
from sluicegate.fetch.batch_source import BatchSource, batch_source, draws_from_seed, lacks_seed
from sluicegate.fetch.collate import stacking
from sluicegate.fetch.fetch_settings import FetchSettings
from sluicegate.fetch.map_fetcher import MapFetcher
from sluicegate.fetch.messages import sampler_name
from sluicegate.order.ids import BatchIds
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.requests import Planned, Slice, indices_of, without
from sluicegate.order.settings import LoaderSettings
from sluicegate.recognition.collated_source import CollatedSource
from sluicegate.recognition.int64_indices import int64_array
from sluicegate.rng.generator_pair import GeneratorPair, States
from sluicegate.state.place_state import PlaceState
from sluicegate.worker.draws import WorkerDraws

from .epoch_iterator import EpochIterator, refuse_timeout


class NativeIterator(EpochIterator):
    """One epoch of a dataset that the core reads; `num_workers` threads prefetch for the consumer.

    A request that the core does not take (an index of a different type, or out of range) is fetched in Python, so that
    it has torch's meaning, and fails as in torch.
    """

    def __init__(
        self,
        loader: LoaderArguments,
        settings: LoaderSettings,
        progress: LoaderProgress,
        source: BatchSource,
        engine: _core.Engine,
    ) -> None:
        super().__init__(loader, settings, progress)
        # No Python code draws here, except for requests of a random dataset that the core does not take.
        seeding, self._seeding = self._seeding, None
        self._fetch_seeding = seeding if source.is_random else None
        if self._num_workers == 0:
            refuse_timeout(settings.timeout)
        self._worker_init_fn = settings.worker_init_fn
        # The generators for random samples of batches, if torch's workers would draw.
        self._worker_draws: WorkerDraws | None = None
        self.engine = engine
        self._in_order = bool(settings.in_order)
        self._ahead = 0
        # Its share of the bound on prefetched bytes; None once no more batches will come.
        self._party: _core.Party | None = None
        if self._num_workers > 0:
            factor: Any = settings.prefetch_factor
            if factor <= 0:
                raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
            self._ahead = factor * self._num_workers
            # Trainers look here for processes to watch: there are none. Without workers, torch's iterator has no such
            # attribute, and ultralytics' loader does not end it.
            self._workers: list[Any] = []
            # Torch's loader with workers begins its first epoch twice, and makes the draws of that twice.
            super()._reset(loader, True)
        self._begin(source)

    def _reset(self, loader: LoaderArguments, first_iter: bool = False) -> None:
        """Begin another epoch. Torch calls this on the iterator of persistent workers."""
        self._finish_draws()
        super()._reset(loader, first_iter)
        source = self._source
        # Persistent workers have the dataset of their first epoch.
        is_kept = source is not None and source.is_captured and source.is_current(self._collate_fn)
        self._begin(source if is_kept else self._native_source())

    def _finish_draws(self) -> None:
        """Wait for the requests of an epoch that was left: a batch that fails has drawn less than was assumed."""
        if self._worker_draws is not None and self._source is not None and self._source.falls_back:
            while self._under_way:
                self._take()

    def _native_source(self) -> BatchSource | None:
        source = batch_source(self._dataset, self._collate_fn, in_worker=self._num_workers > 0)
        in_python = source is None or lacks_seed(source, self._seed) or draws_from_seed(source, self._seed)
        return None if in_python else source

    def _begin(self, source: BatchSource | None) -> None:
        self._progress.received.out_of_turn |= self._num_workers > 0 and not self._in_order
        self._open(self.engine)
        # Fetches what the core does not take, made on first use; and the source whose batches it makes.
        self._dataset_fetcher: MapFetcher | None = None
        self._collating: BatchSource | None = None
        collate_fn, in_worker = self._collate_fn, self._num_workers > 0
        self._collate_in_python = stacking(collate_fn, self.engine, in_worker=True) if in_worker else collate_fn
        # The dataset as worker processes would have it, for batches that Python makes; None for the dataset itself.
        self._captured = None if source is None else source.captured
        self._asked = 0
        # Requests under way, in order, and those among them that Python will fetch.
        self._under_way: dict[int, BatchIds] = {}
        self._for_python: list[int] = []
        # Batches that Python has already fetched, so that draws are made in order.
        self._made: dict[int, Any] = {}
        self._begin_draws(source)
        # The number of a batch at which the core has failed, and the global generators before the last request.
        self._retried_in_python: int | None = None
        self._before: States | None = None
        # Batches that were taken before their turn, for a device.
        self._begun: deque[tuple[BatchIds, Any, _core.Held]] = deque()
        if self._num_workers > 0:
            self._party = self.engine.bytes_ahead.join()
        self._switch_to(source)
        self._restore_generators(None if self._num_workers == 0 or self._waits_for_epoch() else self._ask_ahead)

    def _begin_draws(self, source: BatchSource | None) -> None:
        """Set up the generators of torch's workers, as this epoch begins, if batches draw from them."""
        is_drawn = False
        if source is not None and self._seed is None and self._num_workers > 0:
            is_drawn = source.draws_in_order or source.draws_on_delivery
        if not is_drawn and self._worker_draws is None:
            return
        resumed = self._progress.resumed
        first = 0
        places: Sequence[PlaceState | None] = ()
        if resumed.num_workers == self._num_workers:
            places = resumed.fetching.places if resumed.in_epoch or self._persistent_workers else ()
            first = resumed.fetching.next_worker if resumed.in_epoch else 0
        elif resumed.in_epoch:
            first = self._progress.received.count % self._num_workers
        if self._worker_draws is None:
            base_seed, init_fn = int(self._base_seed), self._worker_init_fn
            self._worker_draws = WorkerDraws(base_seed, self._num_workers, places, first, init_fn)
        else:
            self._worker_draws.begin(first)
        if source is not None:
            self._worker_draws.on_delivery = source.draws_on_delivery
            self._worker_draws.from_python = source.draws_from_python
        self._progress.fetching = self._worker_draws.state

    def _switch_to(self, source: BatchSource | None) -> None:
        """Read from `source` from now on, including requests under way; in Python if it is None."""
        self._source = source
        self._window: _core.Prefetch | None = None
        if source is not None:
            self._window = source.window(self.engine, self._in_order, self._seed)
            if self._num_workers == 0:
                # As many threads as torch's own operations may use on this thread, such as those of transforms.
                self._window.set_helpers(torch.get_num_threads() - 1)
            if self._destination.memory is not None:
                self._window.pin(self._destination.memory, self._ahead + 1)
            self._collating, self._dataset_fetcher = source, None
            if self._draws_globally:
                self._window.set_generators(*GeneratorPair.of_process().access())
        self._for_python.clear()
        self._made.clear()
        if self._worker_draws is not None:
            self._worker_draws.rewind([ids.batch_index for ids in self._under_way.values()])
        for number, ids in self._under_way.items():
            self._ask(number, ids)

    def _next_data(self) -> Any:
        self._destination.check()
        # The index is consumed before anything can fail, so that the epoch ends even if the dataset always fails.
        ids = next(self._requests, None) if self._num_workers == 0 else None
        if self._source is not None and not self._source.is_current(self._collate_fn):
            self._switch_to(self._native_source())
        if ids is not None:
            self._ask_for(ids)
        elif self._num_workers > 0:
            # If a sampler waits for its epoch, nothing was requested in `iter()`.
            self._ask_ahead()
        left_out = self._progress.left_out
        while self._begun or self._under_way:
            try:
                ids, batch = self._begun.popleft()[:2] if self._begun else self._take()
            finally:
                if self._num_workers > 0:
                    self._ask_ahead()  # More than one, once the first has shown the size of batches.
            if left_out.is_something and (batch := self._without_left_out(ids, batch)) is None:
                self._progress.received.skip(ids)
                self._receive(ids)
                if self._num_workers == 0 and (following := next(self._requests, None)) is not None:
                    self._ask_for(following)
                continue
            self._progress.received.deliver(ids)
            self._receive(ids)
            if isinstance(batch, Exception):
                raise batch
            try:
                return self._destination.deliver(batch)
            finally:
                self._begin_ahead()
        self._end()
        self._progress.finished = True
        raise StopIteration

    def _receive(self, ids: BatchIds) -> None:
        if self._worker_draws is not None:
            self._worker_draws.receive(ids.batch_index)

    def _begin_ahead(self) -> None:
        """Begin with ready batches that are due next, as many as the destination wants."""
        while self._under_way and len(self._begun) < self._destination.ahead:
            window = self._window
            if window is None or (self._for_python and next(iter(self._under_way)) == self._for_python[0]):
                return
            taken = window.pop(self._under_way, 0.0)
            if taken is None:
                return
            ids, batch = taken
            if self._falls_back_to_python(batch):
                self._retry_in_python(ids)
                return
            batch = self._drawn(ids, batch)
            held = self.engine.bytes_ahead.hold(sum(tensor.nbytes for tensor in tensors_of(batch)))
            is_error = isinstance(batch, Exception)
            self._begun.append((ids, batch if is_error else self._destination.begin(batch), held))

    def _end(self) -> None:
        """Release resources that no batch will need."""
        self._party = None
        if self._destination.memory is not None:
            self.engine.withdraw()

    def _without_left_out(self, ids: BatchIds, batch: Any) -> Any:
        """Return the batch without samples that were left out after the request; None if no samples remain."""
        left_out = self._progress.left_out
        if left_out.has_batch(ids.epoch, ids.batch_index):
            return None
        remaining = without(ids.request, left_out.samples) if left_out.samples else ids.request
        if remaining is ids.request:
            return batch
        ids.request = remaining
        return None if remaining is None else self._fetch(ids)

    @property
    def _draws_globally(self) -> bool:
        """True if samples draw in order from the global generator, as without workers and without a seed."""
        is_drawing = self._source is not None and self._source.draws_in_order
        return is_drawing and self._seed is None and self._num_workers == 0

    def _ask_ahead(self) -> None:
        while self._ask_for_one_more():
            pass

    def _ask_for_one_more(self) -> bool:
        """Request one batch in advance; return False if there is no room or no batch left."""
        under_way = len(self._under_way) + len(self._begun)
        if under_way < self._ahead and (self._party is None or under_way < self._party.room):
            for ids in self._requests:
                self._ask_for(ids)
                return True
        return False

    def _ask_for(self, ids: BatchIds) -> None:
        if self._ahead and type(ids.request) not in (range, Slice, Planned):
            ids.request = copy.copy(ids.request)  # A sampler may reuse its list before this batch is fetched.
        number = self._asked
        self._asked += 1
        self._under_way[number] = ids
        try:
            self._ask(number, ids)
        except BaseException:
            if not self._is_requested(number):
                # Nothing fetches it, so nothing may wait for it; the next attempt requests it again.
                del self._under_way[number]
                self._requests = itertools.chain((ids,), self._requests)
            raise

    def _is_requested(self, number: int) -> bool:
        """Return True if the last batch, `number`, is being fetched; a signal handler may have raised before that."""
        if self._window is None or number in self._for_python:
            return number in self._for_python
        return len(self._window) == len(self._under_way) - len(self._for_python)

    def _ask(self, number: int, ids: BatchIds) -> None:
        if self._fetch_seeding is not None and self._window is not None:
            self._window.set_epoch(ids.epoch)
        if self._worker_draws is not None:
            access = self._worker_draws.ask(ids.batch_index)
            if self._window is not None:
                self._window.set_generators(*access)
        elif self._draws_globally and self._source is not None and self._source.falls_back:
            self._before = GeneratorPair.of_process().states(has_python=self._source.draws_from_python)
        if not self._push(number, ids.request):
            self._for_python.append(number)
            if self._worker_draws is not None and not self._worker_draws.on_delivery:
                try:
                    self._made[number] = self._fetch(ids)
                except Exception as error:
                    self._made[number] = error

    def _fetch(self, ids: BatchIds) -> Any:
        """Return the batch, fetched in Python."""
        seeding, draws, fetcher = self._fetch_seeding, self._worker_draws, self._dataset_fetcher
        if fetcher is None:
            dataset = self._dataset if self._captured is None else self._captured
            source, default = self._collating, self._collate_in_python
            collate_fn = default if source is None else source.collate_fn(default)
            fetching = FetchSettings(True, collate_fn, sampler_name(self._index_sampler))
            fetcher = self._dataset_fetcher = MapFetcher(dataset, fetching, seeding)
        around: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if draws is not None:
            around = draws.drawing(ids.batch_index)
        elif seeding is not None:
            seeding.begin(ids.epoch)
            around = seeding.batch()
        with around:
            return fetcher.fetch(indices_of(ids.request))

    def _falls_back_to_python(self, batch: Any) -> bool:
        """Return True if the core has failed at a batch for which Python gives the right batch or error."""
        return isinstance(batch, Exception) and self._source is not None and self._source.falls_back

    def _retry_in_python(self, ids: BatchIds) -> None:
        """Let Python make a batch at which the core has failed, drawing from where the core began.

        The batches after it are requested again: if Python fails, it draws less, and they draw from elsewhere.
        """
        number = self._retried_in_python = self._asked
        self._asked += 1
        self._under_way = {number: ids, **self._under_way}
        if self._worker_draws is None and self._before is not None:
            GeneratorPair.of_process().set_states(self._before)
        self._switch_to(self._source)

    def _shutdown_workers(self) -> None:
        """Release the requests under way. Trainers call this to end an iterator early."""
        self._requests = iter(())
        self._end()
        self._begun.clear()
        self._under_way.clear()
        self._switch_to(None)

    def _push(self, number: int, request: Any) -> bool:
        """Ask the core for a batch; return False if it does not take the request."""
        window = self._window
        if window is None or number == self._retried_in_python:
            return False
        if type(request) is Slice:
            return window.push_slice(number, request.permutation.core, request.start, request.stop)
        if type(request) is Planned:
            return window.push_planned(number, request.plan, request.batch)
        if type(request) is list:
            return bool(request) and window.push(number, request)
        if type(request) is range and request.step == 1:
            return len(request) > 0 and request.start >= 0 and window.push_range(number, request.start, request.stop)
        if type(request) is tuple:
            return bool(request) and window.push(number, list(request))
        array = int64_array(request)
        return array is not None and len(array) > 0 and window.push(number, array.tolist())

    def _take(self) -> tuple[BatchIds, Any]:
        """Return the ids of the next batch under way, and the batch or the exception in its place."""
        for_python = self._for_python
        # Python's batches wait for their turn. Without turns they go first, because only this thread works on them.
        if for_python and (not self._in_order or next(iter(self._under_way)) == for_python[0]):
            number = for_python.pop(0)
            ids = self._under_way.pop(number)
            if number in self._made:
                return ids, self._made.pop(number)
            try:
                return ids, self._fetch(ids)
            except Exception as error:
                return ids, error
        window = self._window
        assert window is not None
        # The core removes the number from `_under_way` itself: a signal handler cannot raise between the two.
        taken = window.pop(self._under_way, self._timeout if self._timeout > 0 else None)
        if taken is None:
            if len(window) == 0:  # Another thread took the last batch.
                raise StopIteration
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: {self._num_workers} threads were reading "
                f"{len(self._under_way)} batches of {type(self._dataset).__name__}; if the storage is this slow, raise "
                "timeout"
            )
        if self._falls_back_to_python(taken[1]):
            self._retry_in_python(taken[0])
            return self._take()
        return taken[0], self._drawn(*taken)

    def _drawn(self, ids: BatchIds, batch: Any) -> Any:
        """Return the batch with the draws of its collate function, or the exception that this raises."""
        source, draws = self._source, self._worker_draws
        if not isinstance(source, CollatedSource) or not source.draws_on_delivery or isinstance(batch, Exception):
            return batch
        try:
            with contextlib.nullcontext() if draws is None else draws.drawing(ids.batch_index):
                return source.drawn(batch)
        except Exception as error:
            return error
