"""The second part of `sluicegate demo`: a training process is killed in the middle of an epoch, and resumed.

The same training runs three times, each in its own process: one is never interrupted, one is ended by SIGKILL, and one
resumes from the last checkpoint of the second, with a different number of workers. The photographs are mirrored,
shifted and dimmed at random in `__getitem__`, so the losses are the same only if all of that is restored too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import tempfile
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import sluicegate
from sluicegate import NpyDataset

from .demo import DATA, TRAIN_ROWS, Batch, Settings, first_difference, model, one_compute_thread, pixels

EPOCHS = 3
WORKERS, RESUMED_WORKERS = 2, 1
# Even for the smallest number of photographs, an epoch has a middle in which to be killed.
LEAST_SAMPLES, LEAST_BATCHES = 64, 32
MOST_SAMPLES = 2_000
BATCHES_BETWEEN_CHECKPOINTS = 5
ATTEMPTS = 3
# Rows of the table before the checkpoint, and all rows except the last one.
ROWS_BEFORE, ROWS = 2, 10


class Augmented(Dataset[Batch]):
    """The first `samples` photographs, altered at random by the global generators, as in most transforms."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.photographs = NpyDataset(image=DATA / "images.npy", label=DATA / "labels.npy")

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Batch:
        photograph = self.photographs[TRAIN_ROWS[index]]
        image = photograph["image"]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        image = image.roll(int(np.random.randint(-2, 3)), -1)
        image = (image * random.uniform(0.7, 1.0)).to(torch.uint8)
        return {"image": image, "label": photograph["label"]}


