"""torchvision's datasets of image files, on disk where their constructors find them, with small images of all kinds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.io
import torch
from torchvision import datasets
from torchvision.datasets.folder import default_loader, pil_loader

from .image_folders import KINDS, image_file

# Datasets that leave images as they are. Most images are in color, because a batch of several modes is an error.
AS_THEY_ARE = ("Caltech101", "Caltech256", "INaturalist", "CelebA")


class Files:
    """A folder that gets `count` images.

    Args:
        root: the folder.
        draw: the generator for sizes, kinds, and labels.
        count: the number of images.
        kinds: the kinds of files.
    """

    def __init__(self, root: Path, draw: random.Random, count: int, kinds: tuple[str, ...]) -> None:
        self.root, self.draw, self.count, self._kinds = root, draw, count, kinds
        self.paths: list[Path] = []

    def write(self, *path: str) -> Path:
        """Write an image to a file at this path, whatever its suffix, and return the path."""
        draw = self.draw
        target = self.root.joinpath(*path)
        target.parent.mkdir(parents=True, exist_ok=True)
        size = (draw.randint(10, 70), draw.randint(10, 70))
        image_file(self.root / "written", draw.choice(self._kinds), draw, size).rename(target)
        self.paths.append(target)
        return target

    def text(self, *path: str, lines: list[str]) -> None:
        """Write lines of text."""
        target = self.root.joinpath(*path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines))

    def labels(self, count: int = 3) -> list[int]:
        """Return a label for each image; every label occurs."""
        labels = [each % count for each in range(self.count)]
        self.draw.shuffle(labels)
        return labels

    def in_folders(self, *path: str, names: tuple[str, ...] = ("ape", "bee", "cow"), end: str = ".jpg") -> None:
        """Write images into one folder per class."""
        for number, label in enumerate(self.labels(len(names))):
            self.write(*path, names[label], f"{number:04}{end}")


def _dataset_folder(files: Files) -> Any:
    files.in_folders()
    return datasets.DatasetFolder(str(files.root), files.draw.choice((default_loader, pil_loader)), (".jpg",))


def _image_folder(files: Files) -> Any:
    files.in_folders()
    return datasets.ImageFolder(files.root)


def _imagenet(files: Files) -> Any:
    files.in_folders("train", names=("n01", "n02"), end=".JPEG")
    torch.save(({"n01": ("an ape",), "n02": ("a bee", "bee")}, ["n01"]), files.root / "meta.bin")
    return datasets.ImageNet(str(files.root))


def _eurosat(files: Files) -> Any:
    files.in_folders("eurosat", "2750")
    return datasets.EuroSAT(files.root)


def _country211(files: Files) -> Any:
    files.in_folders("country211", "train")
    return datasets.Country211(files.root)


def _rendered_sst2(files: Files) -> Any:
    files.in_folders("rendered-sst2", "train", names=("negative", "positive"), end=".png")
    return datasets.RenderedSST2(files.root)


def _imagenette(files: Files) -> Any:
    files.in_folders("imagenette2", "train", names=("n01440764", "n03888257"), end=".jpeg")
    return datasets.Imagenette(files.root)


def _gtsrb(files: Files) -> Any:
    files.in_folders("gtsrb", "GTSRB", "Training", names=("00000", "00001"), end=".ppm")
    return datasets.GTSRB(files.root)


def _stanford_cars(files: Files) -> Any:
    rows = []
    for number, label in enumerate(files.labels()):
        name = f"{number:05}.jpg"
        files.write("stanford_cars", "cars_train", name)
        rows.append((np.uint8(label + 1), name))
    devkit = files.root / "stanford_cars" / "devkit"
    devkit.mkdir()
    fields = np.array(rows, dtype=[("class", object), ("fname", object)])
    scipy.io.savemat(devkit / "cars_train_annos.mat", {"annotations": fields})
    scipy.io.savemat(devkit / "cars_meta.mat", {"class_names": np.array(["a", "b", "c"], dtype=object)})
    return datasets.StanfordCars(files.root)


def _places365(files: Files) -> Any:
    files.text("categories_places365.txt", lines=["/a/ape 0", "/b/bee 1", "/c/cow 2"])
    names = [f"/x/{number:08}.jpg" for number in range(files.count)]
    lines = [f"{name} {label}" for name, label in zip(names, files.labels(), strict=True)]
    files.text("places365_train_standard.txt", lines=lines)
    for name in names:
        files.write("data_256_standard", name.lstrip("/"))
    with mock.patch.object(datasets.Places365, "_check_integrity", return_value=True):
        return datasets.Places365(files.root, small=True)


def _food101(files: Files) -> Any:
    names: dict[str, list[str]] = {"pie": [], "soup": []}
    for number, label in enumerate(files.labels(2)):
        name = sorted(names)[label]
        names[name].append(f"{name}/{number}")
        files.write("food-101", "images", name, f"{number}.jpg")
    files.text("food-101", "meta", "train.json", lines=[json.dumps(names)])
    return datasets.Food101(files.root)


def _dtd(files: Files) -> Any:
    lines = [f"{('dotted', 'lined')[label]}/{number}.jpg" for number, label in enumerate(files.labels(2))]
    files.text("dtd", "dtd", "labels", "train1.txt", lines=lines)
    for line in lines:
        files.write("dtd", "dtd", "images", line)
    return datasets.DTD(files.root)


def _fgvc_aircraft(files: Files) -> Any:
    data, names = ("fgvc-aircraft-2013b", "data"), ("A 380", "DC-3")
    files.text(*data, "variants.txt", lines=list(names))
    lines = [f"{number:07} {names[label]}" for number, label in enumerate(files.labels(2))]
    files.text(*data, "images_variant_trainval.txt", lines=lines)
    for line in lines:
        files.write(*data, "images", f"{line[:7]}.jpg")
    return datasets.FGVCAircraft(files.root)


def _flowers102(files: Files) -> Any:
    folder = files.root / "flowers-102"
    for number in range(1, files.count + 1):
        files.write("flowers-102", "jpg", f"image_{number:05}.jpg")
    scipy.io.savemat(folder / "imagelabels.mat", {"labels": np.array(files.labels(), np.uint8) + 1})
    scipy.io.savemat(folder / "setid.mat", {"trnid": np.arange(1, files.count + 1)})
    with mock.patch.object(datasets.Flowers102, "_check_integrity", return_value=True):
        return datasets.Flowers102(files.root)


def _sun397(files: Files) -> Any:
    files.text("SUN397", "ClassName.txt", lines=["/a/abbey", "/b/bar/indoor"])
    for number, label in enumerate(files.labels(2)):
        files.write("SUN397", *(("a", "abbey"), ("b", "bar", "indoor"))[label], f"sun_{number}.jpg")
    return datasets.SUN397(files.root)


def _clevr(files: Files) -> Any:
    folder = ("clevr", "CLEVR_v1.0")
    scenes = []
    for number, label in enumerate(files.labels()):
        files.write(*folder, "images", "train", f"{number}.png")
        scenes.append({"image_filename": f"{number}.png", "objects": [None] * label})
    files.text(*folder, "scenes", "CLEVR_train_scenes.json", lines=[json.dumps({"scenes": scenes})])
    return datasets.CLEVRClassification(files.root)


def _lfw_people(files: Files) -> Any:
    files.text("lfw-py", "lfw-names.txt", lines=["Ann\t1", "Bob\t1"])
    counts = [files.count // 2, files.count - files.count // 2]
    people = [f"{name}\t{count}" for name, count in zip(("Ann", "Bob"), counts, strict=True)]
    files.text("lfw-py", "peopleDevTrain.txt", lines=["2", *people])
    for name, count in zip(("Ann", "Bob"), counts, strict=True):
        for number in range(1, count + 1):
            files.write("lfw-py", "lfw_funneled", name, f"{name}_{number:04}.jpg")
    with mock.patch.object(datasets.LFWPeople, "_check_integrity", return_value=True):
        return datasets.LFWPeople(str(files.root), split="train")


def _oxford_pet(files: Files) -> Any:
    lines = []
    for number, label in enumerate(files.labels()):
        lines.append(f"{('Abys', 'beagle', 'boxer')[label]}_{number} {label + 1} {1 + (label > 0)} 1")
        files.write("oxford-iiit-pet", "images", f"{lines[-1].split()[0]}.jpg")
    files.text("oxford-iiit-pet", "annotations", "trainval.txt", lines=lines)
    types = files.draw.choice(("category", "binary-category", ["category"]))
    return datasets.OxfordIIITPet(files.root, target_types=types)


def _caltech101(files: Files) -> Any:
    folder, counts = ("caltech101", "101_ObjectCategories"), [0, 0]
    (files.root.joinpath(*folder) / "BACKGROUND_Google").mkdir(parents=True)
    for label in files.labels(2):
        counts[label] += 1
        files.write(*folder, ("Faces", "ant")[label], f"image_{counts[label]:04}.jpg")
    return datasets.Caltech101(files.root)


def _caltech256(files: Files) -> Any:
    counts = [0, 0]
    for label in files.labels(2):
        counts[label] += 1
        folder = ("001.ak47", "002.flag")[label]
        files.write("caltech256", "256_ObjectCategories", folder, f"{label + 1:03}_{counts[label]:04}.jpg")
    return datasets.Caltech256(str(files.root))


def _inaturalist(files: Files) -> Any:
    names = ("00000_A_B_C_D_E_F_g", "00001_A_B_C_D_E_F_h")
    files.in_folders("2021_train", names=names)
    return datasets.INaturalist(files.root, loader=files.draw.choice((None, default_loader)))


def _celeba(files: Files) -> Any:
    names = [f"{number:06}.jpg" for number in range(files.count)]
    for name in names:
        files.write("celeba", "img_align_celeba", name)
    draw = files.draw
    numbers = [" ".join(str(draw.choice((-1, 1))) for _ in range(40)) for _ in names]
    header = [str(files.count), " ".join(f"n{each}" for each in range(40))]

    def table(name: str, values: list[Any], head: list[str]) -> None:
        lines = head + [f"{each} {value}" for each, value in zip(names, values, strict=True)]
        files.text("celeba", name, lines=lines)

    table("list_eval_partition.txt", [0] * files.count, [])
    table("identity_CelebA.txt", [draw.randint(1, 9) for _ in names], [])
    table("list_bbox_celeba.txt", ["1 2 3 4"] * files.count, header)
    table("list_landmarks_align_celeba.txt", ["1 2"] * files.count, header)
    table("list_attr_celeba.txt", numbers, header)
    with mock.patch.object(datasets.CelebA, "_check_integrity", return_value=True):
        return datasets.CelebA(files.root, target_type=draw.choice(("attr", "identity")))


_MAKERS: dict[str, Callable[[Files], Any]] = {
    "DatasetFolder": _dataset_folder,
    "ImageFolder": _image_folder,
    "ImageNet": _imagenet,
    "EuroSAT": _eurosat,
    "Country211": _country211,
    "StanfordCars": _stanford_cars,
    "RenderedSST2": _rendered_sst2,
    "Imagenette": _imagenette,
    "GTSRB": _gtsrb,
    "Places365": _places365,
    "Food101": _food101,
    "DTD": _dtd,
    "FGVCAircraft": _fgvc_aircraft,
    "Flowers102": _flowers102,
    "SUN397": _sun397,
    "CLEVRClassification": _clevr,
    "LFWPeople": _lfw_people,
    "OxfordIIITPet": _oxford_pet,
    "Caltech101": _caltech101,
    "Caltech256": _caltech256,
    "INaturalist": _inaturalist,
    "CelebA": _celeba,
}
LISTS = tuple(_MAKERS)


def image_list(
    name: str, root: Path, draw: random.Random, count: int, kinds: tuple[str, ...] = tuple(KINDS)
) -> tuple[Any, list[Path]]:
    """Write `count` files below `root`, and return torchvision's dataset, without a transform, and their paths."""
    if name in AS_THEY_ARE:
        kinds = tuple(kind for kind in kinds if KINDS[kind][1] == "RGB")
    files = Files(root, draw, count, kinds)
    root.mkdir(parents=True, exist_ok=True)
    return _MAKERS[name](files), files.paths


def set_transforms(dataset: Any, transform: Any, target_transform: Any = None) -> None:
    """Set the transforms of a dataset as its constructor would."""
    separate = transform is not None or target_transform is not None
    dataset.transform, dataset.target_transform = transform, target_transform
    dataset.transforms = datasets.vision.StandardTransform(transform, target_transform) if separate else None


def setting(**attributes: Any) -> Callable[[Any], None]:
    """Return a function that sets these attributes of a dataset."""

    def change(dataset: Any) -> None:
        for name, value in attributes.items():
            setattr(dataset, name, value)

    return change
