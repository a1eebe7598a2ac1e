"""The sources of a stream's bytes, as users name them: paths, commands, descriptors, file objects."""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from sluicegate.paths import expand
from sluicegate.system.descriptor import identity_of

# A path, "pipe:" and a shell command, "-" for standard input, a file descriptor, a file object; or several of these.
Sources: TypeAlias = Any

_PIPE = "pipe:"
_RANGE = re.compile(r"\{-?\d+\.\.-?\d+(?:\.\.-?\d+)?\}")

_PUMPED_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Source:
    """One source of bytes.

    Attributes:
        kind: "path", "command" or "open".
        name: the path, the command, or a descriptive name.
        descriptor: the file descriptor of an open source.
        identity: the file that it referred to, because the number may be reused for another one.
        file: the object that keeps it open, or that has no descriptor and is read with its `read`.
    """

    kind: str
    name: str
    descriptor: int | None = None
    identity: tuple[int, int] | None = None
    file: Any = None

    def core(self) -> tuple[str, str, int | None]:
        """Return the source as the core takes it.

        Raises:
            RuntimeError: the descriptor now refers to another file.
        """
        if self.descriptor is not None:
            if identity_of(self.descriptor) != self.identity:
                raise RuntimeError(
                    f"urls: {self.name} is not open in this process, or is a different file now, because worker "
                    "processes have their own standard input, and spawned ones do not inherit descriptors; read it "
                    "with num_workers=0, or with worker_type='thread' and one worker"
                )
            if self.file is not None and not isinstance(self.file, io.RawIOBase):
                # Data that the object has buffered counts as unread; for a pipe it cannot be put back.
                with contextlib.suppress(OSError, ValueError):
                    os.lseek(self.descriptor, self.file.tell(), os.SEEK_SET)
        return self.kind, self.name, self.descriptor


def sources_of(urls: Sources, *, allow_pipe: bool = True) -> list[Source]:
    """Return the sources that `urls` names; never an empty list.

    Args:
        urls: as in a stream.
        allow_pipe: True to allow commands. The environment variable `SLUICEGATE_ALLOW_PIPE=0` also forbids them.

    Raises:
        FileNotFoundError: no file matches a pattern.
        ValueError: the list is empty, or a command is not allowed.
        TypeError: a value is not a source.
    """
    one = isinstance(urls, (str, bytes, os.PathLike, int)) or hasattr(urls, "read") or not isinstance(urls, Iterable)
    found = [source for url in ([urls] if one else urls) for source in _sources(url)]
    if not found:
        raise ValueError("urls: expected at least one, but got an empty list")
    command = next((source.name for source in found if source.kind == "command"), None)
    if command is not None and not (allow_pipe and os.environ.get("SLUICEGATE_ALLOW_PIPE", "1") in ("", "1")):
        reason = "SLUICEGATE_ALLOW_PIPE forbids commands" if allow_pipe else "allow_pipe=False forbids commands"
        raise ValueError(f"urls: {reason}, but got {_PIPE + command!r}; pass a path, or allow commands")
    return found


def _sources(url: Any) -> Iterator[Source]:
    if isinstance(url, str) and url.startswith(_PIPE):
        yield from (Source("command", command) for command in _commands(url.removeprefix(_PIPE)))
    elif isinstance(url, str) and url == "-":
        yield opened(0, "<stdin>")
    elif isinstance(url, (str, bytes, os.PathLike)):
        yield from (Source("path", path) for path in expand(url))
    elif isinstance(url, int) and not isinstance(url, bool):
        yield opened(url, f"<descriptor {url}>")
    elif hasattr(url, "read"):
        yield _file(url)
    else:
        raise TypeError(
            f"urls: expected a path, 'pipe:' and a command, '-', a descriptor or a file object, but got {url!r} "
            f"({type(url).__name__})"
        )


def _commands(command: str) -> Iterator[str]:
    """Expand number ranges only: all other braces are left to the shell."""
    found = _RANGE.search(command)
    if found is None:
        yield command
        return
    # The NUL byte keeps `expand` from matching files in the folder.
    for number in expand(f"\0{found.group()}"):
        middle = number[number.index("\0") + 1 :]
        yield from _commands(command[: found.start()] + middle + command[found.end() :])


def opened(descriptor: int, name: str, file: Any = None) -> Source:
    """Return the open file `descriptor` as a source."""
    identity = identity_of(descriptor)
    if identity is None:
        raise ValueError(f"urls: expected an open file, but {name} is closed")
    return Source("open", name, descriptor, identity, file)


def _file(file: Any) -> Source:
    name = getattr(file, "name", None)
    name = name if isinstance(name, str) else f"<{type(file).__name__}>"
    inner = getattr(file, "buffer", file) if isinstance(file, io.TextIOWrapper) else file
    raw = inner.raw if isinstance(inner, (io.BufferedReader, io.BufferedRandom)) else inner
    if isinstance(raw, io.FileIO):
        return opened(raw.fileno(), name, inner)
    # Call its `read`: its descriptor, if any, may be of the encoded data (GzipFile, a connection).
    return Source("open", name, file=inner)


class Pump:
    """Copies a file object to a pipe on a thread, so that it can be read like any other pipe.

    Args:
        file: an object whose `read` returns `bytes`.

    Attributes:
        descriptor: the read end of the pipe.
        error: the exception that `read` raised.
    """

    def __init__(self, file: Any) -> None:
        self.descriptor, into = os.pipe()
        self.identity = identity_of(into)
        _live.add(self)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(file, into), name="sluicegate-pump", daemon=True)
        self._thread.start()

    def _run(self, file: Any, into: int) -> None:
        with open(into, "wb", buffering=0) as pipe:
            try:
                while piece := file.read(_PUMPED_AT_ONCE):
                    view = memoryview(piece)
                    while view:
                        view = view[pipe.write(view) or 0 :]
            except BrokenPipeError:
                pass  # the reader is gone
            except BaseException as error:
                self.error = error  # Set before the pipe closes: its reader checks it then.

    def close(self) -> None:
        """Close this copy of the read end; the core has its own."""
        os.close(self.descriptor)


_live: weakref.WeakSet[Pump] = weakref.WeakSet()


def _release_inherited_pipes() -> None:
    """Release all pipes in a forked child: while it held an end, closing the other would go unnoticed."""
    pipes = {pump.identity for pump in _live}
    if not pipes:
        return
    _live.clear()
    # Keep the descriptor numbers in use: objects copied by the fork will close them, and must not close another file.
    # The replacement cannot be read: a false end of the stream would silently lose samples.
    # If nothing can be opened, the child keeps the ends as long as it lives.
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
        for number in map(int, os.listdir("/proc/self/fd")):
            if identity_of(number) in pipes:
                os.dup2(nowhere.fileno(), number, inheritable=False)


os.register_at_fork(after_in_child=_release_inherited_pipes)
