"""`TFRecordDataset`: TensorFlow's files of byte strings, most often of `tf.train.Example`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from .field_types import KINDS, typed_fields, types_by_name
from .native_dataset import Kind, NativeDataset, leaves_out, native_format
from .paths import Paths, expand, listed, local


@native_format
class TFRecordDataset(NativeDataset):
    """The samples of one or more TFRecord files: a dict of the features of each `tf.train.Example`, or its bytes.

    Lists of integers and of floats become tensors, byte strings `bytes` or `str`. Examples are parsed in Rust without
    Python's lock; TensorFlow is not needed. All checksums are checked: those of the lengths when the files are opened,
    those of the data when a sample is read. Compressed files must be unpacked first.

    Without `features` they are found out: the first 100 samples say which there are. An integer feature becomes
    int64, a float one float32; a scalar tensor where each of those samples has one value, else a tensor of any
    length, whose batch is `{"values", "offsets"}`. A feature of one byte string becomes `bytes`, where some sample has
    none or several a list of them. One that some of them do not have is an error: name the features then.

    Opening scans the files for the lengths of the samples. For 4 MiB and more the result is kept in a file beside the
    first one (in the user's cache folder where that can't be), and used as long as the files are the same.

    A map-style dataset as any other, under torch's own loader too (`collate_fn=dataset.collate` for tensors of any
    length). It can be pickled: the arguments travel. Threads may share it.

    Args:
        paths: a file, several, or a pattern (`train-{00000..00015}-of-00016`, `data/*.tfrecord`); one after the other.
        features: types by name: `int` (an int64 tensor), `float` (float32), a data type, `(dtype, shape)`, `bytes`,
            `str`; `[int]`, `[torch.float32]` for any number of values; `[bytes]`, `[str]` for a list of any number of
            byte strings (in a batch a list of such lists). A byte string that is to be numbers is taken as an array,
            little-endian, as `tf.io.decode_raw` does it. Or "bytes": samples are the bytes as they are in the file.
        defaults: by name, what stands for a feature that a sample does not have. Without one it is an error.
        on_error: "raise", or "skip": samples whose checksum is wrong, or that can't be read as told, are left out when
            the dataset is opened, and count for nothing: `len`, indices, ids and batches are those of what is left. So
            is all that lies behind a length that is damaged, in the same file: nobody knows where it goes on. Every
            sample is read once for that; which ones are left out is kept like their places.
        index_folder: where the places of the samples are kept.

    Attributes:
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: a file is truncated or no TFRecord file; while reading: a checksum is wrong, a sample is no
            `tf.train.Example`, or has no such feature, or one of another type.
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/x.tfrecord"
        >>> with open(path, "wb") as file:
        ...     _ = file.write(bytes.fromhex("0300000000000000b099490e6f6e6501405508"))
        >>> TFRecordDataset(path, "bytes")[0]
        b'one'
    """

    def __init__(
        self,
        paths: Paths,
        features: Mapping[str, Any] | str | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(features, str) and features != "bytes":
            raise ValueError(f"features: types by name, or 'bytes', but got {features!r}")
        if not isinstance(features, Mapping) and defaults:
            raise ValueError("defaults: they are for features, but no features are named")
        self.paths = expand(paths)
        self.features = features if features is None or isinstance(features, str) else types_by_name(features)
        self.defaults = dict(defaults or {})
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        typed, kinds = None, list[Kind]()
        if isinstance(self.features, dict):
            typed, kinds = typed_fields(self.features, self.defaults, numbers="tensor")
        core, contents, self.damages = _core.Dataset.tfrecord(
            self.paths, self.features == "bytes", typed, self.index_folder, leaves_out(self.on_error)
        )
        structure: Any = {name: number for number, (name, _, _) in enumerate(core.fields)}
        self._set_core(
            core, 0 if self.features == "bytes" else structure, kinds or [KINDS.get(c, "tensor") for c in contents]
        )

    def _shown(self) -> str:
        more = f", defaults={self.defaults!r}" if self.defaults else ""
        return f"{listed(self.paths)}, features={self.features!r}{more}"
