"""The Trainer of transformers with our loaders: `Trainer`, and `LoaderMixin` for a trainer that derives from it.

Change one import, `from sluicegate.transformers import Trainer`, or derive a class from `LoaderMixin` and another
trainer. The loaders of training, evaluation, and prediction are then ours, with all `dataloader_*` arguments of
`TrainingArguments`. Checkpoints include the position of the training loader, so `resume_from_checkpoint` reads only
what is left of the epoch.
"""

from __future__ import annotations

import transformers

from .loader_mixin import LoaderMixin

__all__ = ["LoaderMixin", "Trainer"]

LoaderMixin.__module__ = __name__


class Trainer(LoaderMixin, transformers.Trainer):  # type: ignore[misc, unused-ignore]
    """The `Trainer` of transformers with our loaders; see `LoaderMixin` for its additional argument.

    Examples:
        >>> import torch
        >>> from transformers import TrainingArguments
        >>> from sluicegate.transformers import Trainer
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layer = torch.nn.Linear(1, 1)
        ...     def forward(self, x, labels):
        ...         return {"loss": (self.layer(x) - labels).square().mean()}
        >>> rows = [{"x": torch.tensor([float(i)]), "labels": torch.tensor([2.0 * i])} for i in range(10)]
        >>> arguments = TrainingArguments(
        ...     "runs", per_device_train_batch_size=4, max_steps=5, use_cpu=True, report_to="none", save_strategy="no",
        ...     disable_tqdm=True, logging_strategy="no", dataloader_pin_memory=False,
        ... )
        >>> trainer = Trainer(Model(), arguments, train_dataset=rows, loader_arguments={"seed": 7})
        >>> type(trainer.get_train_dataloader()).__name__
        'PreparedLoader'
    """
