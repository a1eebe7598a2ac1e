"""W3: photographs. 5,000 JPEG files of about 500x400: a random 224x224 crop, possibly mirrored, as normalized floats.

The rows "decode alone" are libjpeg-turbo's, with simplejpeg, from files in memory into reused memory: work that every
loader needs. These and "by hand" have one thread; all others have two threads, or two processes.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import figures
import image_contenders as others
import photographs
import throughput
from crops import MEAN, SIZE, STD, gray_levels, normalized, random_crop
from image_contenders import BATCH_SIZE
from loaders import IMPORTS
from photographs import Photographs
from protocol import Case, Contender, Epoch, Metrics, Standings, Turn, Workload
from report import Table, figure

TORCH = IMPORTS["torch"]
OURS = (*IMPORTS["sluicegate"], "sluicegate.transforms")
VISION = (*TORCH, "torchvision", "torchvision.transforms.v2")
SLOWER = 20  # how much longer a turn may take than with small samples


_left_out: list[str] = []


def installed(*contenders: Contender) -> tuple[Contender, ...]:
    """Return the contenders whose packages are installed; the harness reports why the others are left out."""
    found = []
    for contender in contenders:
        missing = [name for name in contender.imports if not _is_there(name)]
        if missing:
            _left_out.append(f"{contender.name} (there is no {missing[0]})")
        else:
            found.append(contender)
    return tuple(found)


def _is_there(module: str) -> bool:
    """Return True if it is installed; does not import it, which would cost every contender's process memory."""
    top, _, below = module.partition(".")
    if top == "sluicegate":
        return True  # its absence then counts as a failure
    spec = importlib.util.find_spec(top)
    if spec is None or not below:
        return spec is not None
    # Several packages share the top-level name `nvidia`.
    places = [Path(place, below.partition(".")[0]) for place in spec.submodule_search_locations or ()]
    return any(place.exists() or place.with_suffix(".py").exists() for place in places)


def _prepare() -> None:
    if missing := photographs.missing():
        print(f"w3: left out: photographs can't be made without {', '.join(missing)}", file=sys.stderr)
        return
    if _left_out:
        print(f"w3: left out: {'; '.join(_left_out)}", file=sys.stderr)
    photographs.prepare()
    for package, write in {"ffcv": others.write_ffcv, "litdata": others.write_litdata}.items():
        if _is_there(package):
            write()


def _check(source: Photographs, batch: Any) -> npt.NDArray[np.int64]:
    if isinstance(batch, range):  # contenders that only decode deliver no data
        return np.arange(batch.start, batch.stop)
    images, classes = batch
    assert images.dtype == torch_float32(), f"dtype {images.dtype}"
    assert tuple(images.shape) == (len(images), 3, SIZE, SIZE), f"shape {tuple(images.shape)}"
    ids: npt.NDArray[np.int64] = np.asarray(classes).reshape(-1).astype(np.int64)
    assert len(ids) == len(images), "as many classes as images"
    photographs.assert_is_of(gray_levels(images.numpy()), source.colors()[ids])
    return ids


def torch_float32() -> Any:
    """Return the data type from a module that the harness must not import."""
    return sys.modules["torch"].float32


def measure(case: Case, contender: Contender, turn: Turn) -> Metrics:
    """Run one turn of whole epochs: if an epoch were cut short, contenders that prefetch would have done extra work."""
    if case.name == "cache":
        return figures.measure(case, contender, turn)
    longer = replace(turn, warm_up=SLOWER * turn.warm_up, cut=SLOWER * turn.cut)
    return throughput.measure(case, contender, longer)


def tables(case: Case, standings: Standings) -> list[Table]:
    """Return the tables, CPU time first: it is the cost of images, whatever the number of threads."""
    if case.name == "cache":
        return figures.tables(case, standings)
    references = [(c.name, c.column) for c in case.contenders if c.column]
    table = Table(
        case.title,
        ["contender", "CPU ms/image"]
        + [f"CPU to {column}" for _, column in references]
        + ["images/s", "anonymous MB", "peak MB", "first batch ms"],
    )
    for name, standing in standings.items():
        if standing.failure is not None:
            table.add_failed(name, standing.failure)
            continue
        cpu = throughput.median(standings, name, "cpu_us")
        ratios = [throughput.ratio(standings, name, "cpu_us", other, "cpu_us") for other, _ in references]
        table.add(
            name,
            figure(cpu and cpu / 1e3),
            *("-" if ratio is None else f"{ratio:.2f}x" for ratio in ratios),
            *(
                figure(throughput.median(standings, name, metric), form)
                for metric, form in (("rate", ",.0f"), ("anonymous_mb", ".1f"), ("peak_mb", ".1f"), ("first_ms", ".3g"))
            ),
        )
    return [table]


