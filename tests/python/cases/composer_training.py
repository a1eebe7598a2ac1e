"""A script for Composer, as users write it: its trainer and its checkpoints, with our loader, on the CPU."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import composer
import torch

from cases.recorded_training import Rows
from sluicegate import DataLoader

ROWS, EPOCHS, BATCH_SIZE = 40, 2, 4


class Batches(composer.Callback):  # type: ignore[misc]
    """The loader that Composer sees, and the callback that puts its position into checkpoints."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.batch_size, self.trained = loader, loader.batch_size, 0
        self.saved: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        yield from [None] * self.trained
        yield from self.loader

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self.loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.saved = state["loader"]

    def fit_start(self, state: composer.State, logger: Any) -> None:
        trained = int(state.timestamp.batch_in_epoch)
        self.trained = trained or 1  # Composer asks for a batch of each epoch that was trained
        if 0 < trained < len(self):
            self.loader.load_state_dict(self.saved or self.loader.state_dict())
        self.saved = None

    def epoch_start(self, state: composer.State, logger: Any) -> None:
        self.trained = 0
        self.loader.set_epoch(int(state.timestamp.epoch))


class Model(composer.ComposerModel):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        layers = (torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        found: torch.Tensor = self.layers(batch[1]).flatten()
        return found

    def loss(self, outputs: torch.Tensor, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.mse_loss(outputs, batch[0] / ROWS)


class Written(composer.Callback):  # type: ignore[misc]
    """Writes a line for each batch, and kills the process after `stop` of them, when it has saved what it saves."""

    def __init__(self, file: Any, stop: int | None) -> None:
        self.file, self.stop = file, stop

    def batch_end(self, state: composer.State, logger: Any) -> None:
        weights = sum(float(each.detach().double().sum()) for each in state.model.parameters())
        step, samples = int(state.timestamp.batch), state.batch[0].tolist()
        print(json.dumps([step, samples, state.loss.item(), weights]), file=self.file, flush=True)

    def batch_checkpoint(self, state: composer.State, logger: Any) -> None:
        if int(state.timestamp.batch) == self.stop:
            os.kill(os.getpid(), signal.SIGKILL)


def train(
    path: str, folder: str, *, stop: int | None = None, resumes: bool = False, workers: int = 2, saves: str = "3ba"
) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process kills itself.
        resumes: True to begin with the last checkpoint.
        workers: the loader's.
        saves: when Composer saves a checkpoint.
    """
    composer.utils.reproducibility.seed_all(1)
    if "WORLD_SIZE" in os.environ:
        os.environ["LOCAL_WORLD_SIZE"] = os.environ["WORLD_SIZE"]
        os.environ["NODE_RANK"] = "0"
        composer.utils.dist.initialize_dist("cpu")
    loader = DataLoader(
        Rows(f"{path}-reads", ROWS), BATCH_SIZE, shuffle=True, num_workers=workers, seed=7, shard="auto"
    )
    batches, model = Batches(loader), Model()
    with open(path, "a") as file:
        trainer = composer.Trainer(
            model=model,
            optimizers=torch.optim.AdamW(model.parameters(), 0.01),
            train_dataloader=composer.DataSpec(batches, num_samples=ROWS),
            callbacks=[batches, Written(file, stop)],
            max_duration=f"{EPOCHS}ep",
            seed=1,
            save_folder=folder,
            save_interval=saves,
            load_path=f"{folder}/latest-rank0.pt" if resumes else None,
            device="cpu",
            progress_bar=False,
        )
        trainer.fit()
        assert isinstance(trainer.state.train_dataloader.loader, DataLoader)
