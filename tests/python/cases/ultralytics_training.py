"""A script for ultralytics, as users write it: its trainer with our loader, on the CPU.

ultralytics reads its rank when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import torch
import torch.distributed
import ultralytics.data.build
from ultralytics.data.dataset import YOLODataset
from ultralytics.models.yolo.detect import DetectionTrainer

import sluicegate
from cases.recorded_training import BATCH_SIZE, EPOCHS, ROWS, Record, note, ranks, start_ranks

EVALUATED = 8


class Loader(sluicegate.DataLoader[Any]):
    """The loader that `docs/trainers.md` shows; `given` is used as its seed."""

    given: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, num_workers: int = 0, **kwargs: Any) -> None:
        kwargs |= self.given
        super().__init__(*args, num_workers=num_workers, persistent_workers=num_workers > 0, **kwargs)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        yield from super().__iter__()

    def close(self) -> None:
        self._iterator = None

    reset = close


def save_loader(trainer: DetectionTrainer) -> None:
    saved = {"updates": trainer.ema.updates, "loader": trainer.train_loader.state_dict()}
    torch.save(saved, trainer.wdir / "loader.pt")


def save(trainer: DetectionTrainer) -> None:
    """Save within an epoch as if the previous one had just ended: ultralytics resumes with the epoch after it."""
    if trainer.epoch > 0 and trainer.step % 3 == 0 and ranks()[0] == 0:
        trainer.epoch -= 1
        trainer.save_model()
        trainer.epoch += 1
        save_loader(trainer)


def load_loader(trainer: DetectionTrainer) -> None:
    if trainer.resume and (trainer.wdir / "loader.pt").exists():
        saved = torch.load(trainer.wdir / "loader.pt")
        assert saved["updates"] == trainer.ema.updates
        trainer.train_loader.load_state_dict(saved["loader"])


CALLBACKS = {"on_model_save": save_loader, "on_train_batch_end": save, "on_train_start": load_loader}


class Noted(YOLODataset):  # type: ignore[misc]
    """Records which images are read for training, without the other images of their mosaics."""

    reads: str

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.augment:
            note(self.reads, int(Path(self.im_files[index]).stem))
        sample: dict[str, Any] = super().__getitem__(index)
        return sample


ultralytics.data.build.YOLODataset = Noted


def write_images(folder: Path) -> None:
    """Write images for training and evaluation, and their description, `data.yaml`."""
    if (folder / "data.yaml").exists():
        return
    for split, size in (("train", ROWS), ("val", EVALUATED)):
        for name in ("images", "labels"):
            (folder / name / split).mkdir(parents=True)
        for index in range(size):
            noise = np.random.default_rng(index).integers(0, 255, (32, 32, 3), np.uint8)
            cv2.imwrite(str(folder / "images" / split / f"{index}.png"), noise)
            (folder / "labels" / split / f"{index}.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    described = f"path: {folder}\ntrain: images/train\nval: images/val\nnames:\n  0: noise\n"
    (folder / "data.yaml").write_text(described)


def numbers(batch: dict[str, Any]) -> list[int]:
    """Return which images are in a batch, without the other images of their mosaics."""
    return [int(Path(path).stem) for path in batch["im_file"]]


class Trainer(DetectionTrainer):  # type: ignore[misc]
    """Writes which images it trains and evaluates."""

    record: Record
    step = 0

    def preprocess_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        assert type(self.train_loader) is type(self.test_loader) is ultralytics.data.build.InfiniteDataLoader
        self.step += 1
        self.record.write(self.step, numbers(batch), 0.0, torch.nn.Identity())
        prepared: dict[str, Any] = super().preprocess_batch(batch)
        return prepared

    def get_validator(self) -> Any:
        validator = super().get_validator()
        prepare = validator.preprocess

        def written(batch: dict[str, Any]) -> Any:
            self.record.evaluated(numbers(batch))
            return prepare(batch)

        validator.preprocess = written
        return validator

    def final_eval(self) -> None:
        """Evaluate the best weights; ranks would do so on GPUs."""
        if ranks()[1] == 1:
            super().final_eval()


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, kind: str = "sampled") -> None:
    """Train, and write a line for each batch to `path`, without its loss.

    Args:
        path: a file of this process.
        folder: of images and results.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: "sampled" for ours with torch's samplers and generators, "seeded" for ours with a seed, "torch" for
            ultralytics' own.
    """
    rank, world_size = ranks()
    if kind == "seeded":
        Loader.given = {"seed": 7, "generator": None}
    if kind != "torch":
        ultralytics.data.build.InfiniteDataLoader = Loader
    if rank == 0:
        write_images(Path(folder))
    if world_size > 1:
        start_ranks()
        torch.distributed.barrier()
    data = f"{folder}/data.yaml"
    arguments = {"model": "yolo11n.yaml", "data": data, "project": folder, "device": "cpu", "amp": False}
    # Mosaics are turned off for the last epoch, and the trainer resets the loader for that.
    settings = {"epochs": EPOCHS, "imgsz": 32, "batch": BATCH_SIZE, "workers": 2, "close_mosaic": 1, "plots": False}
    if resumes:
        settings["resume"] = f"{folder}/train/weights/last.pt"
    Noted.reads = f"{path}-reads"
    trainer = Trainer(overrides=arguments | settings | {"pretrained": False, "verbose": False})
    trainer.record = Record(path, stop)
    for event, callback in CALLBACKS.items() if kind != "torch" else ():
        trainer.add_callback(event, callback)
    trainer.add_callback("on_train_batch_end", lambda trainer: trainer.record.after(trainer.step))
    trainer.train()
