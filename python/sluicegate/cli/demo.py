"""The first part of `sluicegate demo`: one training, once with torch's loader and once with sluicegate's.

Everything except the loader is the same for both: data, seed, model, one compute thread, `num_workers=0`. One thread
makes the two trainings bit-equal, and keeps spinning OpenMP threads out of the measurement.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils.data
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

import sluicegate
from sluicegate import NpyDataset

DATA = Path(__file__).parent / "data" / "fashion_mnist"
TRAIN_ROWS = range(6_000)
TEST_ROWS = range(6_000, 7_000)
CLASSES = 10
WARM_UP_SAMPLES = 1_280
LOADING_PASSES = 7
FIRST_BATCHES = 21
EXTRA_HINT = "pip install 'sluicegate[demo]'"

Batch = dict[str, Tensor]
Loader = torch.utils.data.DataLoader[Any]


class MissingExtraError(ImportError):
    """A package of the extra `sluicegate[demo]` is not installed."""


@dataclass(frozen=True)
class Settings:
    """The settings that the user can choose."""

    output: Path
    epochs: int
    batch_size: int
    samples: int
    seed: int


@dataclass
class Run:
    """The results with one loader."""

    name: str
    losses: Tensor
    training_seconds: float
    waiting_seconds: float
    accuracy: float
    rates: list[float]
    first_batches: list[float]

    @property
    def rate(self) -> float:
        """Samples per second of loading alone: the median of the passes."""
        return statistics.median(self.rates)

    @property
    def first_batch(self) -> float:
        """Seconds from `iter(loader)` to the first batch: the median."""
        return statistics.median(self.first_batches)

    @property
    def waiting(self) -> float:
        """Share of the training loop spent waiting for data, 0 to 1."""
        return self.waiting_seconds / self.training_seconds


def _plotting() -> ModuleType:
    """Import matplotlib's pyplot, drawing to files only."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(f"the picture needs matplotlib ({error}); install it with {EXTRA_HINT}") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


@contextmanager
def _progress(title: str, steps: int) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes each step's loss and moves a bar, or prints lines without tqdm or a terminal."""
    bar = None
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            pass
        else:
            bar = tqdm(total=steps, desc=title, unit="step", file=sys.stderr)
    if bar is not None:
        with bar:

            def move(loss: float) -> None:
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()

            yield move
        return

    done = 0
    every = max(1, steps // 4)

    def tell(loss: float) -> None:
        nonlocal done
        done += 1
        if done % every == 0 or done == steps:
            print(f"{title}: step {done} of {steps}, loss {loss:.3f}", file=sys.stderr, flush=True)

    yield tell


@contextmanager
def one_compute_thread() -> Iterator[None]:
    """Use one compute thread within the context, which makes trainings bit-equal, then restore the setting.

    `torch.use_deterministic_algorithms` would change nothing on a processor, and takes 3 s to import a compiler.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def model() -> nn.Module:
    """Make a small convolutional network, with weights drawn from torch's global generator."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, CLASSES),
    )


def pixels(batch: Batch) -> Tensor:
    """Return gray values 0 to 255 as floats 0 to 1, with a channel dimension."""
    return batch["image"].unsqueeze(1).float().div_(255.0)


def _accuracy(model: nn.Module, loader: Loader) -> float:
    right = total = 0
    with torch.inference_mode():
        for batch in loader:
            right += int((model(pixels(batch)).argmax(1) == batch["label"]).sum())
            total += len(batch["label"])
    return right / total


class _Training:
    """One training, epoch by epoch, as if nothing else drew from torch's random number generator.

    Two of them that differ only in `loader_cls` can thus take turns, so that other load on the machine affects both.
    """

    def __init__(self, loader_cls: type[Loader], train: Dataset[Batch], settings: Settings) -> None:
        torch.manual_seed(settings.seed)
        self.model = model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.loader = loader_cls(train, batch_size=settings.batch_size, shuffle=True)
        self.losses: list[Tensor] = []
        self.seconds = self.waiting = 0.0
        self._rng_state = torch.get_rng_state()

    def epoch(self, step_done: Callable[[float], None]) -> None:
        """Train for one epoch; `step_done` is called with the loss after every step."""
        torch.set_rng_state(self._rng_state)
        begin = asked = time.perf_counter()
        for batch in self.loader:
            self.waiting += time.perf_counter() - asked
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(pixels(batch)), batch["label"])
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.detach())
            step_done(loss.item())
            asked = time.perf_counter()
        self.waiting += time.perf_counter() - asked
        self.seconds += time.perf_counter() - begin
        self._rng_state = torch.get_rng_state()

    def result(self, name: str, test_loader: Loader) -> Run:
        """Return the results, with the accuracy on the batches of `test_loader`."""
        accuracy = _accuracy(self.model, test_loader)
        return Run(name, torch.stack(self.losses), self.seconds, self.waiting, accuracy, [], [])


