"""Checks that a state was not changed, before it is used. Errors name the key."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from typing import Any

_LISTS = (list, tuple)
_REMEDY = "pass the dict that state_dict() returned"


def invalid_state(name: str, value: Any, what: str) -> ValueError:
    """Return the error for a state in which `name` is `value`, which no loader writes."""
    return ValueError(f"load_state_dict: invalid state: `{name}` is {reprlib.repr(value)}, but {what}; {_REMEDY}")


def check_number(name: str, value: Any, below: int = 2**63, least: int = 0) -> int:
    """Return `value` if it is an integer from `least` to `below` - 1.

    Raises:
        ValueError: not an integer, below `least`, or not below `below`.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid_state(name, value, "should be an integer")
    if value < least:
        raise invalid_state(name, value, f"should be at least {least}")
    if value >= below:
        raise invalid_state(name, value, f"should be below {below}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, bool):
        raise invalid_state(name, value, "should be True or False")
    return value


def check_list(name: str, value: Any, lengths: Collection[int] | None = None) -> Any:
    """Return `value` if it is a list or tuple with one of these lengths.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, _LISTS):
        raise invalid_state(name, value, "should be a list")
    if lengths is not None and len(value) not in lengths:
        raise invalid_state(name, value, f"should have {' or '.join(map(str, lengths))} parts")
    return value


def check_mapping(name: str, value: Any, needed: Collection[str] = ()) -> Mapping[str, Any]:
    """Return `value` if it is a mapping with these keys.

    Raises:
        ValueError: not a mapping, or a key is missing.
    """
    if not isinstance(value, Mapping):
        raise invalid_state(name, value, "should be a mapping")
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
            raise invalid_state(name, pair, "should be a name and the state of a generator, both text")


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
            raise invalid_state("inner", None, f"`read` is {state['read']}")
    else:
        ordinal, source, first, _ = map(check_number, ["inner"] * 4, check_list("inner", state["inner"], [4]))
        if source > sources or first > ordinal or (state["read"] > ordinal and not state.get("consumed")):
            raise invalid_state("inner", state["inner"], f"`read` is {state['read']}, and `sources` is {sources}")
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
        raise invalid_state(name, snapshot, f"`read` is {read}")
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
            raise invalid_state("held", state["held"], f"`read` is {read}, after {since}")
    if len(set(state["held"])) != len(state["held"]) or len(state["held"]) + yielded != read:
        raise invalid_state("held", state["held"], f"`read` is {read}, and `yielded` is {yielded}")
    if state["ended"] and (state["held"] or not has_ended):
        raise invalid_state("ended", True, "the buffer still holds samples, or its stream has more")
