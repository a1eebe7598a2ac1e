"""The iterators behind `DataLoader`: one for datasets that the core reads, one for those that run Python."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.graph_settings import apply_sharding

from . import _core, _torch
from .collate import stacking
from .dataset import Source, int64_array, native_source
from .fetch import MapFetcher, make_fetcher, sampler_name
from .requests import Slice, indices_of, requests, waits_for_epoch

if TYPE_CHECKING:
    from .dataloader import DataLoader


class PythonIterator(_torch.BaseDataLoaderIter):
    """One epoch of a dataset that runs Python, on the calling thread: `num_workers=0`."""

    def __init__(self, loader: DataLoader[Any], engine: _core.Engine) -> None:
        super().__init__(loader)
        _refuse_timeout(loader)
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self._dataset, *_torch.get_distributed_settings())
        collate_fn = stacking(self._collate_fn, engine.stack) if self._auto_collation else self._collate_fn
        self._dataset_fetcher = make_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            collate_fn,
            self._drop_last,
            sampler_name(self._index_sampler),
        )

    def _next_data(self) -> Any:
        batch = self._dataset_fetcher.fetch(self._next_index())
        return _torch.pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch


class NativeIterator(_torch.BaseDataLoaderIter):
    """One epoch of a dataset that the core reads; with workers, that many threads run ahead of the consumer.

    A request that the core does not take (an index of another kind, or out of range) is fetched in Python, so that it
    means what it means to torch, and fails as it fails there.
    """

    def __init__(self, loader: DataLoader[Any], source: Source, engine: _core.Engine) -> None:
        super().__init__(loader)
        if self._num_workers == 0:
            _refuse_timeout(loader)
        self._engine = engine
        self._in_order = loader.in_order
        self._ahead = 0
        if self._num_workers > 0:
            factor: Any = loader.prefetch_factor
            if factor <= 0:
                raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
            self._ahead = factor * self._num_workers
        # Trainers look here for processes to watch: there are none.
        self._workers: list[Any] = []
        if self._num_workers > 0:
            # Torch's loader with workers begins its first epoch twice, and draws twice what is drawn there.
            super()._reset(loader, True)
        self._begin(source)

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        """Begins another epoch: what torch calls on the iterator of persistent workers."""
        super()._reset(loader, first_iter)
        self._begin(self._native_source())

    def _native_source(self) -> Source | None:
        if not _torch.collate_is_default(self._collate_fn):
            return None
        return native_source(self._dataset, in_worker=self._num_workers > 0)

    def _begin(self, source: Source | None) -> None:
        self._sampler_iter = requests(self._index_sampler, self._sampler_iter, self._engine)
        self._dataset_fetcher = MapFetcher(self._dataset, sampler_name(self._index_sampler), True, self._collate_fn)
        self._asked = 0
        # What is under way, by the number of its batch, in order; and the numbers of those that Python will fetch.
        self._under_way: dict[int, Any] = {}
        self._for_python: list[int] = []
        self._take_over(source)
        if self._num_workers > 0 and not waits_for_epoch(self._index_sampler):
            while self._ask_for_one_more():
                pass

    def _take_over(self, source: Source | None) -> None:
        """Reads from `source` from now on, what is under way included; in Python where there is none."""
        self._source = source
        self._window: _core.Prefetch | None = None
        if source is not None:
            self._window = _core.Prefetch(
                self._engine, source.dataset, source.structure, _torch.from_dlpack, source.views(), self._in_order
            )
        self._for_python.clear()
        for number, request in self._under_way.items():
            self._ask(number, request)

    def __next__(self) -> Any:
        """The next batch; torch's profiler sees it under the name of this class."""
        if not _torch.profiler_enabled():
            return self._next_data()
        with torch.autograd.profiler.record_function(self._profile_name):
            return self._next_data()

    def _next_data(self) -> Any:
        # The index is used up before anything can fail: whatever is wrong with the dataset, the epoch comes to its end.
        request = next(self._sampler_iter) if self._num_workers == 0 else None
        if self._source is not None and not (self._source.is_current() and _torch.collate_is_default(self._collate_fn)):
            self._take_over(self._native_source())
        if self._num_workers == 0:
            self._ask_for(request)
        else:
            # Of a sampler that waits for its epoch nothing was asked for in `iter()`.
            while self._ask_for_one_more():
                pass
        if not self._under_way:
            raise StopIteration
        try:
            batch = self._take()
        finally:
            if self._num_workers > 0:
                self._ask_for_one_more()
        self._num_yielded += 1
        return _torch.pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _ask_for_one_more(self) -> bool:
        """Asks for one batch ahead; False when there is no room, or no batch any more."""
        if len(self._under_way) < self._ahead:
            for request in self._sampler_iter:
                self._ask_for(request)
                return True
        return False

    def _ask_for(self, request: Any) -> None:
        if self._ahead and type(request) not in (range, Slice):
            request = copy.copy(request)  # A sampler may use its list again before this batch is fetched.
        number = self._asked
        self._asked += 1
        self._under_way[number] = request
        try:
            self._ask(number, request)
        except Exception:
            # Nobody fetches it, so nobody must wait for it: it is asked for again by who tries again.
            del self._under_way[number]
            self._sampler_iter = itertools.chain((request,), self._sampler_iter)
            raise

    def _ask(self, number: int, request: Any) -> None:
        if not self._push(number, request):
            self._for_python.append(number)

    def _shutdown_workers(self) -> None:
        """Lets go of what is under way; what trainers call to end an iterator early."""
        self._sampler_iter = iter(())
        self._under_way.clear()
        self._take_over(None)

    def _push(self, number: int, request: Any) -> bool:
        """Asks the core for a batch; False when it does not take the request."""
        window = self._window
        if window is None:
            return False
        if type(request) is Slice:
            return window.push_slice(number, request.permutation.core, request.start, request.stop)
        if type(request) is list:
            return bool(request) and window.push(number, request)
        if type(request) is range and request.step == 1:
            return len(request) > 0 and request.start >= 0 and window.push_range(number, request.start, request.stop)
        if type(request) is tuple:
            return bool(request) and window.push(number, list(request))
        array = int64_array(request)
        return array is not None and len(array) > 0 and window.push(number, array.tolist())

    def _take(self) -> Any:
        """The next batch of those under way."""
        for_python = self._for_python
        # Python's batches wait for their turn; where there are no turns they go first, for nobody else works on them.
        if for_python and (not self._in_order or next(iter(self._under_way)) == for_python[0]):
            return self._dataset_fetcher.fetch(indices_of(self._under_way.pop(for_python.pop(0))))
        window = self._window
        assert window is not None
        # The core takes the number out of `_under_way` itself: a signal's exception can't come between the two.
        batch = window.pop(self._under_way, self._timeout if self._timeout > 0 else None)
        if batch is None:
            if len(window) == 0:  # Another thread took the last batch.
                raise StopIteration
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: {self._num_workers} threads were reading "
                f"{len(self._under_way)} batches of {type(self._dataset).__name__}. If the storage is that slow, raise "
                "timeout"
            )
        if isinstance(batch, Exception):
            raise batch
        return batch


def _refuse_timeout(loader: DataLoader[Any]) -> None:
    if loader.timeout != 0:
        raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0, the time to wait for a worker")
