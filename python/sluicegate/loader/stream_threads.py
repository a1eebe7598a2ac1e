"""Which streams of the core are read by threads of this process, and which need worker processes."""

from __future__ import annotations

from typing import Any

from sluicegate import _torch
from sluicegate.fetch.collate_in_place import stacks_as_torch
from sluicegate.order.settings import LoaderSettings
from sluicegate.recognition.worker_seeding import only_seeds
from sluicegate.stream.native import NativeStream
from sluicegate.stream.shuffle_buffer import ShuffleBuffer

# A reason, and what to change; None if nothing helps.
_Refusal = tuple[str, "str | None"]


def process_reason(settings: LoaderSettings) -> _Refusal | None:
    """Return why each worker reads a stream for itself, and the remedy; None if threads share the reading.

    They do where no one can tell the difference from worker processes.
    """
    stream: Any = settings.dataset
    inner: Any = stream.iterable if type(stream) is ShuffleBuffer else stream
    if not isinstance(inner, NativeStream) or not inner.is_of_package:
        return f"dataset class {type(inner).__name__} is not a stream of sluicegate", None
    if (reason := stream.python_reason) is not None:
        return reason, None
    return _argument_reason(settings) or _stream_reason(inner, settings)


def _argument_reason(settings: LoaderSettings) -> _Refusal | None:
    if (refusal := settings.native_refusal) is not None:
        return refusal
    if not settings.auto_collation:
        return "batch_size is None, so samples are not collated", "give batch_size"
    if not stacks_as_torch(settings.collate_fn):
        return "collate_fn is not torch's default", "leave out collate_fn"
    if settings.worker_init_fn is not None and settings.worker_type == "thread":
        return "worker_init_fn is given", "leave out worker_init_fn"
    if settings.worker_init_fn is not None and not only_seeds(settings.worker_init_fn):
        return "worker_init_fn may do more than seed generators", "leave out worker_init_fn"
    if settings.multiprocessing_context is not None:
        return "multiprocessing_context is given", "leave out multiprocessing_context"
    if settings.sample_id is not None:
        return "with_ids(sample_id=...) looks at each sample", "use ids.sample_indices"
    if _torch.modes_are_active():
        return "a torch function or dispatch mode is active", "leave the mode before iterating"
    return None


def _stream_reason(stream: NativeStream, settings: LoaderSettings) -> _Refusal | None:
    if settings.seed is None and stream.random_transform is not None:
        return f"{stream.random_transform} draws from the generator of its worker without a seed", "give seed="
    if not stream.is_repeatable:
        return "a source can be read only once", None
    return None
