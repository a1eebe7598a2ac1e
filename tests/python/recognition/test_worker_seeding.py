"""With a `worker_init_fn` that only seeds generators, the core reads the dataset, and draws as torch's workers do."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same
from sluicegate.recognition.worker_seeding import only_seeds, seeded_by

pytest.importorskip("torchvision")

from torchvision import transforms

from cases.torchvision_datasets import made

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SEED = 31
FLAG = [0]


def of_the_documentation(worker_id: int) -> None:
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def of_numpys_state(worker_id: int) -> None:
    np.random.seed(np.random.get_state()[1][0] // 2 + worker_id)


def of_a_number(worker_id: int) -> None:
    torch.manual_seed(SEED + worker_id)


def of_everything(worker_id: int, offset: int = 5) -> None:
    import numpy.random

    seed = int(torch.initial_seed()) + offset
    torch.random.manual_seed(seed)
    numpy.random.seed(seed % (1 << 32))
    random.seed(seed)


def prints(worker_id: int) -> None:
    print(worker_id)


def stores(worker_id: int) -> None:
    global SEED
    SEED = worker_id


def sets_an_attribute(worker_id: int) -> None:
    torch.seed = worker_id


def sets_an_element(worker_id: int) -> None:
    FLAG[0] = worker_id


def branches(worker_id: int) -> None:
    if worker_id:
        random.seed(1)


def asks_for_the_dataset(worker_id: int) -> None:
    torch.utils.data.get_worker_info().dataset.seed = worker_id


def calls_another(worker_id: int) -> None:
    of_a_number(worker_id)


def imports_another(worker_id: int) -> None:
    import os

    random.seed(os)


def closed_over(seed: Any) -> Callable[[int], None]:
    def init(worker_id: int) -> None:
        random.seed(seed + worker_id)

    return init


class Initializer:
    def __call__(self, worker_id: int) -> None:
        random.seed(worker_id)


RECIPES = [of_the_documentation, of_numpys_state, of_a_number, of_everything, lambda _: random.seed(3)]
OTHERS = [
    *(prints, stores, sets_an_attribute, sets_an_element, branches, asks_for_the_dataset, calls_another),
    *(imports_another, closed_over(3), Initializer(), functools.partial(of_everything, offset=2), print, int),
]


def lightnings(**arguments: Any) -> Any:
    seed = pytest.importorskip("lightning.fabric.utilities.seed")
    return functools.partial(seed.pl_worker_init_function, **arguments) if arguments else seed.pl_worker_init_function


def of_transformers(rank: int) -> Any:
    """The function that its Trainer passes."""
    module = pytest.importorskip("transformers.trainer_utils")
    return functools.partial(module.seed_worker, num_workers=2, rank=rank)


@pytest.mark.parametrize("function", RECIPES)
def test_recipes_are_known(function: Any) -> None:
    assert only_seeds(function)


@pytest.mark.parametrize("function", OTHERS)
def test_functions_that_may_do_more_than_seed_are_not_recognized(function: Any) -> None:
    assert not only_seeds(function)


def test_a_patched_function_is_not_recognized_as_only_seeding(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("lightning.fabric.utilities.seed")
    original = module.pl_worker_init_function
    assert only_seeds(original)
    assert only_seeds(functools.partial(original, rank=3))
    assert not only_seeds(functools.partial(original, rank=torch.tensor(3)))
    monkeypatch.setattr(module, "pl_worker_init_function", of_a_number)
    assert not only_seeds(original)


def test_a_patched_function_of_transformers_is_not_recognized_as_only_seeding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only_seeds(of_transformers(0))
    assert not only_seeds(functools.partial(of_transformers(0).func, num_workers=2))
    with monkeypatch.context() as patch:
        patch.setattr("transformers.trainer_utils.set_seed", of_a_number)
        assert not only_seeds(of_transformers(0))
    original = of_transformers(0)
    monkeypatch.setattr("transformers.trainer_utils.seed_worker", of_a_number)
    assert not only_seeds(original)


def test_seeding_from_the_system_is_recognized() -> None:
    def unpredictable(worker_id: int) -> None:
        random.seed(torch.seed() + torch.random.seed())

    assert only_seeds(unpredictable)
    assert seeded_by(unpredictable, 7, 1) != seeded_by(unpredictable, 7, 1)


def test_generators_stay_as_they_are() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    seeded_by(of_everything, 7, 1)
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def dataset() -> Any:
    pipeline = transforms.Compose([transforms.RandomCrop(9, padding=2), transforms.ToTensor()])
    return made("CIFAR10", transform=pipeline)


def batches_of(kind: Any, function: Any, persistent: bool) -> list[Any]:
    torch.manual_seed(5)
    loader = kind(dataset(), 4, shuffle=True, num_workers=2, worker_init_fn=function, persistent_workers=persistent)
    return [batch for _ in range(2) for batch in loader]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("function", [*RECIPES[:4], "lightning", "a rank of lightning", "transformers"])
def test_the_draws_are_those_of_torchs_workers(function: Any, persistent: bool) -> None:
    if isinstance(function, str):
        by = {"lightning": lightnings(), "a rank of lightning": lightnings(rank=3), "transformers": of_transformers(3)}
        function = by[function]
    loader = sluicegate.DataLoader(dataset(), num_workers=2, worker_init_fn=function)
    assert loader.explain().engine == "rust"
    expected = batches_of(torch.utils.data.DataLoader, function, persistent)
    assert_same(batches_of(sluicegate.DataLoader, function, persistent), expected)


def test_a_resumed_epoch_is_the_rest() -> None:
    torch.manual_seed(5)
    loader = sluicegate.DataLoader(dataset(), 2, shuffle=True, num_workers=2, worker_init_fn=of_a_number)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    rest = list(iterator)
    for native in (True, False):
        again = sluicegate.DataLoader(
            dataset(), 2, shuffle=True, num_workers=2, worker_init_fn=of_a_number, native=native
        )
        again.load_state_dict(state)
        assert_same(list(again), rest)


def test_errors_of_worker_init_fn_are_raised() -> None:
    def fails(worker_id: int) -> None:
        np.random.seed(-1 - worker_id)

    loader = sluicegate.DataLoader(dataset(), num_workers=2, worker_init_fn=fails)
    with pytest.raises(ValueError, match="Seed must be between"):
        next(iter(loader))
