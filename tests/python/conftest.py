"""Fixtures and settings for all tests; the fixture `data` runs a test with torch's data module and with ours."""

from __future__ import annotations

import atexit
import doctest
import gc
import itertools
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from checks import absent_devices, huge_pages, short_deadlines
from checks.programs import Run, zygote
from sluicegate.loader import resources
from sluicegate.worker import memory as worker_memory

# These have no tests, and some import trainers that are not installed.
collect_ignore = ["cases", "doubles"]

MANY_MODULES = 50

PACKAGES = {"torch": torch.utils.data, "sluicegate": sluicegate}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tight", action="store_true", help="our loaders with two slots and a prefetch of one")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="the tests in a random order")


def pytest_configure(config: pytest.Config) -> None:
    doctest.DocTestFinder._from_module = is_from_module  # type: ignore[attr-defined]
    # A shell starts background jobs with SIGINT ignored; the programs that test interrupts would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "cuda: needs a GPU; make test-cuda runs it")
    config.addinivalue_line("markers", "prefetch: the outcome depends on prefetch_factor; left out with --tight")
    config.addinivalue_line("markers", "slots: depends on slots or prefetching; all that --tight runs")
    config.addinivalue_line("markers", "real_clock: has the deadlines that users have, not those of short_deadlines.py")
    config.addinivalue_line("markers", "leaves_files_open: torchvision leaves damaged image files open")
    short_deadlines.shorten()
    absent_devices.skip()
    # One fork server for all tests, started by the first that needs it; it has imported the slow modules. Workers
    # import pytest with the test module that defines their dataset.
    multiprocessing.set_forkserver_preload(["torch", "torch.utils.data", "sluicegate.worker.process_main", "pytest"])
    if config.getoption("--tight"):
        tighten()


def is_from_module(
    finder: doctest.DocTestFinder,
    module: ModuleType,
    thing: object,
    of_doctest: Callable[..., bool] = doctest.DocTestFinder._from_module,  # type: ignore[attr-defined]
) -> bool:
    """Return True also for methods of public classes: `sluicegate` re-exports classes that other modules define."""
    is_of_a_public_class = module is sluicegate and getattr(thing, "__module__", "").startswith("sluicegate.")
    return is_of_a_public_class or of_doctest(finder, module, thing)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--tight`, skip files in which no test depends on slots, because collecting all files takes too long."""
    is_file = config.getoption("--tight") and collection_path.name.startswith("test_") and collection_path.is_file()
    return True if is_file and "mark.slots" not in collection_path.read_text() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("leaves_files_open"):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"))
    if config.getoption("--tight"):
        config.hook.pytest_deselected(items=[item for item in items if not is_run_tight(item)])
        items[:] = [item for item in items if is_run_tight(item)]
        for item in items:
            if item.get_closest_marker("prefetch"):
                item.add_marker(pytest.mark.skip("with another prefetch the outcome is another"))

    if (seed := config.getoption("--shuffle")) is not None:
        items[:] = shuffled(items, seed)


def shuffled(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Shuffle the files, and the tests within each; mixing the files would set up module fixtures repeatedly."""
    draw = random.Random(seed)
    files = [list(group) for _, group in itertools.groupby(items, key=lambda item: item.path)]
    draw.shuffle(files)
    for file in files:
        draw.shuffle(file)
    return [item for file in files for item in file]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        terminalreporter.write_line(f"The order of the tests was random: --shuffle={seed} repeats it.")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection while tests are collected, when nothing is freed: it took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    settle()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Settle again after a test that imported large packages, such as transformers or Arrow, or forked often."""
    modules = len(sys.modules)
    result = yield
    if len(sys.modules) - modules > MANY_MODULES:
        settle()
    else:
        huge_pages.collapse_after_forks()
    return result


def settle() -> None:
    """Exclude everything that stays (tests, torch, other imports) from garbage collection, and make forks cheap.

    Collecting through it, and copying its page table for each worker, took a third of the time of all tests.
    """
    gc.collect()
    gc.freeze()
    huge_pages.collapse()


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        atexit.register(end_quickly)
    else:
        gc.unfreeze()  # Otherwise modules that check for leaks at interpreter exit would complain.


def end_quickly() -> None:
    """End a process of pytest-xdist without freeing each object in Python, which took it three seconds."""
    atexit.unregister(end_quickly)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def is_run_tight(item: pytest.Item) -> bool:
    """Return True if a test depends on slots, which torch's loader does not have, and does not start workers slowly.

    Programs run in their own processes, which `tighten` does not reach, so `--tight` would only repeat them.
    """
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    is_of_torch_alone = any(each is torch.utils.data or each is torch.utils.data.DataLoader for each in parameters)
    starts_slowly = "spawn" in item.nodeid or "forkserver" in item.nodeid
    is_a_program = "run" in getattr(item, "fixturenames", ())
    is_left_out = is_of_torch_alone or starts_slowly or is_a_program
    return item.get_closest_marker("slots") is not None and not is_left_out


def tighten() -> None:
    """Allow two free slots and a prefetch of one batch, so that anything that can wait for a slot or a worker does."""
    resources._SPARE_SLOTS = worker_memory.SPARE_SLOTS = 1
    get_iterator = sluicegate.DataLoader._get_iterator

    def with_little_ahead(self: sluicegate.DataLoader[Any]) -> Any:
        given = self.prefetch_factor
        self.prefetch_factor = min(given, 1) if given is not None else None
        try:
            return get_iterator(self)
        finally:
            self.prefetch_factor = given

    sluicegate.DataLoader._get_iterator = with_little_ahead


@pytest.fixture(params=PACKAGES.values(), ids=PACKAGES.keys())
def data(request: pytest.FixtureRequest) -> ModuleType:
    """The module that provides the loader, samplers, and datasets."""
    return request.param


@pytest.fixture
def loader_cls(data: ModuleType) -> type[torch.utils.data.DataLoader]:
    return data.DataLoader


@pytest.fixture(autouse=True)
def around_each_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed torch, restore the deadlines that users have for a test marked `real_clock`, and collect what it left.

    That is files, while a test marked `leaves_files_open` still ignores the warnings about them, and iterators that
    tracebacks keep alive, which a forked worker of the next test would collect otherwise.
    """
    torch.manual_seed(0)
    has_real_clock = request.node.get_closest_marker("real_clock") is not None
    if has_real_clock:
        short_deadlines.restore()
    yield
    if has_real_clock:
        short_deadlines.shorten()
    if multiprocessing.active_children() or request.node.get_closest_marker("leaves_files_open"):
        gc.collect()


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Run a program in its own process group and report how it ended."""
    yield from zygote()
