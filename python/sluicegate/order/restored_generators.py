"""`RestoredGenerators`: which loader's state has set the global generators last."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.state.loader_state import LoaderState


class RestoredGenerators:
    """Records which loader's state has set the global generators last, so that each checkpoint sets them only once.

    A checkpoint of a program with several loaders has the same global generators in each state. In the program that
    was not interrupted, a loader that begins its epoch later draws from the generators after the others have drawn.

    Attributes:
        count: how many states have set them.
    """

    def __init__(self) -> None:
        self.count = 0
        # The generators that were set last, and by what. Not the whole state, which may hold large user objects.
        self._generators: Mapping[str, str] | None = None
        self._by: tuple[object, ...] = ()

    def note(self, state: LoaderState) -> None:
        """Record that `state` sets them."""
        self.count += 1
        self._generators, self._by = state.rng, _place(state)

    def were_set_by_another(self, state: LoaderState, since: int) -> bool:
        """Return True if another loader's state has set them to those of `state` when `count` was over `since`.

        Equal states may be those of one loader, of which several copies are resumed.
        """
        return self.count > since and self._generators == state.rng and self._by != _place(state)


def _place(state: LoaderState) -> tuple[object, ...]:
    return state.fingerprint, state.epoch, state.in_epoch, state.batches_received, state.draws


# Of this process, as the generators are.
RESTORED = RestoredGenerators()
