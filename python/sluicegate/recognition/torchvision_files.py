"""torchvision's datasets of image files with one label each, as the core reads them.

| class | paths | labels | opened by |
| --- | --- | --- | --- |
| `DatasetFolder`, `ImageFolder`, `ImageNet`, `EuroSAT`, `Country211` | `samples` | `samples` | `loader` |
| `StanfordCars`, `RenderedSST2`, `Imagenette` | `_samples` | `_samples` | `loader` |
| `GTSRB` | `_samples` | `_samples` | Pillow, in color |
| `Places365` | `imgs` | `imgs` | `loader` |
| `Food101`, `DTD`, `FGVCAircraft`, `Flowers102`, `SUN397` | `_image_files` | `_labels` | `loader` |
| `CLEVRClassification`, except for its test images | `_image_files` | `_labels` | `loader` |
| `LFWPeople` | `data` | `targets` | `_loader` |
| `OxfordIIITPet` with one kind of category | `_images` | `_labels` or `_bin_labels` | Pillow, in color |
| `Caltech101` with categories | `categories`, `y`, `index` | `y` | Pillow, as it is |
| `Caltech256` | `categories`, `y`, `index` | `y` | Pillow, as it is |
| `INaturalist` with full categories | `all_categories`, `index` | `index` | `loader`, or Pillow, as it is |
| `CelebA` with attributes or identities | `filename` | `attr` or `identity` | Pillow, as it is |

A `loader` must be torchvision's, which converts every file to RGB. For datasets that keep the mode of an image, the
core reads RGB files, and a batch with any other mode is made in Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.transforms.recognize import NotRecognizedError

from .pillow_files import pillow_files
from .torchvision_facts import Form, loads_by_pillow
from .torchvision_labels import listed, plain, row_of


@dataclass(frozen=True)
class FileForm(Form):
    """How a class of torchvision's lists its files.

    Attributes:
        paths: returns the paths of a dataset's files.
        labels: returns their labels, as a list or a tensor with a row for each.
        loader: the name of the attribute with the function that opens them; None if Pillow does.
        converts: True if images are converted to color if there is no loader.
    """

    paths: Callable[[Any], Sequence[Any]] = list
    labels: Callable[[Any], Any] = list
    loader: str | None = "loader"
    converts: bool = True


def file_labels(dataset: Any, form: FileForm, *, copies: bool, is_transformed: bool) -> torch.Tensor:
    """Return the labels of `dataset`: a copy, or the memory of a tensor itself.

    Args:
        dataset: one of torchvision's.
        form: that of its class.
        copies: True for a copy in any case.
        is_transformed: True if they are transformed, so that they have to be of type int.

    Raises:
        NotRecognizedError: a batch can't be made of them; the message says why.
    """
    labels = form.labels(dataset)
    if type(labels) is not list:
        if is_transformed:
            raise NotRecognizedError("target_transform is called in Python: labels are tensors")
        return plain(labels, copies=copies)
    return listed(labels, (int,)) if is_transformed else listed(labels)


def file_parts(
    dataset: Any, form: FileForm, transform: Any, labels: torch.Tensor, folder: str | None
) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Return the parts that the core reads in place of `dataset`, whose labels have been transformed already.

    Relative paths start from `folder`; None for the current directory of the process at the time of reading.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    loader = None if form.loader is None else getattr(dataset, form.loader)
    converts = form.converts or loader is not None
    if (reason := loads_by_pillow(loader)) is not None or (loader is None and form.loader and form.converts):
        raise NotRecognizedError(reason or "its loader is not torchvision's")
    paths = form.paths(dataset)
    if not paths or len(paths) != len(labels) or len(dataset) != len(paths):
        raise NotRecognizedError(f"there are {len(paths)} files and {len(labels)} labels")
    row, kind = row_of(labels)
    return pillow_files(paths, [row], transform, "converted" if converts else "RGB", folder), [0, 1], ("tensor", kind)


def _pairs(dataset: Any, name: str) -> list[tuple[Any, Any]]:
    samples = vars(dataset)[name]
    if type(samples) is not list or not samples:
        raise NotRecognizedError(f"{name} is not a list of files")
    if not all(type(each) is tuple and len(each) == 2 for each in samples):
        raise NotRecognizedError(f"{name} are not all pairs of a path and a label")
    return samples


def _column(dataset: Any, name: str, kinds: tuple[type, ...] | None = None) -> list[Any]:
    values = vars(dataset)[name]
    if type(values) is not list or not (kinds is None or all(type(each) in kinds for each in values)):
        raise NotRecognizedError(f"{name} is not a list in torchvision's form")
    return values


def _of_pairs(module: str, name: str, *, loader: str | None = "loader", calls_both: bool = False) -> FileForm:
    return FileForm(
        module,
        (name,),
        calls_both,
        lambda dataset: [path for path, _ in _pairs(dataset, name)],
        lambda dataset: [label for _, label in _pairs(dataset, name)],
        loader,
    )


def _of_lists(module: str, paths: str = "_image_files", labels: str = "_labels", loader: str = "loader") -> FileForm:
    return FileForm(
        module,
        (paths, labels),
        paths=lambda dataset: _column(dataset, paths),
        labels=lambda dataset: _column(dataset, labels),
        loader=loader,
    )


def _target(dataset: Any, name: str, known: dict[str, str]) -> str:
    """Return the name of the attribute that has the requested labels."""
    types = _column(dataset, name, (str,))
    if len(types) != 1 or types[0] not in known:
        raise NotRecognizedError(f"only {' or '.join(known)} alone is recognized as target, not {types}")
    return known[types[0]]


def _pet_labels(dataset: Any) -> list[Any]:
    known = {"category": "_labels", "binary-category": "_bin_labels"}
    return _column(dataset, _target(dataset, "_target_types", known))


def _caltech_paths(folder: str, name: Callable[[int, int], str]) -> Callable[[Any], list[str]]:
    def paths(dataset: Any) -> list[str]:
        categories, numbers = _column(dataset, "categories", (str,)), _column(dataset, "index", (int,))
        folders = [os.path.join(dataset.root, folder, category) for category in categories]
        labels = _column(dataset, "y", (int,))
        return [os.path.join(folders[y], name(y, number)) for y, number in zip(labels, numbers, strict=True)]

    return paths


def _caltech101_labels(dataset: Any) -> list[Any]:
    return _column(dataset, _target(dataset, "target_type", {"category": "y"}), (int,))


def _inaturalist_paths(dataset: Any) -> list[str]:
    folders = [os.path.join(dataset.root, each) for each in _column(dataset, "all_categories", (str,))]
    return [os.path.join(folders[category], name) for category, name in _pairs(dataset, "index")]


def _inaturalist_labels(dataset: Any) -> list[int]:
    _target(dataset, "target_type", {"full": "index"})
    return [category for category, _ in _pairs(dataset, "index")]


def _celeba_paths(dataset: Any) -> list[str]:
    folder = os.path.join(dataset.root, dataset.base_folder, "img_align_celeba")
    return [os.path.join(folder, name) for name in _column(dataset, "filename", (str,))]


def _celeba_labels(dataset: Any) -> torch.Tensor:
    name = _target(dataset, "target_type", {"attr": "attr", "identity": "identity"})
    labels: torch.Tensor = vars(dataset)[name]
    return labels if name == "attr" else labels[:, 0]


FILE_FORMS = {
    **dict.fromkeys(("DatasetFolder", "ImageFolder"), _of_pairs("folder", "samples")),
    "ImageNet": _of_pairs("imagenet", "samples"),
    "EuroSAT": _of_pairs("eurosat", "samples"),
    "Country211": _of_pairs("country211", "samples"),
    "StanfordCars": _of_pairs("stanford_cars", "_samples"),
    "RenderedSST2": _of_pairs("rendered_sst2", "_samples"),
    "Imagenette": _of_pairs("imagenette", "_samples"),
    "GTSRB": _of_pairs("gtsrb", "_samples", loader=None),
    "Places365": _of_pairs("places365", "imgs", calls_both=True),
    "Food101": _of_lists("food101"),
    "DTD": _of_lists("dtd"),
    "FGVCAircraft": _of_lists("fgvc_aircraft"),
    "Flowers102": _of_lists("flowers102"),
    "SUN397": _of_lists("sun397"),
    "CLEVRClassification": _of_lists("clevr"),
    "LFWPeople": _of_lists("lfw", "data", "targets", "_loader"),
    "OxfordIIITPet": FileForm(
        "oxford_iiit_pet",
        ("_images", "_labels", "_bin_labels", "_target_types"),
        calls_both=True,
        paths=lambda dataset: _column(dataset, "_images"),
        labels=_pet_labels,
        loader=None,
    ),
    "Caltech101": FileForm(
        "caltech",
        ("categories", "y", "index", "target_type"),
        paths=_caltech_paths("101_ObjectCategories", lambda _, number: f"image_{number:04d}.jpg"),
        labels=_caltech101_labels,
        loader=None,
        converts=False,
    ),
    "Caltech256": FileForm(
        "caltech",
        ("categories", "y", "index"),
        paths=_caltech_paths("256_ObjectCategories", lambda y, number: f"{y + 1:03d}_{number:04d}.jpg"),
        labels=lambda dataset: _column(dataset, "y", (int,)),
        loader=None,
        converts=False,
    ),
    "INaturalist": FileForm(
        "inaturalist",
        ("all_categories", "index", "target_type"),
        paths=_inaturalist_paths,
        labels=_inaturalist_labels,
        converts=False,
    ),
    "CelebA": FileForm(
        "celeba",
        ("filename", "target_type", "attr", "identity"),
        paths=_celeba_paths,
        labels=_celeba_labels,
        loader=None,
        converts=False,
    ),
}
