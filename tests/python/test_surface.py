"""The public names, and the attributes of a loader that trainers require."""

from __future__ import annotations

import copy
import inspect
import pickle
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.utils.data
from torch.utils.data.dataloader import _BaseDataLoaderIter

import sluicegate
from checks.equality import assert_same
from checks.public_names import assert_named
from doubles.datasets import Rows, Stream

OWN_NAMES = [
    "ArrowDataset",
    "BalancedBatchSampler",
    "BatchIds",
    "BlockShuffleSampler",
    "ClassLoaders",
    "ClassSampler",
    "CsvDataset",
    "CsvLabels",
    "CsvStream",
    "DamagedImageError",
    "Explanation",
    "FieldStatistics",
    "FolderDataset",
    "ImageField",
    "Hdf5Dataset",
    "ImageFolderDataset",
    "JsonLinesDataset",
    "JsonLinesStream",
    "LengthBucketBatchSampler",
    "LoaderStats",
    "MdsDataset",
    "MixtureSampler",
    "NpyDataset",
    "NpzDataset",
    "PackCollate",
    "PackedBatchSampler",
    "ParquetDataset",
    "Patch",
    "RawDataset",
    "RawStream",
    "RepeatSampler",
    "SafetensorsDataset",
    "SharedDict",
    "SharedList",
    "ShuffleBuffer",
    "StatefulDataLoader",
    "StopCriteria",
    "StratifiedBatchSampler",
    "StreamSplit",
    "TFRecordDataset",
    "TFRecordStream",
    "TokenDocumentsDataset",
    "TokensDataset",
    "TarDataset",
    "TarStream",
    "ZarrDataset",
    "__version__",
    "_utils",
    "class_loaders",
    "decode_image",
    "distributed",
    "patch",
    "sample_rng",
    "shard_iterable",
    "split_by_class",
    "statistics",
    "transforms",
    "write_parquet",
    "write_tar",
    "write_tokens",
    "write_zarr",
]
SUBCLASSED_BY_USERS = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "Sampler",
    "StackDataset",
    "Subset",
    "TensorDataset",
]


@pytest.mark.parametrize("name", torch.utils.data.__all__)
def test_every_public_name_of_torch_is_here(name: str) -> None:
    ours, torchs = getattr(sluicegate, name), getattr(torch.utils.data, name)
    if inspect.isclass(torchs):
        assert issubclass(ours, torchs)
    else:
        assert ours is torchs


@pytest.mark.parametrize("name", SUBCLASSED_BY_USERS)
def test_base_classes_for_users_are_torchs_own(name: str) -> None:
    assert getattr(sluicegate, name) is getattr(torch.utils.data, name)


def test_the_public_surface_is_pinned() -> None:
    assert sorted(sluicegate.__all__) == sorted([*torch.utils.data.__all__, *OWN_NAMES])
    assert all(hasattr(sluicegate, name) for name in sluicegate.__all__)


def test_pickles_name_the_package() -> None:
    assert_named(sluicegate)
    assert_named(sluicegate.transforms)


def test_the_signature_is_torchs_with_own_arguments_keyword_only_at_the_end() -> None:
    torchs = list(inspect.signature(torch.utils.data.DataLoader.__init__).parameters.values())
    ours = list(inspect.signature(sluicegate.DataLoader.__init__).parameters.values())
    head, tail = ours[: len(torchs)], ours[len(torchs) :]
    assert [(p.name, p.kind, p.default) for p in head] == [(p.name, p.kind, p.default) for p in torchs]
    assert [p.name for p in tail] == [
        "snapshot_every_n_steps",
        "worker_type",
        "seed",
        "seed_samples",
        "shard",
        "remainder",
        "prefetch_bytes",
        "device",
        "device_prefetch",
        "device_transform",
        "native",
    ]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is not inspect.Parameter.empty for p in tail)


def test_own_arguments_are_attributes_of_the_same_name() -> None:
    assert sluicegate.DataLoader([0]).snapshot_every_n_steps == 1
    assert sluicegate.DataLoader([0], snapshot_every_n_steps=0).snapshot_every_n_steps == 0
    assert len(list(sluicegate.DataLoader(torch.arange(4), 2, snapshot_every_n_steps=3))) == 2
    with pytest.raises(TypeError, match="snapshot_every_n_steps"):
        torch.utils.data.DataLoader([0], snapshot_every_n_steps=1)


