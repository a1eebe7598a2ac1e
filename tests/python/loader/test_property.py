"""Random loaders, drawn repeatedly: none may differ from torch's."""

from __future__ import annotations

import os
import random
import warnings
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch
import torch.utils.data

import sluicegate
from cases.random_loaders import Draw
from checks import drawn
from checks.equality import Outcome, difference, outcome_difference, outcome_of

DRAWS = int(os.environ.get("SLUICEGATE_PROPERTY_DRAWS", "600"))
CHUNKS = 12

pytestmark = [
    pytest.mark.slots,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*Triggered internally at"),
]


def trace_of(draw: Draw, package: ModuleType) -> list[Any]:
    """Return every observable effect of a loader, in order."""
    torch.manual_seed(draw.seed)
    numpy.random.seed(draw.seed % 2**32)
    random.seed(draw.seed)
    trace: list[Any] = []
    made: list[Any] = []
    trace.append(outcome_of(lambda: made.append(draw.loader(package)) or []))
    if not made:
        return trace
    loader = made.pop()
    generators = [loader.generator] if loader.generator is not None else []

    def states() -> list[Any]:
        others = [hash(random.getstate()), numpy.random.get_state()[1].tobytes()]
        return [*others, torch.get_rng_state(), *(generator.get_state() for generator in generators)]

    trace.append(states())
    if draw.asks_length:
        trace.append(outcome_of(lambda: [len(loader)]))
    for limit in draw.limits:
        steps: list[Any] = []
        trace.append(outcome_of(lambda limit=limit, steps=steps: epoch(loader, limit, steps)))
        # Torch's workers prefetch from the order; their position depends on the batches read, not on the loader.
        trace.append([steps if draw.num_workers == 0 else None, states() if draw.settles(limit) else None])
    return trace


def epoch(loader: Any, limit: int | None, steps: list[Any]) -> Any:
    """Yield batches up to the limit, including those after errors, and record the generator's state after each."""
    iterator = iter(loader)
    steps.append(torch.get_rng_state())
    errors = 0
    count = 0
    while limit is None or count < limit:
        count += 1
        try:
            batch = next(iterator)
        except StopIteration:
            break
        except Exception as error:
            errors += 1
            if errors > 3:
                raise
            batch = error.with_traceback(None)
        generator = loader.generator
        steps.append([torch.get_rng_state(), None if generator is None else generator.get_state()])
        yield batch


def trace_difference(actual: list[Any], expected: list[Any]) -> str | None:
    if len(actual) != len(expected):
        return f"one ended early: {actual[-1]} against {expected[-1]}"
    for position, (left, right) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(right, Outcome):
            found = outcome_difference(left, right)
        else:
            found = difference(left, right, "generator states")
        if found is not None:
            return f"step {position} of the trace: {found}"
    return None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_random_loader_differs_from_torchs(chunk: int) -> None:
    for number in drawn.numbers(DRAWS // CHUNKS):
        check(number)


def test_a_known_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that cannot fail proves nothing, so a known difference has to be found."""

    class Off(torch.utils.data.DataLoader):
        def __iter__(self) -> Any:
            for number, batch in enumerate(super().__iter__()):
                yield batch.mul_(-1) if number == 1 and isinstance(batch, torch.Tensor) else batch

    package = type(
        "Package", (), {**{n: getattr(torch.utils.data, n) for n in torch.utils.data.__all__}, "DataLoader": Off}
    )
    found = [trace_difference(*traces(Draw(number), package)) for number in range(60)]
    assert any(found)
    assert not all(found)


def traces(draw: Draw, package: Any) -> tuple[list[Any], list[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trace_of(draw, package), trace_of(draw, torch.utils.data)


def check(number: int) -> None:
    """Check one draw; to repeat it: `python -c 'from test_property import check; check(17)'`."""
    draw = Draw(number)
    found = trace_difference(*traces(draw, sluicegate))
    assert found is None, f"draw {number}: {draw}\n{found}\nrepeat it with check({number})"


if __name__ == "__main__":
    for each in drawn.numbers(100):
        check(each)
