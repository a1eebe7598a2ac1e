"""`WorkerDraws`: the random number generators that torch's worker processes would have."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch

from sluicegate import _torch
from sluicegate.recognition.worker_seeding import seeded_by
from sluicegate.rng.generator_state import NumpyAccess, PythonAccess, TorchAccess
from sluicegate.rng.global_generators import as_text, fastest_torch_access, generator_state, set_generator_state
from sluicegate.state.place_state import Fetching, PlaceState


class WorkerDraws:
    """The generators of torch's worker processes, for threads that read instead of them.

    Worker w of torch's loader seeds its generators with the base seed plus w and uses them in the order of its batches;
    if workers persist, from one epoch to the next. Here the draws of a batch are made when it is requested.

    Attributes:
        on_delivery: True if they are made when it is delivered instead, within `drawing`.

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
        self.on_delivery = False
        self._base_seed, self._num_workers = base_seed, num_workers
        self._others: list[dict[str, str] | None] = [None] * num_workers
        self._generators = [torch.Generator("cpu").manual_seed(base_seed + worker) for worker in range(num_workers)]
        self._has_drawn = [False] * num_workers
        if init_fn is not None:
            for worker, generator in enumerate(self._generators):
                self._others[worker] = states = seeded_by(init_fn, base_seed, worker)
                set_generator_state(generator, states["torch"])
        for worker, place in enumerate(places):
            if place is not None and place.rng is not None:
                set_generator_state(self._generators[worker], place.rng["torch"])
                self._others[worker] = dict(place.rng)
                self._has_drawn[worker] = True
        self._doors = [fastest_torch_access(generator) for generator in self._generators]
        self._workers: dict[int, int] = {}
        self.begin(first)

    def begin(self, first: int) -> None:
        """Begin an epoch whose first batch belongs to worker `first`."""
        self._next, self._next_asked = first, first
        for worker in self._workers.values():
            self._has_drawn[worker] = True  # For batches that were requested in an epoch that was left.
        # By number of a batch that was requested and not received: its worker, and the state of the worker's generator
        # before it.
        self._workers = {}
        self._before: dict[int, torch.Tensor] = {}

    def ask(self, number: int) -> object:
        """Return access to the generator from which batch `number` of the epoch, which is requested now, draws."""
        worker = self._workers.get(number)
        if worker is None:
            worker = self._workers[number] = self._next_asked
            self._next_asked = (worker + 1) % self._num_workers
        if not self.on_delivery:
            self._before[number] = self._generators[worker].get_state()
        return self._doors[worker]

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
            self._generators[self._workers[number]].set_state(again[number])

    @contextlib.contextmanager
    def drawing(self, number: int) -> Iterator[None]:
        """Surround Python code that fetches batch `number`: torch's global generator is its worker's."""
        worker, default = self._generators[self._workers[number]], torch.default_generator
        before, state = default.get_state(), worker.get_state()
        if self.on_delivery:
            self._before[number] = state  # Until it is received.
        default.set_state(state)
        try:
            yield
        finally:
            worker.set_state(default.get_state())
            default.set_state(before)

    def state(self) -> Fetching:
        """Return whose turn it is, and the place of each worker from which a batch was received."""
        earliest, scratch = self._earliest(), torch.Generator("cpu")
        places: list[PlaceState | None] = []
        for worker, generator in enumerate(self._generators):
            if not self._has_drawn[worker]:
                places.append(None)
                continue
            scratch.set_state(earliest[worker] if worker in earliest else generator.get_state())
            rng = self._of_other_libraries(worker) | {"torch": generator_state(scratch)}
            places.append(PlaceState(rng=rng))
        return Fetching(self._next, places if any(self._has_drawn) else ())

    def _earliest(self) -> dict[int, torch.Tensor]:
        """Return, by worker, the state before the first batch that was requested and not received."""
        earliest: dict[int, torch.Tensor] = {}
        for number, state in self._before.items():
            earliest.setdefault(self._workers[number], state)
        return earliest

    def _of_other_libraries(self, worker: int) -> dict[str, str]:
        """Return Python's and NumPy's generators as torch's worker seeds them; nothing draws from them."""
        if (known := self._others[worker]) is None:
            numpys = np.random.RandomState(_torch.numpy_seed(self._base_seed, worker))
            python = random.Random(self._base_seed + worker)
            states = PythonAccess(python).take(), NumpyAccess(numpys).take(), TorchAccess(torch.Generator("cpu")).take()
            self._others[worker] = known = as_text(states)
        return dict(known)