def test_the_loader_is_a_plain_subclass() -> None:
    assert issubclass(sluicegate.DataLoader, torch.utils.data.DataLoader)
    assert type(sluicegate.DataLoader) is type
    assert sluicegate.DataLoader.__name__ == "DataLoader"
    assert "__slots__" not in vars(sluicegate.DataLoader)
    kinds = {p.kind for p in inspect.signature(sluicegate.DataLoader.__init__).parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def arguments_of(loader: Any) -> dict[str, Any]:
    """Return every argument of the constructor, as trainers read them back from `vars`."""
    names = list(inspect.signature(type(loader).__init__).parameters)[1:]
    found = {name: vars(loader)[name] for name in names if name in vars(loader)}
    found["multiprocessing_context"] = vars(loader)["_DataLoader__multiprocessing_context"]
    # Torch does not keep it either; the sampler implies it.
    assert set(names) - set(found) == {"shuffle"}
    return found


def native(package: ModuleType, size: int = 9) -> Any:
    return package.TensorDataset(torch.arange(2.0 * size).view(size, 2), torch.arange(size))


def test_vars_hold_every_argument_and_rebuild_the_loader(data: ModuleType) -> None:
    generator = torch.Generator()
    loader = data.DataLoader(
        native(data),
        batch_size=2,
        sampler=range(5),
        num_workers=1,
        collate_fn=list,
        drop_last=True,
        timeout=7,
        worker_init_fn=print,
        multiprocessing_context="spawn",
        generator=generator,
        prefetch_factor=3,
        persistent_workers=True,
        in_order=False,
    )
    found = arguments_of(loader)
    assert found["generator"] is generator
    assert found["prefetch_factor"] == 3
    assert found["multiprocessing_context"].get_start_method() == "spawn"
    found.pop("batch_sampler")
    rebuilt = type(loader)(**found)
    again = arguments_of(rebuilt)
    again.pop("batch_sampler")
    assert again == found


def test_a_trainer_can_swap_the_sampler_by_rebuilding(data: ModuleType) -> None:
    loader = data.DataLoader(native(data), batch_size=4, shuffle=True)
    found = arguments_of(loader)
    found.pop("batch_sampler")
    found["sampler"] = data.DistributedSampler(loader.dataset, num_replicas=2, rank=1, shuffle=False)
    assert [labels.tolist() for _, labels in type(loader)(**found)] == [[1, 3, 5, 7], [0]]
    found = arguments_of(loader)
    for name in ("batch_size", "sampler", "drop_last"):
        found.pop(name)
    found["batch_sampler"] = type(loader.batch_sampler)(range(3), 2, False)
    assert [labels.tolist() for _, labels in type(loader)(**found)] == [[0, 1], [2]]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_iterating_sets_no_attribute_but_the_iterator(data: ModuleType, num_workers: int) -> None:
    for dataset in (native(data), Rows(4), Stream(3)):
        loader = data.DataLoader(dataset, batch_size=2, num_workers=num_workers)
        before = dict(vars(loader))
        list(loader)
        after = dict(vars(loader))
        for running in ("_iterator", "_loader_kept", "_loader_current", "_loader_progress"):
            before.pop(running, None)
            after.pop(running, None)
        assert list(after) == list(before)
        assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("read", [0, 1, 9])
@pytest.mark.parametrize("kind", ["native", "python"])
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_loader_can_be_copied_and_pickled_before_and_after_iteration(
    data: ModuleType, read: int, kind: str, copied: Any
) -> None:
    loader = data.DataLoader(native(data) if kind == "native" else Rows(9), batch_size=2)
    for _ in zip(range(read), loader, strict=False):
        pass
    twin = copied(loader)
    assert type(twin) is type(loader)
    assert_same(list(twin), list(loader))


def test_a_sampler_swapped_after_construction_is_honored_at_the_next_epoch(data: ModuleType) -> None:
    loader = data.DataLoader(native(data), batch_size=4)
    list(loader)
    loader.batch_sampler.sampler = range(8, 5, -1)
    assert [labels.tolist() for _, labels in loader] == [[8, 7, 6]]
    loader.batch_sampler.batch_size = 2
    assert [labels.tolist() for _, labels in loader] == [[8, 7], [6]]
    loader.batch_sampler.drop_last = True
    assert [labels.tolist() for _, labels in loader] == [[8, 7]]


def test_a_generator_swapped_after_construction_is_honored_at_the_next_epoch(data: ModuleType) -> None:
    orders = []
    for package in (data, torch.utils.data):
        loader = package.DataLoader(native(package), batch_size=4, shuffle=True)
        torch.manual_seed(1)
        order = [list(loader)]
        loader.sampler.generator = loader.generator = torch.Generator().manual_seed(9)
        order += [list(loader), list(loader)]
        loader.sampler._num_samples = 3
        order.append(list(loader))
        orders.append([order, loader.generator.get_state(), torch.get_rng_state()])
    assert_same(orders[0], orders[1])


def test_attributes_may_be_set_before_the_base_constructor(data: ModuleType) -> None:
    class Early(data.DataLoader):
        def __init__(self, rank: int, **arguments: Any) -> None:
            self.rank = rank
            super().__init__(**arguments)

    loader = Early(3, dataset=native(data), batch_size=5)
    assert loader.rank == 3
    assert [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_subclass_may_wrap_iteration_and_collation(data: ModuleType) -> None:
    class Doubling(data.DataLoader):
        def __iter__(self) -> Any:
            for rows, labels in super().__iter__():
                yield rows, labels * 2

    assert [labels.tolist() for _, labels in Doubling(native(data, 3), batch_size=2)] == [[0, 2], [4]]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_iterator_is_one_of_torchs(data: ModuleType, num_workers: int) -> None:
    for dataset in (native(data), Rows(4)):
        iterator = iter(data.DataLoader(dataset, batch_size=2, num_workers=num_workers))
        assert isinstance(iterator, _BaseDataLoaderIter)
        assert iter(iterator) is iterator
        with pytest.raises(NotImplementedError, match="cannot be pickled"):
            pickle.dumps(iterator)


def test_next_takes_a_fresh_iterator(data: ModuleType) -> None:
    loader = data.DataLoader(native(data), batch_size=2)
    for _ in range(3):
        assert next(iter(loader))[1].tolist() == [0, 1]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_several_iterators_over_one_loader_do_not_disturb_each_other(data: ModuleType, num_workers: int) -> None:
    loader = data.DataLoader(native(data), batch_size=2, num_workers=num_workers)
    first, second = iter(loader), iter(loader)
    seen = [next(first)[1].tolist(), next(second)[1].tolist(), next(first)[1].tolist()]
    third = iter(loader)
    seen += [next(second)[1].tolist(), next(third)[1].tolist(), next(first)[1].tolist()]
    assert seen == [[0, 1], [0, 1], [2, 3], [2, 3], [0, 1], [4, 5]]
    assert [[len(batch[1]) for batch in rest] for rest in (first, second, third)] == [[2, 1], [2, 2, 1], [2, 2, 2, 1]]


def test_an_exhausted_iterator_stays_exhausted(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(native(data), batch_size=4))
    assert len(list(iterator)) == 3
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def test_a_native_loader_may_be_iterated_inside_another(data: ModuleType) -> None:
    inner = data.DataLoader(native(data), batch_size=4)

    class Outer(data.Dataset):
        def __getitem__(self, index: int) -> torch.Tensor:
            return next(iter(inner))[1][index]

        def __len__(self) -> int:
            return 4

    assert_same(list(data.DataLoader(Outer(), batch_size=4)), [torch.arange(4)])


def test_names_of_torchs_modules_are_where_they_are_in_torch() -> None:
    assert sluicegate.StatefulDataLoader is sluicegate.DataLoader
    assert issubclass(sluicegate.distributed.DistributedSampler, torch.utils.data.distributed.DistributedSampler)
    theirs = vars(torch.utils.data._utils.collate)
    names = {name for name in theirs if "collate" in name or name == "default_convert"}
    assert names == set(sluicegate._utils.collate.__all__)
    assert all(getattr(sluicegate._utils.collate, name) is theirs[name] for name in names)
