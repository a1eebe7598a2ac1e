"""`PlaceState`: the position in a pass over a dataset, a stream or a sampler, as a state stores it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# At most this many consecutive epochs, each left after its first sample, are read again. For those before them, the
# states that they reported are used.
_MOST_EPOCHS = 8


class Mark(NamedTuple):
    """The states that a stream reported a little earlier, after `at` samples."""

    states: Mapping[str, Any]
    at: int


@dataclass(frozen=True)
class PlaceState:
    """How far a pass is: `samples` were read, and after `at` of them the states were reported.

    Attributes:
        states: of the dataset and its iterator, by name, as `Pair.state` returns them; empty if they have none. A lazy
            stream that had reported nothing in this epoch has the place at which the previous epoch was left, "after".
        ended: True if all samples were read.
        over: True if the epoch is over, whether it ended or was left: the next one begins here.
        rng: the states of the global generators, by library.
        start: those at the start of the epoch, if the stream is read again from there.
        retired: True if the end of the stream was received, so that its worker gets no more requests.
        mark: of a lazy stream: where to resume instead once the epoch was left. It is not saved.
    """

    states: Mapping[str, Any] = field(default_factory=dict)
    at: int = 0
    samples: int = 0
    ended: bool = False
    over: bool = False
    rng: Mapping[str, str] | None = None
    start: Mapping[str, str] | None = None
    retired: bool = False
    mark: Mark | None = None

    @property
    def of_dataset(self) -> Any:
        """The state that the dataset itself reported; None if it has none."""
        return self.states.get("thing")

    @classmethod
    def exact(cls, state: Any, samples: int, ended: bool) -> PlaceState:
        """Return the place of a dataset that reported `state` after `samples` samples."""
        return cls({"thing": state}, samples, samples, ended)

    def left(self) -> PlaceState:
        """Return this place as that of an epoch that is over, ended or left: where the next epoch begins."""
        if self.over:
            return self
        place = dataclasses.replace(self, over=True, start=None, retired=False, mark=None)
        if self.mark is None or self.ended:
            return place
        if "after" not in self.mark.states:
            return dataclasses.replace(place, states=self.mark.states, at=self.mark.at)
        # Nothing earlier is known than the previous epoch.
        states = {**self.states, **self.mark.states}
        return _shortened(dataclasses.replace(place, states=states, at=0), _MOST_EPOCHS)

    def inner(self) -> dict[str, Any]:
        """Return the form of this place when it is nested in another place or in a sampler's state."""
        form = {"state": self.states, "at": self.at, "samples": self.samples, "ended": self.ended}
        return form | {"over": True} if self.over else form

    @classmethod
    def of_inner(cls, form: Mapping[str, Any]) -> PlaceState:
        """Undo `inner`."""
        return cls(form["state"], form["at"], form["samples"], form["ended"], form.get("over", False))


class Fetching(NamedTuple):
    """The worker whose turn it is, and the place of each worker, None if unknown; no places if all are unknown."""

    next_worker: int = 0
    places: Sequence[PlaceState | None] = ()


def _shortened(place: PlaceState, epochs: int) -> PlaceState:
    """Return `place` with at most `epochs` epochs before it."""
    if (after := place.states.get("after")) is None:
        return place
    states = {name: state for name, state in place.states.items() if name != "after"}
    if epochs == 0:
        return dataclasses.replace(place, states=states, at=place.samples)
    before = _shortened(PlaceState.of_inner(after), epochs - 1)
    return dataclasses.replace(place, states={**states, "after": before.inner()})
