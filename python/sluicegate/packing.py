"""Packed rows: the pieces of documents in them, and the batch made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Dataset

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

# The target that loss functions ignore, in torch and in Hugging Face's models.
IGNORED = -100

# The fields that a batch has in addition to those of its documents.
OWN_FIELDS = ("position_ids", "document_ids", "cu_seqlens")


class Piece(NamedTuple):
    """A piece of a document in a packed row.

    Attributes:
        tokens: int64, one axis.
        document: the number of the document.
        start: the position in the document of the piece's first token.
        begins_row: True if the piece is the first of its row.
        fields: other values of the same tokens by name, such as the document's own labels; None if there are none.
    """

    tokens: torch.Tensor
    document: int
    start: int
    begins_row: bool
    fields: Mapping[str, torch.Tensor] | None = None


@runtime_checkable
class ReadsPieces(Protocol):
    """Documents from which many parts can be read at once."""

    def read_pieces(self, pieces: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        """Return the tokens from start to stop of each (document, start, stop)."""
        ...


def decoded(indices: Any, documents: int) -> tuple[_Int64, _Int64, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Decode indices of a `PackedBatchSampler` over `documents` documents.

    Returns:
        For each index: the document, the position of the piece's first token, and True if it begins a row.
    """
    rest, document = np.divmod(np.asarray(indices, dtype=np.int64), max(documents, 1))
    return document, rest >> 1, (rest & 1).astype(np.bool_)


