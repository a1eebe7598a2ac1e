"""`NativeDataset`: what every dataset has in common that the core reads from files."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import torch
from torch.utils.data import Dataset, default_collate

from . import _core, _torch
from .image_field import ImageField

Kind = str | tuple[str, bytes] | tuple[str, str]

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

_Format = TypeVar("_Format", bound="type[NativeDataset]")


def native_format(cls: _Format) -> _Format:
    """Decorate a class whose objects the core reads instead of calling their methods; not their subclasses."""
    FORMAT_METHODS.update({(cls, name): getattr(cls, name) for name in READING_METHODS})
    return cls


def hand_over(dataset: _core.Dataset, structure: Any, kinds: Sequence[Kind]) -> _core.HandOver:
    """How batches and samples of `dataset` become Python objects."""
    return hand_over_fields(structure, kinds, [VIEWED.get(dtype) for _, dtype, _ in dataset.fields])


def hand_over_fields(structure: Any, kinds: Sequence[Kind], views: Sequence[torch.dtype | None] = ()) -> _core.HandOver:
    """How fields of these kinds become Python objects; `views` are data types that DLPack has no code for."""
    views = list(views) or [None] * len(kinds)
    return _core.HandOver(structure, list(kinds), views, _torch.from_dlpack, default_collate)


class NativeDataset(Dataset[Any]):
    """A map-style dataset that the core reads: the base of all formats, which say in `_open` what they are.

    It can be pickled: the arguments travel, and the files are opened again on the other side. Threads may share it, and
    a forked process may go on with it.

    Attributes:
        core: the core's dataset.
        structure: how its fields are nested in a sample: field numbers in dicts and lists, which stand for tuples.
        kinds: by field, what it is in a sample and in a batch: "tensor"; "number" (an `int`, `float` or `bool`);
            "ragged" (a tensor of any length; in a batch `{"values", "offsets"}`), `("padded", fill)` (the same; in a
            batch `{"values", "lengths"}`, padded with the value that these bytes are); "bytes"; "str" (must be UTF-8);
            "bytes tuple" and "str tuple" (the same; in a batch a tuple of them);
            "path" (a `str` as of `os.fsdecode`); "json" (the objects of a JSON text; a batch is what torch's default
            collate makes of them); `("optional", kind)` (the same or None; in a batch a list of them);
            `("nested", type)` (lists, dicts, and what is in them; in a batch a list of such).
        is_native: whether the core makes samples alone: not where an image is transformed in Python, or is of any size.
    """

    core: _core.Dataset
    structure: Any
    kinds: tuple[Kind, ...]
    is_native: bool
    _reader: _core.Reader
    _images: Mapping[int, ImageField]

    _OPENED: tuple[str, ...] = ("core", "structure", "kinds", "is_native", "_reader", "_images")

    @abstractmethod
    def _open(self) -> None:
        """Opens what the arguments name, and calls `_set_core`. Called once, and wherever this is unpickled."""

    def _set_core(
        self, core: _core.Dataset, structure: Any, kinds: Sequence[Kind], images: Mapping[int, ImageField] | None = None
    ) -> None:
        """Reads `core`; the fields `images`, whose kind is "bytes" (or that or none), are images."""
        self._reader = _core.Reader(core, hand_over(core, structure, kinds))
        self._images = {field: image.of_dataset(len(core)) for field, image in (images or {}).items()}
        self._encoded = structure
        self.core, self.structure, self.kinds, self.is_native = core, structure, tuple(kinds), True
        if self._images:
            self.kinds = tuple("tensor" if field in self._images else kind for field, kind in enumerate(kinds))
            decoded = decoded_core(core, structure, kinds, self._images)
            self.is_native = decoded is not None
            if decoded is not None:
                self.core, self.structure, used = decoded
                self.kinds = tuple(self.kinds[field] for field in used)

    @property
    def has_images(self) -> bool:
        """Whether there are fields that are decoded."""
        return bool(self._images)

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
        return self._decoded(sample, self._encoded, place) if self._images else sample

    def _decoded(self, part: Any, structure: Any, place: int) -> Any:
        """`part` of sample `place`, nested as `structure` says, with images in the place of their bytes."""
        if isinstance(structure, dict):
            return {key: self._decoded(part[key], inner, place) for key, inner in structure.items()}
        if isinstance(structure, list):
            return tuple(self._decoded(value, inner, place) for value, inner in zip(part, structure, strict=True))
        image = self._images.get(structure)
        if image is None or part is None:
            return part
        try:
            return image.decode(part, place)
        except ValueError as error:
            self._refuse(place, structure, error)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at `indices`, read at once. Each has its own rows of memory that all of them share."""
        places = [self._place(index) for index in indices]
        return self._samples(places) if self._images else self._reader.samples(places)

    def _samples(self, places: list[int]) -> list[Any]:
        """The samples at `places`, whose images share their memory where they have one form."""
        fields = list(self._images.items())
        if not self.is_native or len(fields) != 1:
            return list(map(self._sample, places))
        ((field, image),) = fields
        raw = self._reader.samples(places)
        files = [_part(sample, self._encoded, field) for sample in raw]
        decoded, failed = image.decode_many(files, places)
        if failed is not None:
            self._refuse(places[failed[0]], field, failed[1])
        return [_put(sample, self._encoded, field, row) for sample, row in zip(raw, decoded, strict=True)]

    def _refuse(self, place: int, field: int, reason: object) -> NoReturn:
        """An error of the image in `field` of sample `place`."""
        where = self._reader.origin(place, field) or f"sample {place}"
        raise ValueError(f"{where}: {reason}") from None

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

        It is torch's default collate, but for tensors of any length, which that can't stack.
        """
        return collate(list(samples), self.structure, self.kinds)

    def __getstate__(self) -> dict[str, Any]:
        """The arguments, and whatever was set on the object: the files are opened anew on the other side."""
        return {name: value for name, value in vars(self).items() if name not in self._OPENED}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def _part(sample: Any, structure: Any, field: int) -> Any:
    """What field `field` of `sample` holds, nested as `structure` says; None where it is elsewhere."""
    if isinstance(structure, (dict, list)):
        keys = structure.items() if isinstance(structure, dict) else enumerate(structure)
        return next((found for key, inner in keys if (found := _part(sample[key], inner, field)) is not None), None)
    return sample if structure == field else None


def _put(sample: Any, structure: Any, field: int, value: Any) -> Any:
    """`sample` with `value` in field `field`."""
    if isinstance(structure, dict):
        return {key: _put(sample[key], inner, field, value) for key, inner in structure.items()}
    if isinstance(structure, list):
        return tuple(_put(part, inner, field, value) for part, inner in zip(sample, structure, strict=True))
    return value if structure == field else sample


def decoded_core(
    core: _core.Dataset, structure: Any, kinds: Sequence[Kind], images: Mapping[int, ImageField]
) -> tuple[_core.Dataset, Any, list[int]] | None:
    """The dataset with its images decoded by the core, its structure, and which fields it has; None where it can't."""
    used: list[int] = []
    numbered = _numbered(structure, used)
    fields = []
    for field in used:
        pipeline = images[field].pipeline if field in images else None
        if field in images and (pipeline is None or kinds[field] != "bytes"):
            return None
        fields.append((field, pipeline))
    return _core.decoded_images(core, fields), numbered, used


