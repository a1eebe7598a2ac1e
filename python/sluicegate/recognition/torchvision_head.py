"""`with_native_heads`: image files whose first transforms run in Rust although a later one has to run in Python.

A pipeline such as `RandomResizedCrop`, `RandomHorizontalFlip`, `MyBlur`, `ToTensor` cannot be native. Its *head*, the
transforms before `MyBlur`, can: they are exact, they draw from torch's generator only, and no other code runs between
them. So the file is decoded, cropped, and resized in Rust, and the rest gets the same Pillow image as before.

torchvision's own `__getitem__` still makes the sample. It runs on a shallow copy of the dataset, in which `loader`
opens a file *and* applies the head, and `transform` is the rest of the pipeline.
"""

from __future__ import annotations

import io
import operator
import sys
import weakref
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Subset

from sluicegate.rng.global_generators import fastest_torch_access, keeping_generators
from sluicegate.transforms.exact_head import ExactHead, exact_heads
from sluicegate.transforms.recognize import NotRecognizedError

from .captured import changed_copy
from .native_source import is_untouched
from .torchvision_datasets import is_dataset
from .torchvision_facts import Facts, called_with, loads_by_pillow, replaced_part
from .torchvision_files import FILE_FORMS, FileForm

_JPEG = b"\xff\xd8"

# By dataset, the result and the facts that led to it: files are compared once, not in every epoch and `repr`. No part
# of it refers to the dataset itself.
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[Facts, _HeadLoader | None]] = weakref.WeakKeyDictionary()


def with_native_heads(dataset: Any) -> Any:
    """Return a dataset with the samples of `dataset` and the heads of its pipelines in Rust; `dataset` if that fails.

    Only one thread may read the result: random transforms take torch's default generator and put it back.

    Args:
        dataset: any map-style dataset: one of torchvision's with image files, or `Subset` or `ConcatDataset` over it.
    """
    if type(dataset) is Subset and is_untouched(dataset):
        part = with_native_heads(dataset.dataset)
        return dataset if part is dataset.dataset else _Combined(dataset, "dataset", part)
    if type(dataset) is ConcatDataset and is_untouched(dataset):
        parts = [with_native_heads(each) for each in dataset.datasets]
        is_same = all(part is each for part, each in zip(parts, dataset.datasets, strict=True))
        return dataset if is_same else _Combined(dataset, "datasets", parts)
    form = FILE_FORMS.get(type(dataset).__name__)
    if form is None or form.loader is None or not is_dataset(dataset):
        return dataset
    try:
        return HeadDataset(dataset, form, form.loader)
    except (AttributeError, NotRecognizedError):
        return dataset  # Python calls the transforms, and raises their error if an argument is wrong.


class _Combined:
    """One of torch's combinators over datasets whose heads run in Rust.

    Args:
        dataset: the combinator, which is used again as soon as its parts have changed.
        name: the attribute with its parts.
        parts: the datasets to read in place of these.
    """

    def __init__(self, dataset: Any, name: str, parts: Any) -> None:
        self._dataset, self._facts = dataset, _attributes(dataset)
        self._changed = changed_copy(dataset, **{name: parts})

    def __getitem__(self, index: Any) -> Any:
        return self._now()[index]

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        dataset = self._now()
        return [dataset[index] for index in indices]

    def _now(self) -> Any:
        facts = _attributes(self._dataset)
        is_same = len(facts) == len(self._facts) and all(map(operator.is_, facts, self._facts))
        return self._changed if is_same else self._dataset

    def __len__(self) -> int:
        return len(self._dataset)


def _attributes(dataset: Any) -> list[Any]:
    """Return the parts of a combinator: each dataset of a list separately."""
    own = list(vars(dataset).values())
    return own + (list(dataset.datasets) if type(dataset) is ConcatDataset else [])


