"""The form in which a loader's state is saved: `saved` writes it, and `read` checks and reads it.

It has the same keys at any time, because `torch.distributed.checkpoint` loads the keys that a fresh state has. It takes
apart mappings and lists that contain mappings. The states of user-defined objects may have any keys, so they are put
into tuples, which are kept whole.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.state.checks import check_flag, check_list, check_mapping, check_number, check_pairs, invalid_state
from sluicegate.state.loader_state import LeftOutRanges, LoaderState
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.sampler_place import SamplerPlace

# The version of the states that are written. Newer versions are refused.
VERSION = 1

# The number of facts that a state has of each worker, in this order: the states of the dataset and its iterator, `at`,
# `samples`, `ended`, `rng` and `over`. After them come named facts that only some workers have.
_FACTS = 6
_OF_STREAM = {"thing", "iterator"}
# Above the known length of an epoch, ranges with more numbers than this are not expanded to sets.
_MOST_AHEAD, _MOST_LEFT_OUT = 2**20, 2**24


def saved(state: LoaderState) -> dict[str, Any]:
    """Return the form of `state` that is saved."""
    next_worker, places = state.fetching
    workers: Any = [None if place is None else _saved_place(place) for place in places]
    if any(place is not None and place.states for place in places):
        workers = tuple(workers)
    form = {
        "version": VERSION,
        "fingerprint": dict(state.fingerprint),
        "epoch": state.epoch,
        "batches_received": state.batches_received,
        "received_ahead": _lists(state.received_ahead),
        "position": state.position,
        "drawn": state.drawn,
        "finished": state.finished,
        "in_epoch": state.in_epoch,
        "epoch_told": state.epoch_told,
        "left_out": {"batches": _lists(state.left_out.batches), "samples": _lists(state.left_out.samples)},
        "layout": None if state.layout is None else list(state.layout),
        "draws": _pairs(state.draws),
        "rng": _pairs(state.rng),
        "sampler": None if state.sampler is None else (state.sampler.saved(),),
        "sampler_is_over": state.sampler_is_over,
        "num_workers": state.num_workers,
        "order": state.order,
        "requests_drawn": state.requests_drawn,
        "base_seed": state.base_seed,
        "begins_iterator": state.begins_iterator,
        "next_worker": next_worker,
        "workers": workers,
    }
    more = {
        "requests_ahead": [list(each) if isinstance(each, list) else each for each in state.requests_ahead],
        "requests_checksum": state.requests_checksum,
        "replay": state.replay,
        "is_at_end": state.is_at_end,
        "rng_of_loop": state.rng_of_loop,
    }
    return form | {name: fact for name, fact in more.items() if fact}


def read(form: Any) -> LoaderState:
    """Return what `saved` wrote, in this or an earlier version of this package.

    States that user-defined datasets, iterators and samplers have returned are neither examined nor copied.

    Raises:
        ValueError: not such a state, a newer version, or a part has the wrong type, is out of range, or contradicts
            another; the message names it.
    """
    if not isinstance(form, Mapping) or not isinstance(form.get("version"), int):
        raise ValueError(
            "load_state_dict: expected a state of a sluicegate.DataLoader or of torchdata's StatefulDataLoader, got a "
            f"{type(form).__name__}; pass what state_dict() returned"
        )
    if form["version"] > VERSION:
        raise ValueError(
            f"load_state_dict: this sluicegate reads states up to version {VERSION}, got version {form['version']}; "
            "update sluicegate"
        )
    # Older states lack two keys.
    if lost := sorted(saved(LoaderState()).keys() - form.keys() - {"epoch_told", "requests_drawn"}):
        raise ValueError(f"load_state_dict: the state is missing {', '.join(lost)}; pass what state_dict() returned")
    check_number("version", form["version"], least=1)

    def count(name: str) -> int:
        return check_number(name, form[name])

    def flag(name: str) -> bool:
        return check_flag(name, form[name])

    def count_or_none(name: str) -> int | None:
        return None if form.get(name) is None else count(name)

    state = LoaderState(
        epoch=count("epoch"),
        batches_received=count("batches_received"),
        position=count("position"),
        num_workers=count("num_workers"),
        fetching=Fetching(count("next_worker")),
        drawn=flag("drawn"),
        finished=flag("finished"),
        in_epoch=flag("in_epoch"),
        begins_iterator=flag("begins_iterator"),
        sampler_is_over=flag("sampler_is_over"),
        fingerprint=check_mapping("fingerprint", form["fingerprint"]),
        received_ahead=_ahead(form["received_ahead"], form["batches_received"]),
        left_out=_left_out(form["left_out"], form["fingerprint"].get("dataset_len")),
        layout=_layout(form["layout"]),
        draws=_mapping("draws", form["draws"]),
        rng=_mapping("rng", form["rng"]),
        base_seed=count_or_none("base_seed"),
        epoch_told=count_or_none("epoch_told"),
        requests_drawn=count_or_none("requests_drawn"),
        requests_ahead=_requests(form.get("requests_ahead", [])),
        requests_checksum=form.get("requests_checksum"),
        order=form["order"],
        replay=check_number("replay", form.get("replay", 0)),
        sampler=_sampler(form["sampler"]),
        # Trainers that read one batch ahead set the second flag when the last batch was delivered.
        is_at_end=bool(form.get("is_at_end") or (form.get("_iterator_finished") and form["in_epoch"])),
        rng_of_loop=form.get("rng_of_loop"),
    )
    _check_contradictions(state)
    return dataclasses.replace(state, fetching=_fetching(form["next_worker"], form["workers"], state.num_workers))


def _check_contradictions(state: LoaderState) -> None:
    received, drawn = state.batches_received, state.requests_drawn
    if drawn is not None and drawn - received > _MOST_AHEAD:
        raise invalid_state("requests_drawn", drawn, f"should be at most `batches_received` + {_MOST_AHEAD}")
    if (ahead := len(state.requests_ahead)) > max((drawn or 0) - received, 0):
        raise invalid_state("requests_drawn", drawn, f"`requests_ahead` has {ahead} requests")
    if type(state.requests_checksum) not in (int, type(None)):
        raise invalid_state("requests_checksum", state.requests_checksum, "should be an integer")
    if state.order is not None and not isinstance(state.order, str):
        raise invalid_state("order", state.order, "should be the state of a generator, as text")
    if state.in_epoch and state.finished:
        raise invalid_state("finished", True, "`in_epoch` is True, so the epoch has not ended")
    for name in ("batches_received", "position", "received_ahead", "drawn"):
        if (begun := getattr(state, name)) and not state.in_epoch:
            raise invalid_state("in_epoch", False, f"`{name}` is {reprlib.repr(begun)}")
    if received and not state.drawn:
        raise invalid_state("drawn", False, f"`batches_received` is {received}")


def _requests(requests: Any) -> Any:
    for request in check_list("requests_ahead", requests):
        for index in request if isinstance(request, list) else [request]:
            if type(index) is not int:
                raise invalid_state("requests_ahead", request, "should be an integer, or a list of them")
    return requests


def _ahead(ranges: Any, received: int) -> list[list[int]]:
    ahead, count, last = [], 0, received - 1
    for each in check_list("received_ahead", ranges):  # Older states list the numbers themselves.
        start, stop = (each, each + 1) if type(each) is int else _range("received_ahead", each)
        if start <= last:
            raise invalid_state("received_ahead", each, f"should be after batch {last}")
        last, count = stop - 1, count + stop - start
        ahead.append([start, stop])
    if count > _MOST_AHEAD:
        raise invalid_state("received_ahead", ranges, f"should have at most {_MOST_AHEAD} batches, not {count}")
    return ahead


def _left_out(left_out: Any, dataset_len: Any) -> LeftOutRanges:
    check_mapping("left_out", left_out, ("batches", "samples"))
    most = max(_MOST_LEFT_OUT, dataset_len if type(dataset_len) is int else 0)
    for name, least in (("batches", 0), ("samples", -(2**63))):
        count = 0
        for each in check_list(f"left_out.{name}", left_out[name]):
            *epoch, start, stop = check_list(f"left_out.{name}", each, [3 if name == "batches" else 2])
            start, stop = _range(f"left_out.{name}", [start, stop], least)
            for number in epoch:
                check_number(f"left_out.{name}", number)
            count += stop - start
        if count > most:
            raise invalid_state(f"left_out.{name}", left_out[name], f"should have at most {most} {name}, not {count}")
    return LeftOutRanges(left_out["batches"], left_out["samples"])


def _range(name: str, pair: Any, least: int = 0) -> tuple[int, int]:
    start, stop = check_list(name, pair, [2])
    check_number(name, start, least=least)
    if check_number(name, stop, least=least) <= start:
        raise invalid_state(name, pair, "should be a start and a stop after it")
    return start, stop


def _layout(layout: Any) -> Any:
    # The batch size, the number of ranks and, for some states, the rank.
    for number, least in () if layout is None else zip(check_list("layout", layout, [2, 3]), (1, 1, 0), strict=False):
        if number is not None:
            check_number("layout", number, least=least)
    return layout


def _sampler(sampler: Any) -> SamplerPlace | None:
    if isinstance(sampler, (list, tuple)) and len(sampler) == 1:
        sampler = sampler[0]  # Older states have no tuple, and JSON turns tuples into lists.
    if sampler is None:
        return None
    if not check_mapping("sampler", sampler):
        raise invalid_state("sampler", sampler, "should be None or not empty")
    if "left" in sampler:
        _check_inner("sampler.left", sampler["left"])
    check_flag("sampler.has_ended", sampler.get("has_ended", False))
    return SamplerPlace.of_saved(sampler)


def _fetching(next_worker: int, workers: Any, num_workers: int) -> Fetching:
    count = max(num_workers, 1)
    check_number("next_worker", next_worker, below=count)
    if len(check_list("workers", workers)) not in (0, count):
        raise invalid_state("workers", workers, f"`num_workers` is {num_workers}")
    places = [None if place is None else _place(f"workers[{worker}]", place) for worker, place in enumerate(workers)]
    return Fetching(next_worker, places)


def _saved_place(place: PlaceState) -> list[Any]:
    facts: list[Any] = [place.states or None, place.at, place.samples, place.ended, _pairs(place.rng), place.over]
    if place.start is not None:
        facts.append(["start", _pairs(place.start)])
    if place.retired:
        facts.append(["retired", True])
    return facts


def _place(name: str, facts: Any) -> PlaceState:
    if len(check_list(name, facts)) < _FACTS:
        raise invalid_state(name, facts, f"should have at least {_FACTS} parts")
    states, at, samples, ended, rng, over = facts[:_FACTS]
    if states is not None and not states:
        raise invalid_state(f"{name}.state", states, "should be None or not empty")
    place = PlaceState({} if states is None else states, at, samples, ended)
    _check_inner(name, place.inner())
    start, retired = None, False
    for pair in facts[_FACTS:]:
        known, value = check_list(name, pair, [2])
        if known == "start":
            start = _mapping(f"{name}.start", value)
        elif known == "retired":
            retired = check_flag(f"{name}.retired", value)
        else:
            raise invalid_state(name, pair, "should be one of retired, start")
    over, rng = check_flag(f"{name}.over", over), _mapping(f"{name}.rng", rng)
    return dataclasses.replace(place, over=over, rng=rng, start=start, retired=retired)


def _check_inner(name: str, place: Any) -> None:
    """Check a place that is nested in another place or in a sampler's state."""
    check_mapping(name, place, ("state", "at", "samples", "ended"))
    states = check_mapping(f"{name}.state", place["state"])
    if not set(states) <= _OF_STREAM:
        raise invalid_state(f"{name}.state", states, f"should only have the keys {', '.join(sorted(_OF_STREAM))}")
    at = check_number(f"{name}.at", place["at"])
    if at > check_number(f"{name}.samples", place["samples"]):
        raise invalid_state(f"{name}.at", at, f"only {place['samples']} samples were read (`{name}.samples`)")
    check_flag(f"{name}.ended", place["ended"])


def _lists(ranges: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(each) for each in ranges]


def _pairs(mapping: Mapping[str, str] | None) -> list[list[str]] | None:
    return None if mapping is None else [[name, text] for name, text in mapping.items()]


def _mapping(name: str, pairs: Any) -> dict[str, str] | None:
    check_pairs(name, pairs)
    return None if pairs is None else dict(pairs)
