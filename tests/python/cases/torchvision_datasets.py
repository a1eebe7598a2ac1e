"""torchvision's datasets of random images in memory, and random pipelines of its transforms for them."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import torch
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

from .pillow_steps import random_erasing, random_order, random_step
from .tensor_steps import random_resize

ARRAYS = ("CIFAR10", "CIFAR100")
TENSORS = ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST")
OTHERS = ("SVHN", "STL10", "USPS", "SEMEION")
CLASSES = (*ARRAYS, *TENSORS, *OTHERS)
PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


def channels_of(name: str) -> int:
    """Return the number of channels of the images of a class."""
    return 3 if name in (*ARRAYS, "SVHN", "STL10", "FakeData") else 1


def made(name: str, transform: Any, *, size: int = 40, height: int = 9, width: int = 11, seed: int = 0) -> Any:
    """Return a dataset of this class as its constructor leaves it, without files: `size` random images."""
    if name == "FakeData":
        return datasets.FakeData(size, (3, height, width), 10, transform, random_offset=seed)
    values = np.random.RandomState(seed)
    cls = getattr(datasets, name)
    dataset = cls.__new__(cls)
    datasets.VisionDataset.__init__(dataset, "no-such-folder", transform=transform)
    planes = values.randint(0, 256, (size, 3, height, width), dtype=np.uint8)
    if seed % 2:
        planes = _smooth(planes)
    labels = values.randint(0, 10, size)
    if name in ARRAYS:
        dataset.data, dataset.targets = planes.transpose(0, 2, 3, 1), labels.tolist()
    elif name in TENSORS:
        dataset.data = torch.from_numpy(planes[:, 0].copy())
        dataset.targets = torch.from_numpy(labels)
        if name == "QMNIST":
            dataset.compat = True
            dataset.targets = torch.stack([dataset.targets] * 8, 1).contiguous()
    elif name == "USPS":
        dataset.data, dataset.targets = planes[:, 0].copy(), labels.tolist()
    elif name == "SEMEION":
        dataset.data, dataset.labels = planes[:, 0].copy(), labels
    else:
        dataset.data, dataset.labels = planes, labels.astype(np.uint8 if name == "STL10" else np.int64)
    return dataset


def _smooth(planes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return smooth images, like photographs, some without colors."""
    sums = np.cumsum(np.cumsum(planes.astype(np.int64) - 128, axis=2), axis=3)
    smooth = (sums // 4 + 128).clip(0, 255).astype(np.uint8)
    smooth[::5] = smooth[::5, :1]
    return smooth


class Pipelines:
    """Random pipelines that return tensors of one shape and type.

    Args:
        draw: the generator.
        channels: the number of channels of the images.
        size: the height and the width of the images.
    """

    def __init__(self, draw: random.Random, channels: int, size: tuple[int, int]) -> None:
        self._draw = draw
        self._channels = channels
        self._size = size

    def draw(self) -> Any:
        """Return a pipeline in which every step is recognized."""
        draw = self._draw
        steps = [self._of_pillow() for _ in range(draw.randint(0, 3))]
        steps += self._to_tensor()
        steps += [self._move(is_pillow=False) for _ in range(draw.choice((0, 0, 1)))]
        if draw.random() < 0.7 and steps[-1] is not None and self._is_float:
            steps.append(self._normalize())
        steps += self._erasing()
        if draw.random() < 0.3:
            steps.append(draw.choice((v1, v2)).CenterCrop(draw.randint(1, 12)))
        return self._nested(steps)

    def unrecognized(self) -> Any:
        """Return a pipeline with a step that only Python runs."""
        draw = self._draw
        steps = [v1.ToTensor()]
        step = draw.choice((v1.Lambda(_same), v2.GaussianBlur(3), v1.RandomOrder([v1.Lambda(_same)])))
        steps.insert(0, step)
        return v1.Compose(steps)

    def _nested(self, steps: list[Any]) -> Any:
        draw = self._draw
        if len(steps) > 2 and draw.random() < 0.3:
            cut = draw.randint(1, len(steps) - 1)
            steps = [draw.choice((v1, v2)).Compose(steps[:cut]), *steps[cut:]]
        if all(isinstance(step, torch.nn.Module) for step in steps) and draw.random() < 0.5:
            return torch.nn.Sequential(*steps)
        return draw.choice((v1, v2)).Compose(steps)

    def _of_pillow(self) -> Any:
        """Return a step for Pillow images: color steps and rotations are as likely as geometric ones."""
        draw = self._draw
        choice, kind = draw.random(), draw.choice((v1, v2))
        if choice < 0.5:
            return self._move(is_pillow=True)
        if choice < 0.85:
            return random_step(draw, kind, self._channels)
        if choice < 0.9:
            steps = [random_step(draw, kind, self._channels), kind.RandomHorizontalFlip()]
            return draw.choice((kind.RandomApply, kind.Compose))(steps)
        if choice < 0.95:
            return random_order(draw, self._channels)
        self._channels = draw.choice((1, 3))
        return v2.RGB() if self._channels == 3 and draw.random() < 0.5 else kind.Grayscale(self._channels)

    def _erasing(self) -> list[Any]:
        """Return, about one time in three, a step that erases part of the image, if its values are floats."""
        draw = self._draw
        if not self._is_float or draw.random() < 0.7:
            return []
        return [random_erasing(draw, draw.choice((v1, v2)), self._channels)]

    def _move(self, *, is_pillow: bool) -> Any:
        draw = self._draw
        kind = draw.choice((v1, v2))
        choice = draw.random()
        if choice < 0.25:
            return kind.RandomHorizontalFlip(draw.choice((0.0, 0.5, 0.5, 0.3, 1.0)))
        if choice < 0.4:
            return kind.RandomVerticalFlip(draw.choice((0.5, 0.1)))
        if choice < 0.5:
            return kind.CenterCrop(draw.choice((7, 9, 14, (8, 5), (3, 13))))
        if choice < 0.6:
            flips = [kind.RandomHorizontalFlip(), kind.RandomVerticalFlip(0.2)]
            return kind.RandomApply(draw.choice((flips, flips[:1])), p=draw.choice((0.0, 0.4, 1.0)))
        # Reflected padding may not exceed the size of the image, whatever the earlier steps made of it.
        mode = draw.choice(PADDING_MODES)
        most = 4 if mode in ("constant", "edge") else 2
        padding = draw.choice((most, [most, 1], (0, 1, most, 2)))
        fill = self._fill(is_pillow=is_pillow) if mode == "constant" else 0
        if choice < 0.75:
            return kind.Pad(padding, fill=fill, padding_mode=mode)
        is_v1_mirror = kind is v1 and mode != "constant"
        return kind.RandomCrop(
            draw.choice((3, 4, (3, 4))),
            padding=draw.choice((None, padding)),
            pad_if_needed=not is_v1_mirror and draw.random() < 0.2,
            fill=fill,
            padding_mode=mode,
        )

    def _fill(self, *, is_pillow: bool) -> Any:
        draw = self._draw
        if is_pillow and self._channels == 3 and draw.random() < 0.2:
            return (1, 20, 255)
        return draw.choice((0, 0, 0, 255, 7))

    def _to_tensor(self) -> list[Any]:
        draw = self._draw
        choice = draw.randint(0, 5)
        self._is_float = choice != 5
        if choice < 2:
            return [v1.ToTensor()]
        if choice == 2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [v2.ToTensor()]
        to_tensor = [draw.choice((v1.PILToTensor, v2.PILToTensor, v2.ToImage))()]
        if draw.random() < 0.3:
            to_tensor += random_resize(draw, draw.choice((9, (6, 13), [17, 4])))
        if self._channels == 1 and draw.random() < 0.3:
            self._channels = 3
            to_tensor.append(draw.choice((v2.RGB(), v2.Grayscale(3))))
        if choice == 5:
            return to_tensor
        scaled = (v2.ToDtype(torch.float32, scale=draw.random() < 0.7), v2.ConvertImageDtype(torch.float32))
        return [*to_tensor, draw.choice((*scaled, v1.ConvertImageDtype(torch.float32)))]

    def _normalize(self) -> Any:
        draw = self._draw
        kind, count = draw.choice((v1, v2)), draw.choice((1, self._channels))
        mean, std = [draw.random() for _ in range(count)], [draw.uniform(0.1, 2.0) for _ in range(count)]
        return kind.Normalize(mean, std, inplace=draw.random() < 0.3)


def _same(image: Any) -> Any:
    return image
