"""`from_torchdata`: reads a state of torchdata's `StatefulDataLoader` into facts that a loader can resume from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .torchdata_order import RandomOrder, is_random_order, random_order

# The two shapes of a state, by keys that only torchdata's states have.
_OF_WORKERS = ("_snapshot", "_steps_since_snapshot")
_OF_ONE_PROCESS = ("_num_yielded", "_sampler_iter_yielded")

# The keys of torchdata's `BatchSampler` or its iterator; the last two only if the sampler or its iterator has a state.
_BATCH_SAMPLER_KEYS = {"samples_yielded", "sampler_state", "sampler_iter_state"}


@dataclass(frozen=True)
class SamplerFacts:
    """The progress of an epoch's order at the snapshot. States of user objects are passed on unchanged.

    Args:
        batches_drawn: what the batch sampler (or, without batches, the sampler) had yielded: the batches received by
            then and those that failed.
        samples_drawn: samples that the sampler inside torchdata's `BatchSampler` had yielded; None if the loader had
            another kind of `batch_sampler` or `batch_size=None`. For streams, samples that were requested. If it equals
            the sampler's length, the epoch has ended, whatever `state` is: it may belong to a new epoch by then.
        state: of the sampler inside `BatchSampler`; None if it has none.
        iterator_state: of that sampler's iterator; None if it has none.
        outer_state: of the `batch_sampler`, or of the sampler with `batch_size=None`; None if it has none.
        outer_iterator_state: of its iterator; None if it has none.
        random_order: the order, if the iterator was that of torchdata's `RandomSampler` (`shuffle=True`).
    """

    batches_drawn: int
    samples_drawn: int | None
    state: Any
    iterator_state: Any
    outer_state: Any
    outer_iterator_state: Any
    random_order: RandomOrder | None


@dataclass(frozen=True)
class WorkerFacts:
    """The progress of a worker at the snapshot. Without workers, the only one is the consumer's own process.

    Args:
        worker: its number.
        dataset_state: of its copy of the dataset; None if that has no state or is its own iterator.
        iterator_state: of its iterator over an iterable-style dataset; None if that has no state.
        ended: True if its iterator is known to have ended. It then yields nothing more in this epoch and must not be
            asked, because its states may belong to a new epoch by now (torchdata does ask, and with workers gets the
            epoch again). False has no meaning: an end is often noticed only when the next sample is requested.
        batches_fetched: its batches of the epoch; None if the state does not say, as for streams with workers.
    """

    worker: int
    dataset_state: Any
    iterator_state: Any
    ended: bool
    batches_fetched: int | None


@dataclass(frozen=True)
class TorchdataState:
    """A state of torchdata's loader: a snapshot of everything, and the consumer's progress since then.

    To resume:

    1. Bring the sampler and the workers to the snapshot.
    2. Beginning with `next_worker`, fetch and discard `steps_since_snapshot` batches.
    3. Deliver the rest.

    A stream without any state (`is_stateless_stream`) starts from the beginning instead, and `batches_received` batches
    are discarded. With `finished`, the rest is a whole new epoch.

    A state does not contain the epoch, the dataset's length or the batch size, nor the workers' random number
    generators: torchdata seeds them again with `base_seed` plus their number.

    Three things can't be seen in a state. A loader with `in_order=False` must refuse a state that `assumes_in_order`. A
    loader with its own `generator` must refuse one whose `RandomOrder.may_be_late`. And there is no sign that the saved
    loader had itself been resumed in the middle of a stream without any state, whose batches torchdata then counts
    twice.

    Args:
        batches_received: batches of the epoch that the consumer had received.
        finished: True if the consumer had reached the end of the epoch, not only its last batch.
        is_iterable: True if the dataset was iterable-style.
        num_workers: of the loader that was saved.
        next_worker: whose turn it was at the snapshot, and is again if it has ended since. 0 without workers.
        steps_since_snapshot: batches received after the snapshot. 0 without workers.
        sampler: of the snapshot.
        workers: of the snapshot, by number; one if `num_workers` is 0.
        base_seed: what workers were seeded with; None without workers.
        shared_seed: what `IterDataPipe`s were seeded with; None for other datasets.
        declared_len: `len(loader)`, for torch's warning, if it was called for a stream; otherwise None.
    """

    batches_received: int
    finished: bool
    is_iterable: bool
    num_workers: int
    next_worker: int
    steps_since_snapshot: int
    sampler: SamplerFacts
    workers: tuple[WorkerFacts, ...]
    base_seed: int | None
    shared_seed: int | None
    declared_len: int | None

    @property
    def batches_passed(self) -> int:
        """The batches of the epoch's order that are done: those received, and those that failed before one of them."""
        return self.sampler.batches_drawn + self.steps_since_snapshot

    @property
    def assumes_in_order(self) -> bool:
        """True if the batches received since the snapshot are known only if they were delivered in order."""
        return self.num_workers > 1 and self.steps_since_snapshot > 0

    @property
    def is_stateless_stream(self) -> bool:
        """True if the dataset must be read from its beginning, because neither it nor its iterators have a state."""
        return self.is_iterable and all(
            worker.dataset_state is None and worker.iterator_state is None for worker in self.workers
        )


