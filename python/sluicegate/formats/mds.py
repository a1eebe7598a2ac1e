"""`MdsDataset`: folders written by MosaicML Streaming."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.image.named_fields import ImageFieldLike, checked_images, image_numbers
from sluicegate.native.blocks import DecodedDataset
from sluicegate.native.dataset import Kind, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .field_types import KINDS

# Default limit of the cache of decompressed shards.
_CACHE_BYTES = 256 << 20


@native_format
class MdsDataset(DecodedDataset):
    """The samples of a folder in MDS, MosaicML Streaming's format; each is a dict of column values.

    The folder has `index.json` (version 2) and the shards that it names, raw or compressed with zstd. Decompressed
    shards are cached while there is room. To shuffle compressed shards that are larger than `cache_bytes`, use
    `BlockShuffleSampler(dataset, window=...)` with a window that fits: each shard is then decompressed once per epoch
    (`cache_info` reports the hits and what to expect). Streaming is not needed. Encodings:

    - `int`, `str_int` and `str_float`: numbers;
    - `int8` to `uint64` and `float16` to `float64`: tensors, except that int64 and float64 are Python numbers;
    - `str` and `str_decimal`: `str`;
    - `bytes`, `jpeg` and `png`: `bytes`;
    - `json`: the parsed value; batches are as in `JsonLinesDataset`;
    - `ndarray`: a tensor if the shape is fixed. Otherwise the data type and all axes except the first are those of the
      first sample, and a batch is `{"values", "offsets"}`.
    - `pkl`: pickles are never loaded; name the other columns.

    A map-style dataset that also works under torch's own loader (`collate_fn=dataset.collate` for variable-length
    arrays). It can be pickled: only the arguments are. It is thread-safe. Source: the description of the format
    in the documentation of Streaming.

    Args:
        folder: the folder of `index.json`; or several folders with equal columns, which are concatenated: a list, a
            glob or a brace range.
        fields: the names of the columns that make up a sample, in this order. Default: all. Or a dict that says which
            are images: `{"image": "image", "label": None}`, or an `ImageField`.
        cache_bytes: size limit of the cache of decompressed shards, in bytes per folder; 256 MiB by default.
        on_error: "raise", or "skip": damaged samples are excluded when the dataset is opened, from `len`, indices, ids
            and batches. These are all samples of a compressed shard that cannot be decompressed, the missing samples of
            a truncated raw shard, and samples with an image that cannot be decoded. This needs one pass over all
            samples; for 4 MiB or more the result is saved in a file and reused while the shards are unchanged.
        index_folder: where that file is saved. Default: next to the first shard, or in the user's cache folder if that
            is not writable.

    Attributes:
        block_sizes: the number of samples in each shard; used by `BlockShuffleSampler`.
        block_size: the most common block size.
        damages: what `on_error="skip"` left out, one line per place; the first 1,000 of each folder.

    Raises:
        FileNotFoundError: the index or a shard does not exist.
        ValueError: the index is not an MDS index, or names files outside of the folder; a column does not exist, cannot
            be read, or differs between folders; the size of a shard differs from the index, or, while reading, a shard
            is damaged.
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
            _core.mds_dataset(folder, fields, self.cache_bytes, self.index_folder, leave_out) for folder in self.folders
        ]
        core, contents, *_ = parts[0]
        for folder, part in zip(self.folders, parts, strict=True):
            if (part[0].fields, part[1]) != (core.fields, contents):
                raise ValueError(
                    f"{folder}: expected the columns of the first folder, {self.folders[0]}, which are "
                    f"{_in_words(core, contents)}, but got {_in_words(*part[:2])}; pass fields= with columns that are "
                    "equal in all folders"
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
