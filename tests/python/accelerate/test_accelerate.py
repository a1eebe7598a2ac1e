"""`sluicegate.accelerate` in one process: the loaders that `prepare` returns, and those it refuses."""

from __future__ import annotations

import inspect
import multiprocessing
import types
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate.state import GradientState
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DistributedSampler

import sluicegate
import sluicegate.accelerate
from checks import fresh_accelerate
from checks.programs import Run
from doubles.stateful import GeneratorStream, StatefulSampler
from sluicegate import DataLoader, RandomSampler
from sluicegate.accelerate import Accelerator, keep_loaders
from sluicegate.accelerate.preparation import prepared
from sluicegate.accelerate.prepared_loader import PreparedLoader

fresh = fresh_accelerate.fresh


def one_of(processes: int, **config: Any) -> Any:
    """Return a stub of an accelerator in the second of `processes`, with the attributes that `prepared` reads."""
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


def test_the_package_alone_does_not_import_accelerate(run: Run) -> None:
    run("assert 'sluicegate' in sys.modules and 'accelerate' not in sys.modules").check()


def test_the_loader_is_ours_and_prepared_once() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(torch.arange(5), batch_size=2))
    assert isinstance(loader, sluicegate.DataLoader)
    assert accelerator.prepare(loader) is loader
    assert Accelerator(cpu=True).prepare_data_loader(loader) is loader
    flags = [(batch.tolist(), accelerator.gradient_state.end_of_dataloader) for batch in loader]
    assert flags == [([0, 1], False), ([2, 3], False), ([4], True)]
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


@pytest.mark.parametrize(
    ("processes", "config", "make", "words"),
    [
        (1, {"dispatch_batches": True}, lambda: DataLoader([1]), "dispatch_batches: .*got True"),
        (1, {"use_seedable_sampler": True}, lambda: DataLoader([1], shuffle=True), "use_seedable_sampler.*seed="),
        (2, {"even_batches": False}, lambda: DataLoader([1], seed=7), "even_batches: .*got False"),
        (2, {"even_batches": False}, lambda: DataLoader([1], sampler=RandomSampler([1], seed=7)), "even_batches"),
        (2, {"split_batches": True}, lambda: DataLoader([1], 3, seed=7), "split_batches.*multiple"),
        (2, {"split_batches": True}, lambda: DataLoader([1], 3), "round multiple of the number of processes"),
        (2, {}, lambda: DataLoader(GeneratorStream([9])), "IterableDataset can't be sharded"),
        (2, {}, lambda: DataLoader([1], in_order=False), "in_order=True"),
        (2, {}, lambda: DataLoader([1], batch_size=None), "pass a batch_size"),
        (2, {}, lambda: DataLoader([1], sampler=DistributedSampler([1], 2, 1)), "divide them again"),
        (2, {}, lambda: DataLoader([1], sampler=StatefulSampler(1)), "StatefulSampler has its own state_dict.*seed="),
        (2, {}, lambda: DataLoader([1], seed=7, shard=(0, 2)), r"must be \(1, 2\), .*, got \(0, 2\)"),
        (1, {}, lambda: DataLoader([1], seed=7, shard=(1, 2)), r"must be \(0, 1\), .*, got \(1, 2\)"),
    ],
)
def test_settings_that_a_prepared_loader_cannot_follow_are_refused(
    processes: int, config: dict[str, Any], make: Any, words: str
) -> None:
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

    with pytest.raises(TypeError, match="got its subclass Own"):
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


def test_a_last_step_that_is_skipped_leaves_no_padding() -> None:
    loader = prepared(one_of(2), DataLoader(torch.arange(7), 2), True)
    remainders = [GradientState().remainder for _ in loader]
    loader.skip([1])
    remainders += [GradientState().remainder for _ in loader]
    assert remainders == [3, 3, 0]


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


def test_an_epoch_that_was_set_before_is_kept() -> None:
    for seed in (None, 7):
        loader: DataLoader[Any] = DataLoader(torch.arange(8), shuffle=True, seed=seed)
        loader.set_epoch(3)
        assert prepared(one_of(1), loader, True).state_dict()["epoch"] == 3
