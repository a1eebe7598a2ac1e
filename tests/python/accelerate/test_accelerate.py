"""`sluicegate.accelerate` in one process: what `prepare` makes of a loader, and what it refuses."""

from __future__ import annotations

import inspect
import json
import multiprocessing
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DistributedSampler, IterableDataset, Sampler

import sluicegate
import sluicegate.accelerate
from cases.loader_kinds import plain
from doubles.stateful import DrawingRows, GeneratorStream, Indices, StatefulSampler
from sluicegate import DataLoader, RandomSampler
from sluicegate.accelerate import Accelerator, keep_loaders, skip_first_batches
from sluicegate.accelerate.preparation import prepared
from sluicegate.accelerate.prepared_loader import PreparedLoader


@pytest.fixture(autouse=True)
def _fresh_accelerate() -> Iterator[None]:
    """Accelerate keeps its settings for the process."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


def one_of(processes: int, **config: Any) -> Any:
    """Stands for an accelerator in the second of `processes`, which `prepared` asks for no more than this."""
    given = DataLoaderConfiguration(**config)
    state = types.SimpleNamespace(distributed_type=accelerate.DistributedType.MULTI_CPU)
    return types.SimpleNamespace(
        num_processes=processes,
        process_index=1 if processes > 1 else 0,
        state=state,
        torch_device_mesh=None,
        device=torch.device("cpu"),
        rng_types=["generator"],
        **{name: getattr(given, name) for name in ("dispatch_batches", "split_batches", "even_batches")},
        use_seedable_sampler=given.use_seedable_sampler,
    )


def flags(accelerator: Any, loader: Any) -> list[tuple[Any, bool]]:
    return [(batch.tolist(), accelerator.gradient_state.end_of_dataloader) for batch in loader]


def test_the_package_alone_does_not_import_accelerate() -> None:
    program = "import sys, sluicegate; assert 'accelerate' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_loader_is_ours_and_prepared_once() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(5), batch_size=2))
    assert isinstance(loader, sluicegate.DataLoader)
    assert accelerator.prepare(loader) is loader
    assert Accelerator(cpu=True).prepare_data_loader(loader) is loader
    assert flags(accelerator, loader) == [([0, 1], False), ([2, 3], False), ([4], True)]
    assert (len(loader), loader.total_batch_size, loader.total_dataset_length) == (3, 2, 5)
    assert not accelerator.gradient_state.in_dataloader


def test_torchs_loader_is_accelerates_matter() -> None:
    loader = Accelerator(cpu=True).prepare(torch.utils.data.DataLoader(range(5)))
    assert isinstance(loader, accelerate.data_loader.DataLoaderShard)


def test_an_accelerator_of_other_code_keeps_loaders_too(tmp_path: Path) -> None:
    plain = accelerate.Accelerator(cpu=True)
    accelerator = keep_loaders(plain)
    assert accelerator is plain
    assert keep_loaders(accelerator) is accelerator
    loader = accelerator.prepare(DataLoader(torch.arange(6), batch_size=2))
    assert isinstance(loader, sluicegate.DataLoader)
    batches = iter(loader)
    next(batches)
    accelerator.save_state(str(tmp_path))
    rest = [batch.tolist() for batch in batches]
    accelerator.load_state(str(tmp_path))
    assert [batch.tolist() for batch in loader] == rest == [[2, 3], [4, 5]]


def test_a_subclass_of_accelerates_is_refused() -> None:
    class Own(accelerate.Accelerator):
        pass

    with pytest.raises(TypeError, match="derive that class from"):
        keep_loaders(Own(cpu=True))


def test_batches_arrive_on_the_device_of_the_accelerator() -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.state.device = torch.device("meta")
    loaders = [DataLoader(torch.arange(4)), DataLoader(torch.arange(4), device="cpu")]
    assert [next(iter(accelerator.prepare(loader))).device.type for loader in loaders] == ["meta", "cpu"]
    loader = accelerator.prepare(DataLoader(torch.arange(4)), device_placement=[False])
    assert next(iter(loader)).device.type == "cpu"


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


def test_of_torchs_loader_accelerate_skips_batches() -> None:
    loader = torch.utils.data.DataLoader(range(4))
    assert [int(batch) for batch in skip_first_batches(loader, 3)] == [3]


class CountedReads(Indices):
    """Writes which indices are read: workers read too."""

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
    """Draws from the global generator with each sample, in the process that trains."""

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
def test_the_end_is_told_and_resumed_from_any_step_wherever_it_is_known(
    tmp_path: Path, make: Any, by_hand: bool
) -> None:
    accelerator = Accelerator(cpu=True)
    state = ""

    def train(loader: Any, saved: int | None = None) -> list[Any]:
        nonlocal state
        steps = []
        for batch in loader:
            # The model draws, too.
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
            if loader.seed is not None:  # Such a state does not hold the global generators.
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
def test_the_last_batch_is_told_whatever_is_left_out(in_order: bool) -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(12), batch_size=2, num_workers=2, in_order=in_order))
    loader.skip([1, 5])
    assert [is_last for _, is_last in flags(accelerator, loader)] == [False] * 3 + [True]
    loader.skip_samples([10, 11])
    assert [is_last for _, is_last in flags(accelerator, loader)] == [False] * 4 + [True]


@pytest.mark.parametrize("length", [2, 4])
def test_a_batch_sampler_with_a_wrong_length_is_an_error(length: int) -> None:
    class Wrong(list[list[int]]):
        def __len__(self) -> int:
            return length

    loader = Accelerator(cpu=True).prepare(DataLoader(torch.arange(3), batch_sampler=Wrong([[0], [1], [2]])))
    with pytest.raises(RuntimeError, match=f"the length of Wrong is {length}.*correct its __len__"):
        list(loader)


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


@pytest.mark.parametrize(
    ("processes", "config", "make", "words"),
    [
        (1, {"dispatch_batches": True}, lambda: DataLoader([1]), "dispatch_batches: .*got True"),
        (1, {"use_seedable_sampler": True}, lambda: DataLoader([1], shuffle=True), "use_seedable_sampler.*seed="),
        (2, {"even_batches": False}, lambda: DataLoader([1], seed=7), "even_batches: .*got False"),
        (2, {"even_batches": False}, lambda: DataLoader([1], sampler=RandomSampler([1], seed=7)), "even_batches"),
        (2, {"split_batches": True}, lambda: DataLoader([1], 3, seed=7), "split_batches.*multiple"),
        (2, {"split_batches": True}, lambda: DataLoader([1], 3), "round multiple of the number of processes"),
        (2, {}, lambda: DataLoader(GeneratorStream([9])), "IterableDataset can't be divided"),
        (2, {}, lambda: DataLoader([1], in_order=False), "in_order=True"),
        (2, {}, lambda: DataLoader([1], batch_size=None), "give a batch_size"),
        (2, {}, lambda: DataLoader([1], sampler=DistributedSampler([1], 2, 1)), "divide them again"),
        (2, {}, lambda: DataLoader([1], sampler=StatefulSampler(1)), "StatefulSampler has a state of its own.*seed="),
        (2, {}, lambda: DataLoader([1], seed=7, shard=(0, 2)), r"process 1 of 2, got shard=\(0, 2\)"),
        (1, {}, lambda: DataLoader([1], seed=7, shard=(1, 2)), r"process 0 of 1, got shard=\(1, 2\)"),
    ],
)
def test_what_a_loader_can_not_follow_is_refused(processes: int, config: dict[str, Any], make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        prepared(one_of(processes, **config), make(), True)


def test_uneven_inputs_are_refused_with_a_seed() -> None:
    accelerator = Accelerator(cpu=True)
    for seed in (None, 7):
        accelerator.prepare(prepared(one_of(2), DataLoader(torch.arange(8), 2, seed=seed), True))
        if seed is None:
            with accelerator.join_uneven_inputs([], even_batches=False):
                pass
    with accelerator.join_uneven_inputs([]):
        pass
    with pytest.raises(ValueError, match=r"even_batches: .*got False"):
        accelerator.join_uneven_inputs([], even_batches=False)


def test_settings_without_an_effect_are_not_refused() -> None:
    for config, seed in (({"use_seedable_sampler": True}, 7), ({"even_batches": False}, None)):
        assert isinstance(
            prepared(one_of(2, **config), DataLoader([1], shuffle=seed == 7, seed=seed), True), PreparedLoader
        )


def test_meshes_and_xla_are_refused() -> None:
    accelerator = one_of(2)
    accelerator.torch_device_mesh = "DeviceMesh(tp=2)"
    with pytest.raises(ValueError, match="device mesh"):
        prepared(accelerator, DataLoader([1]), True)
    accelerator = one_of(1)
    accelerator.state.distributed_type = accelerate.DistributedType.XLA
    with pytest.raises(ValueError, match="XLA"):
        prepared(accelerator, DataLoader([1]), True)


def test_a_subclass_or_a_loader_with_a_place_is_refused() -> None:
    class Own(DataLoader[Any]):
        pass

    with pytest.raises(TypeError, match="Own is a subclass"):
        prepared(one_of(1), Own([1]), True)
    loader: DataLoader[Any] = DataLoader([1])
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="prepare it first"):
        prepared(one_of(1), loader, True)


def test_samples_can_not_be_left_out_where_processes_would_wait_for_each_other() -> None:
    with pytest.raises(ValueError, match="seed="):
        prepared(one_of(2), DataLoader(torch.arange(8), 2), True).skip_samples([1])
    seeded = prepared(one_of(2), DataLoader(torch.arange(8), 2, seed=7), True)
    seeded.skip_samples([1])
    assert torch.cat(list(seeded)).tolist() == [3, 5, 7]


def test_what_has_no_rows_is_gathered_as_by_accelerate() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(3), batch_size=2, seed=7, shard=(0, 1)))
    assert [accelerator.gather_for_metrics(batch.sum()).item() for batch in loader] == [1, 2]


def test_a_last_step_that_is_skipped_leaves_no_padding() -> None:
    loader = prepared(one_of(2), DataLoader(torch.arange(7), 2), True)
    remainders = [GradientState().remainder for _ in loader]
    loader.skip([1])
    remainders += [GradientState().remainder for _ in loader]
    assert remainders == [3, 3, 0]


def test_what_is_skipped_while_a_batch_is_ahead_is_part_of_the_state() -> None:
    loader = Accelerator(cpu=True).prepare(DataLoader(GeneratorStream([9]), batch_size=2))
    batches = iter(loader)
    next(batches)
    loader.skip([3])
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == [[2, 3], [4, 5], [8]]


def test_with_drop_last_nothing_is_read_twice() -> None:
    loader = prepared(one_of(2), DataLoader(torch.arange(7), 4, drop_last=True, seed=7), True)
    assert len(loader) == len(list(loader)) == 0


def test_all_other_arguments_are_kept() -> None:
    given: dict[str, Any] = {
        "num_workers": 2,
        "collate_fn": list,
        "pin_memory": True,
        "timeout": 9,
        "worker_init_fn": print,
        "multiprocessing_context": multiprocessing.get_context("spawn"),
        "generator": None,
        "prefetch_factor": 5,
        "persistent_workers": True,
        "pin_memory_device": "",
        "in_order": False,
        "snapshot_every_n_steps": 3,
        "worker_type": "process",
        "seed": 7,
        "seed_samples": False,
        "prefetch_bytes": 1000,
        "device": torch.device("cpu"),
        "device_prefetch": 3,
        "device_transform": list,
        "native": False,
    }
    divided = (
        "self",
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "drop_last",
        "shard",
        "remainder",
    )
    assert set(given) == set(inspect.signature(DataLoader.__init__).parameters) - set(divided)
    loader: DataLoader[Any] = DataLoader([1], **given)
    assert {name: getattr(prepared(one_of(1), loader, True), name) for name in given} == given


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


def test_an_epoch_that_was_set_before_is_kept() -> None:
    for seed in (None, 7):
        loader: DataLoader[Any] = DataLoader(torch.arange(8), shuffle=True, seed=seed)
        loader.set_epoch(3)
        assert prepared(one_of(1), loader, True).state_dict()["epoch"] == 3


def test_a_checkpoint_without_positions_is_a_warning(tmp_path: Path) -> None:
    accelerate.Accelerator(cpu=True).save_state(str(tmp_path))
    accelerator = Accelerator(cpu=True)
    accelerator.load_state(str(tmp_path))  # Without loaders it is nothing.
    loader = accelerator.prepare(DataLoader(torch.arange(4), batch_size=2))
    with pytest.warns(UserWarning, match="skip_first_batches"):
        accelerator.load_state(str(tmp_path))
    assert len(list(loader)) == 2


def test_other_loaders_than_were_saved_are_refused(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.prepare(DataLoader(torch.arange(4)))
    accelerator.save_state(str(tmp_path))
    accelerator.prepare(DataLoader(torch.arange(4)))
    with pytest.raises(ValueError, match="positions of 1 loaders, and 2 are prepared"):
        accelerator.load_state(str(tmp_path))
