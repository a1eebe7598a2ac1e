"""Packed rows made by the core: the pieces and collate functions for which it can stand in."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sluicegate import _core, _torch
from sluicegate.formats.token_documents import TokenDocumentsDataset
from sluicegate.native.dataset import hand_over_fields
from sluicegate.packing import DocumentPieces, PackCollate
from sluicegate.recognition.native_source import is_untouched

from .packed_fields import FIELDS, PackedFields, packed_fields

# To detect a replaced method: the class is then not the one for which the core stands in.
_METHODS = {
    (cls, name): getattr(cls, name)
    for cls, names in (
        (DocumentPieces, ("__len__", "__getitem__", "__getitems__", "_read", "_fields")),
        (PackCollate, ("__call__", "_batch")),
        (TokenDocumentsDataset, ("read_pieces",)),
    )
    for name in names
}


@dataclass(frozen=True)
class PackedSource:
    """Rows of documents packed by the core.

    Attributes:
        pieces: the dataset.
        documents: the documents that the pieces are from.
        collate: the loader's collate function.
        facts: the inputs that the core depends on, as returned by `_facts`.
        pad_values: a copy of those of the collate function.
    """

    pieces: DocumentPieces
    documents: TokenDocumentsDataset | PackedFields
    collate: PackCollate
    facts: tuple[Any, ...]
    pad_values: dict[str, float]

    def is_current(self, collate_fn: Any) -> bool:
        """Return True if the core may still read: nothing was changed or replaced in the meantime."""
        return (
            collate_fn is self.collate
            and all(map(operator.is_, self.facts, _facts(self.pieces, self.collate)))
            and self.collate.pad_values == self.pad_values
            and (not isinstance(self.documents, PackedFields) or self.documents.is_current())
        )

    # Documents have no randomness and no fallback.
    is_random = draws_in_order = draws_from_python = draws_on_delivery = is_captured = falls_back = False
    captured = None

    def window(self, engine: _core.Engine, in_order: bool, seed: int | None) -> _core.Prefetch:
        """Return a window over its batches, for which nothing is drawn."""
        collate, documents = self.collate, self.documents
        if isinstance(documents, PackedFields):
            return documents.window(engine, self.pieces, collate, in_order)
        how = hand_over_fields({name: field for field, name in enumerate(FIELDS)}, ["tensor"] * len(FIELDS))
        return _core.Prefetch.packed(
            engine,
            documents.files,
            len(self.pieces),
            collate.length,
            collate.pad_token,
            collate.shift_labels,
            how,
            in_order,
        )

    def collate_fn(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function that makes the same batch from pieces fetched in Python."""
        return default


def packed_source(dataset: Any, collate_fn: Any) -> PackedSource | None:
    """Return the source of rows that `collate_fn` makes from `dataset`; None if Python must make them."""
    if type(dataset) is not DocumentPieces or type(collate_fn) is not PackCollate or _torch.modes_are_active():
        return None
    documents = dataset.documents
    is_of_tokens = type(documents) is TokenDocumentsDataset
    if is_of_tokens and not is_untouched(documents):
        return None
    if any(getattr(cls, name) is not method for (cls, name), method in _METHODS.items()):
        return None
    for thing, names in (
        (dataset, ("__getitems__", "_read", "_fields")),
        (documents, ("read_pieces",) if is_of_tokens else ()),
        (collate_fn, ("_batch",)),
    ):
        if any(name in vars(thing) for name in names):
            return None
    if not _can_be_packed(dataset, collate_fn):
        return None
    source = documents
    if not is_of_tokens:
        source = packed_fields(documents, dataset, collate_fn)
    elif dataset.fields or not np.array_equal(dataset.lengths, documents.lengths):
        return None
    if source is None:
        return None
    return PackedSource(dataset, source, collate_fn, _facts(dataset, collate_fn), dict(collate_fn.pad_values))


def _can_be_packed(pieces: DocumentPieces, collate: PackCollate) -> bool:
    """Return True if the core supports the lengths and the padding token."""
    if type(collate.length) is not int or type(collate.pad_token) is not int or type(collate.shift_labels) is not bool:
        return False
    return pieces.length == collate.length and 0 < collate.length < 2**31 and -(2**63) <= collate.pad_token < 2**63


def _facts(pieces: DocumentPieces, collate: PackCollate) -> tuple[Any, ...]:
    documents: Any = pieces.documents
    objects = (type(pieces), documents, getattr(documents, "files", None), pieces.lengths, pieces.fields, type(collate))
    return (*objects, pieces.length, collate.length, collate.pad_token, collate.shift_labels)
