"""Programs that run in several processes, which connect as those of `accelerate launch` do."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

# Not for the ranks, which import this module: importing pytest would take them 0.1 s.
if TYPE_CHECKING:
    from .programs import Run

# Seconds after which a rank that still waits for another is killed.
DEADLINE = 90

_LAUNCH = f"""
import os, signal, traceback
from checks import gloo_ranks

ranks = []
for rank in range(world_size):
    child = os.fork()
    if child == 0:
        signal.alarm({DEADLINE})
        gloo_ranks.meet(rank, world_size, port)
        try:
            PROGRAM
            gloo_ranks.part()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ranks.append(child)
ends = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]
print()  # after a progress bar
print(ends)
"""


def meet(rank: int, world_size: int, port: int) -> None:
    """Set the environment as `accelerate launch` would for this process."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
    if world_size == 1:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            del os.environ[name]
    # After a fork, the first such call makes torch recreate a thread pool; two threads making it at once would race.
    torch.set_num_threads(1)


def part() -> None:
    """Wait for the other ranks: one that ends at once may do so before another has connected to it."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def launch(run: Run, program: str, world_size: int, end: int = 0, **values: Any) -> None:
    """Run `program`, a line that may use `rank` and `values`, in each process; all exit codes have to be `end`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    source = _LAUNCH.replace("PROGRAM", program)
    ended = run(source, deadline=DEADLINE + 20.0, world_size=world_size, port=port, **values)
    assert ended.stdout.splitlines()[-1:] == [str([end] * world_size)], f"{ended.stdout}\n{ended.stderr}"
    ended.check(stderr=None)
