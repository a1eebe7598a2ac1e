"""`MapFetcher`: batches of a map-style dataset, with errors that say which sample it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import StackDataset, Subset

from sluicegate.error_note import add_note
from sluicegate.native.dataset import NativeDataset
from sluicegate.recognition.native_source import is_untouched
from sluicegate.recognition.torchvision_head import with_native_heads
from sluicegate.rng.stream_seeding import Seeding
from sluicegate.state.map_place import MapPlace
from sluicegate.state.place_state import PlaceState

from .collate import StackingCollate
from .collate_in_place import PlacingCollate, stacks_as_torch
from .early_rows import EarlyRows
from .fetch_settings import FetchSettings
from .messages import indices_in_words, shapes_in_words, shapes_of
from .own_collate import own_collate


def _has_getitems(dataset: Any) -> bool:
    return hasattr(dataset, "__getitems__") and bool(dataset.__getitems__)


def _fetches_many(dataset: Any) -> bool:
    """Return True if user code fetches a batch in one call: torch's combinators only pass on what they hold."""
    if type(dataset) is Subset:
        return _fetches_many(dataset.dataset)
    if type(dataset) is StackDataset:
        parts = dataset.datasets
        return any(map(_fetches_many, parts.values() if isinstance(parts, dict) else parts))
    if isinstance(dataset, NativeDataset) and dataset.has_images:
        return False  # Each image is drawn for itself.
    return _has_getitems(dataset)


def _is_subset(dataset: Any) -> bool:
    """Return True for torch's subset, or a subset of such a subset, of a dataset that has only single samples.

    A stack has batches even if its parts have none: torch reads all samples of one part before those of the next.
    """
    if type(dataset) is not Subset or not is_untouched(dataset):
        return False
    inner = dataset.dataset
    return _is_subset(inner) if type(inner) is Subset else not _has_getitems(inner)


def _finds_indices(subset: Any, index: list[int]) -> bool:
    """Return True if subsets of subsets have all indices: torch looks these up before it fetches the first sample."""
    while type(subset.dataset) is Subset:
        try:
            index = [subset.indices[each] for each in index]
        except IndexError:
            return False
        subset = subset.dataset
    return True


def _failed_in_words(batch: Any, index: Any) -> str:
    """Describe what could not be fetched: `index`, which is `batch` itself until single samples are fetched."""
    if index is batch and isinstance(batch, (list, tuple)):
        return f"the batch at {indices_in_words(batch)}"
    return f"the sample at index {indices_in_words(index)}"


