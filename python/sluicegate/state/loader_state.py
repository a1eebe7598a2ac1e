"""`LoaderState`: the content of a loader's `state_dict`, between reading and writing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .place_state import Fetching
from .sampler_place import SamplerPlace


class LeftOutRanges(NamedTuple):
    """Ranges that are left out: batches as (epoch, start, stop), and samples as (start, stop)."""

    batches: Sequence[Sequence[int]] = ()
    samples: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class LoaderState:
    """Where the consumer of a loader is. The default is the start of epoch 0.

    Attributes:
        fingerprint: what determines the order of the loader.
        epoch: the running epoch if `in_epoch`, otherwise the next one.
        batches_received: of the epoch, without a gap, from the first one on.
        received_ahead: the ranges of batches received beyond these, as (start, stop).
        position: how far all ranks are in the order: samples, or batches if it consists of batches.
        drawn: True if something of the epoch was requested.
        finished: True if the epoch before `epoch` was read to its end.
        in_epoch: True if an iterator of the epoch exists.
        epoch_told: the epoch that was set last before it; None if none was set.
        left_out: batches and samples that are skipped.
        layout: (batch_size, ranks) if numbers of batches matter, which mean the same only there; with the rank, if
            batches were received ahead.
        draws: the generators before the first draw of the epoch, as text by name.
        rng: the global generators, as text by library; None with a seed, and for one rank of many.
        sampler: where a stateful sampler is; None if it has no state.
        sampler_is_over: True if `sampler` is where the previous epoch ended.
        num_workers: the argument of the loader.
        order: the state of a generator from which the order is drawn instead of from the sampler's.
        requests_drawn: the number of requests made of a user-defined sampler, including one that found its end, if
            these may have drawn.
        requests_ahead: of these, those that were not received; empty if they are not lists of integers, or integers.
        requests_checksum: of those received; None if it is not known.
        base_seed: the seed of the workers; None if there is none to keep.
        begins_iterator: True if a seed of workers is drawn before the order.
        fetching: the kind of fetching, and its position.
        replay: the number of batches to read and drop, for states of torchdata.
        is_at_end: True if the consumer has had the last batch, but has not seen the end.
        rng_of_loop: the global generators of a training loop that was a batch behind.
    """

    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    batches_received: int = 0
    received_ahead: Sequence[Sequence[int]] = ()
    position: int = 0
    drawn: bool = False
    finished: bool = False
    in_epoch: bool = False
    epoch_told: int | None = None
    left_out: LeftOutRanges = field(default_factory=LeftOutRanges)
    layout: Sequence[int | None] | None = None
    draws: Mapping[str, str] | None = None
    rng: Mapping[str, str] | None = None
    sampler: SamplerPlace | None = None
    sampler_is_over: bool = False
    num_workers: int = 0
    order: str | None = None
    requests_drawn: int | None = None
    requests_ahead: Sequence[Any] = ()
    requests_checksum: int | None = None
    base_seed: int | None = None
    begins_iterator: bool = True
    fetching: Fetching = field(default_factory=Fetching)
    replay: int = 0
    is_at_end: bool = False
    rng_of_loop: Mapping[str, str] | None = None

    def unbegun(self, epoch: int) -> LoaderState:
        """Return the state before `epoch` of the same loader."""
        return dataclasses.replace(
            LoaderState(self.fingerprint, epoch),
            epoch_told=self.epoch_told,
            left_out=self.left_out,
            layout=self.layout,
            draws=self.draws,
            rng=self.rng,
            num_workers=self.num_workers,
            base_seed=self.base_seed,
            begins_iterator=self.begins_iterator,
        )
