"""`NpyDataset`: NumPy's `.npy` files, memory-mapped."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from .native_dataset import NativeDataset, native_format

_Path = str | bytes | os.PathLike[str]


@native_format
class NpyDataset(NativeDataset):
    """The rows of one or more `.npy` files, read from disk as they are asked for.

    Sample i is row i of every file: a tensor for one file, a tuple for several, a dict for named ones. Each sample and
    each batch is a copy of its own, so it can be written to, and stays valid when the files go away. The files are
    mapped, never read whole: they may be larger than memory. C and Fortran order are read, and every data type of
    NumPy's that torch has too, in the machine's byte order.

    A map-style dataset as any other (`len`, `[i]`, `[i:j]`, `[[i, j]]`, `__getitems__`), under torch's own loader too.
    `sluicegate.DataLoader` reads it in Rust. It can be pickled: the paths travel, made absolute, and are opened again.
    Threads may share it. Source: NumPy's format specification (`numpy.lib.format`).

    Args:
        *paths: files whose rows make up the sample in this order.
        **named_paths: files whose rows are the sample's entries under these names. Either kind, not both.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is truncated, is no `.npy` file, holds objects or another type that torch does not have, or
            is a scalar; or the files have unequal lengths.
        OSError: while reading: a file shrank since it was opened.

    Example:
        >>> import numpy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/image.npy", numpy.zeros((10, 3, 4, 4), dtype=numpy.uint8))
        >>> numpy.save(f"{folder}/label.npy", numpy.arange(10))
        >>> dataset = NpyDataset(image=f"{folder}/image.npy", label=f"{folder}/label.npy")
        >>> dataset[7]["label"]
        tensor(7)
    """

    def __init__(self, /, *paths: _Path, **named_paths: _Path) -> None:
        if bool(paths) == bool(named_paths):
            raise ValueError(
                "NpyDataset takes files (NpyDataset('x.npy')) or named files (NpyDataset(image='x.npy', "
                f"label='y.npy')), but got {len(paths)} files and {len(named_paths)} named files"
            )
        self.paths: tuple[str, ...] | dict[str, str]
        if paths:
            self.paths = tuple(_absolute(path) for path in paths)
        else:
            self.paths = {name: _absolute(path) for name, path in named_paths.items()}
        self._open()

    def _open(self) -> None:
        if isinstance(self.paths, dict):
            names, paths = list(self.paths), list(self.paths.values())
            structure: Any = {name: field for field, name in enumerate(names)}
        else:
            paths = list(self.paths)
            # What errors call them; a path need not be text.
            names = [os.fsencode(path).decode(errors="replace") for path in paths]
            structure = list(range(len(paths))) if len(paths) > 1 else 0
        parts = [(name, _core.Dataset.npy(name, path)) for name, path in zip(names, paths, strict=True)]
        core = _core.Dataset.stack(parts) if len(parts) > 1 else parts[0][1]
        self._set_core(core, structure, ["tensor"] * len(parts))

    def __repr__(self) -> str:
        """The constructor's call."""
        if isinstance(self.paths, dict):
            return f"NpyDataset({', '.join(f'{name}={path!r}' for name, path in self.paths.items())})"
        return f"NpyDataset({', '.join(map(repr, self.paths))})"


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))
