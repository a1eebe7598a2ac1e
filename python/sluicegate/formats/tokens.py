"""`TokensDataset`: windows over files of tokens, flat or in Megatron's format."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.native.dataset import NativeDataset, native_format
from sluicegate.paths import Paths, expand

# The type that nanoGPT's scripts write.
_FLAT_DTYPE = "uint16"

# The data types of tokens.
_DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")


@native_format
class TokensDataset(NativeDataset):
    """Windows of `length` tokens from files of tokens, as int64 tensors, read from disk on demand.

    Sample i holds the tokens starting at i * `stride`. `output` selects its form:

    - `"dict"`: `{"input_ids", "labels"}`, each of `length` tokens and equal to each other, as expected by Hugging
      Face's models, which shift the labels themselves. With `shift_labels=True`, label k is the token after input k,
      for models that do not shift.
    - `"pair"`: `(x, y)`, where `y[k]` is the token after `x[k]`, as in nanoGPT.
    - `"tensor"`: one tensor of `length` + 1 tokens; `x, y = batch[:, :-1], batch[:, 1:]` are views of it.

    A flat file holds only tokens, little-endian. One-dimensional `.npy` files, and the files of llm.c and
    modded-nanogpt (magic 20240520 with uint16, 20240801 with uint32), have a header, which is read. A file that begins
    like another format, such as gzip, zip, Parquet or HDF5, is an error. A file `name.bin` with a `name.idx` next to it
    is a Megatron pair, which may also be given as `name` or `name.idx`; the index gives the data type of its tokens.
    Every number of the index is checked when it is opened. Several files are concatenated.

    No window crosses the end of a file, and tokens after the last whole window of a file are in no sample. With the
    default stride, windows are adjacent. For windows at random offsets, as nanoGPT draws them, use `stride=1` with a
    `RandomSampler`.

    The files are memory-mapped, never read whole, and no descriptor stays open; they may be larger than memory, and
    there may be many thousands. A sample or a batch has its own memory. A map-style dataset (`len`, `[i]`, `[i:j]`,
    `[[i, j]]`, `__getitems__`) that also works under torch's own loader; `sluicegate.DataLoader` reads it in Rust. It
    can be pickled: only the arguments are, with absolute paths, and unpickling opens the files again. It is
    thread-safe.

    Args:
        path: a file, several files, or a pattern: `"shard-*.bin"` (sorted by name), `"shard-{000..009}.bin"`; see
            `sluicegate.paths.expand`.
        length: tokens per sample, at least 1.
        dtype: the data type of a flat file's tokens: `"uint8"`, `"uint16"`, `"uint32"`, `"int8"` to `"int64"`, or the
            NumPy or torch type of that name. Default: `"uint16"`, and for other files the type in the index or header.
        stride: tokens between the starts of consecutive windows, at least 1. Default: `length`.
        output: `"dict"` (default), `"pair"` or `"tensor"`.
        shift_labels: True if labels are the next tokens. Default: False for `"dict"`, True for `"pair"`.
        documents: `"joined"` (default): a file is one text. `"apart"`: no window crosses the end of a document in a
            Megatron index, and documents that are shorter than a window are in no sample.
        offset: bytes before the first token of a flat file with an unsupported header; the header is not parsed.
            Default 0.
        vocabulary_size: tokens greater than or equal to this are errors, to detect files of another tokenizer. Default:
            not checked.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches the pattern.
        ValueError: a file is empty, does not hold a whole number of tokens, or has another format; an index or header
            is damaged or does not match its file (the message names file, byte and reason); no document is as long as a
            window; a number is not positive. While reading: a token is outside the vocabulary.
        OSError: while reading: a file shrank or was replaced since it was opened.

    Examples:
        >>> import numpy, tempfile
        >>> from sluicegate import DataLoader, RandomSampler
        >>> path = f"{tempfile.mkdtemp()}/train.bin"
        >>> numpy.arange(1000, dtype=numpy.uint16).tofile(path)
        >>> dataset = TokensDataset(path, 8, output="pair")
        >>> len(dataset), dataset[1]
        (124, (tensor([ 8,  9, 10, 11, 12, 13, 14, 15]), tensor([ 9, 10, 11, 12, 13, 14, 15, 16])))

        Random windows, which may begin at every token:

        >>> dataset = TokensDataset(path, 8, stride=1, output="pair")
        >>> sampler = RandomSampler(dataset, replacement=True, num_samples=32, seed=7)
        >>> x, y = next(iter(DataLoader(dataset, batch_size=4, sampler=sampler)))
        >>> x.shape, bool((y == x + 1).all())
        (torch.Size([4, 8]), True)
    """

    def __init__(
        self,
        path: Paths,
        length: int,
        dtype: Any = None,
        stride: int | None = None,
        *,
        output: str = "dict",
        shift_labels: bool | None = None,
        documents: str = "joined",
        offset: int = 0,
        vocabulary_size: int | None = None,
    ) -> None:
        for name, value, choices in (
            ("output", output, ("dict", "pair", "tensor")),
            ("documents", documents, ("joined", "apart")),
        ):
            if value not in choices:
                raise ValueError(f"{name} should be one of {', '.join(map(repr, choices))}, but got {value!r}")
        if output == "tensor" and shift_labels is not None:
            raise ValueError(
                f"shift_labels: output='tensor' has no labels, but got shift_labels={shift_labels!r}; leave it out"
            )
        self.length = count_from("length", length, 1)
        self.stride = self.length if stride is None else count_from("stride", stride, 1)
        self.dtype = None if dtype is None else checked_dtype(dtype)
        self.output = output
        self.shift_labels = output == "pair" if shift_labels is None else bool(shift_labels)
        self.documents = documents
        self.offset = count_from("offset", offset, 0)
        self.vocabulary_size = None if vocabulary_size is None else count_from("vocabulary_size", vocabulary_size, 1)
        self.paths = token_paths(path)
        self._open()

    def _open(self) -> None:
        files = self._files(apart=self.documents == "apart")
        fields = "tokens" if self.output == "tensor" else "shifted" if self.shift_labels else "same"
        core = _core.tokens_dataset(files, self.length, self.stride, fields, self.vocabulary_size)
        structures: dict[str, Any] = {"dict": {"input_ids": 0, "labels": 1}, "pair": [0, 1], "tensor": 0}
        self._set_core(core, structures[self.output], ["tensor"] * len(core.fields))

    def _files(self, *, apart: bool) -> _core.TokenFiles:
        return open_files(self.paths, self.dtype, self.offset, apart=apart)

    @property
    def document_lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens of every document, whatever `documents` is: int64, read-only.

        Reads the indices again. A file without an index is one document.
        """
        return np.frombuffer(self._files(apart=True).document_lengths(), np.int64)

    def _shown(self) -> str:
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]!r}{more}, {self.length}"


