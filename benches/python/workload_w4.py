"""W4: tokens. Random windows of 2,048 tokens, and of the tokens that follow them, as int64, from 1 GB of uint16."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

FILE_BYTES = 1_000_000_000
LENGTH = 2_048
BATCH_SIZE = 16
KEPT_BATCHES = 2  # a batch must stay intact while the next one is made
VOCABULARY = 50_257
TOKENS = FILE_BYTES // 2
WINDOWS = (TOKENS - 1) // LENGTH
DIGIT = 1 << 15  # a window's first two tokens are its index in this base

PATH = CACHE / f"w4-{FILE_BYTES}.bin"

Tokens = npt.NDArray[np.uint16]


def _prepare() -> None:
    """Make the file if it is missing: random tokens, but the first two of each window identify it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not PATH.exists():
        _write()
    for package, write in _CONVERTED.items():
        folder = _converted(package)
        if importlib.util.find_spec(package) is None or folder.exists():
            continue
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(folder)


def _write() -> None:
    generator = np.random.default_rng(4)
    fresh = PATH.with_suffix(".part")
    with fresh.open("wb") as file:
        for begin in range(0, WINDOWS + 1, 1_000):
            count = min(1_000, WINDOWS + 1 - begin)
            part = generator.integers(0, VOCABULARY, size=(count, LENGTH), dtype=np.uint16)
            index = np.arange(begin, begin + count)
            part[:, 0], part[:, 1] = index // DIGIT, index % DIGIT
            part.tofile(file)
        file.truncate(FILE_BYTES)
    fresh.replace(PATH)


def _open() -> Path:
    """Read the file once, so that all contenders find it in the page cache."""
    with PATH.open("rb", buffering=0) as file:
        block = bytearray(1 << 24)
        while file.readinto(block):
            pass
    return PATH


def _mapped(path: Path) -> Tokens:
    return np.memmap(path, dtype=np.uint16, mode="r")


def _check(path: Path, batch: Any) -> npt.NDArray[np.int64]:
    x, y = (np.asarray(part) for part in batch)
    assert x.dtype == y.dtype == np.int64, f"dtypes {x.dtype}, {y.dtype}"
    assert x.shape == y.shape == (len(x), LENGTH), f"shapes {x.shape}, {y.shape}"
    ids: npt.NDArray[np.int64] = x[:, 0] * DIGIT + x[:, 1]
    tokens = _mapped(path)
    for i, inputs, labels in zip(ids, x, y, strict=True):
        window = tokens[i * LENGTH : (i + 1) * LENGTH + 1]
        assert np.array_equal(inputs, window[:-1]), "inputs differ"
        assert np.array_equal(labels, window[1:]), "labels differ"
    return ids


