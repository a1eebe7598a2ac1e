"""`NativeDataset`: the base of datasets that the core reads from files."""

from __future__ import annotations

import operator
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import torch
from torch.utils.data import Dataset, default_collate

from sluicegate import _core, _torch
from sluicegate.image.damaged import DamagedImageError
from sluicegate.image.engine import engine_in_words
from sluicegate.image.field import ImageField
from sluicegate.image.links import NO_LINKS, ImageLinks
from sluicegate.image.samples import ImageSamples, UndecodedFieldError, with_paths

from .json_batch import json_batch

Kind = str | tuple[str, bytes] | tuple[str, str] | tuple[str, bytes, bool, int, int | None]

# How variable-length values are batched: "ragged", or `("padded", fill)`.
Lists: TypeAlias = "str | tuple[str, Any]"

# Data types without a DLPack code: they are passed as bytes and viewed as their type.
VIEWED = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "float8_e8m0fnu": getattr(torch, "float8_e8m0fnu", None),
}

READING_METHODS = ("__getitem__", "__getitems__", "__len__")

# By class and name: the methods that the core replaces. Users may override them, and subclasses may have their own.
FORMAT_METHODS: dict[tuple[type, str], Any] = {}

_REPLACED = object()

_Format = TypeVar("_Format", bound="type[NativeDataset]")


def native_format(cls: _Format) -> _Format:
    """Decorate a class whose instances the core reads without calling their methods; subclasses are excluded."""
    FORMAT_METHODS.update({(cls, name): getattr(cls, name) for name in READING_METHODS})
    return cls


def has_methods(dataset: Any, known: Mapping[tuple[type, str], Any]) -> bool:
    """Return True if class and object have the original reading methods, given in `known` by class and name."""
    cls = type(dataset)
    return "__getitems__" not in getattr(dataset, "__dict__", ()) and all(
        getattr(cls, name, None) is known.get((cls, name), _REPLACED) for name in READING_METHODS
    )


def hand_over(dataset: _core.Dataset, structure: Any, kinds: Sequence[Kind]) -> _core.HandOver:
    """Return how batches and samples of `dataset` become Python objects."""
    return hand_over_fields(structure, kinds, [VIEWED.get(dtype) for _, dtype, _ in dataset.fields])


def hand_over_fields(
    structure: Any,
    kinds: Sequence[Kind],
    views: Sequence[torch.dtype | None] = (),
    finish: Callable[[Any], Any] | None = None,
) -> _core.HandOver:
    """Return how fields of these kinds become Python objects.

    Args:
        structure: how they are nested, as in `NativeDataset`.
        kinds: the kind of each field, as in `NativeDataset`.
        views: data types without a DLPack code.
        finish: takes each batch, and returns what to deliver instead.
    """
    views = list(views) or [None] * len(kinds)
    return _core.HandOver(structure, list(kinds), views, _torch.from_dlpack, json_batch, finish)


