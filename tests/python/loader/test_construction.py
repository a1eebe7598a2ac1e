"""Arguments that are refused, with which error, and arguments that are accepted."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest
import torch.multiprocessing

from doubles.datasets import SizedStream

BATCH_SAMPLER_EXCLUSIVE = "batch_sampler option is mutually exclusive with"
SHUFFLE_EXCLUSIVE = "sampler option is mutually exclusive with shuffle"
ITERABLE = "DataLoader with IterableDataset: expected unspecified "
ALWAYS_A_CONTEXT = "multiprocessing_context option should be a valid context "

REFUSED_MAP: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    (
        {"batch_size": None, "drop_last": True},
        ValueError,
        "batch_size=None option disables auto-batching and is mutually exclusive",
    ),
    (
        {"num_workers": 0, "multiprocessing_context": "spawn"},
        ValueError,
        "multi-process loading (num_workers > 0), but got",
    ),
    (
        {"num_workers": 1, "multiprocessing_context": "bad"},
        ValueError,
        "should specify a valid start method in",
    ),
    ({"num_workers": 1, "multiprocessing_context": object()}, TypeError, ALWAYS_A_CONTEXT),
    ({"sampler": range(3), "shuffle": True}, ValueError, SHUFFLE_EXCLUSIVE),
    ({"sampler": range(3), "shuffle": 3}, ValueError, SHUFFLE_EXCLUSIVE),
    ({"batch_sampler": [[0]], "sampler": range(3), "shuffle": True}, ValueError, SHUFFLE_EXCLUSIVE),
    ({"batch_sampler": [[0]], "sampler": range(3), "shuffle": 3}, ValueError, SHUFFLE_EXCLUSIVE),
    ({"batch_sampler": [[0]], "batch_size": 11}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"batch_sampler": [[0]], "batch_size": None}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"batch_sampler": [[0]], "shuffle": True}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"batch_sampler": [[0]], "sampler": range(3)}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"batch_sampler": [[0]], "drop_last": True}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"batch_sampler": [[0]], "drop_last": 3}, ValueError, BATCH_SAMPLER_EXCLUSIVE),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
    ({"num_workers": 1, "prefetch_factor": -1}, ValueError, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
    ({"persistent_workers": (False,)}, ValueError, "persistent_workers option needs num_workers > 0"),
    ({"batch_size": 0}, ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"batch_size": -2}, ValueError, "batch_size should be a positive integer value"),
    ({"batch_size": True}, ValueError, "batch_size should be a positive integer value"),
    ({"batch_size": 2.0}, ValueError, "batch_size should be a positive integer value"),
    ({"drop_last": 3}, ValueError, "drop_last should be a boolean value, but got drop_last=3"),
]

REFUSED_ITERABLE: list[tuple[dict[str, Any], str]] = [
    ({"shuffle": True}, ITERABLE + "shuffle"),
    ({"shuffle": 3}, ITERABLE + "shuffle"),
    ({"sampler": range(3)}, ITERABLE + "sampler"),
    ({"sampler": 3}, ITERABLE + "sampler"),
    ({"batch_sampler": [[0]]}, ITERABLE + "batch_sampler"),
    ({"batch_sampler": 3}, ITERABLE + "batch_sampler"),
]


def name_of(value: Any) -> str | None:
    return ",".join(f"{key}={spelled(part)}" for key, part in value.items()) if isinstance(value, dict) else None


def spelled(part: Any) -> str:
    """Return the name of an argument without its address, so that all processes collect tests with the same names."""
    return "object()" if type(part) is object else str(part)


@pytest.mark.parametrize(("arguments", "error", "text"), REFUSED_MAP, ids=name_of)
def test_invalid_arguments_with_a_map_style_dataset_raise_torchs_errors(
    data: ModuleType, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        data.DataLoader([0, 1, 2], **arguments)
    assert text in str(caught.value)
    assert type(caught.value) is error


@pytest.mark.parametrize(("arguments", "text"), REFUSED_ITERABLE, ids=name_of)
def test_invalid_arguments_with_an_iterable_dataset_raise_torchs_errors(
    data: ModuleType, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError) as caught:
        data.DataLoader(SizedStream(3), **arguments)
    assert text in str(caught.value)


def test_errors_for_iterable_datasets_name_dataloader_also_in_subclasses(data: ModuleType) -> None:
    class Renamed(data.DataLoader):
        pass

    with pytest.raises(ValueError, match=r"^DataLoader with IterableDataset: expected unspecified shuffle"):
        Renamed(SizedStream(3), shuffle=True)


def test_refuses_to_shuffle_an_empty_dataset(data: ModuleType) -> None:
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        data.DataLoader([], shuffle=True)


def test_an_empty_dataset_in_order_yields_nothing(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.zeros(0, 3)), batch_size=2)
    assert len(loader) == 0
    assert list(loader) == []


def test_a_truthy_tuple_counts_as_persistent_workers(data: ModuleType) -> None:
    loader = data.DataLoader([0, 1], num_workers=1, persistent_workers=(False,))
    assert loader.persistent_workers == (False,)


def test_truth_values_are_accepted_for_flags(data: ModuleType) -> None:
    loader = data.DataLoader(range(50), shuffle=3, batch_size=None)
    assert isinstance(loader.sampler, data.RandomSampler)
    assert sorted(loader) == list(range(50))


def test_false_flags_may_be_given_explicitly_without_workers(data: ModuleType) -> None:
    loader = data.DataLoader([0, 1], num_workers=0, persistent_workers=False, pin_memory=False)
    assert len(list(loader)) == 2


@pytest.mark.parametrize("dataset", [range(4), torch.arange(4)], ids=["python", "native"])
def test_no_workers_may_be_a_float(data: ModuleType, dataset: Any) -> None:
    assert [int(batch) for batch in data.DataLoader(dataset, num_workers=0.0)] == [0, 1, 2, 3]


def test_iterable_dataset_accepts_false_shuffle(data: ModuleType) -> None:
    assert len(list(data.DataLoader(SizedStream(3), shuffle=False))) == 3


def test_many_workers_warn_in_the_constructor_without_being_started(data: ModuleType) -> None:
    text = "excessive worker creation might get DataLoader running slow or even freeze"
    with pytest.warns(UserWarning, match=text):
        loader = data.DataLoader([0, 1], num_workers=1000)
    assert loader._iterator is None


@pytest.mark.parametrize("method", torch.multiprocessing.get_all_start_methods())
def test_accepts_each_start_method_by_name_and_as_context(data: ModuleType, method: str) -> None:
    context = torch.multiprocessing.get_context(method)
    assert data.DataLoader([0], num_workers=1, multiprocessing_context=context).multiprocessing_context is context
    by_name = data.DataLoader([0], num_workers=1, multiprocessing_context=method)
    assert by_name.multiprocessing_context.get_start_method() == method


def test_multiprocessing_context_none_is_accepted(data: ModuleType) -> None:
    assert data.DataLoader([0], num_workers=1, multiprocessing_context=None).multiprocessing_context is None


def test_accepts_every_argument_of_torch_by_position(data: ModuleType) -> None:
    generator = torch.Generator()
    loader = data.DataLoader([0, 1], 2, False, None, None, 1, list, False, True, 5, print, None, generator)
    assert (loader.batch_size, loader.num_workers, loader.timeout, loader.drop_last) == (2, 1, 5, True)
    assert loader.collate_fn is list
    assert loader.worker_init_fn is print
    assert loader.generator is generator


def test_keyword_only_arguments_are_refused_by_position(data: ModuleType) -> None:
    with pytest.raises(TypeError):
        data.DataLoader([0], 1, None, None, None, 0, None, False, False, 0, None, None, None, None)


def test_an_unknown_argument_is_a_type_error(data: ModuleType) -> None:
    with pytest.raises(TypeError, match="bacth_size"):
        data.DataLoader([0], bacth_size=2)


def test_prefetch_factor_and_timeout_read_back(data: ModuleType) -> None:
    assert data.DataLoader([0]).prefetch_factor is None
    assert data.DataLoader([0], num_workers=1).prefetch_factor == 2
    assert data.DataLoader([0], num_workers=1, prefetch_factor=3).prefetch_factor == 3
    assert type(data.DataLoader([0], num_workers=1, timeout=5).timeout) is int


def test_a_timeout_without_workers_is_refused_by_the_iterator(data: ModuleType) -> None:
    with pytest.raises(AssertionError):
        iter(data.DataLoader([0], timeout=1))


@pytest.mark.parametrize("generator", [5, "seed", torch.Generator])
def test_a_generator_of_a_wrong_type_is_refused_when_it_draws(data: ModuleType, generator: Any) -> None:
    loader = data.DataLoader([1, 2], shuffle=True, generator=generator)
    with pytest.raises(TypeError, match="received an invalid combination of arguments"):
        next(iter(loader))


def test_construction_draws_nothing_and_warns_of_nothing(data: ModuleType) -> None:
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.DataLoader(data.TensorDataset(torch.zeros(4, 2)), shuffle=True, batch_size=2)
    assert torch.equal(torch.get_rng_state(), before)
