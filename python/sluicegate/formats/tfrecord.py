"""`TFRecordDataset`: TensorFlow's files of byte strings, usually of `tf.train.Example`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind, NativeDataset, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .field_types import KINDS, typed_fields, types_by_name


@native_format
class TFRecordDataset(NativeDataset):
    """The samples of one or more TFRecord files: dicts of the features of `tf.train.Example`, or raw bytes.

    Lists of integers and of floats become tensors, byte strings `bytes` or `str`. Examples are parsed in Rust without
    the GIL; TensorFlow is not needed. All checksums are checked: those of the lengths when the files are opened, those
    of the data when a sample is read. Compressed files must be decompressed first.

    Without `features`, they are inferred from the first 100 samples. An integer feature becomes int64, a float feature
    float32: a scalar tensor if each of those samples has one value, otherwise a variable-length tensor, whose batch is
    `{"values", "offsets"}`. A feature with one byte string becomes `bytes`, or a list of them if some sample has none
    or several. A feature that some of those samples lack is an error; name the features then.

    Opening scans the files for the sample lengths. For 4 MiB or more the result is saved in a file next to the first
    one (in the user's cache folder if that is not writable), and reused while the files are unchanged.

    A map-style dataset that also works under torch's own loader (`collate_fn=dataset.collate` for variable-length
    tensors). It can be pickled: only the arguments are. It is thread-safe. Source: the descriptions of TFRecord
    and `tf.train.Example` in TensorFlow's guide.

    Args:
        paths: a file, several files, or a pattern (`train-{00000..00015}-of-00016`, `data/*.tfrecord`); files are
            concatenated.
        features: types by name: `int` (an int64 tensor), `float` (float32), a data type, `(dtype, shape)`, `bytes`,
            `str`; `[int]`, `[torch.float32]` for any number of values; `[bytes]`, `[str]` for a list of any number of
            byte strings (in a batch, a list of such lists). A byte string with a numeric type is read as a
            little-endian array, like `tf.io.decode_raw`. Or "bytes": samples are the raw bytes from the file.
        defaults: by name, the value of a feature that a sample lacks. Without one, that is an error.
        on_error: "raise", or "skip": samples whose checksum is wrong, or that do not match `features`, are excluded
            when the dataset is opened, from `len`, indices, ids and batches. So is the rest of a file after a damaged
            length, because the next sample cannot be located. This needs one pass over all samples; the result is saved
            with the sample offsets.
        index_folder: where the sample offsets are saved.

    Attributes:
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is truncated or not a TFRecord file. While reading: a checksum is wrong, a sample is not a
            `tf.train.Example`, or a feature is missing or has a different type.
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
        self.paths = expand(paths)
        self.features = checked_features(features, defaults)
        self.defaults = dict(defaults or {})
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        typed, kinds = None, list[Kind]()
        if isinstance(self.features, dict):
            typed, kinds = typed_fields(self.features, self.defaults, numbers="tensor")
        core, contents, self.damages = _core.tfrecord_dataset(
            self.paths, self.features == "bytes", typed, self.index_folder, leaves_out(self.on_error)
        )
        structure: Any = {name: number for number, (name, _, _) in enumerate(core.fields)}
        self._set_core(
            core, 0 if self.features == "bytes" else structure, kinds or [KINDS.get(c, "tensor") for c in contents]
        )

    def _shown(self) -> str:
        more = f", defaults={self.defaults!r}" if self.defaults else ""
        return f"{listed(self.paths)}, features={self.features!r}{more}"


def checked_features(
    features: Mapping[str, Any] | str | None, defaults: Mapping[str, Any] | None
) -> dict[str, Any] | str | None:
    """Return the types of features by name, "bytes", or None.

    Raises:
        ValueError: a different string; there are defaults, but no types by name.
    """
    if isinstance(features, str) and features != "bytes":
        raise ValueError(f"features: expected types by name, or 'bytes', but got {features!r}")
    if not isinstance(features, Mapping) and defaults:
        raise ValueError(
            f"defaults: expected features= by name too, but got features={features!r}; pass the types of features"
        )
    return features if features is None or isinstance(features, str) else types_by_name(features)
