"""Parts that tests of trainers share: a process that has imported the trainer, and the lines that trainings write."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.programs import Run, zygote

# The number of trainings of each kind that are killed.
KILLS = int(os.environ.get("SLUICEGATE_TRAINER_KILLS", "1"))
Lines = list[list[Any]]


def imported(package: str, *modules: str) -> Iterator[Run]:
    """Run programs in a process that has imported a trainer, and the modules it imports when it trains."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    yield from zygote(*modules)


def written(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]
