"""`SpillFile`: a queue of samples on disk."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tempfile
from typing import Any

import torch

from sluicegate.paths import local

# The prefix of each pickle: its length.
_LENGTH = struct.Struct("<Q")


class SpillFile:
    """A first-in, first-out queue of samples in an unnamed file, which the kernel frees however the process ends.

    For one thread at a time. Samples come back equal, as new objects.

    Args:
        folder: the folder of the file; None for the system's temporary folder.

    Raises:
        OSError: no file can be made there.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = tempfile.gettempdir() if folder is None else local("spill_dir", folder)
        with tempfile.TemporaryFile(dir=self.folder, prefix="sluicegate-spill-") as file:
            # A file object warns if it is garbage-collected while open, which may happen to this one.
            self._descriptor = os.dup(file.fileno())
        self._start = self._end = 0
        self._samples = 0

    def __len__(self) -> int:
        """Return the number of samples in the file."""
        return self._samples

    @property
    def bytes_on_disk(self) -> int:
        """The size of the file in bytes, including samples already taken out, until it is empty."""
        return os.fstat(self._descriptor).st_size

    def append(self, sample: Any) -> None:
        """Append `sample`, or write nothing at all.

        Raises:
            OSError: the file cannot grow, for example because the disk is full; the message names the folder and the
                size.
            Exception: raised by pickle for a sample that cannot be pickled.
        """
        content = _pickled(sample)
        content = _LENGTH.pack(len(content)) + content
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(self._descriptor, memoryview(content)[written:], self._end + written)
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            raise OSError(
                error.errno,
                f"{os.strerror(error.errno or 0)}: can't spill a sample of {len(content)} bytes after the "
                f"{self._end - self._start} bytes that are waiting there; free disk space, or pass a different "
                "spill_dir, a smaller stream, or when_full='block'",
                self.folder,
            ) from error
        self._end += len(content)
        self._samples += 1

    def popleft(self) -> Any:
        """Remove and return the first sample.

        Raises:
            IndexError: the file has no samples.
        """
        if not self._samples:
            raise IndexError("pop from an empty SpillFile")
        (length,) = _LENGTH.unpack(self._read(self._start, _LENGTH.size))
        sample = pickle.loads(self._read(self._start + _LENGTH.size, length))
        self._start += _LENGTH.size + length
        self._samples -= 1
        if not self._samples:
            os.ftruncate(self._descriptor, 0)
            self._start = self._end = 0
        return sample

    def _read(self, start: int, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            part = os.pread(self._descriptor, length - len(content), start + len(content))
            if not part:
                raise EOFError(
                    f"the spill file in {self.folder} was truncated; check whether other code writes to its descriptor"
                )
            content += part
        return bytes(content)

    def close(self) -> None:
        """Free the file and its contents. Can be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._samples = 0

    def __del__(self) -> None:
        """Free the file with its last reference."""
        if hasattr(self, "_descriptor"):
            self.close()


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        # A pickled view includes the whole storage: a row would be written as its whole table.
        if type(thing) is torch.Tensor and thing.layout is torch.strided and thing.device.type == "cpu":
            own = thing.numel() * thing.element_size()
            if thing.untyped_storage().nbytes() > own:
                return thing.detach().clone().requires_grad_(thing.requires_grad).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def _pickled(sample: Any) -> bytes:
    into = io.BytesIO()
    _Pickler(into, pickle.HIGHEST_PROTOCOL).dump(sample)
    return into.getvalue()
