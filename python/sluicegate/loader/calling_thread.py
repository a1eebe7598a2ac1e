"""The iterator over a dataset that runs Python, on the calling thread."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import weakref
from typing import Any

from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.graph_settings import apply_sharding

from sluicegate import _core, _torch
from sluicegate.fetch.collate import stacking
from sluicegate.fetch.fetch_settings import FetchSettings
from sluicegate.fetch.fetcher import make_fetcher
from sluicegate.fetch.messages import sampler_name
from sluicegate.order.epoch_progress import EpochProgress
from sluicegate.order.ids import BatchIds
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.requests import indices_of
from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.rng.stream_seeding import StreamSeeding
from sluicegate.state.map_place import MapPlace
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.stream_place import StreamPlace
from sluicegate.stream.resumable import set_epoch

from .epoch_iterator import EpochIterator, refuse_timeout


class PythonIterator(EpochIterator):
    """One epoch of a dataset that runs Python, on the calling thread: `num_workers=0`."""

    def __init__(
        self, loader: LoaderArguments, settings: LoaderSettings, progress: LoaderProgress, engine: _core.Engine
    ) -> None:
        super().__init__(loader, settings, progress)
        refuse_timeout(settings.timeout)
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self._dataset, *_torch.get_distributed_settings())
        collate_fn = self._collate_fn
        if self._auto_collation:
            collate_fn = stacking(collate_fn, engine, self._destination.memory)
        self._is_stream, self._sample_id = settings.is_stream, settings.sample_id
        if self._is_stream:
            self._progress.fix_epoch()
        self._open(engine)
        resumed = self._progress.resumed
        places = self._stream_places(resumed) if self._is_stream else resumed.fetching.places
        place = places[0] if places else None
        if settings.seed is not None and self._is_stream:
            rng_state = None if place is None or place.over else place.rng
            self._seeding = StreamSeeding(settings.seed, settings.seed_samples, 0, self._progress.epoch, rng_state)
        fetching = FetchSettings(
            auto_collation=self._auto_collation,
            collate_fn=collate_fn,
            sampler=sampler_name(self._index_sampler),
            sample_id=settings.sample_id,
            drop_last=self._drop_last,
            run=self._run,
            reads_heads=settings.allows_native,
        )
        make = functools.partial(make_fetcher, self._dataset_kind, self._dataset, fetching, self._seeding)
        resumed_place, before = place, next(iter(self._progress.places_before), None)
        if place is not None and place.over:
            if place.states:
                # The state after the previous epoch; then that of the requested epoch.
                last = self._seeding.before() if isinstance(self._seeding, StreamSeeding) else None
                with keeping_generators(), contextlib.nullcontext() if last is None else last.batch():
                    make(resumed=place)
            place, before = None, place
        if self._sets_epoch():
            set_epoch(self._dataset, self._progress.epoch)
        with self._seeded():
            self._warn_of_reading([place])
            self._dataset_fetcher = make(resumed=place, before=before)
        if self._is_stream:
            # Its draws just now belong to its epoch: a resume of that draws them again, from the state before them.
            self._progress.draws.end_iter()
        if isinstance(self._seeding, StreamSeeding):
            self._seeding.resume()
        there = self._dataset_fetcher.place
        own = weakref.ref(self._progress)
        self._progress.fetching = functools.partial(_fetching, resumed_place, there, self._seeding, own)
        if isinstance(there, StreamPlace) and there.is_lazy:
            self._progress.leave = functools.partial(_left, there, self._seeding)
        self._restore_generators()

    def _seeded(self) -> Any:
        """Return a context that sets the global generators to the samples' own, and restores them afterward."""
        return contextlib.nullcontext() if self._seeding is None else self._seeding.batch()

    def _next_data(self) -> Any:
        progress = self._progress
        self._destination.check()
        while True:
            try:
                ids = next(self._requests)
            except StopIteration:
                progress.finished = True
                raise
            if not self._is_stream:
                return self._destination.deliver(self._batch(ids))
            batch = self._stream_batch(ids)
            if not progress.left_out.has_batch(ids.epoch, ids.batch_index):
                return self._destination.deliver(batch)

    def _batch(self, ids: BatchIds) -> Any:
        try:
            if self._seeding is None:
                batch = self._dataset_fetcher.fetch(indices_of(ids.request))
            else:
                with self._seeding.batch():
                    batch = self._dataset_fetcher.fetch(indices_of(ids.request))
        except Exception:
            # A failed batch counts as received, so the next call moves on. An interrupted one does not.
            self._progress.received.deliver(ids)
            raise
        if self._sample_id is not None:
            last: Any = self._dataset_fetcher.last
            ids.sample_ids = last[2]
        self._progress.received.deliver(ids)
        return batch

    def _stream_batch(self, ids: BatchIds) -> Any:
        progress = self._progress
        ids.batch_index = progress.received.count
        try:
            with self._seeded():
                batch = self._dataset_fetcher.fetch(ids.request)
        except StopIteration:
            progress.finished = True
            raise
        except Exception:
            self._deliver_stream(ids)
            raise
        self._deliver_stream(ids)
        return batch

    def _deliver_stream(self, ids: BatchIds) -> None:
        last: Any = self._dataset_fetcher.last
        ids.set_stream(*last)
        self._progress.received.deliver(ids)


def _fetching(
    resumed: PlaceState | None, place: MapPlace | StreamPlace, seeding: Any, progress: weakref.ref[EpochProgress]
) -> Fetching:
    """Return the part of a state with the position of fetching, without workers."""
    here = progress()
    if resumed is not None and here is not None and not here.finished and here.received.last_ids is None:
        # A dataset may apply its state only when the first sample is requested, and not report it before.
        return Fetching(places=[copy.deepcopy(resumed)])
    # It may return objects that it changes later.
    state = copy.deepcopy(place.state())
    # Of a lazy stream that has not begun, it is that of the epoch before.
    return Fetching() if state is None else Fetching(places=[_with_rng(state, seeding)])


def _left(place: StreamPlace, seeding: Any) -> list[PlaceState]:
    """Return the place where a lazy stream is left, for the next epoch."""
    left = place.left()
    return [] if left is None else [_with_rng(left, seeding)]


def _with_rng(place: PlaceState, seeding: Any) -> PlaceState:
    """Return `place` with the generators of `seeding`, unless it is that of an earlier epoch, which has its own."""
    if place.rng is not None or not isinstance(seeding, StreamSeeding):
        return place
    return dataclasses.replace(place, rng=seeding.state())
