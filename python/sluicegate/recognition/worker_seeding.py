"""The effect of a `worker_init_fn` on a worker's generators, if it does nothing except seeding them."""

from __future__ import annotations

import dis
import functools
import random
import sys
import types
from typing import Any

import numpy as np
import torch

from sluicegate import _torch
from sluicegate.rng.global_generators import generator_state, global_state, keeping_generators

# Straight-line code that reads, calls and calculates. Excluded: storing anywhere but in a local variable, branches, and
# making functions. Instructions of a later Python are unknown, so such functions are called in workers.
_INSTRUCTIONS = ("LOAD_FAST", "STORE_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "CALL", "PRECALL", "BINARY_", "RETURN_")
_OTHER_INSTRUCTIONS = frozenset(
    (
        *("RESUME", "NOP", "CACHE", "EXTENDED_ARG", "POP_TOP", "PUSH_NULL", "KW_NAMES", "COPY", "SWAP", "DUP_TOP"),
        *("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_NAME", "IMPORT_FROM", "NOT_TAKEN", "END_FOR"),
    )
)
_ATTRIBUTES = frozenset(("initial_seed", "manual_seed", "random", "seed", "get_state"))
_IMPORTS = frozenset(("random", "numpy", "numpy.random"))
_LIGHTNINGS = ("lightning.fabric.utilities.seed", "lightning_fabric.utilities.seed")
_TRANSFORMERS = "transformers.trainer_utils"


class _Torch:
    """Stands in for torch while a `worker_init_fn` runs in this process: `manual_seed` would seed the devices, too."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator("cpu").manual_seed(seed)
        self.random = self

    def initial_seed(self) -> int:
        return self.generator.initial_seed()

    def manual_seed(self, seed: Any) -> torch.Generator:
        return self.generator.manual_seed(int(seed))

    def seed(self) -> int:
        return self.generator.seed()


def only_seeds(function: Any) -> bool:
    """Return True if, as `worker_init_fn`, `function` can only set the global generators of a worker.

    This holds for the recipes of torch's documentation, for Lightning's `pl_worker_init_function`, and for the
    `seed_worker` that the Trainer of transformers passes. The code is examined, not called: it must be straight-line
    and use only the seeding functions of torch, NumPy, and Python.
    """
    if isinstance(function, functools.partial):
        is_plain = not function.args and all(type(value) is int for value in function.keywords.values())
        return is_plain and (_is_lightnings(function.func) or _is_of_transformers(function))
    return _is_lightnings(function) or (type(function) is types.FunctionType and _is_straight(function))


def seeded_by(function: Any, base_seed: int, worker: int) -> dict[str, str]:
    """Return the states of the global generators, as `global_state` does, of a worker that has called `function`.

    Args:
        function: a `worker_init_fn` that `only_seeds`; it is called here, and the generators are restored.
        base_seed: the seed of worker 0.
        worker: its number.

    Raises:
        Exception: what `function` raises.
    """
    stand_in = _Torch(base_seed + worker)
    call = _with_stand_in(function, stand_in)
    with keeping_generators():
        random.seed(base_seed + worker)
        np.random.seed(_torch.numpy_seed(base_seed, worker))
        call(worker)
        return global_state(("python", "numpy")) | {"torch": generator_state(stand_in.generator)}


def _is_lightnings(function: Any) -> bool:
    name = getattr(function, "__module__", None)
    if type(function) is not types.FunctionType or name not in _LIGHTNINGS:
        return False
    module = sys.modules.get(name)
    is_original = function is getattr(module, "pl_worker_init_function", None)
    return is_original and function.__code__.co_filename == getattr(module, "__file__", None)


def _is_of_transformers(function: functools.partial[Any]) -> bool:
    """Return True for the `seed_worker` of transformers as its Trainer passes it, unless it is patched."""
    seed_worker, module = function.func, sys.modules.get(_TRANSFORMERS)
    if module is None or function.keywords.keys() != {"num_workers", "rank"}:
        return False
    path, called = getattr(module, "__file__", None), [seed_worker, getattr(module, "set_seed", None)]
    is_plain = all(type(each) is types.FunctionType and each.__code__.co_filename == path for each in called)
    return is_plain and seed_worker is getattr(module, "seed_worker", None)


def _seed_worker(worker_id: int, num_workers: int, rank: int) -> None:
    """Set the generators of the CPU as the `seed_worker` of transformers does."""
    seed = num_workers * rank + torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _is_straight(function: types.FunctionType) -> bool:
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if function.__closure__ or any(type(value) is not int for value in defaults):
        return False
    return all(_is_known(each, function) for each in dis.get_instructions(function))


def _is_known(instruction: dis.Instruction, function: types.FunctionType) -> bool:
    name, operand = instruction.opname, instruction.argval
    if name == "LOAD_GLOBAL":
        return _is_known_global(function, operand)
    if name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
        return operand in _ATTRIBUTES
    if name == "IMPORT_NAME":
        return operand in _IMPORTS
    return name in _OTHER_INSTRUCTIONS or name.startswith(_INSTRUCTIONS)


def _is_known_global(function: types.FunctionType, name: str) -> bool:
    if name not in function.__globals__:
        return name == "int"
    value = function.__globals__[name]
    known = (torch, np, np.random, random, torch.initial_seed, torch.manual_seed, np.random.seed, random.seed)
    return type(value) is int or any(value is each for each in known)


def _with_stand_in(function: Any, stand_in: _Torch) -> Any:
    """Return `function` with `stand_in` wherever it uses torch."""
    if isinstance(function, functools.partial):
        inner = _seed_worker if _is_of_transformers(function) else function.func
        return functools.partial(_with_stand_in(inner, stand_in), **function.keywords)
    replaced: dict[int, Any] = {
        id(torch): stand_in,
        id(torch.random): stand_in,
        id(torch.initial_seed): stand_in.initial_seed,
        id(torch.manual_seed): stand_in.manual_seed,
    }
    names = {name: replaced.get(id(value), value) for name, value in function.__globals__.items()}
    copied = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied
