"""Shards in real process groups, saved with some number of ranks and resumed with a different one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.orders import merged
from checks.programs import Run

# Follows a program that defines the work of each rank.
LAUNCH = """
import multiprocessing
context = multiprocessing.get_context("fork")
processes = [context.Process(target=rank_program, args=(rank,)) for rank in range(world_size)]
for process in processes:
    process.start()
for process in processes:
    process.join()
print([process.exitcode for process in processes])
"""

PROGRAM = """
import json
import torch.distributed
from cases.loader_kinds import plain
from doubles.stateful import Indices

def rank_program(rank):
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + path + "/meeting", rank=rank, world_size=world_size
    )
    torch.manual_seed(100 * rank + world_size)
    loader = data.DataLoader(Indices(size), shuffle=True, seed=13, shard="auto", **arguments)
    if state is not None:
        loader.load_state_dict(state[rank % len(state)])
    batches, valid, later, saved = [], [], [], None
    for batch, ids in loader.with_ids():
        assert plain(batch) == ids.sample_indices.tolist()
        batches.append(plain(batch))
        valid.append(ids.valid.tolist())
        total = torch.tensor([len(batch)])
        torch.distributed.all_reduce(total)  # hangs where one rank has a batch less
        assert total.item() == len(batch) * world_size
        if len(batches) == stop:
            saved = json.loads(json.dumps(loader.state_dict()))
            break
    if stop is None:
        later = [[plain(batch), ids.valid.tolist()] for batch, ids in loader.with_ids()]
    with open(f"{path}/{rank}.json", "w") as file:
        json.dump({"batches": batches, "valid": valid, "later": later, "state": saved}, file)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""

SIZE = 53


def read(
    run: Run, path: Path, world_size: int, stop: int | None, state: list[Any] | None = None, **arguments: Any
) -> list[dict[str, Any]]:
    """Return the batches that each rank read, up to `stop` or for two epochs, with its state after these."""
    path.mkdir()
    ended = run(
        PROGRAM + LAUNCH,
        deadline=60.0,
        path=str(path),
        world_size=world_size,
        stop=stop,
        state=state,
        size=SIZE,
        arguments=arguments,
    )
    ended.check(stderr=None)
    assert ended.stdout.strip() == str([0] * world_size), ended.stderr
    ranks = [json.loads((path / f"{rank}.json").read_text()) for rank in range(world_size)]
    assert len({str([len(batch) for batch in rank["batches"]]) for rank in ranks}) == 1
    return ranks


def counted(ranks: list[dict[str, Any]]) -> list[int]:
    """Return every index that is marked as part of the epoch."""
    return [
        index
        for rank in ranks
        for batch, valid in zip(rank["batches"], rank["valid"], strict=True)
        for index, is_valid in zip(batch, valid, strict=True)
        if is_valid
    ]


