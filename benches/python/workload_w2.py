"""W2: images as arrays. Random batches of uint8 images from a 1 GB .npy file in the page cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from gather import Gather
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

FILE_BYTES = 1_000_000_000
KEPT_BATCHES = 2  # a batch must stay intact while the next one is made
BATCH_SIZES = {(3, 64, 64): 256, (3, 224, 224): 64}

Shape = tuple[int, int, int]
Images = npt.NDArray[np.uint8]


def _rows(shape: Shape) -> int:
    return FILE_BYTES // int(np.prod(shape))


def _path(shape: Shape) -> Path:
    return CACHE / f"w2-{'x'.join(map(str, shape))}-{_rows(shape)}.npy"


def _prepare() -> None:
    """Make the files that are missing: random pixels, but an image's first 8 bytes hold its index."""
    CACHE.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(2)
    for shape in BATCH_SIZES:
        path = _path(shape)
        if path.exists():
            continue
        fresh = path.with_suffix(".part")
        out = np.lib.format.open_memmap(fresh, mode="w+", dtype=np.uint8, shape=(_rows(shape), *shape))
        rows = out.reshape(len(out), -1)
        for begin in range(0, len(rows), 1_000):
            part = rows[begin : begin + 1_000]
            words = generator.integers(0, 2**64, size=(len(part), part.shape[1] // 8), dtype=np.uint64)
            words[:, 0] = np.arange(begin, begin + len(part))
            part[:] = words.view(np.uint8)
        out.flush()
        del out, rows
        fresh.replace(path)


def _open(shape: Shape) -> Path:
    """Read the file once, so that all contenders find it in the page cache."""
    path = _path(shape)
    with path.open("rb", buffering=0) as file:
        block = bytearray(1 << 24)
        while file.readinto(block):
            pass
    # As users do who read tensors from a read-only memory map.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    return path


def _mapped(path: Path) -> Images:
    images: Images = np.load(path, mmap_mode="r")
    return images


def _check(path: Path, batch: Any) -> npt.NDArray[np.int64]:
    images = np.asarray(batch)
    assert images.dtype == np.uint8, f"dtype {images.dtype}"
    ids: npt.NDArray[np.int64] = images.reshape(len(images), -1)[:, :8].copy().view(np.int64).ravel()
    source = _mapped(path)
    assert all(np.array_equal(image, source[i]) for image, i in zip(images, ids, strict=True)), "pixels differ"
    return ids


def _torch(workers: int) -> Any:
    def make(path: Path) -> Epoch:
        import torch
        from torch.utils.data import DataLoader, Dataset

        images = _mapped(path)

        class Photographs(Dataset[torch.Tensor]):
            def __len__(self) -> int:
                return len(images)

            def __getitem__(self, index: int) -> torch.Tensor:
                return torch.from_numpy(images[index])

        loader = DataLoader(
            Photographs(),
            BATCH_SIZES[_shape(images)],
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


def _torch_expert(path: Path) -> Epoch:
    """A batch sampler as the sampler: the indices of a whole batch are one index."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

    images = _mapped(path)

    class Photographs(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, indices: list[int]) -> torch.Tensor:
            return torch.from_numpy(images[indices])

    dataset = Photographs()
    batches = BatchSampler(RandomSampler(dataset), BATCH_SIZES[_shape(images)], drop_last=False)
    loader: DataLoader[Any] = DataLoader(dataset, sampler=batches, batch_size=None)
    return lambda: iter(loader)


def _index_select(path: Path) -> Epoch:
    import torch

    images = torch.from_numpy(_mapped(path))
    batch_size = BATCH_SIZES[_shape(images)]
    buffers = [torch.zeros((batch_size, *images.shape[1:]), dtype=torch.uint8) for _ in range(KEPT_BATCHES)]

    def epoch() -> Iterator[Any]:
        permutation = torch.randperm(len(images))
        for number, begin in enumerate(range(0, len(images), batch_size)):
            chosen = permutation[begin : begin + batch_size]
            target = buffers[number % KEPT_BATCHES][: len(chosen)]
            yield torch.index_select(images, 0, chosen, out=target)

    return epoch


def _numpy_take(path: Path) -> Epoch:
    """Use `mode="clip"`: with the default mode, NumPy gathers into a hidden buffer first and copies that."""
    images = _mapped(path)
    batch_size = BATCH_SIZES[_shape(images)]
    buffers = [np.zeros((batch_size, *images.shape[1:]), np.uint8) for _ in range(KEPT_BATCHES)]
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(len(images))
        for number, begin in enumerate(range(0, len(images), batch_size)):
            chosen = permutation[begin : begin + batch_size]
            target = buffers[number % KEPT_BATCHES][: len(chosen)]
            yield np.take(images, chosen, axis=0, out=target, mode="clip")

    return epoch


def _gather_in_c(path: Path) -> Epoch:
    images = _mapped(path)
    batch_size = BATCH_SIZES[_shape(images)]
    buffers = [np.zeros((batch_size, *images.shape[1:]), np.uint8) for _ in range(KEPT_BATCHES)]
    gathers = [Gather([images], [target], threads=2) for target in buffers]
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(len(images))
        address = permutation.ctypes.data
        for number, begin in enumerate(range(0, len(images), batch_size)):
            count = min(batch_size, len(images) - begin)
            which = number % KEPT_BATCHES
            gathers[which](address + 8 * begin, count)
            yield buffers[which][:count]

    return epoch


def _sluicegate(workers: int) -> Any:
    def make(path: Path) -> Epoch:
        from sluicegate import DataLoader, NpyDataset

        loader = DataLoader(
            NpyDataset(path),
            batch_size=BATCH_SIZES[_shape(_mapped(path))],
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


def _shape(images: Any) -> Shape:
    channels, height, width = images.shape[1:]
    return channels, height, width


TORCH = ("torch", "torch.utils.data")
OURS = (*TORCH, "sluicegate")
CONTENDERS = (
    Contender("torch, 0 workers", _torch(0), TORCH, column="torch"),
    Contender("torch, 2 workers", _torch(2), TORCH, column="torch, 2 workers"),
    Contender("torch, BatchSampler as sampler", _torch_expert, TORCH, column="BatchSampler"),
    Contender("torch.index_select(out=)", _index_select, ("torch",), is_limit=True),
    Contender("numpy.take(out=)", _numpy_take, is_limit=True),
    Contender("gather in C, 2 threads", _gather_in_c, is_limit=True),
    Contender("sluicegate, 0 workers", _sluicegate(0), OURS),
    Contender("sluicegate, 2 workers", _sluicegate(2), OURS),
)


def _case(shape: Shape) -> Case:
    size = "x".join(map(str, shape))
    return Case(
        name=size,
        title=f"{BATCH_SIZES[shape]} images of {size}",
        open=lambda: _open(shape),
        samples=_rows(shape),
        batch_size=BATCH_SIZES[shape],
        check=_check,
        contenders=CONTENDERS,
        with_consumer=True,
    )


WORKLOAD = Workload(
    name="w2",
    title="W2: random batches of uint8 images from a 1 GB .npy file in the page cache",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=_prepare,
    cases=tuple(_case(shape) for shape in BATCH_SIZES),
)
