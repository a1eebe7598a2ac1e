"""We resume states that the Rust crate saved; its tests resume ours (`tests/native/states.rs`).

`states.json` next to those tests has, for every loader, the state saved by each language in the middle of an epoch,
and the indices of the remaining batches. `python tests/python/loader_state/test_crate_state.py` prints our part of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate import DataLoader, LengthBucketBatchSampler, TensorDataset

STATES = Path(__file__).parents[2] / "native" / "states.json"


def loader_of(case: dict[str, Any]) -> DataLoader[Any]:
    dataset = TensorDataset(torch.arange(case["len"]))
    arguments: dict[str, Any] = {"seed": case["seed"], "num_workers": case["threads"]}
    if case["world_size"] > 1:
        arguments |= {"shard": (case["rank"], case["world_size"]), "remainder": case["remainder"]}
    if case["order"] == "buckets":
        lengths = [(sample * sample) % 61 for sample in range(case["len"])]
        sampler = LengthBucketBatchSampler(lengths, batch_size=case["batch_size"], window=100)
        return DataLoader(dataset, batch_sampler=sampler, **arguments)
    arguments |= {"batch_size": case["batch_size"], "drop_last": case["drop_last"]}
    return DataLoader(dataset, shuffle=case["order"] == "shuffled", **arguments)


def saved(case: dict[str, Any]) -> tuple[dict[str, Any], list[list[int]]]:
    """Return the state after the case's number of batches, and the indices of the rest of the epoch."""
    loader = loader_of(case)
    loader.set_epoch(case["epoch"])
    iterator = loader.with_ids()
    for _ in range(case["received"]):
        next(iterator)
    state = loader.state_dict()
    return state, [ids.sample_indices.tolist() for _, ids in iterator]


CASES: list[dict[str, Any]] = json.loads(STATES.read_text())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_both_languages_resume_from_both_states(number: int) -> None:
    case = CASES[number]
    assert len(case["rest"]) > 1
    for name in ("crate", "package"):
        loader = loader_of(case)
        loader.load_state_dict(json.loads(json.dumps(case[name])))
        assert [ids.sample_indices.tolist() for _, ids in loader.with_ids()] == case["rest"], name
    state, rest = saved(case)
    assert rest == case["rest"]
    assert state == case["package"], "if states were meant to change, run this file as a program"


def test_crate_states_of_other_orders_or_versions_are_refused() -> None:
    case = next(case for case in CASES if case["order"] == "shuffled" and case["world_size"] == 1)
    with pytest.raises(ValueError, match=r"order: .*seed=7\) in the state, .*seed=8\) in this loader"):
        loader_of(case | {"seed": 8}).load_state_dict(case["crate"])
    with pytest.raises(ValueError, match="length of the dataset"):
        loader_of(case | {"len": case["len"] + 1}).load_state_dict(case["crate"])
    with pytest.raises(ValueError, match="whose orders are always seeded"):
        DataLoader(TensorDataset(torch.arange(case["len"])), shuffle=True).load_state_dict(case["crate"])
    with pytest.raises(ValueError, match="this sluicegate reads states up to version 1"):
        loader_of(case).load_state_dict(case["crate"] | {"version": 2})
    with pytest.raises(ValueError, match="invalid state: `"):
        loader_of(case).load_state_dict({name: case["crate"][name] for name in case["crate"] if name != "position"})


def test_batches_that_came_out_of_turn_are_not_read_again() -> None:
    case = next(case for case in CASES if case["order"] == "shuffled" and case["world_size"] == 1)
    received = case["crate"]["batches_received"]
    state = case["crate"] | {"received_ahead": [received + 1]}
    loader = loader_of(case)
    loader.load_state_dict(state)
    assert [ids.sample_indices.tolist() for _, ids in loader.with_ids()] == [case["rest"][0], *case["rest"][2:]]


if __name__ == "__main__":
    json.dump([case | dict(zip(("package", "rest"), saved(case), strict=True)) for case in CASES], sys.stdout, indent=1)
