"""Packed rows: the pieces of documents that stand in them, and the batch that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Dataset

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

# What loss functions pass over, in torch and in Hugging Face's models.
IGNORED = -100


class Piece(NamedTuple):
    """A piece of a document, as it stands in a packed row.

    Attributes:
        tokens: int64, along one axis.
        document: the number of the document.
        start: the token of the document that it begins with.
        begins_row: whether it is the first of its row.
    """

    tokens: torch.Tensor
    document: int
    start: int
    begins_row: bool


@runtime_checkable
class ReadsPieces(Protocol):
    """Documents of which parts can be read, many at once."""

    def read_pieces(self, pieces: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        """The tokens from start to stop of each (document, start, stop)."""
        ...


def decoded(indices: Any, documents: int) -> tuple[_Int64, _Int64, np.ndarray[Any, np.dtype[np.bool_]]]:
    """What indices of a `PackedBatchSampler` over so many `documents` stand for.

    Returns:
        By index: the document, the token that the piece begins with, whether a row begins with it.
    """
    rest, document = np.divmod(np.asarray(indices, dtype=np.int64), max(documents, 1))
    return document, rest >> 1, (rest & 1).astype(np.bool_)


class DocumentPieces(Dataset[Piece]):
    """The pieces of documents that a `PackedBatchSampler` asks for, as it numbers them.

    Args:
        documents: a map-style dataset, or any sequence: a document is a tensor, array or list of tokens along one axis,
            or a mapping with such a one under "input_ids". Those with a method `read_pieces` are asked for parts.
        lengths: the number of tokens of each.
        length: the most tokens of a piece.

    Raises:
        IndexError: while reading: an index stands for no piece.
        ValueError: while reading: a document has another length than was said.
    """

    def __init__(self, documents: Any, lengths: Any, length: int) -> None:
        if len(documents) != len(lengths):
            raise ValueError(f"there are {len(documents)} documents, but {len(lengths)} lengths")
        self.documents = documents
        self.lengths = np.asarray(lengths)
        self.length = length
        self._indices = len(lengths) * (2 * int(self.lengths.max(initial=0)) + 2)

    def __len__(self) -> int:
        """The number of indices, of which most stand for no piece that is ever asked for."""
        return self._indices

    def __getitem__(self, index: int) -> Piece:
        """The piece that `index` stands for."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Piece]:
        """The pieces that `indices` stand for."""
        numbers, starts, begins_row = (part.tolist() for part in decoded(indices, len(self.lengths)))
        parts = []
        for index, number, start in zip(indices, numbers, starts, strict=True):
            tokens = int(self.lengths[number]) if len(self.lengths) else 0
            if index < 0 or start >= tokens:
                raise IndexError(f"index {index} stands for no piece of {len(self.lengths)} documents")
            parts.append((number, start, min(start + self.length, tokens)))
        if isinstance(self.documents, ReadsPieces):
            tokens_of = self.documents.read_pieces(parts)
        else:
            tokens_of = [self._tokens(number)[start:stop] for number, start, stop in parts]
        return list(map(Piece, tokens_of, numbers, starts, begins_row))

    def _tokens(self, number: int) -> torch.Tensor:
        document = self.documents[number]
        tokens = torch.as_tensor(document["input_ids"] if isinstance(document, Mapping) else document)
        if tokens.shape != (int(self.lengths[number]),):
            raise ValueError(
                f"document {number} has tokens of shape {tuple(tokens.shape)}, but its length was said to be "
                f"{int(self.lengths[number])}"
            )
        return tokens.to(torch.int64)


class PackCollate:
    """Makes a batch of the pieces that a `PackedBatchSampler` asked for: a dict of tensors.

    A `DataLoader` makes the batches of `DocumentPieces` of a `TokenDocumentsDataset` in Rust instead of calling it, as
    long as `length`, `pad_token` and `shift_labels` are an `int`, an `int` and a `bool`.

    - `input_ids`: (rows, length), int64.
    - `labels`: (rows, length), int64: `input_ids` again, but -100, which losses pass over, for padding and for the
      first token of each piece. That is what models take that shift the labels themselves; nothing is then predicted
      from another document. With `shift_labels=True` it is the token that comes next, -100 for the last of each piece.
    - `position_ids`: (rows, length), int64: from 0 on in each piece.
    - `document_ids`: (rows, length), int64: pieces counted from 0 on in each row; -1 for padding.
    - `cu_seqlens`: (pieces + 1), int32: where each piece begins when the rows are laid end to end, and where the last
      one ends. Padding is a piece of its own, so they cover every token.

    Args:
        length: tokens in a row.
        pad_token: what padding is made of. Default 0.
        shift_labels: see above. Default False.

    Raises:
        ValueError: while called: the first piece begins no row, one has no room, or there are more tokens than
            `cu_seqlens` can count.

    Example:
        >>> pieces = [Piece(torch.tensor([7, 8, 9]), 0, 0, True), Piece(torch.tensor([5]), 1, 0, False)]
        >>> batch = PackCollate(5)(pieces)
        >>> batch["input_ids"], batch["cu_seqlens"]
        (tensor([[7, 8, 9, 5, 0]]), tensor([0, 3, 4, 5], dtype=torch.int32))
    """

    def __init__(self, length: int, *, pad_token: int = 0, shift_labels: bool = False) -> None:
        self.length = length
        self.pad_token = pad_token
        self.shift_labels = shift_labels

    def __call__(self, pieces: list[Piece]) -> dict[str, torch.Tensor]:
        """The batch of `pieces`, row after row."""
        if not pieces or not pieces[0].begins_row:
            raise ValueError("a batch begins with a piece that begins a row: is the loader's batch_sampler packed?")
        parts: list[torch.Tensor] = []
        sizes: list[int] = []
        document_ids: list[int] = []
        room = number = 0

        def pad() -> None:
            if room > 0:
                parts.append(torch.full((room,), self.pad_token, dtype=torch.int64))
                sizes.append(room)
                document_ids.append(-1)

        for piece in pieces:
            if piece.begins_row:
                pad()
                room, number = self.length, 0
            # What has no room is the first piece of another row.
            tokens = piece.tokens[:room]
            if len(tokens) == 0:
                raise ValueError(f"a piece of document {piece.document} has no room in its row")
            parts.append(tokens)
            sizes.append(len(tokens))
            document_ids.append(number)
            room, number = room - len(tokens), number + 1
        pad()
        return self._batch(torch.cat(parts), np.array(sizes), np.array(document_ids))

    def _batch(self, input_ids: torch.Tensor, sizes: _Int64, document_ids: _Int64) -> dict[str, torch.Tensor]:
        borders = np.concatenate([[0], np.cumsum(sizes)])
        if borders[-1] >= 2**31:
            raise ValueError(f"cu_seqlens can't count the {borders[-1]:,} tokens of a batch: lower rows_per_batch")
        positions = np.arange(borders[-1]) - np.repeat(borders[:-1], sizes)
        of_token = torch.from_numpy(np.repeat(document_ids, sizes))
        if self.shift_labels:
            labels = torch.roll(input_ids, -1)
            labels[torch.from_numpy(borders[1:] - 1)] = IGNORED
        else:
            labels = input_ids.clone()
            labels[torch.from_numpy(borders[:-1])] = IGNORED
        labels[of_token < 0] = IGNORED
        rows = (-1, self.length)
        return {
            "input_ids": input_ids.view(rows),
            "labels": labels.view(rows),
            "position_ids": torch.from_numpy(positions).view(rows),
            "document_ids": of_token.view(rows),
            "cu_seqlens": torch.from_numpy(borders.astype(np.int32)),
        }
