"""What workers said beside their batches, as far as the consumer has received them."""

from __future__ import annotations

import copy
from typing import Any

from .global_generators import as_text
from .report import Report
from .stateful import Untold, unpickled


class Reports:
    """By worker: where it was in its dataset when it had made the batch that was received from it last.

    Args:
        num_workers: the number of workers.
        places: where each was when the state was taken that the epoch goes on from; empty when there is none.
        next_worker: whose turn it is.
    """

    def __init__(self, num_workers: int, places: list[dict[str, Any] | None], next_worker: int) -> None:
        self._places = [*places, *[None] * (num_workers - len(places))]
        self._states: list[bytes | None] = [None] * num_workers
        self._generators: list[Any] = [None] * num_workers
        # The generators when the worker began the epoch, of those that worked in one before.
        self._starts: list[Any] = [None] * num_workers
        self._next = next_worker
        # What a worker warns of, until the user is told.
        self.warning: str | None = None
        # Those whose stream has ended, and who are not asked any more.
        self.retired = {worker for worker, place in enumerate(places) if place is not None and place.get("retired")}

    def deliver(self, worker: int, report: Report | None) -> tuple[int, int, list[Any] | Untold | None] | None:
        """Takes note of a batch that is received, and returns which samples of its stream are in it."""
        self._next = (worker + 1) % len(self._places)
        if report is None:
            return None
        last, state, generators, start, warning = report
        self.warning = warning if warning is not None else self.warning
        self._starts[worker] = start if start is not None else self._starts[worker]
        self._states[worker] = state if state is not None else self._states[worker]
        self._generators[worker] = generators if generators is not None else self._generators[worker]
        return last

    def note(self, answer: Any) -> None:
        """Takes note of what a worker said beside a batch that nobody receives."""
        self.deliver(answer.worker, answer.report)

    def retire(self, worker: int, report: Report | None) -> None:
        """Takes note of what a worker said when its turn came and its stream had ended."""
        turn = self._next
        self.deliver(worker, report)
        self._next = turn
        self.retired.add(worker)

    def state(self) -> dict[str, Any]:
        """As a state keeps it, wherever the consumer is.

        Raises:
            RuntimeError: a worker's dataset could not say where it is.
        """
        places = self.places()
        return {"next_worker": self._next, "workers": places if any(place is not None for place in places) else []}

    def places(self) -> list[dict[str, Any] | None]:
        """Where each worker is; None of those that have said nothing."""
        return [self._place(worker) for worker in range(len(self._places))]

    def _place(self, worker: int) -> dict[str, Any] | None:
        state, generators = self._states[worker], self._generators[worker]
        place = copy.deepcopy(self._places[worker])
        if state is None and generators is None:
            return place
        if place is None:
            place = {"state": {}, "at": 0, "samples": 0, "ended": False, "rng": None}
        place["over"] = False
        if state is not None:
            place |= unpickled(state, f"the dataset of worker {worker}") or {}
        if generators is not None:
            place["rng"] = as_text(generators)
        if (start := self._starts[worker]) is not None:
            place["start"] = as_text(start)
        if worker in self.retired:
            place["retired"] = True
        return place
