"""Hours of use in seconds: set SLUICEGATE_SOAK_SECONDS, and SLUICEGATE_SOAK_SEED to repeat a failure."""

from __future__ import annotations

import os
import random

import pytest

from checks.programs import Run

pytestmark = pytest.mark.slots

SECONDS = float(os.environ.get("SLUICEGATE_SOAK_SECONDS", "10"))
SEED = int(os.environ.get("SLUICEGATE_SOAK_SEED", random.SystemRandom().randrange(1 << 32)))
SPARE = 90  # for the last round on a busy machine, and for everything to settle


@pytest.mark.timeout(int(SECONDS) + 2 * SPARE)
def test_loaders_come_and_go_while_workers_are_killed(run: Run) -> None:
    source = """
    from cases.soak import soak
    soak(data, seed, seconds)
    """
    ended = run(source, deadline=SECONDS + SPARE, seed=SEED, seconds=SECONDS)
    assert not ended.hung, f"seed {SEED}: hung:\n{ended.stderr}"
    assert ended.code == 0, f"seed {SEED}:\n{ended.stderr}"
    assert (ended.left, ended.files, ended.stderr) == ([], [], ""), f"seed {SEED}"
    assert int(ended.stdout) >= 10
