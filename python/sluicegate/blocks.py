"""`BlockedDataset`: what the formats have in common that store samples in blocks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .image_field import ImageField
from .image_links import NO_LINKS, ImageLinks
from .native_dataset import Kind, NativeDataset

# So many lines say what was left out.
_DAMAGES = 1_000


class BlockedDataset(NativeDataset):
    """A native dataset whose samples lie in blocks (archives, row groups), one behind the other."""

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
        """The samples of `core` whose images can be decoded; `damages` and the blocks follow."""
        if self._broken_images is None:
            # It travels with a pickled dataset: images are not all decoded again by every worker.
            fields = [
                (field, image.decoder, int(isinstance(kinds[field], tuple))) for field, image in sorted(images.items())
            ]
            broken, damages = _core.broken_images(
                core,
                fields,
                self._source_paths(),
                self._which_samples(),
                self.index_folder,
                links.core(),
            )
            self._broken_images = tuple(broken)
            self._broken_texts = damages
        self.damages = [*self.damages, *self._broken_texts][:_DAMAGES]
        if not self._broken_images:
            return core
        broken_places = np.array(self._broken_images, np.int64)
        ends = np.concatenate([[0], np.cumsum(self._block_sizes)])
        self._set_blocks(self._block_sizes - np.diff(np.searchsorted(broken_places, ends)))
        kept = np.delete(np.arange(len(core)), broken_places)
        whole = _core.Dataset.subset(core, kept.tolist())
        assert whole is not None
        return whole

    def _which_samples(self) -> str:
        """The arguments that may say which samples there are, in words."""
        arguments = inspect.signature(type(self)).parameters
        values = {name: getattr(self, name, None) for name in arguments}
        return repr({name: list(value) if isinstance(value, Mapping) else value for name, value in values.items()})

    def _source_paths(self) -> list[str]:
        """The files that the samples lie in."""
        raise NotImplementedError

    def _set_blocks(self, sizes: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._block_sizes = np.array(sizes, np.int64)
        self._block_sizes.flags.writeable = False

    @property
    def block_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of samples in each block, int64, read-only: what `BlockShuffleSampler` goes by.

        Blocks are row groups in Parquet, with the rows that a filter leaves; record batches in Arrow; shards in MDS;
        archives in tar, with the samples that `on_missing="skip"` leaves.
        """
        return self._block_sizes

    @property
    def block_size(self) -> int:
        """The number of samples that most blocks have; at least 1."""
        sizes, counts = np.unique(self._block_sizes[self._block_sizes > 0], return_counts=True)
        return int(sizes[counts == counts.max()].max()) if len(sizes) else 1


class CacheInfo(NamedTuple):
    """What a dataset's cache of decoded blocks has done in this process, and what it holds.

    Attributes:
        decoded: how many times a block was decoded as a whole; of what needs no decoding, looked up.
        decoded_in_part: how many times only a part of one was, which is not kept: the pages of a row group.
        found: how many times a batch found a block there.
        blocks: how many blocks it holds.
        bytes: their size in memory.
        limit: how many bytes it may hold.
    """

    decoded: int
    decoded_in_part: int
    found: int
    blocks: int
    bytes: int
    limit: int


class DecodedDataset(BlockedDataset):
    """A native dataset whose blocks are decoded as a whole, and kept as long as there is room for them."""

    _OPENED = (*BlockedDataset._OPENED, "_caches")

    _caches: list[_core.BlockCache]

    def cache_info(self) -> CacheInfo:
        """How many blocks were decoded and found, and what is kept: whether `cache_bytes` is enough for a window.

        A block of which all samples were read goes first from the cache, then the one that was not read for the
        longest. So with `BlockShuffleSampler(dataset, window=...)` each block is decoded once an epoch where the cache
        has room for the blocks of any one window. Where batches are read ahead (`num_workers`), or only a part of each
        block is (`shard`), some of two neighbouring windows are wanted at a time: room for two is enough as long as
        what is read ahead is less than a window. With less room than one, blocks are decoded again and again.

        It is this process's cache. Threads share it: those that the loader reads this dataset with, and those of
        `worker_type="thread"`. Worker processes (another collate function, a dataset around this one, torch's loader)
        have one each, and each decodes every block that its batches have samples of: N workers decode N times as much.
        """
        infos = [cache.info() for cache in self._caches]
        return CacheInfo(*map(sum, zip(*infos, strict=True)))
