"""States of random number generators as bytes that are the same on every machine, through the libraries' public APIs.

Each class has the methods that the core calls if it can't reach a generator's words itself: `seed(state)` and
`put(state)` set the generator, `take()` returns its state. The bytes are the same as those of the core's own access.
"""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
import torch

from sluicegate import _core

_WORDS = 624
# The words, the position, whether a normal deviate is stored, and its value.
_MERSENNE = struct.Struct(f"<{_WORDS}IIId")
# The words, the position, how many are left, the seed, two stored deviates, and flags for which of them are present.
_TORCH = np.dtype(
    [
        ("words", "<u4", (_WORDS,)),
        ("next", "<u4"),
        ("left", "<u4"),
        ("seed", "<u8"),
        ("double", "<f8"),
        ("float", "<f4"),
        ("kept", "<u4"),
    ]
)
# Torch's own format, unchanged since the days of Lua: its checkpoints contain it.
_TORCH_FORM = np.dtype(
    [
        ("seed", "=u8"),
        ("left", "=i4"),
        ("is_seeded", "=i4"),
        ("next", "=u8"),
        ("words", "=u8", (_WORDS,)),
        ("unused_x", "=f8"),
        ("double", "=f8"),
        ("unused_rho", "=f8"),
        ("has_double", "=i4"),
        ("padding", "=i4"),
        ("float", "=f4"),
        ("has_float", "?"),
        ("padding_float", "=u1", (3,)),
    ]
)
TORCH_FORM_BYTES = _TORCH_FORM.itemsize


class PythonAccess:
    """Access to a `random.Random` through its public API."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def take(self) -> bytes:
        """Return the state."""
        _, numbers, gauss = self._generator.getstate()
        return _MERSENNE.pack(*numbers, gauss is not None, gauss or 0.0)

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state.
        """
        *numbers, has_gauss, gauss = _unpacked(state)
        self._generator.setstate((3, tuple(numbers), gauss if has_gauss else None))

    seed = put


class NumpyAccess:
    """Access to a `RandomState` that draws from a Mersenne Twister through its public API."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self._generator = generator

    def take(self) -> bytes:
        """Return the state."""
        state: Any = self._generator.get_state(legacy=False)
        gauss = state["gauss"] if state["has_gauss"] else 0.0
        return _MERSENNE.pack(*state["state"]["key"].tolist(), state["state"]["pos"], state["has_gauss"], gauss)

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state.
        """
        *words, position, has_gauss, gauss = _unpacked(state)
        if position > _WORDS:
            raise ValueError(f"expected a position of at most {_WORDS} words, but got {position}")
        self._generator.set_state(("MT19937", np.array(words, np.uint32), position, has_gauss, gauss))

    seed = put


