"""`Reports`: the workers' reports with the batches that the consumer has received."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.rng.global_generators import as_text
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.stateful import unpickled
from sluicegate.worker.report import Report


class Reports:
    """By worker: its position in the dataset after the last batch that was received from it.

    Args:
        num_workers: the number of workers.
        places: each worker's position in the state that the epoch resumes from; empty if there is none.
        next_worker: the worker whose turn it is.
    """

    def __init__(self, num_workers: int, places: Sequence[PlaceState | None], next_worker: int) -> None:
        self._places = [*places, *[None] * (num_workers - len(places))]
        self._states: list[bytes | Callable[[], PlaceState] | None] = [None] * num_workers
        self._generators: list[Any] = [None] * num_workers
        # The generators at the beginning of the epoch, for workers that took part in an earlier epoch.
        self._starts: list[Any] = [None] * num_workers
        self._next = next_worker
        # A worker's warning, until it is shown to the user.
        self.warning: str | None = None
        # Workers whose stream has ended and that get no more requests.
        self.retired = {worker for worker, place in enumerate(places) if place is not None and place.retired}

    def deliver(self, worker: int, report: Report | None) -> None:
        """Record a batch that was received."""
        self._next = (worker + 1) % len(self._places)
        if report is None:
            return
        _, state, generators, start, warning = report
        self.warning = warning if warning is not None else self.warning
        self._starts[worker] = start if start is not None else self._starts[worker]
        self._states[worker] = state if state is not None else self._states[worker]
        self._generators[worker] = generators if generators is not None else self._generators[worker]

    def note(self, answer: Any) -> None:
        """Record the report of a batch that will not be delivered."""
        self.deliver(answer.worker, answer.report)

    def retire(self, worker: int, report: Report | None) -> None:
        """Record the report of a worker whose stream had ended when its turn came."""
        turn = self._next
        self.deliver(worker, report)
        self._next = turn
        self.retired.add(worker)

    def state(self) -> Fetching:
        """Return the part of a loader's state that concerns workers.

        Raises:
            RuntimeError: a worker's dataset could not provide its state.
        """
        places = self.places()
        return Fetching(self._next, places if any(place is not None for place in places) else ())

    def places(self) -> list[PlaceState | None]:
        """Return each worker's position; None for workers that have reported nothing."""
        return [self._place(worker) for worker in range(len(self._places))]

    def left(self) -> list[PlaceState | None]:
        """Return where each worker leaves the epoch, for the next one; an empty list if that is not known."""
        # A worker that could not report its place cannot after the next batch either.
        with contextlib.suppress(RuntimeError):
            return [None if place is None else place.left() for place in self.places()]
        return []

    def _place(self, worker: int) -> PlaceState | None:
        state, generators, start = self._states[worker], self._generators[worker], self._starts[worker]
        place = copy.deepcopy(self._places[worker])
        if state is None and generators is None:
            return place
        before = place or PlaceState()
        if state is None or isinstance(state, bytes):
            reported = None if state is None else unpickled(state, f"the dataset of worker {worker}")
        else:
            reported = copy.deepcopy(state())
        place = dataclasses.replace(before, over=False) if reported is None else reported
        return dataclasses.replace(
            place,
            rng=as_text(generators) if generators is not None else place.rng or before.rng,
            start=as_text(start) if start is not None else place.start or before.start,
            retired=worker in self.retired,
        )
