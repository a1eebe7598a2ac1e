"""torchvision's `PCAM`, whose images and labels are arrays in two files of HDF5, as the core reads them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.formats.hdf5 import Hdf5Dataset
from sluicegate.native.dataset import Kind
from sluicegate.paths import file_version
from sluicegate.transforms.exact_pillow import exact_steps
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.specification import as_json

from .torchvision_facts import Form
from .torchvision_labels import row_of

Version = tuple[int, ...]


@dataclass(frozen=True)
class StoredForm(Form):
    """How `PCAM` names its files."""


STORED_FORMS = {"PCAM": StoredForm("pcam", (), settings=("h5py", "_split", "_base_folder", "_FILES"))}
_AXES = 4


def stored_labels(dataset: Any) -> torch.Tensor:
    """Return the labels of `dataset` as int64.

    Raises:
        NotRecognizedError: they are not stored in torchvision's form.
    """
    library: Any = sys.modules.get("h5py")
    if library is None or dataset.h5py is not library:
        raise NotRecognizedError("h5py was replaced")
    with library.File(_path(dataset, "targets")) as file:
        labels = np.asarray(file["y"])
    if labels.ndim != _AXES or labels.shape[1:] != (1, 1, 1) or labels.dtype.kind not in "iu":
        raise NotRecognizedError("labels are not integers in an array (n, 1, 1, 1)")
    return torch.from_numpy(labels.reshape(-1).astype(np.int64))


def stored_parts(dataset: Any, transform: Any, labels: torch.Tensor) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Return the parts that the core reads in place of `dataset`, whose labels have been transformed already.

    Raises:
        NotRecognizedError, OSError, ValueError: it can't; the message says why.
    """
    file = Hdf5Dataset(_path(dataset, "images"), "x", decode_cf=False)
    if file.python_reason is not None:
        raise NotRecognizedError(file.python_reason)
    images = file.core
    ((_, dtype, shape),) = images.fields
    if dtype != "uint8" or len(shape) != _AXES - 1 or shape[-1] != 3:
        raise NotRecognizedError("images are not an array of uint8 (n, height, width, 3)")
    if len(labels) != len(images) or len(images) == 0:
        raise NotRecognizedError(f"there are {len(images)} images and {len(labels)} labels")
    row, kind = row_of(labels)
    return _core.stored_images(images, [row], as_json(exact_steps(transform, "RGB"))), [0, 1], ("tensor", kind)


def stored_version(dataset: Any) -> tuple[Version, ...]:
    """Return numbers that change when one of the files is written to or replaced, or when relative paths change.

    Raises:
        OSError: there is no such file.
    """
    return tuple(file_version(_path(dataset, part)) for part in ("images", "targets"))


def _path(dataset: Any, part: str) -> str:
    # The core must not follow a later change of the current directory, which `stored_version` notices.
    own = vars(dataset)
    name: str = dataset._FILES[own["_split"]][part][0]
    return os.path.abspath(os.path.join(own["_base_folder"], name))
