"""Short deadlines for tests: waiting for a stuck worker takes a second, in the package and in torch."""

from __future__ import annotations

from torch.utils.data import _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from sluicegate.system import deadlines

# Not shorter: on a busy machine, a healthy worker would be killed in tests that expect it to end by itself.
SHORT = {"GRACE": 1.0, "TERMINATION": 0.5}
OF_TORCH = 1.0

_REAL = {name: getattr(deadlines, name) for name in SHORT}
_REAL_OF_TORCH = _utils.MP_STATUS_CHECK_INTERVAL


def shorten() -> None:
    _set(SHORT, OF_TORCH)


def are_short() -> bool:
    return SHORT["GRACE"] == deadlines.GRACE


def restore() -> None:
    _set(_REAL, _REAL_OF_TORCH)


def _set(ours: dict[str, float], of_torch: float) -> None:
    vars(deadlines).update(ours)
    # How long torch waits for a worker to end, and how often a worker and its consumer check that the other is alive.
    for module in (_utils, _utils.worker, _utils.pin_memory):
        module.MP_STATUS_CHECK_INTERVAL = of_torch
    _MultiProcessingDataLoaderIter._try_get_data.__defaults__ = (of_torch,)
