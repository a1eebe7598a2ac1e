"""What `DataLoader.state_dict` returns, and how `load_state_dict` reads it."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import torch.distributed

from sluicegate.order import draws
from sluicegate.order.plan import Whole, planned_len, resolved_shard
from sluicegate.order.progress import ranges_of
from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.global_generators import global_state
from sluicegate.sampler.core_batch import CoreBatchSampler
from sluicegate.state.checks import was_changed
from sluicegate.state.loader_state import LoaderState
from sluicegate.state.place_state import Fetching
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import is_stateful
from sluicegate.stream.resumable import ResumableStream

from .crate import is_crate_state, of_crate
from .saved_form import read, saved
from .torchdata_state import from_torchdata, is_torchdata_state
from .torchdata_translation import translated

if TYPE_CHECKING:
    from sluicegate.order.progress import Epochs, LeftOut, Progress

# The names of a fingerprint's entries in an error.
_FINGERPRINT = {
    "kind": "kind of dataset",
    "dataset_len": "length of the dataset",
    "sampler": "sampler",
    "sampler_len": "length of the sampler",
    "batch_size": "batch_size",
    "drop_last": "drop_last",
    "seed": "seed",
    "seed_samples": "seed_samples",
    "remainder": "remainder",
    "order": "order",
}
# Entries that may be unknown: some samplers know their length only while they are iterated over, and older states have
# fewer entries.
_MAY_BE_UNKNOWN = {"sampler_len", "drop_last", "seed_samples", "remainder", "order"}


def state_of(
    settings: LoaderSettings,
    pending: LoaderState | None,
    progress: Progress | None,
    epochs: Epochs,
    left_out: LeftOut,
) -> LoaderState:
    """Return the state of a loader after the batches that its consumer has received.

    Args:
        settings: of the loader.
        pending: the state that its next iterator resumes from.
        progress: of its running epoch, or of the last one.
        epochs: its count of epochs.
        left_out: what it leaves out.
    """
    if pending is not None:
        # More may have been left out since it was loaded.
        state = dataclasses.replace(copy.deepcopy(pending), left_out=left_out.ranges())
        if state.layout is None and _leaves_out_batches(state):
            state = dataclasses.replace(state, layout=_layout(settings))
        return state
    running = None if progress is None or progress.finished else progress
    next_worker, places = Fetching() if progress is None else progress.fetching_state()
    if progress is not None and progress.finished:
        next_worker, places = 0, [None if place is None else place.left() for place in places]
    state = LoaderState(
        fingerprint=fingerprint(settings, running),
        epoch=epochs.next,
        finished=progress is not None and running is None,
        # The epoch that a user-defined sampler or dataset was given: the loader's own count means nothing to them.
        epoch_told=epochs.told,
        left_out=left_out.ranges(),
        num_workers=settings.num_workers,
        base_seed=None if progress is None else progress.base_seed,
        begins_iterator=progress is None or progress.begins_iterator,
        fetching=Fetching(next_worker, places),
    )
    if running is not None:
        state = dataclasses.replace(
            state,
            epoch=running.epoch,
            batches_received=running.received,
            received_ahead=ranges_of(running.ahead),
            position=running.position,
            drawn=running.is_drawn,
            in_epoch=True,
            epoch_told=running.epoch_told,
            order=running.order,
            # The requests between those received and these were drawn ahead, before the generators reached their saved
            # state.
            requests_drawn=running.requests_drawn,
        )
    elif progress is not None:
        # Persistent workers keep their seed; other workers get a new one with every iterator.
        base_seed = progress.base_seed if settings.persistent_workers else None
        state = dataclasses.replace(state, begins_iterator=not settings.persistent_workers, base_seed=base_seed)
    sampler, sampler_is_over = (None, False) if progress is None else _sampler_state(progress)
    draws_now, rng = _generators(settings, None if running is None else running.draws)
    # Batches that were received out of turn, or that are to be left out, are known only by number, which means the same
    # only in one layout.
    layout = _layout(settings) if state.received_ahead or _leaves_out_batches(state) else None
    return dataclasses.replace(
        state, layout=layout, draws=draws_now, rng=rng, sampler=sampler, sampler_is_over=sampler_is_over
    )


def _generators(
    settings: LoaderSettings, drawn: draws.Draws | None
) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    """Return the generators that the epoch is drawn from, and the global ones, as far as they are saved."""
    if settings.seed is None:
        # The global generators belong to the process: one rank's are not for another.
        return (drawn or draws.take(settings)).as_text(), None if is_one_of_many() else global_state()
    if settings.ordering is None and not settings.is_stream:
        return (drawn or draws.take_own(settings.index_sampler)).as_text() or None, None
    return None, None


def _sampler_state(progress: Progress) -> tuple[SamplerPlace | None, bool]:
    """Return where a stateful sampler is, and if that is the end of an epoch: the previous one before a first batch."""
    told = progress.sampler_state()
    if progress.finished or told is not None:
        return told, progress.finished
    before = progress.what_sampler_left() if progress.last_ids is None else progress.sampler_state_before()
    return before, before is not None


def _leaves_out_batches(state: LoaderState) -> bool:
    """Return True if there are batches to leave out that have not come yet."""
    here = (state.epoch, state.batches_received)
    return any((epoch, stop - 1) >= here for epoch, _, stop in state.left_out.batches)


def is_one_of_many() -> bool:
    """Return True if there are other ranks, for which this rank's global generators are not meant."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def fingerprint(settings: LoaderSettings, progress: Progress | None = None) -> dict[str, Any]:
    """Return what determines the order of a loader: a state can be resumed only if all of it is the same.

    Args:
        settings: of the loader.
        progress: the running epoch, which caches the identity of its order: for an order of many numbers it takes time
            to compute.
    """
    sampler = settings.index_sampler
    shape: dict[str, Any] = {
        "kind": "map-style",
        "dataset_len": None,
        "sampler": None,
        "sampler_len": None,
        "seed": settings.seed,
        "seed_samples": None if settings.seed is None else settings.seed_samples,
        "drop_last": bool(getattr(sampler, "drop_last", settings.drop_last)),
        "batch_size": getattr(sampler, "batch_size", settings.batch_size),
        "remainder": None,
        "order": None,
    }
    if settings.is_stream:
        return shape | {"kind": "iterable-style"}
    whole, inner = Whole.of(settings), getattr(sampler, "sampler", sampler)
    identity = whole.identity() if progress is None or progress.identity is None else progress.identity
    if progress is not None:
        progress.identity = identity
    shape |= {"dataset_len": _length(settings.dataset), "order": identity}
    if settings.ordering is not None:
        # The state counts the samples that all ranks have read, so from there on the batch size and the number of ranks
        # may differ.
        del shape["batch_size"]
        inner = whole.sampler
        shape["remainder"] = whole.remainder if whole.shard is not None else None
    return shape | {"sampler": type(inner).__name__, "sampler_len": _length_of(inner, settings.seed)}


