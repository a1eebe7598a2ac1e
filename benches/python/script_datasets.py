"""Python datasets as users write them: `__getitem__` reads, makes, or looks up one sample."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from machine import CACHE

_TOKENS_PATH = CACHE / "scripts-tokens.bin"
_ARRAYS = CACHE / "scripts-arrays"
_CONTEXT, _VOCABULARY = 1_024, 50_257
_FEATURES = [f"feature{number}" for number in range(16)]
_SIDE = 512
_DETECTION_SIDE, _MOST_BOXES = 128, 8

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Script:
    """One script's dataset.

    Attributes:
        dataset: makes the dataset, given the number of samples.
        samples: the number of samples.
        check: returns the indices of a batch's samples, or raises AssertionError.
        collate: the script's collate function; None for the loader's default.
    """

    name: str
    title: str
    dataset: Callable[[int], Any]
    samples: int
    batch_size: int
    check: Callable[[Any, Any], Ids]
    collate: Callable[[list[Any]], Any] | None = None


class Windows:
    """nanoGPT's windows of a memory map of tokens; the first two tokens of a window are its index."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Any:
        import torch

        # The map is opened for each sample, as in nanoGPT, to avoid a memory leak.
        data = np.memmap(_TOKENS_PATH, dtype=np.uint16, mode="r")
        begin = index * _CONTEXT
        x = torch.from_numpy(data[begin : begin + _CONTEXT].astype(np.int64))
        y = torch.from_numpy(data[begin + 1 : begin + 1 + _CONTEXT].astype(np.int64))
        return x, y


def _check_windows(_: Any, batch: Any) -> Ids:
    x, y = (part.numpy() for part in batch)
    assert (x[:, 1:] == y[:, :-1]).all(), "the second window is not one token later"
    ids: Ids = x[:, 0] * _VOCABULARY + x[:, 1]
    return ids


class Rows:
    """Rows of a pandas table: features as one tensor, and a label, which is the index."""

    def __init__(self, samples: int) -> None:
        import pandas

        values = np.random.default_rng(6).random((samples, len(_FEATURES)), np.float32)
        self._table = pandas.DataFrame(values, columns=_FEATURES)
        self._table["label"] = np.arange(samples)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index: int) -> Any:
        import torch

        row = self._table.iloc[index]
        return torch.tensor(row[_FEATURES].values, dtype=torch.float32), int(row["label"])


def _check_rows(_: Any, batch: Any) -> Ids:
    features, labels = batch
    assert tuple(features.shape) == (len(labels), len(_FEATURES)), f"shape {features.shape}"
    ids: Ids = labels.numpy()
    return ids


class ArrayFiles:
    """One `.npy` file for each sample: 3x64x64 floats, the first of which is the index."""

    def __init__(self, samples: int) -> None:
        self._paths = [_ARRAYS / f"{index}.npy" for index in range(samples)]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(np.load(self._paths[index])), index


def _check_array_files(_: Any, batch: Any) -> Ids:
    arrays, labels = batch
    ids: Ids = labels.numpy()
    assert (arrays[:, 0, 0, 0].numpy() == ids).all(), "an array belongs to another sample"
    return ids


class LargeImages:
    """Images of 3 MB, made on request: 3x512x512 floats of one value, the index."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.full((3, _SIDE, _SIDE), float(index)), index


def _check_large_images(_: Any, batch: Any) -> Ids:
    images, labels = batch
    ids: Ids = labels.numpy()
    assert (images.amin((1, 2, 3)).numpy() == ids).all(), "a pixel belongs to another sample"
    assert (images.amax((1, 2, 3)).numpy() == ids).all(), "a pixel belongs to another sample"
    return ids


class Detection:
    """Images with a dict of boxes and labels, as torchvision's detectors take them."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Any:
        import torch

        boxes = torch.arange(4.0 * (1 + index % _MOST_BOXES)).reshape(-1, 4)
        image = torch.full((3, _DETECTION_SIDE, _DETECTION_SIDE), index % 251 / 255)
        target = {"boxes": boxes, "labels": torch.ones(len(boxes), dtype=torch.int64), "image_id": index}
        return image, target


def _zip(samples: list[Any]) -> Any:
    return tuple(zip(*samples, strict=True))


def _check_detection(_: Any, batch: Any) -> Ids:
    _images, targets = batch
    ids: Ids = np.array([target["image_id"] for target in targets])
    assert all(len(target["boxes"]) == 1 + each % _MOST_BOXES for target, each in zip(targets, ids, strict=True))
    return ids


SCRIPTS = (
    Script(
        "nanogpt",
        "nanoGPT's windows of 1,024 tokens from a memmap; batches of 12",
        Windows,
        20_000,
        12,
        _check_windows,
    ),
    Script(
        "pandas",
        "a row of a pandas DataFrame, 16 features and a label; batches of 64",
        Rows,
        20_000,
        64,
        _check_rows,
    ),
    Script(
        "np-load",
        "`np.load` of one file, 48 KB; batches of 64",
        ArrayFiles,
        5_000,
        64,
        _check_array_files,
    ),
    Script(
        "large",
        "3 MB float images made in `__getitem__`; batches of 16",
        LargeImages,
        2_048,
        16,
        _check_large_images,
    ),
    Script(
        "detection",
        "detection targets, `tuple(zip(*batch))`; batches of 16",
        Detection,
        20_000,
        16,
        _check_detection,
        _zip,
    ),
)


def source(script: Script) -> Callable[[], int]:
    """Return a function that opens the data of `script`: it returns the number of samples."""
    return functools.partial(int, script.samples)


def prepare() -> None:
    """Write the files that are missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not _TOKENS_PATH.exists():
        _write_tokens(next(script.samples for script in SCRIPTS if script.dataset is Windows))
    if not _ARRAYS.exists():
        _write_arrays(next(script.samples for script in SCRIPTS if script.dataset is ArrayFiles))


def _write_tokens(windows: int) -> None:
    tokens = np.random.default_rng(8).integers(0, _VOCABULARY, (windows + 1, _CONTEXT), np.uint16)
    index = np.arange(windows + 1)
    tokens[:, 0], tokens[:, 1] = index // _VOCABULARY, index % _VOCABULARY
    unfinished = _TOKENS_PATH.with_suffix(".unfinished")
    tokens.tofile(unfinished)
    unfinished.rename(_TOKENS_PATH)


def _write_arrays(count: int) -> None:
    unfinished = _ARRAYS.with_suffix(".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    arrays = np.random.default_rng(9).random((count, 3, 64, 64), np.float32)
    arrays[:, 0, 0, 0] = np.arange(count)
    for index, array in enumerate(arrays):
        np.save(unfinished / f"{index}.npy", array)
    unfinished.rename(_ARRAYS)
