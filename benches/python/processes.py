"""A function on several processes, and nothing else: a limit for loaders with the same number of worker processes."""

from __future__ import annotations

import os
import struct
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NoReturn

_MESSAGE = struct.Struct("qq")  # start and end of a range; far below PIPE_BUF, so that processes can share a pipe
_FAILED = _MESSAGE.pack(-1, -1)


class Processes:
    """Forked processes that call `work` with ranges of indices; they only report which ranges are done.

    They persist from epoch to epoch, and end with this process.
    """

    def __init__(self, count: int, work: Callable[[range], object]) -> None:
        tasks, self._tasks = os.pipe()
        self._done, done = os.pipe()
        self._ahead = 2 * count  # the default number of batches ahead of a loader's workers
        for _ in range(count):
            if os.fork() == 0:
                os.close(self._tasks)  # otherwise the pipe would never end
                os.close(self._done)
                _serve(tasks, done, work)
        os.close(tasks)
        os.close(done)

    def epoch(self, samples: int, batch_size: int) -> Iterator[range]:
        """Run the work for all samples, batch by batch."""
        todo = iter(range(0, samples, batch_size))
        under_way = 0

        def ask(begin: int) -> None:
            os.write(self._tasks, _MESSAGE.pack(begin, min(begin + batch_size, samples)))

        try:
            for begin in islice(todo, self._ahead):
                ask(begin)
                under_way += 1
            while under_way:
                done = self._receive()
                under_way -= 1
                for begin in islice(todo, 1):
                    ask(begin)
                    under_way += 1
                yield done
        finally:
            # An epoch that was cut short must leave nothing for the next one.
            for _ in range(under_way):
                self._receive()

    def _receive(self) -> range:
        message = os.read(self._done, _MESSAGE.size)
        if message in (b"", _FAILED):
            raise RuntimeError("a process of the limit failed")
        begin, end = _MESSAGE.unpack(message)
        return range(begin, end)


def _serve(tasks: int, done: int, work: Callable[[range], object]) -> NoReturn:
    """Work until the parent closes its end of the pipe, which its death also does."""
    try:
        while message := os.read(tasks, _MESSAGE.size):
            work(range(*_MESSAGE.unpack(message)))
            os.write(done, message)
    except BaseException:
        traceback.print_exc()
        os.write(done, _FAILED)
        os._exit(1)
    os._exit(0)
