"""`write_parquet`: writes the samples of a dataset as Parquet files of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sluicegate import _core
from sluicegate.formats.tokens import count_from
from sluicegate.paths import Path

from .output import ShardFormat, write_shards
from .parquet_columns import ParquetColumn, ParquetSchema, row_bytes


def write_parquet(
    dataset: Any,
    pattern: Path,
    *,
    shard_bytes: int = 1 << 30,
    row_group_rows: int = 10_000,
    compression: str | None = "zstd",
    ragged: Collection[str] = (),
    num_workers: int = 0,
    threads: int = 2,
    resume: bool = True,
) -> list[str]:
    """Write the samples of `dataset`, in order, as Parquet files.

    A sample is a dict, or a tuple whose fields are named "0", "1" and so on. The first 64 samples determine the type of
    each field, and every later one is checked against it:

    - A tensor or an array keeps its data type and becomes nested fixed-size lists according to its shape, or a list if
      it has one axis whose length varies. A NumPy scalar or a tensor without axes is a number of its type.
    - `int` is int64 (float64 among `float`s), `float` is float64, and `bool` is a boolean.
    - `str` is a string, and `bytes` is a binary.
    - A list of numbers, of `str` or of `bytes` is a list of any length.
    - A dict is a struct. A list of dicts, of lists or of arrays, or one that contains None, is a list of such values,
      and so on, up to 32 levels deep. Arrays in them are lists of any length. All dicts in one place have the same
      keys.

    None is a null, in any field, and anywhere in a dict or such a list.

    Files are written as in `write_tar`: completely or not at all. A job that was killed resumes when it is called again
    with the same arguments and samples. Row groups are encoded by several threads. The bytes depend on the samples, the
    arguments, and the version of this package.

    Args:
        dataset: map-style or iterable.
        pattern: the path of the files, with a placeholder for their number in the syntax of `str.format`:
            `"out-{:05d}.parquet"`.
        shard_bytes: the maximum size in bytes of a file's samples before they are encoded and compressed; a file with a
            single sample may be larger. Files are usually smaller.
        row_group_rows: the maximum number of samples in a row group, which is also limited to 64 MiB before encoding: a
            reader decodes one row group at a time.
        compression: `"zstd"` (default), `"snappy"` or None.
        ragged: fields whose arrays differ in length along the first axis, if the first samples do not show it.
        num_workers: worker processes that read and check the samples, as in `DataLoader`; not used for an iterable
            dataset.
        threads: the number of threads that encode.
        resume: as in `write_tar`.

    Returns:
        The paths of the files.

    Raises:
        TypeError, ValueError: a sample cannot be written, or does not match the first ones (the message names the
            sample, the field, and the place in it: `messages[1].role`); an argument is invalid; or the existing output
            was begun with other arguments or other samples.
        OSError: something could not be written, or the folder does not exist.
        FileExistsError: a file has the name of a shard but was not written by this function.
        RuntimeError: another process or thread is writing these files.

    Examples:
        >>> import tempfile, torch
        >>> samples = [{"image": torch.zeros(3, 8, 8), "caption": "a cat", "label": 3} for _ in range(10)]
        >>> paths = write_parquet(samples, f"{tempfile.mkdtemp()}/cats-{{:03d}}.parquet", shard_bytes=4096)
        >>> len(paths)
        2
    """
    if compression not in ("zstd", "snappy", None):
        raise ValueError(f"compression should be 'zstd', 'snappy' or None, but got {compression!r}")
    if isinstance(ragged, str):
        raise TypeError(f"ragged: expected names of fields, but got {ragged!r}")
    return write_shards(
        dataset,
        pattern,
        _ParquetFormat(count_from("row_group_rows", row_group_rows, 1), compression, sorted(ragged)),
        shard_bytes=shard_bytes,
        num_workers=num_workers,
        threads=threads,
        resume=resume,
    )


class _ParquetFormat(ShardFormat):
    """A block is the number of its samples and a list of columns."""

    example = "out-{:05d}.parquet"

    def __init__(self, row_group_rows: int, compression: str | None, ragged: list[str]) -> None:
        self.row_group_rows = row_group_rows
        self.compression = compression
        self.ragged = ragged
        self.schema = ParquetSchema([], are_tuples=False)

    def arguments(self) -> dict[str, Any]:
        names = ("row_group_rows", "compression", "ragged")
        return {"format": "parquet", **{name: getattr(self, name) for name in names}}

    def infer_schema(self, samples: list[Any]) -> Any:
        self.schema = ParquetSchema.of(samples, self.ragged)
        return self.schema.as_json()

    def restore_schema(self, form: Any) -> None:
        self.schema = ParquetSchema.from_json(form)

    def encode(self, samples: list[Any], first: int) -> tuple[int, list[ParquetColumn]]:
        return len(samples), self.schema.columns(samples, first)

    def digested(self, block: tuple[int, list[ParquetColumn]], position: int) -> Iterable[bytes]:
        return row_bytes(block[1], self.schema.fields, position)

    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        fields = [(*field[:3], list(field.shape)) for field in self.schema.fields]
        return _core.Shards.parquet(shard_bytes, threads, fields, self.row_group_rows, self.compression)

    def append(self, shards: _core.Shards, block: tuple[int, list[ParquetColumn]], start: int, first: int) -> int:
        count, columns = block
        return shards.append_columns(
            [
                (column.values, column.sizes.tobytes(), column.lengths.tobytes(), column.missing.tobytes())
                for column in columns
            ],
            start,
            count,
        )
