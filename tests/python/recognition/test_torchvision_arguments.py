"""torchvision's transforms with arguments as scripts compute them, or change them later."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import StackDataset

import sluicegate
from checks import epochs
from checks.equality import assert_same

pytest.importorskip("torchvision")

from PIL import Image, PngImagePlugin
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

from cases.image_folders import image_folder
from cases.torchvision_datasets import made

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.leaves_files_open,
]

assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=3)
HEIGHT, WIDTH = np.array([40, 32]) // 2


def cifar(transform: Any) -> Any:
    return made("CIFAR10", transform, height=32, width=32, size=12, seed=1)


COMPUTED: dict[str, Callable[[], Any]] = {
    "Resize": lambda: v1.Resize((HEIGHT, WIDTH)),
    "Resize of the shorter edge": lambda: v2.Compose([v2.Resize([HEIGHT], max_size=np.int64(90)), v2.CenterCrop(9)]),
    "CenterCrop": lambda: v2.CenterCrop((HEIGHT, WIDTH)),
    "RandomCrop": lambda: v1.RandomCrop((np.int32(9), np.array(8)), pad_if_needed=True),
    "RandomResizedCrop": lambda: v2.RandomResizedCrop((HEIGHT, WIDTH)),
    "Pad": lambda: v1.Compose([v1.Resize((9, 9)), v1.Pad(2, fill=3)]),
}


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("is_file", [False, True])
def test_sizes_may_be_integers_of_numpy(tmp_path: Path, name: str, is_file: bool) -> None:
    transform = v1.Compose([COMPUTED[name](), v1.ToTensor()])
    if is_file:
        image_folder(tmp_path, random.Random(1), 8, ("jpeg",))
    dataset = datasets.ImageFolder(str(tmp_path), transform) if is_file else cifar(transform)
    for num_workers in (0, 2):
        assert_as_torch(dataset, num_workers=num_workers)
    ours = [step.detach() for step, _ in sluicegate.DataLoader(dataset, batch_size=None)]
    assert len(ours) == len(dataset)


@pytest.mark.parametrize(
    "step",
    [
        v1.Resize((8.0, 8.0)),
        v1.Resize(2**40),
        v1.CenterCrop(-1),
        v1.CenterCrop((-3, 5)),
        v1.RandomResizedCrop(8, ratio=(0.0, 0.0)),
        v2.Resize((9, 9), max_size=20),
    ],
    ids=repr,
)
@pytest.mark.parametrize("ending", [[v1.ToTensor()], [v1.Lambda(torch.tensor), v1.ToTensor()]], ids=["", "Lambda"])
def test_wrong_arguments_raise_the_error_of_torch_with_the_first_batch(
    tmp_path: Path, step: Any, ending: list[Any]
) -> None:
    image_folder(tmp_path, random.Random(2), 4, ("jpeg",))
    transform = v1.Compose([step, *ending])
    for dataset in (datasets.ImageFolder(str(tmp_path), transform), cifar(transform)):
        errors = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            loader = kind(dataset, batch_size=2)
            repr(loader)
            with pytest.raises(Exception) as caught:
                next(iter(loader))
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


@pytest.mark.parametrize(
    "step", [v2.RandomRotation(45), v2.RandAugment(), v2.RandomCrop(40, pad_if_needed=True)], ids=repr
)
def test_a_fill_that_torchvision_ignores_is_ignored(step: Any) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        dataset = cifar(v2.Compose([v2.RandomApply([step], p=0.2), v2.Resize((8, 8)), v2.ToImage()]))
        step.fill = 200
        seen.append(epochs.seen_by(kind, dataset, batch_size=4))
    assert_same(*seen)


def test_persistent_workers_keep_the_parts_of_a_stack(tmp_path: Path) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        crop = v1.CenterCrop(8)
        stack: Any = StackDataset(cifar(v1.Compose([crop, v1.ToTensor()])), torch.arange(12))
        loader = kind(stack, batch_size=6, num_workers=2, persistent_workers=True)
        shapes = []
        for _ in range(2):
            shapes += [images.shape for (images, _), _ in loader]
            crop.size = (4, 4)
        seen.append(shapes)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("keyword", ["bbox", "interlace", "transparency", "gamma", "Comment"])
@pytest.mark.parametrize("mode", ["RGB", "P"])
def test_text_in_a_png_file_means_to_pillow_what_it_means(tmp_path: Path, keyword: str, mode: str) -> None:
    (tmp_path / "c").mkdir()
    text = PngImagePlugin.PngInfo()
    text.add_text(keyword, "x")
    Image.new("RGB", (9, 8), (7, 8, 9)).convert(mode).save(tmp_path / "c" / "0.png", pnginfo=text)
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        dataset = datasets.ImageFolder(str(tmp_path), v1.Compose([v1.CenterCrop(5), v1.PILToTensor()]))
        seen.append(epochs.seen_by(kind, dataset))
    assert_same(*seen)
