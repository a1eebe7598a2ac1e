"""Seeding without devices that are not there: for each, torch formats the stack in case an error has to show it."""

from __future__ import annotations

import torch


def skip() -> None:
    """Have `torch.manual_seed` seed the CPU alone where there is no GPU: otherwise 5 ms of each worker's 20."""
    if not torch.cuda.is_available():
        for device in (torch.cuda, torch.mtia, torch.xpu):
            device.manual_seed_all = lambda seed: None
