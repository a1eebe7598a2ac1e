"""`Draws`: the states of the generators before the first draw of an epoch in torch mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from sluicegate.rng.generator_state import access_to
from sluicegate.rng.global_generators import (
    LIBRARIES,
    global_generators,
    global_state,
    set_generator_state,
    set_global_state,
    state_text,
)
from sluicegate.state.stateful import attributes

from .settings import LoaderSettings


class Draws(NamedTuple):
    """The states of the generators that an epoch draws from, at one moment. Taken every epoch, but rarely saved.

    Attributes:
        own: the name and state of each generator of the loader and its samplers.
        libraries: the state of each relevant global generator, by library.
    """

    own: tuple[tuple[str, bytes], ...]
    libraries: dict[str, bytes]

    def as_text(self) -> dict[str, str]:
        """Return the states by name, as text that JSON can hold."""
        return {name: state_text(state) for name, state in (*self.own, *self.libraries.items())}


def take(settings: LoaderSettings) -> Draws:
    """Return the state of every generator that an epoch of a loader with `settings` draws from."""
    own = []
    # A stream may draw from any generator when it begins. Read again without a state, it must draw the same values.
    names_global = is_stream = settings.is_stream
    for name, generator in _generators(settings):
        if generator is None:
            names_global = True
        elif (way := access_to(generator)) is not None:  # Otherwise torch says what is wrong when it draws.
            own.append((name, way.take()))
    libraries: dict[str, bytes] = {}
    if names_global:
        generators = global_generators()
        if not is_stream and settings.is_known:
            # Like the loader itself, torch's own samplers draw only from torch's generator; others may draw from any.
            libraries = {"torch": generators.take_torch()}
        else:
            libraries = dict(zip(LIBRARIES, generators.take(), strict=True))
    return Draws(tuple(own), libraries)


def put(settings: LoaderSettings, state: Mapping[str, str]) -> None:
    """Restore the generators from `state`, the `as_text` of the draws that `take` returned."""
    for name, generator in _generators(settings):
        if generator is not None and name in state:
            set_generator_state(generator, state[name])
    known = {name: text for name, text in state.items() if name in LIBRARIES}
    if known:
        set_global_state(global_state() | known)


def own_in(state: Mapping[str, str]) -> dict[str, str]:
    """Return what `state`, as for `put`, has of the loader's and its samplers' own generators."""
    return {name: text for name, text in state.items() if name not in LIBRARIES}


def take_own(index_sampler: object) -> Draws:
    """Return the states of the generators that a user-defined sampler owns, which no seed of the loader sets."""
    generators = _own_generators(index_sampler)
    return Draws(tuple((name, _taken(generator)) for name, generator in generators.items()), {})


def put_own(index_sampler: object, state: Mapping[str, str]) -> None:
    """Restore the generators of a sampler from `state`, the `as_text` of the draws that `take_own` returned."""
    for name, generator in _own_generators(index_sampler).items():
        if name in state:
            set_generator_state(generator, state[name])


def _taken(generator: object) -> bytes:
    way = access_to(generator)
    assert way is not None
    return way.take()


def _own_generators(index_sampler: object) -> dict[str, object]:
    """Return the generators of nested samplers by their names in states."""
    return {name: generator for name, generator in _of_samplers(index_sampler, []) if generator is not None}


def _generators(settings: LoaderSettings) -> list[tuple[str, object]]:
    """Return the generators of the loader and its nested samplers, by name; None for the global generators."""
    own = settings.generator
    if not settings.is_known:
        return [("generator", own), *_of_samplers(settings.index_sampler, [own])]
    # Torch's batch sampler draws nothing, and its samplers have one generator. To look for more would take longer than
    # to draw a short epoch.
    found: list[tuple[str, object]] = [("generator", own), ("sampler_generator_0", None)]
    each = getattr(settings.index_sampler.sampler, "generator", None)
    return [*found, ("sampler_generator_1", each)] if each is not own and isinstance(each, torch.Generator) else found


def _of_samplers(sampler: object, known: list[object]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for depth in range(_DEEPEST):
        if sampler is None:
            break
        own, inner = attributes(sampler, "generator", "sampler")
        own = own if isinstance(own, torch.Generator) else None
        if id(own) not in map(id, known):
            known.append(own)
            found.append((f"sampler_generator_{depth}", own))
        # User-defined samplers may have generators under any name.
        for attribute, held in list(getattr(sampler, "__dict__", {}).items()):
            if id(held) not in map(id, known) and access_to(held) is not None:
                known.append(held)
                found.append((f"sampler_{depth}_{attribute}", held))
        sampler = inner
    return found


# The maximum nesting depth of samplers, because one that contains itself would never end.
_DEEPEST = 8
