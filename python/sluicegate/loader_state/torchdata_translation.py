"""Converts a state of torchdata's `StatefulDataLoader` to our state."""

from __future__ import annotations

from typing import Any

import torch

from sluicegate.order.settings import LoaderSettings
from sluicegate.rng.global_generators import generator_state
from sluicegate.state.loader_state import LoaderState
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.sampler_place import SamplerPlace

from .torchdata_order import RandomOrder
from .torchdata_state import TorchdataState


def translated(settings: LoaderSettings, epoch: int, facts: TorchdataState) -> LoaderState:
    """Return what a loader with `settings` can resume from, without the fingerprint.

    The rest of the epoch is the same as torchdata's would be.

    Args:
        settings: of the loader that resumes.
        epoch: the number of the loader's next epoch, which torchdata's states do not have.
        facts: what the state says.

    Raises:
        ValueError: the loader's order can't be that of the state.
    """
    sampler, order = facts.sampler, facts.sampler.random_order
    if settings.seed is not None:
        raise ValueError(
            f"seed: can't resume the order of torchdata's loader, which had none, got {settings.seed!r}; leave seed out"
        )
    if facts.assumes_in_order and not settings.in_order:
        raise ValueError(
            "load_state_dict: with in_order=False torchdata's states do not say which batches were delivered since the "
            "snapshot; save with in_order=True, or snapshot_every_n_steps=1"
        )
    if order is not None and order.may_be_late and settings.generator is not None:
        raise ValueError(
            "load_state_dict: this version of torchdata does not save where the order began in a generator that the "
            "loader shares with its sampler (generator=, shuffle=True); save with torchdata 0.11"
        )
    thing, iterator = sampler.state, sampler.iterator_state
    if sampler.outer_state is not None or sampler.outer_iterator_state is not None:
        thing, iterator = sampler.outer_state, sampler.outer_iterator_state
    is_over, is_read_again = facts.finished, facts.is_stateless_stream
    own = getattr(settings.index_sampler, "sampler", settings.index_sampler)
    state = _known(thing=thing, iterator=None if order is not None else iterator)
    # A sampler that starts over at its end shows that by a smaller last batch.
    has_ended = bool(state) and sampler.samples_drawn is not None and sampler.samples_drawn >= len(own)
    places = [_place(facts, worker) for worker in facts.workers]
    return LoaderState(
        epoch=epoch,
        batches_received=0 if is_over or is_read_again else sampler.batches_drawn,
        position=0 if is_over else sampler.samples_drawn or sampler.batches_drawn * (settings.batch_size or 1),
        drawn=not is_over,
        finished=is_over,
        in_epoch=not is_over,
        sampler=None if is_over or not state else SamplerPlace(state, has_ended),
        num_workers=facts.num_workers,
        order=None if order is None else generator_state(_generator(settings, own, order, is_over)),
        base_seed=facts.base_seed,
        fetching=Fetching() if is_read_again else Fetching(facts.next_worker, places),
        replay=facts.batches_received if is_read_again and not is_over else facts.steps_since_snapshot,
    )


def _generator(settings: LoaderSettings, sampler: Any, order: RandomOrder, is_over: bool) -> torch.Generator:
    """Return the generator from which the next order is drawn.

    It is the saved order, or the one after it if the saved one is over.
    """
    if not is_over:
        return order.generator()
    return order.next_generator(
        len(sampler.data_source),
        num_samples=sampler._num_samples,
        replacement=sampler.replacement,
        persistent_workers=settings.persistent_workers,
        shares_generator=settings.generator is not None and settings.generator is sampler.generator,
    )


def _place(facts: TorchdataState, worker: Any) -> PlaceState | None:
    state = _known(thing=worker.dataset_state, iterator=worker.iterator_state)
    if not state:
        return None
    # Torchdata does not save how many samples were read, so they are counted from here.
    return PlaceState(state, ended=worker.ended, over=facts.finished)


def _known(**states: Any) -> dict[str, Any]:
    return {name: state for name, state in states.items() if state is not None}
