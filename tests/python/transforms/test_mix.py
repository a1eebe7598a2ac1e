"""`MixUp` and `CutMix` make torchvision's batches, with the same draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import sluicegate.transforms as ours

tv_tensors = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

NAMES = ("MixUp", "CutMix")


def mixed(module: Any, name: str, batch: Any, **arguments: Any) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(5)
    return getattr(module, name)(**arguments)(*batch), torch.get_rng_state()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_batches_are_torchvisions(name: str, alpha: float) -> None:
    images, labels = torch.rand(6, 3, 20, 31), torch.tensor([0, 3, 2, 1, 3, 0])
    batches: list[Any] = [
        (images, labels),
        (images, torch.nn.functional.one_hot(labels, 4)),
        ([images, {"other": torch.ones(6), "Labels": labels}],),
        ({"image": tv_tensors.Image(images), "my_label": labels, "name": "batch"},),
        (torch.randint(0, 255, (6, 1, 8, 8)).float(), torch.rand(6, 4)),
    ]
    for batch in batches:
        own, place = mixed(ours, name, batch, alpha=alpha, num_classes=4)
        other, expected_place = mixed(v2, name, batch, alpha=alpha, num_classes=4)
        assert torch.equal(place, expected_place)
        leaves, structure = torch.utils._pytree.tree_flatten(own)
        expected, expected_structure = torch.utils._pytree.tree_flatten(other)
        assert structure == expected_structure
        for leaf, as_expected in zip(leaves, expected, strict=True):
            assert type(leaf) is type(as_expected)
            assert torch.equal(leaf, as_expected) if isinstance(leaf, torch.Tensor) else leaf == as_expected


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_found_by_labels_getter(name: str) -> None:
    batch = {"x": torch.rand(3, 3, 8, 8), "y": {"target": torch.tensor([0, 1, 2])}}
    getter = {"labels_getter": lambda found: found["y"]["target"], "num_classes": 3}
    own, _ = mixed(ours, name, (batch,), **getter)
    other, _ = mixed(v2, name, (batch,), **getter)
    assert torch.equal(own["x"], other["x"])
    assert torch.equal(own["y"]["target"], other["y"]["target"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "batch",
    [
        (torch.rand(4, 3, 8, 8), [0, 1, 2, 3]),
        (torch.rand(4, 3, 8, 8), torch.rand(4, 3, 2)),
        (torch.rand(4, 3, 8, 8), torch.rand(4, 7)),
        (torch.rand(4, 3, 8, 8), torch.tensor([0, 1])),
        (torch.rand(3, 8, 8), torch.tensor([0, 1, 2])),
        (torch.rand(4, 3, 8, 8), {"class": torch.tensor([0, 1, 2, 3])}),
        (torch.rand(4, 3, 8, 8), {"labels": torch.arange(4), "mask": tv_tensors.Mask(torch.zeros(4, 8, 8))}),
    ],
)
def test_batches_that_torchvision_refuses_to_mix_are_refused(name: str, batch: tuple[Any, ...]) -> None:
    for module in (v2, ours):
        with pytest.raises(ValueError):
            mixed(module, name, batch, num_classes=4)


def test_numbers_of_classes_are_needed() -> None:
    for module in (v2, ours):
        with pytest.raises(ValueError, match="num_classes"):
            module.MixUp()(torch.rand(2, 3, 8, 8), torch.tensor([0, 1]))
