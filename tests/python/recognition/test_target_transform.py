"""A `target_transform` of torchvision's datasets: the core runs it if it only computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same

pytest.importorskip("torchvision")

from torchvision import transforms as v1

from cases.torchvision_datasets import CLASSES, made

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),
]

NEW_LABELS = {label: 9 - label for label in range(10)}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", CLASSES)
def test_target_transforms_that_only_compute(name: str, num_workers: int) -> None:
    transforms = (NEW_LABELS.get, _double_of_new, NEW_LABELS.__getitem__, int, float, _double, lambda y: y > 4)
    for transform in transforms[:2] if num_workers else transforms:
        dataset = made(name, v1.ToTensor())
        dataset.target_transform = transform
        assert sluicegate.DataLoader(dataset, num_workers=num_workers).explain().engine == "rust"
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            torch.manual_seed(5)
            seen.append(list(kind(dataset, batch_size=4, shuffle=True, num_workers=num_workers)))
        assert_same(seen[1], seen[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_labels_of_numpy_overflow_as_in_torch(dtype: type) -> None:
    dataset = made("CIFAR10", v1.ToTensor())
    dataset.targets = np.array(dataset.targets).astype(dtype)
    dataset.target_transform = lambda y: int((y - 1) * 100)
    seen = [list(kind(dataset, batch_size=4)) for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader)]
    assert_same(seen[1], seen[0])


def _double(label: int) -> int:
    return 2 * label


def _double_of_new(label: int) -> float:
    return NEW_LABELS[label] * 2 / 3


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", ["CIFAR10", "MNIST", "SVHN"])
def test_values_that_a_target_transform_reads_may_change(name: str, num_workers: int) -> None:
    """Changes take effect at once without workers, and in the next epoch with workers; a value's type also counts."""
    for change in (lambda new: new.update({3: 100}), lambda new: new.update(dict.fromkeys(range(10), True))):
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            dataset, new = made(name, v1.ToTensor()), dict(NEW_LABELS)
            dataset.target_transform = new.get if num_workers else lambda y, new=new: new[y]
            batches: list[Any] = []
            for _ in range(2):
                for batch in kind(dataset, batch_size=4, num_workers=num_workers):
                    batches.append(batch)
                    if len(batches) == 3:
                        change(new)
            seen.append(batches)
        assert_same(seen[1], seen[0])


def _enlarge(label: int) -> int:
    return (label + 1) * (1 << 62)


PYTHON: dict[str, tuple[Any, str]] = {
    "tensors": (torch.tensor, "target_transform is called in Python: `tensor` may do more than compute"),
    "texts": (dict(enumerate("abcdefghij")).get, "target_transform is called in Python: it returns str"),
    "nothing for some": (
        {0: 1}.get,
        "target_transform is called in Python: it returns NoneType and int, not always int",
    ),
    "no value for some": ({0: 1}.__getitem__, "target_transform is called in Python: it fails for 1 (KeyError)"),
    "large numbers": (_enlarge, "labels are not all within 64 bits"),
}


@pytest.mark.parametrize("case", PYTHON)
def test_explain_names_why_python_calls_a_target_transform(case: str) -> None:
    function, reason = PYTHON[case]
    dataset = made("CIFAR10", v1.ToTensor())
    dataset.target_transform = function
    explanation = sluicegate.DataLoader(dataset).explain()
    assert explanation.engine == "python"
    assert reason in str(explanation)
