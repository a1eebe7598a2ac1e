"""`MixtureSampler`: weights, schedules, and errors; proportions and stopping rules are tested in Rust."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sluicegate import MixtureSampler


def test_a_mixture_reads_a_concatenation_and_follows_schedules() -> None:
    parts = torch.utils.data.ConcatDataset([range(100), range(50)])  # type: ignore[list-item]
    once = MixtureSampler(parts, [1.0, 1.0], stop="ALL_DATASETS_EXHAUSTED", seed=7)
    assert sorted(once) == list(range(150))
    forever: dict[str, Any] = {"stop": "CYCLE_FOREVER", "num_samples": 1000, "seed": 7}
    stepped = list(MixtureSampler(parts, [(0, [1, 0]), (5, [0, 1])], samples_per_step=100, **forever))
    assert max(stepped[:500]) < 100 <= min(stepped[500:])
    ramps = [
        MixtureSampler(parts, [(0, [1, 0]), (1000, [0, 1])], linear=True, **forever),
        MixtureSampler(parts, lambda step: [1000 - step, step], **forever),
    ]
    for ramp in ramps:
        halves = [sum(index >= 100 for index in list(ramp)[start : start + 500]) for start in (0, 500)]
        assert halves == [pytest.approx(125, abs=4), pytest.approx(375, abs=4)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [1.0]}, "got 1 at position 0 for 2 parts"),
        ({"weights": [1.0, -1.0]}, "the weight of part 1 must be finite and not negative, got -1"),
        ({"weights": [1.0, 0.0]}, "never end: part 1"),
        ({"weights": [1.0, 1.0], "stop": "NEVER"}, "NEVER"),
        ({"weights": [1.0, 1.0], "stop": "CYCLE_FOREVER"}, "num_samples"),
        ({"weights": lambda step: [1.0, 1.0]}, "num_samples"),
        ({"weights": [1.0, 1.0], "num_samples": 0}, "num_samples should be a positive integer"),
    ],
)
def test_mixtures_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureSampler([10, 10], **arguments)