@dataclass(frozen=True)
class Job:
    """The settings of a training process. Its checkpoint holds weights, optimizer and the loader's state."""

    samples: int
    batch_size: int
    seed: int
    num_workers: int
    between_checkpoints: int
    checkpoint: Path
    resumes: bool = False

    @property
    def batches(self) -> int:
        """Batches in an epoch."""
        return -(-self.samples // self.batch_size)

    @property
    def steps(self) -> int:
        """Batches in all epochs."""
        return EPOCHS * self.batches


def _train(job: Job, report: Connection) -> None:
    """Train, from the checkpoint if `job.resumes`, and send (step, loss) after every step. Runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which ends this process.
    with one_compute_thread():
        # When resumed, results must not depend on this process's own seed.
        torch.manual_seed((job.seed + job.resumes) % 2**64)
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        loader = sluicegate.DataLoader(
            Augmented(job.samples),
            batch_size=job.batch_size,
            shuffle=True,
            num_workers=job.num_workers,
            seed=job.seed,
        )
        step = 0
        if job.resumes:
            saved: dict[str, Any] = torch.load(job.checkpoint, weights_only=True)
            step = saved["step"]
            net.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(saved["loader"])
        while step < job.steps:
            for batch in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(pixels(batch)), batch["label"])
                loss.backward()
                optimizer.step()
                step += 1
                if step % job.between_checkpoints == 0 or step == job.steps:
                    _save(job.checkpoint, step, net, optimizer, loader)
                report.send((step, loss.item()))


def _save(path: Path, step: int, net: nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> None:
    """Replace the last checkpoint atomically, so that one is complete whenever the process is killed."""
    part = path.with_suffix(".part")
    state = {
        "step": step,
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    torch.save(state, part)
    os.replace(part, path)


class _Training:
    """A training in its own process, which starts now and is killed when the context exits."""

    def __init__(self, job: Job) -> None:
        # As isolated as spawned ones, but torch is imported once, with the modules that optimizers import late.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "torch._dynamo"])
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_train, args=(job, sender))
        self._process.start()
        sender.close()

    def __enter__(self) -> _Training:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()
        self._receiver.close()

    def losses(self, kill_after: int | None = None) -> dict[int, float]:
        """Wait for the end and return the loss of each reported step; kill with SIGKILL after step `kill_after`.

        Raises:
            RuntimeError: the training failed.
        """
        losses: dict[int, float] = {}
        # The pipe ends when the process and its workers have ended.
        with contextlib.suppress(EOFError, OSError):
            while True:
                step, loss = self._receiver.recv()
                losses[step] = loss
                if step == kill_after:
                    self._process.kill()
        self._process.join()
        exit_code = self._process.exitcode
        if exit_code != 0 and (kill_after is None or exit_code != -signal.SIGKILL):
            raise RuntimeError(f"the training process {self._process.pid} ended with exit code {exit_code}")
        return losses


def _killed(job: Job) -> dict[int, float]:
    """Kill a training at a random batch in the middle of its second epoch, and return its losses up to then."""
    for _ in range(ATTEMPTS):
        # A place that does not depend on a seed.
        place = random.SystemRandom().randrange(job.batches // 4, 3 * job.batches // 4)
        with _Training(job) as training:
            losses = training.losses(kill_after=job.batches + place)
        if max(losses) < job.steps:
            return losses
    raise RuntimeError(f"the training was over before the signal came, {ATTEMPTS} times: give more --samples")


def _table(job: Job, whole: dict[int, float], killed: dict[int, float], resumed: dict[int, float]) -> str:
    """Return the losses around the checkpoint and at the end, in aligned columns."""
    first = max(min(resumed) - ROWS_BEFORE, 1)
    shown = sorted({*range(first, min(first + ROWS, job.steps)), job.steps})

    def cell(losses: dict[int, float], step: int) -> str:
        # Nine digits distinguish any two 32-bit floats.
        return f"{losses[step]:.9g}" if step in losses else "-"

    rows: list[tuple[str, ...]] = [("epoch, batch", "never interrupted", "killed", "resumed")]
    for step in shown:
        epoch, batch = divmod(step - 1, job.batches)
        rows.append((f"{epoch}, {batch}", *(cell(losses, step) for losses in (whole, killed, resumed))))
    rows.insert(len(rows) - 1, ("...",) * 4)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _of_steps(losses: dict[int, float], steps: Any) -> Tensor:
    return torch.tensor([losses.get(step, float("nan")) for step in steps])


def _are_equal(a: Path, b: Path) -> bool:
    """Return True if two checkpoints hold the same weights, bit for bit."""
    ours, theirs = (torch.load(path, weights_only=True)["model"] for path in (a, b))
    return all(torch.equal(ours[name].view(torch.int32), theirs[name].view(torch.int32)) for name in ours)


def run(settings: Settings) -> int:
    """Run this part; return 0 if all losses equal those of the uninterrupted run, otherwise 1."""
    samples = max(min(settings.samples, MOST_SAMPLES), LEAST_SAMPLES)
    batch_size = min(settings.batch_size, samples // LEAST_BATCHES)
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder:
        whole_job = Job(
            samples,
            batch_size,
            settings.seed % 2**64,
            WORKERS,
            min(BATCHES_BETWEEN_CHECKPOINTS, -(-samples // batch_size) // 4),
            Path(folder) / "whole.pt",
        )
        job = replace(whole_job, checkpoint=Path(folder) / "killed.pt")
        print(
            f"A training process is killed, and resumed: {samples:,} photographs, mirrored, shifted and dimmed at "
            f"random; {EPOCHS} epochs, batches of {batch_size}, seed={job.seed}, num_workers={WORKERS}, resumed "
            f"with {RESUMED_WORKERS}; a checkpoint every {job.between_checkpoints} batches",
            flush=True,
        )
        with _Training(whole_job) as undisturbed:
            killed = _killed(job)
            epoch, batch = divmod(max(killed), job.batches)
            print(f"killed by SIGKILL: in epoch {epoch}, after batch {batch} of {job.batches}", flush=True)
            with _Training(replace(job, num_workers=RESUMED_WORKERS, resumes=True)) as training:
                resumed = training.losses()
            whole = undisturbed.losses()
        weights_are_equal = _are_equal(whole_job.checkpoint, job.checkpoint)
    print(f"\n{_table(job, whole, killed, resumed)}\n")
    rest = range(min(resumed), job.steps + 1)
    if first_difference(_of_steps(whole, killed), _of_steps(killed, killed)) is not None:
        print("killed: its losses were DIFFERENT before the kill")
        return 1
    step = first_difference(_of_steps(whole, rest), _of_steps(resumed, rest))
    if step is not None:
        print(f"resumed: losses DIFFERENT, first at batch {step} of the {len(rest)} after the checkpoint")
        return 1
    if not weights_are_equal:
        print("resumed: weights DIFFERENT at the end")
        return 1
    print(f"resumed: losses equal to the bit at all {len(rest)} batches after the checkpoint, and so are the weights")
    return 0