def _decode_alone(halved: Callable[[int, int], bool]) -> Callable[[Photographs], Epoch]:
    """libjpeg-turbo, at half the size if `halved(width, height)`; its other scales are slower than the full size."""

    def decoder() -> Callable[[bytes], Any]:
        import simplejpeg

        pixels = np.empty(1 << 22, np.uint8)

        def decode(encoded: bytes) -> Any:
            height, width, _colors, _subsampling = simplejpeg.decode_jpeg_header(encoded)
            if not halved(width, height):
                return simplejpeg.decode_jpeg(encoded, buffer=pixels)
            return simplejpeg.decode_jpeg(encoded, min_width=width // 2, min_height=height // 2, buffer=pixels)

        return decode

    return _decode_alone_by(decoder)


def _half_covers_a_crop(width: int, height: int) -> bool:
    """Return True if half the size has all the pixels that a random crop needs."""
    _left, _top, crop_width, crop_height = random_crop(width, height)
    return min(crop_width, crop_height) >= 2 * SIZE


def _decode_alone_by(decode: Callable[[], Callable[[bytes], Any]]) -> Callable[[Photographs], Epoch]:
    """A different decoder, by itself."""

    def make(source: Photographs) -> Epoch:
        decoder = decode()
        files = source.encoded()

        def epoch() -> Iterator[range]:
            for begin in range(0, len(files), BATCH_SIZE):
                batch = range(begin, min(begin + BATCH_SIZE, len(files)))
                for index in batch:
                    decoder(files[index])
                yield batch

        return epoch

    return make


def _ours_alone() -> Callable[[bytes], Any]:
    from sluicegate import decode_image

    return decode_image


def _pillow_alone() -> Callable[[bytes], Any]:
    import io

    from PIL import Image

    return lambda encoded: Image.open(io.BytesIO(encoded)).convert("RGB")


def _by_hand(source: Photographs) -> Epoch:
    """simplejpeg, OpenCV's crop and resize, and one pass over the batch, as one would write it without a loader."""
    import cv2
    import simplejpeg
    import torch

    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    paths = source.paths()

    def epoch() -> Iterator[Any]:
        order = list(range(len(paths)))
        random.shuffle(order)
        for begin in range(0, len(order), BATCH_SIZE):
            chosen = order[begin : begin + BATCH_SIZE]
            images = np.empty((len(chosen), SIZE, SIZE, 3), np.uint8)
            for place, index in enumerate(chosen):
                with open(paths[index], "rb") as file:
                    images[place] = others.cropped_by_opencv(simplejpeg.decode_jpeg(file.read()))
            yield normalized(torch.from_numpy(images)), torch.tensor(chosen)

    return epoch


def _transforms() -> Any:
    import torch

    from sluicegate import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(MEAN, STD),
        ]
    )


def _ours(note: str, workers: int, *, exact: bool = False, processes: bool = False) -> Contender:
    def make(source: Photographs) -> Epoch:
        from sluicegate import DataLoader, ImageFolderDataset

        dataset: Any = ImageFolderDataset(source.root, _transforms(), exact=exact)
        arguments: dict[str, Any] = {"persistent_workers": True} if processes else {"seed": 7}
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=workers, **arguments)
        return lambda: iter(loader)

    return Contender(f"sluicegate, {note}", make, OURS)


def _ours_of_tar(note: str, workers: int) -> Contender:
    def make(_source: Photographs) -> Epoch:
        from sluicegate import DataLoader, ImageField, TarDataset

        fields: Any = {"jpg": ImageField(_transforms()), "cls": "int"}
        dataset = TarDataset(photographs.shards(), fields=fields)
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=workers, seed=7)

        def epoch() -> Iterator[Any]:
            for batch in loader:
                yield batch["jpg"], batch["cls"]

        return epoch

    return Contender(f"sluicegate, {note}", make, OURS)


def _cached(cache: str) -> Contender:
    def make(_turn: Turn) -> Metrics:
        import tempfile

        from sluicegate import DataLoader, ImageFolderDataset

        photographs.JPEG.read_once()
        with tempfile.TemporaryDirectory() as folder:
            arguments: dict[str, Any] = {"cache": cache} | ({"cache_folder": folder} if cache == "disk" else {})
            dataset: Any = ImageFolderDataset(photographs.JPEG.root, _of_fixed_size(), **arguments)
            loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=2, seed=7)
            rates = [photographs.COUNT / _seconds_of(loader) for _ in range(3)]
        return {
            "epoch 2 images/s": rates[1],
            "epoch 1 images/s": rates[0],
            "epoch 3 images/s": rates[2],
            "epoch 2 to 1": rates[1] / rates[0],
        }

    return Contender(f"sluicegate, cache={cache!r}", make, OURS)


