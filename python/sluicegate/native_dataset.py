"""`NativeDataset`: what every dataset has in common that the core reads from files."""

from __future__ import annotations

import operator
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import torch
from torch.utils.data import Dataset, default_collate

from . import _core, _torch
from .damaged_image import DamagedImageError
from .image_engine import engine_in_words
from .image_field import ImageField
from .image_links import NO_LINKS, ImageLinks
from .image_samples import ImageSamples, UndecodedFieldError, with_paths
from .json_batch import json_batch

Kind = str | tuple[str, bytes] | tuple[str, str] | tuple[str, bytes, bool, int, int | None]

# What a batch of values of any length is: "ragged", or `("padded", fill)`.
Lists: TypeAlias = "str | tuple[str, Any]"

# Data types that DLPack has no code for: they cross as bytes and are viewed as what they are.
VIEWED = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "float8_e8m0fnu": getattr(torch, "float8_e8m0fnu", None),
}

READING_METHODS = ("__getitem__", "__getitems__", "__len__")

# By class and name: the methods that the core stands in for. Somebody may replace them, and a subclass has others.
FORMAT_METHODS: dict[tuple[type, str], Any] = {}

_REPLACED = object()

_Format = TypeVar("_Format", bound="type[NativeDataset]")


def native_format(cls: _Format) -> _Format:
    """Decorate a class whose objects the core reads instead of calling their methods; not their subclasses."""
    FORMAT_METHODS.update({(cls, name): getattr(cls, name) for name in READING_METHODS})
    return cls


def has_methods(dataset: Any, known: Mapping[tuple[type, str], Any]) -> bool:
    """Returns whether class and object have the reading methods that are `known`, by class and name."""
    cls = type(dataset)
    return "__getitems__" not in getattr(dataset, "__dict__", ()) and all(
        getattr(cls, name, None) is known.get((cls, name), _REPLACED) for name in READING_METHODS
    )


def hand_over(dataset: _core.Dataset, structure: Any, kinds: Sequence[Kind]) -> _core.HandOver:
    """How batches and samples of `dataset` become Python objects."""
    return hand_over_fields(structure, kinds, [VIEWED.get(dtype) for _, dtype, _ in dataset.fields])


def hand_over_fields(
    structure: Any,
    kinds: Sequence[Kind],
    views: Sequence[torch.dtype | None] = (),
    finish: Callable[[Any], Any] | None = None,
) -> _core.HandOver:
    """How fields of these kinds become Python objects.

    Args:
        structure: how they are nested, as `NativeDataset` has it.
        kinds: by field, what it is, as `NativeDataset` has it.
        views: data types that DLPack has no code for.
        finish: takes each batch, and returns what is delivered in its place.
    """
    views = list(views) or [None] * len(kinds)
    return _core.HandOver(structure, list(kinds), views, _torch.from_dlpack, json_batch, finish)


