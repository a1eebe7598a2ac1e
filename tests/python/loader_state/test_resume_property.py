"""Random loaders with every sampler and stream resume in a new process, and in seed mode with different ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sluicegate
from cases.loader_kinds import read
from cases.resumed_loaders import BATCH_SAMPLERS, SAMPLERS, SIZE, ResumeCase, read_together
from checks.programs import Run
from doubles.stateful import Indices

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]

CASES = 120
IN_ONE_PROCESS = 40

PROGRAM = """
import json
from cases.resumed_loaders import ResumeCase

warnings.filterwarnings("ignore", ".*forward.*")
with open(path) as file:
    asked = json.load(file)
for number, states in asked:
    case = ResumeCase(number)
    print(json.dumps([case.follows(state, epochs) for state, epochs in states]))
"""


@pytest.mark.parametrize("first", range(0, CASES, IN_ONE_PROCESS))
def test_random_loaders_resume_in_another_process(run: Run, tmp_path: Path, first: int) -> None:
    asked, expected = [], []
    for number in range(first, first + IN_ONE_PROCESS):
        states = ResumeCase(number).states()
        asked.append([number, [[state, len(follows)] for state, follows in states]])
        expected.append([follows for _, follows in states])
    path = tmp_path / "asked.json"
    path.write_text(json.dumps(asked))
    ended = run(PROGRAM, deadline=90.0, path=str(path))
    ended.check(stderr=None)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    for (number, _), here, there in zip(asked, expected, found, strict=True):
        assert there == json.loads(json.dumps(here)), (number, vars(ResumeCase(number)))


@pytest.mark.parametrize("name", [*SAMPLERS, *BATCH_SAMPLERS])
def test_other_ranks_resume_the_same_order_at_every_position(name: str) -> None:
    def loader(shard: tuple[int, int], batch_size: int, state: dict[str, Any] | None = None) -> Any:
        given: dict[str, Any] = {"shard": shard, "remainder": "exact", "seed": 6}
        if name in SAMPLERS:
            made = sluicegate.DataLoader(Indices(SIZE), batch_size, sampler=SAMPLERS[name](None), **given)
        else:
            made = sluicegate.DataLoader(Indices(SIZE), batch_sampler=BATCH_SAMPLERS[name](None), **given)
        if state is not None:
            made.load_state_dict(state)
        return made

    # The units that are dealt to ranks: single samples, or whole batches.
    is_dealt_by_sample = name in SAMPLERS or name == "batches"
    whole = merged(read_together(lambda rank: loader((rank, 1), 5), 1), is_dealt_by_sample)
    for before, after, batch_sizes in [(2, 3, (2, 4)), (3, 1, (1, 3)), (4, 2, (2, 2))]:
        steps = read_together(lambda rank: loader((rank, before), batch_sizes[0]), before)  # noqa: B023
        saved = [read(loader((rank, before), batch_sizes[0]))[0] for rank in range(before)]
        states = json.loads(json.dumps(saved))
        for stop in range(1, len(steps)):
            first = merged(steps[:stop], is_dealt_by_sample)
            rest = merged(
                read_together(lambda rank: loader((rank, after), batch_sizes[1], states[rank % before][stop]), after),  # noqa: B023
                is_dealt_by_sample,
            )
            if name == "batches":  # the rest that fills no batch of all ranks is dropped
                assert first + rest == whole[: len(first + rest)], (before, after, stop)
            else:
                assert first + rest == whole, (before, after, stop)


def merged(steps: list[list[Any]], is_dealt_by_sample: bool) -> list[Any]:
    """Return the samples that all ranks read, in the global order, without padding."""
    parts: list[Any] = []
    for step in steps:
        if is_dealt_by_sample:
            longest = max(len(indices) for indices, _ in step)
            parts += [
                indices[place]
                for place in range(longest)
                for indices, valid in step
                if place < len(indices) and valid[place]
            ]
        else:
            parts += [indices for indices, valid in step if all(valid)]
    return parts
