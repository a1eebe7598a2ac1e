"""`MapPlace`: the position in a pass over a map-style dataset, which may have a state."""

from __future__ import annotations

from typing import Any

from .place_state import PlaceState
from .stateful import is_stateful, restore


class MapPlace:
    """The place of a pass over a map-style dataset: nothing but the dataset's own state.

    Args:
        dataset: the dataset.
        resumed: an earlier result of `state`, which the dataset is restored from.
    """

    def __init__(self, dataset: Any, resumed: PlaceState | None = None) -> None:
        if resumed is not None and "thing" in resumed.states:
            restore(dataset, resumed.states["thing"])
        self.is_stateful = is_stateful(dataset)
        self._dataset: Any = dataset if self.is_stateful else None

    def state(self) -> PlaceState:
        """Return the place in the form that a state keeps."""
        return PlaceState({"thing": self._dataset.state_dict()} if self.is_stateful else {})
