"""Training scripts as users write them, with only the import changed.

Torchvision's datasets and transforms, Hugging Face's tables with functions that pad, and Python datasets.

The batches of both loaders are compared by a digest: the same seed gives the same batches.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import photographs
import script_collators
import script_datasets
import throughput
from loaders import IMPORTS, contender
from photographs import Photographs
from protocol import Case, Contender, Metrics, Standings, Turn, Workload
from report import Table

SAMPLES = 20_000
DIGESTED = 20  # batches


@dataclass(frozen=True)
class Images:
    """Random images in memory, labeled with their index."""

    pixels: npt.NDArray[np.uint8]


def _cifar10_images() -> Images:
    return Images(np.random.default_rng(3).integers(0, 256, (SAMPLES, 3, 32, 32), np.uint8))


def _mnist_images() -> Images:
    return Images(np.random.default_rng(4).integers(0, 256, (SAMPLES, 28, 28), np.uint8))


def _of_torchvision(name: str, transform: Any) -> Any:
    """Return the dataset as its constructor leaves it, without downloading its files."""
    from torchvision import datasets

    cls = getattr(datasets, name)
    dataset = cls.__new__(cls)
    datasets.VisionDataset.__init__(dataset, "", transform=transform)
    return dataset


def _cifar10(source: Images) -> Any:
    from torchvision import transforms

    transform = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        ]
    )
    dataset = _of_torchvision("CIFAR10", transform)
    dataset.data, dataset.targets = source.pixels.transpose(0, 2, 3, 1), list(range(SAMPLES))
    return dataset


def _mnist(source: Images) -> Any:
    import torch
    from torchvision import transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    dataset = _of_torchvision("MNIST", transform)
    dataset.data, dataset.targets = torch.from_numpy(source.pixels), torch.arange(SAMPLES)
    return dataset


_SIDE = 224
_FAKE = 2_000  # samples
_LABELS = (1 << 28) - 1  # So many that no two samples have the same.


@dataclass(frozen=True)
class Labels:
    """The labels of fake images, by which samples are known."""

    labels: npt.NDArray[np.int64]


def _fake_labels() -> Labels:
    dataset = _fake(None)
    labels = np.array([dataset[index][1] for index in range(_FAKE)], np.int64)
    assert len(np.unique(labels)) == _FAKE, "two fake images have the same label"
    return Labels(labels)


def _fake(_: Labels | None) -> Any:
    from torchvision import datasets, transforms

    return datasets.FakeData(_FAKE, (3, _SIDE, _SIDE), _LABELS, transforms.ToTensor())


def _check_fake(source: Labels, batch: Any) -> npt.NDArray[np.int64]:
    images, labels = batch
    assert tuple(images.shape) == (len(labels), 3, _SIDE, _SIDE), f"shape {images.shape}"
    order = np.argsort(source.labels)
    ids: npt.NDArray[np.int64] = order[np.searchsorted(source.labels, labels.numpy(), sorter=order)]
    return ids


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _folder_random(source: Photographs) -> Any:
    import torch
    from torchvision import datasets
    from torchvision.transforms import v2

    steps = [
        *(v2.RandomResizedCrop(_SIDE), v2.RandomHorizontalFlip(), v2.ToImage()),
        *(v2.ToDtype(torch.float32, scale=True), v2.Normalize(_MEAN, _STD)),
    ]
    return datasets.ImageFolder(str(source.root), v2.Compose(steps))


def _folder_eval(source: Photographs) -> Any:
    from torchvision import datasets, transforms

    steps = [
        *(transforms.Resize(256), transforms.CenterCrop(_SIDE)),
        *(transforms.ToTensor(), transforms.Normalize(_MEAN, _STD)),
    ]
    return datasets.ImageFolder(str(source.root), transforms.Compose(steps))


def _own_step(image: Any) -> Any:
    """A step that only Python can run."""
    return image


def _folder_own_step(source: Photographs) -> Any:
    from torchvision import datasets, transforms

    steps = [
        *(transforms.RandomResizedCrop(_SIDE), transforms.RandomHorizontalFlip(), _own_step),
        *(transforms.ToTensor(), transforms.Normalize(_MEAN, _STD)),
    ]
    return datasets.ImageFolder(str(source.root), transforms.Compose(steps))


def _own_collate(samples: list[Any]) -> Any:
    import torch

    images, labels = zip(*samples, strict=True)
    return torch.stack(images), torch.tensor(labels)


def _check_folder(source: Photographs, batch: Any) -> npt.NDArray[np.int64]:
    images, labels = batch
    assert tuple(images.shape) == (len(labels), 3, _SIDE, _SIDE), f"shape {images.shape}"
    ids: npt.NDArray[np.int64] = labels.numpy()  # each file is its own class
    return ids


def _check(source: Images, batch: Any) -> npt.NDArray[np.int64]:
    images, labels = batch
    shape = source.pixels.shape[1:]
    assert tuple(images.shape) == (len(labels), *((1, *shape) if len(shape) == 2 else shape)), f"shape {images.shape}"
    ids: npt.NDArray[np.int64] = labels.numpy()
    return ids


def _parts(value: Any) -> Iterator[bytes]:
    """Yield the parts of `value`, a batch or a part of one."""
    import torch

    if isinstance(value, torch.Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode() + value.numpy().tobytes()
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key).encode()
            yield from _parts(part)
    elif isinstance(value, (list, tuple)):
        yield type(value).__name__.encode()
        for part in value:
            yield from _parts(part)
    else:
        yield repr(value).encode()


def _digest(case: Case, one: Contender) -> float:
    """Return a digest of the first batches of an epoch, as a number."""
    import torch

    torch.manual_seed(7)
    digest = hashlib.sha256()
    for number, batch in enumerate(one.make(case.open())()):
        for part in _parts(batch):
            digest.update(part)
        if number == DIGESTED:
            break
    return float(int.from_bytes(digest.digest()[:6], "big"))


def measure(case: Case, one: Contender, turn: Turn) -> Metrics:
    """Return the rate and the digest."""
    return throughput.measure(case, one, turn) | {"digest": _digest(case, one)}


def tables(case: Case, standings: Standings) -> list[Table]:
    """Return the rates; a loader whose batches differ from torch's has failed."""
    for workers in (0, 2):
        ours, torchs = (f"{package}, {workers} workers" for package in ("sluicegate", "torch"))
        if throughput.median(standings, ours, "digest") != throughput.median(standings, torchs, "digest"):
            standings[ours].failure = standings[ours].failure or "its batches are not torch's"
    return throughput.tables(case, standings)


