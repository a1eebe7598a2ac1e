"""What `DataLoader.state_dict` returns, and how `load_state_dict` reads it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch.distributed

from sluicegate.order import draws
from sluicegate.order.plan import Whole, planned_len, resolved_shard
from sluicegate.order.progress import ranges_of
from sluicegate.order.settings import LoaderSettings
from sluicegate.order.torch_order import is_known
from sluicegate.rng.global_generators import global_state
from sluicegate.sampler.core_batch import CoreBatchSampler
from sluicegate.state.checks import check_loader_state, check_reached, was_changed
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import is_stateful
from sluicegate.stream.resumable import ResumableStream

from .crate import is_crate_state, of_crate
from .torchdata_state import from_torchdata, is_torchdata_state
from .torchdata_translation import translated

if TYPE_CHECKING:
    from sluicegate.order.progress import Epochs, LeftOut, Progress

# The version of the states that are written. Newer versions are refused.
VERSION = 1

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


# The keys of every state of this version.
_KEYS = {
    *("version", "fingerprint", "epoch", "batches_received", "received_ahead", "position", "drawn", "finished"),
    *("in_epoch", "layout", "left_out", "draws", "rng", "sampler", "sampler_is_over", "num_workers", "order"),
    *("base_seed", "begins_iterator", "next_worker", "workers"),
}


def state_of(
    settings: LoaderSettings,
    pending: dict[str, Any] | None,
    progress: Progress | None,
    epochs: Epochs,
    left_out: LeftOut,
) -> dict[str, Any]:
    """Return the state of a loader after the batches that its consumer has received.

    Args:
        settings: of the loader.
        pending: the state that its next iterator resumes from.
        progress: of its running epoch, or of the last one.
        epochs: its count of epochs.
        left_out: what it leaves out.
    """
    return _packed(copy.deepcopy(pending) if pending is not None else _told(settings, progress, epochs, left_out))


def _told(settings: LoaderSettings, progress: Progress | None, epochs: Epochs, left_out: LeftOut) -> dict[str, Any]:
    shape = fingerprint(settings, None if progress is None or progress.finished else progress)
    state: dict[str, Any] = {"version": VERSION, "fingerprint": shape}
    if progress is None or progress.finished:
        place = {"epoch": epochs.next, "batches_received": 0, "received_ahead": [], "position": 0}
        state |= place | {"drawn": False, "finished": progress is not None, "in_epoch": False}
    else:
        state |= {
            "epoch": progress.epoch,
            "batches_received": progress.received,
            "received_ahead": ranges_of(progress.ahead),
            "position": progress.position,
            "drawn": progress.is_drawn,
            "finished": False,
            "in_epoch": True,
        }
    # The epoch that a user-defined sampler or dataset was given: the loader's own count means nothing to them.
    state["epoch_told"] = epochs.told if progress is None or progress.finished else progress.epoch_told
    state["left_out"] = left_out.state()
    # Batches that were received out of turn, or that are to be left out, are known only by number, which means the same
    # only in one layout.
    state["layout"] = _layout(settings) if state["received_ahead"] or _leaves_out_batches(state) else None
    state["draws"] = state["rng"] = None
    running = None if progress is None or progress.finished else progress.draws
    if settings.seed is None:
        state["draws"] = (running or draws.take(settings)).as_text()
        # The global generators belong to the process: one rank's are not for another.
        state["rng"] = None if is_one_of_many() else global_state()
    elif settings.ordering is None and not settings.is_stream:
        state["draws"] = (running or draws.take_own(settings.index_sampler)).as_text() or None
    state |= _sampler_state(progress)
    state["num_workers"] = settings.num_workers
    state["order"] = None if progress is None or progress.finished else progress.order
    # The requests between those received and these were drawn ahead, before the generators reached their saved state.
    state["requests_drawn"] = None if progress is None or progress.finished else progress.requests_drawn
    state["base_seed"] = None if progress is None else progress.base_seed
    state["begins_iterator"] = progress is None or progress.begins_iterator
    if progress is not None and progress.finished:
        # Persistent workers keep their seed; other workers get a new one with every iterator.
        state["begins_iterator"] = not settings.persistent_workers
        state["base_seed"] = progress.base_seed if settings.persistent_workers else None
    worker, places = Fetching() if progress is None else progress.fetching_state()
    if progress is not None and progress.finished:
        worker, places = 0, [None if place is None else place.left() for place in places]
    state |= {"next_worker": worker, "workers": list(places)}
    return state


# The facts about a worker, in the order in which a state lists them. After them come named facts that only some workers
# have: the generators at the start of the epoch, if a stream is read again from there ("start"), and that the end of
# its stream was received, so that it gets no more requests ("retired").
PLACE = ("state", "at", "samples", "ended", "rng", "over")


def _packed(state: dict[str, Any]) -> dict[str, Any]:
    """Return `state` in the form that is saved, which has the same keys at any time.

    `torch.distributed.checkpoint` loads the keys that a fresh state has. It takes apart mappings and lists that contain
    mappings. The states of user-defined objects may have any keys, so they are put into tuples, which are kept whole.
    """
    workers: Any = [None if place is None else _packed_place(place) for place in state["workers"]]
    if any(place is not None and place.states for place in state["workers"]):
        workers = tuple(workers)
    sampler = None if state["sampler"] is None else (state["sampler"].saved(),)
    pairs = {"draws": _pairs(state["draws"]), "rng": _pairs(state["rng"])}
    return state | {"workers": workers, "sampler": sampler} | pairs


def _unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """Undo `_packed`."""
    workers = [None if packed is None else _unpacked_place(packed) for packed in state["workers"]]
    sampler = None if state["sampler"] is None else SamplerPlace.of_saved(state["sampler"])
    own = {"workers": workers, "sampler": sampler}
    return state | own | {"draws": _mapping(state["draws"]), "rng": _mapping(state["rng"])}


def _unwrapped(state: Any) -> Any:
    """Return `state` with the sampler's state unwrapped.

    Older states have no tuple, and JSON turns tuples into lists.
    """
    if isinstance(state, Mapping) and isinstance(sampler := state.get("sampler"), (list, tuple)) and len(sampler) == 1:
        return {**state, "sampler": sampler[0]}
    return state


def _packed_place(place: PlaceState) -> list[Any]:
    told = [place.states or None, place.at, place.samples, place.ended, _pairs(place.rng), place.over]
    if place.start is not None:
        told.append(["start", _pairs(place.start)])
    if place.retired:
        told.append(["retired", True])
    return told


def _unpacked_place(packed: list[Any]) -> PlaceState:
    states, at, samples, ended, rng, over = packed[: len(PLACE)]
    more = dict(packed[len(PLACE) :])
    start, retired = _mapping(more.get("start")), more.get("retired", False)
    return PlaceState(states or {}, at, samples, ended, over, _mapping(rng), start, retired)


def _pairs(mapping: Mapping[str, str] | None) -> list[list[str]] | None:
    return None if mapping is None else [[name, text] for name, text in mapping.items()]


def _mapping(pairs: list[list[str]] | None) -> dict[str, str] | None:
    return None if pairs is None else {name: text for name, text in pairs}  # noqa: C416  mypy


def _sampler_state(progress: Progress | None) -> dict[str, Any]:
    """Return a stateful sampler's state; before an epoch's first batch, its state at the end of the previous epoch."""
    if progress is None:
        return {"sampler": None, "sampler_is_over": False}
    told = progress.sampler_state()
    if progress.finished or told is not None:
        return {"sampler": told, "sampler_is_over": progress.finished}
    before = progress.what_sampler_left() if progress.last_ids is None else progress.sampler_state_before()
    return {"sampler": before, "sampler_is_over": before is not None}


def _leaves_out_batches(state: dict[str, Any]) -> bool:
    """Return True if there are batches to leave out that have not come yet."""
    here = (state["epoch"], state["batches_received"])
    return any((epoch, stop - 1) >= here for epoch, _, stop in state["left_out"]["batches"])


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


def loaded(settings: LoaderSettings, epoch: int, state: Any, strict: bool) -> dict[str, Any]:
    """Return a checked copy of `state`, ready for a loader to resume from.

    Args:
        settings: of the loader.
        epoch: the number of its next epoch.
        state: what it was given.
        strict: False if the state of a loader with a different order is accepted.

    Raises:
        ValueError: not a state of this package or of torchdata, a newer version, or saved by a different loader.
    """
    if is_crate_state(state):
        state = _packed({"version": state["version"], **of_crate(settings, state, fingerprint(settings))})
    elif is_torchdata_state(state):
        facts = from_torchdata(state)
        state = _packed(
            {"version": VERSION, "fingerprint": fingerprint(settings), **translated(settings, epoch, facts)}
        )
    if not isinstance(state, Mapping) or not isinstance(state.get("version"), int):
        raise ValueError(
            "load_state_dict: expected a state of a sluicegate.DataLoader or of torchdata's StatefulDataLoader, got a "
            f"{type(state).__name__}; pass what state_dict() returned"
        )
    if state["version"] > VERSION:
        raise ValueError(
            f"load_state_dict: this sluicegate reads states up to version {VERSION}, got version {state['version']}; "
            "update sluicegate"
        )
    state = _unwrapped(state)
    lost = sorted(_KEYS - set(state))
    if lost:
        raise ValueError(f"load_state_dict: the state is missing {', '.join(lost)}; pass what state_dict() returned")
    check_loader_state(state)
    state = _unpacked(copy.deepcopy(dict(state)))
    _check_stream(settings.dataset, state)
    here, there = fingerprint(settings), state["fingerprint"]
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
        check_reached(state, *_lengths(settings, here, state["epoch"]))
    if state["layout"] not in (None, here_layout := _layout(settings)):
        ahead = state["received_ahead"]
        what = "received out of order (in_order=False)" if ahead else "skipped (skip)"
        way_out = "" if ahead else ", or skip by index with skip_samples"
        raise ValueError(
            f"load_state_dict: batches {what} are known only by number, which needs the same (batch_size, ranks): "
            f"expected {tuple(state['layout'])}, got {tuple(here_layout)}; build the loader as it was{way_out}"
        )
    # Trainers that read one batch ahead set this when the last batch was handed out.
    if state.pop("_iterator_finished", False) and state["in_epoch"]:
        state["is_at_end"] = True
    checked: dict[str, Any] = state
    return checked


def _check_stream(dataset: Any, state: dict[str, Any]) -> None:
    """Raise ValueError if the places in a stream contradict the rest of the state or the stream."""
    places = [place for place in state["workers"] if place is not None]
    if state["fingerprint"].get("kind") != "iterable-style":
        return
    if state["batches_received"] and state["position"] and all(place.over for place in places):
        raise was_changed("workers", state["workers"], f"`batches_received` is {state['batches_received']}")
    for place in places:
        if not place.states and place.at and not place.over and is_stateful(dataset):
            raise was_changed("workers", place, "does not say where the stream was")
        if isinstance(dataset, ResumableStream):
            dataset.check_state(place.of_dataset)


def _lengths(settings: LoaderSettings, shape: dict[str, Any], epoch: int) -> tuple[int | None, int | None]:
    """Return the number of batches in `epoch` of a loader, and the highest position in it; None for what is unknown."""
    sampler, length = settings.index_sampler, shape["sampler_len"]
    ordering = settings.ordering
    if ordering is None:
        return (_length(sampler), length) if is_known(sampler) else (None, None)
    if Whole.of(ordering).sampler is sampler:
        # A batch sampler: the number of batches depends on the epoch. The number of ranks may have been different
        # before, and one rank may have had the last batch.
        try:
            length = (planned_len(ordering, epoch) + 1) * resolved_shard(ordering.shard)[1]
        except TypeError:  # It has no length, which is reported when it is iterated over.
            length = None
    # A batch of this rank covers at least one position. The batch size may have been different before.
    return length, length