def is_torchdata_state(state: object) -> bool:
    """Return True if `state` is one of torchdata's `StatefulDataLoader`.

    Examples:
        >>> is_torchdata_state({"version": 1, "epoch": 3}), is_torchdata_state({})
        (False, False)
    """
    return isinstance(state, Mapping) and any(
        all(key in state for key in keys) for keys in (_OF_WORKERS, _OF_ONE_PROCESS)
    )


def from_torchdata(state: Mapping[str, Any]) -> TorchdataState:
    """Read a state of torchdata's `StatefulDataLoader`, versions 0.8 to 0.11, with or without workers.

    Nothing is unpickled. `state` is the result of `state_dict()`, perhaps after a round trip through JSON with the
    generator's state as a list of its bytes. States of user objects are passed on unchanged, not copied.

    Raises:
        ValueError: not such a state, parts are missing or contradict each other, or it does not say enough to resume in
            the same order; the message says what to do instead.

    Examples:
        >>> sequential = {"_index_sampler_state": None, "_sampler_iter_state": {"samples_yielded": 6},
        ...     "_sampler_iter_yielded": 2, "_num_yielded": 2, "_IterableDataset_len_called": None,
        ...     "_shared_seed": None, "fetcher_state": None, "dataset_state": None, "_iterator_finished": False}
        >>> facts = from_torchdata(sequential)
        >>> facts.batches_received, facts.sampler.samples_drawn, facts.num_workers
        (2, 6, 0)
    """
    if not is_torchdata_state(state):
        raise ValueError(f"expected a state of torchdata's StatefulDataLoader, got {_keys(state)}")
    return _of_workers(state) if _OF_WORKERS[0] in state else _of_one_process(state)


def _of_one_process(state: Mapping[str, Any]) -> TorchdataState:
    received = _count(state, "_num_yielded")
    fetcher = _entry(state, "fetcher_state")
    sampler = _sampler(state, is_iterable=fetcher is not None, base_seed=None)
    _check_received(received, sampler)
    worker = _worker(0, state, received if fetcher is not None else sampler.batches_drawn)
    return TorchdataState(
        batches_received=received,
        finished=_flag(state, "_iterator_finished"),
        is_iterable=fetcher is not None,
        num_workers=0,
        next_worker=0,
        steps_since_snapshot=0,
        sampler=sampler,
        workers=(worker,),
        base_seed=None,
        shared_seed=_count_or_none(state, "_shared_seed"),
        declared_len=_count_or_none(state, "_IterableDataset_len_called"),
    )


