"""Randomness of a sample: generators that are a pure function of (seed, epoch, index)."""

from __future__ import annotations

import contextlib
import hashlib
import operator
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch

from sluicegate import _core

from .generator_state import generator_of_key
from .global_generators import global_generators, keeping_generators

_T = TypeVar("_T")


class SampleGenerators:
    """The generators of one sample, each made on first access: three independent streams.

    Their values depend only on the loader's seed, the epoch and the index, whichever thread or process fetches the
    sample. They can be kept; nothing else draws from them.
    """

    __slots__ = ("_key", "_numpy", "_python", "_torch")

    def __init__(self, key: int) -> None:
        self._key = key
        self._python: random.Random | None = None
        self._numpy: np.random.Generator | None = None
        self._torch: torch.Generator | None = None

    @property
    def python(self) -> random.Random:
        """A Python generator, with the methods of the module `random`."""
        if self._python is None:
            self._python = random.Random(self._seed("sample python"))
        return self._python

    @property
    def numpy(self) -> np.random.Generator:
        """A NumPy generator, on PCG64."""
        if self._numpy is None:
            # Not `default_rng`: a later NumPy version may change its bit generator.
            self._numpy = np.random.Generator(np.random.PCG64(self._seed("sample numpy")))
        return self._numpy

    @property
    def torch(self) -> torch.Generator:
        """A torch generator, on the CPU."""
        if self._torch is None:
            self._torch = generator_of_key(self._key)
        return self._torch

    def _seed(self, stream: str) -> int:
        return int.from_bytes(_core.generator_words(self._key, stream)[:16], "little")

    def __repr__(self) -> str:
        """Show the key from which the generators are made."""
        return f"<SampleGenerators of key {self._key:#018x}>"


class _Current(threading.local):
    """The sample that this thread is fetching."""

    key: int | None = None
    generators: SampleGenerators | None = None
    # True if an outer context restores the global generators.
    is_ahead = False


_current = _Current()


def sample_rng() -> SampleGenerators:
    """Return the generators of the sample that this thread is fetching, for random transforms in `__getitem__`.

    The attributes are `.python` (`random.Random`), `.numpy` (`numpy.random.Generator`) and `.torch` (`torch.Generator`,
    on the CPU). They depend only on the loader's seed, the epoch and the sample's index, so they give the same values
    in the main thread, in worker processes and in worker threads, which the global generators cannot. Every call for
    one sample returns the same generators; each continues after its last draw.

    Raises:
        RuntimeError: this thread is not fetching a sample for a loader with a seed.

    Examples:
        >>> from sluicegate import DataLoader, Dataset, sample_rng
        >>> class Noisy(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index + sample_rng().python.random()
        >>> alone, threads = (
        ...     DataLoader(Noisy(), seed=7, num_workers=workers, worker_type="thread") for workers in (0, 2)
        ... )
        >>> list(alone) == list(threads)
        True
    """
    generators = _current.generators
    if generators is None:
        key = _current.key
        if key is None:
            raise RuntimeError(
                "sample_rng() returns the generators of the sample that is being fetched, but this thread is not "
                "fetching a sample with a seed; call it in the dataset's __getitem__ (or what that calls) under "
                "DataLoader(..., seed=...), and pass the generators to threads that the dataset starts itself"
            )
        generators = _current.generators = SampleGenerators(key)
    return generators


def seeded_generators() -> SampleGenerators | None:
    """Return the result of `sample_rng`, or None if this thread is not fetching a sample with a seed."""
    return None if _current.key is None else sample_rng()


