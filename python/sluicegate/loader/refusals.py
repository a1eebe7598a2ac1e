"""`Refusal`: why an argument of a loader keeps the core from reading, and the remedy."""

from __future__ import annotations

from typing import NamedTuple

from sluicegate import _torch
from sluicegate.fetch.collate_in_place import stacks_as_torch
from sluicegate.order.settings import LoaderSettings
from sluicegate.recognition.worker_seeding import only_seeds


class Refusal(NamedTuple):
    """A reason and a remedy, if there is one."""

    reason: str
    remedy: str | None = None


OTHER_COLLATE = Refusal("collate_fn is not torch's default", "leave out collate_fn")


def refused_arguments(settings: LoaderSettings) -> Refusal | None:
    """Return why the arguments alone keep the core from reading a map-style dataset."""
    return refused_native(settings) or refused_batches(settings) or refused_set_up(settings) or refused_ids(settings)


def refused_native(settings: LoaderSettings) -> Refusal | None:
    """Return why nothing is read in the core."""
    return None if (refusal := settings.native_refusal) is None else Refusal(*refusal)


def refused_batches(settings: LoaderSettings) -> Refusal | None:
    """Return why samples do not become batches in the core."""
    if not settings.auto_collation:
        return Refusal("batch_size is None, so samples are not collated", "pass batch_size")
    return None


def refused_stacking(settings: LoaderSettings) -> Refusal | None:
    """Return why samples of a stream do not become batches in the core."""
    return refused_batches(settings) or (None if stacks_as_torch(settings.collate_fn) else OTHER_COLLATE)


def refused_set_up(settings: LoaderSettings) -> Refusal | None:
    """Return why worker processes are needed to run `worker_init_fn`."""
    if settings.num_workers == 0 or settings.worker_init_fn is None:
        return None
    if settings.worker_type == "thread":
        return Refusal("worker_init_fn is given", "leave out worker_init_fn")
    if not only_seeds(settings.worker_init_fn):
        return Refusal("worker_init_fn may do more than seed generators", "leave out worker_init_fn")
    return None


def refused_ids(settings: LoaderSettings) -> Refusal | None:
    """Return the reason why Python has to inspect each sample."""
    if settings.sample_id is not None:
        return Refusal("with_ids(sample_id=...) inspects each sample in Python", "use ids.sample_indices")
    return None


def refused_modes() -> Refusal | None:
    """Return why torch's functions may do anything now."""
    if _torch.modes_are_active():
        return Refusal("a torch function or dispatch mode is active", "leave the mode before iterating")
    return None
