"""Long work in Rust handles signals while it runs, and shows its progress on a terminal."""

from __future__ import annotations

import contextlib
import io
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from doubles.terminals import Terminal
from sluicegate import DataLoader, ImageFolderDataset, JsonLinesDataset
from sluicegate.sampler import LengthBucketBatchSampler, PackedBatchSampler, WeightedRandomSampler

DOCUMENTS = 500_000
# Seconds of work in which signals are handled at least five times, and in which progress is shown.
LONG, SHOWN = 0.4, 1.2


class Interrupted(Exception):
    """Raised by a signal handler."""


@contextlib.contextmanager
def signals(handler: Callable[[], None]) -> Iterator[None]:
    """Call `handler` from a signal handler every 5 ms until it raises: it must not raise during cleanup too."""
    raised = False

    def handle(*_: Any) -> None:
        nonlocal raised
        if not raised:
            raised = True
            handler()
            raised = False

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def lengths() -> Any:
    return np.random.default_rng(0).integers(50, 1500, DOCUMENTS)


def packed(lengths: Any, strategy: str, window: int) -> list[int]:
    """Return the first batch of an epoch."""
    if strategy == "concat":
        lengths = np.tile(lengths, 5)  # This strategy is about five times as fast as the others.
    return next(
        iter(PackedBatchSampler(lengths, length=2048, rows_per_batch=8, strategy=strategy, seed=7, window=window))
    )


WORK: dict[str, Callable[[Any], Any]] = {
    **{
        f"{strategy} {window}": lambda lengths, strategy=strategy, window=window: packed(lengths, strategy, window)
        for strategy in ("concat", "first_fit", "best_fit")
        for window in (10_000, DOCUMENTS)
    },
    "length bucket": lambda lengths: next(iter(LengthBucketBatchSampler(np.tile(lengths, 4), max_tokens=4000, seed=7))),
    "weights": lambda lengths: next(iter(WeightedRandomSampler(np.tile(lengths, 12).astype(float), 10, seed=7))),
}


@pytest.mark.parametrize("name", WORK)
def test_signals_are_handled_while_an_epoch_is_prepared(lengths: Any, name: str) -> None:
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1

    while True:
        seen, start = 0, time.monotonic()
        with signals(count):
            WORK[name](lengths)
        if time.monotonic() - start > LONG:
            break
        lengths = np.tile(lengths, 2)  # This machine, or the build, is fast.
    # If signals waited for the end of the work, the handler would be called once, or once per step.
    assert seen > 4

    def interrupt() -> None:
        nonlocal seen
        seen -= 1
        if seen == 0:
            raise Interrupted

    seen = 3
    with signals(interrupt), pytest.raises(Interrupted):
        WORK[name](lengths)


def test_progress_is_shown_on_a_terminal(lengths: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        # Takes several times as long as the delay before progress is shown.
        many, start = np.tile(lengths, 4), time.monotonic()
        while packed(many, "first_fit", len(many)) and time.monotonic() - start < SHOWN:
            many, start = np.tile(many, 2), time.monotonic()
        monkeypatch.undo()
        shown = stream.getvalue()
        if not stream.isatty():
            assert shown == ""
        else:
            assert f"of {len(many):,}" in shown
            assert "preparing an epoch: " in shown
            assert shown.endswith("\n")


def test_waiting_for_another_process_that_makes_an_index_can_be_interrupted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' * 600_000)
    (tmp_path / "index").mkdir()
    JsonLinesDataset(path, index_folder=tmp_path / "index")
    (index,) = (tmp_path / "index").iterdir()
    index.unlink()
    holder = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'w')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", holder, f"{index}.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        def interrupt() -> None:
            raise Interrupted

        with signals(interrupt), pytest.raises(Interrupted):
            JsonLinesDataset(path, index_folder=tmp_path / "index")
        process.kill()
    assert len(JsonLinesDataset(path, index_folder=tmp_path / "index")) == 600_000


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageFolderDataset:
    """Return images of which a batch takes half a second or more."""
    folder = tmp_path_factory.mktemp("images") / "a"
    folder.mkdir()
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (1200, 1600, 3), dtype=np.uint8))
    image.save(folder / "0.jpg")
    for number in range(1, 16):
        (folder / f"{number}.jpg").hardlink_to(folder / "0.jpg")
    return ImageFolderDataset(folder.parent)


def test_signals_are_handled_while_the_consumer_decodes_a_batch(images: ImageFolderDataset) -> None:
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1

    loader = DataLoader(images, batch_size=len(images))
    with signals(count):
        next(iter(loader))
    assert seen > 4

    def interrupt() -> None:
        raise Interrupted

    iterator = iter(DataLoader(images, batch_size=len(images) // 2))
    with signals(interrupt), pytest.raises(Interrupted):
        next(iterator)
    # As in torch, the interrupted batch is lost, and the next one is returned.
    assert len(next(iterator)[0]) == len(images) // 2


@pytest.mark.timeout(60)
def test_a_signal_handler_may_request_a_batch_while_one_is_decoded(images: ImageFolderDataset) -> None:
    iterator = iter(DataLoader(images, batch_size=6))
    from_handler: list[Any] = []

    def ask() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not from_handler:  # A second alarm may already be pending.
            from_handler.append(next(iterator))

    with signals(ask):
        batches = list(iterator)
    assert len(from_handler) == 1
    assert len(batches) == 2
