"""Resources of the current process (children, threads, file handles, shared memory), and ways to limit them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
NOT_PERMITTED = 77  # the exit code of a program that was not permitted to set up its limit


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and state of every process of the system, zombies included."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(name)] = (int(fields[1]), fields[0])
    return found


def descendants(root: int) -> list[int]:
    """Return the processes below `root`, zombies included."""
    known = processes()
    below, found = {root}, []
    grew = True
    while grew:
        new = [pid for pid, (parent, _) in known.items() if parent in below and pid not in below]
        grew = bool(new)
        below.update(new)
        found += new
    return sorted(found)


def shared_files() -> set[str]:
    """Return the entries of /dev/shm, without those that name a living process other than ours."""
    ours = {os.getpid(), *descendants(os.getpid())}
    found = set()
    for name in os.listdir("/dev/shm"):
        owners = {int(number) for number in re.findall(r"\d+", name)}
        foreign = {pid for pid in owners if pid > 1 and os.path.exists(f"/proc/{pid}")} - ours
        if not foreign:
            found.add(name)
    return found


def links() -> dict[str, str]:
    """Return the target of each descriptor of this process, by its number."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The descriptor that lists the others is closed by now.
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found


def descriptors() -> int:
    """Return the number of descriptors of this process, without those that only garbage still holds.

    Otherwise a collection during a test would close those of an earlier test.
    """
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@dataclass(frozen=True)
class Resources:
    children: list[int]
    threads: int
    handles: list[str]
    mappings: list[str]
    files: list[str]

    @staticmethod
    def now() -> Resources:
        handles = [f"{number} -> {link}" for number, link in links().items()]
        with open("/proc/self/maps") as file:
            paths = [line.split(maxsplit=5)[5].strip() for line in file if len(line.split(maxsplit=5)) == 6]
        return Resources(
            descendants(os.getpid()),
            len(os.listdir("/proc/self/task")),
            sorted(handles),
            sorted(path for path in paths if path.startswith(("/memfd:", "/dev/shm", "/dev/zero", "/SYSV"))),
            sorted(shared_files()),
        )

    def difference(self, later: Resources) -> dict[str, tuple[object, object]]:
        """Return the values that changed, by name."""
        pairs = {name: (value, getattr(later, name)) for name, value in vars(self).items()}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def settle(self, seconds: float = 8.0) -> dict[str, tuple[object, object]]:
        """Wait until everything is as it was, and return what is not."""
        deadline = time.monotonic() + seconds
        while True:
            gc.collect()
            found = self.difference(Resources.now())
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def check(self, seconds: float = 8.0) -> None:
        found = self.settle(seconds)
        assert not found, f"before and after: {found}"


def resident() -> int:
    """Return the bytes of this process's memory that are resident, including the shared memory that it has touched."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def private_shm(mebibytes: int) -> None:
    """Mount a file system of this size on /dev/shm, for this process and its descendants; an OSError unless root."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={mebibytes}m".encode()
    for result in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None),
        libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", ctypes.c_ulong(0), options),
    ):
        if result != 0:
            raise OSError(ctypes.get_errno(), "a private /dev/shm is not permitted here")


def skip(reason: object) -> NoReturn:
    """End a program whose test is to be skipped."""
    print(reason, flush=True)
    sys.exit(NOT_PERMITTED)


def small_shm(mebibytes: int) -> None:
    try:
        private_shm(mebibytes)
    except OSError as error:
        skip(error)


def memory_group(mebibytes: int) -> str:
    """Create a control group with a memory limit and return its folder; `remove_group` removes it once it is empty."""
    name = f"sluicegate-{os.getpid()}"
    with open("/proc/self/cgroup") as file:
        own = {line.split(":")[1]: line.strip().split(":")[2] for line in file}
    if "memory" in own:
        places, limit = [f"/sys/fs/cgroup/memory{own['memory']}", "/sys/fs/cgroup/memory"], "memory.limit_in_bytes"
    else:
        places, limit = [f"/sys/fs/cgroup{own.get('', '/')}", "/sys/fs/cgroup"], "memory.max"
    reason = "no control groups"
    for place in places:
        group = os.path.join(place, name)
        try:
            os.mkdir(group)
        except OSError as error:
            reason = str(error)
            continue
        try:
            with open(os.path.join(group, limit), "w") as file:
                file.write(str(mebibytes << 20))
        except OSError as error:
            reason = str(error)
            os.rmdir(group)
            continue
        return group
    raise OSError(reason)


def join_group(group: str) -> None:
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))


def remove_group(group: str) -> None:
    deadline = time.monotonic() + 5
    while True:
        try:
            os.rmdir(group)
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
