"""`GeneratorPair`: the generators that the core draws from in place of Python code."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from .generator_state import PythonAccess
from .global_generators import (
    fastest_python_access,
    fastest_torch_access,
    generator_state,
    set_generator_state,
    state_text,
)

# Torch's, and Python's if it was asked for.
States: TypeAlias = "tuple[torch.Tensor, Any]"


class GeneratorPair:
    """Torch's generator on the CPU, and Python's.

    Args:
        of_torch: the generator of torch's.
        of_python: the generator of Python's.
    """

    def __init__(self, of_torch: torch.Generator, of_python: random.Random) -> None:
        self._torch, self._python = of_torch, of_python

    @classmethod
    def of_seed(cls, seed: int) -> GeneratorPair:
        """Return the two as a worker process that starts with `seed` would have them."""
        return cls(torch.Generator("cpu").manual_seed(seed), random.Random(seed))

    @classmethod
    def of_process(cls) -> GeneratorPair:
        """Return the global ones."""
        return cls(torch.default_generator, random._inst)

    def access(self) -> tuple[object, object]:
        """Return the core's access to torch's and to Python's."""
        return fastest_torch_access(self._torch), fastest_python_access(self._python)

    def states(self, *, has_python: bool) -> States:
        """Return the states, Python's only if `has_python`: taking it costs as much as a small batch."""
        return self._torch.get_state(), self._python.getstate() if has_python else None

    def set_states(self, states: States) -> None:
        """Set the states that were taken."""
        self._torch.set_state(states[0])
        if states[1] is not None:
            self._python.setstate(states[1])

    def as_text(self, states: States | None = None) -> dict[str, str]:
        """Return the states as they are now, or these, in the form of `global_state`."""
        of_torch, of_python = self._torch, self._python
        if states is not None:
            of_torch = torch.Generator("cpu")
            of_torch.set_state(states[0])
            if states[1] is not None:
                of_python = random.Random(0)
                of_python.setstate(states[1])
        return {"python": state_text(PythonAccess(of_python).take()), "torch": generator_state(of_torch)}

    def set_text(self, states: Mapping[str, str]) -> None:
        """Set states in the form of `global_state`.

        Raises:
            ValueError: not such states.
        """
        set_generator_state(self._torch, states["torch"])
        set_generator_state(self._python, states["python"])
