"""Converts a state of the Rust crate's `DataLoader` to our state: both compute the same orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.order.left_out import ranges_of
from sluicegate.order.plan import resolved_shard
from sluicegate.order.settings import LoaderSettings
from sluicegate.state.checks import check_list, check_number
from sluicegate.state.loader_state import LoaderState

# Keys that every state of the crate has and none of our states.
_KEYS = {"dataset_len", "batch_size", "rank", "world_size"}


def is_crate_state(state: Any) -> bool:
    """Return True if `state` was written by the crate's `LoaderState::to_json`."""
    return isinstance(state, Mapping) and set(state) >= _KEYS and isinstance(state.get("version"), int)


def of_crate(settings: LoaderSettings, state: Mapping[str, Any], fingerprint: dict[str, Any]) -> LoaderState:
    """Return what a loader with `settings` can resume from.

    Args:
        settings: of the loader that resumes.
        state: the crate's.
        fingerprint: of `settings`. Parts of it that the crate's state lacks are assumed to be equal.

    Raises:
        ValueError: the loader's order does not follow from seeds, or the state was changed.
    """
    if settings.ordering is None or fingerprint["order"] is None:
        raise ValueError(
            "load_state_dict: the state is from the Rust crate, whose orders are always seeded; pass seed= to the "
            "loader, or use one of sluicegate's samplers with seed="
        )
    for name in ("epoch", "batches_received", "position"):
        check_number(name, state.get(name))
    ahead = check_list("received_ahead", state.get("received_ahead"))
    for number in ahead:
        check_number("received_ahead", number)
    try:
        dataset_len, order, layout = state["dataset_len"], state["sampler"], [state["batch_size"], state["world_size"]]
    except KeyError as error:
        raise ValueError(
            f"load_state_dict: invalid state of the Rust crate: {error!r}; pass what its to_json() returned"
        ) from error
    rank, _ = resolved_shard(settings.shard)
    if ahead and state["rank"] != rank:
        raise ValueError(
            f"load_state_dict: rank {state['rank']} received batches out of order, so only it can resume, got "
            f"rank {rank}; load the state on rank {state['rank']}"
        )
    return LoaderState(
        fingerprint=fingerprint | {"dataset_len": dataset_len, "order": order},
        epoch=state["epoch"],
        batches_received=state["batches_received"],
        received_ahead=ranges_of(ahead),
        position=state["position"],
        drawn=True,
        in_epoch=True,
        layout=layout if ahead else None,
        num_workers=settings.num_workers,
    )
