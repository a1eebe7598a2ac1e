"""Large samples are copied to their row of the batch as they arrive, and released, with no other visible effect."""

from __future__ import annotations

import contextlib
import os
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, StackDataset, Subset, default_collate

import sluicegate
from cases.large_samples import LARGE, LargeSamples, arranged
from cases.sample_kinds import MAKERS, WITHOUT_MEMORY
from checks import drawn
from checks.equality import Outcome, assert_same, assert_same_outcome, error_of, outcome_difference, outcome_of
from checks.operations import operations
from sluicegate import DataLoader
from sluicegate._torch import DTYPES
from sluicegate._utils.collate import default_collate_fn_map
from sluicegate.fetch import early_rows

DRAWS = int(os.environ.get("SLUICEGATE_EARLY_ROWS_DRAWS", "120"))
WORKER_DRAWS = max(2, DRAWS // 50)
CHUNKS = 4
KINDS = ["plain", "plain", "plain", "subset", "subset of subset", "concatenated", "many"]

pytestmark = [
    pytest.mark.slots,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*Triggered internally at"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]


@pytest.fixture(autouse=True)
def little_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_rows, "SMALLEST", LARGE)


def epochs_of(package: Any, number: int, names: list[str] | None, epochs: int, **arguments: Any) -> list[Outcome]:
    """Return the outcome of each epoch, including batches after errors."""
    choose = random.Random(number)
    size, kind = choose.choice([2, 3, 5, 9, 16]), choose.choice(KINDS)
    arguments = {"batch_size": choose.choice([1, 2, 3, 4, 7, None]), "drop_last": choose.random() < 0.2, **arguments}
    if arguments["batch_size"] is None:
        arguments["drop_last"] = False
        # Torch's worker may still be sending a sample while the dataset modifies it.
        names = WITHOUT_MEMORY if arguments.get("num_workers") else names
    arguments["shuffle"] = choose.random() < 0.3
    torch.manual_seed(number)
    loader = package.DataLoader(arranged(kind, number, size, names), **arguments)
    return [outcome_of(lambda: batches_of(loader)) for _ in range(epochs)]


def batches_of(loader: Any) -> Any:
    iterator, errors = iter(loader), 0
    while errors < 3:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except Exception as error:
            errors += 1
            yield error.with_traceback(None)


def same_as_torch(number: int, names: list[str] | None = None, epochs: int = 1, **arguments: Any) -> None:
    ours = epochs_of(sluicegate, number, names, epochs, **arguments)
    torchs = epochs_of(torch.utils.data, number, names, epochs, **arguments)
    for epoch, (actual, expected) in enumerate(zip(ours, torchs, strict=True)):
        actual.warnings = expected.warnings = []
        found = outcome_difference(actual, expected)
        assert found is None, f"number {number}, epoch {epoch}, {found[:2000]}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_large_samples_are_indistinguishable_from_torchs(chunk: int) -> None:
    for number in drawn.numbers(DRAWS // CHUNKS):
        same_as_torch(number, epochs=2)


@pytest.mark.parametrize("name", MAKERS)
def test_each_kind_of_sample_is_delivered_as_torch_does(name: str) -> None:
    for number in drawn.numbers(2):
        same_as_torch(number, [name], epochs=2, batch_size=4)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_large_sample_of_a_different_type_has_torchs_outcome(name: str, dtype: str) -> None:
    # Every two values of different parameters occur together.
    same, broadcast = (3, 40, 40), (1, 40, 40)
    for first, other, odd in (
        ("fresh", same, 0),
        ("fresh", broadcast, 2),
        ("fresh_array", same, 2),
        ("fresh_array", broadcast, 0),
    ):
        outcomes = []
        for cls in (DataLoader, torch.utils.data.DataLoader):
            data = LargeSamples(0, 4)
            data.container, data.repeats_leaf, data.leaves = "bare", False, [(first, (3, 40, 40), dtype)]
            data.odd_index, data.oddity, data.odd_leaf = odd, "whole leaf", (name, other, dtype)
            outcomes.append(outcome_of(lambda cls=cls, data=data: cls(data, batch_size=4)))
        assert_same_outcome(*outcomes)


@pytest.mark.parametrize("arguments", [{}, {"persistent_workers": True}], ids=str)
def test_large_samples_from_workers_are_indistinguishable_from_torchs(arguments: dict[str, Any]) -> None:
    for number in drawn.numbers(WORKER_DRAWS):
        same_as_torch(number, epochs=2, num_workers=1 + number % 2, **arguments)


def test_worker_threads_deliver_torchs_batches() -> None:
    for number in drawn.numbers(WORKER_DRAWS * 4):
        ours = epochs_of(sluicegate, number, WITHOUT_MEMORY, 2, num_workers=2, worker_type="thread")
        # Torch's workers make a batch of different types in that of its first sample; its main process does not.
        in_workers = epochs_of(torch.utils.data, number, WITHOUT_MEMORY, 2, num_workers=2)
        here = epochs_of(torch.utils.data, number, WITHOUT_MEMORY, 2)
        expected = [
            # If only some samples are tensors, torch's workers fail at what the others lack.
            [main if isinstance(worker, AttributeError) else worker for worker, main in zip(*values, strict=False)]
            for values in zip((each.values for each in in_workers), (each.values for each in here), strict=True)
        ]
        assert_same([number, *(each.values for each in ours)], [number, *expected])


def collate_of_users(samples: Any) -> Any:
    return default_collate(samples)


def rest_of(number: int, consumed: int, names: list[str] | None, **arguments: Any) -> Outcome:
    """Return the batches after the first `consumed`, from a loader that resumes there."""
    choose = random.Random(number)
    arguments = {"batch_size": choose.choice([1, 2, 3, 4]), "shuffle": choose.random() < 0.5, **arguments}
    kind = choose.choice(KINDS)
    loaders = [DataLoader(arranged(kind, number, 12, names), **arguments) for _ in range(2)]
    torch.manual_seed(number)
    iterator = iter(loaders[0])
    for _ in range(consumed):
        with contextlib.suppress(Exception):
            next(iterator)
    loaders[1].load_state_dict(loaders[0].state_dict())
    del iterator
    return outcome_of(lambda: batches_of(loaders[1]))


@pytest.mark.parametrize("arguments", [{}, {"seed": 7}], ids=str)
def test_a_resumed_epoch_has_torchs_large_samples(arguments: dict[str, Any]) -> None:
    names = WITHOUT_MEMORY + ["buffer", "cached", "slices_of_one", "channels_last", "subclass"]
    for number in drawn.numbers(DRAWS // 10):
        consumed = number % 4
        ours = rest_of(number, consumed, names, **arguments)
        expected = rest_of(number, consumed, names, collate_fn=collate_of_users, **arguments)
        assert_same_outcome(ours, expected)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_samples_of_a_seed_are_the_same(num_workers: int) -> None:
    draws = DRAWS // 10 if num_workers == 0 else WORKER_DRAWS
    for number in drawn.numbers(draws):
        arguments = {"num_workers": num_workers, "seed": number, "batch_size": 1 + number % 5}
        ours = epochs_of(sluicegate, number, None, 2, **arguments)
        expected = epochs_of(sluicegate, number, None, 2, collate_fn=collate_of_users, **arguments)
        assert_same([each.values for each in ours], [each.values for each in expected])


class Noted(Dataset[Any]):
    """Tensors with an attribute `note`; each sample has the number of earlier notes that are gone."""

    def __init__(self) -> None:
        self.notes: list[weakref.ref[Any]] = []

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        tensor: Any = torch.full((LARGE,), float(index))
        gone = sum(note() is None for note in self.notes)
        tensor.note = {index}
        self.notes.append(weakref.ref(tensor.note))
        return tensor, gone


def test_samples_in_attributes_of_tensors_live_until_the_batch_is_made() -> None:
    ours, torchs = (list(cls(Noted(), batch_size=4)) for cls in (DataLoader, torch.utils.data.DataLoader))
    assert_same(ours, torchs)
    assert torchs[1][1].tolist() == [4] * 4


class Growing(Dataset[Any]):
    """Batches of four samples that grow: a worker moves a batch to a larger block while filling it."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        floats = LARGE // 4 * (1 + 5 * (index // 4) ** 2)
        value = torch.arange(floats) % 199 + index
        return value.float(), numpy.arange(floats * 3, dtype=numpy.int16) + index, value[:700].double(), index


@pytest.mark.parametrize("epochs", [2])
def test_rows_stay_right_where_a_batch_moves(epochs: int) -> None:
    ours, torchs = (
        cls(Growing(), batch_size=4, num_workers=1, persistent_workers=True)
        for cls in (DataLoader, torch.utils.data.DataLoader)
    )
    for _ in range(epochs):
        assert_same(list(ours), list(torchs))


def test_a_worker_of_a_fork_server_has_torchs_large_samples() -> None:
    arguments = {"batch_size": 4, "num_workers": 1, "multiprocessing_context": "forkserver"}
    data = Growing()
    assert_same(list(DataLoader(data, **arguments)), list(torch.utils.data.DataLoader(data, batch_size=4)))


class Addresses(Dataset[Any]):
    """Fresh tensors and their addresses."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        tensor = torch.full((LARGE,), float(index))
        return tensor, tensor.data_ptr()


def test_functions_added_to_torchs_collate_map_get_the_samples_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def keep(samples: Any, *, collate_fn_map: Any = None) -> Any:
        seen.extend(each.data_ptr() for each in samples)
        return len(samples)

    iterator = iter(DataLoader(Addresses(), batch_size=4))
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, keep)
    batch, addresses = next(iterator)
    assert batch == 4
    assert seen == addresses.tolist()


def test_a_function_that_identifies_samples_gets_them_themselves() -> None:
    seen: list[int] = []
    loader = DataLoader(Addresses(), batch_size=4)
    (_, addresses), _ = next(iter(loader.with_ids(lambda sample: seen.append(sample[0].data_ptr()))))
    assert seen == addresses.tolist()


def test_a_mode_sees_no_copies() -> None:
    with operations() as seen:
        next(iter(DataLoader(Addresses(), batch_size=4)))
    assert "stack.default" in seen
    assert "copy_.default" not in seen


class Drawn(Dataset[Any]):
    """Samples whose draws show the order in which they are read."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(self.size) + index


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_missing_index_of_a_subset_is_found_when_torch_finds_it(levels: int) -> None:
    samples: Any = Drawn(LARGE)
    for _ in range(levels):
        samples = Subset(samples, range(1, 9))
    seen: list[Any] = []
    for cls in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(0)
        loader = cls(samples, batch_sampler=[[0, 1], [2, 3, 8], [4]])
        seen.append([*batches_of(loader), torch.get_rng_state()])
    expected, actual = seen
    assert type(actual.pop(1)) is type(expected.pop(1)) is IndexError
    assert_same(actual, expected)


COMBINED: dict[str, Callable[[Any], Any]] = {
    "stack": lambda part: StackDataset(part, part),
    "subset of a stack": lambda part: Subset(StackDataset(a=part, b=part), range(1, 8)),
    "subset of a subset of a stack": lambda part: Subset(Subset(StackDataset(part, part), range(8)), range(7)),
    "stack of subsets": lambda part: StackDataset(Subset(part, range(2, 9)), Subset(part, range(7))),
    "subset of a concatenation of stacks": lambda part: Subset(
        StackDataset(part, part) + StackDataset(part, part), [9, 1, 5]
    ),
    "subset of samples": lambda part: Subset(part, range(1, 8)),
}


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("size", [1, LARGE])
@pytest.mark.parametrize("name", COMBINED)
def test_parts_of_combined_datasets_draw_in_torchs_order(name: str, size: int, num_workers: int) -> None:
    samples, seen = COMBINED[name](Drawn(size)), []
    for cls in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(0)
        seen.append([*cls(samples, batch_size=3, num_workers=num_workers), torch.get_rng_state()])
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("change", [torch.Tensor.to_sparse, lambda tensor: torch.nested.nested_tensor([tensor])])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_tensors_without_plain_memory_have_torchs_errors(change: Callable[[Any], Any]) -> None:
    samples = Subset([change(torch.ones(LARGE)) for _ in range(4)], range(4))
    loaders = (cls(samples, batch_size=4) for cls in (DataLoader, torch.utils.data.DataLoader))
    ours, torchs = (error_of(lambda loader=loader: list(loader)) for loader in loaders)
    assert_same(ours, torchs)


class OfType(Dataset[Any]):
    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        values = torch.arange(2 * LARGE) % 251 + index
        return values.to(torch.uint8).view(self.dtype), values.to(torch.bool)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bool"])
def test_large_samples_of_every_data_type_match_torch(name: str, num_workers: int) -> None:
    data = OfType(DTYPES[name])
    ours = list(DataLoader(data, batch_size=4, num_workers=num_workers))
    assert_same(ours, list(torch.utils.data.DataLoader(data, batch_size=4)))
