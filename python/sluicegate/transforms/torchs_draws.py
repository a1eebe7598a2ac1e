"""Compares torch's draws on this machine with the core's: some have different bits on other machines."""

from __future__ import annotations

import functools
import json
from typing import Any

import torch

from sluicegate.rng.global_generators import fastest_torch_access

from .drawing import compiled
from .recognize import NotRecognizedError

_SHARES = [0.1, 0.4, 0.2, 0.0, 0.3]


@functools.cache
def check_choices() -> None:
    """Refuse to choose in the core if `torch.multinomial` chooses differently on this machine.

    Raises:
        NotRecognizedError: the choices differ.
    """
    parts = [{"Pad": {"padding": [number, 0, 0, 0], "fill": [], "padding_mode": "constant"}} for number in range(5)]
    choice = {"RandomChoice": {"transforms": parts, "p": _SHARES}}
    ours, theirs = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    for _ in range(50):
        chosen = int(torch.multinomial(torch.tensor(_SHARES), 1, generator=theirs))
        (drawn,) = _drawn(choice, ours, (1, 3, 3))
        if drawn["Pad"]["left"] != chosen or not torch.equal(ours.get_state(), theirs.get_state()):
            raise NotRecognizedError("torch.multinomial draws different numbers on this machine")


@functools.cache
def check_normal_deviates() -> None:
    """Refuse to draw normal deviates in the core if torch's have different bits on this machine.

    Raises:
        NotRecognizedError: the bits differ.
    """
    erase = {"p": 1.0, "scale": [0.25, 0.25], "ratio": [1.0, 1.0], "value": "random", "log_ratio": [0.0, 0.0]}
    for channels, length in ((3, 20), (3, 62), (1, 4)):
        ours, theirs = torch.Generator().manual_seed(length), torch.Generator().manual_seed(length)
        (drawn,) = _drawn({"RandomErasing": erase}, ours, (channels, length, length))
        for _ in range(3):
            torch.rand(1, generator=theirs)
        half = length // 2
        expected = torch.empty(channels, half, half).normal_(generator=theirs)
        if not torch.equal(torch.tensor(drawn["Erase"]["with"]["values"]), expected.flatten()):
            raise NotRecognizedError("torch's normal deviates have different bits on this machine")


def _drawn(transform: Any, generator: torch.Generator, shape: tuple[int, int, int]) -> Any:
    channels, height, width = shape
    access = fastest_torch_access(generator)
    return json.loads(compiled(json.dumps([transform])).draw_json(height, width, channels, "float32", access))