def _of_fixed_size() -> Any:
    import torch

    from sluicegate import transforms

    return transforms.Compose(
        [
            transforms.Resize((256, 256)),
            transforms.RandomCrop(SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(MEAN, STD),
        ]
    )


def _seconds_of(loader: Any) -> float:
    begin = time.perf_counter()
    for _batch in loader:
        pass
    return time.perf_counter() - begin


_DECODE = "libjpeg-turbo's decode alone, full size"
_DECODER = "torch + torchvision's decoder, 2 workers"
_PILLOW = "torch + Pillow, torchvision v2, 2 workers"
_OPENCV = (*TORCH, "cv2")

_JPEG = installed(
    Contender(_DECODE, _decode_alone(lambda *_: False), ("simplejpeg",), "decode alone", is_limit=True),
    Contender("its decode alone, half size where that covers", _decode_alone(_half_covers_a_crop), ("simplejpeg",)),
    Contender("its decode alone, half size", _decode_alone(lambda *_: True), ("simplejpeg",)),
    Contender("by hand, simplejpeg and OpenCV", _by_hand, (*_OPENCV, "simplejpeg")),
    Contender("torch + Pillow, torchvision v2, 0 workers", others.torchvision_pillow(0), (*VISION, "PIL")),
    Contender(_PILLOW, others.torchvision_pillow(2), (*VISION, "PIL"), "Pillow"),
    Contender("torch + torchvision's decoder, 0 workers", others.torchvision_decoder(0), (*VISION, "torchvision.io")),
    Contender(_DECODER, others.torchvision_decoder(2), (*VISION, "torchvision.io"), "torchvision's decoder"),
    Contender("torch + OpenCV, 0 workers", others.opencv(0), _OPENCV),
    Contender("torch + OpenCV, 2 workers", others.opencv(2), _OPENCV, "OpenCV"),
    Contender("SPDL, 2 threads", others.spdl, ("torch", "spdl.io")),
    Contender("DALI on CPU, 2 threads", others.dali, ("torch", "nvidia.dali")),
    Contender("FFCV, its own format, 2 threads", others.ffcv, ("torch", "ffcv")),
    Contender("Grain + OpenCV, 2 threads", others.grain, ("torch", "cv2", "grain", "grain.python")),
    Contender("mlx-data, 2 threads", others.mlx_data, ("torch", "mlx.data")),
    Contender("WebDataset + torchvision's decoder, 2 workers", others.webdataset, (*VISION, "webdataset")),
    Contender("LitData + torchvision's decoder, 2 workers", others.litdata, (*VISION, "litdata")),
    _ours("exact, 0 workers", 0, exact=True),
    _ours("exact, 2 threads", 2, exact=True),
    _ours("0 workers", 0),
    _ours("1 thread", 1),
    _ours("2 threads", 2),
    _ours("2 processes", 2, processes=True),
    _ours_of_tar("of tar archives, 2 threads", 2),
)

_PNG = installed(
    Contender("Pillow's decode alone", _decode_alone_by(_pillow_alone), ("PIL",), "Pillow alone"),
    Contender("sluicegate's decode alone", _decode_alone_by(_ours_alone), IMPORTS["sluicegate"]),
    Contender(_PILLOW, others.torchvision_pillow(2), (*VISION, "PIL"), "Pillow"),
    Contender(_DECODER, others.torchvision_decoder(2), (*VISION, "torchvision.io")),
    Contender("torch + OpenCV, 2 workers", others.opencv(2), _OPENCV),
    _ours("0 workers", 0),
    _ours("2 threads", 2),
)

WORKLOAD = Workload(
    name="w3",
    title="W3: photographs of about 500x400, random crops of 224x224 as normalized floats, page cache warm",
    measure=measure,
    tables=tables,
    prepare=_prepare,
    cases=()
    if photographs.missing()
    else (
        Case(
            name="jpeg",
            title=f"{photographs.COUNT:,} JPEG files, quality {photographs.QUALITY}, 4:2:0; batches of {BATCH_SIZE}",
            open=photographs.JPEG.read_once,
            samples=photographs.COUNT,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=_JPEG,
        ),
        Case(
            name="png",
            title=f"{photographs.PNG_COUNT:,} PNG files; batches of {BATCH_SIZE}",
            open=photographs.PNG.read_once,
            samples=photographs.PNG_COUNT,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=_PNG,
        ),
        Case(
            name="cache",
            title=f"decoded images kept: {photographs.COUNT:,} JPEG files resized to 256x256, then cropped; 2 threads",
            contenders=(_cached("memory"), _cached("disk")),
        ),
    ),
)
