"""A checkpoint of several loaders, which draw from the global generators in turns, resumes the whole program."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from cases.loader_kinds import through_json
from sluicegate import DataLoader


def loaders(num_workers: int) -> list[DataLoader[Any]]:
    """One for training, one for validation, and one for both."""
    torch.manual_seed(0)
    given: dict[str, Any] = {"num_workers": num_workers, "worker_type": "thread"}
    return [
        DataLoader(range(8), batch_size=2, shuffle=True, **given),
        DataLoader(range(4), batch_size=2, **given),
        DataLoader(range(9), batch_size=4, shuffle=True, **given),
    ]


def program(made: list[DataLoader[Any]], save_after: int | None = None) -> tuple[list[Any], list[Any]]:
    """What three epochs of each loader give, and the states of all after batch number `save_after`."""
    seen, states = [], []
    for _ in range(3):
        for number, loader in enumerate(made):
            for batch in loader:
                seen.append((number, batch.tolist()))
                torch.rand(3)
                if len(seen) == save_after:
                    states = [through_json(each) for each in made]
    return seen, states


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("save_after", [2, 4, 12])
def test_a_checkpoint_of_several_loaders_resumes_all_of_them(num_workers: int, save_after: int) -> None:
    """In the middle of an epoch of the first loader, and right after its last batch."""
    whole, states = program(loaders(num_workers), save_after)
    for which in (slice(3), slice(1)):
        resumed = loaders(num_workers)
        torch.manual_seed(99)
        for loader, state in list(zip(resumed, states, strict=True))[which]:
            loader.load_state_dict(state)
        rest, _ = program(resumed)
        assert rest[: len(whole) - save_after] == whole[save_after:]


def test_copies_of_one_loader_resume_independently() -> None:
    loader = loaders(0)[0]
    batches = iter(loader)
    next(batches)
    state = json.dumps(loader.state_dict())
    copies = [loaders(num_workers)[0] for num_workers in (0, 2, 0)]
    for copy in copies:
        copy.load_state_dict(json.loads(state))
    rest = [batch.tolist() for batch in batches]
    for copy in copies:
        assert [batch.tolist() for batch in copy] == rest