def _of_workers(state: Mapping[str, Any]) -> TorchdataState:
    snapshot = _mapping(state, "_snapshot")
    main = _mapping(snapshot, "_main_snapshot")
    step, steps_since = _count(snapshot, "_snapshot_step"), _count(state, "_steps_since_snapshot")
    num_workers, base_seed = _count(main, "_num_workers"), _count(main, "_base_seed")
    saved = _mapping(snapshot, "_worker_snapshots")
    if num_workers == 0 or set(saved) != {f"worker_{worker}" for worker in range(num_workers)}:
        raise ValueError(
            f"torchdata state: '_worker_snapshots' must have an entry for each of {num_workers} workers, got "
            f"{_keys(saved)}"
        )
    by_number = [_mapping(saved, f"worker_{worker}") for worker in range(num_workers)]
    is_iterable = any(_entry(one, "fetcher_state") is not None for one in by_number)
    sampler = _sampler(main, is_iterable=is_iterable, base_seed=base_seed)
    _check_received(step, sampler)
    last = _count(snapshot, "_last_yielded_worker_id")
    if last >= num_workers:
        raise ValueError(
            f"torchdata state: '_last_yielded_worker_id' must be below its number of workers, {num_workers}, got {last}"
        )
    next_worker = (last + 1) % num_workers
    # Workers take turns, unless an end or a delivery out of order has shifted them.
    drawn, in_turns = sampler.batches_drawn, not is_iterable and next_worker == sampler.batches_drawn % num_workers
    return TorchdataState(
        batches_received=step + steps_since,
        finished=_flag(state, "_iterator_finished"),
        is_iterable=is_iterable,
        num_workers=num_workers,
        next_worker=next_worker,
        steps_since_snapshot=steps_since,
        sampler=sampler,
        workers=tuple(
            _worker(worker, one, (drawn + num_workers - 1 - worker) // num_workers if in_turns else None)
            for worker, one in enumerate(by_number)
        ),
        base_seed=base_seed,
        shared_seed=_count_or_none(main, "_shared_seed"),
        declared_len=_count_or_none(main, "_IterableDataset_len_called"),
    )


def _worker(worker: int, state: Mapping[str, Any], batches_fetched: int | None) -> WorkerFacts:
    fetcher = _entry(state, "fetcher_state")
    return WorkerFacts(
        worker=worker,
        dataset_state=_entry(state, "dataset_state"),
        iterator_state=_entry(fetcher, "dataset_iter_state") if fetcher is not None else None,
        ended=_flag(fetcher, "fetcher_ended") if fetcher is not None else False,
        batches_fetched=batches_fetched,
    )


def _check_received(received: int, sampler: SamplerFacts) -> None:
    if received > sampler.batches_drawn:
        raise ValueError(
            "torchdata state: with in_order=False it does not say which batches were delivered, got "
            f"{received} batches with the sampler at batch {sampler.batches_drawn}; save with in_order=True"
        )


def _sampler(state: Mapping[str, Any], *, is_iterable: bool, base_seed: int | None) -> SamplerFacts:
    drawn = _count(state, "_sampler_iter_yielded")
    outer, outer_iterator = _entry(state, "_index_sampler_state"), _entry(state, "_sampler_iter_state")
    # Torchdata 0.11 keeps the samples' order in the iterator of its batch sampler, older versions in the batch sampler.
    inner = next((one for one in (outer_iterator, outer) if _is_batch_samplers(one)), None)
    if inner is not None:
        iterator, samples, is_lazy = inner.get("sampler_iter_state"), _count(inner, "samples_yielded"), inner is outer
    else:
        iterator, samples, is_lazy = outer_iterator, drawn, None
        if is_random_order(iterator) and list(state) == sorted(state):
            raise ValueError(
                "torchdata state: its keys were sorted, but with shuffle=True and batch_size=None only their order "
                "shows torchdata's version; write the state without sort_keys"
            )
    if not is_iterable and (inner is not None or is_random_order(iterator)):
        samples = _checked_samples(samples, drawn, iterator)
    return SamplerFacts(
        batches_drawn=drawn,
        samples_drawn=samples if inner is not None else None,
        state=inner.get("sampler_state") if inner is not None else None,
        iterator_state=inner.get("sampler_iter_state") if inner is not None else None,
        outer_state=outer if inner is not outer else None,
        outer_iterator_state=outer_iterator if inner is not outer_iterator else None,
        random_order=random_order(iterator, samples, base_seed, is_lazy) if is_random_order(iterator) else None,
    )


def _checked_samples(samples: int, drawn: int, iterator: Any) -> int:
    """Return the right number of samples: torchdata before 0.11 counts late around the first batch of a loop."""
    if drawn == 0 and samples > 0 and iterator is not None:
        raise ValueError(
            "torchdata state: at the start of a later epoch, torchdata before 0.11 still saves the position in the "
            f"epoch before, got {samples} samples; save after the epoch's first batch, or at the end of the epoch "
            "before"
        )
    if samples < drawn or (is_random_order(iterator) and iterator["yielded"] != samples and drawn > 0):
        raise ValueError(
            "torchdata state: between load_state_dict and the next batch, torchdata before 0.11 saves positions that "
            f"contradict each other, got batch {drawn} with the sampler at sample {samples}; load the state that it "
            "had loaded"
        )
    return samples if drawn > 0 else 0


def _is_batch_samplers(state: Any) -> bool:
    return isinstance(state, Mapping) and "samples_yielded" in state and set(state) <= _BATCH_SAMPLER_KEYS


def _entry(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise ValueError(f"torchdata state: {key!r} is missing, got {_keys(state)}; save with torchdata 0.8 to 0.11")
    return state[key]


def _mapping(state: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = _entry(state, key)
    if not isinstance(value, Mapping):
        raise ValueError(f"torchdata state: {key!r} must be a dict, got a {type(value).__name__}")
    return value


def _count(state: Mapping[str, Any], key: str) -> int:
    value = _entry(state, key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"torchdata state: {key!r} must be a non-negative integer, got {value!r}")
    return value


def _count_or_none(state: Mapping[str, Any], key: str) -> int | None:
    return None if _entry(state, key) is None else _count(state, key)


def _flag(state: Mapping[str, Any], key: str) -> bool:
    value = _entry(state, key)
    if not isinstance(value, bool):
        raise ValueError(f"torchdata state: {key!r} must be True or False, got {value!r}")
    return value


def _keys(state: object) -> str:
    return f"the keys {sorted(map(str, state))}" if isinstance(state, Mapping) else f"a {type(state).__name__}"
