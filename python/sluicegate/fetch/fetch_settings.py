"""`FetchSettings`: how a fetcher makes batches."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple


class FetchSettings(NamedTuple):
    """How a fetcher makes batches of samples, which is the same for every epoch.

    Attributes:
        auto_collation: True if a request is a batch of indices; False if it is the index of one ready-made batch.
        collate_fn: makes a batch of the samples.
        sampler: the name of the sampler that the requests come from, for messages.
        sample_id: what identifies a sample: a function of it, or the name or position of a field.
        drop_last: True if a stream's last batch is left out if it is smaller.
        run: for a stream that the core reads, how many consecutive samples belong to one worker.
        reads_heads: True if the first transforms of image files may run in Rust: on a thread that alone draws from
            torch's default generator.
    """

    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    sampler: str
    sample_id: Any = None
    drop_last: bool = False
    run: int = 1
    reads_heads: bool = False

    @property
    def identify(self) -> Callable[[Any], Any] | None:
        """A function that returns what identifies a sample; None if nothing was named."""
        sample_id = self.sample_id
        return sample_id if sample_id is None or callable(sample_id) else operator.itemgetter(sample_id)
