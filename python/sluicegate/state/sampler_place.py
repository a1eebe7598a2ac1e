"""`SamplerPlace`: the position of a user-defined sampler with a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .place_state import PlaceState


@dataclass(frozen=True)
class SamplerPlace:
    """Where a sampler is: after a batch, or where an epoch left it.

    Attributes:
        states: of the sampler and its iterator, by name, as `Pair.state` returns them.
        has_ended: True if all indices were taken.
        left: where the epoch was left; the other values are unknown then.
    """

    states: Mapping[str, Any] = field(default_factory=dict)
    has_ended: bool = False
    left: PlaceState | None = None

    def place_after(self, indices: int) -> PlaceState:
        """Return the place of a pass that has taken `indices` indices; of an epoch that was left, where that was."""
        return self.left or PlaceState(self.states, indices, indices, self.has_ended)

    def saved(self) -> dict[str, Any]:
        """Return the form in which a state contains it."""
        return {**self.states, "has_ended": self.has_ended} if self.left is None else {"left": self.left.inner()}

    @classmethod
    def of_saved(cls, form: Mapping[str, Any]) -> SamplerPlace:
        """Undo `saved`."""
        if "left" in form:
            return cls(left=PlaceState.of_inner(form["left"]))
        states = {name: state for name, state in form.items() if name != "has_ended"}
        return cls(states, form.get("has_ended", False))
