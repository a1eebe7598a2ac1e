"""`LoaderProgress`: how far a loader is, from epoch to epoch."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping

from sluicegate.rng.global_generators import fresh_seed, global_state, set_global_state
from sluicegate.state.loader_state import LoaderState
from sluicegate.state.sampler_place import SamplerPlace

from . import draws
from .epoch_progress import EpochProgress
from .epochs import Epochs
from .left_out import LeftOut
from .restored_generators import RESTORED
from .sampler_stream import place_now
from .settings import LoaderSettings

# The state from which an iterator without a loaded state resumes.
_START = LoaderState()


class LoaderProgress:
    """How far a loader is. It outlives the loader's iterators; they belong to the loader, not to this.

    Args:
        first_epoch: the number of the loader's first epoch.

    Attributes:
        epochs: the number of the next epoch.
        left_out: what to leave out of epochs.
        pending: the loaded state that the next iterator resumes from; None if that begins an epoch.
        latest: the progress of the running epoch, or of the last one. None before the first, and after a state was
            loaded.
    """

    def __init__(self, first_epoch: int = 0) -> None:
        self.epochs = Epochs(first_epoch)
        self.left_out = LeftOut()
        self.pending: LoaderState | None = None
        # Torch's seed when that state was loaded, if nothing was drawn since it was set.
        self._seed_at_load: int | None = None
        self._restored_at_load = 0
        self.latest: EpochProgress | None = None

    @property
    def running(self) -> EpochProgress | None:
        """The progress of the running epoch; None if the last one has ended."""
        latest = self.latest
        return None if latest is None or latest.finished else latest

    @property
    def epoch(self) -> int:
        """The running epoch, or the next one if none is running."""
        running = self.running
        return self.epochs.next if running is None else running.epoch

    def resume(self, state: LoaderState, left_out: LeftOut) -> None:
        """Have the next iterator resume from `state`, with `left_out` left out."""
        self.pending, self.left_out = state, left_out
        self.epochs.next = state.epoch
        self._seed_at_load, self._restored_at_load = fresh_seed(), RESTORED.count

    def begin(self, settings: LoaderSettings) -> EpochProgress:
        """Return the progress of an iterator that begins now: from the loaded state, once, or from an epoch's start.

        Args:
            settings: of the iterator. A sampler that the loader is given later is for the next one.
        """
        pending, self.pending = self.pending, None
        outer = None
        if pending is not None and settings.seed is None and pending.draws is not None:
            pending, outer = self._put_generators(pending, pending.draws, settings)
        take = functools.partial(draws.take, settings) if settings.seed is None else None
        progress = EpochProgress(self.epochs, self.left_out, _START if pending is None else pending, take)
        progress.draws.outer = outer
        if self.latest is not None:
            _hand_on(self.latest, progress, is_resumed=pending is not None)
        elif pending is None:
            progress.sampler.at_first = self.sampler_place_now(settings)
        self.latest = progress
        return progress

    def _put_generators(
        self, pending: LoaderState, there: Mapping[str, str], settings: LoaderSettings
    ) -> tuple[LoaderState, dict[str, str] | None]:
        """Set the generators that the epoch is drawn from to `there`, where they were before its first draw.

        Returns:
            The state to resume from, and the global generators to return to after the draws, if they are not those of
            the state.
        """
        outer = None
        if not pending.in_epoch and (self._was_seeded() or self._was_restored(pending)):
            # The user, or another loader, has set the global generators for the epoch that begins.
            there = draws.take(settings).as_text() | draws.own_in(there)
            pending = dataclasses.replace(pending, draws=there)
        elif pending.rng is None:
            outer = global_state()  # From one rank of many: this rank's generators stay unchanged.
        else:
            RESTORED.note(pending)
            if not pending.in_epoch:
                set_global_state(pending.rng)
        draws.put(settings, there)
        return pending, outer

    def _was_seeded(self) -> bool:
        """Return True if torch was seeded after the state was loaded, just now: for the epoch that begins."""
        seed = fresh_seed()
        return seed is not None and seed != self._seed_at_load

    def _was_restored(self, state: LoaderState) -> bool:
        """Return True if another loader's state of the same moment has set the global generators after the load."""
        return state.rng is not None and RESTORED.were_set_by_another(state, self._restored_at_load)

    @staticmethod
    def sampler_place_now(settings: LoaderSettings) -> SamplerPlace | None:
        """Return where the user-defined, stateful sampler of a loader is that has not begun; None if it has none."""
        if settings.is_known or settings.is_stream or settings.ordering is not None:
            return None
        return place_now(settings.index_sampler)

    def copied(self) -> LoaderProgress:
        """Return the progress of a copy of the loader, which counts its own epochs, has its own skips, and is idle."""
        other = LoaderProgress()
        other.epochs = copy.copy(self.epochs)
        other.left_out = LeftOut.of(self.left_out.ranges())
        other.pending, other._seed_at_load = self.pending, self._seed_at_load
        other._restored_at_load = self._restored_at_load
        return other


def _hand_on(before: EpochProgress, progress: EpochProgress, *, is_resumed: bool) -> None:
    """Pass on to `progress` where the epoch before it, which is over, has left the sampler and the stream."""
    if not is_resumed:
        progress.places_before = before.leave()
        if not before.is_drawn:
            progress.sampler.untold = before.sampler.untold
        if not before.finished:
            left = before.sampler.leave(before.is_drawn)
            progress.sampler.before = lambda: left
    if before.finished:
        progress.sampler.before = before.sampler_place
    # Otherwise each would keep all that came before it alive.
    before.sampler.before = before.sampler.stream = None
