"""`PackedFields`: native-dataset documents packed by the core, with their own labels and other fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.native.dataset import VIEWED, hand_over_fields
from sluicegate.packing import DocumentPieces, PackCollate
from sluicegate.recognition.native_source import native_source
from sluicegate.recognition.source import Source
from sluicegate.sampler.class_index import described

# The fields that packed rows always have, in order.
FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens")

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


@dataclass(frozen=True)
class PackedFields:
    """Document fields that are packed side by side.

    Attributes:
        source: the documents, as the core reads them.
        lengths: the number of tokens of each document.
        tokens: the number of the field with the tokens.
        labels: the number of the field with the labels; None if the tokens are the labels.
        others: for each other field, by name, its number and the bytes of its padding value.
    """

    source: Source
    lengths: np.ndarray[Any, np.dtype[np.int64]]
    tokens: int
    labels: int | None
    others: Mapping[str, tuple[int, bytes]]

    def is_current(self) -> bool:
        """Return True if the core may still read the documents: nothing was resized or replaced in the meantime."""
        return all(check() for check in self.source.checks)

    def window(
        self, engine: _core.Engine, pieces: DocumentPieces, collate: PackCollate, in_order: bool
    ) -> _core.Prefetch:
        """Return a window over the batches that `collate` makes from `pieces`."""
        dtypes = [dtype for _, dtype, _ in self.source.dataset.fields]
        names = (*FIELDS, *self.others)
        views = [None] * len(FIELDS) + [VIEWED.get(dtypes[field]) for field, _ in self.others.values()]
        how = hand_over_fields({name: field for field, name in enumerate(names)}, ["tensor"] * len(names), views)
        return _core.Prefetch.packed_fields(
            engine,
            self.source.dataset,
            described(self.lengths),
            self.tokens,
            self.labels,
            list(self.others.values()),
            indices=len(pieces),
            length=collate.length,
            pad_token=collate.pad_token,
            shift_labels=collate.shift_labels,
            hand_over=how,
            in_order=in_order,
        )


def packed_fields(documents: Any, pieces: DocumentPieces, collate: PackCollate) -> PackedFields | None:
    """Return the fields of `documents` that the core packs like `collate`; None if Python must do it."""
    source = native_source(documents, in_worker=False)
    if source is None or source.is_random or not isinstance(source.structure, dict):
        return None
    if len(pieces.lengths) != len(source.dataset) or pieces.lengths.dtype.kind not in "iu":
        return None
    if len(pieces.lengths) and not 0 <= int(pieces.lengths.min()) <= int(pieces.lengths.max()) < 2**32:
        return None
    tokens = _per_token(source, "input_ids", of_integers=True)
    if tokens is None:
        return None
    labels = None
    if "labels" in source.structure:
        labels = _per_token(source, "labels", of_integers=True)
        if labels is None:
            return None
    others = {}
    for name in pieces.fields:
        if name == "labels" and labels is not None:
            continue
        field = _per_token(source, name, of_integers=False)
        padding = None if field is None else _padding(source, field, collate.pad_values.get(name, 0))
        if field is None or padding is None:
            return None
        others[name] = (field, padding)
    lengths = np.ascontiguousarray(pieces.lengths, dtype=np.int64)
    return PackedFields(source, lengths, tokens, labels, others)


def _per_token(source: Source, name: str, *, of_integers: bool) -> int | None:
    """Return the number of field `name` if a sample has a tensor there that can have one value per token."""
    field = source.structure.get(name)
    if type(field) is not int:
        return None
    kind, (_, dtype, shape) = source.kinds[field], source.dataset.fields[field]
    is_variable = kind == "ragged" or (isinstance(kind, tuple) and kind[0] == "padded")
    if not is_variable and (kind != "tensor" or not shape):
        return None
    inner = shape if is_variable else shape[1:]
    if 0 in inner or (of_integers and (inner or dtype not in _INTEGERS)):
        return None
    return field


def _padding(source: Source, field: int, value: Any) -> bytes | None:
    """Return the bytes of `value` in a field's data type; None if torch would change the type or raise an error."""
    name = source.dataset.fields[field][1]
    dtype = getattr(torch, name, None)
    if dtype is None or type(value) not in (bool, int, float) or (type(value) is float and not dtype.is_floating_point):
        return None
    try:
        scalar = torch.full((1,), value, dtype=dtype, device="cpu")
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    return bytes(scalar.view(torch.uint8).tolist())