def _shown(fact: Any) -> str:
    return fact if isinstance(fact, str) and "(" in fact else repr(fact)


def _layout(settings: LoaderSettings) -> list[int | None]:
    return [settings.batch_size, resolved_shard(settings.shard)[1]]


def _length_of(sampler: Any, seed: int | None) -> int | None:
    # Without a seed, the number of its batches depends on what it draws.
    is_drawn = isinstance(sampler, CoreBatchSampler) and sampler.seed is None and seed is None
    return None if is_drawn else _length(sampler)


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def loaded(settings: LoaderSettings, epoch: int, state: Any, strict: bool) -> LoaderState:
    """Return a checked copy of `state`, ready for a loader to resume from.

    Args:
        settings: of the loader.
        epoch: the number of its next epoch.
        state: what it was given.
        strict: False if the state of a loader with a different order is accepted.

    Raises:
        ValueError: not a state of this package or of torchdata, a newer version, or saved by a different loader.
    """
    here = fingerprint(settings)
    if is_crate_state(state):
        state = {**saved(of_crate(settings, state, here)), "version": state["version"]}
    elif is_torchdata_state(state):
        state = saved(dataclasses.replace(translated(settings, epoch, from_torchdata(state)), fingerprint=here))
    parsed = copy.deepcopy(read(state))
    _check_stream(settings.dataset, parsed)
    there = parsed.fingerprint
    different = [
        name
        for name in _FINGERPRINT
        if there.get(name) != here.get(name)
        and not (name in _MAY_BE_UNKNOWN and None in (there.get(name), here.get(name)))
    ]
    if len(different) > 1 and "order" in different:
        different.remove("order")  # It follows from the others and is the longest.
    differences = [
        f"{_FINGERPRINT[name]}: expected {_shown(there.get(name))}, got {_shown(here.get(name))}" for name in different
    ]
    if differences and strict:
        raise ValueError(
            f"load_state_dict: the state was saved by a different loader ({'; '.join(differences)}); build the loader "
            "as it was, or pass strict=False to resume at the same position of this one's order"
        )
    if not differences:
        _check_reached(parsed, *_lengths(settings, here, parsed.epoch))
    if parsed.layout not in (None, here_layout := _layout(settings)):
        ahead = parsed.received_ahead
        what = "received out of order (in_order=False)" if ahead else "skipped (skip)"
        way_out = "" if ahead else ", or skip by index with skip_samples"
        raise ValueError(
            f"load_state_dict: batches {what} are known only by number, which needs the same (batch_size, ranks): "
            f"expected {tuple(parsed.layout or ())}, got {tuple(here_layout)}; build the loader as it was{way_out}"
        )
    return parsed


