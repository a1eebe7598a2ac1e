"""torchvision's datasets, as the core reads them.

The core reads one only if no difference can be observed: it is exactly of one of the classes in the tables of
`torchvision_arrays`, `torchvision_fake`, `torchvision_files`, `torchvision_masks`, and `torchvision_stored`, with
torchvision's own methods and transforms that `exact_steps` knows; for labels, a `target_transform` must be one that
`NumberFunction` takes. Everything else is a Python dataset, for the first reason that `python_reason` names.
torchvision itself is never imported here.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from sluicegate import _core
from sluicegate.native.dataset import Kind, hand_over
from sluicegate.rng.generator_pair import GeneratorPair
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.transforms.recognize import NotRecognizedError

from .captured import changed_copy
from .number_function import NumberFunction
from .torchvision_arrays import ARRAY_FORMS, ArrayForm, array_labels, array_parts
from .torchvision_facts import Facts, Form, array_facts, called_with, replaced_part
from .torchvision_fake import FAKE_FORMS, FakeForm, fake_parts
from .torchvision_files import FILE_FORMS, FileForm, file_labels, file_parts
from .torchvision_labels import transformed
from .torchvision_masks import MASK_FORMS, MaskForm, has_masks, mask_parts
from .torchvision_stored import STORED_FORMS, StoredForm, Version, stored_labels, stored_parts, stored_version

Parts = tuple[_core.Dataset, Any, tuple[Kind, ...]]

AnyForm = ArrayForm | FakeForm | FileForm | MaskForm | StoredForm
# By class; those of masks are asked first.
_FORMS: dict[str, AnyForm] = {**MASK_FORMS, **ARRAY_FORMS, **FAKE_FORMS, **FILE_FORMS, **STORED_FORMS}


@dataclass(frozen=True)
class _Found:
    """The result of recognizing a dataset: its parts, or why it was refused, and the facts that this rests on."""

    parts: Parts | str
    facts: Facts
    # By attribute, its copy; None if the attribute's own memory is read.
    copied: dict[str, Any]
    # The function that is called with labels.
    function: NumberFunction | None
    # The current directory that worker processes would inherit; None if relative paths follow that of this process.
    folder: str | None
    # The files that were opened once.
    version: tuple[Version, ...]


# By dataset, with and without workers. Nothing of it holds the dataset itself.
_KNOWN: weakref.WeakKeyDictionary[Any, dict[bool, _Found]] = weakref.WeakKeyDictionary()


def is_dataset(dataset: Any) -> bool:
    """Return True if `dataset` is exactly of one of the classes in the table."""
    cls = type(dataset)
    form = _FORMS.get(cls.__name__)
    if form is None or not cls.__module__.startswith("torchvision.datasets."):
        return False
    module = sys.modules.get(f"torchvision.datasets.{form.module}")
    return module is not None and getattr(module, cls.__name__, None) is cls


def _form_of(dataset: Any) -> AnyForm:
    name = type(dataset).__name__
    return MASK_FORMS[name] if name in MASK_FORMS and has_masks(dataset) else _FORMS[name]


def native_parts(dataset: Any, *, in_worker: bool) -> tuple[Parts, Callable[[], bool]] | None:
    """Return the core's dataset, structure, and kinds, and a check that they still hold; None if Python must read it.

    Args:
        dataset: one that `is_dataset` is true of.
        in_worker: True if torch would read a copy in worker processes, made when the epoch begins.
    """
    found = _found(dataset, in_worker=in_worker)
    if isinstance(found.parts, str):
        return None
    if in_worker:
        return found.parts, _memory_check(dataset.data) if type(dataset).__name__ in ARRAY_FORMS else lambda: True
    return found.parts, lambda: _is_current(dataset, found)


def captured(dataset: Any) -> Any:
    """Return `dataset`, which the core reads in place of worker processes, as it is now, like a copy in such a process.

    Lists of samples and transforms are copied: batches that Python makes must not see later changes.
    """
    lists = {name: each for name, each in _found(dataset, in_worker=True).copied.items() if each is not None}
    copied = changed_copy(dataset, **lists)
    seen: dict[int, Any] = {}
    for name in ("transform", "target_transform", "transforms"):
        # Some callables of users can't be copied.
        with contextlib.suppress(Exception):
            setattr(copied, name, copy.deepcopy(getattr(dataset, name), seen))
    return copied


def reads_files(dataset: Any) -> bool:
    """Return True if `dataset`, which `is_dataset` is true of, reads files for each sample."""
    return not isinstance(_form_of(dataset), (ArrayForm, FakeForm))


def python_reason(dataset: Any) -> str | None:
    """Return why Python reads `dataset`, for which `is_dataset` is true; None if the core does."""
    in_worker = next(iter(_KNOWN.get(dataset, ())), False)
    parts = _found(dataset, in_worker=in_worker).parts
    return parts if isinstance(parts, str) else None


def _found(dataset: Any, *, in_worker: bool) -> _Found:
    known = _KNOWN.setdefault(dataset, {})
    found = known.get(in_worker)
    if found is None or not _is_current(dataset, found):
        form = _form_of(dataset)
        facts = Facts(dataset, form)
        copied: dict[str, Any] = {}
        function: NumberFunction | None = None
        folder = _current_folder() if in_worker and reads_files(dataset) else None
        version: tuple[Version, ...] = ()
        parts: Parts | str
        try:
            transform, target_transform = _checked(dataset, form)
            version = _version(dataset)
            if isinstance(form, MaskForm):
                parts = mask_parts(dataset, form, transform, target_transform, folder)
                copied = {name: list(vars(dataset)[name]) for name in form.attributes}
            else:
                function = None if target_transform is None else _function(target_transform)
                parts, copied = _read(dataset, form, transform, function, folder, copies=in_worker)
            if not _gives_same_samples(dataset, parts):
                parts = "this version of torchvision returns different values"
        except (AttributeError, NotRecognizedError, ValueError) as error:
            parts = str(error)
        except Exception as error:  # A version of torchvision that is different inside: it reads its datasets itself.
            parts = f"this version of torchvision is not recognized ({type(error).__name__}: {error})"
        if isinstance(parts, str):
            copied = {}  # Data that is not read need not be kept.
        known[in_worker] = found = _Found(parts, facts, copied, function, folder, version)
    return found


def _is_current(dataset: Any, found: _Found) -> bool:
    if not found.facts.still_hold_for(dataset):
        return False
    if isinstance(found.parts, str):
        return True
    if found.folder is not None and found.folder != _current_folder():
        return False
    own = vars(dataset)
    is_same = (found.function is None or found.function.is_same()) and found.version == _version(dataset)
    return is_same and all(_is_equal(own.get(name), copy) for name, copy in found.copied.items())


def _version(dataset: Any) -> tuple[Version, ...]:
    if type(dataset).__name__ not in STORED_FORMS:
        return ()
    try:
        return stored_version(dataset)
    except OSError:  # Python fails at it.
        return ()


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # It was removed.
        return None


def _checked(dataset: Any, form: Form) -> tuple[Any, Any]:
    """Return the callables for an image and for a label, if everything is as torchvision has it.

    Raises:
        NotRecognizedError: something differs, or only Python can do it.
    """
    if (reason := replaced_part(dataset, form)) is not None:
        raise NotRecognizedError(reason)
    transform, target_transform = called_with(dataset, form)
    if transform is None:
        raise NotRecognizedError("without a transform, samples are Pillow images")
    return transform, target_transform


def _function(target_transform: Any) -> NumberFunction:
    try:
        return NumberFunction(target_transform)
    except NotRecognizedError as error:
        raise _refused(error) from None


def _refused(error: NotRecognizedError) -> NotRecognizedError:
    return NotRecognizedError(f"target_transform is called in Python: {error}; apply it to the labels beforehand")


def _read(
    dataset: Any,
    form: ArrayForm | FakeForm | FileForm | StoredForm,
    transform: Any,
    function: NumberFunction | None,
    folder: str | None,
    *,
    copies: bool,
) -> tuple[Parts, dict[str, Any]]:
    """Return the parts that the core reads, and copies of the attributes with the samples.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    if isinstance(form, FakeForm):
        if function is not None:
            raise NotRecognizedError("target_transform is called with tensors")
        return fake_parts(dataset, transform, in_worker=copies), {}
    if isinstance(form, ArrayForm):
        labels = array_labels(dataset, form, copies=copies, is_transformed=function is not None)
    elif isinstance(form, StoredForm):
        labels = stored_labels(dataset)
    else:
        labels = file_labels(dataset, form, copies=copies, is_transformed=function is not None)
    kept = labels
    if function is not None:
        try:
            labels = transformed(labels, function)
        except NotRecognizedError as error:
            raise _refused(error) from None
    parts: Parts
    if isinstance(form, ArrayForm):
        parts = array_parts(dataset, form, transform, labels)
    elif isinstance(form, StoredForm):
        parts = stored_parts(dataset, transform, labels)
    else:
        parts = file_parts(dataset, form, transform, labels, folder)
    copied = {name: _copy(vars(dataset)[name], kept, labels) for name in form.attributes if name in vars(dataset)}
    return parts, copied


