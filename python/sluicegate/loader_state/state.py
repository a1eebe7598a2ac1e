"""The result of `DataLoader.state_dict`, and how `load_state_dict` reads it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch.distributed

from sluicegate.known_length import known_length
from sluicegate.order import draws
from sluicegate.order.epoch_progress import EpochProgress
from sluicegate.order.left_out import ranges_of
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.plan import Whole, planned_len, resolved_shard
from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.global_generators import global_state
from sluicegate.sampler.core_batch import CoreBatchSampler
from sluicegate.state.checks import invalid_state
from sluicegate.state.loader_state import LoaderState
from sluicegate.state.place_state import Fetching
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import is_stateful
from sluicegate.stream.resumable import ResumableStream

from .crate import is_crate_state, of_crate
from .saved_form import read, saved
from .torchdata_state import from_torchdata, is_torchdata_state
from .torchdata_translation import translated

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
_LAYOUT = ("batch_size", "ranks")


def state_of(settings: LoaderSettings, progress: LoaderProgress) -> LoaderState:
    """Return the state of a loader after the batches that its consumer has received.

    Args:
        settings: of the loader.
        progress: how far it is.
    """
    pending, left_out = progress.pending, progress.left_out.ranges()
    # More may have been left out since a state was loaded.
    state = _begun_state(settings, progress) if pending is None else copy.deepcopy(pending)
    state = dataclasses.replace(state, left_out=left_out)
    if state.layout is None and (state.received_ahead or _leaves_out_batches(state)):
        # These batches are known only by number, which means the same only in one layout.
        state = dataclasses.replace(state, layout=_layout(settings, of_one_rank=bool(state.received_ahead)))
    return state


def _begun_state(settings: LoaderSettings, progress: LoaderProgress) -> LoaderState:
    """Return the state of a loader that resumes from none, without the samples that are left out."""
    running = progress.running
    state = LoaderState(
        fingerprint=fingerprint(settings, running),
        epoch=progress.epochs.next,
        # The epoch that was set in a user-defined sampler or dataset, which do not use the loader's own count.
        epoch_told=progress.epochs.last_set,
        num_workers=settings.num_workers,
    )
    if progress.latest is not None:
        state = _with_epoch(state, progress.latest, settings.persistent_workers)
    elif (place := progress.sampler_place_now(settings)) is not None:
        state = dataclasses.replace(state, sampler=place, sampler_is_over=True)
    # After the states of user-defined objects, in case these draw.
    draws_now, rng = _generators(settings, None if running is None else running.draws.generators)
    return dataclasses.replace(state, draws=draws_now, rng=rng)


def _with_epoch(state: LoaderState, latest: EpochProgress, persists: bool) -> LoaderState:
    """Return `state` with the running epoch, or with the end of the last one.

    Args:
        state: of the loader before its next epoch.
        latest: the progress of the epoch.
        persists: True if the loader keeps its workers.
    """
    fetching, draws_of, received = latest.fetching(), latest.draws, latest.received
    sampler, sampler_is_over = _sampler_place(latest)
    state = dataclasses.replace(state, sampler=sampler, sampler_is_over=sampler_is_over)
    if latest.finished:
        return dataclasses.replace(
            state,
            finished=True,
            # Persistent workers keep their seed; other workers get a new one with every iterator.
            base_seed=draws_of.base_seed if persists else None,
            begins_iterator=not persists,
            fetching=Fetching(0, [None if place is None else place.left() for place in fetching.places]),
        )
    return dataclasses.replace(
        state,
        epoch=latest.epoch,
        batches_received=received.count,
        received_ahead=ranges_of(received.ahead),
        position=received.position,
        drawn=latest.is_drawn,
        in_epoch=True,
        epoch_told=latest.epoch_told,
        order=draws_of.order,
        # The requests between those received and these were drawn ahead, before the generators reached their saved
        # state.
        requests_drawn=draws_of.requests,
        requests_ahead=() if draws_of.requests is None else draws_of.yielded.ahead(received.count),
        requests_checksum=draws_of.yielded.checksum(received.count),
        base_seed=draws_of.base_seed,
        begins_iterator=draws_of.begins_iterator,
        fetching=fetching,
    )


def _generators(
    settings: LoaderSettings, drawn: draws.Draws | None
) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    """Return the generators that the epoch is drawn from, and the global ones, as far as they are saved."""
    if settings.seed is None:
        # The global generators belong to the process: a rank must not load those of a different rank.
        return (drawn or draws.take(settings)).as_text(), None if is_one_of_many() else global_state()
    if not settings.is_stream and (settings.ordering is None or settings.ordering.lists_sampler):
        return (drawn or draws.take_own(settings.index_sampler)).as_text() or None, None
    return None, None


def _sampler_place(latest: EpochProgress) -> tuple[SamplerPlace | None, bool]:
    """Return where a stateful sampler is, and if that is the end of an epoch: the previous one before a first batch."""
    place, sampler = latest.sampler_place(), latest.sampler
    if latest.finished or place is not None:
        return place, latest.finished
    before = sampler.place_before() if latest.received.has_advanced else sampler.begun_at()
    return before, before is not None


def _leaves_out_batches(state: LoaderState) -> bool:
    """Return True if there are batches to leave out that have not come yet."""
    here = (state.epoch, state.batches_received)
    return any((epoch, stop - 1) >= here for epoch, _, stop in state.left_out.batches)


def is_one_of_many() -> bool:
    """Return True if there are other ranks, for which this rank's global generators are not meant."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def fingerprint(settings: LoaderSettings, progress: EpochProgress | None = None) -> dict[str, Any]:
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
        # A stream has a separate state on each rank.
        part = None if settings.shard is None else f"shard{resolved_shard(settings.shard)}"
        return shape | {"kind": "iterable-style", "order": part}
    whole, inner = Whole.of(settings), getattr(sampler, "sampler", sampler)
    identity = whole.identity() if progress is None or progress.identity is None else progress.identity
    if progress is not None:
        progress.identity = identity
    shape |= {"dataset_len": known_length(settings.dataset), "order": identity}
    if settings.ordering is not None:
        # The state counts the samples that all ranks have read, so from there on the batch size and the number of ranks
        # may differ.
        del shape["batch_size"]
        inner = whole.sampler
        shape["remainder"] = whole.remainder if whole.shard is not None else None
    return shape | {"sampler": type(inner).__name__, "sampler_len": _length_of(inner, settings.seed)}