class NativeDataset(Dataset[Any]):
    """A map-style dataset that the core reads: the base of all formats, which say in `_open` what they are.

    It can be pickled: the arguments travel, and the files are opened again on the other side. Threads may share it, and
    a forked process may go on with it.

    Attributes:
        core: the core's dataset.
        structure: how its fields are nested in a sample: field numbers in dicts and lists, which stand for tuples.
        kinds: by field, what it is in a sample and in a batch: "tensor"; "number" (an `int`, `float` or `bool`);
            "ragged" (a tensor of any length; in a batch `{"values", "offsets"}`), `("padded", fill)` (the same; in a
            batch `{"values", "lengths"}`, padded with the value that these bytes are); `("filled", fill, is_left,
            multiple, length)` (the same, but a batch is a padded tensor); "bytes"; "str" (must be UTF-8);
            "bytes tuple" and "str tuple" (the same; in a batch a tuple of them);
            "path" (a `str` as of `os.fsdecode`); "json" (the objects of a JSON text; a batch is what `json_batch`
            makes of them); `("optional", kind)` (the same or None; in a batch a list of them);
            `("nested", type)` (lists, dicts, and what is in them; in a batch a list of such).
        is_native: whether the core makes samples alone: not where an image is transformed in Python, or is of any size.
    """

    core: _core.Dataset
    structure: Any
    kinds: tuple[Kind, ...]
    is_native: bool
    _reader: _core.Reader
    _images: Mapping[int, ImageField]
    _decoding: ImageSamples | None
    # Why the core does not decode the images; None where it does, or there are none.
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
        """Opens what the arguments name, and calls `_set_core`. Called once, and wherever this is unpickled."""

    def _set_core(
        self,
        core: _core.Dataset,
        structure: Any,
        kinds: Sequence[Kind],
        images: Mapping[int, ImageField] | None = None,
        links: ImageLinks = NO_LINKS,
    ) -> None:
        """Reads `core`; the fields `images`, whose kind is "bytes" (or that or none), are images."""
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
        """Whether there are fields that are decoded."""
        return bool(self._images)

    @property
    def python_reason(self) -> str | None:
        """Why Python has a part in its samples, and the core does not make batches alone; None where it does.

        Example: "transform 3, `Lambda`: not recognized".
        """
        if not has_methods(self, FORMAT_METHODS):
            return f"class {type(self).__name__} has methods of its own, which Python calls"
        return None if self.is_native else self._core_reason

    @property
    def random_transform(self) -> str | None:
        """The first transform of its images that draws random values; None where there is none.

        Example: "transform 1, `RandomHorizontalFlip`,".
        """
        drawn = (image.random_transform for image in self._images.values())
        return next((each for each in drawn if each is not None), None)

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.core)

    def __getitem__(self, index: Any) -> Any:
        """The sample at `index`, or for a slice or a list of indices the batch of their samples."""
        if isinstance(index, slice):
            return self._batch(list(range(*index.indices(len(self)))))
        if isinstance(index, list):
            return self._batch([self._place(each) for each in index])
        return self._sample(self._place(index))

    def _sample(self, place: int) -> Any:
        sample = self._reader.sample(place)
        if self._decoding is None:
            return sample
        try:
            return self._decoding.sample(sample, place)
        except UndecodedFieldError as error:
            self._refuse(place, error)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at `indices`, read at once. Each has its own rows of memory that all of them share."""
        places = [self._place(index) for index in indices]
        return self._samples(places)

    def _samples(self, places: list[int]) -> list[Any]:
        """The samples at `places`, whose images share their memory where they have one form."""
        if self._decoding is None:
            return self._reader.samples(places)
        if not (self.is_native and self._decoding.are_of_one_form):
            return list(map(self._sample, places))
        try:
            return self._decoding.samples(self._reader.samples(places), places)
        except UndecodedFieldError as error:
            self._refuse(places[error.row], error)

    def _refuse(self, place: int, error: UndecodedFieldError) -> NoReturn:
        """An error of an image of sample `place`."""
        where = self._reader.origin(place, error.field) or f"sample {place}"
        raise DamagedImageError(f"{where}: {error.reason}") from None

    def _batch(self, places: list[int]) -> Any:
        batch = self.collate(self._samples(places)) if self._images else self._reader.batch(places)
        return tuple(batch) if isinstance(self.structure, list) else batch

    def _place(self, index: Any) -> int:
        try:
            place = operator.index(index)
        except TypeError:
            raise TypeError(f"an index of {self!r} is an integer, not {index!r} ({type(index).__name__})") from None
        length = len(self.core)
        if not -length <= place < length:
            raise IndexError(f"index {place} is out of range for {self!r} of {length} samples")
        return place + length if place < 0 else place

    def collate(self, samples: Sequence[Any]) -> Any:
        """The batch of `samples` as `sluicegate.DataLoader` makes it: the `collate_fn` for torch's own loader.

        It is torch's default collate, except for tensors of any length, which that can't stack, and for lists of texts,
        of lists or of objects (`messages`), which stay one list per sample.
        """
        return collate(list(samples), self.structure, self.kinds)

    def _shown(self) -> str:
        """Returns the arguments that say which samples there are, for `repr`."""
        return ""

    def __repr__(self) -> str:
        """The constructor's call, as far as it says which samples there are, and what is done in Rust and in Python."""
        images = {} if self._decoding is None else self._decoding.images_by_name
        return f"{type(self).__name__}({self._shown()}{engine_in_words(images, self.python_reason)})"

    def __getstate__(self) -> dict[str, Any]:
        """The arguments, and whatever was set on the object: the files are opened anew on the other side."""
        return {name: value for name, value in vars(self).items() if name not in self._OPENED}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def leaves_out(on_error: str) -> bool:
    """Whether samples that are broken are left out; a ValueError where `on_error` is neither "raise" nor "skip"."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error: expected 'raise' or 'skip', but got {on_error!r}")
    return on_error == "skip"


def has_own_batches(kinds: Sequence[Kind]) -> bool:
    """Whether torch's default collate has no batches of these kinds, or others than the core."""
    return any(kind in ("ragged", "json") or isinstance(kind, tuple) for kind in kinds)


def collate(
    samples: Sequence[Any], structure: Any, kinds: Sequence[Kind], default: Callable[[Any], Any] = default_collate
) -> Any:
    """The batch of samples of this structure and these kinds: that of `default`, except for what has any length."""
    if isinstance(structure, dict):
        return {key: collate([one[key] for one in samples], part, kinds, default) for key, part in structure.items()}
    if isinstance(structure, list):
        parts = enumerate(structure)
        return [collate([one[place] for one in samples], part, kinds, default) for place, part in parts]
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
    """The argument `lists`; a ValueError where it is neither "ragged" nor `("padded", fill)`."""
    if lists == "ragged" or (isinstance(lists, tuple) and len(lists) == 2 and lists[0] == "padded"):
        found: Lists = lists
        return found
    raise ValueError(f"lists: expected 'ragged' or ('padded', fill), but got {lists!r}")


def list_kind(lists: Lists, dtype: str, of: str) -> Kind:
    """What values of any length of `dtype` are; a ValueError, which says `of` what, where the fill is none of it."""
    if isinstance(lists, str):
        return "ragged"
    fill = lists[1]
    try:
        return "padded", fill_bytes(fill, dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"lists: {fill!r} is no {dtype}, as {of} has them ({error})") from None


def fill_bytes(value: float | bool, dtype: str) -> bytes:
    """The bytes of `value` as an element of `dtype` (torch's name): the fill of the kind `("padded", fill)`."""
    return torch.tensor([value], dtype=getattr(torch, dtype)).view(torch.uint8).numpy().tobytes()
