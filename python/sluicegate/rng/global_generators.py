"""The global random number generators of Python, NumPy and torch, each by the fastest access that is found to work.

Python and NumPy expose a state only as Python integers, which takes tens of microseconds; many samples cost less. So
the core writes to the generators' words directly, at addresses that are not part of the public API. They are found
by searching generators made for this purpose for known words, and the core's writing is tested on these before the
global ones are touched. If anything differs (another interpreter, a later layout, no GIL), the public API is used: the
same states, set more slowly.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ctypes
import functools
import random
import struct
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from sluicegate import _core

from .generator_state import (
    TORCH_FORM_BYTES,
    NumpyAccess,
    OtherNumpyAccess,
    PythonAccess,
    TorchAccess,
    access_to,
    torch_access,
)

# In the core's order.
LIBRARIES = ("python", "numpy", "torch")

_WORDS = 624
_KEY = 0x0123_4567_89AB_CDEF
_GAUSS = 0.728_394_650_1

# The generators, and the NumPy bit generator that they were made for.
_made: tuple[_core.GlobalGenerators, Any] | None = None


def global_generators() -> _core.GlobalGenerators:
    """Return the global generators of this process: the same object until another bit generator is set in NumPy.

    Any thread may use them, and so may a forked child. Generators that were made before NumPy's bit generator was
    changed still set the old one: call this again at the start of each batch.
    """
    global _made
    bit_generator = np.random.mtrand.get_bit_generator()
    if _made is None or _made[1] is not bit_generator:
        _made = _open(), bit_generator
    return _made[0]


def global_state(libraries: Collection[str] = LIBRARIES) -> dict[str, str]:
    """Return the states of the global generators (torch's of the CPU), each as text that JSON can hold.

    Args:
        libraries: which of the three.

    Examples:
        >>> import random
        >>> before = global_state()
        >>> drawn = random.random()
        >>> set_global_state(before)
        >>> random.random() == drawn
        True
    """
    return as_text(global_generators().take(), libraries)


def set_global_state(states: Mapping[str, str]) -> None:
    """Set the three global generators to a result of `global_state`, in any process.

    Raises:
        ValueError: a state is missing or does not fit its library's generator; nothing is set then.
    """
    generators = global_generators()
    missing = [library for library in LIBRARIES if library not in states]
    if missing:
        raise ValueError(
            f"the state of the global generators is missing {', '.join(missing)}; pass what global_state() returned"
        )
    before = generators.take()
    given = {library: _bytes(states[library], library) for library in LIBRARIES}
    now = dict(zip(LIBRARIES, before, strict=True))
    for library in LIBRARIES:
        # One by one, so that an error names the library.
        now[library] = given[library]
        try:
            generators.put((now["python"], now["numpy"], now["torch"]))
        except ValueError as error:
            generators.put(before)
            raise ValueError(f"the state of the global generator of {library}: {error}") from None


def generator_state(generator: torch.Generator) -> str:
    """Return the state of `generator` as text that JSON can hold: 3,372 characters for one of the CPU.

    Examples:
        >>> generator = torch.Generator().manual_seed(7)
        >>> state = generator_state(generator)
        >>> drawn = torch.rand(3, generator=generator)
        >>> set_generator_state(generator, state)
        >>> torch.equal(torch.rand(3, generator=generator), drawn)
        True
    """
    return state_text(torch_access(generator).take())


def set_generator_state(generator: object, state: str) -> None:
    """Set a generator, of Python's, NumPy's or torch's, to what `access_to(generator).take()` returned, in any process.

    Args:
        generator: the generator.
        state: the `state_text` of its state.

    Raises:
        ValueError: not such a state.
    """
    name = "torch.Generator" if isinstance(generator, torch.Generator) else type(generator).__name__
    given, access = _bytes(state, name), access_to(generator)
    assert access is not None
    try:
        access.put(given)
    except ValueError as error:
        raise ValueError(f"the state of a {name}: {error}") from None


def as_text(states: tuple[bytes, bytes, bytes], libraries: Collection[str] = LIBRARIES) -> dict[str, str]:
    """Return a result of `GlobalGenerators.take` in the form of `global_state`."""
    return {
        library: state_text(state) for library, state in zip(LIBRARIES, states, strict=True) if library in libraries
    }


def fresh_seed() -> int | None:
    """Return the seed of torch's global generator if nothing was drawn since it was set; otherwise None."""
    seed = torch.initial_seed()
    fresh = torch.Generator().manual_seed(seed).get_state()
    return seed if torch.equal(fresh, torch.get_rng_state()) else None


@contextlib.contextmanager
def keeping_generators() -> Iterator[None]:
    """Surround draws that must leave no trace: the global generators are restored afterwards."""
    generators = global_generators()
    states = generators.take()
    try:
        yield
    finally:
        generators.put(states)


def state_text(state: bytes) -> str:
    """Return the state of a generator as text that JSON can hold."""
    return base64.b64encode(state).decode("ascii")


def _bytes(text: str, owner: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"the state of {owner} is not base64 text: {error}") from None


def fastest_python_access(generator: random.Random) -> object:
    """Return the core's access to `generator`, to draw from it: the fastest that works."""
    addresses = _python_addresses() if _is_fast() and type(generator) is random.Random else None
    return PythonAccess(generator) if addresses is None else addresses(generator)


def fastest_torch_access(generator: torch.Generator) -> object:
    """Return the core's access to `generator`, a CPU generator, to draw from it: the fastest that works."""
    return _torch_addresses(generator) if _torch_is_fast() else torch_access(generator)


@functools.cache
def _torch_is_fast() -> bool:
    return isinstance(_global_torch_access(_is_fast()), tuple)


def _is_fast() -> bool:
    # Without a GIL, another thread could draw while the core writes.
    has_gil: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return has_gil and sys.implementation.name == "cpython"


def _open() -> _core.GlobalGenerators:
    is_fast = _is_fast()
    return _core.GlobalGenerators(
        _global_python_access(is_fast), _global_numpy_access(is_fast), _global_torch_access(is_fast)
    )


def _global_python_access(is_fast: bool) -> object:
    generator = random._inst
    public = PythonAccess(generator)
    fastest = fastest_python_access(generator) if is_fast else public
    return fastest if isinstance(fastest, tuple) and _reads("python", fastest, public) else public


def _global_numpy_access(is_fast: bool) -> object:
    generator = np.random.mtrand._rand
    bit_generator = np.random.mtrand.get_bit_generator()
    if not isinstance(bit_generator, np.random.MT19937):
        return OtherNumpyAccess(generator, bit_generator)
    public = NumpyAccess(generator)
    is_plain = type(generator) is np.random.RandomState and type(bit_generator) is np.random.MT19937
    addresses = _numpy_addresses() if is_fast and is_plain else None
    if addresses is not None:
        scratch_bits = np.random.MT19937(0)
        scratch = np.random.RandomState(scratch_bits)
        at, global_at = addresses(scratch, scratch_bits), addresses(generator, bit_generator)
        if _works("numpy", at, NumpyAccess(scratch), scratch.standard_normal) and _reads("numpy", global_at, public):
            return global_at
    return public


def _global_torch_access(is_fast: bool) -> object:
    generator = torch.default_generator
    public = torch_access(generator)
    if not is_fast or not isinstance(public, TorchAccess):
        return public
    scratch = torch.Generator()

    def draw_normal() -> None:
        torch.randn(1, device="cpu", generator=scratch)

    if _works("torch", _torch_addresses(scratch), TorchAccess(scratch), draw_normal):
        return _torch_addresses(generator)
    return public


@functools.cache
def _python_addresses() -> Callable[[random.Random], tuple[Any, ...]] | None:
    """Return where a `random.Random` has its words, if access there works: the position is the word before them."""
    scratch = random.Random(0)
    words = _known_words()
    scratch.setstate((3, (*words, 137), None))
    # Not more than the object's own memory.
    memory = ctypes.string_at(id(scratch), random.Random.__basicsize__)
    at = memory.find(words.tobytes())
    if at < 4 or memory[at - 4 : at] != struct.pack("=i", 137):
        return None

    def addresses(generator: random.Random) -> tuple[Any, ...]:
        return id(generator) + at, id(generator) + at - 4, generator

    works = _works("python", addresses(scratch), PythonAccess(scratch), lambda: scratch.gauss(0.0, 1.0))
    return addresses if works else None


def _numpy_addresses() -> Callable[[np.random.RandomState, Any], tuple[Any, ...]] | None:
    """Return where a `RandomState` and its bit generator have their words: the position, an int, is after them.

    The bit generator reports where its state is. The stored normal deviate is in the `RandomState`, with a flag before
    it.
    """
    bit_generator = np.random.MT19937(0)
    scratch = np.random.RandomState(bit_generator)
    words = _known_words()
    scratch.set_state(("MT19937", np.array(words, np.uint32), 137, 1, _GAUSS))
    memory = ctypes.string_at(bit_generator.ctypes.state_address, (_WORDS + 1) * 4)
    if memory != words.tobytes() + struct.pack("=i", 137):
        return None
    memory = ctypes.string_at(id(scratch), np.random.RandomState.__basicsize__)
    at = memory.find(struct.pack("=d", _GAUSS))
    if at < 8 or memory[at - 8 : at - 4] != struct.pack("=i", 1):
        return None

    def addresses(generator: np.random.RandomState, bit_generator: Any) -> tuple[Any, ...]:
        words, lock = bit_generator.ctypes.state_address, bit_generator.lock
        flag, value = id(generator) + at - 8, id(generator) + at
        owners = generator, bit_generator
        return words, words + _WORDS * 4, flag, value, lock.acquire, lock.release, owners

    return addresses


def _torch_addresses(generator: torch.Generator) -> tuple[Any, ...]:
    tensor = torch.empty(TORCH_FORM_BYTES, dtype=torch.uint8, device="cpu")
    return generator.get_state, generator.set_state, tensor, tensor.data_ptr()


def _known_words() -> array[int]:
    """Return words that no memory has by chance. Integers of `array` have 32 bits wherever torch runs."""
    words = array("I", _core.generator_words(_KEY, "sample python"))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _works(library: str, addresses: tuple[Any, ...], public: Any, draw_normal: Callable[[], object]) -> bool:
    """Return True if the core's access to a generator made for this test gives the same results as the public API.

    `draw_normal` makes that generator store a normal deviate.
    """
    try:
        fast, slow = (_core.GlobalGenerators(**{library: access}) for access in (addresses, public))
        slow.seed(_KEY)
        fresh = slow.take()
        draw_normal()
        states = [fresh, slow.take()]
        for state in states:
            for write, read in ((fast, slow), (slow, fast)):
                # A different state first, which must be gone afterward.
                slow.put(states[0] if state is states[1] else states[1])
                write.put(state)
                if read.take() != state or write.take() != state:
                    return False
        fast.seed(_KEY)
        return slow.take() == fresh
    except Exception:  # Whatever it is, this access does not work here.
        return False


def _reads(library: str, addresses: tuple[Any, ...], public: Any) -> bool:
    """Return True if the core's access to the global generator reads the same as the public API."""
    fast, slow = (_core.GlobalGenerators(**{library: access}) for access in (addresses, public))
    return fast.take() == slow.take()
