"""`SafetensorsDataset`: the rows of the tensors of safetensors files, memory-mapped."""

from __future__ import annotations

from sluicegate import _core
from sluicegate.native.dataset import native_format

from .named_arrays import NamedArrays


@native_format
class SafetensorsDataset(NamedArrays):
    """The tensors of one or more safetensors files: sample i is a dict of row i of each.

    The first axis of each tensor indexes the samples, so all tensors must have the same length. Several files are
    concatenated and must have tensors of the same names, data types and row shapes. Every data type that both torch and
    the format have is supported, including `bfloat16` and the `float8` types. Each sample and each batch is an
    independent copy. The files are memory-mapped, never read whole, so they may be larger than memory. There may be any
    number of them: no descriptor stays open, 4,096 files stay mapped, and the rest are mapped on each read, which adds
    about 20 µs each.

    A map-style dataset that also works under torch's own loader. `sluicegate.DataLoader` reads it in Rust, as fast as
    an `.npy` file. It can be pickled: only the arguments are, with absolute paths, and unpickling opens the files
    again. It is thread-safe. The header is checked strictly: lengths, offsets, overlaps, holes. Source: the description
    of the format in the repository of safetensors.

    Args:
        paths: a file, several files, or a pattern (`data/*.safetensors`, `part-{00..15}.safetensors`).
        fields: the names of the tensors that make up a sample, in this order. Default: all, sorted by name. A single
            name, not in a list, makes each sample that tensor alone.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is truncated or not a safetensors file; tensors have unequal first axes (the message names
            two); a tensor is a scalar, does not exist, or has elements smaller than a byte.
        OSError: while reading: a file shrank since it was opened.

    Examples:
        >>> import json, tempfile
        >>> header = json.dumps({"x": {"dtype": "U8", "shape": [3, 2], "data_offsets": [0, 6]}}).encode()
        >>> path = f"{tempfile.mkdtemp()}/x.safetensors"
        >>> with open(path, "wb") as file:
        ...     _ = file.write(len(header).to_bytes(8, "little") + header + bytes(range(6)))
        >>> SafetensorsDataset(path)[1]
        {'x': tensor([2, 3], dtype=torch.uint8)}
    """

    def _read(self, paths: list[str], names: list[str] | None) -> _core.Dataset:
        return _core.safetensors_dataset(paths, names)
