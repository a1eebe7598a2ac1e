"""Checks that a state was not changed, before it is used. Errors name the key."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from typing import Any

_LISTS = (list, tuple)
# Above the known length of an epoch, ranges with more numbers than this are not expanded to sets.
_MOST_AHEAD, _MOST_LEFT_OUT = 2**20, 2**24
_FLAGS = ("drawn", "finished", "in_epoch", "begins_iterator", "sampler_is_over")
_COUNTERS = ("epoch", "batches_received", "position", "num_workers", "next_worker")
# The number of facts that a loader saves of each worker; after them come pairs that only some workers have.
_PLACE_LENGTH = 6
_OF_PLACE = {"start", "retired"}
_OF_STREAM = {"thing", "iterator", "after"}
_REMEDY = "pass the dict that state_dict() returned"


def was_changed(name: str, value: Any, what: str) -> ValueError:
    """Return the error for a state in which `name` is `value`, which no loader writes."""
    return ValueError(f"load_state_dict: invalid state: `{name}` is {reprlib.repr(value)}, but {what}; {_REMEDY}")


def check_number(name: str, value: Any, below: int = 2**63, least: int = 0) -> int:
    """Return `value` if it is an integer from `least` to `below` - 1.

    Raises:
        ValueError: not an integer, below `least`, or not below `below`.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise was_changed(name, value, "should be an integer")
    if value < least:
        raise was_changed(name, value, f"should be at least {least}")
    if value >= below:
        raise was_changed(name, value, f"should be below {below}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, bool):
        raise was_changed(name, value, "should be True or False")
    return value


def check_list(name: str, value: Any, lengths: Collection[int] | None = None) -> Any:
    """Return `value` if it is a list or tuple with one of these lengths.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, _LISTS):
        raise was_changed(name, value, "should be a list")
    if lengths is not None and len(value) not in lengths:
        raise was_changed(name, value, f"should have {' or '.join(map(str, lengths))} parts")
    return value


def check_mapping(name: str, value: Any, needed: Collection[str] = ()) -> Mapping[str, Any]:
    """Return `value` if it is a mapping with these keys.

    Raises:
        ValueError: not a mapping, or a key is missing.
    """
    if not isinstance(value, Mapping):
        raise was_changed(name, value, "should be a mapping")
    if lost := [key for key in needed if key not in value]:
        raise ValueError(f"load_state_dict: invalid state: `{name}` is missing {', '.join(lost)}; {_REMEDY}")
    return value


def check_pairs(name: str, value: Any) -> None:
    """Check that `value` has named states of generators.

    Raises:
        ValueError: neither None nor a list of pairs of strings.
    """
    for pair in () if value is None else check_list(name, value):
        if not all(isinstance(part, str) for part in check_list(name, pair, [2])):
            raise was_changed(name, pair, "should be a name and the state of a generator, both text")


def check_loader_state(state: Mapping[str, Any]) -> None:
    """Check the parts of a loader's state, as it was saved.

    States that user-defined datasets, iterators and samplers have returned are not examined.

    Raises:
        ValueError: a part has the wrong type, is out of range, or contradicts another.
    """
    check_number("version", state["version"], least=1)
    for name in _COUNTERS:
        check_number(name, state[name])
    for name in _FLAGS:
        check_flag(name, state[name])
    check_mapping("fingerprint", state["fingerprint"])
    _check_ahead(state["received_ahead"], state["batches_received"])
    _check_left_out(check_mapping("left_out", state["left_out"], ("batches", "samples")), state["fingerprint"])
    if state["layout"] is not None:
        for number in [each for each in check_list("layout", state["layout"], [2]) if each is not None]:
            check_number("layout", number, least=1)
    for name in ("draws", "rng"):
        check_pairs(name, state[name])
    for name in ("base_seed", "epoch_told", "requests_drawn"):
        if state.get(name) is not None:  # Older states lack the epoch told and the requests drawn ahead.
            check_number(name, state[name])
    if (state.get("requests_drawn") or 0) - state["batches_received"] > _MOST_AHEAD:
        raise was_changed(
            "requests_drawn", state["requests_drawn"], f"should be at most `batches_received` + {_MOST_AHEAD}"
        )
    if state["order"] is not None and not isinstance(state["order"], str):
        raise was_changed("order", state["order"], "should be the state of a generator, as text")
    check_number("replay", state.get("replay", 0))
    _check_sampler(state["sampler"])
    if state["in_epoch"] and state["finished"]:
        raise was_changed("finished", True, "`in_epoch` is True, so the epoch has not ended")
    begun = [name for name in ("batches_received", "position", "received_ahead", "drawn") if state[name]]
    if begun and not state["in_epoch"]:
        raise was_changed("in_epoch", False, f"`{begun[0]}` is {reprlib.repr(state[begun[0]])}")
    if state["batches_received"] and not state["drawn"]:
        raise was_changed("drawn", False, f"`batches_received` is {state['batches_received']}")
    workers = max(state["num_workers"], 1)
    check_number("next_worker", state["next_worker"], below=workers)
    if len(check_list("workers", state["workers"])) not in (0, workers):
        raise was_changed("workers", state["workers"], f"`num_workers` is {state['num_workers']}")
    for worker, place in enumerate(state["workers"]):
        if place is not None:
            _check_worker(f"workers[{worker}]", place)


def _check_worker(name: str, place: Any) -> None:
    check_list(name, place)
    if len(place) < _PLACE_LENGTH:
        raise was_changed(name, place, f"should have at least {_PLACE_LENGTH} parts")
    state, at, samples, ended, rng, is_over = place[:_PLACE_LENGTH]
    told = {"state": {} if state is None else state, "at": at, "samples": samples, "ended": ended}
    if state is not None and not state:
        raise was_changed(f"{name}.state", state, "should be None or not empty")
    _check_place(name, told)
    check_flag(f"{name}.over", is_over)
    check_pairs(f"{name}.rng", rng)
    for pair in place[_PLACE_LENGTH:]:
        known, value = check_list(name, pair, [2])
        if not isinstance(known, str) or known not in _OF_PLACE:
            raise was_changed(name, pair, f"should be one of {', '.join(sorted(_OF_PLACE))}")
        if known == "start":
            check_pairs(f"{name}.start", value)
        else:
            check_flag(f"{name}.retired", value)


def _check_place(name: str, place: Any) -> None:
    check_mapping(name, place, ("state", "at", "samples", "ended"))
    state = check_mapping(f"{name}.state", place["state"])
    if not set(state) <= _OF_STREAM:
        raise was_changed(f"{name}.state", state, f"should only have the keys {', '.join(sorted(_OF_STREAM))}")
    at = check_number(f"{name}.at", place["at"])
    if at > check_number(f"{name}.samples", place["samples"]):
        raise was_changed(f"{name}.at", at, f"`{name}.samples`, which were read, is {place['samples']}")
    check_flag(f"{name}.ended", place["ended"])
    if state.get("after") is not None:
        _check_place(f"{name}.state.after", state["after"])


def _check_sampler(state: Any) -> None:
    if state is None:
        return
    if not check_mapping("sampler", state):
        raise was_changed("sampler", state, "should be None or not empty")
    if "left" in state:
        _check_place("sampler.left", state["left"])
    check_flag("sampler.has_ended", state.get("has_ended", False))


def _check_ahead(ranges: Any, received: int) -> None:
    count, last = 0, received - 1
    for each in check_list("received_ahead", ranges):  # Older states list the numbers themselves.
        start, stop = (each, each + 1) if type(each) is int else _checked_range("received_ahead", each)
        if start <= last:
            raise was_changed("received_ahead", each, f"should be after batch {last}")
        last, count = stop - 1, count + stop - start
    if count > _MOST_AHEAD:
        raise was_changed("received_ahead", ranges, f"should have at most {_MOST_AHEAD} batches, not {count}")


def _check_left_out(left_out: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    length = fingerprint.get("dataset_len")
    most = max(_MOST_LEFT_OUT, length if type(length) is int else 0)
    for name, least in (("batches", 0), ("samples", -(2**63))):
        count = 0
        for each in check_list(f"left_out.{name}", left_out[name]):
            *epoch, start, stop = check_list(f"left_out.{name}", each, [3 if name == "batches" else 2])
            start, stop = _checked_range(f"left_out.{name}", [start, stop], least)
            for number in epoch:
                check_number(f"left_out.{name}", number)
            count += stop - start
        if count > most:
            raise was_changed(f"left_out.{name}", left_out[name], f"should have at most {most} {name}, not {count}")


def _checked_range(name: str, pair: Any, least: int = 0) -> tuple[int, int]:
    start, stop = check_list(name, pair, [2])
    check_number(name, start, least=least)
    if check_number(name, stop, least=least) <= start:
        raise was_changed(name, pair, "should be a start and a stop after it")
    return start, stop


def check_reached(state: Mapping[str, Any], batches: int | None, positions: int | None) -> None:
    """Check that the place of a state, whose parts are checked, exists in its epoch.

    Args:
        state: of a loader.
        batches: the most batches that the epoch can have; None if unknown.
        positions: the highest value of `position`; None if unknown.

    Raises:
        ValueError: the place is after the epoch's end.
    """
    if positions is not None and state["position"] > positions:
        raise was_changed("position", state["position"], f"the epoch has {positions}")
    batches = 2**63 if batches is None else batches
    if state["batches_received"] > batches:
        raise was_changed("batches_received", state["batches_received"], f"the epoch has {batches}")
    for each in state["received_ahead"]:
        if (each + 1 if isinstance(each, int) else each[1]) > batches:
            raise was_changed("received_ahead", each, f"the epoch has {batches} batches")


def check_stream_state(state: Mapping[str, Any], needed: Collection[str], sources: int | None) -> None:
    """Check the parts of the state of a `ResumableStream`.

    Args:
        state: of the stream.
        needed: the keys that it must have.
        sources: the number of sources of a stream that reads a format; None for one that reads another iterable.

    Raises:
        ValueError: a part has the wrong type, is out of range, or contradicts another.
    """
    check_mapping("state", state, needed)
    check_number("epoch", state["epoch"], below=2**64)
    check_number("reader", state.get("reader", 0))
    check_flag("ended", state["ended"])
    read = check_number("read", state["read"])
    consumer = check_mapping("consumer", state["consumer"], ("rank", "world_size", "worker", "num_workers"))
    for number, count in (("rank", "world_size"), ("worker", "num_workers")):
        among = check_number(f"consumer.{count}", consumer[count], least=1)
        check_number(f"consumer.{number}", consumer[number], among)
    if sources is not None:
        _check_native(state, sources)
    else:
        since = _check_snapshot("inner", state["inner"], read)
        if "held" in needed:
            _check_held(state, since)


def _check_native(state: Mapping[str, Any], sources: int) -> None:
    if state["inner"] is None:
        if state["read"]:
            raise was_changed("inner", None, f"`read` is {state['read']}")
    else:
        ordinal, source, first, _ = map(check_number, ["inner"] * 4, check_list("inner", state["inner"], [4]))
        if source > sources or first > ordinal or (state["read"] > ordinal and not state.get("consumed")):
            raise was_changed("inner", state["inner"], f"`read` is {state['read']}, and `sources` is {sources}")
    check_number("run", state.get("run", 1), least=1)
    for each in check_list("consumed", state.get("consumed", [])):
        workers, run, until, held = check_list("consumed", each, [4])
        check_number("consumed", run, least=1)
        check_list("consumed", until, [check_number("consumed", workers, least=1)])
        for number in (*until, *check_list("consumed", held)):
            check_number("consumed", number)


def _check_snapshot(name: str, snapshot: Any, read: int) -> int:
    if snapshot is None:
        return 0
    since = check_number(f"{name}.read", check_mapping(name, snapshot, ["read"])["read"])
    if since > read or (since and not {"iterable", "iterator"} & set(snapshot)):
        raise was_changed(name, snapshot, f"`read` is {read}")
    if (after := snapshot.get("after")) is not None:
        check_mapping(f"{name}.after", after, ("snapshot", "read", "ended"))
        check_flag(f"{name}.after.ended", after["ended"])
        _check_snapshot(f"{name}.after.snapshot", after["snapshot"], check_number(f"{name}.after.read", after["read"]))
    return since


def _check_held(state: Mapping[str, Any], since: int) -> None:
    if state["seed"] is not None:
        check_number("seed", state["seed"], below=2**64)
    has_ended = check_flag("stream_ended", state.get("stream_ended", state["ended"]))
    read, yielded = state["read"], check_number("yielded", state["yielded"])
    for ordinal in check_list("held", state["held"]):
        if not since <= check_number("held", ordinal) < read:
            raise was_changed("held", state["held"], f"`read` is {read}, after {since}")
    if len(set(state["held"])) != len(state["held"]) or len(state["held"]) + yielded != read:
        raise was_changed("held", state["held"], f"`read` is {read}, and `yielded` is {yielded}")
    if state["ended"] and (state["held"] or not has_ended):
        raise was_changed("ended", True, "the buffer still holds samples, or its stream has more")