def _shown(fact: Any) -> str:
    return fact if isinstance(fact, str) and "(" in fact else repr(fact)


def _layout(settings: LoaderSettings, *, of_one_rank: bool) -> list[int | None]:
    rank, world_size = resolved_shard(settings.shard)
    layout = [settings.batch_size, world_size]
    return [*layout, rank] if of_one_rank and world_size > 1 else layout


def _length_of(sampler: Any, seed: int | None) -> int | None:
    # Without a seed, the number of its batches depends on random draws.
    is_drawn = isinstance(sampler, CoreBatchSampler) and sampler.seed is None and seed is None
    return None if is_drawn else known_length(sampler)


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
        f"{_FINGERPRINT[name]}: {_shown(there.get(name))} in the state, {_shown(here.get(name))} in this loader"
        for name in different
    ]
    if differences and strict:
        raise ValueError(
            f"load_state_dict: the state was saved by a different loader ({'; '.join(differences)}); build the loader "
            "as it was, or pass strict=False to resume at the same position of this one's order"
        )
    if not differences:
        _check_reached(parsed, *_lengths(settings, here, parsed.epoch))
    of_one_rank = len(parsed.layout or ()) > len(_LAYOUT)
    if parsed.layout not in (None, here_layout := _layout(settings, of_one_rank=of_one_rank)):
        ahead = parsed.received_ahead
        what = "received out of order (in_order=False)" if ahead else "skipped (skip)"
        needed = ", ".join((*_LAYOUT, "rank") if of_one_rank else _LAYOUT)
        way_out = "and load each rank's own state" if ahead else "or skip by index with skip_samples"
        raise ValueError(
            f"load_state_dict: batches {what} are known only by number, which needs the same ({needed}): "
            f"expected {tuple(parsed.layout or ())}, got {tuple(here_layout)}; build the loader as it was, {way_out}"
        )
    return parsed


def is_all_received(settings: LoaderSettings, state: LoaderState, length: int | None) -> bool:
    """Return True if the running epoch of `state` has no batches left, although its consumer has not seen the end.

    Args:
        settings: of the loader that resumes.
        state: what it resumes from.
        length: the number of batches of its epochs; None if it is unknown.
    """
    if length is None or not state.in_epoch or state.received_ahead:
        return False
    if settings.ordering is not None:  # The number of ranks and the batch size may have been different before.
        return planned_len(settings.ordering, state.epoch, state.position) == 0
    return state.batches_received >= length


def _check_stream(dataset: Any, state: LoaderState) -> None:
    """Raise ValueError if the places in a stream contradict the rest of the state or the stream."""
    if state.fingerprint.get("kind") != "iterable-style":
        return
    places = [place for place in state.fetching.places if place is not None]
    if state.batches_received and state.position and all(place.over for place in places):
        raise invalid_state("workers", places, f"`batches_received` is {state.batches_received}")
    for place in places:
        if not place.states and place.at and not place.over and is_stateful(dataset):
            raise invalid_state("workers", place, "does not say where the stream was")
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
        raise invalid_state("position", state.position, f"the epoch has {positions}")
    if batches is None:
        return
    if state.batches_received > batches:
        raise invalid_state("batches_received", state.batches_received, f"the epoch has {batches}")
    for each in state.received_ahead:
        if each[1] > batches:
            raise invalid_state("received_ahead", each, f"the epoch has {batches} batches")


def _lengths(settings: LoaderSettings, shape: dict[str, Any], epoch: int) -> tuple[int | None, int | None]:
    """Return the number of batches in `epoch` of a loader, and the highest position in it; None if unknown."""
    sampler, length = settings.index_sampler, shape["sampler_len"]
    ordering = settings.ordering
    if ordering is None:
        return (known_length(sampler), length) if settings.is_known else (None, None)
    if Whole.of(ordering).sampler is sampler:
        # A batch sampler: the number of batches depends on the epoch. The number of ranks may have been different
        # before, and one rank may have had the last batch.
        try:
            length = (planned_len(ordering, epoch) + 1) * resolved_shard(ordering.shard)[1]
        except TypeError:  # It has no length, which is reported when it is iterated over.
            length = None
    # A batch of this rank covers at least one position. The batch size may have been different before.
    return length, length