def _train_both(train: Dataset[Batch], test: Dataset[Batch], settings: Settings) -> dict[type[Loader], Run]:
    """Train with each loader from the same seed; the two alternate by epoch."""
    names: dict[type[Loader], str] = {torch.utils.data.DataLoader: "torch", sluicegate.DataLoader: "sluicegate"}
    # One-time costs (choosing kernels, mapping memory) must not count for the loader that runs first.
    warm_up = Subset(train, range(min(settings.samples, WARM_UP_SAMPLES)))
    for loader_cls in names:
        _Training(loader_cls, warm_up, settings).epoch(lambda _: None)
    trainings = {loader_cls: _Training(loader_cls, train, settings) for loader_cls in names}
    steps = settings.epochs * sum(len(training.loader) for training in trainings.values())
    with _progress("training with both in turns", steps) as step_done:
        for epoch in range(settings.epochs):
            order = list(trainings.values())
            for training in order if epoch % 2 == 0 else reversed(order):
                training.epoch(step_done)
    return {
        loader_cls: training.result(names[loader_cls], loader_cls(test, batch_size=250))
        for loader_cls, training in trainings.items()
    }


def _measure_loading(runs: dict[type[Loader], Run], train: Dataset[Batch], batch_size: int) -> None:
    """Measure loading alone, without training. The loaders take turns, so that other load affects both."""
    for loader_cls in runs:
        for _ in loader_cls(train, batch_size=batch_size, shuffle=True):  # Warm up the page cache and buffers.
            pass
    for _ in range(LOADING_PASSES):
        for loader_cls, run in runs.items():
            loader = loader_cls(train, batch_size=batch_size, shuffle=True)
            begin = time.perf_counter()
            samples = sum(len(batch["label"]) for batch in loader)
            run.rates.append(samples / (time.perf_counter() - begin))
    for _ in range(FIRST_BATCHES):
        for loader_cls, run in runs.items():
            loader = loader_cls(train, batch_size=batch_size, shuffle=True)
            begin = time.perf_counter()
            next(iter(loader))
            run.first_batches.append(time.perf_counter() - begin)


def first_difference(a: Tensor, b: Tensor) -> int | None:
    """Return the first step at which two loss curves differ in any bit, or None."""
    if a.shape != b.shape:
        return min(len(a), len(b))
    different = (a.view(torch.int32) != b.view(torch.int32)).nonzero()
    return int(different[0]) if len(different) else None


