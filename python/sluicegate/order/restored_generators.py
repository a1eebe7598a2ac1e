"""`RestoredGenerators`: which loader's state has set the global generators last."""

from __future__ import annotations

from sluicegate.state.loader_state import LoaderState


class RestoredGenerators:
    """Notes which loader's state has set the global generators last, so that another loader's state does not again.

    A checkpoint of a program with several loaders has the same global generators in each state. In the program that
    was not interrupted, a loader that begins its epoch later draws from what the others have left of them.

    Attributes:
        count: how many states have set them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: LoaderState | None = None

    def note(self, state: LoaderState) -> None:
        """Record that `state` sets them."""
        self.count += 1
        self._last = state

    def are_of_another(self, state: LoaderState, since: int) -> bool:
        """Return True if another loader's state has set them to those of `state` when `count` was over `since`.

        Equal states may be those of one loader, of which several copies are resumed.
        """
        last = self._last
        if last is None or self.count <= since or last.rng != state.rng:
            return False
        return _place(last) != _place(state)


def _place(state: LoaderState) -> tuple[object, ...]:
    return state.fingerprint, state.epoch, state.in_epoch, state.batches_received, state.draws


# Of this process, as the generators are.
RESTORED = RestoredGenerators()
