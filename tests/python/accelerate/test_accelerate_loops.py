"""Loops over prepared loaders, in one process: skipped batches, the last batch, and resuming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from torch.utils.data import BatchSampler, IterableDataset, Sampler

import sluicegate
from cases.loader_kinds import plain
from checks import fresh_accelerate
from checks.equality import assert_same
from doubles.stateful import DrawingRows, GeneratorStream, Indices
from sluicegate import DataLoader
from sluicegate.accelerate import Accelerator, skip_first_batches

fresh = fresh_accelerate.fresh


def flags(accelerator: Any, loader: Any) -> list[tuple[Any, bool]]:
    return [(batch.tolist(), accelerator.gradient_state.end_of_dataloader) for batch in loader]


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_first_batches_are_skipped_and_not_read(tmp_path: Path, num_workers: int, seed: int | None) -> None:
    def trained(skips: bool) -> tuple[list[Any], list[int]]:
        torch.manual_seed(3)
        dataset = CountedReads(tmp_path / f"{skips}")
        accelerator = Accelerator(cpu=True)
        loader = accelerator.prepare(DataLoader(dataset, 2, shuffle=True, num_workers=num_workers, seed=seed))
        skipped = accelerator.skip_first_batches(loader, 3) if skips else loader
        assert len(skipped) == (3 if skips else 6)
        return [flags(accelerator, skipped), flags(accelerator, loader)], dataset.reads()

    (first, second), _ = trained(False)
    (rest, following), reads = trained(True)
    assert rest == first[3:]
    assert following == second
    assert sorted(reads) == sorted(index for batch, _ in rest + following for index in batch)


def test_batches_before_a_loaded_position_are_not_skipped_again() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(10), batch_size=2, seed=7))
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert flags(accelerator, skip_first_batches(loader, 2)) == [([4, 5], False), ([6, 7], False), ([8, 9], True)]


def test_skip_first_batches_of_torchs_loader_is_left_to_accelerate() -> None:
    loader = torch.utils.data.DataLoader(range(4))
    assert [int(batch) for batch in skip_first_batches(loader, 3)] == [3]


def test_more_batches_than_there_are_can_be_skipped() -> None:
    with sluicegate.patch():
        loader = accelerate.data_loader.prepare_data_loader(torch.utils.data.DataLoader(torch.arange(4), batch_size=2))
        skipped = accelerate.data_loader.skip_first_batches(loader, 3)
        assert isinstance(skipped, DataLoader)
        assert [*iter(skipped)] == []


class CountedReads(Indices):
    """Counts the reads of each index in shared memory, because workers read too."""

    def __init__(self, path: Path) -> None:
        super().__init__(11)
        self.path = path

    def __getitem__(self, index: int) -> Any:
        with self.path.open("a") as file:
            file.write(f"{index}\n")
        return super().__getitem__(index)

    def reads(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()]


class Unsized(Sampler[int]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))


class DrawingStream(IterableDataset):
    """Draws from the global generator with each sample, in the training process."""

    def __iter__(self) -> Iterator[Any]:
        for index in range(9):
            yield index + torch.rand(())


ENDS: dict[str, Any] = {
    "samples that draw": lambda: DataLoader(DrawingRows(9), batch_size=2, shuffle=True),
    "samples": lambda: DataLoader(torch.arange(9), batch_size=2, shuffle=True),
    "samples with a seed": lambda: DataLoader(torch.arange(9), batch_size=2, shuffle=True, seed=3),
    "a stream": lambda: DataLoader(DrawingStream(), batch_size=2),
    "a stream with a state": lambda: DataLoader(GeneratorStream([9]), batch_size=2),
    "a stream in a worker": lambda: DataLoader(GeneratorStream([9]), batch_size=2, num_workers=1),
    "a seeded stream": lambda: DataLoader(DrawingStream(), batch_size=2, seed=3),
    "a sampler without a length": lambda: DataLoader(torch.arange(9), batch_size=2, sampler=Unsized(9)),
}


@pytest.mark.filterwarnings("ignore:DrawingStream has no state_dict")
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("make", ENDS.values(), ids=ENDS.keys())
def test_end_of_dataloader_is_right_after_a_resume_from_any_step(tmp_path: Path, make: Any, by_hand: bool) -> None:
    accelerator = Accelerator(cpu=True)
    state = ""

    def train(loader: Any, saved: int | None = None) -> list[Any]:
        nonlocal state
        steps = []
        for batch in loader:
            # The model draws too.
            steps.append([plain(batch), torch.rand(()).item(), accelerator.gradient_state.end_of_dataloader])
            if len(steps) == saved:
                accelerator.save_state(str(tmp_path))
                state = json.dumps(loader.state_dict())
        return steps

    for saved in range(1, 6):
        accelerator.free_memory()
        torch.manual_seed(5)
        expected = train(accelerator.prepare(make()), saved)
        assert [is_last for *_, is_last in expected] == [False] * 4 + [True]
        accelerator.free_memory()
        loader = accelerator.prepare(make())
        if not by_hand:
            torch.manual_seed(6)
            accelerator.load_state(str(tmp_path))
        else:
            torch.manual_seed(6 if loader.seed is None else 5)
            if loader.seed is not None:  # The state of a loader with a seed does not contain the global generators.
                for _ in range(saved):
                    torch.rand(())
            loader.load_state_dict(json.loads(state))
        assert train(loader) == expected[saved:], saved


def test_ids_are_those_of_the_batch_in_the_loop() -> None:
    accelerator = Accelerator(cpu=True)
    for sampler in (None, Unsized(9)):
        loader = accelerator.prepare(DataLoader(torch.arange(9), batch_size=2, sampler=sampler))
        assert [batch.tolist() == ids.sample_indices.tolist() for batch, ids in loader.with_ids()] == [True] * 5


@pytest.mark.parametrize("in_order", [True, False])
def test_end_of_dataloader_is_right_when_batches_and_samples_are_skipped(in_order: bool) -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(12), batch_size=2, num_workers=2, in_order=in_order))
    loader.skip([1, 5])
    assert [is_last for _, is_last in flags(accelerator, loader)] == [False] * 3 + [True]
    loader.skip_samples([10, 11])
    assert [is_last for _, is_last in flags(accelerator, loader)] == [False] * 4 + [True]


@pytest.mark.parametrize("length", [2, 4])
def test_a_batch_sampler_with_a_wrong_length_is_read_to_its_end(length: int) -> None:
    class Wrong(list[list[int]]):
        def __len__(self) -> int:
            return length

    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(3), batch_sampler=Wrong([[0], [1], [2]])))
    assert flags(accelerator, loader) == [([0], False), ([1], False), ([2], True)]


@pytest.mark.parametrize("length", [2, 4])
def test_a_changed_length_of_torchs_batch_sampler_is_an_error(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Accelerator(cpu=True).prepare(DataLoader(torch.arange(3)))
    monkeypatch.setattr(BatchSampler, "__len__", lambda _: length)
    with pytest.raises(RuntimeError, match=f"the length of BatchSampler is {length}.*correct its __len__"):
        list(loader)


class DrawnOneByOne(Sampler[int]):
    """Draws each index from the global generator when it is asked for it."""

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[int]:
        return (int(torch.randint(8, ())) for _ in range(12))


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("dataset", [torch.utils.data.TensorDataset(torch.arange(8)), range(8)])
def test_a_sampler_draws_when_it_would_with_torchs_loader(dataset: Any, num_workers: int) -> None:
    def trained(of: Any, module: Any) -> list[Any]:
        torch.manual_seed(0)
        loader = module.DataLoader(dataset, batch_size=2, sampler=DrawnOneByOne(), num_workers=num_workers)
        return [(batch, torch.rand(1)) for batch in of(cpu=True).prepare(loader)]

    assert_same(trained(Accelerator, sluicegate), trained(accelerate.Accelerator, torch.utils.data))


def test_a_generator_that_loaders_share_ends_an_epoch_when_it_would_with_torchs_loader() -> None:
    """Torch's sampler draws from it once more at the end, before the loop has the last batch."""

    def trained(of: Any, module: Any) -> list[Any]:
        generator = torch.Generator().manual_seed(5)
        train, valid = (module.DataLoader(torch.arange(8), 4, True, generator=generator) for _ in range(2))
        train, valid = of(cpu=True).prepare(train, valid)
        return [[batch, list(valid)] for batch in train]

    assert_same(trained(Accelerator, sluicegate), trained(accelerate.Accelerator, torch.utils.data))


