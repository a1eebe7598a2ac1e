"""Hugging Face datasets as the core reads them: by the Arrow table inside each.

The core reads a dataset only if the results are the same: with torch's format, and samples of numbers, texts and byte
strings, and of structs and lists of them (`messages`, `choices`). Any other dataset is a Python dataset, as is one with
its own transform, with nulls, or with lists whose lengths differ from row to row, which torch's default collate
refuses. Imported only when the package `datasets` is.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data import default_collate

from sluicegate import _core
from sluicegate.native.dataset import Kind, hand_over

# The methods that make samples of a dataset's table. One of them may be replaced.
_METHODS = ("__getitem__", "__getitems__", "_getitem", "__len__")
# The attributes used when a sample is read: `set_format` changes some of them in place.
_STATE = (
    "_data",
    "_indices",
    "_format_type",
    "_format_kwargs",
    "_format_columns",
    "_output_all_columns",
    "_info",
)

# By format: the module of its formatter, and that formatter's methods that make samples.
_FORMATTERS: dict[str | None, tuple[str, tuple[str, ...]]] = {
    "torch": ("datasets.formatting.torch_formatter", ("__call__", "format_batch", "recursive_tensorize")),
    None: ("datasets.formatting.formatting", ("__call__", "format_row", "format_batch")),
}

# The most pieces of columns, which are examined and held as one object each: a table with more is left to Python.
_MOST_PIECES = 2_000_000

# A list of texts or structs is a field for each item and each of its parts: a table with more is left to Python.
_MOST_FIELDS = 256

# By dataset: its state, and the result found for it. Nothing in it holds the dataset itself.
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Any]] = weakref.WeakKeyDictionary()

Parts = tuple[_core.Dataset, Any, tuple[Kind, ...]]

# Names of parts, and positions of items in lists.
Path = list[str | int]


def is_dataset(dataset: Any) -> bool:
    """Return True if `dataset` is a map-style Hugging Face dataset, and not of a subclass."""
    module = sys.modules.get("datasets.arrow_dataset")
    return module is not None and type(dataset) is getattr(module, "Dataset", None)


def native_parts(dataset: Any) -> tuple[Parts, Callable[[], bool]] | None:
    """Return the core's dataset, structure and kinds of `dataset`, and a check that they still apply.

    Args:
        dataset: one for which `is_dataset` is True.
    """
    if not is_plain("torch"):
        return None
    state = state_of(dataset)
    known = _KNOWN.get(dataset)
    if known is None or not is_same(known[0], state):
        try:
            parts = _parts(dataset)
        except Exception:  # A version of the package with different internals, which then reads its datasets itself.
            parts = None
        known = (state, parts)
        _KNOWN[dataset] = known
    parts = known[1]
    if parts is None:
        return None
    return parts, lambda: is_same(state, state_of(dataset)) and is_plain("torch")


def lacks_format(dataset: Any) -> bool:
    """Return True if `dataset`, for which `is_dataset` is True, is without a format, so that samples are Python's."""
    return vars(dataset).get("_format_type") is None


def state_of(dataset: Any) -> tuple[Any, ...]:
    """Return the facts that determine the samples of `dataset`, for `is_same`."""
    attributes = vars(dataset)
    columns, kwargs = attributes.get("_format_columns"), attributes.get("_format_kwargs")
    inside = (tuple(columns) if isinstance(columns, list) else columns, None if not kwargs else object())
    own = any(name in attributes for name in _METHODS)
    return (*(attributes.get(name) for name in _STATE), type(dataset), inside, own)


def is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return True if two results of `state_of` belong to the same samples."""
    *objects, columns, own = one
    *now, columns_now, own_now = other
    # Lists of columns are compared by content: `set_format` may get the same list, changed.
    return all(map(operator.is_, objects, now)) and columns == columns_now and own == own_now


def is_plain(format_type: str | None) -> bool:
    """Return True if the package's methods and torch's defaults are those that the core stands in for.

    Args:
        format_type: that of the dataset: "torch", or None for Python's own objects.
    """
    formatting = sys.modules["datasets.formatting"]
    formatter: Any = formatting._FORMAT_TYPES.get(format_type)
    cls: Any = sys.modules["datasets.arrow_dataset"].Dataset
    module, names = _FORMATTERS[format_type]
    functions = [getattr(cls, name, None) for name in _METHODS]
    functions += [getattr(formatter, name, None) for name in names]
    return (
        getattr(formatter, "__module__", None) == module
        and all(_is_of_datasets(function) for function in functions)
        and torch.get_default_dtype() is torch.float32
        and torch.get_default_device().type == "cpu"
    )


def has_own_methods(dataset: Any) -> bool:
    """Return True if methods that make samples were replaced on `dataset` itself."""
    return any(name in vars(dataset) for name in _METHODS)


def _is_of_datasets(function: Any) -> bool:
    return getattr(function, "__module__", "").startswith("datasets.") and hasattr(function, "__code__")


def _parts(dataset: Any) -> Parts | None:
    """Return the parts that the core reads in place of `dataset`; None if it can't."""
    attributes = vars(dataset)
    if attributes["_format_type"] != "torch" or attributes["_format_kwargs"] or not len(dataset):
        return None
    if has_own_methods(dataset):
        return None
    table: Any = dataset.data.table
    columns = columns_of(dataset, table)
    if columns is None:
        return None
    fields: list[tuple[str, Path, str]] = []
    kinds: list[Kind] = []
    structure = {}
    for name in columns:
        field, first = table.schema.field(name), table.column(name)[0]
        part = _column(field.type, dataset.features.get(name), first, [name], fields, kinds)
        if part is None:
            return None
        structure[name] = part
    core = read_columns(dataset, table.select(columns), fields)
    if core is None:
        return None
    parts = (core, structure, tuple(kinds))
    return parts if _gives_same_samples(dataset, parts) else None


