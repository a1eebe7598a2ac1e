"""What is random about a sample: generators that are a pure function of (seed, epoch, index)."""

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

from . import _core
from .generator_state import generator_of_key
from .global_generators import global_generators, keeping_generators

_T = TypeVar("_T")

__all__ = ["GlobalDrawWatch", "SampleGenerators", "SampleSeeding", "sample_rng", "seeded_generators"]


class SampleGenerators:
    """The generators of one sample, each made when it is first asked for: three independent streams.

    What they give depends on the loader's seed, the epoch and the index alone, in whichever thread or process the
    sample is fetched. They may be kept; nobody else draws from them.
    """

    __slots__ = ("_key", "_numpy", "_python", "_torch")

    def __init__(self, key: int) -> None:
        self._key = key
        self._python: random.Random | None = None
        self._numpy: np.random.Generator | None = None
        self._torch: torch.Generator | None = None

    @property
    def python(self) -> random.Random:
        """A generator of Python's, with the methods of the module `random`."""
        if self._python is None:
            self._python = random.Random(self._seed("sample python"))
        return self._python

    @property
    def numpy(self) -> np.random.Generator:
        """A generator of NumPy's, on PCG64."""
        if self._numpy is None:
            # Not `default_rng`, whose bit generator another version may change.
            self._numpy = np.random.Generator(np.random.PCG64(self._seed("sample numpy")))
        return self._numpy

    @property
    def torch(self) -> torch.Generator:
        """A generator of torch's, on the CPU."""
        if self._torch is None:
            self._torch = generator_of_key(self._key)
        return self._torch

    def _seed(self, stream: str) -> int:
        return int.from_bytes(_core.generator_words(self._key, stream)[:16], "little")

    def __repr__(self) -> str:
        """The key that they are made from."""
        return f"<SampleGenerators of key {self._key:#018x}>"


class _Current(threading.local):
    """The sample that this thread is fetching."""

    key: int | None = None
    generators: SampleGenerators | None = None
    # Whether somebody further out puts the global generators back.
    is_ahead = False


_current = _Current()


def sample_rng() -> SampleGenerators:
    """The generators of the sample that this thread is fetching, for random transforms in a dataset's `__getitem__`.

    Its attributes are `.python` (`random.Random`), `.numpy` (`numpy.random.Generator`) and `.torch`
    (`torch.Generator` of the CPU). They depend on the loader's seed, the epoch and the sample's index alone, so they
    give the same in the main thread, in worker processes and in worker threads, where the global generators can't.
    Every call for one sample gives the same generators; each goes on where the last draw left it.

    Raises:
        RuntimeError: no sample is being fetched by a loader with a seed, in this thread.

    Examples:
        >>> from sluicegate.rng import SampleSeeding
        >>> seeding = SampleSeeding(seed=7, seed_globals=False)  # What `DataLoader(..., seed=7)` does.
        >>> seeding.begin(epoch=0)
        >>> with seeding.batch():
        ...     seeding.sample(42)
        ...     drawn = sample_rng().python.random()
        >>> with seeding.batch():
        ...     seeding.sample(42)
        ...     sample_rng().python.random() == drawn
        True
    """
    generators = _current.generators
    if generators is None:
        key = _current.key
        if key is None:
            raise RuntimeError(
                "sample_rng() gives the random number generators of the sample that is being fetched, and this thread "
                "is fetching none with a seed. Call it in the dataset's __getitem__ (or what that calls) under a "
                "loader with one, DataLoader(..., seed=...); to threads that the dataset starts itself, hand the "
                "generators"
            )
        generators = _current.generators = SampleGenerators(key)
    return generators


def seeded_generators() -> SampleGenerators | None:
    """What `sample_rng` gives, or None where no sample is being fetched with a seed in this thread."""
    return None if _current.key is None else sample_rng()


class SampleSeeding:
    """Makes each sample's generators the current ones, and sets the global generators for it.

    Threads may share one, if they are in the same epoch; it may be pickled.

    Args:
        seed: the loader's seed, 0 <= seed < 2**64.
        seed_globals: whether to set the global generators of Python, NumPy and torch (CPU) for each sample. They belong
            to the process: not for threads that fetch side by side.

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
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed should be an integer with 0 <= seed < 2**64, but got {seed!r}")
        self._seed = seed
        self._epoch = 0
        self._seed_globals = seed_globals
        self._globals: _core.GlobalGenerators | None = None

    def begin(self, epoch: int) -> None:
        """The samples that follow are those of `epoch`."""
        self._epoch = epoch
        self._globals = global_generators() if self._seed_globals else None

    def sample(self, index: Any) -> None:
        """The sample at `index` is fetched next, by this thread.

        Any integer will do; of strings, bytes, numbers and tuples of them their text counts.

        Raises:
            TypeError: an index of another type, that does not say which sample it is.
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
        """What the generators of the sample at `index` follow from.

        Raises:
            TypeError: an index that does not say which sample it is.
        """
        try:
            return _core.sample_key(self._seed, self._epoch, index)
        except (TypeError, OverflowError):
            return _core.sample_key(self._seed, self._epoch, _number_of(index))

    def batch(self) -> AbstractContextManager[None]:
        """A context in which a batch is fetched and collated.

        At its end, also by an exception, this thread is fetching what it was fetching before, and the global
        generators, if they are seeded, are where they were: a dataset may iterate over a loader of its own while a
        sample is fetched.
        """
        if self._seed_globals:
            self._globals = global_generators()
        return _Batch(self._globals)

    def alone(self, index: Any, fetch: Callable[[], _T]) -> _T:
        """What `fetch` returns: the sample at `index`, in a batch of its own.

        Within `reading_ahead` the global generators are not put back after each; after those inside of one they are.
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

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_globals": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


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
    """Around what fetches one sample after the other, each `alone`, and draws nothing in between."""
    outer = _current.is_ahead
    with keeping_generators():
        _current.is_ahead = True
        try:
            yield
        finally:
            _current.is_ahead = outer


class GlobalDrawWatch:
    """Tells whose global generator has moved.

    Draws of every thread count, also of the training loop's: arm it right before one sample is fetched and ask right
    after, and take an answer that is not the same for several samples for somebody else's.

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
        """What is drawn from now on counts."""
        self._generators = global_generators()
        self._states = self._generators.take()

    def drawn(self) -> list[str]:
        """The modules whose global generator is not where it was, of `"random"`, `"numpy.random"` and `"torch"`."""
        if self._generators is None:
            return []
        moved = self._generators.moved(self._states)
        return [name for name, has_moved in zip(("random", "numpy.random", "torch"), moved, strict=True) if has_moved]


def _number_of(index: Any) -> int:
    """A number for an index that is none, from its text."""
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
            f"the random number generators of a sample are set from (seed, epoch, index), and an index of type "
            f"{type(index).__name__} does not say which sample it is: use integers, strings or tuples of them, or "
            "turn the seeding off, DataLoader(..., seed_samples=False)"
        ) from None
