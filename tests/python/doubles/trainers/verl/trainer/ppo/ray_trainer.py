"""`RayPPOTrainer._create_dataloader`, with the arguments of `verl/trainer/ppo/ray_trainer.py`."""

from __future__ import annotations

from typing import Any

from torchdata.stateful_dataloader import StatefulDataLoader


class RayPPOTrainer:
    config: Any

    def _create_dataloader(self, train_dataset: Any, val_dataset: Any, collate_fn: Any, train_sampler: Any) -> None:
        data = self.config.data
        workers = data["dataloader_num_workers"]
        self.train_dataloader = StatefulDataLoader(
            dataset=train_dataset,
            batch_size=data.get("gen_batch_size", None) or data.train_batch_size,
            num_workers=workers,
            drop_last=True,
            collate_fn=collate_fn,
            sampler=train_sampler,
        )
        self.val_dataloader = StatefulDataLoader(
            dataset=val_dataset,
            batch_size=data.val_batch_size or len(val_dataset),
            num_workers=workers,
            shuffle=data.get("validation_shuffle", True),
            drop_last=False,
            collate_fn=collate_fn,
        )
