"""Batches of Hugging Face tables, made by the core as collate functions of `transformers` make them."""

from __future__ import annotations

import copy
import struct
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Subset

from sluicegate import _core, _torch
from sluicegate.native.dataset import Kind, hand_over_fields

from . import hugging_face
from .hugging_face import is_list
from .native_source import is_untouched, subset_source
from .source import Source
from .transformers_collators import Collator, Part, collator_of, copy_of

# By dataset: its state, the collator, and the source that the core reads for it, or the reason why it reads none.
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Collator, Source | str]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class CollatedSource:
    """Samples that the core reads and collates as a collate function of `transformers` does.

    Attributes:
        rows: the samples.
        collator: what the collate function does.
        collate: the loader's collate function.
        used: what makes batches or masks in Python: the collate function, or a copy of it from when the epoch began.
        is_captured: True if it uses the collate function as it was when the epoch began, as worker processes do.
    """

    rows: Source
    collator: Collator
    collate: Any
    used: Any
    is_captured: bool

    # Batches at which the core fails, such as one with a row that is too long, are left to Python.
    is_random = draws_in_order = draws_from_python = False
    falls_back = True
    captured = None

    def is_current(self, collate_fn: Any) -> bool:
        """Return True if the core may still read: nothing has been changed or replaced since."""
        return (
            collate_fn is self.collate
            and all(check() for check in self.rows.checks)
            and (self.is_captured or collator_of(collate_fn) == self.collator)
        )

    def window(self, engine: _core.Engine, in_order: bool, seed: int | None) -> _core.Prefetch:
        """Return a window on its batches, as they are before anything is drawn for them."""
        return _core.Prefetch(engine, self.rows.dataset, _hand_over(self.rows, self.collator), in_order, seed)

    @property
    def draws_on_delivery(self) -> bool:
        """True if `drawn` must be called for each batch, with the generator that the collate function draws from."""
        return self.collator.masks

    def drawn(self, batch: Any) -> Any:
        """Return `batch` with the random parts drawn for it, in the order of delivery."""
        return self.collator.masked(self.used, batch)

    def collate_fn(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that makes the same batch from samples that Python has fetched."""
        used: Callable[[Any], Any] = self.used
        return used


def collated_source(dataset: Any, collate_fn: Any, *, in_worker: bool) -> CollatedSource | None:
    """Return the batches that `collate_fn` makes of `dataset`, as the core makes them; None if Python must make them.

    Args:
        dataset: any map-style dataset.
        collate_fn: the loader's.
        in_worker: True if torch would collate in worker processes.
    """
    if _torch.modes_are_active():
        return None
    collator = collator_of(collate_fn)
    if not isinstance(collator, Collator):
        return None
    rows = _rows(dataset, collator, collate_fn)
    if isinstance(rows, str):
        return None
    return CollatedSource(rows, collator, collate_fn, copy_of(collate_fn) if in_worker else collate_fn, in_worker)


def uncollated_reason(dataset: Any, collate_fn: Any) -> str | None:
    """Return why Python calls `collate_fn`, if that is from `transformers`; None otherwise."""
    collator = collator_of(collate_fn)
    if not isinstance(collator, Collator):
        return collator
    rows = _rows(dataset, collator, collate_fn)
    return rows if isinstance(rows, str) else None


def _rows(dataset: Any, collator: Collator, collate_fn: Any) -> Source | str:
    """Return the samples as the core reads them for `collator`, or a text that says why it does not."""
    if type(dataset) is Subset and is_untouched(dataset):
        inner = _rows(dataset.dataset, collator, collate_fn)
        if isinstance(inner, str):
            return inner
        return subset_source(dataset, inner) or "Subset has indices that the core does not read"
    if hugging_face.is_dataset(dataset):
        return _of_table(dataset, collator, collate_fn)
    return f"dataset class {type(dataset).__name__} is not recognized with {collator.name}"


def _of_table(dataset: Any, collator: Collator, collate_fn: Any) -> Source | str:
    state = hugging_face.state_of(dataset)
    known = _KNOWN.get(dataset)
    if known is None or not hugging_face.is_same(known[0], state) or known[1] != collator:
        try:
            found = _read(dataset, collator, collate_fn)
        except Exception as error:  # Raised again by Python: another package version, or bad samples.
            found = f"the first samples can't be compared: {type(error).__name__}"
        known = _KNOWN[dataset] = (state, collator, found)
    return known[2]


def _read(dataset: Any, collator: Collator, collate_fn: Any) -> Source | str:
    attributes = vars(dataset)
    format_type = attributes["_format_type"]
    if format_type not in ("torch", None) or attributes["_format_kwargs"] or not len(dataset):
        return f"Dataset has the format {format_type!r} with arguments, or no rows"
    if not hugging_face.is_plain(format_type) or hugging_face.has_own_methods(dataset):
        return "Dataset has replaced methods, or torch has different defaults"
    table: Any = dataset.data.table
    columns = hugging_face.columns_of(dataset, table)
    if columns is None:
        return "Dataset has columns in a different format"
    for name in columns:
        if hasattr(dataset.features.get(name), "decode_example"):  # images and similar types
            return f"column {name!r} is decoded"
    types: Any = sys.modules["pyarrow"].types
    parts = collator.parts(columns, lambda name: _is_text(types, table.schema.field(name).type))
    if isinstance(parts, str):
        return parts
    for part in parts:
        values = table.schema.field(part.column).type
        if not _is_readable(types, values, part):
            return f"column {part.column!r} of the type {values} is padded or stacked in Python"
        if part.is_aligned and not _have_equal_lengths(table, part.column, collator.tokens):
            return f"column {part.column!r} has lists of different lengths than {collator.tokens!r}"
    used = list(dict.fromkeys(part.column for part in parts))
    core = hugging_face.read_columns(
        dataset, table.select(used), [(part.key, [part.column], _value(part)) for part in parts]
    )
    if core is None:
        return "a column has nulls, or lists of different lengths where it is not padded"
    state = hugging_face.state_of(dataset)
    source = Source(
        core,
        {part.key: field for field, part in enumerate(parts)},
        tuple(map(_kind, parts)),
        (
            lambda: hugging_face.is_same(state, hugging_face.state_of(dataset)),
            lambda: hugging_face.is_plain(format_type),
        ),
    )
    last = len(dataset) - 1
    for indices in ([0], [0, last // 2, last]):
        # Another version of the package may pad differently.
        ours = _core.Reader(core, _hand_over(source, collator)).batch(indices)
        if collator.masks:
            ours = collator.masked(_twin(collate_fn, collator), ours)
        if not hugging_face.is_equal(ours, _twin(collate_fn, collator)(dataset.__getitems__(indices))):
            return f"{collator.name} makes different batches than the core"
    return source


def _twin(collate_fn: Any, collator: Collator) -> Any:
    """Return the collate function, or a copy with its own generator: the user's must not advance."""
    if not collator.masks:
        return collate_fn
    twin = copy.copy(collate_fn)
    twin.generator = torch.Generator("cpu").manual_seed(0)
    return twin


def _hand_over(rows: Source, collator: Collator) -> _core.HandOver:
    return hand_over_fields(rows.structure, rows.kinds, finish=collator.finish())


def _value(part: Part) -> str:
    if part.are_ones:
        return "ones"
    return "numbers" if part.padding is None else "lists"


def _kind(part: Part) -> Kind:
    padding = part.padding
    if padding is None:
        return "tensor"
    return "filled", struct.pack("=q", padding.fill), padding.is_left, padding.multiple, padding.length


def _is_text(types: Any, values: Any) -> bool:
    return bool(types.is_string(values) or types.is_large_string(values))


def _is_readable(types: Any, values: Any, part: Part) -> bool:
    """Return True if the core reads a column of the type `values` as `part` requires."""
    if part.padding is not None:
        return is_list(types, values) and types.is_integer(values.value_type)
    if part.takes == "number":
        return bool(types.is_integer(values) or types.is_floating(values))
    if part.takes == "list":
        return is_list(types, values) and (types.is_integer(values.value_type) or types.is_floating(values.value_type))
    return True


def _have_equal_lengths(table: Any, one: str, other: Any) -> bool:
    compute: Any = sys.modules.get("pyarrow.compute")
    if compute is None:
        return False
    lengths = [compute.list_value_length(table.column(name)) for name in (one, other)]
    return bool(lengths[0].cast("int64").equals(lengths[1].cast("int64")))