class MapFetcher:
    """Fetches the samples of one batch from a map-style dataset and collates them, on the calling thread.

    Args:
        dataset: anything with `__getitem__`; `__getitems__` is used where it has one.
        settings: how batches are made.
        seeding: sets the generators for each sample.
        resumed: what `place.state()` returned: the dataset's state is restored from it.
    """

    def __init__(
        self,
        dataset: Any,
        settings: FetchSettings,
        seeding: Seeding | None = None,
        resumed: PlaceState | None = None,
    ) -> None:
        self.dataset = dataset
        # The object that samples are read from.
        self._read = with_native_heads(dataset) if settings.reads_heads else dataset
        self._identify = settings.identify
        # A tuple like that of `StreamFetcher`; only the ids of the samples are used.
        self.last: tuple[int, int, list[Any] | None] | None = None
        # The request that was being fetched when an error occurred: the whole batch, or one index of it.
        self._failed: Any = None
        self._sampler, self._auto_collation = settings.sampler, settings.auto_collation
        collate_fn: Any = settings.collate_fn
        if settings.auto_collation and stacks_as_torch(collate_fn):
            collate_fn = own_collate(dataset, collate_fn)
        self._collate_fn = collate_fn
        # The same function, if it can take samples as they arrive.
        self._stacking = collate_fn if isinstance(collate_fn, (StackingCollate, PlacingCollate)) else None
        self._is_subset = _is_subset(dataset)
        self._seeding = seeding
        self.place = MapPlace(dataset, resumed)

    def fetch(self, index: Any) -> Any:
        """Return the batch at `index`.

        Raises:
            IndexError: (or what the dataset raises) the dataset has no such sample; the text names index and sampler.
            RuntimeError: (or what `collate_fn` raises) the samples can't be stacked; the text names two that differ.
        """
        self.last = None
        self._failed = index
        rows = self._rows(index)
        try:
            seeding = self._seeding
            samples = self._unseeded(index, rows) if seeding is None else self._samples(index, seeding, rows)
        except Exception as error:
            add_note(error, f"raised by {_failed_in_words(index, self._failed)} of the dataset")
            if not isinstance(error, (IndexError, ValueError)) or (text := self._origin(error, index)) is None:
                raise
            raise type(error)(text) from error
        if self._identify is not None:
            ids = self._ids(index, samples, self._identify)
            self.last = 0, len(ids), ids
        try:
            stacking = self._stacking
            return self._collate_fn(samples) if stacking is None else stacking(samples, rows)
        except Exception as error:
            add_note(error, f"raised while collating the batch at {indices_in_words(index)}")
            if not isinstance(error, RuntimeError) or (text := self._unequal_shapes(error, index, samples)) is None:
                raise
            raise RuntimeError(text) from error

    def _rows(self, index: Any) -> EarlyRows | None:
        """Return an object that takes samples as they arrive; None if torch does not collate, or they come at once."""
        # The user's `sample_id` must get the sample itself.
        stacking = self._stacking
        if stacking is None or self._identify is not None or type(index) is not list:
            return None
        return None if _fetches_many(self.dataset) else stacking.begin(len(index))

    def _ids(self, index: Any, samples: Any, identify: Callable[[Any], Any]) -> list[Any]:
        each = samples if self._auto_collation else [samples]
        if self._auto_collation and (not isinstance(samples, (list, tuple)) or len(samples) != len(index)):
            raise TypeError(
                f"sample_id: {type(self.dataset).__name__}.__getitems__ should return a list with one sample "
                f"per index, but got a {type(samples).__name__}; leave out sample_id, and use ids.sample_indices"
            )
        return [identify(sample) for sample in each]

    def _samples(self, index: Any, seeding: Seeding, rows: EarlyRows | None) -> Any:
        seed = seeding.sample
        if not self._auto_collation:
            seed(index)
            return self._read[index]
        index = list(index)
        if _fetches_many(self.dataset):
            # One call fetches them all, so they share the generators of the first one.
            for first in index[:1]:
                seed(first)
            return self._read.__getitems__(index)
        samples = []
        for each in index:
            self._failed = each
            seed(each)
            samples.append(self._read[each])
            if rows is not None and not rows.take(samples):
                rows = None
        return samples

    def _unseeded(self, index: Any, rows: EarlyRows | None) -> Any:
        if not self._auto_collation:
            return self._read[index]
        if not _has_getitems(self.dataset):
            return self._each(index, rows, [])
        if (
            rows is None
            or not self._is_subset
            or any(type(each) is not int for each in index)
            or not _finds_indices(self.dataset, index)
        ):
            return self._read.__getitems__(index)
        # Torch's subset also fetches samples one by one, and is faster if none is large.
        samples = self._each(index[:1], rows, [])
        rest = index[1:]
        return self._each(rest, rows, samples) if rows.has_any else samples + self._read.__getitems__(rest)

    def _each(self, index: Any, rows: EarlyRows | None, samples: list[Any]) -> list[Any]:
        """Add the samples at `index` to `samples`, and return them all."""
        dataset = self._read
        each = index
        try:
            for each in index:
                samples.append(dataset[each])
                if rows is not None and not rows.take(samples):
                    rows = None
        except Exception:
            self._failed = each
            raise
        return samples

    def _origin(self, error: IndexError | ValueError, index: Any) -> str | None:
        """Return a text for `error` that names the index out of range and its sampler; None for another error."""
        indices = index if isinstance(index, (list, tuple)) else [index]
        try:
            length = len(self.dataset)
        except Exception:  # the dataset's error takes precedence over its missing length
            return None
        wrong = [each for each in indices if type(each) is int and not -length <= each < length]
        if type(error) not in (IndexError, ValueError) or not wrong:
            return None
        return (
            f"{error} (index {wrong[0]} came from {self._sampler}, but the dataset, a "
            f"{type(self.dataset).__name__}, has {length} samples; build the sampler from this dataset, or its length)"
        )

    def _unequal_shapes(self, error: RuntimeError, index: Any, samples: Any) -> str | None:
        """Return a text for `error` that names two samples of unequal shapes; None for another error."""
        if type(error) is not RuntimeError or "stack expects each tensor to be equal size" not in str(error):
            return None
        indices = list(index) if isinstance(index, (list, tuple)) else None
        if indices is None or not isinstance(samples, list) or len(indices) != len(samples):
            return None
        try:
            shapes = [shapes_of(sample) for sample in samples]
        except Exception:  # a user-defined type of samples; the collate function's error takes precedence
            return None
        other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is None:
            return None
        return (
            f"{error} (the sample at index {indices[0]} has {shapes_in_words(shapes[0])}, the sample at index "
            f"{indices[other]} has {shapes_in_words(shapes[other])}; bring them to one shape in the dataset, or pass a "
            "collate_fn that pads)"
        )