class DocumentPieces(Dataset[Piece]):
    """The pieces of documents that a `PackedBatchSampler` requests, by the sampler's indices.

    Args:
        documents: a map-style dataset or any sequence. A document is a tensor, array or list of tokens with one axis,
            or a mapping that has these under "input_ids", and optionally `labels`. If there is a method `read_pieces`,
            only parts are read; with `__getitems__`, several documents are read at once.
        lengths: the number of tokens of each document.
        length: the maximum number of tokens in a piece.
        fields: the names of other fields of a mapping that have one value, or one row of values, for each token.

    Raises:
        IndexError: while reading: an index does not refer to a piece.
        ValueError: `fields` are given for documents that are not mappings, or a field has a name that a batch uses
            itself. While reading: a document or one of its fields has the wrong length, or lacks a field that others
            have.
    """

    def __init__(self, documents: Any, lengths: Any, length: int, fields: Iterable[str] = ()) -> None:
        if len(documents) != len(lengths):
            raise ValueError(f"lengths: expected one for each of {len(documents)} documents, but got {len(lengths)}")
        self.documents = documents
        self.fields = _checked_fields(fields, documents)
        self.lengths = np.asarray(lengths)
        self.length = length
        self._indices = len(lengths) * (2 * int(self.lengths.max(initial=0)) + 2)

    def __len__(self) -> int:
        """Return the number of indices, most of which do not refer to a piece that is ever requested."""
        return self._indices

    def __getitem__(self, index: int) -> Piece:
        """Return the piece for `index`."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Piece]:
        """Return the pieces for `indices`."""
        numbers, starts, begins_row = (part.tolist() for part in decoded(indices, len(self.lengths)))
        parts = []
        for index, number, start in zip(indices, numbers, starts, strict=True):
            tokens = int(self.lengths[number]) if len(self.lengths) else 0
            if index < 0 or start >= tokens:
                raise IndexError(f"index: expected a piece of {len(self.lengths)} documents, but got {index}")
            parts.append((number, start, min(start + self.length, tokens)))
        if isinstance(self.documents, ReadsPieces):
            return list(map(Piece, self.documents.read_pieces(parts), numbers, starts, begins_row))
        fields_of = map(self._fields, numbers, self._read(numbers))
        return [
            Piece(
                fields.pop("input_ids")[start:stop],
                number,
                start,
                begins,
                {name: values[start:stop] for name, values in fields.items()} or None,
            )
            for fields, (number, start, stop), begins in zip(fields_of, parts, begins_row, strict=True)
        ]

    def _read(self, numbers: list[int]) -> Iterable[Any]:
        get_many = getattr(self.documents, "__getitems__", None)
        return get_many(numbers) if callable(get_many) else map(self.documents.__getitem__, numbers)

    def _fields(self, number: int, document: Any) -> dict[str, torch.Tensor]:
        """Return the values of all tokens of a document, by field."""
        length = int(self.lengths[number])
        is_mapping = isinstance(document, Mapping)
        if is_mapping and "input_ids" not in document:
            raise ValueError(f"document {number}: expected the field 'input_ids', but got the fields {list(document)}")
        tokens = torch.as_tensor(document["input_ids"] if is_mapping else document)
        if tokens.shape != (length,):
            raise ValueError(
                f"document {number}: expected {length} tokens, its length in lengths=, but got shape "
                f"{tuple(tokens.shape)}"
            )
        found = {"input_ids": tokens.to(torch.int64)}
        if is_mapping and document.get("labels") is not None:
            found["labels"] = torch.as_tensor(document["labels"])
        for name in self.fields:
            if not is_mapping or document.get(name) is None:
                raise ValueError(f"document {number}: expected the field {name!r} of fields=, but it is missing")
            found[name] = torch.as_tensor(document[name])
        for name, values in found.items():
            if values.shape[:1] != (length,) or (name == "labels" and values.ndim != 1):
                raise ValueError(
                    f"document {number}: {name!r} has the shape {tuple(values.shape)}, but the document has {length} "
                    "tokens; give one value for each token"
                )
        if "labels" in found:
            if found["labels"].is_floating_point():
                raise ValueError(f"document {number}: labels should be integers, but got {found['labels'].dtype}")
            found["labels"] = found["labels"].to(torch.int64)
        return found


def _checked_fields(fields: Iterable[str], documents: Any) -> tuple[str, ...]:
    if isinstance(fields, str):
        raise ValueError(f"fields: expected names, but got the string {fields!r}; pass [{fields!r}]")
    names = tuple(dict.fromkeys(fields))
    if reserved := [name for name in names if name in ("input_ids", *OWN_FIELDS)]:
        raise ValueError(f"fields: {reserved[0]!r} is reserved for a field of the batch; rename yours")
    if names and isinstance(documents, ReadsPieces):
        raise ValueError(
            f"fields: {type(documents).__name__} has tokens only, but got fields={list(names)}; pass documents "
            "that are mappings, such as torch.utils.data.StackDataset(input_ids=..., weights=...)"
        )
    return names


class PackCollate:
    """Makes a batch from the pieces that a `PackedBatchSampler` requested: a dict of tensors.

    A `DataLoader` makes the batches in Rust, without calling it, for `DocumentPieces` of a `TokenDocumentsDataset`, or
    of a native dataset whose samples are mappings (Parquet, Arrow, JSON Lines, MDS, a `StackDataset` of these or of
    tensors, ...) with tokens and labels that are integers. This requires that `length` and `pad_token` are an `int`,
    `shift_labels` is a `bool`, and `pad_values` does not change a data type.

    - `input_ids`: (rows, length), int64.
    - `labels`: (rows, length), int64: `input_ids`, except for -100, which losses ignore, at padding and at the first
      token of each piece. This is the form for models that shift the labels themselves; nothing is then predicted from
      another document. With `shift_labels=True` it is the next token, with -100 for the last of each piece. For
      documents that are mappings with their own `labels` (such as -100 for the tokens of a prompt), those replace
      `input_ids` here: label k belongs to token k, as in Hugging Face's datasets, and is shifted in the same way.
    - `position_ids`: (rows, length), int64: counted from 0 in each piece.
    - `document_ids`: (rows, length), int64: pieces counted from 0 in each row; -1 for padding.
    - `cu_seqlens`: (pieces + 1), int32: where each piece begins when the rows are concatenated, and where the last one
      ends. Padding counts as a piece, so they cover every token.
    - each of the `fields` of the pieces: (rows, length, ...), in the documents' data type, aligned with the tokens and
      never shifted.

    Args:
        length: tokens in a row.
        pad_token: the token used as padding. Default 0.
        shift_labels: see above. Default False.
        pad_values: by field name, the value at padding. A float turns integers into floats. Default 0.

    Raises:
        ValueError: `pad_values` has `labels`, whose padding is -100, or another field that the batch sets. When called:
            the first piece does not begin a row, a piece has no room, there are more tokens than `cu_seqlens` can
            count, or the documents differ in their fields or the fields' data types.

    Examples:
        >>> import torch
        >>> from sluicegate.packing import DocumentPieces, Piece
        >>> pieces = [Piece(torch.tensor([7, 8, 9]), 0, 0, True), Piece(torch.tensor([5]), 1, 0, False)]
        >>> batch = PackCollate(5)(pieces)
        >>> batch["input_ids"], batch["cu_seqlens"]
        (tensor([[7, 8, 9, 5, 0]]), tensor([0, 3, 4, 5], dtype=torch.int32))

        A prompt that is not trained on:

        >>> documents = [{"input_ids": [7, 8, 9], "labels": [-100, -100, 9], "weight": [0.0, 0.0, 0.5]}]
        >>> pieces = DocumentPieces(documents, [3], 5, fields=["weight"])
        >>> batch = PackCollate(5)([pieces[1]])
        >>> batch["labels"], batch["weight"]
        (tensor([[-100, -100,    9, -100, -100]]), tensor([[0.0000, 0.0000, 0.5000, 0.0000, 0.0000]]))
    """

    def __init__(
        self,
        length: int,
        *,
        pad_token: int = 0,
        shift_labels: bool = False,
        pad_values: Mapping[str, float] | None = None,
    ) -> None:
        self.length = length
        self.pad_token = pad_token
        self.shift_labels = shift_labels
        self.pad_values = dict(pad_values or {})
        for name in self.pad_values.keys() & {"input_ids", "labels", *OWN_FIELDS}:
            remedy = "pass pad_token" if name == "input_ids" else "it cannot be chosen"
            raise ValueError(f"pad_values: the padding of {name!r} is set by the batch; {remedy}")

    def __call__(self, pieces: list[Piece]) -> dict[str, torch.Tensor]:
        """Return the batch of `pieces`, row after row."""
        if not pieces or not pieces[0].begins_row:
            raise ValueError(
                "expected a batch that begins with the first piece of a row; pass a PackedBatchSampler as "
                "batch_sampler="
            )
        columns: dict[str, list[torch.Tensor]] = {name: [] for name in ("input_ids", *(pieces[0].fields or ()))}
        pads = {name: self.pad_values.get(name, 0) for name in columns}
        pads |= {"input_ids": self.pad_token, "labels": IGNORED}
        sizes: list[int] = []
        document_ids: list[int] = []
        room = number = 0

        def pad() -> None:
            if room > 0:
                for name, parts in columns.items():
                    like = parts[-1]
                    parts.append(like.new_full((room, *like.shape[1:]), pads[name], dtype=_padded(like, pads[name])))
                sizes.append(room)
                document_ids.append(-1)

        for piece in pieces:
            if piece.begins_row:
                pad()
                room, number = self.length, 0
            # The rest of a piece that does not fit is not lost: it is the first piece of another row.
            count = len(piece.tokens[:room])
            if count == 0:
                raise ValueError(f"a piece of document {piece.document} does not fit in its row")
            _refuse_other_fields(piece, pieces[0], columns)
            for name, parts in columns.items():
                values = (piece.fields or {})[name] if name != "input_ids" else piece.tokens
                parts.append(values[:count].to(_padded(values, pads[name])))
            sizes.append(count)
            document_ids.append(number)
            room, number = room - count, number + 1
        pad()
        for name, parts in columns.items():
            _refuse_mixture(name, parts)
        joined = {name: torch.cat(parts) for name, parts in columns.items()}
        batch = self._batch(
            joined.pop("input_ids"), np.array(sizes), np.array(document_ids), joined.pop("labels", None)
        )
        more = {name: values.view(-1, self.length, *values.shape[1:]) for name, values in joined.items()}
        return batch | more

    def _batch(
        self, input_ids: torch.Tensor, sizes: _Int64, document_ids: _Int64, own_labels: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        borders = np.concatenate([[0], np.cumsum(sizes)])
        if borders[-1] >= 2**31:
            raise ValueError(
                f"rows_per_batch: cu_seqlens can't count {borders[-1]:,} tokens in a batch; lower rows_per_batch"
            )
        positions = np.arange(borders[-1]) - np.repeat(borders[:-1], sizes)
        of_token = torch.from_numpy(np.repeat(document_ids, sizes))
        labels = input_ids if own_labels is None else own_labels
        if self.shift_labels:
            labels = torch.roll(labels, -1)
            labels[torch.from_numpy(borders[1:] - 1)] = IGNORED
        else:
            labels = labels.clone()
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


def _padded(values: torch.Tensor, pad: float) -> torch.dtype:
    """Return the data type of a field with this padding: a float padding turns integers into floats."""
    return torch.result_type(values, pad) if isinstance(pad, float) else values.dtype


def _refuse_other_fields(piece: Piece, first: Piece, columns: Mapping[str, Any]) -> None:
    names = {"input_ids", *(piece.fields or ())}
    if differ := sorted(names ^ columns.keys()):
        has, lacks = (piece, first) if differ[0] in names else (first, piece)
        raise ValueError(
            f"document {has.document} has the field {differ[0]!r}, but document {lacks.document} does not; give it to "
            "all documents, or to none"
        )


def _refuse_mixture(name: str, parts: list[torch.Tensor]) -> None:
    first = parts[0]
    for part in parts:
        if part.dtype != first.dtype or part.shape[1:] != first.shape[1:]:
            raise ValueError(
                f"field {name!r}: documents of one batch differ: {first.dtype} with the shape "
                f"{tuple(first.shape[1:])} for each token, and {part.dtype} with {tuple(part.shape[1:])}; convert "
                f"them, or pass pad_values={{{name!r}: 0.0}} if integers should become floats"
            )
