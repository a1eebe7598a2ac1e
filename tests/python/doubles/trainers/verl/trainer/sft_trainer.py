"""`SFTTrainer._build_dataloader`, with the arguments of `verl/trainer/sft_trainer.py`; the engine is the caller's."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader


class SFTTrainer:
    config: Any
    engine: Any
    train_dataset: Any
    val_dataset: Any
    collate_fn: Any

    def _build_dataloader(self) -> None:
        config = self.config
        device_name = "cpu"
        dp_rank = self.engine.get_data_parallel_rank()
        dp_size = self.engine.get_data_parallel_size()
        self.train_sampler = DistributedSampler(
            self.train_dataset, shuffle=True, num_replicas=dp_size, rank=dp_rank, drop_last=True
        )
        self.global_batch_size = config.data.train_batch_size
        self.train_batch_size_per_dp = self.global_batch_size // dp_size
        self.train_dataloader = StatefulDataLoader(
            dataset=self.train_dataset,
            batch_size=self.train_batch_size_per_dp,
            sampler=self.train_sampler,
            collate_fn=self.collate_fn,
            num_workers=config.data.num_workers,
            pin_memory=False,
            drop_last=True,
            pin_memory_device=device_name,
        )
        self.val_sampler = DistributedSampler(
            self.val_dataset, shuffle=False, num_replicas=dp_size, rank=dp_rank, drop_last=True
        )
        self.val_dataloader = StatefulDataLoader(
            dataset=self.val_dataset,
            batch_size=self.train_batch_size_per_dp,
            sampler=self.val_sampler,
            collate_fn=self.collate_fn,
            num_workers=config.data.num_workers,
            pin_memory=False,
            drop_last=True,
            pin_memory_device=device_name,
        )
