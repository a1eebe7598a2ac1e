"""A folder of photographs for W3: JPEG files of natural content, all different, each in its own folder.

They are crops of the few photographs that come with scikit-image and scikit-learn, possibly mirrored, in different
colors and sizes, with the grain of a sensor. The number of the folder, which is the class, identifies the photograph.
Loaders that list files (torchvision's ImageFolder and ours) list one folder per photograph before the first batch.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from machine import CACHE

COUNT = 5_000
PNG_COUNT = 500  # the first photographs again, lossless
SHARD_BYTES = 40_000_000
QUALITY = 90
GRAIN = 3.0  # standard deviation in gray levels, as of sensors; upscaled crops have lost it

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Photographs:
    """A folder of photographs."""

    root: Path
    extension: str
    count: int

    def path(self, index: int) -> Path:
        """Return the file of a photograph."""
        return self.root / f"{index:05}" / f"photograph.{self.extension}"

    def paths(self) -> list[str]:
        """Return all files, in order."""
        return [str(self.path(index)) for index in range(self.count)]

    def encoded(self) -> list[bytes]:
        """Return the bytes of all files."""
        return [self.path(index).read_bytes() for index in range(self.count)]

    def colors(self) -> npt.NDArray[np.float32]:
        """Return the least, mean, and greatest of each photograph's colors, in gray levels: shape (count, 3, 3)."""
        found: npt.NDArray[np.float32] = np.load(self.root.with_suffix(".colors.npy"))
        return found

    def read_once(self) -> Photographs:
        """Read all files, so that all contenders find them in the page cache."""
        for index in range(self.count):
            self.path(index).read_bytes()
        return self


JPEG = Photographs(CACHE / f"photographs-{COUNT}", "jpg", COUNT)
PNG = Photographs(CACHE / f"photographs-{PNG_COUNT}-png", "png", PNG_COUNT)


_TAR = CACHE / f"w3-{COUNT}-tar"


def shards() -> list[str]:
    """Return the tar archives of the JPEG files, whose samples are `jpg` and `cls`."""
    return sorted(map(str, _TAR.glob("*.tar")))


def make_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Have `write` fill a folder that gets its name once it is complete."""
    if folder.exists():
        return
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    unfinished.rename(folder)


def missing() -> list[str]:
    """Return the missing packages that photographs are made with; none if the photographs exist."""
    needed = () if JPEG.root.exists() else ("PIL", "skimage", "sklearn")
    return [name for name in needed if importlib.util.find_spec(name) is None]


def prepare() -> None:
    """Make the photographs if they are missing."""
    make_whole(JPEG.root, _write_jpeg)
    make_whole(PNG.root, _write_png)
    make_whole(_TAR, _write_tar)


def _write_jpeg(folder: Path) -> None:
    sources = _sources()
    generator = np.random.default_rng(3)
    colors = np.empty((COUNT, 3, 3), np.float32)
    for index in range(COUNT):
        pixels = _photograph(sources[index % len(sources)], generator)
        colors[index] = _colors(pixels)
        _save(pixels, folder / f"{index:05}" / "photograph.jpg", quality=QUALITY, subsampling="4:2:0")
    np.save(JPEG.root.with_suffix(".colors.npy"), colors)


def _write_png(folder: Path) -> None:
    from PIL import Image

    for index in range(PNG_COUNT):
        with Image.open(JPEG.path(index)) as image:
            _save(np.asarray(image), folder / f"{index:05}" / "photograph.png")
    np.save(PNG.root.with_suffix(".colors.npy"), JPEG.colors()[:PNG_COUNT])


def _write_tar(folder: Path) -> None:
    from sluicegate import write_tar

    samples = ({"__key__": f"{i:05}", "jpg": JPEG.path(i).read_bytes(), "cls": i} for i in range(COUNT))
    write_tar(list(samples), folder / "{:02d}.tar", shard_bytes=SHARD_BYTES)


def _sources() -> list[Bytes]:
    """Return photographs of a person, animals, a landscape, still life, and technology."""
    import skimage.data
    from sklearn.datasets import load_sample_images

    left, right, _disparity = skimage.data.stereo_motorcycle()
    data = skimage.data
    return [data.astronaut(), data.chelsea(), data.coffee(), data.rocket(), left, right, *load_sample_images().images]


def _photograph(source: Bytes, generator: np.random.Generator) -> Bytes:
    from PIL import Image

    width, height = np.clip(generator.normal((500, 400), (40, 32)), (380, 300), (640, 512)).astype(int)
    share = generator.uniform(0.6, 1.0)
    side = share * min(source.shape[1] / width, source.shape[0] / height)
    left = generator.uniform(0, source.shape[1] - side * width)
    top = generator.uniform(0, source.shape[0] - side * height)
    box = (left, top, left + side * width, top + side * height)
    image = Image.fromarray(source).resize((width, height), Image.Resampling.BICUBIC, box)
    pixels = np.asarray(image, np.float32)
    if generator.random() < 0.5:
        pixels = pixels[:, ::-1]
    pixels = pixels * generator.uniform(0.75, 1.15, 3).astype(np.float32)
    pixels = pixels + GRAIN * generator.standard_normal((height, width, 1), np.float32)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _colors(pixels: Bytes) -> npt.NDArray[np.float32]:
    flat = pixels.reshape(-1, 3).astype(np.float32)
    return np.stack([flat.min(0), flat.mean(0), flat.max(0)])


def _save(pixels: Bytes, path: Path, **options: Any) -> None:
    from PIL import Image

    path.parent.mkdir()
    Image.fromarray(pixels).save(path, **options)


def assert_is_of(images: npt.NDArray[np.float32], colors: npt.NDArray[np.float32]) -> None:
    """Assert that crops, in gray levels of shape (batch, 3, height, width), have the colors of their photographs."""
    means = images.mean((2, 3))
    margin = 3.0  # the loss of JPEG, and overshoot of a kernel with negative weights
    inside = (means > colors[:, 0] - margin) & (means < colors[:, 2] + margin)
    assert inside.all(), "an image has other colors than its photograph"
    difference = np.abs(means - colors[:, 1]).mean()
    assert difference < 25, f"images differ from their photographs by {difference:.0f} gray levels in the mean"
    assert images.std((2, 3)).mean() > 15, "images have no content"
