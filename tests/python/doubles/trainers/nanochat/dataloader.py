"""The generator of `nanochat/dataloader.py` that `scripts/base_train.py` reads from, without its body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tokenizing_distributed_data_loader_with_state_bos_bestfit(
    tokenizer: Any,
    B: int,
    T: int,
    split: str,
    tokenizer_threads: int = 4,
    tokenizer_batch_size: int = 128,
    device: str = "cuda",
    resume_state_dict: dict[str, Any] | None = None,
    buffer_size: int = 1000,
) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Yields inputs and targets of `B` rows of `T` tokens, and a state that the checkpoint holds as JSON."""
    raise NotImplementedError
