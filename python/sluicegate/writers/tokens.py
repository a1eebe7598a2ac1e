"""`write_tokens`: writes documents of tokens as files of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.formats.tokens import checked_dtype
from sluicegate.named_error import named_error
from sluicegate.paths import Path

from .output import ShardFormat, write_shards

_LAYOUTS = ("flat", "megatron")


def write_tokens(
    documents: Any,
    pattern: Path,
    *,
    dtype: Any = "uint16",
    layout: str = "flat",
    end_of_document: int | None = None,
    field: str | None = None,
    shard_bytes: int = 1 << 30,
    num_workers: int = 0,
    threads: int = 2,
    resume: bool = True,
) -> list[str]:
    """Write documents of tokens, in order, as the files that `TokensDataset` reads.

    A document is a tensor, a NumPy array or a list of integers with one axis. Every token must fit `dtype`; documents
    are never cut.

    Shards are written as in `write_tar`: completely or not at all, while the next documents are made. A job that was
    killed resumes when it is called again with the same arguments and documents.

    Args:
        documents: a map-style or iterable dataset of documents, or a list; tokenizing is best done in its
            `__getitem__`.
        pattern: the path of the files, with a placeholder for their number in the syntax of `str.format`:
            `"train-{:05d}.bin"`.
        dtype: the data type of a token in the files, little-endian: `"uint8"`, `"uint16"` (default), `"uint32"`,
            `"int8"` to `"int64"`, or NumPy's or torch's type of that name. Megatron's index has no `uint32`.
        layout: `"flat"` (default): only tokens, as in nanoGPT. `"megatron"`: a `.bin` next to a `.idx`, in which each
            document is one sequence.
        end_of_document: a token to append to each document. Default: none.
        field: the field to use if a sample is a dict, such as `"input_ids"`. Default: the sample is the document.
        shard_bytes: the maximum size of a `.bin` in bytes; one that holds a single document may be larger.
        num_workers: worker processes that read the documents, as in `DataLoader`; not used for an iterable dataset.
        threads: the number of threads that write.
        resume: as in `write_tar`.

    Returns:
        The paths of the `.bin` files.

    Raises:
        ValueError: a token does not fit `dtype` (the message names document and position); an argument is invalid; or
            the existing output was begun with other arguments or other documents.
        TypeError: a document is not one of the types above.
        OSError: something could not be written, or the folder does not exist.
        FileExistsError: a file has the name of a shard but was not written by this function.
        RuntimeError: another process or thread is writing these files.

    Examples:
        >>> import tempfile
        >>> from sluicegate import TokenDocumentsDataset
        >>> pattern = f"{tempfile.mkdtemp()}/{{}}.bin"
        >>> paths = write_tokens([[1, 2, 3], [4]], pattern, layout="megatron", end_of_document=0)
        >>> [document.tolist() for document in TokenDocumentsDataset(paths)]
        [[1, 2, 3, 0], [4, 0]]
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"layout should be one of {', '.join(map(repr, _LAYOUTS))}, but got {layout!r}")
    if not os.fsdecode(pattern).endswith(".bin"):
        raise ValueError(f"pattern: expected a name that ends in '.bin', but got {os.fsdecode(pattern)!r}")
    form = _TokenFormat(checked_dtype(dtype), layout, end_of_document, field)
    return write_shards(
        documents,
        pattern,
        form,
        shard_bytes=shard_bytes,
        num_workers=num_workers,
        threads=threads,
        resume=resume,
    )


class _TokenFormat(ShardFormat):
    """A block is a list of documents, each as its bytes in the file."""

    example = "train-{:05d}.bin"

    def __init__(self, dtype: str, layout: str, end_of_document: int | None, field: str | None) -> None:
        self.dtype = dtype
        self.layout = layout
        self.field = field
        self.end_of_document = None
        if end_of_document is not None:
            try:
                (self.end_of_document,) = _as_tokens([end_of_document], dtype).tolist()
            except (TypeError, ValueError) as error:
                raise named_error("end_of_document", error) from None

    def arguments(self) -> dict[str, Any]:
        names = ("dtype", "layout", "end_of_document", "field")
        return {"format": "tokens", **{name: getattr(self, name) for name in names}}

    def files(self, path: str) -> list[str]:
        # Also for a flat file: with a leftover index next to it, it would not be read as flat.
        return [path, f"{path.removesuffix('.bin')}.idx"]

    def encode(self, samples: list[Any], first: int) -> list[bytes]:
        return [self._document(sample, index) for index, sample in enumerate(samples, first)]

    def _document(self, sample: Any, index: int) -> bytes:
        if self.field is not None:
            if not isinstance(sample, Mapping) or self.field not in sample:
                raise TypeError(f"document {index}: expected a dict with {self.field!r}, but got {_shown(sample)}")
            sample = sample[self.field]
        try:
            tokens = _as_tokens(sample, self.dtype)
        except (TypeError, ValueError) as error:
            raise named_error(f"document {index}", error) from None
        if self.end_of_document is not None:
            tokens = np.append(tokens, tokens.dtype.type(self.end_of_document))
        return tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()

    def digested(self, block: list[bytes], position: int) -> Iterable[bytes]:
        return [block[position]]

    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        return _core.Shards.tokens(shard_bytes, threads, self.dtype, self.layout == "megatron")

    def append(self, shards: _core.Shards, block: list[bytes], start: int, first: int) -> int:
        return shards.append_documents(block, start)


def _as_tokens(document: Any, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the tokens of `document` in `dtype`."""
    if isinstance(document, torch.Tensor):
        document = document.detach().cpu().numpy()
    elif isinstance(document, (str, bytes)) or not isinstance(document, (np.ndarray, list, tuple)):
        raise TypeError(f"expected a tensor, an array or a list of tokens, but got {_shown(document)}")
    tokens = np.asarray(document)
    if tokens.ndim != 1:
        raise ValueError(f"expected tokens along one axis, but got the shape {tokens.shape}")
    if tokens.size == 0:
        return np.empty(0, dtype)
    if tokens.dtype.kind not in "iu":
        raise TypeError(f"expected integers, but got {tokens.dtype.name}")
    bounds = np.iinfo(dtype)
    if tokens.min() < bounds.min or tokens.max() > bounds.max:
        index = int(np.flatnonzero((tokens < bounds.min) | (tokens > bounds.max))[0])
        raise ValueError(
            f"expected tokens of {dtype}, from {bounds.min} to {bounds.max}, but got {tokens[index]} at {index}"
        )
    return tokens.astype(dtype, copy=False)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:60] + '...'}"
