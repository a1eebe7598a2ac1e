"""Records the states and batches in torchdata_states.json; run by hand, once with each version of torchdata.

    python -m cases.record_torchdata cases      # torchdata 0.11
    python -m cases.record_torchdata old_cases  # torchdata 0.10.1 or 0.8

Earlier recordings under other names stay. `rest` holds the rest of the interrupted loader, `next_epoch` its epoch after
that. If torchdata's own resumed loader delivered different batches, these are in `resumed_rest` and
`resumed_next_epoch`. The global seeds are `torchdata_loaders.SEED` and, before the resumed loader, `OTHER_SEED`.
"""

from __future__ import annotations

import base64
import copy
import json
import logging
import pathlib
import sys
import types
import zlib
from typing import Any

import torch

from cases import torchdata_loaders

STATES = pathlib.Path(__file__).parent / "torchdata_states.json"


def torchdatas() -> types.SimpleNamespace:
    """Return torchdata's module; imported here, because pytest imports this file for doctests without torchdata."""
    import torchdata
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import RandomSampler

    return types.SimpleNamespace(
        DataLoader=StatefulDataLoader, RandomSampler=RandomSampler, version=torchdata.__version__
    )


def written(value: Any) -> Any:
    """Return JSON for a state: tensors are compressed, and dicts whose keys are not strings become lists of pairs."""
    if isinstance(value, torch.Tensor):
        assert value.dtype == torch.uint8
        return {"$byte_tensor": base64.b85encode(zlib.compress(bytes(value.tolist()), 9)).decode()}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: written(entry) for key, entry in value.items()}
        return {"$items": [[key, written(entry)] for key, entry in value.items()]}
    return [written(entry) for entry in value] if isinstance(value, list) else value


def plain(batches: list[Any]) -> list[Any]:
    """Return batches as lists; what the collate function made from pairs is a list of two tensors."""
    return [
        batch.tolist() if isinstance(batch, torch.Tensor) else plain(batch) if isinstance(batch, list) else batch
        for batch in batches
    ]


def taken(case: torchdata_loaders.Case, package: Any) -> tuple[Any, Any, Any]:
    """Return the loader at the point where its state is taken, the batches that follow, and the state."""
    torch.manual_seed(torchdata_loaders.SEED)
    loader = case.make(package)
    for _ in range(case.epochs):
        list(loader)
    if case.received is None:
        list(loader)
    if case.received is None or (case.received, case.epochs) == (0, 0):
        return loader, loader, copy.deepcopy(loader.state_dict())
    iterator = iter(loader)
    for _ in range(case.received):
        next(iterator)
    return loader, iterator, copy.deepcopy(loader.state_dict())


def record(case: torchdata_loaders.Case, package: Any) -> dict[str, Any]:
    loader, ahead, state = taken(case, package)
    found = {"state": written(state), "rest": plain(list(ahead)), "next_epoch": plain(list(loader))}
    torch.manual_seed(torchdata_loaders.OTHER_SEED)
    resumed = case.make(package)
    resumed.load_state_dict(state)
    for name in ("rest", "next_epoch"):
        batches = plain(list(resumed))
        if batches != found[name]:
            found[f"resumed_{name}"] = batches
    return {"torchdata": package.version, **found}


def main() -> None:
    logging.disable(logging.WARNING)
    states = json.loads(STATES.read_text()) if STATES.exists() else {}
    for name, case in getattr(torchdata_loaders, sys.argv[1].upper()).items():
        states[name] = record(case, torchdatas())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(states[name])}" for name in states)
    STATES.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
