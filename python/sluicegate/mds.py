"""`MdsDataset`: folders as MosaicML's Streaming writes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from . import _core
from .blocks import DecodedDataset
from .checked_number import checked_number
from .field_types import KINDS
from .image_field import ImageFieldLike, checked_images, image_numbers
from .native_dataset import Kind, leaves_out, native_format
from .paths import Paths, expand, listed, local

# What was unpacked is kept up to this size.
_CACHE_BYTES = 256 << 20


@native_format
class MdsDataset(DecodedDataset):
    """The samples of a folder in MDS, MosaicML Streaming's format: a dict of the columns of each.

    The folder has `index.json` (version 2) and the shards that it names, raw or compressed with zstd; what was unpacked
    is kept as long as there is room for it. To shuffle compressed shards that are larger than `cache_bytes`, take
    `BlockShuffleSampler(dataset, window=...)` with a window that fits: each shard is then unpacked once an epoch
    (`cache_info` says how it went, and what to reckon with). Streaming is not needed. Encodings: `int`, `str_int` and
    `str_float` are numbers; `int8` to `uint64` and `float16` to `float64` tensors, but those of int64 and float64
    Python's numbers; `str` and `str_decimal` `str`; `bytes`, `jpeg` and `png` `bytes`; `json` what the text stands for,
    in batches as those of `JsonLinesDataset`. An `ndarray` of fixed shape is a tensor; of one without, data type and
    all axes but the first are those of the first sample, and a batch is `{"values", "offsets"}`. Pickles (`pkl`)
    are never loaded: name the other columns.

    A map-style dataset as any other, under torch's own loader too (`collate_fn=dataset.collate` for arrays of any
    length). It can be pickled: the arguments travel. Threads may share it.

    Args:
        folder: where `index.json` is; or several folders of equal columns, whose samples follow one another: a list of
            them, a glob or a range in braces.
        fields: the names of the columns that make up a sample, in this order; all by default. Or a dict that says of
            each whether it is an image: `{"image": "image", "label": None}`, or an `ImageField`.
        cache_bytes: how many bytes of unpacked shards are kept, of each folder; 256 MiB by default.
        on_error: "raise", or "skip": samples that are damaged are left out when the dataset is opened, and count for
            nothing: `len`, indices, ids and batches are those of what is left. Of a compressed shard that can't be
            unpacked these are all, of a raw one that was cut those that are gone; and those with an image that can't be
            decoded. Every sample is read once for that; for 4 MiB and more the result is kept in a file, and used as
            long as the shards are the same.
        index_folder: where it is kept, instead of beside the first shard (or in the user's cache folder, where that
            can't be).

    Attributes:
        block_sizes: the number of samples in each shard: what `BlockShuffleSampler` goes by.
        block_size: that of most shards.
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000 of each folder.

    Raises:
        FileNotFoundError: there is no index, or no such shard.
        ValueError: the index is not one of MDS or names files outside of the folder; there is no such column, it can't
            be read, or it is another in another folder; a shard has another size than the index says, or, while
            reading, is damaged.
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import json, struct, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> shard = struct.pack("<4I", 2, 16, 24, 32) + struct.pack("<2q", 5, 6)
        >>> with open(f"{folder}/shard.00000.mds", "wb") as file:
        ...     _ = file.write(shard)
        >>> columns = {"column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8]}
        >>> entry = {**columns, "format": "mds", "version": 2, "samples": 2, "compression": None, "zip_data": None}
        >>> entry["raw_data"] = {"basename": "shard.00000.mds", "bytes": len(shard)}
        >>> with open(f"{folder}/index.json", "w") as file:
        ...     json.dump({"version": 2, "shards": [entry]}, file)
        >>> MdsDataset(folder)[1]
        {'x': 6}
    """

    def __init__(
        self,
        folder: Paths,
        fields: Sequence[str] | Mapping[str, ImageFieldLike | None] | None = None,
        *,
        cache_bytes: int = _CACHE_BYTES,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError(f"fields: expected names of columns, but got {fields!r}")
        self.folders = expand(folder)
        self.fields = None if fields is None else tuple(fields)
        self.images = checked_images(fields if isinstance(fields, Mapping) else {})
        self.cache_bytes = checked_number("cache_bytes", cache_bytes)
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        fields = None if self.fields is None else list(self.fields)
        leave_out = leaves_out(self.on_error)
        parts = [
            _core.Dataset.mds(folder, fields, self.cache_bytes, self.index_folder, leave_out) for folder in self.folders
        ]
        core, contents, *_ = parts[0]
        for folder, part in zip(self.folders, parts, strict=True):
            if (part[0].fields, part[1]) != (core.fields, contents):
                raise ValueError(
                    f"{folder}: its columns are {_in_words(*part[:2])}, but those of the first folder, "
                    f"{self.folders[0]}, are {_in_words(core, contents)}: name fields that are equal in all of them"
                )
        if len(parts) > 1:
            core = _core.Dataset.concat([part for part, *_ in parts])
        self._set_blocks([size for _, _, sizes, _, _ in parts for size in sizes])
        self._caches = [cache for _, _, _, cache, _ in parts]
        self.damages = [line for *_, damages in parts for line in damages]
        structure = {name: number for number, (name, _, _) in enumerate(core.fields)}
        kinds = [_kind(*of) for of in zip(core.fields, contents, strict=True)]
        self._set_core(core, structure, kinds, image_numbers(self.images, structure, kinds))

    def _source_paths(self) -> list[str]:
        files = (entry for folder in self.folders for entry in os.scandir(folder) if entry.is_file())
        return sorted(entry.path for entry in files)

    def _shown(self) -> str:
        return f"{listed(self.folders)}, fields={self.fields!r}"


def _in_words(core: _core.Dataset, contents: Sequence[str]) -> str:
    words = (
        f"{name} {content} {dtype} {shape}" for (name, dtype, shape), content in zip(core.fields, contents, strict=True)
    )
    return ", ".join(words)


def _kind(field: tuple[str, str, list[int]], content: str) -> Kind:
    _, dtype, shape = field
    in_python = "number" if dtype in ("int64", "float64") and not shape else "tensor"
    return KINDS.get(content, in_python)