def test_an_abandoned_epoch_is_as_with_torchs_loader() -> None:
    known = []
    for accelerator, module in (
        (accelerate.Accelerator(cpu=True), torch.utils.data),
        (Accelerator(cpu=True), sluicegate),
    ):
        loader = accelerator.prepare(module.DataLoader(torch.arange(9), batch_size=5))
        batch = next(iter(loader))
        state = accelerator.gradient_state
        known.append([accelerator.gather_for_metrics(batch).tolist(), state.in_dataloader, state.end_of_dataloader])
    assert known[0] == known[1]


def test_scalars_are_gathered_as_by_accelerate() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(3), batch_size=2, seed=7, shard=(0, 1)))
    assert [accelerator.gather_for_metrics(batch.sum()).item() for batch in loader] == [1, 2]


def test_batches_skipped_while_one_is_prefetched_are_part_of_the_state() -> None:
    loader = Accelerator(cpu=True).prepare(DataLoader(GeneratorStream([9]), batch_size=2))
    batches = iter(loader)
    next(batches)
    loader.skip([3])
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == [[2, 3], [4, 5], [8]]


def test_resumed_loaders_leave_the_global_generators_where_they_are(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    datasets = torch.arange(6), torch.arange(6), DrawingRows(6)
    loaders = accelerator.prepare(*(DataLoader(dataset, batch_size=2, shuffle=True) for dataset in datasets))
    loops = list(map(iter, loaders))
    for loop in loops:
        next(loop), next(loop)
    accelerator.save_state(str(tmp_path))
    accelerator.load_state(str(tmp_path))
    for loader in loaders:
        torch.rand(7)
        before = torch.get_rng_state()
        assert len(list(loader)) == 1
        assert torch.equal(torch.get_rng_state(), before)


EVALUATIONS: dict[str, Any] = {
    "shuffled": lambda: DataLoader(torch.arange(9), batch_size=2, shuffle=True),
    "with a seed": lambda: DataLoader(torch.arange(9), batch_size=2, shuffle=True, seed=7),
    "at its last batch": lambda: DataLoader(torch.arange(2), batch_size=2),
    "a stream": lambda: DataLoader(DrawingStream(), batch_size=2),
    "in a worker": lambda: DataLoader(Indices(9), batch_size=2, shuffle=True, num_workers=1),
    "in a worker that persists": lambda: DataLoader(
        Indices(9), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True
    ),
    "a stream at its last batch": lambda: DataLoader(DrawingStream(), batch_size=9),
}


@pytest.mark.parametrize("make", EVALUATIONS.values(), ids=EVALUATIONS.keys())
def test_an_evaluation_that_was_left_early_starts_over(tmp_path: Path, make: Any) -> None:
    def train(saved: int | None = None) -> list[Any]:
        accelerator = Accelerator(cpu=True)
        training, evaluation = accelerator.prepare(DataLoader(torch.arange(9), batch_size=2, shuffle=True), make())
        if saved is None:
            accelerator.load_state(str(tmp_path))
        steps = []
        for batch in training:
            for counted in evaluation:
                steps.append([batch.tolist(), counted.tolist(), torch.rand(()).item()])
                break
            if len(steps) == saved:
                accelerator.save_state(str(tmp_path))
        return steps

    torch.manual_seed(4)
    expected = train(3)
    torch.manual_seed(5)
    assert train() == expected[3:]
    assert len(expected) == 5


def test_a_checkpoint_without_positions_is_a_warning(tmp_path: Path) -> None:
    accelerate.Accelerator(cpu=True).save_state(str(tmp_path))
    accelerator = Accelerator(cpu=True)
    accelerator.load_state(str(tmp_path))  # Without loaders, there is nothing to warn about.
    loader = accelerator.prepare(DataLoader(torch.arange(4), batch_size=2))
    with pytest.warns(UserWarning, match="skip_first_batches"):
        accelerator.load_state(str(tmp_path))
    assert len(list(loader)) == 2


def test_other_loaders_than_were_saved_are_refused(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.prepare(DataLoader(torch.arange(4)))
    accelerator.save_state(str(tmp_path))
    accelerator.prepare(DataLoader(torch.arange(4)))
    with pytest.raises(ValueError, match="positions of 1 loaders, but 2 are prepared"):
        accelerator.load_state(str(tmp_path))
