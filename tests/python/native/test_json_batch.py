"""Batches of JSON values: numbers that never become Python objects give the batches of torch's collate function."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import default_collate

from checks.equality import assert_same
from sluicegate import DataLoader, JsonLinesStream
from sluicegate.native.json_batch import json_batch

VALUES: list[Callable[[random.Random], Any]] = [
    lambda draw: draw.randrange(-5, 6),
    lambda draw: draw.choice([2**63 - 1, -(2**63), 0, 1]),
    lambda draw: draw.choice([2**63, 2**64 - 1]),
    lambda draw: draw.choice([2**64, -(2**63) - 1, 2**127, 5]),
    lambda draw: draw.choice([0.5, -0.0, 1.0, 1e300, 5e-324, -1e-7]),
    lambda draw: draw.choice([True, False]),
    lambda draw: draw.choice(["", "text"]),
    lambda draw: None,
    lambda draw: [draw.randrange(3), draw.randrange(3)],
    lambda draw: [0.25, draw.random()],
    lambda draw: [2**63, 0],
    lambda draw: [1, 0.5],
    lambda draw: [1] * draw.randrange(3),
    lambda draw: {"inner": draw.randrange(9), "other": draw.random()},
]


def outcome(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the batch, or the class and text of the error, and the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = call()
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            result = type(error).__name__, error.args[0].split(" (")[0]
    return result, [str(each.message) for each in warned]


@pytest.mark.parametrize("seed", range(60))
def test_batches_of_random_columns_equal_torchs_collation_of_their_objects(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = draw.choice([1, 2, 6])
    columns = {}
    for name in "abc"[: draw.randrange(1, 4)]:
        kinds = draw.choices(VALUES, k=draw.choice([1, 1, 1, 2]))
        columns[name] = [draw.choice(kinds)(draw) for _ in range(rows)]
    samples = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    expected, expected_warnings = outcome(lambda: json_batch(samples, default=lambda values: default_collate(values)))
    found, found_warnings = outcome(lambda: next(iter(DataLoader(JsonLinesStream(path), batch_size=rows))))
    assert_same(found, expected)
    assert found_warnings == expected_warnings


@pytest.mark.parametrize("numbers", [[1, 2, 3], [0.5, 1.5, 2.5], [[1, 2], [3, 4]]])
def test_batches_of_numbers_are_in_torchs_own_memory(numbers: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"a": number}) + "\n" for number in numbers))
    batch = next(iter(DataLoader(JsonLinesStream(path), batch_size=len(numbers))))["a"]
    for tensor in batch if isinstance(batch, list) else [batch]:
        assert tensor.untyped_storage().resizable()
        assert tensor.is_contiguous()


def test_a_torch_function_mode_sees_the_calls_of_torchs_collate(tmp_path: Path) -> None:
    class Seen(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            seen.append(function)
            return function(*arguments, **(named or {}))

    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    seen: list[Any] = []
    iterator = iter(DataLoader(JsonLinesStream(path), batch_size=2))
    with Seen():
        next(iterator)
    assert torch.tensor in seen


def test_a_collate_map_that_was_changed_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    functions = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(functions, int, lambda values, *, collate_fn_map=None: list(values))
    assert next(iter(DataLoader(JsonLinesStream(path), batch_size=2))) == {"a": [1, 2]}
