"""What an epoch in torch mode is drawn from: the generators as they were before its first draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import _torch
from .global_generators import LIBRARIES, generator_state, global_state, set_generator_state, set_global_state
from .stateful import attribute
from .torch_order import is_known

if TYPE_CHECKING:
    from .dataloader import DataLoader


def take(loader: DataLoader[Any]) -> dict[str, str]:
    """The state of every generator that an epoch of `loader` draws from, as text, by name."""
    state = {}
    # A stream may draw when it begins, from whatever generator: read again without a state, it must draw the same.
    names_global = is_stream = loader._dataset_kind != _torch.DatasetKind.Map
    index_sampler = loader._index_sampler
    for name, generator in _generators(loader, index_sampler):
        if generator is None:
            names_global = True
        else:
            state[name] = generator_state(generator)
    if names_global:
        # A sampler of the user's may draw from any of them; torch's own ones from torch's alone, as the loader itself.
        state.update(global_state(["torch"] if not is_stream and is_known(index_sampler) else LIBRARIES))
    return state


def put(loader: DataLoader[Any], state: dict[str, str]) -> None:
    """Puts the generators back to where they were when `take` returned `state`."""
    for name, generator in _generators(loader, loader._index_sampler):
        if generator is not None and name in state:
            set_generator_state(generator, state[name])
    known = {name: text for name, text in state.items() if name in LIBRARIES}
    if known:
        set_global_state(global_state() | known)


def _generators(loader: DataLoader[Any], index_sampler: Any) -> Iterator[tuple[str, torch.Generator | None]]:
    """What the loader and its samplers, one inside of the other, draw from; None for the global generators."""
    yield "generator", loader.generator
    known = [loader.generator]
    sampler, depth = index_sampler, 0
    while sampler is not None and depth < _DEEPEST:
        own = attribute(sampler, "generator")
        if all(own is not each for each in known):
            known.append(own)
            yield f"sampler_generator_{depth}", own if isinstance(own, torch.Generator) else None
        sampler, depth = attribute(sampler, "sampler"), depth + 1


# How many samplers may lie inside of each other: one that holds itself has no end.
_DEEPEST = 8
