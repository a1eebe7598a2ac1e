"""`BlockedDataset`: the base of formats that store samples in blocks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluicegate import _core
from sluicegate.image.field import ImageField
from sluicegate.image.links import NO_LINKS, ImageLinks

from .dataset import Kind, NativeDataset

# The maximum number of lines in `damages`.
_DAMAGES = 1_000


class BlockedDataset(NativeDataset):
    """A native dataset whose samples are stored in consecutive blocks (archives, row groups)."""

    _OPENED = (*NativeDataset._OPENED, "_block_sizes")

    on_error: str
    index_folder: str | None
    damages: list[str]
    _block_sizes: np.ndarray[Any, np.dtype[np.int64]]
    _broken_images: tuple[int, ...] | None = None
    _broken_texts: list[str]

    def _set_core(
        self,
        core: _core.Dataset,
        structure: Any,
        kinds: Sequence[Kind],
        images: Mapping[int, ImageField] | None = None,
        links: ImageLinks = NO_LINKS,
    ) -> None:
        if images and self.on_error == "skip":
            core = self._whole_images(core, kinds, images, links)
        super()._set_core(core, structure, kinds, images, links)

    def _whole_images(
        self, core: _core.Dataset, kinds: Sequence[Kind], images: Mapping[int, ImageField], links: ImageLinks
    ) -> _core.Dataset:
        """Return the samples of `core` whose images can be decoded, and update `damages` and the block sizes."""
        if self._broken_images is None:
            # Pickled with the dataset, so that workers do not decode all images again.
            fields = [
                (field, image.decoder, int(isinstance(kinds[field], tuple))) for field, image in sorted(images.items())
            ]
            broken, damages = _core.broken_images(
                core,
                fields,
                self._source_paths(),
                self._arguments_in_words(),
                self.index_folder,
                links.core(),
            )
            self._broken_images = tuple(broken)
            self._broken_texts = damages
        self.damages = [*self.damages, *self._broken_texts][:_DAMAGES]
        if not self._broken_images:
            return core
        broken_indices = np.array(self._broken_images, np.int64)
        ends = np.concatenate([[0], np.cumsum(self._block_sizes)])
        self._set_blocks(self._block_sizes - np.diff(np.searchsorted(broken_indices, ends)))
        kept = np.delete(np.arange(len(core)), broken_indices)
        whole = _core.Dataset.subset(core, kept.tolist())
        assert whole is not None
        return whole

    def _arguments_in_words(self) -> str:
        """Return a description of the arguments that may determine the samples."""
        arguments = inspect.signature(type(self)).parameters
        values = {name: getattr(self, name, None) for name in arguments}
        return repr({name: list(value) if isinstance(value, Mapping) else value for name, value in values.items()})

    def _source_paths(self) -> list[str]:
        """Return the files that contain the samples."""
        raise NotImplementedError

    def _set_blocks(self, sizes: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._block_sizes = np.array(sizes, np.int64)
        self._block_sizes.flags.writeable = False

    @property
    def block_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of samples in each block, int64, read-only; used by `BlockShuffleSampler`.

        Blocks are row groups in Parquet, with the rows that a filter keeps; record batches in Arrow; shards in MDS;
        archives in tar, with the samples that `on_missing="skip"` keeps; chunks, or rows of them, in Zarr.
        """
        return self._block_sizes

    @property
    def block_size(self) -> int:
        """The most common number of samples in a block; at least 1."""
        sizes, counts = np.unique(self.block_sizes[self.block_sizes > 0], return_counts=True)
        return int(sizes[counts == counts.max()].max()) if len(sizes) else 1


class CacheInfo(NamedTuple):
    """The activity and content of a dataset's cache of decoded blocks in this process.

    Attributes:
        decoded: how many times a whole block was decoded, or, if it needs no decoding, looked up.
        decoded_in_part: how many times only a part of a block was decoded, which is not cached: pages of a row group.
        found: how many times a batch found a block in the cache.
        blocks: the number of cached blocks.
        bytes: their size in memory.
        limit: the size limit of the cache in bytes.
    """

    decoded: int
    decoded_in_part: int
    found: int
    blocks: int
    bytes: int
    limit: int


class DecodedDataset(BlockedDataset):
    """A native dataset whose blocks are decoded as a whole, and cached while there is room."""

    _OPENED = (*BlockedDataset._OPENED, "_caches")

    _caches: list[_core.BlockCache]

    def cache_info(self) -> CacheInfo:
        """Return how many blocks were decoded, found and cached: shows if `cache_bytes` is enough for a window.

        Blocks whose samples were all read are evicted first, then the least recently read. So with
        `BlockShuffleSampler(dataset, window=...)` each block is decoded once per epoch if the cache has room for the
        blocks of any one window. If batches are read ahead (`num_workers`), or only a part of each block is read
        (`shard`), blocks of two adjacent windows may be needed at once: room for two is enough as long as less than a
        window is read ahead. With less room than one window, blocks are decoded again and again.

        The cache belongs to this process. Threads share it: those with which the loader reads this dataset, and those
        of `worker_type="thread"`. Worker processes (another collate function, a wrapping dataset, torch's loader) have
        one each, and each decodes every block that its batches have samples of: N workers decode N times as much.
        """
        infos = [cache.info() for cache in self._caches]
        return CacheInfo(*map(sum, zip(*infos, strict=True)))
