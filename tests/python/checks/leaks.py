"""`nothing_leaks`: no test leaves a descriptor open."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator

import pytest

from checks.programs import Run
from checks.resources import links


@pytest.fixture(scope="module", autouse=True)
def servers(run: Run) -> None:
    """Start the processes that multiprocessing keeps running, so that their descriptors do not count as leaks."""
    run("")
    multiprocessing.Value("i")
    process = multiprocessing.get_context("forkserver").Process(target=int)
    process.start()
    process.join()
    process.close()


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    gc.collect()
    before = links()
    yield
    gc.collect()
    # Torch keeps its connection to the process that manages such files.
    assert links() == before or "by_file_name" in request.node.name
