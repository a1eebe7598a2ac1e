"""`fresh`: resets Accelerate's settings, so that no test passes them to the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Reset Accelerate's settings, which it keeps for the process."""
    # Imported late: all runs collect this module, but tests with `--tight` do not need Accelerate.
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
