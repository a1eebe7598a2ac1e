"""`fresh`: no settings of Accelerate stay from test to test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Accelerate keeps its settings for the process."""
    # Imported late: this module is collected with all tests, and with `--tight` none of them needs it.
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
