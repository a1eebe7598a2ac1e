"""`TarDataset`: tar archives whose files are grouped into samples by name, as in WebDataset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.image.field import ImageField
from sluicegate.image.named_fields import image_field
from sluicegate.native.blocks import BlockedDataset
from sluicegate.native.dataset import Kind, Lists, checked_lists, leaves_out, list_kind, native_format
from sluicegate.paths import Path, Paths, expand, local

from .tar_listing import listing_beside, listing_of

TarField: TypeAlias = (
    "Literal['bytes', 'str', 'json', 'npy', 'int', 'float', 'image'] | ImageField | list[Literal['npy']] | type | None"
)

# `["npy"]`, a variable-length array, as a hashable key.
_RAGGED = ("npy",)

# By user-facing type: the type that the core reads, and the kind in Python.
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
    """Random access by index to the samples in tar archives: WebDataset shards, without conversion.

    All files of an archive whose paths are equal up to the first dot of the last component are one sample; that prefix
    is its key. The part after the dot, in lower case, is the field name: `train/0001.jpg` and `train/0001.seg.png` are
    the fields `jpg` and `seg.png` of sample `train/0001`. A sample is a dict of `__key__`, `__url__` (the archive) and
    the `fields`. Samples are ordered by archive, and within one by their first file.

    Unlike in WebDataset, the files of a sample need not be adjacent in the archive. Equal keys in two archives are two
    samples. As in WebDataset, these are left out: files without a dot, anything that is not a regular file (links are
    not followed), and files that are named, or lie below, `__...__`. Hidden files are left out too. Two files of one
    sample with the same field name are an error. Names that are not UTF-8 are decoded with `os.fsdecode`. A path may be
    absolute, or begin with `../`: it is only a key.

    All headers are read once, several archives at a time. The resulting index is saved in a file next to the first
    archive (or in the user's cache folder if that is not writable), so that later only that file is read. It is rebuilt
    when an archive changes. Archives are opened when they are read, 64 at a time.

    A map-style dataset that also works under torch's own loader (with `collate_fn=dataset.collate` if a field may be
    missing). `sluicegate.DataLoader` reads it in Rust; with `BlockShuffleSampler(dataset, window=...)` whole archives
    are read in shuffled order, a few at a time. It can be pickled: only the arguments are, and unpickling opens the
    index again. It is thread-safe.

    Plain tar is read in place: ustar, GNU (long names, large sizes) and pax. `.tar.gz`, `.tgz`, `.tar.zst` and `.tzst`
    are first decompressed, once, into a cache folder of bounded size, by the process that comes first. Sources:
    POSIX.1-2008 (`pax`), GNU tar's manual.

    Index files written by other tools are used if present. `urls` may be the `.json` of wids, the folder that contains
    it, or a folder prepared by Megatron-Energon (with `.nv-meta` in it): they name the archives. Archives and samples
    (`shard-3.tar/key`) listed in Energon's `exclude` are left out. If the sample counts in such a list are wrong, a
    warning says so; the same check applies to a wids `.json` in the folder of the first archive that names all given
    archives. Energon's `.tar.idx` next to an archive lets its headers be read from many places in parallel; an
    incorrect one is ignored.

    Args:
        urls: a file, several files, or a pattern (`train-{0000..0146}.tar`, `data/*.tar`); or one of the lists above.
        fields: the type of each field, by extension. Default: all fields of the first sample, as bytes. `"jpg;png"` is
            the first of these extensions that a sample has. Types:

            - "bytes" (or None);
            - "str": UTF-8;
            - "json": the parsed value; batches are as in `JsonLinesDataset`;
            - "int" or `int`, "float" or `float`: a decimal number; a batch is an int64 or float64 tensor;
            - "npy": a tensor with the data type and shape of the first sample's, stacked in a batch; in the machine's
              byte order, never unpickled;
            - `["npy"]`: the same, but the first axis has any length; a batch is `{"values", "offsets"}`, or as `lists`
              says;
            - "image" or an `ImageField`: an image, decoded and transformed.
        on_missing: what to do with a sample that lacks a field: "error" when it is read, "skip" (it is not counted), or
            "none" (the field is None, and a batch has a list, whatever the type).
        lists: what batches of `["npy"]` are: "ragged" (`values`, all arrays concatenated, and `offsets`, int64, the
            start of each and the end of the last), or `("padded", fill)`: `{"values", "lengths"}`, padded with `fill`.
        on_error: "raise", or "skip": read only the intact samples of a damaged archive. Left out are samples with a
            damaged file or two files of one name, everything after a damaged header, and samples with an image that
            cannot be decoded (all are decoded once to find out). `damages` lists them.
        concatenated: True to continue after the blocks of zeros that end an archive: for `cat a.tar b.tar`.
        index_folder: the folder for the index, instead of next to the archives.
        split: which split of a folder prepared by Energon; "train" by default.
        cache_folder: the folder for decompressed archives; by default `unpacked` in `$SLUICEGATE_CACHE`,
            `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`.
        cache_bytes: the total size limit of that folder, 64 GiB by default; files opened longest ago are removed first.
            If this dataset's archives decompress to more in total, they are kept anyway, with a warning; a single
            archive that does is an error, whether it is a decompression bomb or just large.

    Attributes:
        urls: the archives, as absolute paths.
        fields: the type of each field, by extension.
        block_sizes: the number of samples in each archive; used by `BlockShuffleSampler`.
        block_size: the most common block size.
        damages: what `on_error="skip"` left out, one line per place.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is not a tar archive, or is damaged (the message names file, byte and member); no sample has
            a field. While reading: a field is missing, or has the wrong type.
        OSError: a file cannot be read; or, while reading, one changed.

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
        leaves_out(on_error)
        self.on_missing = checked_on_missing(on_missing)
        self.lists = checked_lists(lists)
        self.on_error = on_error
        self.concatenated = bool(concatenated)
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self.cache_folder = None if cache_folder is None else local("cache_folder", cache_folder)
        self.cache_bytes = None if cache_bytes is None else checked_number("cache_bytes", cache_bytes)
        self._open()

    def _open(self) -> None:
        core, names, damages, samples, sizes = _core.tar_dataset(
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
            # Fix the fields that were found, so that unpickling does not depend on what the first sample has by then.
            self.fields = dict.fromkeys(names[2:], "bytes")
        self.damages = damages
        self._set_blocks(sizes)
        if self._listing is not None:
            self._listing.compare(samples)
            # Compare only once: after unpickling there is no list any more, only the archives.
            self._listing = None
        kinds = kinds_of(self.fields, self.on_missing, self.lists, [dtype for _, dtype, _ in core.fields])
        self._set_core(core, {name: number for number, name in enumerate(names)}, kinds, images_of(self.fields))

    def _source_paths(self) -> list[str]:
        return list(self.urls)

    def _shown(self) -> str:
        urls = repr(self.urls[0]) if len(self.urls) == 1 else f"[{self.urls[0]!r}, ... {len(self.urls)} in all]"
        return f"{urls}, {self.fields}"


def checked_on_missing(on_missing: str) -> str:
    """Return `on_missing` if it is valid.

    Raises:
        ValueError: it is not.
    """
    if on_missing not in ("error", "skip", "none"):
        raise ValueError(f"on_missing: expected 'error', 'skip' or 'none', but got {on_missing!r}")
    return on_missing


def checked_fields(fields: Mapping[str, TarField] | None) -> dict[str, TarField] | None:
    """Return a copy of `fields`.

    Raises:
        ValueError: a name is not an extension, or a type is unknown.
    """
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
    """Return the types that the core reads for these fields."""
    return None if fields is None else [(name, _FIELDS[_key(field)][0]) for name, field in fields.items()]


def kinds_of(fields: Mapping[str, TarField], on_missing: str, lists: Lists, dtypes: Sequence[str]) -> list[Kind]:
    """Return the Python kinds of key, archive and these fields, given the data types of all of them."""
    kinds: list[Kind] = ["path", "path"]
    for (name, field), dtype in zip(fields.items(), dtypes[2:], strict=True):
        kind = _FIELDS[_key(field)][1]
        if on_missing == "none":
            kinds.append(("optional", kind))
        else:
            kinds.append(list_kind(lists, dtype, f"`{name}`") if kind == "ragged" else kind)
    return kinds


def images_of(fields: Mapping[str, TarField]) -> dict[int, ImageField]:
    """Return the image fields, by their index after key and archive."""
    images = ((number, image_field(field)) for number, field in enumerate(fields.values(), 2))
    return {number: image for number, image in images if image is not None}


def _key(field: Any) -> Any:
    """Return `field` as a hashable key for lookup."""
    if isinstance(field, ImageField):
        return "image"
    if isinstance(field, list):
        return tuple(field) if all(isinstance(item, str) for item in field) else object()
    return field if field is None or isinstance(field, (str, type)) else object()