def _check_stream(dataset: Any, state: LoaderState) -> None:
    """Raise ValueError if the places in a stream contradict the rest of the state or the stream."""
    if state.fingerprint.get("kind") != "iterable-style":
        return
    places = [place for place in state.fetching.places if place is not None]
    if state.batches_received and state.position and all(place.over for place in places):
        raise was_changed("workers", places, f"`batches_received` is {state.batches_received}")
    for place in places:
        if not place.states and place.at and not place.over and is_stateful(dataset):
            raise was_changed("workers", place, "does not say where the stream was")
        if isinstance(dataset, ResumableStream):
            dataset.check_state(place.of_dataset)


def _check_reached(state: LoaderState, batches: int | None, positions: int | None) -> None:
    """Raise ValueError if the place of `state` is after the end of its epoch.

    Args:
        state: of a loader.
        batches: the most batches that the epoch can have; None if unknown.
        positions: the highest value of `position`; None if unknown.
    """
    if positions is not None and state.position > positions:
        raise was_changed("position", state.position, f"the epoch has {positions}")
    if batches is None:
        return
    if state.batches_received > batches:
        raise was_changed("batches_received", state.batches_received, f"the epoch has {batches}")
    for each in state.received_ahead:
        if each[1] > batches:
            raise was_changed("received_ahead", each, f"the epoch has {batches} batches")


def _lengths(settings: LoaderSettings, shape: dict[str, Any], epoch: int) -> tuple[int | None, int | None]:
    """Return the number of batches in `epoch` of a loader, and the highest position in it; None for what is unknown."""
    sampler, length = settings.index_sampler, shape["sampler_len"]
    ordering = settings.ordering
    if ordering is None:
        return (_length(sampler), length) if settings.is_known else (None, None)
    if Whole.of(ordering).sampler is sampler:
        # A batch sampler: the number of batches depends on the epoch. The number of ranks may have been different
        # before, and one rank may have had the last batch.
        try:
            length = (planned_len(ordering, epoch) + 1) * resolved_shard(ordering.shard)[1]
        except TypeError:  # It has no length, which is reported when it is iterated over.
            length = None
    # A batch of this rank covers at least one position. The batch size may have been different before.
    return length, length
