"""`TokenDocumentsDataset`: whole documents from files of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sluicegate import _core, _torch
from sluicegate.native.dataset import NativeDataset, native_format
from sluicegate.paths import Paths

from .tokens import checked_dtype, count_from, open_files, token_paths


@native_format
class TokenDocumentsDataset(NativeDataset):
    """The documents of files of tokens: sample i is document i, a 1-D int64 tensor of the document's length.

    Files are those of `TokensDataset`; a Megatron index defines the documents, and a flat file is one document. A batch
    of documents is `{"values", "offsets"}`: its document k is `values[offsets[k]:offsets[k + 1]]`. Under a
    `PackedBatchSampler` they are packed into rows, in Rust.

    Uses 8 bytes per document. A map-style dataset (`len`, `[i]`, `[i:j]`, `[[i, j]]`, `__getitems__`) that also works
    under torch's own loader, with `collate_fn=dataset.collate`. It can be pickled: only the arguments are, and
    unpickling opens the files again. It is thread-safe.

    Args:
        path: a file, several files, or a pattern, as for `TokensDataset`.
        dtype: the data type of a flat file's tokens, as for `TokensDataset`.
        offset: bytes before the first token of a flat file. Default 0.

    Raises:
        FileNotFoundError, ValueError, OSError: as for `TokensDataset`.

    Examples:
        >>> import numpy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> numpy.arange(5, dtype=numpy.uint16).tofile(f"{folder}/a.bin")
        >>> numpy.arange(3, dtype=numpy.uint16).tofile(f"{folder}/b.bin")
        >>> documents = TokenDocumentsDataset(f"{folder}/*.bin")
        >>> documents.lengths.tolist(), documents[1]
        ([5, 3], tensor([0, 1, 2]))
        >>> documents[:]["values"], documents[:]["offsets"]
        (tensor([0, 1, 2, 3, 4, 0, 1, 2]), tensor([0, 5, 8]))
    """

    _OPENED = (*NativeDataset._OPENED, "files", "lengths")

    def __init__(self, path: Paths, dtype: Any = None, *, offset: int = 0) -> None:
        self.dtype = None if dtype is None else checked_dtype(dtype)
        self.offset = count_from("offset", offset, 0)
        self.paths = token_paths(path)
        self._open()

    def _open(self) -> None:
        self.files = open_files(self.paths, self.dtype, self.offset, apart=True)
        """The core's files."""
        self.lengths: np.ndarray[Any, np.dtype[np.int64]]
        """The number of tokens of each document: int64, read-only."""
        self.lengths = np.frombuffer(self.files.document_lengths(), np.int64)
        self._set_core(_core.token_documents_dataset(self.files), 0, ["ragged"])

    def read_pieces(self, pieces: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        """Return the tokens from start to stop of each (document, start, stop), as views of one buffer."""
        tokens = _torch.from_dlpack(self.files.read(_core.Engine(0, 0), pieces))
        return list(tokens.split([stop - start for _, start, stop in pieces]))

    def _shown(self) -> str:
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]!r}{more}"
