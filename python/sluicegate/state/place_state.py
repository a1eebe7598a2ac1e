"""`PlaceState`: the position in a pass over a dataset, a stream or a sampler, as a state stores it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class PlaceState:
    """How far a pass is: `samples` were read, and after `at` of them the states were reported.

    Attributes:
        states: of the dataset and its iterator, by name, as `Pair.state` returns them; empty if they have none.
        ended: True if all samples were read.
        over: True if the epoch is over, whether it ended or was left: the next one begins here.
        rng: the states of the global generators, by library.
        start: those at the start of the epoch, if the stream is read again from there.
        retired: True if the end of the stream was received, so that its worker gets no more requests.
    """

    states: Mapping[str, Any] = field(default_factory=dict)
    at: int = 0
    samples: int = 0
    ended: bool = False
    over: bool = False
    rng: Mapping[str, str] | None = None
    start: Mapping[str, str] | None = None
    retired: bool = False

    @property
    def of_dataset(self) -> Any:
        """The state that the dataset itself reported; None if it has none."""
        return self.states.get("thing")

    @classmethod
    def exact(cls, state: Any, samples: int, ended: bool) -> PlaceState:
        """Return the place of a dataset that reported `state` after `samples` samples."""
        return cls({"thing": state}, samples, samples, ended)

    def left(self) -> PlaceState:
        """Return this place as that of an epoch that is over, ended or left: where the next epoch begins.

        A stream that was left in the middle starts over: its state does not tell what it would do next.
        """
        if self.over:
            return self
        place = dataclasses.replace(self, over=True, start=None, retired=False)
        is_in_middle = self.samples > 0 and not self.ended
        return dataclasses.replace(place, states={}, at=0, samples=0) if is_in_middle else place

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
