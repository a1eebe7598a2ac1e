"""Which streams of the core are read by threads of this process, and which need worker processes."""

from __future__ import annotations

from typing import Any

from sluicegate.order.settings import LoaderSettings
from sluicegate.stream.native import NativeStream
from sluicegate.stream.shuffle_buffer import ShuffleBuffer

from .refusals import Refusal, refused_ids, refused_modes, refused_native, refused_set_up, refused_stacking


def process_reason(settings: LoaderSettings) -> Refusal | None:
    """Return why each worker reads a stream for itself, and the remedy; None if threads share the reading.

    They do if the result cannot differ from that of worker processes.
    """
    stream: Any = settings.dataset
    inner: Any = stream.iterable if type(stream) is ShuffleBuffer else stream
    if not isinstance(inner, NativeStream) or not inner.is_of_package:
        return Refusal(f"dataset class {type(inner).__name__} is not a stream of sluicegate")
    if (reason := stream.python_reason) is not None:
        return Refusal(reason)
    refusal = refused_native(settings) or refused_stacking(settings) or refused_set_up(settings)
    if refusal is None and settings.multiprocessing_context is not None:
        return Refusal("multiprocessing_context is given", "leave out multiprocessing_context")
    return refusal or refused_ids(settings) or refused_modes() or _stream_reason(inner, settings)


def _stream_reason(stream: NativeStream, settings: LoaderSettings) -> Refusal | None:
    if settings.seed is None and stream.random_transform is not None:
        return Refusal(
            f"without a seed, {stream.random_transform} draws from the generator of its worker", "pass seed="
        )
    if not stream.is_repeatable:
        return Refusal("a source can be read only once")
    return None
