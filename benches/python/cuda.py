"""Copies to a GPU: ours against torch's `pin_memory=True` and against the prefetcher that users write by hand.

    python benches/python/cuda.py [--seconds 5] [--workers 4] [--device cuda | --host]

Prints a Markdown table. The first figures measure the hand-over alone: batches of 39 MB at full speed, in GB/s, next
to the rate of the bus for one large copy, and in CPU seconds (of all processes) per GB. The others measure a training
loop that reads its loss from the device after every step: the share of time in which it waits for data. All
contenders have the same dataset, batches, and number of workers, and the loop reads every batch on the device.

With `--host`, without a GPU, plain memory replaces pinned memory, and nothing is copied to a device: this shows the
CPU time of the hand-over.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.data

import host_blocks
import sluicegate

# 64 images of 224 x 224 pixels as float32: W1's batch.
SHAPE = (3, 224, 224)
BATCH = 64
ROWS = 64 * BATCH

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class PythonRows(torch.utils.data.Dataset[Any]):
    """The same rows from a Python dataset."""

    def __init__(self, values: torch.Tensor, labels: torch.Tensor) -> None:
        self.values, self.labels = values, labels

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index], self.labels[index]


def pinned(loader: Any, device: torch.device) -> Batches:
    """As in torch's documentation: pinned batches, copied in the loop without waiting."""
    for values, labels in loader:
        yield values.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def by_hand(loader: Any, device: torch.device) -> Batches:
    """The prefetcher of many training scripts: one batch ahead, on its own stream."""
    stream = torch.cuda.Stream(device)
    batches = iter(loader)

    def ahead() -> Any:
        batch = next(batches, None)
        if batch is None:
            return None
        with torch.cuda.stream(stream):
            return [part.to(device, non_blocking=True) for part in batch]

    batch = ahead()
    while batch is not None:
        torch.cuda.current_stream(device).wait_stream(stream)
        for part in batch:
            part.record_stream(torch.cuda.current_stream(device))
        following = ahead()
        yield batch[0], batch[1]
        batch = following


def as_it_is(loader: Any, _: torch.device) -> Batches:
    """Yield the batches that arrive on the device."""
    return iter(loader)


def contenders(workers: int, device: torch.device) -> dict[str, Callable[[], Batches]]:
    """Return functions that begin an epoch, by name of the contender."""
    values = torch.rand(ROWS, *SHAPE)
    labels = torch.arange(ROWS)
    native = sluicegate.TensorDataset(values, labels)
    python = PythonRows(values, labels)
    theirs, ours = torch.utils.data.DataLoader, sluicegate.DataLoader
    made: dict[str, tuple[Any, Callable[[Any, torch.device], Batches]]] = {}
    common: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "num_workers": workers, "persistent_workers": True}
    for rows, dataset in (("tensors", native), ("Python", python)):
        made[f"torch, pin_memory, {rows}"] = theirs(dataset, pin_memory=True, **common), pinned
        made[f"torch, pin_memory and a prefetcher by hand, {rows}"] = (
            theirs(dataset, pin_memory=True, **common),
            by_hand,
        )
        made[f"sluicegate, pin_memory, {rows}"] = ours(dataset, pin_memory=True, **common), pinned
        made[f"sluicegate, device, {rows}"] = ours(dataset, device=device, **common), as_it_is
        made[f"sluicegate, device, Python threads, {rows}"] = (
            ours(dataset, device=device, worker_type="thread", **common),
            as_it_is,
        )
    del made["sluicegate, device, Python threads, tensors"]  # threads read native datasets anyway
    return {name: lambda loader=loader, run=run: run(loader, device) for name, (loader, run) in made.items()}  # type: ignore[misc]


