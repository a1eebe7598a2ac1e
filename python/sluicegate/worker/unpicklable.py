"""`explain`: finds the object that can't be pickled for a worker, and reports what it is, and the remedy."""

from __future__ import annotations

import io
import os
import pickle
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType, GeneratorType, MemberDescriptorType, MethodType
from typing import Any

# The search ends after this many seconds: better an error without the place than a late one.
_PATIENCE = 5.0

# Containers longer than this are first pickled at C speed: most are fine and need no search inside.
_LONG = 1000

_ATOMS = frozenset([type(None), bool, int, float, complex, str, bytes])

_LONGEST_PATH = 300


def explain(error: Exception, objects: dict[str, Any]) -> None:
    """Add the path to the culprit to the message of `error`, which pickling `objects` raised.

    Call it while the process is being started, because some objects can be pickled only then. Pickles once more,
    slowly, in Python. If that fails in any way, the error is left unchanged; nothing is raised.

    Args:
        error: changed in place; its type stays.
        objects: what was pickled, by name. Paths begin with the names.
    """
    # Including what the slow pickling itself may run into: errors in user code, and recursion that only Python's frames
    # limit.
    with suppress(Exception):
        tracer = _Tracer()
        try:
            tracer.dump(objects)
        except (_TimeLimitError, RecursionError):
            return
        except Exception:
            _add(error, _explanation(tracer.chain))


def _add(error: Exception, explanation: str) -> None:
    before, text = error.args, f"{error} ({explanation})"
    error.args = (text,)
    if str(error) != text:  # A type that makes its own message.
        error.args = before
        if hasattr(error, "add_note"):  # Python 3.11 and newer
            error.add_note(explanation)


class _TimeLimitError(Exception):
    pass


class _Link:
    """An object that is being pickled, and the result of its `__reduce__`, if that was called."""

    def __init__(self, pickled: Any) -> None:
        self.pickled = pickled
        self.reduced = False
        self.state: Any = None


class _Sink(io.RawIOBase):
    def write(self, data: Any) -> int:
        return len(data)


# Python's pickler calls `save` for each object; the C pickler has no such hook. `pickle` has no public name for it.
class _Tracer(pickle._Pickler):
    """Pickles to nowhere. When that raises, `chain` has all objects from the outermost to the one that raised."""

    def __init__(self) -> None:
        super().__init__(_Sink(), pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = ForkingPickler(_Sink()).dispatch_table
        self.chain: list[_Link] = []
        self.deadline = time.monotonic() + _PATIENCE

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        # The output is discarded, so objects that certainly pickle can be skipped.
        if type(obj) in _ATOMS:
            return
        if time.monotonic() > self.deadline:
            raise _TimeLimitError
        if type(obj) in (list, tuple, dict, set, frozenset) and len(obj) > _LONG and _pickles(obj):
            return
        self.chain.append(_Link(obj))
        super().save(obj, save_persistent_id)  # type: ignore[misc]
        self.chain.pop()

    def save_reduce(self, func: Any, args: Any, state: Any = None, *rest: Any, **named: Any) -> None:
        self.chain[-1].reduced, self.chain[-1].state = True, state
        super().save_reduce(func, args, state, *rest, **named)  # type: ignore[misc]


def _pickles(value: Any) -> bool:
    try:
        ForkingPickler(_Sink(), pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:
        return False
    return True


def _explanation(chain: list[_Link]) -> str:
    culprit = chain[-1].pickled
    if len(chain) > 1 and isinstance(culprit, type) and type(chain[-2].pickled) is culprit:
        chain = chain[:-1]
    path = "".join(_steps(chain)).removeprefix(".")
    if len(path) > _LONGEST_PATH:
        path = f"{path[: _LONGEST_PATH // 2]}...{path[-_LONGEST_PATH // 2 :]}"
    if isinstance(culprit, (type, FunctionType)):
        advice = "define it at module level, with functools.partial for what it takes from around it"
    else:
        advice = "leave it out in __getstate__ and make it in the worker, where it is first used"
    what = _described(culprit)
    return f'{path}: {what} can\'t be pickled for a worker process; {advice}, or use multiprocessing_context="fork"'


def _described(culprit: Any) -> str:
    if isinstance(culprit, FunctionType):
        place = f"{os.path.basename(culprit.__code__.co_filename)}:{culprit.__code__.co_firstlineno}"
        if culprit.__name__ == "<lambda>":
            return f"lambda at {place}"
        local = "<locals>" in culprit.__qualname__
        return f"{'local ' if local else ''}function {culprit.__qualname__} at {place}"
    if isinstance(culprit, type):
        return f"{'local ' if '<locals>' in culprit.__qualname__ else ''}class {culprit.__qualname__}"
    if isinstance(culprit, (MethodType, BuiltinFunctionType, GeneratorType)):
        return f"{type(culprit).__name__} {culprit.__qualname__}"
    if isinstance(culprit, io.IOBase):
        return f"open file ({type(culprit).__module__}.{type(culprit).__qualname__})"
    return f"object of type {type(culprit).__module__}.{type(culprit).__qualname__}"


def _steps(chain: list[_Link]) -> Iterator[str]:
    """Yield the path along `chain`: the Python expression that leads from each object to the next."""
    attributes_follow = True  # The outermost names are written without brackets.
    arguments_of: Any = None
    for link, following in pairwise(chain):
        holder, child = link.pickled, following.pickled
        if link.reduced and child is link.state and isinstance(child, (dict, tuple)):
            # The object's `__dict__`, or a pair of it and the values of slots.
            attributes_follow = True
        elif link.reduced and type(child) is tuple and _item(holder, child) is None:
            arguments_of = holder
        elif link.reduced:
            yield _attribute(holder, child) or _item(holder, child) or ""
        elif arguments_of is not None:
            step = _attribute(arguments_of, child)
            yield f".__reduce__()[1]{_item(holder, child) or ''}" if step is None else step
            arguments_of = None
        elif attributes_follow and type(holder) is dict:
            key = next((key for key, value in holder.items() if value is child), None)
            yield f".{key}" if type(key) is str else _item(holder, child) or ""
            attributes_follow = False
        elif not attributes_follow:
            yield _item(holder, child) or ""


def _item(holder: Any, child: Any) -> str | None:
    if isinstance(holder, dict):
        for key, value in dict.items(holder):
            if value is child:
                return f"[{key!r}]" if type(key) in _ATOMS else f"[{_described(key)}]"
            if key is child:
                return ".keys()"
    elif isinstance(holder, (list, tuple)):
        return next((f"[{index}]" for index, value in enumerate(holder) if value is child), None)
    return None


def _attribute(holder: Any, child: Any) -> str | None:
    """Return the attribute of `holder` that is `child`, found without running user code."""
    named: dict[str, Any] = {}
    if isinstance(holder, partial):
        named = {"func": holder.func, "args": holder.args, "keywords": holder.keywords}
    elif isinstance(holder, MethodType):
        named = {"__self__": holder.__self__, "__func__": holder.__func__}
    with suppress(Exception):
        named |= object.__getattribute__(holder, "__dict__")
    for base in type(holder).__mro__:
        for name, descriptor in vars(base).items():
            if isinstance(descriptor, MemberDescriptorType):
                with suppress(AttributeError):
                    named[name] = descriptor.__get__(holder)
    return next((f".{name}" for name, value in named.items() if value is child), None)
