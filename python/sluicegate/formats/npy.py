"""`NpyDataset`: NumPy's `.npy` files, memory-mapped."""

from __future__ import annotations

import os
from typing import Any

from sluicegate import _core
from sluicegate.native.dataset import NativeDataset, native_format
from sluicegate.paths import Paths, expand, listed


@native_format
class NpyDataset(NativeDataset):
    """The rows of one or more `.npy` files, read from disk on demand.

    Sample i is row i of every file: a tensor for one file, a tuple for several, a dict for named ones. Instead of one
    file, a list or a pattern may name several files to concatenate. Each sample and each batch is an independent copy:
    it is writable, and stays valid when the files are removed. The files are memory-mapped, never read whole, so they
    may be larger than memory. If a list has more than 4,096 files, the rest are mapped on each read, which adds about
    20 µs each. C and Fortran order are supported, as is every NumPy data type that torch has, in the machine's byte
    order.

    A map-style dataset (`len`, `[i]`, `[i:j]`, `[[i, j]]`, `__getitems__`) that also works under torch's own loader.
    `sluicegate.DataLoader` reads it in Rust. It can be pickled: only the absolute paths are, and unpickling opens the
    files again. It is thread-safe. Source: NumPy's format specification (`numpy.lib.format`).

    Args:
        *paths: files whose rows make up the sample, in this order; each a path, a list of paths, a glob or a brace
            range (`"images-{00..09}.npy"`).
        **named_paths: files whose rows are the sample's entries under these names. Give either `paths` or
            `named_paths`, not both.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is truncated, is not an `.npy` file, holds objects or another type that torch does not have,
            or is a scalar; the files have unequal lengths; or the rows of a file in a list do not match those of the
            first.
        OSError: while reading: a file shrank since it was opened.

    Examples:
        >>> import numpy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/image.npy", numpy.zeros((10, 3, 4, 4), dtype=numpy.uint8))
        >>> numpy.save(f"{folder}/label.npy", numpy.arange(10))
        >>> dataset = NpyDataset(image=f"{folder}/image.npy", label=f"{folder}/label.npy")
        >>> dataset[7]["label"]
        tensor(7)
    """

    def __init__(self, /, *paths: Paths, **named_paths: Paths) -> None:
        if bool(paths) == bool(named_paths):
            raise ValueError(
                "paths: expected either files, NpyDataset('x.npy'), or named files, NpyDataset(image='x.npy', "
                f"label='y.npy'), but got {len(paths)} files and {len(named_paths)} named files"
            )
        self.paths: tuple[str | list[str], ...] | dict[str, str | list[str]]
        if paths:
            self.paths = tuple(_one_or_many(path) for path in paths)
        else:
            self.paths = {name: _one_or_many(path) for name, path in named_paths.items()}
        self._open()

    def _open(self) -> None:
        if isinstance(self.paths, dict):
            names, paths = list(self.paths), [_many(path) for path in self.paths.values()]
            structure: Any = {name: field for field, name in enumerate(names)}
        else:
            paths = [_many(path) for path in self.paths]
            # The names used in errors. Decoded with replacement, because a path need not be valid text.
            names = [os.fsencode(files[0]).decode(errors="replace") for files in paths]
            structure = list(range(len(paths))) if len(paths) > 1 else 0
        parts = [(name, _core.npy_dataset(name, files)) for name, files in zip(names, paths, strict=True)]
        core = _core.Dataset.stack(parts) if len(parts) > 1 else parts[0][1]
        self._set_core(core, structure, ["tensor"] * len(parts))

    def _shown(self) -> str:
        if isinstance(self.paths, dict):
            return ", ".join(f"{name}={listed(_many(path))}" for name, path in self.paths.items())
        return ", ".join(listed(_many(path)) for path in self.paths)


def _one_or_many(paths: Paths) -> str | list[str]:
    found = expand(paths)
    return found[0] if len(found) == 1 else found


def _many(paths: str | list[str]) -> list[str]:
    return [paths] if isinstance(paths, str) else paths