def cpu_seconds() -> float:
    """Return the CPU time of this process and of workers that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime + _living_children()


def _living_children() -> float:
    ticks = 0
    for child in multiprocessing.active_children():
        with open(f"/proc/{child.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def bus(device: torch.device) -> float:
    """Return the GB/s of copies of 256 MB from pinned memory."""
    here = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(here, device=device)
    there.copy_(here)
    begin = time.perf_counter()
    for _ in range(20):
        there.copy_(here, non_blocking=True)
    torch.cuda.synchronize(device)
    return 20 * here.numel() / (time.perf_counter() - begin) / 1e9


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def endless(epoch: Callable[[], Batches]) -> Batches:
    while True:
        yield from epoch()


def hand_over(epoch: Callable[[], Batches], seconds: float, device: torch.device) -> tuple[float, float]:
    """Return the GB/s of one contender, and its CPU seconds per GB."""
    batches = endless(epoch)
    read = torch.zeros((), device=device)
    for _ in range(ROWS // BATCH + 8):  # one epoch, to warm up memory, workers, and caches
        read += next(batches)[0].view(-1)[::4096].sum()
    synchronize(device)
    begin, used, moved = time.perf_counter(), cpu_seconds(), 0
    while time.perf_counter() - begin < seconds:
        values, labels = next(batches)
        read += values.view(-1)[::4096].sum()
        moved += values.nbytes + labels.nbytes
    synchronize(device)
    return moved / (time.perf_counter() - begin) / 1e9, (cpu_seconds() - used) / (moved / 1e9)


def training(epoch: Callable[[], Batches], steps: int, device: torch.device, size: int) -> tuple[float, float]:
    """Return the milliseconds per step of one contender, and the share not spent in the step itself."""
    weight = torch.rand(size, size, device=device)

    def step(values: torch.Tensor) -> float:
        state = weight + values.view(-1)[0]
        for _ in range(8):
            state = torch.tanh(state @ weight)
        return float(state.mean())  # the host waits for it, as when a loss is logged

    batches = endless(epoch)
    for _ in range(20):
        values, _ = next(batches)
        step(values)
    begin = time.perf_counter()
    for _ in range(steps):
        step(values)
    alone = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(steps):
        values, _ = next(batches)
        step(values)
    taken = time.perf_counter() - begin
    return 1e3 * taken / steps, max(1 - alone / taken, 0.0)


def on_the_host(workers: int, seconds: float) -> int:
    """Print the CPU seconds per GB of batches that arrive in memory that replaces pinned memory."""
    host_blocks.stand_for_pinned_memory()
    device = torch.device("cpu")
    print(f"torch {torch.__version__}, sluicegate {sluicegate.__version__}, {workers} workers, plain memory\n")
    print("| contender | GB/s | CPU s per GB |")
    print("| --- | --- | --- |")
    for name, epoch in contenders(workers, device).items():
        if "device" in name or "by hand" in name:
            continue
        rate, cpu = hand_over(epoch, seconds, device)
        print(f"| {name} | {rate:.2f} | {cpu:.2f} |", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Copies to a GPU, against torch's.")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each contender")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--host", action="store_true", help="without a GPU: CPU seconds of the hand-over alone")
    parser.add_argument("--size", type=int, default=4096, help="of the matrices of a training step")
    args = parser.parse_args()
    if args.host:
        return on_the_host(args.workers, args.seconds)
    if not torch.cuda.is_available():
        print("no GPU that torch can use: nothing is measured")
        return 1
    device = torch.device(args.device)
    if device.index is None:
        # torch declares the index as an int.
        device = torch.device(device.type, torch.cuda.current_device())  # type: ignore[unreachable]
    torch.cuda.set_device(device)
    limit = bus(device)
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, sluicegate {sluicegate.__version__}")
    print(f"\nOne large copy: {limit:.1f} GB/s; {args.workers} workers, batches of {BATCH} x {SHAPE} float32.\n")
    print("| contender | GB/s | of the bus | CPU s per GB | ms a training step | of it waiting |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, epoch in contenders(args.workers, device).items():
        rate, cpu = hand_over(epoch, args.seconds, device)
        step, waiting = training(epoch, 200, device, args.size)
        print(f"| {name} | {rate:.1f} | {rate / limit:.0%} | {cpu:.2f} | {step:.2f} | {waiting:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