class NativeDataset(Dataset[Any]):
    """A map-style dataset that the core reads: the base class of all formats, which implement `_open`.

    It can be pickled: only the arguments are, and unpickling opens the files again. It is thread-safe, and a forked
    process may continue to use it.

    Attributes:
        core: the core's dataset.
        structure: how its fields are nested in a sample: field numbers in dicts and in lists, which represent tuples.
        kinds: the kind of each field:

            - "tensor";
            - "number": an `int`, `float` or `bool`;
            - "ragged": a variable-length tensor; in a batch `{"values", "offsets"}`;
            - `("padded", fill)`: the same; in a batch `{"values", "lengths"}`, padded with the value whose bytes are
              `fill`;
            - `("filled", fill, is_left, multiple, length)`: the same, but a batch is a padded tensor;
            - "bytes";
            - "str": must be UTF-8;
            - "bytes tuple" and "str tuple": the same; in a batch a tuple of them;
            - "path": a `str` as from `os.fsdecode`;
            - "json": the parsed value of a JSON text; a batch is made by `json_batch`;
            - `("optional", kind)`: that kind or None; in a batch a list;
            - `("nested", type)`: lists, dicts, and their content; in a batch a list of such values.
        is_native: True if the core can make samples alone: not if an image is transformed in Python, or may have any
            size.
    """

    core: _core.Dataset
    structure: Any
    kinds: tuple[Kind, ...]
    is_native: bool
    _reader: _core.Reader
    _images: Mapping[int, ImageField]
    _decoding: ImageSamples | None
    # Why the core does not decode the images; None if it does, or there are none.
    _core_reason: str | None

    _OPENED: tuple[str, ...] = (
        "core",
        "structure",
        "kinds",
        "is_native",
        "_reader",
        "_images",
        "_decoding",
        "_core_reason",
    )

    @abstractmethod
    def _open(self) -> None:
        """Open the files that the arguments name, and call `_set_core`. Called once, and again after unpickling."""

    def _set_core(
        self,
        core: _core.Dataset,
        structure: Any,
        kinds: Sequence[Kind],
        images: Mapping[int, ImageField] | None = None,
        links: ImageLinks = NO_LINKS,
    ) -> None:
        """Read `core`; the fields `images`, of kind "bytes" or optional "bytes", are images."""
        for text in _core.take_notices():
            warnings.warn(text, stacklevel=4)
        read = structure if images is None or not links.paths else with_paths(structure, links)
        self._reader = _core.Reader(core, hand_over(core, read, kinds))
        self._images = {field: image.of_dataset(len(core)) for field, image in (images or {}).items()}
        self._decoding, self._core_reason = None, None
        self.core, self.structure, self.kinds, self.is_native = core, structure, tuple(kinds), True
        if self._images:
            self._decoding = ImageSamples(structure, kinds, self._images, links)
            self.kinds = self._decoding.kinds
            decoded = self._decoding.core(core)
            self.is_native = not isinstance(decoded, str)
            if isinstance(decoded, str):
                self._core_reason = decoded
            else:
                self.core, self.structure, used = decoded
                self.kinds = tuple(self.kinds[field] for field in used)

    @property
    def has_images(self) -> bool:
        """True if there are image fields to decode."""
        return bool(self._images)

    @property
    def python_reason(self) -> str | None:
        """Why samples need Python, so that the core cannot make batches alone; None if it can.

        Example: "transform 3, `Lambda`: not recognized".
        """
        if not has_methods(self, FORMAT_METHODS):
            return f"class {type(self).__name__} overrides methods, which Python calls"
        return None if self.is_native else self._core_reason

    @property
    def random_transform(self) -> str | None:
        """The first transform of its images that draws random values; None if there is none.

        Example: "transform 1, `RandomHorizontalFlip`,".
        """
        drawn = (image.random_transform for image in self._images.values())
        return next((each for each in drawn if each is not None), None)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.core)

    def __getitem__(self, index: Any) -> Any:
        """Return the sample at `index`; for a slice or a list of indices, the batch of their samples."""
        if isinstance(index, slice):
            return self._batch(list(range(*index.indices(len(self)))))
        if isinstance(index, list):
            return self._batch([self._index_of(each) for each in index])
        return self._sample(self._index_of(index))

    def _sample(self, index: int) -> Any:
        sample = self._reader.sample(index)
        if self._decoding is None:
            return sample
        try:
            return self._decoding.sample(sample, index)
        except UndecodedFieldError as error:
            self._refuse(index, error)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the samples at `indices`, read together. Each has its own rows of memory that all of them share."""
        return self._samples([self._index_of(index) for index in indices])

    def _samples(self, indices: list[int]) -> list[Any]:
        """Return the samples at `indices`; images of one shape share their memory."""
        if self._decoding is None:
            return self._reader.samples(indices)
        if not (self.is_native and self._decoding.are_of_one_form):
            return list(map(self._sample, indices))
        try:
            return self._decoding.samples(self._reader.samples(indices), indices)
        except UndecodedFieldError as error:
            self._refuse(indices[error.row], error)

    def _refuse(self, index: int, error: UndecodedFieldError) -> NoReturn:
        """Raise the error of an image in sample `index`."""
        where = self._reader.origin(index, error.field) or f"sample {index}"
        raise DamagedImageError(f"{where}: {error.reason}") from None

    def _batch(self, indices: list[int]) -> Any:
        batch = self.collate(self._samples(indices)) if self._images else self._reader.batch(indices)
        return tuple(batch) if isinstance(self.structure, list) else batch

    def _index_of(self, index: Any) -> int:
        try:
            checked = operator.index(index)
        except TypeError:
            raise TypeError(
                f"index: expected an integer for {self!r}, but got {index!r} ({type(index).__name__})"
            ) from None
        length = len(self)
        if not -length <= checked < length:
            raise IndexError(f"index {checked} is out of range for {self!r} of {length} samples")
        return checked + length if checked < 0 else checked

    def collate(self, samples: Sequence[Any]) -> Any:
        """Return the batch of `samples` that `sluicegate.DataLoader` makes; a `collate_fn` for torch's own loader.

        Equal to torch's default collate, except for variable-length tensors, which that cannot stack, and for lists of
        strings, of lists or of objects (`messages`), which stay one list per sample.
        """
        return collate(list(samples), self.structure, self.kinds)

    def _shown(self) -> str:
        """Return the arguments that determine the samples, for `repr`."""
        return ""

    def __repr__(self) -> str:
        """Return the constructor call, as far as it determines the samples, and what runs in Rust and in Python."""
        images = {} if self._decoding is None else self._decoding.images_by_name
        return f"{type(self).__name__}({self._shown()}{engine_in_words(images, self.python_reason)})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments, and any attributes set on the object; unpickling opens the files again."""
        return {name: value for name, value in vars(self).items() if name not in self._OPENED}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def leaves_out(on_error: str) -> bool:
    """Return True if broken samples are left out.

    Raises:
        ValueError: `on_error` is neither "raise" nor "skip".
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error: expected 'raise' or 'skip', but got {on_error!r}")
    return on_error == "skip"


def has_own_batches(kinds: Sequence[Kind]) -> bool:
    """Return True if torch's default collate cannot batch these kinds, or batches them differently than the core."""
    return any(kind in ("ragged", "json") or isinstance(kind, tuple) for kind in kinds)


