"""`statistics`: exact statistics of the fields of a dataset, in one pass."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.paths import Path, local
from sluicegate.progress_line import ProgressLine
from sluicegate.system.exclusive_lock import ExclusiveLock
from sluicegate.system.record_file import RecordFile

from .field_statistics import FieldStatistics
from .named_batches import Array, Fields, NamedBatches, sample_count
from .rounding import rounded_deviation, rounded_mean

_VERSION = 1

# Seconds between two states on disk.
_INTERVAL = 10.0

_DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
}


def statistics(
    dataset: Any,
    *,
    fields: Fields = None,
    state: Path | None = None,
    num_workers: int = 0,
    threads: int = 2,
) -> Any:
    """Return mean, standard deviation, minimum and maximum of each field of `dataset`, in one pass.

    The sums are exact, and only the results are rounded, correctly. So they depend neither on the number of threads nor
    on where the pass was interrupted, nor on how samples are divided into batches. NaN is counted as missing and
    otherwise left out, as xarray does with `skipna=True`.

    Every element counts as often as it is in the samples. Elements in several windows that overlap count several times,
    and those in no window do not count: use rows, or windows without overlap that cover the arrays.

    Args:
        dataset: a map-style dataset, whose samples are dicts, tuples or single arrays of numbers; an `IterableDataset`
            of such samples; or any other iterable of batches of them, such as a `DataLoader`. Also a function that is
            called with a number of samples, and returns an iterable of the batches after these. Map-style datasets are
            read by our `DataLoader`: native ones in Rust.
        fields: the fields to read, by name; as a string, the only one. Of tuples, the names of all elements. Default:
            all fields; elements of tuples are called "0", "1", and so on.
        state: a file for the progress, written every 10 seconds. If the process is killed, call this again with the
            same arguments: it resumes after the samples that are counted in the file. After the last sample, it
            returns what is in the file. An iterable of batches is read from its beginning, and counted where the file
            ends. Default: no file.
        num_workers: threads, or worker processes, that read the samples, as in `DataLoader`; for map-style datasets.
        threads: the number of threads that add.

    Returns:
        The `FieldStatistics` of each field by name; if samples are single arrays, or `fields` is a string, the only
        one.

    Raises:
        TypeError: a field does not consist of real numbers.
        ValueError: there are no samples; fields of later batches have other names; or `state` is damaged, or was
            written with other fields or for another number of samples.
        RuntimeError: another process or thread is using `state`.

    Examples:
        >>> import numpy
        >>> from sluicegate import statistics
        >>> field = statistics(numpy.array([[1.0, 2.0], [4.0, numpy.nan], [5.0, 3.0]]))
        >>> field.mean, field.min, field.max, field.count, field.missing
        (3.0, 1.0, 5.0, 5, 1)
        >>> round(field.std, 6)
        1.414214
    """
    threads = checked_number("threads", threads, 1)
    batches = NamedBatches(dataset, fields, num_workers)
    with ExitStack() as stack:
        progress = _Progress({"fields": batches.fields, "length": batches.length})
        if state is not None:
            path = local("state", state)
            stack.enter_context(ExclusiveLock(f"{path}.lock", f"uses the state {path!r}", "state"))
            progress.load(RecordFile(path))
        if not progress.is_whole:
            with ProgressLine("statistics", batches.length) as line:
                line.advance(progress.samples)
                _run(batches, progress, threads, line)
    found = {name: _result(moments) for name, moments in progress.moments.items()}
    return next(iter(found.values())) if progress.is_one_array else found


def _run(batches: NamedBatches, progress: _Progress, threads: int, line: ProgressLine) -> None:
    saved = time.monotonic()
    with _Adders(threads) as adders:
        for batch in batches.starting_at(progress.samples):
            progress.check(batch, batches.is_one_array)
            adders.add(batch)
            line.advance(sample_count(batch))
            # Not after an error: one that a signal handler raises may come between the sums and their count.
            if time.monotonic() - saved >= _INTERVAL:
                progress.take(adders)
                progress.save()
                saved = time.monotonic()
        progress.take(adders)
    if not progress.moments:
        raise ValueError("dataset: expected at least one sample, but got none")
    progress.is_whole = True
    progress.save()


class _Progress:
    """The sums of the first samples, in memory and in a file if there is one.

    Args:
        arguments: what the sums depend on in addition to the samples, in JSON types.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.samples = 0
        self.moments: dict[str, _core.Moments] = {}
        self.names: list[str] = []
        self.is_one_array = self.is_whole = False
        self._file: RecordFile | None = None

    def load(self, file: RecordFile) -> None:
        """Continue with the sums in `file`, and save them there."""
        self._file = file
        try:
            found = file.read()
            if found is None:
                return
            if found["version"] != _VERSION:
                raise ValueError(f"{file.path!r} is of version {found['version']}")
            moments = {name: _core.Moments(bytes.fromhex(sums)) for name, sums in found["moments"].items()}
        except (ValueError, KeyError) as error:
            raise ValueError(f"state: {error}; remove the file to count again from the beginning") from None
        for name, given in self.arguments.items():
            if (known := found["arguments"].get(name)) != given:
                raise ValueError(
                    f"state: {file.path!r} was written with {name}={known!r}, but got {given!r}; pass the same dataset "
                    "and fields, or remove the file"
                )
        self.moments, self.names = moments, list(moments)
        self.samples, self.is_one_array, self.is_whole = found["samples"], found["is_one_array"], found["whole"]

    def check(self, batch: Mapping[str, Array], is_one_array: bool) -> None:
        """Raise an error if a batch does not have the fields of those before it."""
        if not self.names:
            self.names, self.is_one_array = list(batch), is_one_array
        if set(batch) != set(self.names):
            raise ValueError(f"dataset: expected the fields {self.names} in each batch, but got {list(batch)}")

    def take(self, adders: _Adders) -> None:
        """Add the sums that the adders have collected."""
        for moments in adders.taken():
            for name, one in moments.items():
                self.moments.setdefault(name, _core.Moments()).merge(one)
        self.samples, adders.samples = self.samples + adders.samples, 0

    def save(self) -> None:
        """Replace the file, if there is one."""
        if self._file is None:
            return
        self._file.write(
            {
                "version": _VERSION,
                "arguments": self.arguments,
                "samples": self.samples,
                "moments": {name: self.moments[name].state().hex() for name in self.names},
                "is_one_array": self.is_one_array,
                "whole": self.is_whole,
            }
        )


