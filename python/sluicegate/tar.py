"""`TarDataset`: tar archives whose files are samples by their names, as WebDataset has them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from . import _core
from .blocks import BlockedDataset
from .checked_number import checked_number
from .image_field import ImageField, image_field
from .native_dataset import Kind, Lists, checked_lists, list_kind, native_format
from .paths import Path, Paths, expand, local
from .tar_listing import listing_beside, listing_of

TarField: TypeAlias = (
    "Literal['bytes', 'str', 'json', 'npy', 'int', 'float', 'image'] | ImageField | list[Literal['npy']] | type | None"
)

# An array of any length, as it can be looked for.
_RAGGED = ("npy",)

# By what a user says: what the core reads, and what it is in Python.
_FIELDS: dict[Any, tuple[str, str]] = {
    "bytes": ("bytes", "bytes"),
    "image": ("bytes", "bytes"),
    bytes: ("bytes", "bytes"),
    None: ("bytes", "bytes"),
    "str": ("bytes", "str"),
    str: ("bytes", "str"),
    "json": ("bytes", "json"),
    "npy": ("npy", "tensor"),
    _RAGGED: ("ragged npy", "ragged"),
    "int": ("int", "number"),
    int: ("int", "number"),
    "float": ("float", "number"),
    float: ("float", "number"),
}


@native_format
class TarDataset(BlockedDataset):
    """The samples in tar archives, by index: WebDataset's shards, without a conversion.

    All files of an archive whose paths are equal up to the first dot of the last component are one sample; that much of
    the path is its key. What is behind the dot, in lower case, is the name of the part: `train/0001.jpg` and
    `train/0001.seg.png` are the parts `jpg` and `seg.png` of sample `train/0001`. A sample is a dict of `__key__`,
    `__url__` (the archive) and the `fields`. The order is that of the archives, and in each that of the first file of
    each sample.

    Unlike in WebDataset the files of one sample need not lie together: wherever they lie in an archive, they are one
    sample. Equal keys in two archives are two samples. Left out, as there, is what has no dot, what is no regular file
    (links are not followed), and what lies below or is called `__...__`; and hidden files. Two files of one sample with
    one name are an error. Names that are not UTF-8 are decoded as Python does it everywhere (`os.fsdecode`). A path may
    be absolute, or begin with `../`: it is only a key.

    All headers are read once, several archives at a time, and where all lies is kept in a file beside the first archive
    (or in the user's cache folder, where that can't be written to), so that the next one who opens the dataset reads
    only that. It is made anew when an archive has changed. Archives are opened when they are read, 64 at a time.

    A map-style dataset as any other, under torch's own loader too (with `collate_fn=dataset.collate`, where a field may
    be missing). `sluicegate.DataLoader` reads it in Rust; with `BlockShuffleSampler(dataset, window=...)` archives are
    read as a whole, in shuffled order, some at a time. It can be pickled: the arguments travel, and the index is opened
    again on the other side.

    Plain tar is read in place: ustar, GNU (long names, large sizes) and pax. `.tar.gz`, `.tgz`, `.tar.zst` and `.tzst`
    are unpacked first, once, into a folder of bounded size, by whichever process comes first.

    Indices that others have made are used where they are found. `urls` may be the `.json` of wids, the folder that it
    lies in, or a folder that Megatron-Energon has prepared (with `.nv-meta` in it): they name the archives; archives
    and samples (`shard-3.tar/key`) that Energon's `exclude` names are left out. How many samples they say the archives
    have is compared, and a warning says so when it is wrong; so is what a `.json` of wids says that lies in the folder
    of the first archive and names all that are given. Energon's `.tar.idx` beside an archive lets its headers be read
    from many places at once; one that is wrong is not used.

    Args:
        urls: a file, several, or a pattern (`train-{0000..0146}.tar`, `data/*.tar`); or one of the lists above.
        fields: by extension, what the file is: "bytes" (or None), "str" (UTF-8), "json" (the objects; a batch is as
            that of `JsonLinesDataset`), "int" or `int`, "float" or `float` (a decimal number; a batch is an
            int64 or float64 tensor), "npy" (a tensor, of the data type and shape that the first one has; stacked in a
            batch, in any byte order that the machine has, never unpickled), `["npy"]` (the same, but the first axis has
            any length; a batch is `{"values", "offsets"}`, or as `lists` says), "image" or an `ImageField` (an image,
            decoded and transformed). `"jpg;png"` is the first of these that a sample has. The default is all that the
            first sample has, as bytes.
        on_missing: what becomes of a sample that lacks a field: "error" when it is read, "skip" (it is not counted), or
            "none" (the field is None; a batch has a list of it, whatever it is).
        lists: what batches of `["npy"]` are: "ragged" (`values`, all arrays behind each other, and `offsets`, int64,
            where each begins and the last one ends), or `("padded", fill)`: `{"values", "lengths"}`, padded with
            `fill`.
        on_error: "raise", or "skip": of a damaged archive, what is whole is read. Left out are samples with a damaged
            file or two files of one name, and all that is behind a damaged header, and samples with an image that
            can't be decoded (all are decoded once for that). `damages` says what.
        concatenated: whether to go on behind the blocks of zeros that end an archive: for `cat a.tar b.tar`.
        index_folder: the folder for the index, instead of beside the archives.
        split: of a folder that Energon has prepared, which of its splits; "train" by default.
        cache_folder: the folder for what is unpacked; `unpacked` in `$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate`
            or `~/.cache/sluicegate`.
        cache_bytes: what the files in it may have together, 64 GiB: those opened longest ago are removed first. If the
            archives of this dataset unpack to more together, they are kept all the same, with a warning; one archive
            that does is an error, be it a bomb or just large.

    Attributes:
        urls: the archives, as absolute paths.
        fields: by extension, what it is.
        block_sizes: the number of samples in each archive: what `BlockShuffleSampler` goes by.
        block_size: that of most archives.
        damages: what was left out with `on_error="skip"`, one line for each place.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: what is no tar archive, or damaged (the text has file, byte and member); no sample has a field;
            while reading: a field is missing, or is not what it should be.
        OSError: a file can't be read; or, while reading, one changed.

    Examples:
        >>> import io, tarfile, tempfile
        >>> path = f"{tempfile.mkdtemp()}/shard-00.tar"
        >>> with tarfile.open(path, "w") as shard:
        ...     for name, text in (("1.txt", b"a dog"), ("1.cls", b"3"), ("2.txt", b"a cat"), ("2.cls", b"5")):
        ...         member = tarfile.TarInfo(name)
        ...         member.size = len(text)
        ...         shard.addfile(member, io.BytesIO(text))
        >>> dataset = TarDataset(path, fields={"txt": "str", "cls": int})
        >>> dataset[1]["__key__"], dataset[1]["txt"], dataset[1]["cls"]
        ('2', 'a cat', 5)
    """

    def __init__(
        self,
        urls: Paths,
        fields: Mapping[str, TarField] | None = None,
        *,
        on_missing: Literal["error", "skip", "none"] = "error",
        lists: Lists = "ragged",
        on_error: Literal["raise", "skip"] = "raise",
        concatenated: bool = False,
        index_folder: Path | None = None,
        split: str = "train",
        cache_folder: Path | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        self._listing = listing_of(urls, split)
        self.urls = expand(urls if self._listing is None else self._listing.archives)
        self._excluded = () if self._listing is None else tuple(self._listing.excluded)
        if self._listing is None:
            self._listing = listing_beside(self.urls)
        self.fields = checked_fields(fields)
        if on_missing not in ("error", "skip", "none"):
            raise ValueError(f"on_missing: expected 'error', 'skip' or 'none', but got {on_missing!r}")
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error: expected 'raise' or 'skip', but got {on_error!r}")
        self.on_missing = on_missing
        self.lists = checked_lists(lists)
        self.on_error = on_error
        self.concatenated = bool(concatenated)
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self.cache_folder = None if cache_folder is None else local("cache_folder", cache_folder)
        self.cache_bytes = None if cache_bytes is None else checked_number("cache_bytes", cache_bytes)
        self._open()

    def _open(self) -> None:
        core, names, damages, samples, sizes = _core.Dataset.tar(
            self.urls,
            {
                "fields": fields_of_core(self.fields),
                "on_missing": self.on_missing,
                "skip_damaged": self.on_error == "skip",
                "concatenated": self.concatenated,
                "index_folder": self.index_folder,
                "cache_folder": self.cache_folder,
                "cache_bytes": self.cache_bytes,
                "excluded": [(archive, os.fsencode(key)) for archive, key in self._excluded],
            },
        )
        if self.fields is None:
            # As found: what was pickled is not to depend on what the first sample has by then.
            self.fields = dict.fromkeys(names[2:], "bytes")
        self.damages = damages
        self._set_blocks(sizes)
        if self._listing is not None:
            self._listing.compare(samples)
            # Once: whoever unpickles this has no list any more, but the archives.
            self._listing = None
        kinds = kinds_of(self.fields, self.on_missing, self.lists, [dtype for _, dtype, _ in core.fields])
        self._set_core(core, {name: place for place, name in enumerate(names)}, kinds, images_of(self.fields))

    def _source_paths(self) -> list[str]:
        return list(self.urls)

    def _shown(self) -> str:
        urls = repr(self.urls[0]) if len(self.urls) == 1 else f"[{self.urls[0]!r}, ... {len(self.urls)} in all]"
        return f"{urls}, {self.fields}"


def checked_fields(fields: Mapping[str, TarField] | None) -> dict[str, TarField] | None:
    """A copy of `fields`; a ValueError where they are none."""
    checked = None if fields is None else dict(fields)
    for name, field in (checked or {}).items():
        if not isinstance(name, str) or name.startswith("__"):
            raise ValueError(f"fields: expected extensions such as 'jpg', but got {name!r}")
        if _key(field) not in _FIELDS:
            raise ValueError(
                f"fields[{name!r}]: expected 'bytes', 'str', 'json', 'npy', ['npy'], int, float, 'image' or an "
                f"ImageField, but got {field!r}"
            )
    return checked


def fields_of_core(fields: Mapping[str, TarField] | None) -> list[tuple[str, str]] | None:
    """What the core reads of these fields."""
    return None if fields is None else [(name, _FIELDS[_key(field)][0]) for name, field in fields.items()]


def kinds_of(fields: Mapping[str, TarField], on_missing: str, lists: Lists, dtypes: Sequence[str]) -> list[Kind]:
    """What key, archive and these fields are in Python, where all of them have these data types."""
    kinds: list[Kind] = ["path", "path"]
    for (name, field), dtype in zip(fields.items(), dtypes[2:], strict=True):
        kind = _FIELDS[_key(field)][1]
        if on_missing == "none":
            kinds.append(("optional", kind))
        else:
            kinds.append(list_kind(lists, dtype, f"`{name}`") if kind == "ragged" else kind)
    return kinds


def images_of(fields: Mapping[str, TarField]) -> dict[int, ImageField]:
    """Those of these fields that are images, by their places behind key and archive."""
    images = ((place, image_field(field)) for place, field in enumerate(fields.values(), 2))
    return {place: image for place, image in images if image is not None}


def _key(field: Any) -> Any:
    """`field`, as it can be looked for."""
    if isinstance(field, ImageField):
        return "image"
    if isinstance(field, list):
        return tuple(field) if all(isinstance(item, str) for item in field) else object()
    return field if field is None or isinstance(field, (str, type)) else object()