class SampleSeeding:
    """Makes each sample's generators the current ones, and seeds the global generators for it.

    Threads may share one if they are in the same epoch.

    Args:
        seed: the loader's seed, which was checked: 0 <= seed < 2**64.
        seed_globals: True to seed the global generators of Python, NumPy and torch (CPU) for each sample. They belong
            to the process, so this is not for threads that fetch concurrently.

    Examples:
        >>> import random
        >>> seeding = SampleSeeding(seed=7, seed_globals=True)
        >>> seeding.begin(epoch=0)
        >>> drawn = []
        >>> for _ in range(2):
        ...     with seeding.batch():
        ...         seeding.sample(42)
        ...         drawn.append(random.random())
        >>> drawn[0] == drawn[1]
        True
    """

    def __init__(self, seed: int, seed_globals: bool) -> None:
        self._seed = seed
        self._epoch = 0
        self._seed_globals = seed_globals
        self._globals: _core.GlobalGenerators | None = None

    def begin(self, epoch: int) -> None:
        """Declare that the samples that follow belong to `epoch`."""
        self._epoch = epoch
        self._globals = global_generators() if self._seed_globals else None

    def sample(self, index: Any) -> None:
        """Declare that this thread fetches the sample at `index` next.

        Any integer works; strings, bytes, numbers and tuples of them count by their text.

        Raises:
            TypeError: `index` has a type that does not identify a sample.
        """
        key = self.key_of(index)
        _current.key = key
        _current.generators = None
        if self._seed_globals:
            generators = self._globals
            if generators is None:
                generators = self._globals = global_generators()
            generators.seed(key)

    def key_of(self, index: Any) -> int:
        """Return the key that determines the generators of the sample at `index`.

        Raises:
            TypeError: `index` does not identify a sample.
        """
        try:
            return _core.sample_key(self._seed, self._epoch, index)
        except (TypeError, OverflowError):
            return _core.sample_key(self._seed, self._epoch, _number_of(index))

    def batch(self) -> AbstractContextManager[None]:
        """Return a context in which a batch is fetched and collated.

        On exit, also after an exception, this thread's current sample is what it was before, and so are the global
        generators if they are seeded: a dataset may iterate over its own loader while a sample is fetched.
        """
        if self._seed_globals:
            self._globals = global_generators()
        return _Batch(self._globals)

    def alone(self, index: Any, fetch: Callable[[], _T]) -> _T:
        """Return the result of `fetch`: the sample at `index`, as its own batch.

        Within `reading_ahead`, the global generators are not restored after each sample. They are restored after
        samples fetched inside of one.
        """
        if self._seed_globals:
            if not _current.is_ahead:
                with self.batch():
                    self.sample(index)
                    return fetch()
            self._globals = global_generators()
        outer = _current.key, _current.generators, _current.is_ahead
        _current.is_ahead = False
        try:
            self.sample(index)
            return fetch()
        finally:
            _current.key, _current.generators, _current.is_ahead = outer


class _Batch(AbstractContextManager[None]):
    __slots__ = ("_globals", "_outer", "_states")

    def __init__(self, generators: _core.GlobalGenerators | None) -> None:
        self._globals = generators

    def __enter__(self) -> None:
        self._outer = _current.key, _current.generators
        if self._globals is not None:
            self._states = self._globals.take()
        _current.key = _current.generators = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.key, _current.generators = self._outer
        if self._globals is not None:
            self._globals.put(self._states)


@contextlib.contextmanager
def reading_ahead() -> Iterator[None]:
    """Wrap code that fetches samples one after the other, each with `alone`, and draws nothing in between."""
    outer = _current.is_ahead
    with keeping_generators():
        _current.is_ahead = True
        try:
            yield
        finally:
            _current.is_ahead = outer


class GlobalDrawWatch:
    """Detects which global generators have moved.

    Draws by any thread count, including the training loop's. Arm it right before one sample is fetched and ask right
    after. If the answers differ between samples, attribute the draws to other code.

    Examples:
        >>> import random
        >>> watch = GlobalDrawWatch()
        >>> watch.arm()
        >>> watch.drawn()
        []
        >>> _ = random.random()
        >>> watch.drawn()
        ['random']
    """

    def __init__(self) -> None:
        self._generators: _core.GlobalGenerators | None = None

    def arm(self) -> None:
        """Start watching: draws from now on count."""
        self._generators = global_generators()
        self._states = self._generators.take()

    def drawn(self) -> list[str]:
        """Return the modules whose global generator has moved: any of `"random"`, `"numpy.random"` and `"torch"`."""
        if self._generators is None:
            return []
        moved = self._generators.moved(self._states)
        return [name for name, has_moved in zip(("random", "numpy.random", "torch"), moved, strict=True) if has_moved]


def _number_of(index: Any) -> int:
    """Return a number for an index that is not a number, from its text."""
    return int.from_bytes(hashlib.blake2b(_text_of(index).encode(), digest_size=8).digest(), "little")


def _text_of(index: Any) -> str:
    if isinstance(index, (tuple, list)):
        return f"({','.join(map(_text_of, index))})"
    if isinstance(index, str):
        return ascii(str(index))
    if isinstance(index, (bytes, float)):
        return repr(bytes(index) if isinstance(index, bytes) else float(index))
    try:
        return str(operator.index(index))
    except TypeError:
        raise TypeError(
            "index: expected an integer, a string or a tuple of them, because a sample's generators are set from "
            f"(seed, epoch, index), but got a {type(index).__name__}; or turn the seeding off, "
            "DataLoader(..., seed_samples=False)"
        ) from None
