"""`TokensDataset`: windows over files of tokens, flat ones and Megatron's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from . import _core
from .native_dataset import NativeDataset, native_format
from .paths import Paths, expand

# What nanoGPT's scripts write.
_FLAT_DTYPE = "uint16"

# The data types of tokens.
_DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")


@native_format
class TokensDataset(NativeDataset):
    """Windows of `length` tokens from files of tokens, as int64 tensors, read from disk as they are asked for.

    Sample i holds the tokens from i * `stride` on. What is in it is said by `output`:

    - `"dict"`: `{"input_ids", "labels"}`, each of `length` tokens, equal to one another: what Hugging Face's models
      take, which shift the labels themselves. With `shift_labels=True` label k is the token after input k, for models
      that do not shift.
    - `"pair"`: `(x, y)`, where `y[k]` is the token after `x[k]`, as in nanoGPT.
    - `"tensor"`: one tensor of `length` + 1 tokens; `x, y = batch[:, :-1], batch[:, 1:]` are views of it.

    A flat file holds tokens and nothing else, little-endian. A `.npy` file of one axis, and the files of llm.c and
    modded-nanogpt (magic 20240520 with uint16, 20240801 with uint32), have a header, which is read. A file that begins
    as one of another format does, such as gzip, zip, Parquet or HDF5, is an error. A file `name.bin` with a `name.idx`
    beside it is Megatron's pair, which may also be given as `name` or `name.idx`; the index says which data type its
    tokens have. Every number of the index is checked when it is opened. Several files are one dataset, one file after
    the other.

    No window crosses the end of a file, and the tokens behind the last whole window of one are in no sample. With the
    default stride windows lie side by side. Windows at random offsets, as nanoGPT draws them, are those of `stride=1`
    under a `RandomSampler`.

    The files are mapped, never read whole, and no descriptor stays open; they may be larger than memory, and many
    thousands. A sample or a batch is memory of its own. A map-style dataset as any other (`len`, `[i]`, `[i:j]`,
    `[[i, j]]`, `__getitems__`), under torch's own loader too; `sluicegate.DataLoader` reads it in Rust. It can be
    pickled: the paths travel, made absolute, and are opened again. Threads may share it.

    Args:
        path: a file, several, or a pattern: `"shard-*.bin"` (sorted by name), `"shard-{000..009}.bin"`; see
            `sluicegate.paths.expand`.
        length: tokens in a sample, from 1.
        dtype: the data type of a flat file's tokens: `"uint8"`, `"uint16"`, `"uint32"`, `"int8"` to `"int64"`, or
            NumPy's or torch's type of that name. Default: `"uint16"`, and that of the index or header of other files.
        stride: tokens between the beginnings of two windows, from 1. Default: `length`.
        output: `"dict"` (default), `"pair"` or `"tensor"`.
        shift_labels: whether labels are the tokens that come next. Default: False for `"dict"`, True for `"pair"`.
        documents: `"joined"` (default): a file is one text. `"apart"`: no window crosses the end of one of the
            documents that a Megatron index tells of, and documents that are shorter than a window are in no sample.
        offset: bytes before the first token of a flat file with a header of another kind: nothing is looked for in it.
            Default 0.
        vocabulary_size: from this number on a token is an error, for files that may belong to another tokenizer.
            Default: not checked.

    Raises:
        FileNotFoundError: there is no such file, or none that matches the pattern.
        ValueError: a file is empty, no whole number of tokens, or of another format; an index or header is damaged or
            does not fit its file (the text names file, byte and reason); no document is as long as a window; a number
            that is not positive; while reading: a token beyond the vocabulary.
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
            raise ValueError("shift_labels option says what labels are, and output='tensor' has none")
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
        core = _core.Dataset.tokens(files, self.length, self.stride, fields, self.vocabulary_size)
        structures: dict[str, Any] = {"dict": {"input_ids": 0, "labels": 1}, "pair": [0, 1], "tensor": 0}
        self._set_core(core, structures[self.output], ["tensor"] * len(core.fields))

    def _files(self, *, apart: bool) -> _core.TokenFiles:
        return open_files(self.paths, self.dtype, self.offset, apart=apart)

    @property
    def document_lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens of every document, whether they are kept apart or not: int64, read-only.

        The indices are read anew for it. A file without an index is one document.
        """
        return np.frombuffer(self._files(apart=True).document_lengths(), np.int64)

    def _shown(self) -> str:
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]!r}{more}, {self.length}"


def token_paths(paths: Paths) -> list[str]:
    """The files that `paths` stand for. Where a pattern matches both files of a Megatron pair, that is one."""
    found = expand(paths)
    both = set(found)
    return [path for path in found if not (path.endswith(".idx") and f"{path[:-4]}.bin" in both)]


def open_files(paths: list[str], dtype: str | None, offset: int, *, apart: bool) -> _core.TokenFiles:
    """The files at `paths`; `dtype` None is that of nanoGPT for flat files, and whatever the index says for others.

    Raises:
        ValueError: an index says another data type than was asked for.
    """
    files = _core.TokenFiles(paths, dtype or _FLAT_DTYPE, offset, apart)
    if dtype is not None:
        for path, found in zip(paths, files.dtypes, strict=True):
            if found != dtype:
                raise ValueError(
                    f"{path}: its index or header says that its tokens are {found}, but dtype={dtype!r} was given"
                )
    return files


def checked_dtype(dtype: Any) -> str:
    """The name of a data type of tokens, however it is given."""
    if isinstance(dtype, torch.dtype):
        name = str(dtype).removeprefix("torch.")
    else:
        try:
            described = np.dtype(dtype)
        except TypeError:
            raise TypeError(f"dtype should be a data type or the name of one, but got {dtype!r}") from None
        if described.byteorder == ">":
            raise ValueError(f"dtype={dtype!r} has the other byte order: tokens are read little-endian")
        name = described.name
    if name not in _DTYPES:
        raise ValueError(f"dtype should be one of {', '.join(_DTYPES)}, but got {name}")
    return name


def count_from(name: str, number: Any, least: int) -> int:
    """`number`, when it is an integer from `least` on."""
    try:
        count = operator.index(number)
    except TypeError:
        raise TypeError(f"{name} should be an integer, but got {number!r}") from None
    if isinstance(number, bool) or not least <= count < 2**63:
        raise ValueError(f"{name} should be an integer from {least} on, but got {name}={number!r}")
    return int(count)
