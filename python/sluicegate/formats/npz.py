"""`NpzDataset`: the rows of the arrays of NumPy's `.npz` files."""

from __future__ import annotations

from sluicegate import _core
from sluicegate.native.dataset import native_format

from .named_arrays import NamedArrays


@native_format
class NpzDataset(NamedArrays):
    """The arrays of one or more `.npz` files: sample i is a dict of row i of each.

    The first axis of each array indexes the samples, so all chosen arrays must have the same length. Several files are
    concatenated and must have arrays of the same names, data types, and row shapes. Each sample and each batch is an
    independent copy. Arrays of `numpy.savez` are memory-mapped, so they may be larger than memory; those of
    `numpy.savez_compressed` are unpacked into memory once, when the file is opened. Opening reads each chosen array to
    its end and compares its checksum, as `numpy.load` does. Arrays of objects are rejected, not unpickled.

    A map-style dataset that also works under torch's own loader. `sluicegate.DataLoader` reads it in Rust, as fast as
    an `.npy` file. It can be pickled: only the arguments are, with absolute paths, and unpickling opens the files
    again. It is thread-safe. Sources: NumPy's format specification (`numpy.lib.format`); APPNOTE.TXT, the description
    of zip archives.

    Args:
        paths: a file, several files, or a pattern (`data/*.npz`, `part-{00..15}.npz`).
        fields: the names of the arrays that make up a sample, in this order. Default: all, in the order of the file. A
            single name, not in a list, makes each sample that array alone.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is truncated, damaged, encrypted, or not an `.npz` file; arrays have unequal first axes (the
            message names two); an array is a scalar, does not exist, holds objects, or has a data type that torch does
            not have; the arrays of a file do not match those of the first.
        OSError: while reading: a file shrank since it was opened.

    Examples:
        >>> import numpy, tempfile
        >>> path = f"{tempfile.mkdtemp()}/mnist.npz"
        >>> images = numpy.arange(12, dtype=numpy.uint8).reshape(3, 2, 2)
        >>> numpy.savez(path, x_train=images, y_train=numpy.arange(3), x_test=images[:1])
        >>> NpzDataset(path, ["x_train", "y_train"])[1]
        {'x_train': tensor([[4, 5],
                [6, 7]], dtype=torch.uint8), 'y_train': tensor(1)}
    """

    def _read(self, paths: list[str], names: list[str] | None) -> _core.Dataset:
        return _core.npz_dataset(paths, names)
