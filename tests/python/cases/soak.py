"""Loaders of random shapes, one after another, whose workers are killed at random; run as a program."""

from __future__ import annotations

import gc
import os
import random
import signal
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from checks.resources import Resources, resident

MEBIBYTE = 1 << 20
SIZES = [4, 4, 8, 100, 1000, 4096, 70_000, MEBIBYTE, 8 * MEBIBYTE]
VOLUME = 96 * MEBIBYTE  # per epoch
KILLED = ("is killed by signal", "exited unexpectedly")


def sample_of(index: int, size: int) -> torch.Tensor:
    return torch.full((size // 4,), index, dtype=torch.int32)


class Samples(Dataset):
    """Samples in which a worker process dies at each index in `deadly`."""

    def __init__(self, count: int, size: int, deadly: dict[int, str]) -> None:
        self.count, self.size, self.deadly = count, size, deadly

    def __getitem__(self, index: int) -> torch.Tensor:
        how = self.deadly.get(index)
        if how == "exit":
            os._exit(index % 3)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return sample_of(index, self.size)

    def __len__(self) -> int:
        return self.count


class SampleStream(IterableDataset):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        assert info is not None
        for index in range(info.id, len(self.samples), info.num_workers):
            yield self.samples[index]


def labeled(samples: list[torch.Tensor]) -> dict[str, Any]:
    return {"rows": torch.stack(samples), "first": int(samples[0][0]), "list": samples[:2]}


def check(batch: Any, size: int) -> list[int]:
    """Check every value of the batch, and return its indices."""
    if isinstance(batch, dict):
        rows = batch["rows"]
        assert int(rows[0, 0]) == batch["first"]
        for row, part in zip(rows, batch["list"], strict=False):
            assert torch.equal(row, part)
    else:
        rows = batch
    rows = rows.reshape(-1, size // 4)
    assert torch.equal(rows, rows[:, :1].expand_as(rows)), "a row is not of one value"
    return rows[:, 0].tolist()


class Round:
    """One loader, its epochs, and its end."""

    def __init__(self, data: ModuleType, draw: random.Random) -> None:
        self.draw = draw
        self.size = draw.choice(SIZES)
        count = max(1, min(draw.randint(1, 300), VOLUME // self.size))
        self.deadly: dict[int, str] = {}
        if draw.random() < 0.25:
            self.deadly[draw.randrange(count)] = draw.choice(["exit", "kill"])
        samples = Samples(count, self.size, self.deadly)
        self.stream = draw.random() < 0.3
        self.batch_size = draw.choice([None, 1, 2, 3, 8, 32])
        self.in_order = draw.random() < 0.75
        self.count = count
        arguments: dict[str, Any] = {
            "batch_size": self.batch_size,
            "num_workers": draw.randint(1, 4),
            "prefetch_factor": draw.choice([1, 2, 2, 5]),
            "persistent_workers": draw.random() < 0.3,
            "in_order": self.in_order,
            "multiprocessing_context": "fork",
        }
        if self.batch_size is not None and draw.random() < 0.4:
            arguments["collate_fn"] = labeled
        self.loader = data.DataLoader(SampleStream(samples) if self.stream else samples, **arguments)
        self.kept: list[tuple[Any, list[int]]] = []
        self.arguments = arguments

    def run(self) -> None:
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            if not self.epoch():
                break
        for batch, indices in self.kept:
            assert check(batch, self.size) == indices, "a kept batch changed"

    def epoch(self) -> bool:
        """Read an epoch, and return False if the loader is no longer usable."""
        leave_at = self.draw.randint(0, 40) if self.draw.random() < 0.4 else None
        kill_at = self.draw.randint(0, 10) if self.draw.random() < 0.15 else None
        stop_at = self.draw.randint(0, 10) if self.draw.random() < 0.1 else None
        keep = self.draw.random() < 0.3
        seen: list[int] = []
        number = -1
        try:
            # If a worker died after the consumer left, this raises, as with torch's persistent workers.
            iterator = iter(self.loader)
            for number, batch in enumerate(iterator):
                indices = check(batch, self.size)
                if self.in_order and not self.stream:
                    assert indices == list(range(len(seen), len(seen) + len(indices)))
                seen += indices
                if keep and len(self.kept) * self.size * len(indices) < VOLUME:
                    self.kept.append((batch, indices))
                if number == leave_at:
                    return kill_at is None or number < kill_at  # The death may not have been noticed yet.
                if number == kill_at:
                    self.draw.choice(iterator._workers).kill()
                if number == stop_at:
                    os.kill(self.draw.choice(iterator._workers).pid, signal.SIGSTOP)
                    return False
        except RuntimeError as error:
            said = f"{error} {error.__cause__}"
            assert any(words in said for words in KILLED), said
            assert self.deadly or kill_at is not None, said
            return False
        assert not self.deadly, "a death went unnoticed"
        assert sorted(seen) == list(range(self.count)), "the epoch is not whole"
        return kill_at is None


def soak(data: ModuleType, seed: int, seconds: float) -> None:
    """Raise if anything is wrong, if anything is left, or if memory grew."""
    torch.set_num_threads(1)
    deadline = time.monotonic() + seconds
    draw = random.Random(seed)
    before = Resources.now()
    settled, rounds = 0, 0
    while time.monotonic() < deadline or rounds < 10:
        one = Round(data, draw)
        try:
            one.run()
        except BaseException as error:
            words = f"seed {seed}, round {rounds}, {one.count} samples of {one.size} bytes, {one.arguments}"
            raise AssertionError(f"{words}: {error}") from error
        del one
        rounds += 1
        if rounds == 10 or rounds % 50 == 0:
            gc.collect()
            left = before.settle(15)
            assert not left, f"seed {seed}, after {rounds} rounds: {left}"
            settled = settled or resident()
    left = before.settle(15)
    assert not left, f"seed {seed}, after {rounds} rounds: {left}"
    grown = resident() - settled
    assert grown < 64 * MEBIBYTE, f"seed {seed}: {grown / MEBIBYTE:.0f} MiB more than after ten rounds of {rounds}"
    print(rounds)