def _case(
    name: str,
    title: str,
    make_source: Any,
    dataset: Any,
    batch_size: int,
    *,
    samples: int = SAMPLES,
    check: Any = _check,
    collate: Any = None,
    imports: tuple[str, ...] = ("torchvision", "torchvision.transforms"),
) -> Case:
    def of(package: str, workers: int) -> Contender:
        column = f"torch, {workers} workers" if package == "torch" else None
        made = contender(package, dataset, workers, column=column, collate=collate, batch_size=batch_size)
        return Contender(made.name, made.make, (*IMPORTS[package], *imports), column)

    return Case(
        name=name,
        title=title,
        open=make_source,
        samples=samples,
        batch_size=batch_size,
        check=check,
        contenders=tuple(of(package, workers) for workers in (0, 2) for package in ("torch", "sluicegate")),
    )


def _given(collate: Any, _: Any) -> Any:
    return collate


_FOLDERS = (
    _case(
        "folder",
        "ImageFolder, v2 RandomResizedCrop(224), RandomHorizontalFlip, ToImage, ToDtype, Normalize; batches of 64",
        photographs.JPEG.read_once,
        _folder_random,
        64,
        samples=photographs.COUNT,
        check=_check_folder,
    ),
    _case(
        "folder-eval",
        "ImageFolder, Resize(256), CenterCrop(224), ToTensor, Normalize; batches of 64",
        photographs.JPEG.read_once,
        _folder_eval,
        64,
        samples=photographs.COUNT,
        check=_check_folder,
    ),
    _case(
        "folder-own-step",
        "ImageFolder, RandomResizedCrop(224), RandomHorizontalFlip, a function, ToTensor, Normalize; batches of 64",
        photographs.JPEG.read_once,
        _folder_own_step,
        64,
        samples=photographs.COUNT,
        check=_check_folder,
    ),
    _case(
        "folder-own-collate",
        "ImageFolder, Resize(256), CenterCrop(224), ToTensor, Normalize, a function that stacks; batches of 64",
        photographs.JPEG.read_once,
        _folder_eval,
        64,
        samples=photographs.COUNT,
        check=_check_folder,
        collate=functools.partial(_given, _own_collate),
    ),
)


_COLLATED = tuple(
    _case(
        name,
        title,
        script_collators.sentences,
        script_collators.dataset,
        script_collators.BATCH_SIZE,
        samples=script_collators.SAMPLES,
        check=script_collators.check,
        collate=collate,
        imports=script_collators.IMPORTS,
    )
    for name, title, collate in (
        (
            "collator",
            f"Hugging Face Dataset of lists, DataCollatorWithPadding; batches of {script_collators.BATCH_SIZE}",
            script_collators.with_padding,
        ),
        (
            "own-collate",
            f"Hugging Face Dataset of lists, a function that pads; batches of {script_collators.BATCH_SIZE}",
            script_collators.own,
        ),
    )
)


_IN_PYTHON = tuple(
    _case(
        script.name,
        script.title,
        script_datasets.source(script),
        script.dataset,
        script.batch_size,
        samples=script.samples,
        check=script.check,
        collate=None if script.collate is None else functools.partial(_given, script.collate),
        imports=("numpy", *(("pandas",) if script.name == "pandas" else ())),
    )
    for script in script_datasets.SCRIPTS
)


def _prepare() -> None:
    script_datasets.prepare()
    if missing := photographs.missing():
        print(f"scripts: ImageFolder left out: no photographs without {', '.join(missing)}", file=sys.stderr)
        return
    photographs.prepare()


WORKLOAD = Workload(
    name="scripts",
    title="Scripts, with only the import changed",
    measure=measure,
    tables=tables,
    cases=(
        _case(
            "cifar10",
            "CIFAR10, RandomCrop(32, padding=4), RandomHorizontalFlip, ToTensor, Normalize; batches of 128",
            _cifar10_images,
            _cifar10,
            128,
        ),
        _case("mnist", "MNIST, ToTensor, Normalize; batches of 64", _mnist_images, _mnist, 64),
        _case(
            "fake",
            "FakeData of 3 x 224 x 224, ToTensor; batches of 64",
            _fake_labels,
            _fake,
            64,
            samples=_FAKE,
            check=_check_fake,
        ),
        *(() if photographs.missing() else _FOLDERS),
        *(() if script_collators.missing() else _COLLATED),
        *_IN_PYTHON,
    ),
    prepare=_prepare,
)
