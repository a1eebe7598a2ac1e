"""`PreparedLoader`: our loader in a training loop of Accelerate's."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState

from sluicegate import _torch
from sluicegate.loader.dataloader import DataLoader
from sluicegate.loader.explanation import readable
from sluicegate.loader_state.saved_form import saved
from sluicegate.order import draws
from sluicegate.order.epoch_progress import EpochProgress
from sluicegate.order.ids import BatchIds
from sluicegate.order.plan import planned_len
from sluicegate.order.settings import LoaderSettings
from sluicegate.order.torch_order import is_known
from sluicegate.rng.global_generators import global_state, set_global_state
from sluicegate.state.loader_state import LoaderState

from .process_batches import ProcessBatches

_T_co = TypeVar("_T_co", covariant=True)


class EpochEnd(DataLoaderStateMixin):  # type: ignore[misc]
    """What Accelerate's `GradientState` reads from a loader that is iterated over.

    It is separate from the loader because `remainder` is an argument of our loaders, with another meaning.

    Attributes:
        end_of_dataloader: True while the last batch of the epoch is in the training loop.
        remainder: how many samples the last step of all processes has before it is padded; 0 if `gather_for_metrics`
            must cut nothing off, -1 if it is unknown.
        valid: for each sample of this process's last batch, False if it only pads the batch; None if `remainder` is
            enough, because batches are divided as Accelerate divides them, or if the samples are unknown.
    """

    # The loader sets the remainder: Accelerate would compute it from the length of the dataset, which is wrong if the
    # sampler yields another number of samples.
    _drop_last = True
    valid: npt.NDArray[np.bool_] | None = None

    @property
    def gradient_state(self) -> Any:
        """Accelerate's state, which all objects share; it is not an attribute because it can't be pickled."""
        return GradientState()


class PreparedLoader(DataLoader[_T_co]):
    """A `DataLoader` as `prepare` returns it: this process's part of every epoch, on its device.

    Accelerate reads one batch ahead to recognize the last one. That is done here only where it makes a difference: the
    end of the epoch can't be known before (an iterable dataset, a sampler without a length, `even_batches=False`,
    `skip_samples`), or samples draw from the generators that the training loop draws from, which then alternate as with
    torch's loader. The state does not count the batch that was read ahead until the loop receives it.

    Args:
        dataset: as for `DataLoader`.
        synchronize: called when an epoch begins, to make all processes draw the same order.
        total_batch_size: samples per step of all processes; None if batches differ in size.
        **arguments: the arguments of `DataLoader`.
    """

    def __init__(
        self, dataset: Any, *, synchronize: Callable[[], None], total_batch_size: int | None, **arguments: Any
    ) -> None:
        super().__init__(dataset, **arguments)
        self._synchronize = synchronize
        self.total_batch_size = total_batch_size
        self._end = EpochEnd()
        # The state and the ids of the batch in the loop, if the next one was already read.
        self._held: tuple[LoaderState, BatchIds | None] | None = None
        self._loops = 0

    @property
    def end_of_dataloader(self) -> bool:
        """True while the last batch of the epoch is in the training loop."""
        return bool(self._end.end_of_dataloader)

    @property
    def is_in_loop(self) -> bool:
        """True if a loop over this loader is running."""
        return self._loops > 0

    @property
    def is_left(self) -> bool:
        """True if the last loop was left before the end of its epoch."""
        running = self._loader_progress.running
        is_begun = running is not None and running.is_drawn
        return not self._loops and (is_begun or self.is_ahead)

    @property
    def is_ahead(self) -> bool:
        """True if a batch was read that the training loop has not received."""
        return self._held is not None

    @property
    def total_dataset_length(self) -> int:
        """The length of the dataset, which all processes share."""
        return len(self.dataset)  # type: ignore[arg-type]

    @property
    def batches_per_epoch(self) -> int | None:
        """How many batches this process's next epoch has, skipped ones included; None if it is unknown."""
        ordering = LoaderSettings.of(self).ordering
        if ordering is not None:
            return planned_len(ordering, self._loader_progress.epochs.next)
        try:
            return torch.utils.data.DataLoader.__len__(self)
        except (TypeError, NotImplementedError):
            return None

    @property
    def last_ids(self) -> BatchIds | None:
        """Which samples are in the batch that was received last; None before the first."""
        return super().last_ids if self._held is None else self._held[1]

    def state_dict(self) -> dict[str, Any]:
        """Return where the training loop of this process is: see `DataLoader.state_dict`."""
        if self._held is None:
            return super().state_dict()
        # The samples that are left out may have changed since.
        now, of_loop = self._loader_state(), None if self.seed is not None else global_state()
        held = dataclasses.replace(self._held[0], left_out=now.left_out, layout=now.layout, rng_of_loop=of_loop)
        return saved(copy.deepcopy(held))

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Make the next iterator resume from `state_dict`: see `DataLoader.load_state_dict`."""
        super().load_state_dict(state_dict, strict)
        self._held = None

    def skip_samples(self, indices: Iterable[int]) -> None:
        """Leave the samples at `indices` out of every batch to come: see `DataLoader.skip_samples`.

        Raises:
            ValueError: a loader without a seed on several processes.
        """
        if isinstance(self._index_sampler, ProcessBatches):
            raise ValueError(
                "skip_samples: without a seed, a process whose batch becomes empty would take fewer steps than the "
                "others, which would wait for it forever; pass seed= to the loader, or remove the samples from the "
                "dataset"
            )
        super().skip_samples(indices)

    def __iter__(self) -> Any:
        loader_progress = self._loader_progress
        pending = loader_progress.pending
        is_resumed = pending is not None and pending.in_epoch
        if not is_resumed:  # A resumed epoch was synchronized when it began; its generators have drawn since.
            self._synchronize()
        self.set_epoch(loader_progress.epochs.next)
        if pending is not None and not is_resumed and self.seed is None and pending.draws is None:
            # A position in a checkpoint: the epoch is drawn from the global generators as they are now.
            now = draws.take(LoaderSettings.of(self)).as_text()
            loader_progress.pending = dataclasses.replace(pending, draws=now, rng=global_state())
        outer: Mapping[str, str] | None = None
        if pending is not None and is_resumed and self.seed is None:
            outer = pending.rng_of_loop or global_state()
        self._held = None
        iterator = super().__iter__()
        count, progress = self._known_count(), loader_progress.latest
        if count is None or progress is None or loader_progress.left_out.samples or self._shares_generators_with_loop():
            return self._loop(self._flag_last_by_lookahead(iterator, outer))
        return self._loop(self._flag_last_by_count(iterator, progress, count))

    def _shares_generators_with_loop(self) -> bool:
        """Return True if samples or the sampler may draw from generators that the training loop draws from, too."""
        settings = LoaderSettings.of(self)
        if settings.seed is not None or settings.ordering is not None:
            return False
        batches = self._index_sampler
        batches = batches.sampler if isinstance(batches, ProcessBatches) else batches
        # Torch's `RandomSampler` draws from its own generator at the end, too; from the global one only at first.
        if not is_known(batches) or getattr(batches.sampler, "generator", None) is not None:
            return True
        if settings.num_workers > 0:
            return False
        source = readable(settings)
        return source is None or source.is_random or source.draws_on_delivery

    def _loop(self, batches: Iterator[_T_co]) -> Iterator[_T_co]:
        self._loops += 1
        try:
            yield from batches
        finally:
            self._loops -= 1

    def _known_count(self) -> int | None:
        """Return the number of this process's batches in the running epoch; None if it is unknown before the end."""
        batches = self._index_sampler
        if self._dataset_kind != _torch.DatasetKind.Map:
            return None
        if LoaderSettings.of(self).ordering is not None:
            return 0  # `EpochProgress.is_complete` counts the batches of the plan.
        if isinstance(batches, ProcessBatches) and not batches.even_batches:
            return None  # Accelerate's length is one too large for a process that gets nothing of a split last batch.
        try:
            return len(batches)
        except (TypeError, NotImplementedError):
            return None

    def _flag_last_by_count(self, iterator: Iterator[_T_co], progress: EpochProgress, count: int) -> Iterator[_T_co]:
        """Yield batches; the last one is recognized by its number."""
        self._begin()
        for batch in iterator:
            if self._end.end_of_dataloader:
                raise self._wrong_length(count, "more")
            if progress.is_complete(count):
                self._finish(progress.received.last_ids)
            yield batch
        if not progress.is_complete(count):
            raise self._wrong_length(count, "fewer")
        self._end.end()

    def _wrong_length(self, count: int, has: str) -> RuntimeError:
        return RuntimeError(
            f"prepare: the length of {type(self._index_sampler).__name__} is {count}, but it yielded {has} batches, so "
            "the last one was not reported to Accelerate; correct its __len__"
        )

    def _flag_last_by_lookahead(self, iterator: Iterator[_T_co], outer: Mapping[str, str] | None) -> Iterator[_T_co]:
        """Yield each batch after the next one was read.

        Args:
            iterator: of batches.
            outer: the global generators of the training loop when the state was saved. The next batch had been drawn by
                then, so a resumed epoch draws it from an earlier place, and goes back to this one.
        """
        self._begin()
        batch = next(iterator, _END)
        if outer is not None:
            set_global_state(outer)
        while batch is not _END:
            state, ids = self._loader_state(), super().last_ids
            if self.seed is None and state.rng is None:
                # With several processes, states do not hold the global generators.
                state = dataclasses.replace(state, rng=global_state())
            following = next(iterator, _END)
            self._held = state, ids
            if following is _END:
                self._finish(ids)
            yield batch
            batch = following
        self._held = None
        self._end.end()

    def _begin(self) -> None:
        end = self._end
        end.begin()
        end.valid = None
        end.remainder = self._remainder()

    def _finish(self, last: BatchIds | None) -> None:
        """Report that `last` is the last batch."""
        self._end.end_of_dataloader = True
        if last is not None and not isinstance(self._index_sampler, ProcessBatches):
            self._end.valid = last.valid
        elif last is not None and self._loader_progress.left_out.has_batch(last.epoch, last.batch_index + 1):
            self._end.remainder = 0  # The batch that may be padded is left out.

    def _remainder(self) -> int:
        batches = self._index_sampler
        if not isinstance(batches, ProcessBatches):
            return 0  # One process has no padding, and in a shard `valid` marks it.
        if batches.drop_last or self.total_batch_size is None:
            return -1
        inner: Any = getattr(batches.batch_sampler, "sampler", self.dataset)
        try:
            return len(inner) % self.total_batch_size
        except (TypeError, NotImplementedError):
            return -1


_END: Any = object()
