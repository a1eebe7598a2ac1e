"""`NpyDataset`: NumPy's `.npy` files, memory-mapped."""

from __future__ import annotations

import operator
import os
from typing import Any

import torch
from torch.utils.data import Dataset

from . import _core, _torch

_Path = str | bytes | os.PathLike[str]


class NpyDataset(Dataset[Any]):
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

    core: _core.Dataset
    structure: Any

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
            self.structure = {name: field for field, name in enumerate(names)}
        else:
            names, paths = list(self.paths), list(self.paths)
            self.structure = list(range(len(paths))) if len(paths) > 1 else 0
        parts = [(name, _core.Dataset.npy(name, path)) for name, path in zip(names, paths, strict=True)]
        self.core = _core.Dataset.stack(parts) if len(parts) > 1 else parts[0][1]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.core)

    def __getitem__(self, index: Any) -> Any:
        """The sample at `index`, or for a slice or a list of indices their samples stacked."""
        if isinstance(index, slice):
            return self._read(list(range(*index.indices(len(self)))), single=False)
        if isinstance(index, list):
            return self._read(index, single=False)
        return self._read([index], single=True)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples at `indices`, read at once. Each has its own rows of memory that all of them share."""
        batch = _fields(self._read(list(indices), single=False))
        return [self._sample(rows) for rows in zip(*(field.unbind(0) for field in batch), strict=True)]

    def _sample(self, rows: tuple[torch.Tensor, ...]) -> Any:
        if isinstance(self.structure, dict):
            return dict(zip(self.structure, rows, strict=True))
        return rows if isinstance(self.structure, list) else rows[0]

    def _read(self, indices: list[Any], *, single: bool) -> Any:
        # An engine of no threads holds nothing but the slot of this read, which its tensors keep.
        engine = _core.Engine(0, 0)
        structure = list(range(len(self.core.fields)))
        window = _core.Prefetch(engine, self.core, structure, _torch.from_dlpack, [None] * len(structure), True)
        plain = [self._plain(index) for index in indices]
        if not window.push(0, plain):
            wrong = next(index for index in plain if not -len(self) <= index < len(self))
            raise IndexError(f"index {wrong} is out of range for {self!r} of {len(self)} samples")
        taken = window.pop({})
        assert taken is not None  # There is no timeout.
        fields: Any = taken[1]
        if isinstance(fields, Exception):
            raise fields
        return self._sample(tuple(field[0] if single else field for field in fields))

    def _plain(self, index: Any) -> int:
        try:
            return operator.index(index)
        except TypeError:
            raise TypeError(
                f"an index of {self!r} is an integer, a slice or a list of integers, not {index!r} "
                f"({type(index).__name__})"
            ) from None

    def __repr__(self) -> str:
        """The constructor's call."""
        if isinstance(self.paths, dict):
            return f"NpyDataset({', '.join(f'{name}={path!r}' for name, path in self.paths.items())})"
        return f"NpyDataset({', '.join(map(repr, self.paths))})"

    def __getstate__(self) -> dict[str, Any]:
        """The paths, and whatever was set on the object: the mapping is made anew on the other side."""
        return {name: value for name, value in vars(self).items() if name not in ("core", "structure")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _fields(sample: Any) -> list[torch.Tensor]:
    """The tensors of a sample, in the order of the files."""
    if isinstance(sample, dict):
        return list(sample.values())
    return list(sample) if isinstance(sample, tuple) else [sample]
