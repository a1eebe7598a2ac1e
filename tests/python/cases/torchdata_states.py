"""States that torchdata wrote, and the loaders that read them."""

from __future__ import annotations

import base64
import json
import pathlib
import zlib
from typing import Any

import torch
import torch.utils.data

RECORDED = json.loads((pathlib.Path(__file__).parent / "torchdata_states.json").read_text())


UNREADABLE = {
    "0.10: shuffled with the loader's generator, 2 workers": "with generator= and shuffle=True",
    "0.10: shuffled, second epoch before its first batch": "at the start of a later epoch",
}


READABLE = [name for name in RECORDED if name not in UNREADABLE]


# These need more than the state: workers draw their samples, or their order is what `may_be_late` warns of.
NOT_ENOUGH = ["random samples, 2 workers", "0.10: shuffled with the loader's generator"]


def read(value: Any) -> Any:
    """Return the recordings of record_torchdata.py."""
    if isinstance(value, list):
        return [read(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$byte_tensor" in value:
        return torch.tensor(list(zlib.decompress(base64.b85decode(value["$byte_tensor"]))), dtype=torch.uint8)
    if "$items" in value:
        return {key: read(entry) for key, entry in value["$items"]}
    return {key: read(entry) for key, entry in value.items()}


def state_of(name: str) -> dict[str, Any]:
    return read(RECORDED[name]["state"])


def plain(part: Any) -> Any:
    return part.tolist() if isinstance(part, torch.Tensor) else part
