"""`LoaderMixin`: makes a trainer derived from the `Trainer` of transformers use our loaders."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import transformers.trainer

from sluicegate.accelerate.prepared_loader import PreparedLoader

from .checkpoint_position import load_position, save_position
from .trainer_accelerator import checked_arguments, keep_loaders


class LoaderMixin:
    """Makes a trainer that derives from the `Trainer` of transformers read with `sluicegate.DataLoader`.

    Name it before the trainer: `class Trainer(LoaderMixin, SFTTrainer): pass`. Whatever torch loader the trainer passes
    to its accelerator becomes ours, with the same arguments. Without a seed, its batches are those of torch's loader.

    `resume_from_checkpoint` resumes at the position that the checkpoint holds. Samples and losses are then those of the
    uninterrupted run, bit for bit, without reading earlier samples. Checkpoints of other trainers have no position; the
    trained batches are then skipped.

    On several processes, a stream is read by torch's loader, with a warning.

    Args:
        *args: as for the trainer.
        loader_arguments: additional arguments of `sluicegate.DataLoader`, for all loaders: `seed`, `seed_samples`,
            `worker_type`, `native`, `prefetch_bytes`, `device_prefetch`, `device_transform`, and
            `snapshot_every_n_steps`. Default: none. With a seed, a training resumes with any number of processes if the
            number of samples per update remains the same. A loader whose sampler draws from its own generator gets no
            seed.
        **kwargs: as for the trainer.

    Raises:
        TypeError: an unknown name in `loader_arguments`.
        ValueError: from `train`, if the position in a checkpoint is not one of this training: another order, another
            number of samples per update, or, without a seed, another number of processes.

    Examples:
        >>> import transformers
        >>> from sluicegate.transformers import LoaderMixin
        >>> class MyTrainer(LoaderMixin, transformers.Trainer):
        ...     pass
    """

    # Attributes and methods of the trainer that this class uses.
    accelerator: Any
    args: Any
    callback_handler: Any
    state: Any

    def __init__(self, *args: Any, loader_arguments: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        self._loader_arguments = checked_arguments(loader_arguments or {})
        # True after the generators were set for a resumed epoch, until the trainer sets them.
        self._has_set_generators = False
        self._resumed_from: str | None = None
        super().__init__(*args, **kwargs)

    def create_accelerator_and_postprocess(self) -> None:
        """Create the accelerator as the trainer does, and make it keep our loaders."""
        super().create_accelerator_and_postprocess()  # type: ignore[misc]
        self.accelerator = keep_loaders(self.accelerator, self._loader_arguments)
        # The trainer has bound the method of the accelerator's former class.
        gather: Any = self.accelerator.gather_for_metrics
        bound = getattr(self, "gather_function", None)
        if isinstance(bound, functools.partial):
            gather = functools.partial(gather, *bound.args, **bound.keywords)
        self.gather_function = gather

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as the trainer does: see `transformers.Trainer.train`."""
        self._has_set_generators, self._resumed_from = False, None
        with self._skipping():
            return super().train(*args, **kwargs)  # type: ignore[misc]

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        """Make the trainer skip batches by our loader's own means; its function would build torch's loader."""
        module: Any = transformers.trainer
        skip_first_batches = module.skip_first_batches

        def skip(dataloader: Any, num_batches: int = 0) -> Any:
            if not isinstance(dataloader, PreparedLoader):
                return skip_first_batches(dataloader, num_batches)
            self._skip(dataloader, num_batches)
            return dataloader

        module.skip_first_batches = skip
        try:
            yield
        finally:
            module.skip_first_batches = skip_first_batches

    def _skip(self, loader: PreparedLoader[Any], num_batches: int) -> None:
        folder = self._resumed_from
        if folder is None or not load_position(self, loader, folder):
            # `epoch` includes the trained fraction of the epoch.
            loader.skip(range(num_batches), int(self.state.epoch))
            return
        # The trainer would set the generators after reading the first batch, whose draws would then differ.
        super()._load_rng_state(folder)  # type: ignore[misc]
        self._has_set_generators = True

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        self._resumed_from = checkpoint
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self._has_set_generators:
            self._has_set_generators = False
            return
        super()._load_rng_state(checkpoint)  # type: ignore[misc]
        loader = self.callback_handler.train_dataloader
        if checkpoint is not None and isinstance(loader, PreparedLoader) and not self.args.ignore_data_skip:
            # An epoch begins. If batches were skipped without a position, there is none to load.
            load_position(self, loader, checkpoint)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)  # type: ignore[misc]
        loader = self.callback_handler.train_dataloader
        if isinstance(loader, PreparedLoader):
            save_position(self, loader, output_dir)