class _Adders:
    """Threads that add batches, each to its own sums.

    Args:
        threads: their number.
    """

    def __init__(self, threads: int) -> None:
        self.samples = 0
        """The number of samples that were added, or will be, since `taken` was last called."""
        self._pool = ThreadPoolExecutor(threads)
        self._free: list[dict[str, _core.Moments]] = [{} for _ in range(threads)]
        self._running: list[Future[dict[str, _core.Moments]]] = []

    def __enter__(self) -> _Adders:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def add(self, batch: Mapping[str, Array]) -> None:
        """Begin to add a batch; wait if all threads are busy."""
        # Before anything is added: an error leaves the sums as they were.
        parts = [_part(name, array) for name, array in batch.items()]
        if not self._free:
            self._free.append(self._running.pop(0).result())
        self._running.append(self._pool.submit(_added, self._free.pop(), parts))
        self.samples += sample_count(batch)

    def taken(self) -> Iterator[dict[str, _core.Moments]]:
        """Wait for the threads, and return their sums, which begin again at zero."""
        for running in self._running:
            self._free.append(running.result())
        self._running.clear()
        for place, moments in enumerate(self._free):
            self._free[place] = {}
            yield moments


def _part(name: str, array: Array) -> tuple[str, str, int, tuple[int], tuple[int], Array]:
    """Return the elements of a field of a batch, in one piece of memory, as the core takes them."""
    if isinstance(array, torch.Tensor):
        array = array.contiguous()
        dtype, address, size = str(array.dtype).removeprefix("torch."), array.data_ptr(), array.numel()
    else:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        dtype, address, size = array.dtype.name, array.ctypes.data, array.size
    if dtype not in _DTYPES:
        raise TypeError(f"field {name!r}: expected real numbers, but got {dtype}; name other fields")
    return name, dtype, address, (size,), (array.itemsize,), array


def _added(
    moments: dict[str, _core.Moments], parts: list[tuple[str, str, int, tuple[int], tuple[int], Array]]
) -> dict[str, _core.Moments]:
    for part in parts:
        moments.setdefault(part[0], _core.Moments()).add(part)
    return moments


def _result(moments: _core.Moments) -> FieldStatistics:
    total, squares = (int.from_bytes(each, "little", signed=True) for each in (moments.sum, moments.squares))
    below, above = moments.infinite
    mean = std = math.nan
    if below or above:
        mean = math.nan if below and above else math.copysign(math.inf, above - below)
    elif moments.count:
        mean, std = rounded_mean(moments.count, total), rounded_deviation(moments.count, total, squares)
    return FieldStatistics(
        count=moments.count,
        missing=moments.missing,
        mean=mean,
        std=std,
        min=moments.min if moments.count else math.nan,
        max=moments.max if moments.count else math.nan,
    )
