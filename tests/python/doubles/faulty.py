"""Datasets, functions, and errors that fail in every way, in a module of their own for spawned workers to import."""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from doubles.datasets import ManyAtOnce

FOREVER = 600  # seconds; no test waits this long


class Numbers(Dataset):
    """Sample `index` is a row that names it; subclasses misbehave in `before`."""

    def __init__(self, size: int) -> None:
        self.size = size

    def before(self, index: int) -> None:
        pass

    def __getitem__(self, index: int) -> torch.Tensor:
        self.before(index)
        return torch.full((3,), index)

    def __len__(self) -> int:
        return self.size


def end_process(how: str) -> None:
    """End this process with a signal, such as `SIGKILL`, or with an exit code, as in `exit 3`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if how.startswith("exit "):
        os._exit(int(how.removeprefix("exit ")))
    number = getattr(signal, how)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    time.sleep(FOREVER)


class Dying(Numbers):
    """The worker that reads sample `at` writes the time to `clock` and dies as `how` says."""

    def __init__(self, size: int, at: int, how: str, clock: Any = None) -> None:
        super().__init__(size)
        self.at, self.how, self.clock = at, how, clock

    def before(self, index: int) -> None:
        if index == self.at:
            if self.clock is not None:
                self.clock[0] = time.monotonic()
            end_process(self.how)


class DyingStream(IterableDataset):
    """Yields numbers; the worker dies as `how` says before item `at`."""

    def __init__(self, size: int, at: int, how: str) -> None:
        self.size, self.at, self.how = size, at, how

    def __iter__(self) -> Iterator[int]:
        for item in range(self.size):
            if item == self.at:
                end_process(self.how)
            yield item


class Stuck(Numbers):
    """The worker that reads sample `at` writes a byte to the pipe `told` and sleeps."""

    def __init__(self, size: int, at: int, told: int, seconds: float = FOREVER) -> None:
        super().__init__(size)
        self.at, self.told, self.seconds = at, told, seconds

    def before(self, index: int) -> None:
        if index == self.at:
            os.write(self.told, b".")
            self.linger()

    def linger(self) -> None:
        time.sleep(self.seconds)


class Lingering(Numbers):
    """Sample `at` takes `seconds`."""

    def __init__(self, size: int, at: int, seconds: float) -> None:
        super().__init__(size)
        self.at, self.seconds = at, seconds

    def before(self, index: int) -> None:
        if index == self.at:
            self.linger()

    def linger(self) -> None:
        time.sleep(self.seconds)


class Signaling(Numbers):
    """Sends the signal `number` to the process `whom` (if negative, to a process group) at sample `at`, then sleeps."""

    def __init__(self, size: int, at: int, whom: int, number: int) -> None:
        super().__init__(size)
        self.at, self.whom, self.number = at, whom, number

    def before(self, index: int) -> None:
        if index == self.at:
            os.kill(self.whom, self.number)
            time.sleep(FOREVER)


class Raising(Numbers):
    """Raises `make(index)` at the indices in `bad`."""

    def __init__(self, size: int, bad: set[int], make: Callable[[int], BaseException]) -> None:
        super().__init__(size)
        self.bad, self.make = bad, make

    def before(self, index: int) -> None:
        if index in self.bad:
            raise self.make(index)


class RaisingAtOnce(ManyAtOnce, Raising):
    """Reads whole batches."""


class RaisingStream(IterableDataset):
    """Fails at item `bad` or, if that is negative, in `__iter__`."""

    def __init__(self, size: int, bad: int, make: Callable[[int], BaseException]) -> None:
        self.size, self.bad, self.make = size, bad, make

    def __iter__(self) -> Iterator[int]:
        if self.bad < 0:
            raise self.make(self.bad)
        return self.items()

    def items(self) -> Iterator[int]:
        for item in range(self.size):
            if item == self.bad:
                raise self.make(item)
            yield item


class NoisyThreads(Numbers):
    """Every sample starts a thread that never ends."""

    def __init__(self, size: int, daemon: bool) -> None:
        super().__init__(size)
        self.daemon = daemon

    def before(self, index: int) -> None:
        threading.Thread(target=threading.Event().wait, daemon=self.daemon).start()


class Sized(Dataset):
    """Sample `index` has `sizes[index]` bytes, all of one value derived from the index."""

    def __init__(self, sizes: list[int], array: bool = False) -> None:
        self.sizes, self.array = sizes, array

    def __getitem__(self, index: int) -> Any:
        if self.array:
            return numpy.full(self.sizes[index], index % 251, dtype=numpy.uint8)
        return torch.full((self.sizes[index],), index % 251, dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.sizes)


class ManyParts(Numbers):
    """A sample of many tensors."""

    parts = 20

    def __getitem__(self, index: int) -> Any:
        return {f"part {part}": torch.full((2,), index * self.parts + part) for part in range(self.parts)}


class Hungry(Numbers):
    """The worker that reads sample `at` joins the control group `group` and fills memory."""

    def __init__(self, size: int, at: int, group: str, mebibytes: int) -> None:
        super().__init__(size)
        self.at, self.group, self.mebibytes = at, group, mebibytes

    def before(self, index: int) -> None:
        if index == self.at:
            with open(os.path.join(self.group, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))
            eaten = [numpy.ones(1 << 20, dtype=numpy.uint8) for _ in range(self.mebibytes)]
            del eaten


class Draws(Dataset):
    """Samples with their worker, its draws, and the tag that `worker_init_fn` left."""

    def __init__(self, size: int) -> None:
        self.size, self.tag = size, -1

    def __getitem__(self, index: int) -> tuple[int, int, int, torch.Tensor, float]:
        info = get_worker_info()
        worker, seed = (-1, 0) if info is None else (info.id, info.seed)
        return index, worker, seed, torch.rand(2), float(numpy.random.rand()) + self.tag

    def __len__(self) -> int:
        return self.size


class SetsWhenUnpickled(Draws):
    """Seeds and draws when a worker unpickles it, like a module that a worker imports with it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        torch.manual_seed(0)
        numpy.random.seed(0)
        random.seed(0)
        torch.set_num_threads(3)

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), torch.get_num_threads()