def _copy(value: Any, kept: torch.Tensor, labels: torch.Tensor) -> Any:
    """Return a copy of an attribute for later comparison; None if the core reads its memory."""
    is_array = type(value) is np.ndarray
    if not is_array and type(value) is not torch.Tensor:
        return list(value)
    if kept is labels and labels.data_ptr() == _address(value):
        return None
    return value.copy() if is_array else value.clone()


def _address(array: Any) -> int:
    address: int = array.data_ptr() if type(array) is torch.Tensor else array.__array_interface__["data"][0]
    return address


def _is_equal(own: Any, copy: Any) -> bool:
    """Return True if an attribute equals its copy."""
    if copy is None:
        return True
    if type(own) is not type(copy):
        return False
    if type(own) is torch.Tensor:
        return torch.equal(own, copy)
    return own == copy if type(own) is list else np.array_equal(own, copy)


def _memory_check(data: Any) -> Callable[[], bool]:
    """Return a check that the memory of `data` is where it was: that of a resized tensor cannot be held."""
    facts = array_facts(data)
    return lambda: array_facts(data) == facts


def _gives_same_samples(dataset: Any, parts: Parts) -> bool:
    """Return True if three samples are the same both ways, and leave the generator in the same state.

    If the core cannot read a file, Python makes that batch.
    """
    engine = _core.Engine(0, 2, None)
    window = _core.Prefetch(engine, parts[0], hand_over(*parts), True, None)
    generators = GeneratorPair.of_process()
    window.set_generators(*generators.access())
    with keeping_generators():
        for index in sorted({0, len(dataset) // 2, len(dataset) - 1}):
            before = generators.states(has_python=True)
            sample: tuple[Any, Any] | None = None
            with contextlib.suppress(Exception):
                sample = dataset[index]
            after = generators.as_text()
            generators.set_states(before)
            taken = window.pop({index: None}, None) if window.push(index, [index]) else None
            if taken is None or isinstance(taken[1], Exception):
                if not reads_files(dataset) and sample is not None:
                    return False
                generators.set_states(before)
                continue
            if sample is None:
                return False  # Python raises an error that the core would not.
            (image, label), (ours, number) = sample, taken[1]
            plain = image.as_subclass(torch.Tensor)
            is_same = ours.dtype == plain.dtype and ours.shape[1:] == plain.shape and torch.equal(ours[0], plain)
            expected = default_collate([label])
            if not is_same or number.dtype != expected.dtype or not torch.equal(number, expected):
                return False
            if generators.as_text() != after:
                return False
    return True
