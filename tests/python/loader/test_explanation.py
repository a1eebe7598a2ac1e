"""A loader reports its engine, and the reason if it is not the Rust one."""

from __future__ import annotations

import dataclasses
import logging
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from doubles.datasets import Rows, Stream
from sluicegate import DataLoader, JsonLinesStream
from sluicegate.loader.native_iterator import NativeIterator

NATIVE = torch.arange(6)


class Reasoned(Rows):
    python_reason = "transform Lambda is not recognized"


class Asked(Rows):
    def python_reason(self) -> str | None:
        return "it says so"


class Silent(Rows):
    python_reason = None


CASES: list[tuple[Any, dict[str, Any], str, str | None]] = [
    (NATIVE, {}, "rust", None),
    (NATIVE, {"num_workers": 2}, "rust", None),
    (NATIVE, {"collate_fn": list}, "python", "collate_fn is not torch's default"),
    (NATIVE, {"worker_init_fn": print}, "rust", None),
    (
        NATIVE,
        {"worker_init_fn": print, "num_workers": 1},
        "python processes",
        "worker_init_fn may do more than seed generators",
    ),
    (
        NATIVE,
        {"worker_init_fn": print, "num_workers": 1, "worker_type": "thread"},
        "python threads",
        "worker_init_fn is given",
    ),
    (NATIVE, {"native": False}, "python", "native is False"),
    (NATIVE, {"native": False, "num_workers": 2}, "python processes", "native is False"),
    (NATIVE, {"batch_size": None}, "python", "batch_size is None, so samples are not collated"),
    ([1, 2], {"num_workers": 2}, "python processes", "dataset class list is not recognized"),
    ([1, 2], {"num_workers": 2, "worker_type": "thread"}, "python threads", "dataset class list is not recognized"),
    (Rows(3), {}, "python", "dataset class Rows is not recognized"),
    (np.zeros((4, 2))[::-1], {}, "python", "the array has a dtype, or strides, that the core can't read"),
    (Reasoned(3), {}, "python", "transform Lambda is not recognized"),
    (Asked(3), {}, "python", "it says so"),
    (Silent(3), {}, "python", "dataset class Silent is not recognized"),
    (torch.utils.data.Subset(Reasoned(3), [0]), {}, "python", "transform Lambda is not recognized"),
    (torch.utils.data.ConcatDataset([Rows(3), Asked(3)]), {}, "python", "it says so"),
    (torch.utils.data.StackDataset(a=Rows(3), b=Asked(3)), {}, "python", "it says so"),
    (
        torch.utils.data.Subset(Rows(3), [0]),
        {},
        "python",
        "Subset, or a part of it, has a form that the core can't read",
    ),
    (Stream(3), {}, "python", "iterable-style dataset class Stream is iterated in Python"),
]


@pytest.mark.parametrize(("dataset", "arguments", "engine", "reason"), CASES)
def test_explain_names_the_engine_that_reads(
    dataset: Any, arguments: dict[str, Any], engine: str, reason: str | None
) -> None:
    loader = DataLoader(dataset, **arguments)
    explanation = loader.explain()
    assert (explanation.engine, explanation.reason) == (engine, reason)
    assert loader.stats().explanation == explanation
    assert str(explanation) in repr(loader)
    assert reason is None or reason in repr(loader)
    with unittest.TestCase().assertLogs("sluicegate", logging.DEBUG) as logged:
        iterator = iter(loader)
        assert isinstance(iterator, NativeIterator) == (engine == "rust")
        del iterator
        iter(loader)
    assert [record.getMessage().endswith(f"read by {explanation}") for record in logged.records] == [True]


def test_a_stream_that_rust_reads_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    assert DataLoader(JsonLinesStream(tmp_path / "a.jsonl")).explain().engine == "rust"


def test_a_stream_is_read_by_rust_without_recognition_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    assert DataLoader(JsonLinesStream(tmp_path / "a.jsonl"), native=False).explain().engine == "rust"


@pytest.mark.parametrize("value", ["0", "no"])
def test_the_environment_switches_recognition_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(NATIVE, 2)
    monkeypatch.setenv("SLUICEGATE_NATIVE", value)
    assert str(loader.explain()) == f"python (the environment has SLUICEGATE_NATIVE={value}; unset it)"
    assert torch.equal(torch.cat(list(loader)), NATIVE)
    monkeypatch.setenv("SLUICEGATE_NATIVE", "1")
    assert loader.explain().engine == "rust"


def test_without_recognition_the_methods_of_a_native_dataset_are_called() -> None:
    dataset = torch.utils.data.TensorDataset(NATIVE)
    seen: list[int] = []

    def record(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is torch.utils.data.TensorDataset.__getitem__.__code__:
            seen.append(frame.f_locals["index"])

    loader = DataLoader(dataset, 2, native=False)
    sys.setprofile(record)
    try:
        batches = list(loader)
    finally:
        sys.setprofile(None)
    assert seen == list(range(6))
    assert torch.equal(torch.cat([batch for (batch,) in batches]), NATIVE)


def test_looking_at_samples_is_done_in_python() -> None:
    loader = DataLoader(NATIVE, 2)
    assert not isinstance(loader.with_ids(sample_id=int), NativeIterator)
    assert [ids.sample_ids for _, ids in loader.with_ids(sample_id=int)] == [[0, 1], [2, 3], [4, 5]]
    assert loader.explain().engine == "rust"


def test_an_explanation_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DataLoader(NATIVE).explain().engine = "python"  # type: ignore[misc]