def _numbered(structure: Any, used: list[int]) -> Any:
    """`structure` with its fields numbered as they come; which ones they were is added to `used`."""
    if isinstance(structure, dict):
        return {key: _numbered(part, used) for key, part in structure.items()}
    if isinstance(structure, list):
        return [_numbered(part, used) for part in structure]
    used.append(structure)
    return len(used) - 1


def leaves_out(on_error: str) -> bool:
    """Whether samples that are broken are left out; a ValueError where `on_error` is neither "raise" nor "skip"."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error: expected 'raise' or 'skip', but got {on_error!r}")
    return on_error == "skip"


def collate(samples: list[Any], structure: Any, kinds: Sequence[Kind]) -> Any:
    """The batch of samples of this structure and these kinds: torch's default, but for tensors of any length."""
    if isinstance(structure, dict):
        return {key: collate([sample[key] for sample in samples], part, kinds) for key, part in structure.items()}
    if isinstance(structure, list):
        return [collate([sample[place] for sample in samples], part, kinds) for place, part in enumerate(structure)]
    kind = kinds[structure]
    if kind == "ragged":
        lengths = torch.tensor([0, *map(len, samples)])
        return {"values": torch.cat(samples), "offsets": lengths.cumsum(0)}
    if isinstance(kind, tuple) and isinstance(kind[1], str):
        return samples
    if isinstance(kind, tuple):
        longest = max(map(len, samples))
        first = samples[0]
        fill = torch.frombuffer(bytearray(kind[1]), dtype=first.dtype)
        values = fill.expand(len(samples), longest, *first.shape[1:]).clone()
        for row, sample in zip(values, samples, strict=True):
            row[: len(sample)] = sample
        return {"values": values, "lengths": torch.tensor([len(sample) for sample in samples])}
    return default_collate(samples)


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
