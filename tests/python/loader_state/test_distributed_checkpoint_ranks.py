"""`torch.distributed.checkpoint` loads a loader on several ranks, and on a different number of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.checkpointed_ranks import BATCH_SIZE, SAMPLES, seeded
from checks.gloo_ranks import launch
from checks.programs import Run, zygote

OWN_PART = "from cases import checkpointed_ranks; checkpointed_ranks.resume_own_part(rank, folder)"
GO_ON = "from cases import checkpointed_ranks; checkpointed_ranks.go_on(rank, world_size, steps, folder, saved)"


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs in a process that has imported the modules that take most of a rank's time."""
    yield from zygote("torch.distributed.checkpoint", "cases.checkpointed_ranks")


@pytest.mark.timeout(300)
def test_each_rank_resumes_in_its_own_part(run: Run, tmp_path: Path) -> None:
    launch(run, OWN_PART, 2, folder=str(tmp_path))
    ranks = [json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in range(2)]
    for name in ("seed", "sampler", "stream"):
        assert all(rank[name]["resumed"] == rank[name]["rest"] for rank in ranks)
        batches = [batch for rank in ranks for batch in rank[name]["first"] + rank[name]["resumed"]]
        read = [index for batch in batches for index in batch]
        assert sorted(read) == [*range(SAMPLES)]  # torch.distributed.checkpoint: sharded


@pytest.mark.timeout(300)
@pytest.mark.parametrize("worlds", [[(2, 2), (3, 1), (1, 4)], [(3, 1), (2, 4)]], ids=str)
def test_with_a_seed_a_different_number_of_ranks_resumes(
    run: Run, tmp_path: Path, worlds: list[tuple[int, int]]
) -> None:
    read: list[int] = []
    saved: str | None = None
    for world_size, steps in worlds:
        folder = tmp_path / f"{world_size}-ranks"
        folder.mkdir()
        launch(run, GO_ON, world_size, steps=steps, folder=str(folder), saved=saved)
        ranks = [json.loads((folder / f"rank-{rank}").read_text()) for rank in range(world_size)]
        assert [len(batches) for batches in ranks] == [steps] * world_size
        read += [index for batches in ranks for batch in batches for index in batch]
        saved = str(folder)
    assert sorted(read) == [*range(SAMPLES)]
    # The order is that of a single rank, divided differently.
    order = [index for batch in seeded() for index in batch.tolist()]
    first = worlds[0][0] * worlds[0][1] * BATCH_SIZE
    assert sorted(read[:first]) == sorted(order[:first])
