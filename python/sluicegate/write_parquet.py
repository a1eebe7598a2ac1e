"""`write_parquet`: the samples of a dataset, as Parquet files of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from . import _core
from .parquet_columns import ParquetColumn, ParquetSchema, row_bytes
from .paths import Path
from .sharded_output import ShardFormat, write_shards
from .tokens import count_from


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
    """Writes the samples of `dataset`, in its order, as Parquet files.

    A sample is a dict, or a tuple, whose fields are called "0", "1" and so on. The first 64 samples tell what each
    field is, and every later one is checked:

    - a tensor or an array keeps its data type, and is fixed-size lists, one in the other, as its shape says; where its
      length along its only axis differs, a list; a NumPy scalar or a tensor without axes is a number of its type;
    - `int` is int64 (float64 among `float`s), `float` float64, `bool` a boolean;
    - `str` is a string, `bytes` a binary;
    - a list of numbers, of `str` or of `bytes` is a list, of any length;
    - a dict is a struct; a list of dicts, of lists, of arrays, or with a None in it is a list of such, and so on, 32
      deep. Arrays in them are lists, of any length. All dicts in one place have the same keys.

    None is a null, in any field, and anywhere in a dict or such a list.

    Files are written as `write_tar` writes them: whole or not at all, and what was killed goes on where it was when it
    is called again with the same arguments and samples. Row groups are encoded by several threads. The bytes depend on
    the samples and the arguments, and on the version of this package.

    Args:
        dataset: map-style or iterable.
        pattern: the path of the files, with a place for their number as of `str.format`: `"out-{:05d}.parquet"`.
        shard_bytes: the samples of a file have at most so many bytes before they are encoded and compressed, or it has
            one sample. Files are smaller, mostly.
        row_group_rows: a row group has at most so many samples, and at most 64 MiB before they are encoded: what a
            reader decodes at once.
        compression: `"zstd"` (default), `"snappy"` or None.
        ragged: fields whose arrays differ in length along the first axis, where the first samples don't show it.
        num_workers: worker processes that read and check the samples, as of `DataLoader`; of an iterable dataset none.
        threads: the number of threads that encode.
        resume: as in `write_tar`.

    Returns:
        The paths of the files.

    Raises:
        TypeError, ValueError: a sample can't be written, or is not like the first ones (the text names sample and
            field, and the place in it: `messages[1].role`); an argument that can't be used; what was begun there was
            begun with other arguments, or of other samples.
        OSError: what could not be written, or the folder, which is not there.
        FileExistsError: a file is named like a shard, and this function has not written it.
        RuntimeError: another process or thread writes these files at the moment.

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
    """A block is a list of columns."""

    example = "out-{:05d}.parquet"

    def __init__(self, row_group_rows: int, compression: str | None, ragged: list[str]) -> None:
        self.row_group_rows = row_group_rows
        self.compression = compression
        self.ragged = ragged
        self.schema = ParquetSchema([], are_tuples=False)

    def arguments(self) -> dict[str, Any]:
        names = ("row_group_rows", "compression", "ragged")
        return {"format": "parquet", **{name: getattr(self, name) for name in names}}

    def learn(self, samples: list[Any]) -> Any:
        self.schema = ParquetSchema.of(samples, self.ragged)
        return self.schema.as_json()

    def recall(self, form: Any) -> None:
        self.schema = ParquetSchema.from_json(form)

    def encode(self, samples: list[Any], first: int) -> tuple[int, list[ParquetColumn]]:
        return len(samples), self.schema.columns(samples, first)

    def digested(self, block: tuple[int, list[ParquetColumn]], place: int) -> Iterable[bytes]:
        return row_bytes(block[1], self.schema.fields, place)

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
