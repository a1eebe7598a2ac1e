"""`ZarrStore`: a Zarr store that is being written, row by row of shards."""

from __future__ import annotations

import itertools
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .zarr_layout import Array, ZarrLayout

# All shards are files, so that one that is missing was lost.
_CONFIG: Any = {"write_empty_chunks": True}


class ZarrStore:
    """A folder of arrays that share their first axis. A row consists of the shards at one place of that axis.

    Each shard is written once and as a whole. Needs zarr 3.

    Args:
        folder: the folder of the store.
        layouts: the arrays.
    """

    def __init__(self, folder: str, layouts: Sequence[ZarrLayout]) -> None:
        self.folder = folder
        self.layouts = layouts
        self.row = layouts[0].shards[0]
        """The number of samples in a row."""
        self._arrays: dict[str, Any] = {}

    def create(
        self,
        length: int | None,
        compression: str | None,
        attributes: Mapping[str, Any],
        field_attributes: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Make the folder and the arrays, without data."""
        from zarr import create_group
        from zarr.codecs import ZstdCodec

        group = create_group(self.folder, attributes=dict(attributes))
        for layout in self.layouts:
            self._arrays[layout.name] = group.create_array(
                layout.name,
                # Without a known number of samples, it grows.
                shape=(self.row if length is None else length, *layout.shape),
                chunks=layout.chunks,
                shards=layout.shards,
                dtype=layout.dtype,
                compressors=None if compression is None else ZstdCodec(),
                chunk_key_encoding={"name": "default", "separator": "/"},
                dimension_names=layout.dims,
                attributes=dict(field_attributes.get(layout.name, {})),
                config=_CONFIG,
            )

    def open(self) -> None:
        """Open the arrays of a store that was created earlier, to write more rows."""
        from zarr import open_group

        group: Any = open_group(self.folder, mode="r+")
        for layout in self.layouts:
            self._arrays[layout.name] = group[layout.name].with_config(_CONFIG)

    def write(self, number: int, values: Mapping[str, Array]) -> None:
        """Write row `number`; only the last one may have fewer samples."""
        start = number * self.row
        for name, array in self._arrays.items():
            stop = start + len(values[name])
            if stop > array.shape[0]:
                # Zarr lists all shards each time.
                array.resize((max(stop, 2 * array.shape[0]), *array.shape[1:]))
            array[start:stop] = values[name]

    def finish(self, length: int) -> None:
        """Set the number of samples, and write the metadata that xarray reads at once."""
        from zarr import consolidate_metadata

        for array in self._arrays.values():
            if array.shape[0] != length:
                array.resize((length, *array.shape[1:]))
        with warnings.catch_warnings():
            # That this is not in the specification yet; xarray writes it, too.
            warnings.simplefilter("ignore")
            consolidate_metadata(self.folder)
        _sync(self.metadata_paths())

    def metadata_paths(self) -> list[str]:
        """Return the paths of the metadata of the store, then of the arrays."""
        return [os.path.join(self.folder, *each, "zarr.json") for each in [(), *((one.name,) for one in self.layouts)]]

    def sync(self, number: int) -> int:
        """Wait until the disk has row `number`; return its size in bytes."""
        paths = list(self._shards(number))
        _sync(paths)
        return sum(map(os.path.getsize, paths))

    def size(self, number: int) -> int | None:
        """Return the size of row `number` in bytes; None if a shard is missing."""
        try:
            return sum(map(os.path.getsize, self._shards(number)))
        except OSError:
            return None

    def remove_from(self, number: int) -> None:
        """Remove all rows from `number` on, and files that a killed process has not finished."""
        for path in self.metadata_paths():
            # The name under which zarr writes a file before it replaces another.
            for unfinished in Path(path).parent.glob("*.partial"):
                unfinished.unlink()
        for layout in self.layouts:
            folder = os.path.join(self.folder, layout.name, "c")
            with suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    if not (name.isdecimal() and int(name) < number):
                        path = os.path.join(folder, name)
                        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def _shards(self, number: int) -> Iterator[str]:
        for layout in self.layouts:
            for place in itertools.product([number], *map(range, layout.grid)):
                yield os.path.join(self.folder, layout.name, "c", *map(str, place))


def _sync(paths: Sequence[str]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
