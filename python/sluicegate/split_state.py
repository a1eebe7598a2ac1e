"""The state of a `StreamSplit`: of the pass that runs, and of every class's loader."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dataloader import DataLoader
from .global_generators import global_state, keeping_generators, set_global_state
from .split_pass import SplitPass
from .state import PLACE, is_one_of_many

if TYPE_CHECKING:
    from .split_by_class import StreamSplit

# The version of the states that are written. A reader refuses a newer one.
VERSION = 1
# Where a loader's state has, of its stream's place, after how many samples it was told, how many were read, and whether
# they were all.
_AT, _SAMPLES, _ENDED = (PLACE.index(name) for name in ("at", "samples", "ended"))
_KEYS = {"version", "classes", "seen", "knows_all", "dropped", "pass", "rng", "loaders"}


@dataclass(frozen=True)
class ResumedPass:
    """What a pass goes on from."""

    state: dict[str, Any] | None
    dropped: Counter[Hashable]
    # The classes whose loaders are in the midst of the pass, and whether they have had their last sample.
    going_on: Mapping[Hashable, bool]

    def read_again(self, begun: SplitPass) -> None:
        """Brings `begun` to where the state was taken; the generators are where they were then."""
        if self.state is not None:
            if asked := self.state["asked"]:
                warnings.warn(
                    f"the stream of a split_by_class is fast-forwarded: its first {asked} samples are read again",
                    UserWarning,
                    stacklevel=2,
                )
            with keeping_generators():
                begun.read_again(self.state, self.going_on)


def split_state(split: StreamSplit) -> dict[str, Any]:
    """The state of `split`, as `StreamSplit.state_dict` describes it."""
    loaders = []
    for name, loader in split._loaders.items():
        # The generators are those of all loaders, and the pass's.
        told = DataLoader.state_dict(loader) | {"rng": None}
        for place in told["workers"]:
            # The pass reads again what its classes have had: their loaders have nothing to read.
            place[_AT] = place[_SAMPLES]
        loaders.append([name, told])
    if split._resumed is not None:
        running, dropped = split._resumed.state, split._resumed.dropped
    else:
        running, dropped = None if split._pass is None else split._pass.state(), split.dropped
    return {
        "version": VERSION,
        "classes": split._rule.classes,
        "seen": split.classes_seen,
        "knows_all": split._knows_all,
        "dropped": [[name, count] for name, count in dropped.items()],
        "pass": running,
        "rng": None if is_one_of_many() else list(global_state().items()),
        "loaders": loaders,
    }


def load_split_state(split: StreamSplit, state: Any) -> None:
    """Has `split` go on from `state`; see `StreamSplit.load_state_dict`."""
    if not isinstance(state, Mapping) or not set(state) >= _KEYS:
        raise ValueError(
            f"load_state_dict: this {type(state).__name__} is no state of a split_by_class: give what state_dict() of "
            "the mapping returned"
        )
    if state["version"] > VERSION:
        raise ValueError(
            f"load_state_dict: the state has version {state['version']}, and this is sluicegate with states of version "
            f"{VERSION}: update sluicegate"
        )
    there = None if state["classes"] is None else [_name(name) for name in state["classes"]]
    if there != split._rule.classes:
        raise ValueError(
            f"load_state_dict: the state was saved with classes={there}, and this split_by_class has "
            f"classes={split._rule.classes}: give the same"
        )
    split._seen = {_name(name): None for name in state["seen"]}
    split._knows_all = state["knows_all"]
    told = state["pass"]
    if told is not None:
        parts = [[_name(name), *rest] for name, *rest in told["parts"]]
        told = {**told, "parts": parts}
    dropped = Counter({_name(name): count for name, count in state["dropped"]})
    going_on = {
        _name(name): any(place is not None and place[_ENDED] for place in loader_state["workers"])
        for name, loader_state in state["loaders"]
        if loader_state["in_epoch"]
    }
    split._resumed = ResumedPass(told, dropped, going_on)
    split.dropped = Counter(dropped)
    for name, loader_state in state["loaders"]:
        DataLoader.load_state_dict(split[_name(name)], loader_state)
    if state["rng"] is not None:
        set_global_state(dict(state["rng"]))


def _name(name: Any) -> Hashable:
    """A class as it was: JSON has lists in the place of tuples."""
    return tuple(map(_name, name)) if isinstance(name, list) else name
