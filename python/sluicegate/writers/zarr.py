"""`write_zarr`: writes the fields of a dataset as the arrays of a Zarr store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from sluicegate.checked_number import checked_numbers
from sluicegate.passes.named_batches import Array as FieldArray
from sluicegate.passes.named_batches import Fields, NamedBatches, sample_count
from sluicegate.paths import Path, local
from sluicegate.progress_line import ProgressLine

from .zarr_job import ZarrJob
from .zarr_layout import Array, Dims, zarr_layouts
from .zarr_store import ZarrStore

_DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
}


def write_zarr(
    dataset: Any,
    path: Path,
    *,
    fields: Fields = None,
    dims: Dims = None,
    chunks: Mapping[str, int] | None = None,
    shards: Mapping[str, int] | None = None,
    compression: str | None = "zstd",
    attributes: Mapping[str, Any] | None = None,
    field_attributes: Mapping[str, Mapping[str, Any]] | None = None,
    num_workers: int = 0,
    resume: bool = True,
) -> str:
    """Write the samples of `dataset`, in order, as a Zarr store, version 3, with an array for each field.

    Samples are along the first axis of all arrays; the other axes are those of a sample. The store is read by
    `ZarrDataset(path)`, `xarray.open_zarr(path)`, and `zarr.open(path)`. Its arrays consist of shards, files that each
    hold many chunks. Two rows of shards are in memory: one is filled while the other is compressed, by the threads of
    the package zarr. Needs zarr 3.

    The store gets its name when it is complete and on disk. Until then it is called `*.unfinished`. Each shard is
    written once, as a whole.

    A job that was killed resumes when it is called again with the same arguments: it continues after the last complete
    row of shards, and reads no sample before it again. A small JSON file next to the store records this, and stays
    there; with it, a finished store is kept as it is. The samples must be the same and in the same order, which is not
    checked: put what they depend on, such as the version of a model, into `attributes`, because other attributes are an
    error.

    Args:
        dataset: one of

            - a map-style dataset, whose samples are dicts, tuples or single arrays of numbers; or an array, whose rows
              are the samples
            - an `IterableDataset` of such samples
            - any other iterable of batches of them, such as a `DataLoader` or a generator of predictions. To resume, it
              is read from its beginning, and samples that are stored already are left out
            - a function that is called with the number of samples that are stored already, and returns an iterable of
              the batches after these: so that predictions are not computed again
        path: the folder of the store.
        fields: the fields to write, by name; as a string, the only one. Of tuples, the names of all elements; of single
            arrays, the name of the array, by default "data". Default: all fields; elements of tuples are called "0",
            "1", and so on.
        dims: the names of the axes of each field, the first for the samples: a sequence if all fields have the same,
            otherwise a mapping by field. Default: "sample" for the first, and such as "data_dim_1" for others.
        chunks: the number of elements of a chunk by dimension, such as `{"time": 24, "y": 64}`. Default: a chunk is
            whole along all axes except the first, where it has about 1 MiB.
        shards: the number of elements of a shard by dimension, multiples of those of a chunk. Default: a shard is whole
            along all axes except the first, where all shards of a row have about 64 MiB.
        compression: `"zstd"` (default) or None.
        attributes: attributes of the store, in JSON types.
        field_attributes: attributes of arrays by field, in JSON types, such as `{"t2m": {"units": "K"}}`.
        num_workers: threads, or worker processes, that read the samples, as in `DataLoader`; for map-style datasets.
        resume: True (default) to keep what an earlier call with the same arguments has written; False to remove that
            store, finished or not, and write it again.

    Returns:
        The path of the store.

    Raises:
        TypeError: a field does not consist of numbers that Zarr can store.
        ValueError: there are no samples; a sample has another shape, data type, or other fields than the first one; an
            argument is invalid; or the existing store was begun with other arguments, which the message names.
        OSError: something could not be written, or the folder above `path` does not exist.
        FileExistsError: something is at `path` that was not written by this function.
        RuntimeError: another process or thread is writing this store.

    Examples:
        >>> import numpy, tempfile
        >>> from sluicegate import ZarrDataset, write_zarr
        >>> path = f"{tempfile.mkdtemp()}/store"
        >>> values = numpy.arange(24.0).reshape(6, 4)
        >>> path = write_zarr(values, path, fields="t2m", dims=["time", "x"], chunks={"time": 2, "x": 2})
        >>> ZarrDataset(path, "t2m")[1].tolist()
        [4.0, 5.0, 6.0, 7.0]
    """
    if compression not in ("zstd", None):
        raise ValueError(f"compression should be 'zstd' or None, but got {compression!r}")
    path = local("path", path, is_written=True)
    batches = NamedBatches(dataset, fields, num_workers)
    arguments = {
        "length": batches.length,
        "fields": batches.fields,
        "dims": _json("dims", dims),
        "chunks": checked_numbers("chunks", {} if chunks is None else chunks, 1),
        "shards": checked_numbers("shards", {} if shards is None else shards, 1),
        "compression": compression,
        "attributes": _json("attributes", attributes or {}),
        "field_attributes": _json("field_attributes", field_attributes or {}),
    }
    with ZarrJob(path, arguments) as job:
        job.load(resume)
        if job.is_whole:
            return path
        try:
            with ProgressLine(f"writing {os.path.basename(path)}", batches.length) as line:
                line.advance(job.samples)
                _write(batches, job, line)
            if job.store is None:
                raise ValueError("dataset: expected at least one sample, but got none")
            job.finish()
        except BaseException:
            job.discard()
            raise
    return path


def _write(batches: NamedBatches, job: ZarrJob, line: ProgressLine) -> None:
    with ThreadPoolExecutor(1) as pool:
        rows = _Rows(job, pool)
        try:
            for batch in batches.starting_at(job.samples):
                rows.append({name: _as_numpy(name, array) for name, array in batch.items()})
                line.advance(sample_count(batch))
        except Exception:
            # A row that is being written need not be written again. The first error is the one to raise.
            with suppress(Exception):
                rows.wait()
            raise
        rows.end()


class _Rows:
    """Rows of shards: one is filled, and one is written.

    Args:
        job: records the rows that were written.
        pool: writes.
    """

    def __init__(self, job: ZarrJob, pool: ThreadPoolExecutor) -> None:
        self.job = job
        self._pool = pool
        self._started = job.samples
        """The number of samples in all rows that are written or in the pool."""
        self._values: dict[str, Array] = {}
        self._filled = 0
        self._writing: tuple[Future[None], int] | None = None

    def append(self, batch: Mapping[str, Array]) -> None:
        """Append the samples of a batch.

        Raises:
            ValueError: they have other fields, shapes or data types than those before.
        """
        store = self.job.store or self._begin(batch)
        _check(batch, store)
        position, count = 0, sample_count(batch)
        while position < count:
            if not self._filled:
                self._values = {each.name: np.empty((store.row, *each.shape), each.dtype) for each in store.layouts}
            taken = min(count - position, store.row - self._filled)
            for name, values in self._values.items():
                values[self._filled : self._filled + taken] = batch[name][position : position + taken]
            self._filled += taken
            position += taken
            if self._filled == store.row:
                self._write(store)

    def end(self) -> None:
        """Write the last row, which may have fewer samples."""
        if self._filled and self.job.store is not None:
            self._write(self.job.store)
        self.wait()

    def wait(self) -> None:
        """Wait until all full rows are written."""
        if self._writing is not None:
            running, samples = self._writing
            running.result()
            self._writing = None
            self.job.add(samples)

    def _begin(self, batch: Mapping[str, Array]) -> ZarrStore:
        known = self.job.arguments
        return self.job.begin(zarr_layouts(batch, known["dims"], known["chunks"], known["shards"], known["length"]))

    def _write(self, store: ZarrStore) -> None:
        self.wait()
        values = {name: array[: self._filled] for name, array in self._values.items()}
        self._writing = self._pool.submit(store.write, self._started // store.row, values), self._filled
        self._started += self._filled
        self._values, self._filled = {}, 0


def _check(batch: Mapping[str, Array], store: ZarrStore) -> None:
    """Raise an error if a batch has other fields, shapes or data types than the store."""
    names = [layout.name for layout in store.layouts]
    if set(batch) != set(names):
        raise ValueError(f"dataset: expected the fields {names} in each batch, but got {list(batch)}")
    for layout in store.layouts:
        array = batch[layout.name]
        if (array.dtype.name, array.shape[1:]) != (layout.dtype, layout.shape):
            raise ValueError(
                f"field {layout.name!r}: expected samples of {layout.dtype} with the shape {layout.shape}, as the "
                f"first one, but got {array.dtype.name} with {array.shape[1:]}"
            )


def _as_numpy(name: str, array: FieldArray) -> Array:
    dtype = str(array.dtype).removeprefix("torch.") if isinstance(array, torch.Tensor) else array.dtype.name
    if dtype not in _DTYPES:
        raise TypeError(f"field {name!r}: Zarr has no data type {dtype}; convert the field, or name other fields")
    return array.numpy() if isinstance(array, torch.Tensor) else array


def _json(argument: str, value: Any) -> Any:
    """Return `value` as JSON has it."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{argument}: expected values that JSON has, but got {value!r}; {error}") from None
