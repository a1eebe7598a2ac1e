"""The machine, and the current load of the machine and of this process: from /proc, on Linux."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> str:
    """Return the processor, its cores, and the system."""
    model = platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {usable_cores()} cores, {platform.system()} {platform.release()}"


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # not Linux, or the process has just ended
        return []


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, or an empty list if there is no such process."""
    lines = _lines(Path(f"/proc/{pid}/stat"))
    return lines[0].rpartition(")")[2].split() if lines else []


def _cpu_seconds_of(pid: int) -> float:
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / TICKS if stat else 0.0


def _pids() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()] if Path("/proc").exists() else []


def descendants() -> list[int]:
    """Return the process ids of all descendants of this process."""
    parents = {pid: int(stat[1]) for pid in _pids() if (stat := _stat(pid))}
    found, todo = [], [os.getpid()]
    while todo:
        parent = todo.pop()
        children = [pid for pid, its in parents.items() if its == parent]
        found += children
        todo += children
    return found


def tree_cpu_seconds() -> float:
    """Return the CPU seconds, user and system, of this process and of all its children, living and ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(_cpu_seconds_of(pid) for pid in descendants())
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + living


def status_bytes(name: str) -> int:
    """Return a size from /proc/self/status, such as VmHWM or RssAnon, or 0 if it is missing."""
    return _size(_lines(Path("/proc/self/status")), name)


def _size(lines: list[str], *names: str) -> int:
    wanted = tuple(f"{name}:" for name in names)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(wanted))


def tree_anonymous_bytes() -> int:
    """Return the anonymous and shared memory of this process and its children; shared pages count once."""
    pids = [os.getpid(), *descendants()]
    return sum(_size(_lines(Path(f"/proc/{pid}/smaps_rollup")), "Pss_Anon", "Pss_Shmem") for pid in pids)


def forget_peak() -> None:
    """Reset VmHWM."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@dataclass(frozen=True)
class Busy:
    """CPU seconds since boot: of all processes, stolen by the host, and of this process and its ended children."""

    everybody: float
    stolen: float
    own: float

    @staticmethod
    def now() -> Busy:
        """Return the current counters."""
        lines = _lines(Path("/proc/stat"))
        user, nice, system, _idle, _iowait, irq, softirq, stolen = (
            [int(n) / TICKS for n in lines[0].split()[1:9]] if lines else [0.0] * 8
        )
        return Busy(user + nice + system + irq + softirq, stolen, tree_cpu_seconds())

    def others_since(self, before: Busy) -> float:
        """Return the CPU seconds that other processes, or the host, used since `before`."""
        return max(0.0, self.everybody - before.everybody + self.stolen - before.stolen - (self.own - before.own))


def busiest_others(seconds: float, count: int = 3) -> list[str]:
    """Return the other processes that use the most CPU within `seconds`, as 'name 35 %'."""
    before = {pid: _cpu_seconds_of(pid) for pid in _pids()}
    time.sleep(seconds)
    shares: list[tuple[float, str]] = []
    for pid, earlier in before.items():
        share = (_cpu_seconds_of(pid) - earlier) / seconds
        name = _lines(Path(f"/proc/{pid}/comm"))
        if pid != os.getpid() and share > 0.02 and name:
            shares.append((share, name[0]))
    return [f"{name} {share:.0%}" for share, name in sorted(shares, reverse=True)[:count]]