@pytest.mark.parametrize(
    ("before", "after", "batch_sizes", "num_workers"),
    [
        ((1, 6), 4, (2, 3), 0),
        ((4, 2), 1, (3, 3), 0),
        ((2, 3), 3, (4, 1), 2),
        ((3, 2), 2, (5, 4), 0),
        ((4, 1), 3, (2, 7), 0),
    ],
)
def test_the_epoch_is_read_once_though_ranks_and_batch_size_change(
    run: Run, tmp_path: Path, before: tuple[int, int], after: int, batch_sizes: tuple[int, int], num_workers: int
) -> None:
    world_size, stop = before
    arguments: dict[str, Any] = {"remainder": "exact", "num_workers": num_workers}
    first = read(run, tmp_path / "before", world_size, stop, batch_size=batch_sizes[0], **arguments)
    states = [rank["state"] for rank in first]
    assert len(counted(first)) == stop * batch_sizes[0] * world_size
    second = read(run, tmp_path / "after", after, None, states, batch_size=batch_sizes[1], **arguments)
    assert sorted(counted(first) + counted(second)) == list(range(SIZE))
    for rank in second:  # the following epoch is complete
        assert sum(len(batch) for batch, _ in rank["later"]) == -(-SIZE // after)
    later = [
        index for rank in second for batch, valid in rank["later"] for index, ok in zip(batch, valid, strict=True) if ok
    ]
    assert sorted(later) == list(range(SIZE))


@pytest.mark.parametrize("remainder", ["pad", "drop"])
def test_the_other_remainders_resume_with_other_ranks_too(run: Run, tmp_path: Path, remainder: str) -> None:
    first = read(run, tmp_path / "before", 2, 3, batch_size=4, remainder=remainder)
    states = [rank["state"] for rank in first]
    second = read(run, tmp_path / "after", 3, None, states, batch_size=4, remainder=remainder)
    before = merged([rank["batches"] for rank in first])
    after = merged([rank["batches"] for rank in second])
    assert len(set(before)) == len(before) == 24
    left = SIZE - 24
    whole = before + after
    if remainder == "drop":
        assert len(after) == left - left % 3
        assert len(set(whole)) == len(whole)
    else:
        assert len(after) == left + -left % 3
        assert sorted(whole[:SIZE]) == list(range(SIZE))


def test_one_process_reads_the_samples_of_all_ranks(run: Run, tmp_path: Path) -> None:
    two = read(run, tmp_path / "two", 2, None, batch_size=3, remainder="exact")
    one = read(run, tmp_path / "one", 1, None, batch_size=3, remainder="exact")
    assert merged([rank["batches"] for rank in two])[:SIZE] == merged([rank["batches"] for rank in one])


EVERY_POSITION = """
import json
import torch.distributed
from cases.loader_kinds import plain
from doubles.stateful import DrawingRows

def loader():
    return data.DataLoader(DrawingRows(size), batch_size, True, seed=13, shard="auto", remainder="exact")

def merged(steps):
    # By step every rank's batch, in the global order.
    rows = []
    for step in steps:
        for place in range(max(len(batch) for batch, _ in step)):
            rows += [batch[place] for batch, valid in step if place < len(batch) and valid[place]]
    return rows

def rank_program(rank):
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + path + f"/meeting-{world_size}", rank=rank, world_size=world_size
    )
    torch.manual_seed(100 * rank + world_size)
    made = loader()
    states, own = [made.state_dict()], []
    for batch, ids in made.with_ids():
        own.append([list(zip(*plain(batch))), ids.valid.tolist()])
        states.append(made.state_dict())
    follows = []
    for state in json.loads(before):
        resumed = loader()
        resumed.load_state_dict(state)
        follows.append([[list(zip(*plain(batch))), ids.valid.tolist()] for batch, ids in resumed.with_ids()])
    gathered = [None] * world_size
    torch.distributed.all_gather_object(gathered, (own, follows))
    if rank == world_size - 1:  # Its states: any rank's will do.
        whole = merged(zip(*(own for own, _ in gathered)))
        rests = [merged(zip(*(follows[place] for _, follows in gathered))) for place in range(len(follows))]
        print(json.dumps([states, whole, rests]), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""


def test_any_number_of_ranks_resumes_the_draws_of_a_single_rank(run: Run, tmp_path: Path) -> None:
    size, states = 17, "[]"
    orders = []
    for world_size, batch_size in [(2, 3), (4, 2), (1, 4), (3, 1)]:
        arguments = {"size": size, "batch_size": batch_size, "world_size": world_size, "before": states}
        ended = run(EVERY_POSITION + LAUNCH, deadline=60.0, path=str(tmp_path), **arguments)
        ended.check(stderr=None)
        told_by_rank, exit_codes = ended.stdout.splitlines()
        assert exit_codes == str([0] * world_size), ended.stderr
        told, whole, rests = json.loads(told_by_rank)
        orders.append(whole)
        assert [row[0] for row in whole] != list(range(size))
        for state, rest in zip(json.loads(states), rests, strict=True):
            # A state after the last batch belongs to the next epoch.
            expected = whole[state["position"] :] if state["in_epoch"] else None
            assert expected is None or rest == expected, state["position"]
        states = json.dumps(told)
    assert orders == [orders[0]] * 4
