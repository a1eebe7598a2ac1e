"""`WorkerDraws`: the random number generators that torch's worker processes would have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from sluicegate import _torch
from sluicegate.recognition.worker_seeding import seeded_by
from sluicegate.rng.generator_pair import GeneratorPair, States
from sluicegate.rng.generator_state import NumpyAccess
from sluicegate.rng.global_generators import state_text
from sluicegate.state.place_state import Fetching, PlaceState


class WorkerDraws:
    """The generators of torch's worker processes, for threads that read instead of them.

    Worker w of torch's loader seeds its generators with the base seed plus w and uses them in the order of its batches;
    if workers persist, from one epoch to the next. Here the draws of a batch are made when it is requested.

    Attributes:
        on_delivery: True if they are made when it is delivered instead, within `drawing`.
        from_python: True if they may be made from Python's generator, not only from torch's.

    Args:
        base_seed: the seed of worker 0.
        num_workers: the number of workers.
        places: by worker, its part of a state; empty if there is none.
        first: the worker that the first batch belongs to.
        init_fn: the `worker_init_fn`, which only seeds generators, or None.

    Raises:
        Exception: what `init_fn` raises.
    """

    def __init__(
        self,
        base_seed: int,
        num_workers: int,
        places: Sequence[PlaceState | None] = (),
        first: int = 0,
        init_fn: Callable[[int], object] | None = None,
    ) -> None:
        self.on_delivery = self.from_python = False
        self._base_seed, self._num_workers = base_seed, num_workers
        # Nothing draws from NumPy's, so that its state is only kept.
        self._numpys: list[str | None] = [None] * num_workers
        self._generators = [GeneratorPair.of_seed(base_seed + worker) for worker in range(num_workers)]
        self._has_drawn = [False] * num_workers
        if init_fn is not None:
            for worker in range(num_workers):
                self._set(worker, seeded_by(init_fn, base_seed, worker))
        for worker, place in enumerate(places):
            if place is not None and place.rng is not None:
                self._set(worker, place.rng)
                self._has_drawn[worker] = True
        self._ways = [generators.access() for generators in self._generators]
        self._workers: dict[int, int] = {}
        self.begin(first)

    def begin(self, first: int) -> None:
        """Begin an epoch whose first batch belongs to worker `first`."""
        self._next, self._next_asked = first, first
        for worker in self._workers.values():
            self._has_drawn[worker] = True  # For batches that were requested in an epoch that was left.
        # By number of a batch that was requested and not received: its worker, and the states of its generators before.
        self._workers = {}
        self._before: dict[int, States] = {}

    def ask(self, number: int) -> tuple[object, object]:
        """Return access to torch's and Python's generators from which batch `number`, which is requested now, draws."""
        worker = self._workers.get(number)
        if worker is None:
            worker = self._workers[number] = self._next_asked
            self._next_asked = (worker + 1) % self._num_workers
        if not self.on_delivery:
            self._before[number] = self._generators[worker].states(has_python=self.from_python)
        return self._ways[worker]

    def receive(self, number: int) -> None:
        """Record that the consumer received batch `number`, or that it is left out."""
        worker = self._workers.pop(number, None)
        if worker is not None:
            self._before.pop(number, None)
            self._has_drawn[worker] = True
            self._next = (worker + 1) % self._num_workers

    def rewind(self, numbers: Iterable[int]) -> None:
        """Reset the generators to their states before these undelivered batches, which will be requested again."""
        again = {number: self._before.pop(number) for number in numbers if number in self._before}
        for number in sorted(again, reverse=True):
            self._generators[self._workers[number]].set_states(again[number])

    @contextlib.contextmanager
    def drawing(self, number: int) -> Iterator[None]:
        """Surround Python code that fetches batch `number`: the global generators are its worker's."""
        worker, default = self._generators[self._workers[number]], GeneratorPair.of_process()
        before, states = (each.states(has_python=self.from_python) for each in (default, worker))
        if self.on_delivery:
            self._before[number] = states  # Until it is received.
        default.set_states(states)
        try:
            yield
        finally:
            worker.set_states(default.states(has_python=self.from_python))
            default.set_states(before)

    def state(self) -> Fetching:
        """Return whose turn it is, and the place of each worker from which a batch was received."""
        earliest = self._earliest()
        places: list[PlaceState | None] = []
        for worker, generators in enumerate(self._generators):
            if not self._has_drawn[worker]:
                places.append(None)
                continue
            states = generators.as_text(earliest.get(worker))
            numpys = self._numpy(worker)
            places.append(PlaceState(rng={"python": states["python"], "numpy": numpys, "torch": states["torch"]}))
        return Fetching(self._next, places if any(self._has_drawn) else ())

    def _set(self, worker: int, states: Mapping[str, str]) -> None:
        self._generators[worker].set_text(states)
        self._numpys[worker] = states["numpy"]

    def _earliest(self) -> dict[int, States]:
        """Return, by worker, the states before the first batch that was requested and not received."""
        earliest: dict[int, States] = {}
        for number, states in self._before.items():
            earliest.setdefault(self._workers[number], states)
        return earliest

    def _numpy(self, worker: int) -> str:
        if (known := self._numpys[worker]) is None:
            numpys = np.random.RandomState(_torch.numpy_seed(self._base_seed, worker))
            self._numpys[worker] = known = state_text(NumpyAccess(numpys).take())
        return known