class HeadDataset:
    """A dataset of torchvision's whose loader applies the head of its transform, too.

    Args:
        dataset: the dataset; the one to ask as soon as anything about it has changed.
        form: that of its class.
        loader: the name of the attribute with the function that opens its files.

    Raises:
        NotRecognizedError: something is not as torchvision has it, or there is no head.

    Attributes:
        steps: the number of transforms in the head.
    """

    def __init__(self, dataset: Any, form: FileForm, loader: str) -> None:
        self._dataset = dataset
        known = _KNOWN.get(dataset)
        if known is None or not known[0].still_hold_for(dataset):
            known = _KNOWN[dataset] = Facts(dataset, form), _head_loader(dataset, form, getattr(dataset, loader))
        self._facts, opened = known
        if opened is None:
            raise NotRecognizedError("no transform runs in Rust before the first one that is called in Python")
        _, target_transform = called_with(dataset, form)
        self.steps = len(opened.head.steps)
        self._changed = changed_copy(dataset, **{loader: opened})
        if form.calls_both:
            both = sys.modules["torchvision.datasets.vision"].StandardTransform
            self._changed.transforms = both(opened.head.rest, target_transform)
        else:
            self._changed.transform = opened.head.rest

    def __getitem__(self, index: Any) -> Any:
        dataset = self._changed if self._facts.still_hold_for(self._dataset) else self._dataset
        return dataset[index]

    def __len__(self) -> int:
        return len(self._dataset)


def _head_loader(dataset: Any, form: FileForm, loader: Any) -> _HeadLoader | None:
    """Return the function that opens files of `dataset` in place of `loader`; None if none is equivalent."""
    if loader is None or (replaced_part(dataset, form) or loads_by_pillow(loader)) is not None:
        return None  # Without a loader, images are left as they are, and the core makes them images in color.
    transform, _ = called_with(dataset, form)
    paths = form.paths(dataset)
    probes = [paths[index] for index in sorted({0, len(paths) // 2, len(paths) - 1})] if paths else []
    for opener in (_HeadLoader(head, loader) for head in exact_heads(transform)):
        results = [opener.gives_same_image(path) for path in probes]
        # Files that Rust leaves to Pillow, such as PNG, would only be looked at in vain.
        if True in results and False not in results:
            return opener
    return None


class _HeadLoader:
    """Opens an image file and applies the head of a pipeline to it.

    Args:
        head: the head.
        loader: torchvision's loader, for files that are left to Pillow.

    Attributes:
        head: the head.
    """

    def __init__(self, head: ExactHead, loader: Any) -> None:
        self.head = head
        self._loader = loader

    def __call__(self, path: Any) -> Any:
        image = self._run(path)
        return self.head.in_python(self._loader(path)) if image is None else image

    def gives_same_image(self, path: Any) -> bool | None:
        """Return True if Rust and Python make the same of a file, including draws; None if Rust leaves it to Pillow."""
        with keeping_generators():
            before = torch.random.get_rng_state()
            try:
                expected = self.head.in_python(self._loader(path))
            except Exception:
                return None if self._run(path) is None else False
            after = torch.random.get_rng_state()
            torch.random.set_rng_state(before)
            if (made := self._run(path)) is None:
                return None
            return _is_same(made, expected) and torch.equal(torch.random.get_rng_state(), after)

    def _run(self, path: Any) -> Any:
        """Return Rust's result for a file; None if it is left to Pillow, which then raises any error."""
        images = sys.modules["PIL.Image"]
        try:
            with open(path, "rb") as file:
                encoded = file.read(len(_JPEG))
                if encoded != _JPEG:
                    return None
                file.seek(0)
                encoded = file.read()
            # Pillow images keep the metadata of the file (Exif, color profile) in all operations.
            with images.open(io.BytesIO(encoded)) as opened:
                info = opened.info
        except Exception:
            return None
        made = self.head.run(encoded, fastest_torch_access(torch.default_generator))
        if made is not None and self.head.dtype is None:
            made.info = dict(info)
        return made


def _is_same(made: Any, expected: Any) -> bool:
    if type(made) is not type(expected):
        return False
    if isinstance(made, torch.Tensor):
        is_same = made.dtype == expected.dtype and made.shape == expected.shape and made.stride() == expected.stride()
        return is_same and torch.equal(made.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
    return (made.mode, made.size, made.info) == (expected.mode, expected.size, expected.info) and bool(
        made.tobytes() == expected.tobytes()
    )