def _table(theirs: Run, ours: Run) -> str:
    """Return a comparison of the two in aligned columns."""
    faster = statistics.median(b / a for a, b in zip(theirs.rates, ours.rates, strict=True))
    sooner = statistics.median(a / b for a, b in zip(theirs.first_batches, ours.first_batches, strict=True))

    def row(what: str, value: Callable[[Run], str], remark: str) -> tuple[str, str, str, str]:
        return what, value(theirs), value(ours), remark

    def same(value: Callable[[Run], float]) -> str:
        return "the same" if value(theirs) == value(ours) else "DIFFERENT"

    rows = [
        row("", lambda r: r.name, ""),
        row("loading alone, samples/s", lambda r: f"{r.rate:,.0f}", f"{faster:.1f}x as fast"),
        row("first batch after, ms", lambda r: f"{r.first_batch * 1e3:.2f}", f"{sooner:.1f}x as soon"),
        row("training loop waits for data", lambda r: f"{r.waiting:.1%}", "of its time"),
        row("training loop, s", lambda r: f"{r.training_seconds:.1f}", ""),
        row("last training loss", lambda r: f"{r.losses[-1].item():.6f}", same(lambda r: r.losses[-1].item())),
        row("accuracy on held-out images", lambda r: f"{r.accuracy:.1%}", same(lambda r: r.accuracy)),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    rule = "-" * max(map(len, lines))
    return "\n".join([lines[0], rule, *lines[1:]])


def _draw(plt: ModuleType, theirs: Run, ours: Run, settings: Settings) -> None:
    """Draw losses, loading rate and waiting."""
    colors = {theirs.name: "#9aa5b1", ours.name: "#0b7285"}
    pair = (theirs, ours)
    style = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
    }
    with plt.rc_context(style):
        figure = plt.figure(figsize=(13, 4.6), layout="constrained")
        grid = figure.add_gridspec(2, 3, width_ratios=[1.7, 1, 1])

        curve = figure.add_subplot(grid[:, 0])
        curve.plot(theirs.losses.numpy(), color=colors[theirs.name], linewidth=4.5, alpha=0.8, label=theirs.name)
        curve.plot(ours.losses.numpy(), color=colors[ours.name], linewidth=1.1, label=ours.name)
        step = first_difference(theirs.losses, ours.losses)
        same = f"equal to the bit at all {len(ours.losses)} steps" if step is None else f"DIFFERENT from step {step}"
        curve.set_title(f"Training loss: {same}")
        curve.set_xlabel("step")
        curve.set_ylim(bottom=0)
        curve.legend(frameon=False)

        def bars(place: Any, title: str, values: list[float], texts: list[str]) -> None:
            axes = figure.add_subplot(place)
            names = [run.name for run in pair]
            drawn = axes.barh(names, values, height=0.6, color=[colors[name] for name in names])
            axes.bar_label(drawn, texts, padding=4)
            axes.set_title(title)
            axes.set_xlim(0, max(*values, 1e-9) * 1.35)
            axes.invert_yaxis()
            axes.tick_params(axis="y", length=0)
            axes.spines["bottom"].set_visible(False)
            axes.set_xticks([])

        bars(grid[:, 1], "Loading alone, samples/s", [r.rate for r in pair], [f"{r.rate:,.0f}" for r in pair])
        bars(grid[0, 2], "Training waits for data", [r.waiting for r in pair], [f"{r.waiting:.1%}" for r in pair])
        firsts = [r.first_batch * 1e3 for r in pair]
        bars(grid[1, 2], "First batch after", firsts, [f"{first:.2f} ms" for first in firsts])
        figure.suptitle(
            f"The same training with two loaders: Fashion-MNIST, {settings.epochs} epochs, batches of "
            f"{settings.batch_size}, num_workers=0, torch {torch.__version__}",
            fontsize=11,
            x=0.01,
            ha="left",
        )
        figure.savefig(settings.output, dpi=130)
        plt.close(figure)


def run(settings: Settings) -> int:
    """Run this part of the demo; return 0 if the losses are equal at every step, otherwise 1."""
    plt = _plotting()
    dataset = NpyDataset(image=DATA / "images.npy", label=DATA / "labels.npy")
    train: Dataset[Batch] = Subset(dataset, TRAIN_ROWS[: settings.samples])
    test: Dataset[Batch] = Subset(dataset, TEST_ROWS)
    print(
        f"Fashion-MNIST: {len(TRAIN_ROWS[: settings.samples]):,} photographs of clothes to train on, "
        f"{len(TEST_ROWS):,} to test on; {settings.epochs} epochs, batches of {settings.batch_size}; "
        f"one compute thread, num_workers=0; torch {torch.__version__}, sluicegate {sluicegate.__version__}",
        flush=True,
    )
    with one_compute_thread():
        runs = _train_both(train, test, settings)
        theirs, ours = runs.values()
        _measure_loading(runs, train, settings.batch_size)
    print(f"\n{_table(theirs, ours)}\n")
    step = first_difference(theirs.losses, ours.losses)
    _draw(plt, theirs, ours, settings)
    if step is None:
        print(f"losses: equal to the bit at all {len(ours.losses)} steps")
    else:
        print(f"losses: DIFFERENT, first at step {step} of {len(theirs.losses)} (torch), {len(ours.losses)} (ours)")
    print(f"picture: {settings.output.absolute()}")
    return 0 if step is None else 1