def _torch(workers: int) -> Any:
    def make(path: Path) -> Epoch:
        import torch
        from torch import Tensor
        from torch.utils.data import DataLoader, Dataset

        tokens = _mapped(path)

        class Windows(Dataset[tuple[Tensor, Tensor]]):
            def __len__(self) -> int:
                return WINDOWS

            def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
                window = torch.from_numpy(tokens[index * LENGTH : (index + 1) * LENGTH + 1].astype(np.int64))
                return window[:-1], window[1:]

        loader = DataLoader(Windows(), BATCH_SIZE, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(loader)

    return make


def _get_batch(path: Path) -> Epoch:
    """As in nanoGPT's training script: a slice, a cast, and a tensor for each window, stacked.

    It draws its offsets with replacement; here each window is read once, so that contents can be compared.
    """
    import torch

    def epoch() -> Iterator[Any]:
        permutation = torch.randperm(WINDOWS)
        for begin in range(0, WINDOWS, BATCH_SIZE):
            # Mapped again for each batch, because a persistent map leaked memory.
            tokens = _mapped(path)
            offsets = permutation[begin : begin + BATCH_SIZE] * LENGTH
            x = torch.stack([torch.from_numpy(tokens[i : i + LENGTH].astype(np.int64)) for i in offsets])
            y = torch.stack([torch.from_numpy(tokens[i + 1 : i + 1 + LENGTH].astype(np.int64)) for i in offsets])
            yield x, y

    return epoch


def _windows(tokens: Tokens) -> Tokens:
    """All windows, as views of the file."""
    step = tokens.strides[0]
    return np.lib.stride_tricks.as_strided(tokens, (WINDOWS, LENGTH + 1), (step * LENGTH, step), writeable=False)


def _by_hand(path: Path) -> Epoch:
    windows = _windows(_mapped(path))
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(WINDOWS)
        for begin in range(0, WINDOWS, BATCH_SIZE):
            rows = windows[permutation[begin : begin + BATCH_SIZE]]
            yield rows[:, :-1].astype(np.int64), rows[:, 1:].astype(np.int64)

    return epoch


def _by_hand_kept(path: Path) -> Epoch:
    """The same, into arrays that are reused, which no caller may keep."""
    windows = _windows(_mapped(path))
    buffers = [[np.zeros((BATCH_SIZE, LENGTH), np.int64) for _ in range(2)] for _ in range(KEPT_BATCHES)]
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(WINDOWS)
        for number, begin in enumerate(range(0, WINDOWS, BATCH_SIZE)):
            chosen = permutation[begin : begin + BATCH_SIZE]
            x, y = (part[: len(chosen)] for part in buffers[number % KEPT_BATCHES])
            rows = windows[chosen]
            x[...], y[...] = rows[:, :-1], rows[:, 1:]
            yield x, y

    return epoch


def _sluicegate(workers: int) -> Any:
    def make(path: Path) -> Epoch:
        from sluicegate import DataLoader, TokensDataset

        loader = DataLoader(
            TokensDataset(path, LENGTH, output="pair"),
            batch_size=BATCH_SIZE,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


def _grain(path: Path) -> Epoch:
    import grain.python as grain

    tokens = _mapped(path)

    class Windows:
        def __len__(self) -> int:
            return WINDOWS

        def __getitem__(self, index: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
            window = tokens[index * LENGTH : (index + 1) * LENGTH + 1].astype(np.int64)
            return window[:-1], window[1:]

    dataset = grain.MapDataset.source(Windows()).shuffle(seed=0).to_iter_dataset().batch(BATCH_SIZE)
    return lambda: iter(dataset)


def _converted(package: str) -> Path:
    """Return the path of the same windows in a package's own format."""
    return CACHE / f"w4-{FILE_BYTES}-{package}"


def _blocks(windows_per_block: int) -> Iterator[Tokens]:
    """Yield all windows, `windows_per_block` at a time."""
    windows = _windows(_mapped(PATH))
    for begin in range(0, WINDOWS, windows_per_block):
        yield windows[begin : begin + windows_per_block]


def _write_datasets(folder: Path) -> None:
    import pyarrow

    schema = pyarrow.schema({"tokens": pyarrow.list_(pyarrow.uint16(), LENGTH + 1)})
    with pyarrow.ipc.new_stream(folder / "windows.arrow", schema) as writer:
        for block in _blocks(1_000):
            windows = pyarrow.FixedSizeListArray.from_arrays(block.reshape(-1), LENGTH + 1)
            writer.write_table(pyarrow.table({"tokens": windows}))


def _write_litdata(folder: Path) -> None:
    from litdata import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    per_chunk = 16_000 * (LENGTH + 1)
    writer = BinaryWriter(str(folder), chunk_size=per_chunk, item_loader=TokensLoader(LENGTH + 1))
    for number, block in enumerate(_blocks(1_000)):
        writer[number] = block.reshape(-1)
    writer.done()
    writer.merge()


def _write_streaming(folder: Path) -> None:
    import streaming

    columns = {"tokens": f"ndarray:uint16:{LENGTH + 1}"}
    with streaming.MDSWriter(out=str(folder), columns=columns, size_limit=64 << 20) as writer:
        for block in _blocks(1_000):
            for window in block:
                writer.write({"tokens": window})


_CONVERTED: dict[str, Callable[[Path], None]] = {
    "datasets": _write_datasets,
    "litdata": _write_litdata,
    "streaming": _write_streaming,
}


def _pair(windows: Any) -> tuple[Any, Any]:
    """Return x and y of a batch of arrays or tensors, each of them a window."""
    import torch

    tokens = torch.from_numpy(np.stack([np.asarray(window) for window in windows]).astype(np.int64))
    return tokens[:, :-1], tokens[:, 1:]


def _pair_of_fields(samples: list[dict[str, Any]]) -> tuple[Any, Any]:
    return _pair([sample["tokens"] for sample in samples])


def _hugging_face(_path: Path) -> Epoch:
    import datasets
    import torch.utils.data

    windows = datasets.Dataset.from_file(str(_converted("datasets") / "windows.arrow")).with_format("torch")
    loader = torch.utils.data.DataLoader(windows, BATCH_SIZE, shuffle=True, collate_fn=_pair_of_fields)
    return lambda: iter(loader)


def _litdata(_path: Path) -> Epoch:
    """LitData's loader for tokens, with its own shuffling."""
    import litdata

    dataset = litdata.StreamingDataset(
        str(_converted("litdata")), item_loader=litdata.TokensLoader(LENGTH + 1), shuffle=True, seed=4
    )
    loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=0, collate_fn=_pair)
    return lambda: iter(loader)


def _streaming(_path: Path) -> Epoch:
    """Streaming's own dataset with torch's loader, with its own shuffling."""
    import streaming
    import torch.utils.data

    dataset = streaming.StreamingDataset(local=str(_converted("streaming")), shuffle=True, batch_size=BATCH_SIZE)
    loader = torch.utils.data.DataLoader(dataset, BATCH_SIZE, collate_fn=_pair_of_fields)
    return lambda: iter(loader)


TORCH = ("torch", "torch.utils.data")
OURS = (*TORCH, "sluicegate")

WORKLOAD = Workload(
    name="w4",
    title="W4: random windows of 2,048 tokens, x and y as int64, from a 1 GB file of uint16 in the page cache",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=_prepare,
    cases=(
        Case(
            name="windows",
            title=f"{BATCH_SIZE} windows of {LENGTH:,} + 1 tokens (a sample is a window: {LENGTH:,} tokens)",
            open=_open,
            samples=WINDOWS,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=present(
                Contender("torch, 0 workers", _torch(0), TORCH, column="torch"),
                Contender("torch, 2 workers", _torch(2), TORCH, column="torch, 2 workers"),
                Contender("nanoGPT's get_batch", _get_batch, ("torch",)),
                Contender("by hand, rows.astype(int64)", _by_hand, column="by hand"),
                Contender("by hand, into kept arrays", _by_hand_kept, is_limit=True),
                Contender("grain", _grain, ("grain", "grain.python")),
                Contender("Hugging Face datasets", _hugging_face, (*TORCH, "datasets")),
                Contender("LitData's TokensLoader, its own format", _litdata, (*TORCH, "litdata")),
                Contender("Streaming, its own format", _streaming, (*TORCH, "streaming")),
                Contender("sluicegate, 0 workers", _sluicegate(0), OURS),
                Contender("sluicegate, 2 workers", _sluicegate(2), OURS),
            ),
        ),
    ),
)
