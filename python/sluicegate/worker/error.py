"""A worker's exception, carried to the consumer: same type and content, with the worker's traceback as its cause.

The format is private to one loader and its workers. It is a pickle, so load only bytes from our own processes.
"""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress

from .exception_parts import ExceptionParts, as_text, is_group


class WorkerTraceback(Exception):  # noqa: N818  (It is only a cause: no code catches it.)
    """The traceback of a worker's exception, as text: the cause of the exception that the consumer raises.

    Printed above the consumer's own traceback on every version of Python, in the words of torch's loader.

    Examples:
        >>> error = unpack(pack(KeyError("cat"), "in DataLoader worker process 0", "while fetching index 7"))
        >>> error, error.__notes__
        (KeyError('cat'), ['while fetching index 7'])
        >>> print(error.__cause__)
        Caught KeyError in DataLoader worker process 0.
        Original KeyError: 'cat'
    """


def pack(error: BaseException, where: str, note: str | None = None) -> bytes:
    """Return bytes from which `unpack` rebuilds the exception. To be called in the worker. Never raises.

    Args:
        error: the exception; it is not changed.
        where: goes into the text of the traceback, such as "in DataLoader worker process 0".
        note: what the worker was doing, such as the index that it was fetching.
    """
    text = f"Caught {type(error).__name__} {where}.\nOriginal {_formatted(error)}"
    try:
        return pickle.dumps((text, note, _surviving(error), ExceptionParts.of(error)), pickle.HIGHEST_PROTOCOL)
    except BaseException:  # such as out of memory; the text can still be saved, because it is a str
        return pickle.dumps((text, note, None, None), pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> BaseException:
    """Return the exception that was passed to `pack`, for the consumer to raise. Never raises, whatever `data` is.

    Its class is the worker's. If no class of that name can be found here (one that a worker made in a function, for
    example), it is a new class of that name, derived from the nearest base that can be found. Parts that could not be
    pickled are replaced by their `repr`. `__cause__` is a `WorkerTraceback`; causes of the original exception are part
    of that text.

    Args:
        data: from `pack`.
    """
    try:
        text, note, pickled, parts = pickle.loads(data)
    except Exception as error:
        return RuntimeError(f"an exception from a worker can't be unpickled: {type(error).__name__}: {as_text(error)}")
    unpacked = None
    with suppress(Exception):
        unpacked = None if pickled is None else pickle.loads(pickled)
    if not isinstance(unpacked, BaseException):
        with suppress(Exception):
            unpacked = None if parts is None else parts.rebuilt()
    elif parts is not None:
        with suppress(Exception):
            parts.complete(unpacked)
    if not isinstance(unpacked, BaseException):
        unpacked = RuntimeError(text)
    if note is not None:
        text = _annotate(unpacked, note, text)
    # A class may refuse assignment (a frozen dataclass).
    object.__setattr__(unpacked, "__cause__", WorkerTraceback(text))
    return unpacked


def _surviving(error: BaseException) -> bytes | None:
    """Return the pickle of `error`, or None if unpickling it does not give an equal exception."""
    try:
        pickled = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        # Some constructors misinterpret the pickle's arguments, which only loading shows.
        copy = pickle.loads(pickled)
        same = type(copy) is type(error) and str(copy) == str(error) and copy.args == error.args
    except BaseException:
        return None
    # A group would be affected by any problem of its members.
    return pickled if same and not is_group(error) else None


def _formatted(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    except BaseException:  # a class that breaks even the attributes that `traceback` reads
        return f"{type(error).__name__}: {as_text(error)}"


def _annotate(error: BaseException, note: str, text: str) -> str:
    """Add `note` to the error, and to `text` on a Python that prints no notes."""
    if not hasattr(error, "add_note"):  # Before Python 3.11
        with suppress(Exception):
            error.__notes__ = [*getattr(error, "__notes__", []), note]  # type: ignore[attr-defined]
        return f"{text}\n{note}"
    try:
        error.add_note(note)
    except Exception:  # The worker's code had put something other than a list there.
        return f"{text}\n{note}"
    return text
