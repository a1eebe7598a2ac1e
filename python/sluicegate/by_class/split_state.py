"""The state of a `StreamSplit`: of the running pass, and of every class's loader."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluicegate.loader.dataloader import DataLoader
from sluicegate.loader_state.saved_form import read, saved
from sluicegate.loader_state.state import is_one_of_many, loaded
from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.global_generators import global_state, keeping_generators, set_global_state
from sluicegate.state.checks import check_flag, check_list, check_mapping, check_number, check_pairs, invalid_state
from sluicegate.state.loader_state import LoaderState

from .next_passes import next_passes, set_next_passes
from .split_pass import SplitPass

# The version of the states that are written. A reader refuses a newer one.
VERSION = 1
_KEYS = {"version", "classes", "seen", "knows_all", "dropped", "pass", "rng", "loaders"}


@dataclass(frozen=True)
class ResumedPass:
    """The state from which a pass resumes."""

    state: dict[str, Any] | None
    dropped: Counter[Hashable]
    # The classes whose loaders are in the middle of the pass, and True for each that has had its last sample.
    going_on: Mapping[Hashable, bool]

    def read_again(self, begun: SplitPass) -> None:
        """Bring `begun` to where the state was taken; the generators are as they were then."""
        if self.state is not None:
            if asked := self.state["asked"]:
                warnings.warn(
                    f"the stream of a split_by_class is fast-forwarded: its first {asked} samples are read again",
                    UserWarning,
                    stacklevel=2,
                )
            with keeping_generators():
                begun.read_again(self.state, self.going_on)


@dataclass
class SplitPosition:
    """Where a `StreamSplit` is in its stream.

    Attributes:
        loaders: the loaders that were made, by class.
        running: the running pass; None before the first and between two.
        resumed: the state from which the next pass resumes.
        seen: the classes of the samples read so far.
        knows_all: True once a pass was read to its end.
        ending: classes that got their last sample of a pass before the loaded state was taken, but had not seen the
            end.
        awaited: the resumed pass, by class that was in the middle of it and has not been read since.
        dropped: how many samples of each class were never delivered.
    """

    loaders: dict[Hashable, DataLoader[Any]] = field(default_factory=dict)
    running: SplitPass | None = None
    resumed: ResumedPass | None = None
    seen: dict[Hashable, None] = field(default_factory=dict)
    knows_all: bool = False
    ending: set[Hashable] = field(default_factory=set)
    awaited: dict[Hashable, SplitPass] = field(default_factory=dict)
    dropped: Counter[Hashable] = field(default_factory=Counter)

    def leave(self) -> None:
        """Leave the running pass and drop the samples waiting in it."""
        self.awaited = {}
        if self.running is not None:
            self.running.close()
            self.running = None


def split_state(position: SplitPosition, classes: list[Hashable] | None, iterable: Iterable[Any]) -> dict[str, Any]:
    """Return the state of a split, as described in `StreamSplit.state_dict`.

    Args:
        position: of the split.
        classes: the classes that it was given.
        iterable: what it splits.
    """
    loaders = []
    for name, loader in position.loaders.items():
        # The generators are shared by all loaders and the pass, so they are stored once.
        state = read(DataLoader.state_dict(loader))
        # The pass rereads the samples that its classes have taken, so the loaders do not.
        places = [place and replace(place, at=place.samples) for place in state.fetching.places]
        loaders.append([name, saved(replace(state, rng=None, fetching=state.fetching._replace(places=places)))])
    begun = position.running
    if position.resumed is not None:
        running, dropped = position.resumed.state, position.resumed.dropped
    else:
        running, dropped = None if begun is None else begun.state(), position.dropped
    passes = None if running is None or begun is None else begun.passes
    return {
        "version": VERSION,
        "classes": classes,
        "seen": list(position.seen),
        "knows_all": position.knows_all,
        "dropped": [[name, count] for name, count in dropped.items()],
        "pass": running,
        **(next_passes(iterable) if passes is None else passes),
        "rng": None if is_one_of_many() else list(global_state().items()),
        "loaders": loaders,
    }


def load_split_state(
    position: SplitPosition,
    classes: list[Hashable] | None,
    iterable: Iterable[Any],
    split: Mapping[Hashable, DataLoader[Any]],
    state: Any,
) -> None:
    """Make `split` resume from `state`; see `StreamSplit.load_state_dict`.

    Args:
        position: of the split, which is set to that of the state.
        classes: the classes that the split was given.
        iterable: what it splits.
        split: makes the loaders that it does not have yet.
        state: what it was given.
    """
    if not isinstance(state, Mapping) or not set(state) >= _KEYS:
        raise ValueError(
            f"load_state_dict: expected a state of a split_by_class, but got a {type(state).__name__}; pass what "
            "state_dict() of the mapping returned"
        )
    if check_number("version", state["version"], least=1) > VERSION:
        raise ValueError(
            f"load_state_dict: expected a state of version {VERSION} or older, but got version {state['version']}; "
            "update sluicegate"
        )
    _check_parts(state)
    there = None if state["classes"] is None else [_name(name) for name in state["classes"]]
    if there != classes:
        raise ValueError(
            f"load_state_dict: expected a state saved with classes={classes}, but got one with "
            f"classes={there}; pass the same classes"
        )
    seen = {_name(name): None for name in state["seen"]}
    saved_pass = state["pass"]
    if saved_pass is not None:
        parts = [[_name(name), *rest] for name, *rest in saved_pass["parts"]]
        saved_pass = {**saved_pass, "parts": parts}
    dropped = Counter({_name(name): count for name, count in state["dropped"]})
    loaders = {_name(name): loader_state for name, loader_state in state["loaders"]}
    if lost := [name for name in loaders if name not in (there or seen)]:
        raise invalid_state("loaders", lost, f"the classes are {list(there or seen)}")
    if state["rng"] is not None:
        with keeping_generators():
            set_global_state(dict(state["rng"]))
    going_on = {
        name: any(place is not None and place.ended for place in loader_state.fetching.places)
        for name, loader_state in _checked_loaders(position, split, seen, loaders).items()
        if loader_state.in_epoch
    }
    position.leave()
    position.seen, position.knows_all = seen, state["knows_all"]
    position.resumed = ResumedPass(saved_pass, dropped, going_on)
    set_next_passes(iterable, state)
    position.ending = {name for name, had_last in going_on.items() if had_last}
    position.dropped = Counter(dropped)
    for name, loader_state in loaders.items():
        DataLoader.load_state_dict(split[name], loader_state)
    if state["rng"] is not None:
        set_global_state(dict(state["rng"]))


def _check_parts(state: Mapping[str, Any]) -> None:
    """Refuse states that no `split_by_class` writes; the loaders check their own states."""
    check_flag("knows_all", state["knows_all"])
    check_pairs("rng", state["rng"])
    check_list("seen", state["seen"])
    if state["classes"] is not None:
        check_list("classes", state["classes"])
    for each in check_list("dropped", state["dropped"]):
        check_number("dropped", check_list("dropped", each, [2])[1])
    for each in check_list("loaders", state["loaders"]):
        check_mapping("loaders", check_list("loaders", each, [2])[1])
    if state["pass"] is None:
        return
    saved_pass = check_mapping("pass", state["pass"], ("asked", "ended", "parts", "start"))
    check_flag("pass.ended", saved_pass["ended"])
    check_pairs("pass.start", saved_pass["start"])
    taken = 0
    for each in check_list("pass.parts", saved_pass["parts"]):
        _, number, is_taken, is_left = check_list("pass.parts", each, [4])
        taken += check_number("pass.parts", number)
        check_flag("pass.parts", is_taken)
        check_flag("pass.parts", is_left)
    if taken > check_number("pass.asked", saved_pass["asked"]):
        raise invalid_state("pass.asked", saved_pass["asked"], f"{taken} samples were taken")


def _checked_loaders(
    position: SplitPosition,
    split: Mapping[Hashable, DataLoader[Any]],
    seen: dict[Hashable, None],
    states: Mapping[Hashable, Any],
) -> dict[Hashable, LoaderState]:
    """Return the parsed states of the loaders of `split`, before any loader has loaded its state."""
    before, loaders = position.seen, dict(position.loaders)
    position.seen = seen  # Otherwise it would read ahead for a class that is new to it.
    try:
        return {name: loaded(LoaderSettings.of(split[name]), 0, state, True) for name, state in states.items()}
    except ValueError:
        position.loaders = loaders
        raise
    finally:
        position.seen = before


def _name(name: Any) -> Hashable:
    """Return the original class name: JSON has lists in place of tuples."""
    if isinstance(name, (list, tuple)):
        return tuple(map(_name, name))
    try:
        hash(name)
    except TypeError:
        raise invalid_state("classes", name, "should be a class: text, a number, or a list of them") from None
    return name  # type: ignore[no-any-return]