class OtherNumpyAccess:
    """Access to a `RandomState` with a different bit generator, set by `numpy.random.set_bit_generator`.

    It is seeded as its class seeds itself, from the first words of the state, which takes about 100 microseconds.
    """

    def __init__(self, generator: np.random.RandomState, bit_generator: Any) -> None:
        self._generator = generator
        self._bit_generator = bit_generator

    def seed(self, state: bytes) -> None:
        """Seed the generator from a state of a Mersenne Twister."""
        fresh = type(self._bit_generator)(np.random.SeedSequence(_unpacked(state)[:8]))
        self._generator.set_state({**fresh.state, "has_gauss": 0, "gauss": 0.0})

    def take(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps(self._generator.get_state(legacy=False), default=_listed).encode()

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state.
        """
        self._generator.set_state(_state_of(self._bit_generator, state, ", which numpy.random draws from now"))


class TorchAccess:
    """Access to a CPU `torch.Generator` through its public API."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def take(self) -> bytes:
        """Return the state."""
        form: Any = self._generator.get_state().numpy().view(_TORCH_FORM)[0]
        state: Any = np.zeros((), _TORCH)
        for name in ("words", "next", "left", "seed"):
            state[name] = form[name]
        if form["has_double"]:
            state["double"], state["kept"] = form["double"], 1
        if form["has_float"]:
            state["float"], state["kept"] = form["float"], state["kept"] + 2
        return bytes(state.tobytes())

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state.
        """
        _check_length(state, _TORCH.itemsize)
        given: Any = np.frombuffer(state, _TORCH)[0]
        position, left, kept = int(given["next"]), int(given["left"]), int(given["kept"])
        # Torch reads as many words as the state says are left, even outside the words.
        if position > _WORDS or not 1 <= left <= _WORDS or (left > 1 and position + left > _WORDS + 1) or kept > 3:
            raise ValueError(
                f"expected the state of a torch.Generator of {_WORDS} words, but got position {position} with {left} "
                "left"
            )
        form: Any = np.zeros(1, _TORCH_FORM)
        for name in ("words", "next", "left", "seed", "double", "float"):
            form[name] = given[name]
        form["is_seeded"], form["has_double"], form["has_float"] = 1, kept & 1, kept >> 1
        self._generator.set_state(torch.from_numpy(form.view(np.uint8)))

    seed = put


class NumpyGeneratorAccess:
    """Access to a `numpy.random.Generator` through its public API."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._bit_generator = generator.bit_generator

    def take(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps(self._bit_generator.state, default=_listed).encode()

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state of such a generator.
        """
        self._bit_generator.state = _state_of(self._bit_generator, state)


class OtherTorchAccess:
    """Access to a `torch.Generator` whose state has an unknown format: of another device, or another version."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def seed(self, state: bytes) -> None:
        """Seed the generator from a state of a CPU `torch.Generator`."""
        _check_length(state, _TORCH.itemsize)
        self._generator.manual_seed(int.from_bytes(state[:8], "little", signed=True))

    def take(self) -> bytes:
        """Return the state as torch returns it."""
        return self._generator.get_state().numpy().tobytes()

    def put(self, state: bytes) -> None:
        """Set the state.

        Raises:
            ValueError: not a state.
        """
        try:
            self._generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"expected a state of a torch.Generator on {self._generator.device}, but got an invalid one: {error}"
            ) from None


def torch_access(generator: torch.Generator) -> TorchAccess | OtherTorchAccess:
    """Return access to `generator` through its public API."""
    if generator.device.type == "cpu" and generator.get_state().numel() == TORCH_FORM_BYTES:
        return TorchAccess(generator)
    return OtherTorchAccess(generator)


def access_to(
    generator: object,
) -> PythonAccess | NumpyAccess | NumpyGeneratorAccess | TorchAccess | OtherTorchAccess | None:
    """Return access to a generator of Python's, NumPy's or torch's; None for any other object."""
    if isinstance(generator, torch.Generator):
        return torch_access(generator)
    if type(generator) is random.Random:
        return PythonAccess(generator)
    if type(generator) is np.random.Generator:
        return NumpyGeneratorAccess(generator)
    if type(generator) is np.random.RandomState and generator.get_state(legacy=False)["bit_generator"] == "MT19937":
        return NumpyAccess(generator)
    return None


def generator_of_key(key: int) -> torch.Generator:
    """Return torch's generator for the sample with this key."""
    generator = torch.Generator("cpu")
    try:
        generator.set_state(torch.frombuffer(_core.torch_state(key), dtype=torch.uint8))
    except RuntimeError:
        # A version with another state format. `manual_seed` uses only 32 bits of a seed, so some samples get the same
        # draws.
        generator.manual_seed(key)
    return generator


def _unpacked(state: bytes) -> tuple[Any, ...]:
    _check_length(state, _MERSENNE.size)
    return _MERSENNE.unpack(state)


def _check_length(state: bytes, size: int) -> None:
    if len(state) != size:
        raise ValueError(f"expected a state of {size} bytes, but got {len(state)}")


def _state_of(bit_generator: Any, state: bytes, remark: str = "") -> dict[str, Any]:
    """Return the state of a bit generator from its JSON.

    Raises:
        ValueError: not JSON, or the state of another class.
    """
    name = type(bit_generator).__name__
    try:
        found = json.loads(state, object_hook=_unlisted)
    except ValueError:
        raise ValueError(f"expected a state of numpy's {name}{remark}, but got invalid JSON") from None
    if not isinstance(found, dict) or found.get("bit_generator") != name:
        raise ValueError(f"expected a state of {name}{remark}, but got a different bit generator's")
    return found


def _listed(value: Any) -> Any:
    """Return the JSON form of NumPy's part of a state."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": value.tolist()}
    return value.item()


def _unlisted(value: dict[str, Any]) -> Any:
    return np.array(value["values"], value["dtype"]) if value.keys() == {"dtype", "values"} else value