def read_columns(dataset: Any, table: Any, fields: list[tuple[str, Path, str]]) -> _core.Dataset | None:
    """Return the samples of `dataset` with these fields of its `table`; None if the core does not read them.

    Args:
        dataset: one for which `is_dataset` is True.
        table: the columns of its table that contain the fields.
        fields: the name, the path and the type of each, as `_core.arrow_table_dataset` takes them.
    """
    if sum(table.column(path[0]).num_chunks for _, path, _ in fields) > _MOST_PIECES:
        return None
    core: _core.Dataset | None = _core.arrow_table_dataset(table.__arrow_c_stream__(), fields)
    if core is None or len(core) != len(table):
        return None
    indices = vars(dataset)["_indices"]
    if indices is not None:
        numbers = indices.column(0).to_numpy().astype("int64")
        core = _core.Dataset.subset(core, _core.Indices(numbers.ctypes.data, len(numbers), numbers))
    return None if core is None or len(core) != len(dataset) else core


def columns_of(dataset: Any, table: Any) -> list[str] | None:
    """Return the columns of a sample, in order; None if others are included in another format."""
    names: list[str] = table.column_names
    if len(set(names)) != len(names):
        return None
    chosen = dataset._format_columns
    if chosen is None or set(names) <= set(chosen):
        return names or None
    if dataset._output_all_columns:
        return None
    return [name for name in names if name in chosen] or None


def _column(
    values: Any, feature: Any, first: Any, path: Path, fields: list[tuple[str, Path, str]], kinds: list[Kind]
) -> Any:
    """Return how the column at `path` is nested; None if it is not read.

    Its parts are appended to `fields` and `kinds`. `values` is its type, and `feature` the package's description of it.
    `first` is its value in the first row: lists must have the same length in all rows, or the core does not read them.
    """
    pyarrow: Any = sys.modules["pyarrow"]
    types = pyarrow.types
    if isinstance(values, pyarrow.ExtensionType):  # Arrays of two and more axes.
        values = values.storage_type
    if hasattr(feature, "decode_example"):  # images and similar types
        return None
    if types.is_struct(values):
        if not isinstance(feature, dict) or not first.is_valid:
            return None
        parts = [values.field(number) for number in range(values.num_fields)]
        structure = {}
        for part in parts:
            inner = [*path, part.name]
            nested = _column(part.type, feature.get(part.name), first[part.name], inner, fields, kinds)
            if nested is None or part.name in structure:
                return None
            structure[part.name] = nested
        return structure or None
    if is_list(types, values) and not _is_number(types, _innermost(types, values)):
        of_items = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
        if of_items is None or not first.is_valid or len(first) > _MOST_FIELDS:
            return None
        items = [
            _column(values.value_type, of_items, first[number], [*path, number], fields, kinds)
            for number in range(len(first))
        ]
        return None if None in items else items or None
    form = _form(types, values, path)
    if form is None or (_is_in_list(path) and sum(_is_in_list(other) for _, other, _ in fields) == _MOST_FIELDS):
        return None
    value, kind = form
    fields.append((".".join(map(str, path)), path, value))
    kinds.append(kind)
    return len(kinds) - 1


def is_list(types: Any, values: Any) -> bool:
    """Return True if `values` is an Arrow type of lists; `types` is `pyarrow.types`."""
    return bool(types.is_list(values) or types.is_large_list(values) or types.is_fixed_size_list(values))


def _is_in_list(path: Path) -> bool:
    return any(isinstance(step, int) for step in path)


def _innermost(types: Any, values: Any) -> Any:
    while is_list(types, values):
        values = values.value_type
    return values


def _is_number(types: Any, values: Any) -> bool:
    is_number = types.is_integer(values) or types.is_floating(values) or types.is_boolean(values)
    return bool(is_number and not types.is_uint64(values))


def _form(types: Any, values: Any, path: Path) -> tuple[str, Kind] | None:
    is_text = types.is_string(values) or types.is_large_string(values)
    if is_text or types.is_binary(values) or types.is_large_binary(values) or types.is_fixed_size_binary(values):
        kind = "str" if is_text else "bytes"
        if len(path) == 1:
            # They go through a NumPy array, which drops trailing zeros; others are Python objects.
            return "bytes without zeros", kind
        # From lists, the default collate makes lists of tuples.
        return "bytes", f"{kind} tuple" if isinstance(path[-1], int) else kind
    values = _innermost(types, values)
    if types.is_float16(values) and len(path) > 1:
        return None
    return ("numbers", "tensor") if _is_number(types, values) else None


def _gives_same_samples(dataset: Any, parts: Parts) -> bool:
    """Return True if the first samples and the last one are equal both ways: other versions may behave differently."""
    last = len(dataset) - 1
    for indices in ([0], [0, last // 2, last]):
        reader = _core.Reader(parts[0], hand_over(*parts))
        if not is_equal(reader.batch(indices), default_collate(dataset.__getitems__(indices))):
            return False
    return True


def is_equal(ours: Any, theirs: Any) -> bool:
    """Return True if two batches have the same types, keys in the same order, and values."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, Mapping):
        return list(ours) == list(theirs) and all(is_equal(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(is_equal, ours, theirs))
    if isinstance(ours, torch.Tensor):
        same = ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
        return same and torch.equal(ours.contiguous().view(torch.uint8), theirs.contiguous().view(torch.uint8))
    return bool(ours == theirs)
