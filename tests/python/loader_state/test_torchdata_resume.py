"""Our loader, given a state of torchdata's `StatefulDataLoader`, delivers the batches that torchdata's had left."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import sluicegate
from cases.torchdata_loaders import CASES, OLD_CASES, OTHER_SEED
from cases.torchdata_states import NOT_ENOUGH, READABLE, RECORDED, plain, state_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]


class StandIn:
    """The classes that cases create their loaders with."""

    DataLoader = sluicegate.DataLoader
    RandomSampler = sluicegate.RandomSampler


def shown(batch: Any) -> Any:
    return [plain(part) for part in batch] if isinstance(batch, list) else plain(batch)


@pytest.mark.parametrize("name", [name for name in READABLE if name not in NOT_ENOUGH])
def test_the_rest_of_the_epoch_is_torchdatas(name: str) -> None:
    torch.manual_seed(OTHER_SEED)
    loader: Any = (CASES | OLD_CASES)[name].make(StandIn)
    loader.load_state_dict(state_of(name))
    assert [shown(batch) for batch in loader] == RECORDED[name]["rest"]


@pytest.mark.parametrize(
    "name", ["shuffled", "shuffled, 2 workers", "with replacement", "with replacement, 2 workers", "shuffled, ended"]
)
def test_the_samples_of_the_rest_are_known_before_they_come(name: str) -> None:
    torch.manual_seed(OTHER_SEED)
    loader: Any = CASES[name].make(StandIn)
    loader.load_state_dict(state_of(name))
    iterator = loader.with_ids()
    _, first = next(iterator)
    numbers = range(first.batch_index, first.batch_index + len(RECORDED[name]["rest"]))
    known = [loader.samples_of(number).tolist() for number in numbers]
    assert known == [ids.sample_indices.tolist() for ids in (first, *(each for _, each in iterator))]
