"""`PackedBatchSampler`: batches of rows into which documents are packed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.packing import DocumentPieces, PackCollate, decoded

from .class_index import described, integers
from .core_batch import positive
from .lengths_batch import LengthsBatchSampler

STRATEGIES = ("concat", "first_fit", "best_fit")


class PackedBatchSampler(LengthsBatchSampler):
    """Batches of rows of `length` tokens, into which documents are packed. Every token comes once per epoch.

    It yields indices of `pieces(documents)`, a dataset over your documents, and `collate` makes the batch from those:

        loader = DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate)

    Rows of a `TokenDocumentsDataset`, and of native datasets whose samples are mappings, are made in Rust, on threads
    if there are workers.

    - `"concat"`: documents follow one another, and what does not fit into a row continues in the next. Only the end of
      the last row is padding.
    - `"first_fit"`: each document goes into the first row that has room for it.
    - `"best_fit"`: the longest first, each into the row that it fills best: hardly any padding.

    The two fits cut only documents that are longer than a row: into pieces of `length` tokens from the start, and the
    remainder. Documents without tokens are in no row. Full rows come in random order, so that all batches have nearly
    the same number of tokens, and with the loader's `shard` every rank gets the same number of batches.

    Batches are a function of (seed, epoch, batch number), like those of `LengthBucketBatchSampler`, and resume in the
    same way. An epoch is prepared when it begins: the fits take about 400 ns and 4 bytes per document.

    Args:
        lengths: the number of tokens of each document: a list, array or tensor of integers, such as
            `TokenDocumentsDataset.lengths`.
        length: tokens in a row.
        rows_per_batch: rows in a batch, which has `length * rows_per_batch` tokens, including padding. Default 1.
        strategy: how documents are packed into rows, see above. Default `"best_fit"`.
        shuffle: False for the same rows in every epoch, packed from the documents in their order. Default True.
        window: documents that the fits pack together; a larger window gives less padding. Default 65,536.
        drop_last: True to drop the last batch if it has fewer rows, or if its last row is not full under `"concat"`.
            Default False.
        seed: an integer from 0 to 2**64 - 1; the batches are a function of it and the epoch (`set_epoch`). Default
            None: drawn at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.

    Raises:
        ValueError: an unknown strategy, a number that is not positive, a negative length (the message names the
            document), or `seed` is out of range.
        TypeError: lengths are not integers. From `len`: a fit that is shuffled without a seed.

    Examples:
        >>> from sluicegate import DataLoader
        >>> documents = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10], [11]]
        >>> sampler = PackedBatchSampler([5, 2, 3, 1], length=6, rows_per_batch=2, seed=7)
        >>> loader = DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate)
        >>> batch = next(iter(loader))
        >>> batch["input_ids"].shape, int(batch["input_ids"].sum()), round(sampler.padding_share(), 3)
        (torch.Size([2, 6]), 66, 0.083)
    """

    def __init__(
        self,
        lengths: Any,
        *,
        length: int,
        rows_per_batch: int = 1,
        strategy: str = "best_fit",
        shuffle: bool = True,
        window: int = 1 << 16,
        drop_last: bool = False,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(seed, generator)
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy should be one of {', '.join(map(repr, STRATEGIES))}, but got {strategy!r}")
        self.lengths = integers("lengths", lengths)
        self.length = positive("length", length)
        self.rows_per_batch = positive("rows_per_batch", rows_per_batch)
        self.strategy = strategy
        self.shuffle = bool(shuffle)
        self.window = positive("window", window)
        self.drop_last = bool(drop_last)
        self._make(0)  # To raise the core's argument errors now.

    @property
    def collate(self) -> PackCollate:
        """The collate function for these batches; `PackCollate` has more options."""
        return PackCollate(self.length)

    def pieces(self, documents: Any, fields: Iterable[str] = ()) -> DocumentPieces:
        """Return the dataset that the indices refer to: pieces of `documents`.

        Args:
            documents: each a one-dimensional sequence of tokens, or a mapping with `input_ids` and optionally `labels`,
                which are packed next to the tokens.
            fields: other fields of a mapping to pack, such as loss weights: one value, or row of values, for each
                token. Default: none; the other fields of a mapping are omitted.

        Raises:
            ValueError: `fields` are given for documents that are not mappings, or a field has a name that a batch uses
                itself.
        """
        return DocumentPieces(documents, self.lengths, self.length, fields)

    def padding_share(self, epoch: int | None = None, seed: int | None = None) -> float:
        """Return the share of padding in all rows, from 0 to 1.

        Args:
            epoch: which epoch. Default: the current one.
            seed: the loader's seed, used if the sampler has none.

        Raises:
            ValueError: the epoch is shuffled, and neither has a seed.
        """
        batches = self.batches(self.epoch if epoch is None else epoch, seed)
        lengths = np.asarray(self.lengths, dtype=np.int64)
        # All batches except the last have all their rows, and unless one is dropped, all tokens are in some row.
        rows, tokens = self.rows_per_batch * len(batches), int(lengths.sum())
        if not self.drop_last and len(batches):
            _, _, begins_row = self._decoded(batches, len(batches) - 1)
            rows += int(begins_row.sum()) - self.rows_per_batch
        elif self.strategy == "concat":
            return 0.0
        else:
            pieces = (self._decoded(batches, number) for number in range(len(batches)))
            tokens = sum(int(np.minimum(lengths[which] - start, self.length).sum()) for which, start, _ in pieces)
        return 1.0 - tokens / (rows * self.length) if rows else 0.0

    def _decoded(self, batches: _core.Batches, number: int) -> tuple[Any, Any, Any]:
        return decoded(np.frombuffer(batches.indices(number), np.int64), len(self.lengths))

    def _make(self, seed: int) -> _core.BatchingSampler:
        return _core.packed_batch_sampler(
            described(self.lengths),
            self.length,
            self.rows_per_batch,
            self.strategy,
            self.window,
            self.drop_last,
            seed if self.shuffle else None,
        )

    _UNKNOWN = "the number of rows depends on the order of the documents"

    def _known_len(self) -> int | None:
        if self.strategy != "concat":
            return None
        full, rest = divmod(int(self.lengths.sum(dtype=np.int64)), self.length * self.rows_per_batch)
        return full + (rest > 0 and not self.drop_last)
