"""`shard_iterable`: give every rank and every worker its own part of one stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch.utils.data import IterableDataset

from .consumer import Consumer
from .native import refuse_continued
from .reader import StreamReader
from .resumable import ResumableIterator, ResumableStream
from .self_splitting import in_words, name_of, share_of
from .whole import Split, is_reading_whole, reading_whole

_T_co = TypeVar("_T_co", covariant=True)

# The number of samples between two snapshots of the stream's state, and the most that a resume reads again.
_BETWEEN_SNAPSHOTS = 64


def shard_iterable(iterable: Iterable[_T_co], *, shard: tuple[int, int] | None = None) -> IterableDataset[_T_co]:
    """Give every rank and every worker its own part of `iterable`: together they read each sample exactly once.

    With R ranks of W workers each, sample i goes to rank i % R and there to worker (i // R) % W. So the samples of a
    rank do not depend on its number of workers, and two ranks, or two workers of one rank, differ by at most one sample
    (if ranks must take equally many steps, end the epoch with the shortest of them). Every consumer reads the whole
    stream and skips the samples it does not own; if a stream can be split at its source (by files, for example), do
    that instead.

    The consumer is determined when an iteration begins: from `torch.utils.data.get_worker_info()`, in worker processes
    and worker threads, and from `torch.distributed` if it is initialized. All consumers must get the same samples in
    the same order: a `ShuffleBuffer` inside needs a seed, and gives all of them one order; a `ShuffleBuffer` around
    this shuffles each part separately, and needs none.

    A stream that splits itself is split once. `datasets.IterableDataset` and `webdataset.WebDataset` split themselves
    among workers (and among ranks after `split_dataset_by_node`, or with `nodesplitter=split_by_node`), by their own
    shards, so that workers do not read each other's samples; only the rest of the split is done here. Any other stream
    that asks for its worker (`get_worker_info`) or its rank (`torch.distributed.get_rank`) while it is read finds no
    other reader, so it yields all of its samples, and is split here; if it asks for its rank, a warning says so. A
    split based on numbers that the stream got earlier, in another thread, or from environment variables cannot be
    detected.

    The returned dataset forwards `set_epoch`. It is stateful: its `state_dict` is JSON if the states of `iterable` and
    of its iterator are. If one of these is stateful, at most 64 samples are read again on resuming; otherwise all
    samples read so far are, and a warning says how many.

    Args:
        iterable: the stream, the same for all; `iter` is called once per epoch.
        shard: (rank, world_size) to use instead of those of `torch.distributed`.

    Raises:
        ValueError: the shard is invalid; `iterable` has `continues=True` and can be read only once. While iterating: a
            state of another rank or worker, a `shard` inside another, or a stream of `datasets` or `webdataset` that
            was split for another rank, is chained to others, or is read by several worker threads.
        RuntimeError: while iterating after a resume: the stream is shorter than it was.

    Examples:
        >>> from sluicegate import DataLoader
        >>> list(shard_iterable(range(7), shard=(0, 2))), list(shard_iterable(range(7), shard=(1, 2)))
        ([0, 2, 4, 6], [1, 3, 5])
        >>> sorted(DataLoader(shard_iterable(range(7)), batch_size=None, num_workers=2))
        [0, 1, 2, 3, 4, 5, 6]
    """
    refuse_continued("shard_iterable", iterable)
    return ShardedIterable(iterable, shard)


class ShardedIterable(ResumableStream[_T_co]):
    """The dataset that `shard_iterable` returns."""

    def __repr__(self) -> str:
        """Return the stream, marked as iterated in Python."""
        return f"{type(self).__name__}({in_words(self.iterable)}, iterated in Python)"

    def _arguments(self) -> dict[str, Any]:
        return {}

    def _begin(
        self,
        place: Any,
        consumer: Consumer,
        epoch: int,
        loaded: dict[str, Any] | None,
        previous: StreamReader | None,
    ) -> ResumableIterator[_T_co]:
        if is_reading_whole() and self.shard is not None and self.shard[1] > 1:
            raise ValueError(
                "shard_iterable: the stream would be split twice, because a shard_iterable inside another has "
                f"shard={self.shard}; pass shard= to the outer one, or remove one of them"
            )
        share = share_of(self.iterable, consumer)
        # Also for the only worker of a rank: it has its own seed, but the ranks must read the same order.
        hides_worker = share.total > 1 and share.num_workers == consumer.num_workers
        start = loaded or self._start(epoch, None, consumer)
        return _ShardedIterator(self.iterable, share, hides_worker, start, previous, self._reader_of(loaded))


class _ShardedIterator(ResumableIterator[_T_co]):
    """One consumer's part of one epoch, from `state` on; `share` says which part of what the iterable yields here."""

    def __init__(
        self,
        iterable: Iterable[_T_co],
        share: Consumer,
        hides_worker: bool,
        state: dict[str, Any],
        previous: StreamReader | None,
        number: int | None,
    ) -> None:
        self._fixed = {name: state[name] for name in ("epoch", "consumer")}
        self._share = share
        split = Split(name_of(iterable), share.world_size, share.num_workers, hides_worker)
        self._whole = reading_whole(split)
        with self._whole:
            self.reader = StreamReader(iterable, _BETWEEN_SNAPSHOTS, state["inner"], previous, number)
        # Samples of other consumers are skipped without decoding.
        self.images = self.reader.take_images()
        # The position to reach before the first sample.
        self._resume = state if state["read"] or state["ended"] else None

    def __next__(self) -> _T_co:
        return self._finished(self._next_own)  # type: ignore[no-any-return]

    def _next_own(self) -> Any:
        # For every sample, because a stream may look up its reader when it begins, with its first sample, or later.
        with self._whole:
            if self._resume is not None:
                self._read_again(self._resume)
            return self._next()

    def _next(self) -> Any:
        reader, number, total = self.reader, self._share.number, self._share.total
        while not reader.ended:
            ordinal = reader.read
            if ordinal == reader.next_snapshot:
                reader.take_snapshot(ordinal)
            sample = next(reader)
            if ordinal % total == number:
                return sample
        raise StopIteration

    def _read_again(self, state: dict[str, Any]) -> None:
        reader, read = self.reader, state["read"]
        if reader.is_stateful:
            reader.read_to(read, state["ended"])
        elif state["ended"]:
            reader.read, reader.ended = read, True
        else:
            if reader.read == 0:
                warnings.warn(
                    f"shard_iterable: the {type(reader.iterable).__name__} has no state_dict and load_state_dict, so "
                    f"resuming reads its first {read} samples again and drops them; give it these two methods to "
                    "resume directly",
                    UserWarning,
                    stacklevel=4,
                )
            reader.read_to(read, ended=False)
        self._resume = None

    def leave(self) -> None:
        """Notify the iterator that the next epoch begins."""
        # A stateful stream must reach the point where the last epoch was left or ended before the next one begins.
        if self._resume is not None and self.reader.is_stateful:
            with self._whole:
                self._read_again(self._resume)

    def frozen(self, fixed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Return a function that makes a state of `fixed` and the current position, also later."""
        reader, resumed = self.reader, self._resume
        if resumed is not None:
            position = {name: resumed[name] for name in ("read", "ended", "inner")}
        else:
            position = {"read": reader.read, "ended": reader.ended, "inner": reader.snapshot_for(reader.read)}
        state = {**fixed, **self._fixed, **position}
        return lambda: state