def token_paths(paths: Paths) -> list[str]:
    """Return the files that `paths` names. If a pattern matches both files of a Megatron pair, that is one entry."""
    found = expand(paths)
    both = set(found)
    return [path for path in found if not (path.endswith(".idx") and f"{path[:-4]}.bin" in both)]


def open_files(paths: list[str], dtype: str | None, offset: int, *, apart: bool) -> _core.TokenFiles:
    """Open the files at `paths`.

    With `dtype` None, flat files have nanoGPT's type, and others the type in their index or header.

    Raises:
        ValueError: an index or header has a different data type than `dtype`.
    """
    files = _core.TokenFiles(paths, dtype or _FLAT_DTYPE, offset, apart)
    if dtype is not None:
        for path, found in zip(paths, files.dtypes, strict=True):
            if found != dtype:
                raise ValueError(
                    f"dtype: expected {found}, which the index or header of {path} says, but got {dtype!r}; leave it "
                    "out"
                )
    return files


def checked_dtype(dtype: Any) -> str:
    """Return the name of a token data type, given in any form."""
    if isinstance(dtype, torch.dtype):
        name = str(dtype).removeprefix("torch.")
    else:
        try:
            described = np.dtype(dtype)
        except TypeError:
            raise TypeError(f"dtype should be a data type or the name of one, but got {dtype!r}") from None
        if described.byteorder == ">":
            raise ValueError(f"dtype: expected little-endian, but got {dtype!r}, which is big-endian")
        name = described.name
    if name not in _DTYPES:
        raise ValueError(f"dtype should be one of {', '.join(_DTYPES)}, but got {name}")
    return name


def count_from(name: str, number: Any, least: int) -> int:
    """Return `number` if it is an integer of at least `least`."""
    try:
        count = operator.index(number)
    except TypeError:
        raise TypeError(f"{name} should be an integer, but got {number!r}") from None
    if isinstance(number, bool) or not least <= count < 2**63:
        raise ValueError(f"{name} should be an integer from {least} to 2**63 - 1, but got {name}={number!r}")
    return int(count)
