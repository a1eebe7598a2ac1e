"""The two doors every behavior is tested through: torch's own module and ours, by the same test."""

from __future__ import annotations

import doctest
import gc
import itertools
import multiprocessing
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

# They have no tests, and some import trainers that are not installed.
collect_ignore = ["cases", "doubles"]

MANY_MODULES = 50

DOORS = {"torch": torch.utils.data, "sluicegate": sluicegate}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tight", action="store_true", help="our loaders with two slots and a prefetch of one")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="the tests in a random order")


def pytest_configure(config: pytest.Config) -> None:
    doctest.DocTestFinder._from_module = is_from_module  # type: ignore[attr-defined]
    # What a shell runs in the background has it ignored, and so would the programs of the tests of interrupts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "cuda: needs a GPU; make test-cuda runs it")
    config.addinivalue_line("markers", "prefetch: the outcome depends on prefetch_factor; left out with --tight")
    config.addinivalue_line("markers", "slots: depends on slots or prefetching; all that --tight runs")
    config.addinivalue_line("markers", "real_clock: has the deadlines that users have, not those of short_deadlines.py")
    config.addinivalue_line("markers", "leaves_files_open: torchvision leaves damaged image files open")
    short_deadlines.shorten()
    absent_devices.skip()
    # One fork server for all tests, which has imported what takes seconds; the first test that needs it starts it.
    # Workers import pytest with the module of the test that has their dataset.
    multiprocessing.set_forkserver_preload(["torch", "torch.utils.data", "sluicegate.worker.process_main", "pytest"])
    if config.getoption("--tight"):
        tighten()


def is_from_module(
    finder: doctest.DocTestFinder,
    module: ModuleType,
    thing: object,
    of_doctest: Callable[..., bool] = doctest.DocTestFinder._from_module,  # type: ignore[attr-defined]
) -> bool:
    """Return True for the methods of public classes too: these belong to the package, their methods to its modules."""
    is_of_a_public_class = module is sluicegate and getattr(thing, "__module__", "").startswith("sluicegate.")
    return is_of_a_public_class or of_doctest(finder, module, thing)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--tight`, leaves out files without a test that depends on slots: collecting all files takes too long."""
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
    """Files in a random order, and the tests in each: mixing files would make the fixtures of files many times."""
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
    """Has no garbage collected while modules and tests are only added: that took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    settle()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Settles again after a test that imported much: transformers, Arrow, Accelerate."""
    modules = len(sys.modules)
    result = yield
    if len(sys.modules) - modules > MANY_MODULES:
        settle()
    return result


def settle() -> None:
    """Has forks and collections pass over what stays: tests, torch, whatever else is imported.

    To look through it for garbage, and to copy the table of its pages for each worker, took a third of the time.
    """
    gc.collect()
    gc.freeze()
    huge_pages.collapse()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # Else modules that look for what is left at the end of the interpreter would complain.


def is_run_tight(item: pytest.Item) -> bool:
    """True if a test depends on slots: torch's own loader has none, and how workers start takes seconds each time.

    Programs have processes of their own, which `tighten` does not reach: with `--tight` they would only run again.
    """
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    is_of_torch_alone = any(each is torch.utils.data or each is torch.utils.data.DataLoader for each in parameters)
    starts_slowly = "spawn" in item.nodeid or "forkserver" in item.nodeid
    is_a_program = "run" in getattr(item, "fixturenames", ())
    is_left_out = is_of_torch_alone or starts_slowly or is_a_program
    return item.get_closest_marker("slots") is not None and not is_left_out


def tighten() -> None:
    """Two free slots and one batch ahead, so that whatever waits for a slot or a worker has to."""
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


@pytest.fixture(params=DOORS.values(), ids=DOORS.keys())
def data(request: pytest.FixtureRequest) -> ModuleType:
    """The module from which loader, samplers and datasets are taken."""
    return request.param


@pytest.fixture
def loader_cls(data: ModuleType) -> type[torch.utils.data.DataLoader]:
    return data.DataLoader


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def clock(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gives a test with the marker `real_clock`, and its programs, the deadlines that users have."""
    if request.node.get_closest_marker("real_clock"):
        short_deadlines.restore()
        yield
        short_deadlines.shorten()
    else:
        yield


@pytest.fixture(autouse=True)
def no_files_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Closes them while the warnings of a test with the marker `leaves_files_open` are ignored."""
    yield
    if request.node.get_closest_marker("leaves_files_open"):
        gc.collect()


@pytest.fixture(autouse=True)
def no_workers_left() -> Iterator[None]:
    """An iterator that a traceback keeps alive would otherwise be collected in the next test's forked worker."""
    yield
    if multiprocessing.active_children():
        gc.collect()


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Runs a program in a process group of its own and tells how it ended."""
    yield from zygote()
