"""`WeightedRandomSampler` in seed mode: valid and invalid arguments; its distribution is tested in Rust."""

from __future__ import annotations

import pytest
import torch

from sluicegate import WeightedRandomSampler


def test_weights_are_checked_when_an_order_is_made() -> None:
    for bad, said in ((-1.0, "-1"), (float("nan"), "NaN"), (float("inf"), "inf")):
        with pytest.raises(ValueError, match=f"the weight of index 1 must be finite and not negative, got {said}"):
            WeightedRandomSampler([1.0, bad], 1, seed=7).order(0)
    with pytest.raises(ValueError, match="only 2 of 3 weights are positive"):
        list(WeightedRandomSampler([1.0, 0.0, 1.0], 3, replacement=False, seed=7))
    with pytest.raises(ValueError, match="all 2 weights are zero"):
        list(WeightedRandomSampler([0.0, 0.0], 3, seed=7))


def test_more_weights_than_torch_takes() -> None:
    weights = torch.zeros(2**24 + 9, dtype=torch.float64)
    weights[3], weights[-1] = 1.0, 2.0
    drawn = list(WeightedRandomSampler(weights, 3000, seed=7))
    assert set(drawn) == {3, 2**24 + 8}
    assert 1850 < drawn.count(2**24 + 8) < 2150
    with pytest.raises(RuntimeError):
        list(WeightedRandomSampler(weights, 3000))


def test_new_weights_are_honored() -> None:
    sampler = WeightedRandomSampler([1.0, 0.0], 10, seed=7)
    assert set(sampler) == {0}
    sampler.weights = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert set(sampler) == {1}
