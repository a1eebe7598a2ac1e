"""A loader for each class: the source of labels, the resources that loaders share, and invalid arguments."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, StackDataset, Subset, TensorDataset

import sluicegate
from doubles.datasets import Stream
from doubles.terminals import Terminal
from sluicegate import ClassLoaders, NpyDataset, class_loaders
from sluicegate.loader.resources import resources_of
from sluicegate.order.settings import LoaderSettings

LABELS = torch.tensor([1, 0, 1, 2, 2, 1, 0, 1, 2, 1])
VALUES = torch.arange(10.0)


class Pairs(Dataset):
    """Python samples with a random augmentation."""

    def __init__(self, form: str = "pair", label: Any = int) -> None:
        self.form = form
        self.label = label
        self.reads = 0

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> Any:
        self.reads += 1
        torch.rand(())
        random.random()
        numpy.random.rand()
        label = self.label(LABELS[index])
        return {"value": VALUES[index], "target": label} if self.form == "dict" else (VALUES[index], label)


def name(label: torch.Tensor) -> str:
    return ["ant", "bee", "cat"][int(label)]


def parity(sample: tuple[torch.Tensor, int]) -> str:
    return "odd" if sample[1] % 2 else "even"


def read(loaders: Mapping[Any, Any]) -> dict[Any, list[float]]:
    return {label: [value for values, *_ in loader for value in values.tolist()] for label, loader in loaders.items()}


EXPECTED = {0: [1, 6], 1: [0, 2, 5, 7, 9], 2: [3, 4, 8]}


@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.tolist(), LABELS.numpy(), 1, -1, None, "scan", lambda sample: sample[1]]
)
@pytest.mark.parametrize("dataset", [TensorDataset(VALUES, LABELS), Pairs()], ids=["native", "python"])
def test_labels_are_given_or_found(dataset: Any, labels: Any) -> None:
    loaders = class_loaders(dataset, labels, batch_size=2)
    assert isinstance(loaders, ClassLoaders)
    assert isinstance(loaders, Mapping)
    assert isinstance(loaders[1], sluicegate.DataLoader)
    assert read(loaders) == EXPECTED
    assert loaders.counts == {0: 2, 1: 5, 2: 3}
    assert (list(loaders), len(loaders), len(loaders[1])) == ([0, 1, 2], 3, 3)
    assert list(map(int, loaders.labels)) == LABELS.tolist()


@pytest.mark.parametrize("labels", ["target", None, lambda sample: sample["target"]])
def test_labels_of_mappings_have_names(labels: Any) -> None:
    loaders = class_loaders(Pairs("dict", name), labels, batch_size=2)
    assert list(loaders) == ["ant", "bee", "cat"]
    assert [batch["value"].tolist() for batch in loaders["bee"]] == [[0, 2], [5, 7], [9]]


def native_datasets(folder: Path) -> dict[str, tuple[Any, Any, list[int]]]:
    numpy.save(folder / "x.npy", VALUES.numpy())
    numpy.save(folder / "y.npy", LABELS.numpy())
    whole = TensorDataset(VALUES, LABELS)
    picked = [7, 3, 0, 1]
    return {
        "named files": (NpyDataset(x=folder / "x.npy", label=folder / "y.npy"), "label", LABELS.tolist()),
        "named files, found": (NpyDataset(x=folder / "x.npy", label=folder / "y.npy"), None, LABELS.tolist()),
        "files": (NpyDataset(folder / "x.npy", folder / "y.npy"), 1, LABELS.tolist()),
        "subset": (Subset(whole, picked), 1, LABELS[picked].tolist()),
        "concat": (ConcatDataset([Subset(whole, picked), whole]), 1, LABELS[picked].tolist() + LABELS.tolist()),
        "stack": (StackDataset(x=VALUES, y=LABELS), "y", LABELS.tolist()),
        "stack of two": (StackDataset(VALUES, LABELS), -1, LABELS.tolist()),
    }


@pytest.mark.parametrize(
    "kind", ["named files", "named files, found", "files", "subset", "concat", "stack", "stack of two"]
)
def test_a_column_that_is_there_is_not_read_sample_by_sample(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, labels, expected = native_datasets(tmp_path)[kind]

    def refuse(*_: Any) -> Any:
        raise AssertionError("a sample was read")

    monkeypatch.setattr(sluicegate.by_class.label_scan._Labels, "__getitem__", refuse)
    assert list(map(int, class_loaders(dataset, labels).labels)) == expected


def test_each_sample_is_read_once_and_no_generator_moves() -> None:
    dataset = Pairs()
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    loaders = class_loaders(dataset, parity, batch_size=2)
    assert dataset.reads == 10
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert numpy.random.get_state()[1].tolist() == before[2]
    assert read(loaders) == {"even": [1, 3, 4, 6, 8], "odd": [0, 2, 5, 7, 9]}


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_workers_scan_and_load(worker_type: str) -> None:
    loaders = class_loaders(Pairs(), parity, batch_size=2, num_workers=2, worker_type=worker_type)
    assert read(loaders) == {"even": [1, 3, 4, 6, 8], "odd": [0, 2, 5, 7, 9]}


def test_a_scan_shows_its_progress_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class_loaders(Pairs())
    assert capsys.readouterr() == ("", "")

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    class_loaders(Pairs())
    assert "labels of Pairs: 10 of 10 (100%)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


@pytest.mark.parametrize(
    ("dataset", "labels", "message"),
    [
        (Pairs(), 2, "labels: expected the label 2 in sample 0, but got a tuple of 2"),
        (
            Pairs("dict"),
            "color",
            r"the label 'color' in sample 0, but got a mapping with the keys \['value', 'target'\]",
        ),
        (sluicegate.TensorDataset(VALUES), None, "labels: expected a label in sample 0, but got a tuple of 1"),
        (VALUES, None, "labels: expected a label in sample 0, but got a Tensor"),
        (Stream(3), None, "dataset: expected a map-style dataset.*Stream, which is iterable"),
    ],
)
def test_samples_without_a_usable_label_are_refused(dataset: Any, labels: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        class_loaders(dataset, labels)


def test_class_loaders_are_created_on_access_and_kept() -> None:
    loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS)
    made = loaders._loaders
    assert 2 in loaders
    assert 5 not in loaders
    assert [] not in loaders
    assert 2 not in made
    assert loaders[2] is loaders[2]
    assert loaders[torch.tensor(2)] is loaders[2]
    assert loaders[2].dataset is loaders[1].dataset
    assert loaders[2].sampler.index is loaders[1].sampler.index is loaders.index
    with pytest.raises(TypeError):
        loaders[2] = loaders[1]  # type: ignore[index]
    assert repr(loaders) == "<ClassLoaders of 3 classes, 10 samples>"


def engine_of(loader: Any) -> Any:
    return resources_of(loader).engine(LoaderSettings.of(loader))


@pytest.mark.prefetch
def test_loaders_share_slots_and_threads() -> None:
    loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS, num_workers=2)
    list(loaders[0])
    shared = engine_of(loaders[0])
    assert engine_of(loaders[2]) is shared
    iterators = [iter(loaders[label]) for label in loaders]
    assert [next(iterator)[0].item() for iterator in iterators] == [1, 0, 3]
    assert [next(iterator)[0].item() for iterator in iterators] == [6, 2, 4]
    loaders[2].num_workers = 1
    assert engine_of(loaders[2]) is not shared


def test_unknown_and_empty_classes_are_named_with_the_known_ones() -> None:
    loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS)
    with pytest.raises(KeyError, match="no sample has the class 9; the labels have 3 classes: 0, 1, 2"):
        loaders[9]
    with pytest.raises(
        ValueError, match="classes: expected classes with samples, but got 9 without any; the labels have 3 classes"
    ):
        class_loaders(TensorDataset(VALUES, LABELS), LABELS, classes=[1, 9])
    some = class_loaders(TensorDataset(VALUES, LABELS), LABELS, classes=[2, torch.tensor(1)], batch_size=9)
    assert read(some) == {2: EXPECTED[2], 1: EXPECTED[1]}
    with pytest.raises(KeyError, match=r"expected one of the classes that have loaders, \[2, 1\], but got 0"):
        some[0]
    with pytest.raises(ValueError, match="labels: expected one for each of 10 samples of the dataset, but got 3"):
        class_loaders(TensorDataset(VALUES, LABELS), [1, 2, 3])


def test_arguments_that_pick_samples_are_refused_and_others_passed_on() -> None:
    dataset = TensorDataset(VALUES, LABELS)
    for argument in ("sampler", "batch_sampler"):
        with pytest.raises(
            TypeError, match=f"{argument}: class_loaders makes the samplers itself, but got {argument}=; leave it out"
        ):
            class_loaders(dataset, LABELS, **{argument: [[0]]})
    with pytest.raises(ValueError, match="prefetch_factor option could only be specified"):
        class_loaders(dataset, LABELS, prefetch_factor=3)
    loaders = class_loaders(dataset, LABELS, batch_size=2, drop_last=True, collate_fn=len)
    assert [list(loaders[label]) for label in loaders] == [[2], [2, 2], [2]]
    assert [loader.batch_size for loader in loaders.values()] == [2, 2, 2]
    assert [value.item() for value, _ in class_loaders(dataset, LABELS, batch_size=None)[0]] == [1, 6]


def test_an_empty_dataset_has_no_loaders() -> None:
    loaders = class_loaders(TensorDataset(VALUES[:0]), [])
    assert dict(loaders) == {}
    assert list(loaders.round_robin()) == []


def test_shuffled_loaders_follow_the_generator() -> None:
    dataset = TensorDataset(torch.arange(200), torch.arange(200) % 2)

    def epochs() -> list[dict[Any, list[float]]]:
        generator = torch.Generator().manual_seed(3)
        loaders = class_loaders(dataset, 1, batch_size=8, shuffle=True, generator=generator)
        return [read(loaders), read(loaders)]

    first, second = epochs()
    assert epochs() == [first, second]
    assert first != second
    assert sorted(first[0]) == sorted(second[0]) == list(range(0, 200, 2))
    assert [value // 2 for value in first[0]] != [value // 2 for value in first[1]]


@pytest.mark.parametrize("dataset", [TensorDataset(VALUES, LABELS), Pairs()], ids=["native", "python"])
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 2}, {"num_workers": 2, "in_order": False}])
def test_classes_come_in_turn_from_one_set_of_workers(dataset: Any, arguments: dict[str, Any]) -> None:
    loaders = class_loaders(dataset, LABELS, batch_size=2, **arguments)
    for _ in range(2):
        turns = [(label, values.tolist()) for label, (values, _) in loaders.round_robin()]
        assert turns == [(0, [1, 6]), (1, [0, 2]), (2, [3, 4]), (1, [5, 7]), (2, [8]), (1, [9])]


def test_turns_of_every_epoch_are_shuffled_again_with_a_seed() -> None:
    def epochs() -> list[Any]:
        loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS, batch_size=2, shuffle=True, seed=7)
        read = [[(label, values.tolist()) for label, (values, _) in loaders.round_robin()] for _ in range(3)]
        loaders.set_epoch(1)
        return [*read, [(label, values.tolist()) for label, (values, _) in loaders.round_robin()]]

    first, second, third, again = epochs()
    assert epochs() == [first, second, third, again]
    assert len({str(first), str(second), str(third)}) == 3
    assert again == second


def test_round_robin_refuses_a_shard() -> None:
    loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS, batch_size=2, shard=(0, 2))
    with pytest.raises(ValueError, match=r"use the loader of each class"):
        loaders.round_robin()


def test_round_robin_honors_drop_last_and_needs_batches() -> None:
    dataset = TensorDataset(VALUES, LABELS)
    loaders = class_loaders(dataset, LABELS, batch_size=3, drop_last=True)
    assert [label for label, _ in loaders.round_robin()] == [1, 2]
    with pytest.raises(ValueError, match="batch_size: round_robin needs batches, but got None"):
        class_loaders(dataset, LABELS, batch_size=None).round_robin()


@pytest.mark.parametrize("arguments", [{}, {"persistent_workers": True}])
def test_round_robin_uses_at_most_num_workers(arguments: dict[str, Any]) -> None:
    loaders = class_loaders(Pairs(), LABELS, batch_size=2, num_workers=2, **arguments)
    turns = loaders.round_robin()
    next(turns)
    together = loaders._together
    assert together is not None
    iterator = together._iterator if arguments else None
    assert iterator is None or len(iterator._workers) == 2
    assert len(list(turns)) == 5
    assert len(together) == 6


def test_the_epoch_is_set_for_all() -> None:
    loaders = class_loaders(TensorDataset(VALUES, LABELS), LABELS, shuffle=True)
    loaders[1]
    list(loaders.round_robin())
    loaders.set_epoch(4)
    assert [loaders[label].sampler.epoch for label in loaders] == [4, 4, 4]
    assert loaders._together is not None
    assert {sampler.epoch for sampler in loaders._together.batch_sampler.samplers.values()} == {4}
