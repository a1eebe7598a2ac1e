"""`TokenDocumentsDataset`: the documents of files of tokens, each whole."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from . import _core, _torch
from .paths import Paths
from .tokens import checked_dtype, count_from, open_files, token_paths


class TokenDocumentsDataset(Dataset[torch.Tensor]):
    """The documents of files of tokens: sample i is document i, an int64 tensor along one axis, as long as it is.

    Files are those of `TokensDataset`; a Megatron index tells of the documents, and a flat file is one document.
    Samples of unequal length can't be stacked: pack them with `PackedBatchSampler`, or give the loader a `collate_fn`.

    It keeps 8 bytes a document. It can be pickled: the paths travel, and are opened again.

    Args:
        path: a file, several, or a pattern, as for `TokensDataset`.
        dtype: the data type of a flat file's tokens, as for `TokensDataset`.
        offset: bytes before the first token of a flat file. Default 0.

    Raises:
        FileNotFoundError, ValueError, OSError: as `TokensDataset`.

    Example:
        >>> import numpy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> numpy.arange(5, dtype=numpy.uint16).tofile(f"{folder}/a.bin")
        >>> numpy.arange(3, dtype=numpy.uint16).tofile(f"{folder}/b.bin")
        >>> documents = TokenDocumentsDataset(f"{folder}/*.bin")
        >>> documents.lengths.tolist(), documents[1]
        ([5, 3], tensor([0, 1, 2]))
    """

    def __init__(self, path: Paths, dtype: Any = None, *, offset: int = 0) -> None:
        self.dtype = None if dtype is None else checked_dtype(dtype)
        self.offset = count_from("offset", offset, 0)
        self.paths = token_paths(path)
        self._open()

    def _open(self) -> None:
        self._files = open_files(self.paths, self.dtype, self.offset, apart=True)
        self.lengths: np.ndarray[Any, np.dtype[np.int64]]
        """The number of tokens of each document: int64, read-only."""
        self.lengths = np.frombuffer(self._files.document_lengths(), np.int64)

    def __len__(self) -> int:
        """The number of documents."""
        return len(self._files)

    def __getitem__(self, index: int) -> torch.Tensor:
        """The tokens of document `index`."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        """The documents at `indices`, read at once."""
        pieces = []
        for index in indices:
            number = operator.index(index)
            if not -len(self) <= number < len(self):
                raise IndexError(f"index {number} is out of range for {self!r} of {len(self)} documents")
            number %= len(self)
            pieces.append((number, 0, int(self.lengths[number])))
        return self.read_pieces(pieces)

    def read_pieces(self, pieces: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        """The tokens from start to stop of each (document, start, stop): parts of one memory."""
        tokens = _torch.from_dlpack(self._files.read(_core.Engine(0, 0), pieces))
        return list(tokens.split([stop - start for _, start, stop in pieces]))

    def __repr__(self) -> str:
        """The constructor's call, as far as it is short."""
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"TokenDocumentsDataset({self.paths[0]!r}{more})"

    def __getstate__(self) -> dict[str, Any]:
        """Whatever was set on the object; files are opened anew on the other side."""
        return {name: value for name, value in vars(self).items() if name not in ("_files", "lengths")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()