def collate(
    samples: Sequence[Any], structure: Any, kinds: Sequence[Kind], default: Callable[[Any], Any] = default_collate
) -> Any:
    """Collate samples of this structure and these kinds: with `default`, except for variable-length values."""
    if isinstance(structure, dict):
        return {key: collate([one[key] for one in samples], part, kinds, default) for key, part in structure.items()}
    if isinstance(structure, list):
        parts = enumerate(structure)
        return [collate([one[position] for one in samples], part, kinds, default) for position, part in parts]
    kind = kinds[structure]
    if kind == "ragged":
        lengths = torch.tensor([0, *map(len, samples)])
        return {"values": torch.cat(list(samples)), "offsets": lengths.cumsum(0)}
    if isinstance(kind, tuple) and isinstance(kind[1], str):
        return list(samples)
    if kind == "json":
        return json_batch(samples, default=default)
    if isinstance(kind, tuple):
        longest = max(map(len, samples))
        first = samples[0]
        fill = torch.frombuffer(bytearray(kind[1]), dtype=first.dtype)
        values = fill.expand(len(samples), longest, *first.shape[1:]).clone()
        for row, sample in zip(values, samples, strict=True):
            row[: len(sample)] = sample
        return {"values": values, "lengths": torch.tensor([len(sample) for sample in samples])}
    return default(samples)


def checked_lists(lists: Any) -> Lists:
    """Return the argument `lists`.

    Raises:
        ValueError: it is neither "ragged" nor `("padded", fill)`.
    """
    if lists == "ragged" or (isinstance(lists, tuple) and len(lists) == 2 and lists[0] == "padded"):
        found: Lists = lists
        return found
    raise ValueError(f"lists: expected 'ragged' or ('padded', fill), but got {lists!r}")


def list_kind(lists: Lists, dtype: str, of: str) -> Kind:
    """Return the kind of variable-length values of `dtype`.

    Raises:
        ValueError: the fill value does not fit `dtype`; the message names `of`.
    """
    if isinstance(lists, str):
        return "ragged"
    fill = lists[1]
    try:
        return "padded", fill_bytes(fill, dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"lists: expected a fill of {dtype} for {of}, but got {fill!r} ({error})") from None


def fill_bytes(value: float | bool, dtype: str) -> bytes:
    """Return the bytes of `value` as an element of `dtype` (a torch name): the fill of the kind `("padded", fill)`.

    Raises:
        ValueError, RuntimeError: an integer of `dtype` cannot have this value.
    """
    element = torch.tensor([value], dtype=getattr(torch, dtype))
    # Torch wraps negative integers and truncates fractions.
    if not element.is_floating_point() and element.item() != value:
        raise ValueError(f"it would become {element.item()}")
    return element.view(torch.uint8).numpy().tobytes()


def renumbered(structure: Any, first: int) -> Any:
    """Return `structure` with its fields numbered from `first`."""
    if isinstance(structure, dict):
        return {key: renumbered(part, first) for key, part in structure.items()}
    if isinstance(structure, list):
        return [renumbered(part, first) for part in structure]
    return structure + first