class DrawsStream(IterableDataset):
    def __init__(self, size: int) -> None:
        self.size, self.tag = size, -1

    def __iter__(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        info = get_worker_info()
        worker, step = (0, 1) if info is None else (info.id, info.num_workers)
        for item in range(worker, self.size, step):
            yield item, self.tag, torch.rand(2)


class Nest:
    """Anything with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class NestedDataset(Numbers):
    """Holds an object that may not pickle, deep inside."""

    def __init__(self, transform: Any) -> None:
        super().__init__(4)
        self.transform = transform


class CodedError(Exception):
    """Its constructor does not take its message."""

    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"code {code} in {where}")
        self.code, self.where = code, where


class LockedError(ValueError):
    """Cannot be pickled, though one of its attributes can."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()
        self.shard = 7


class TwoArgumentsError(OSError):
    def __init__(self, path: str, line: int) -> None:
        super().__init__(2, "no such thing", path)
        self.line = line


def value_error(index: int) -> Exception:
    return ValueError(f"sample {index} is broken")


def key_error(index: int) -> Exception:
    return KeyError(f"sample {index} is broken")


def detailed_error(index: int) -> Exception:
    error = ValueError(f"sample {index} is broken")
    error.shard = 7  # type: ignore[attr-defined]
    return error


def coded_error(index: int) -> Exception:
    return CodedError(index, where="here")


class TextlessError(Exception):
    """Can't be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def textless_error(index: int) -> Exception:
    return TextlessError(index)


def locked_error(index: int) -> Exception:
    return LockedError(f"sample {index} is broken")


def two_arguments_error(index: int) -> Exception:
    return TwoArgumentsError(f"/sample/{index}", index)


def local_error(index: int) -> Exception:
    class LocalError(ValueError):
        pass

    error = LocalError(f"sample {index} is broken")
    error.shard = 7  # type: ignore[attr-defined]
    return error


def chained_error(index: int) -> Exception:
    error = ValueError(f"sample {index} is broken")
    error.__cause__ = KeyError("the reason of it")
    return error


def keyboard_interrupt(index: int) -> BaseException:
    return KeyboardInterrupt()


def system_exit(index: int) -> BaseException:
    return SystemExit(3)


def collate_failing_at_4(samples: list[torch.Tensor]) -> torch.Tensor:
    if any(int(sample[0]) == 4 for sample in samples):
        raise ValueError("batch with sample 4 does not collate")
    return torch.stack(samples)


def sums(samples: list[Any]) -> dict[str, Any]:
    """A custom collate function with its own structure."""
    return {"samples": samples, "first": samples[0][0], "count": len(samples)}


def tagged(worker_id: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.tag = worker_id  # type: ignore[attr-defined]


def failing_init(worker_id: int) -> None:
    raise ValueError(f"worker {worker_id} will not start")


def dying_init(worker_id: int) -> None:
    if worker_id == 1:
        end_process("SIGKILL")
