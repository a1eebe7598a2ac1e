"""`ExceptionParts`: an exception taken apart, and rebuilt without calling its constructors."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

# `type.__flags__` has this bit for classes made by a `class` statement, not for those written in C.
_MADE_IN_PYTHON = 1 << 9

# Fields of classes written in C to skip: those that are carried in another way, and an AttributeError's `obj`, which
# may be a whole dataset and which Python's own pickling leaves out, too.
_NOT_FIELDS = frozenset(["args", "exceptions", "obj"])

_MISSING = object()


class ExceptionParts:
    """One exception as the names of its classes and everything in it, each part pickled separately.

    Made by `of`, in the process that has the exception. A part that can't be pickled is replaced by its `repr`.

    Examples:
        >>> class Odd(ValueError):
        ...     def __init__(self, width, height):
        ...         super().__init__(f"{width} x {height}")
        >>> parts = pickle.loads(pickle.dumps(ExceptionParts.of(Odd(2, 3))))
        >>> parts.rebuilt()
        Odd('2 x 3')
    """

    classes: list[tuple[str, str, bool, int]]
    text: str
    arguments: list[bytes]
    attributes: dict[str, bytes]
    fields: dict[str, bytes]
    members: list[ExceptionParts] | None

    @classmethod
    def of(cls, error: BaseException) -> ExceptionParts:
        """Take `error` apart. Runs user code only as far as pickling and printing the exception do."""
        parts = cls()
        parts.classes = [
            (base.__module__, base.__qualname__, _found(base.__module__, base.__qualname__) is base, id(base))
            for base in type(error).__mro__
            if issubclass(base, BaseException)
        ]
        parts.text = as_text(error)
        parts.arguments = [_pickled(argument) for argument in (error.args[:1] if is_group(error) else error.args)]
        parts.attributes = {name: _pickled(value) for name, value in _attributes(error).items()}
        parts.fields = {name: _pickled(value) for name, value in _fields(error)}
        parts.members = [cls.of(member) for member in getattr(error, "exceptions", [])] if is_group(error) else None
        return parts

    def rebuilt(self) -> BaseException:
        """Return the exception, of the same class or of a new class with the same name."""
        kind = self._class()
        arguments = [_loaded(argument) for argument in self.arguments]
        if self.members is None:
            error = _made(kind, arguments)
        else:
            arguments.append([member.rebuilt() for member in self.members])
            error = _made(kind, [_loaded(self.fields["message"]), arguments[-1]])
        # A class may refuse assignment (a frozen dataclass).
        object.__setattr__(error, "args", tuple(arguments))
        _attributes(error).update({name: _loaded(value) for name, value in self.attributes.items()})
        self.complete(error)
        return error

    def complete(self, error: BaseException) -> None:
        """Set those fields that `error` lacks: pickle drops slots, and some fields of classes written in C."""
        for name, pickled in self.fields.items():
            with suppress(Exception):
                present = getattr(error, name, _MISSING)
                # None does not replace None: once `filename` of an OSError is set, even to None, it shows in the text.
                if (present is None or present is _MISSING) and (value := _loaded(pickled)) is not present:
                    object.__setattr__(error, name, value)

    def _class(self) -> type[BaseException]:
        for depth, (module, name, by_name, address) in enumerate(self.classes):
            kind = _found(module, name) if by_name else None
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                kind = _living([(module, name) for module, name, *_ in self.classes[depth:]], address)
            if kind is not None and depth == 0:
                return kind
            if kind is not None:
                with suppress(Exception):  # A metaclass may raise anything.
                    return self._derived(kind)
        return RuntimeError

    def _derived(self, base: type[BaseException]) -> type[BaseException]:
        module, name, *_ = self.classes[0]
        namespace = {
            "__module__": module,
            "__qualname__": name,
            # Texts are often made by a method, which is as unavailable as the class.
            "__str__": lambda _: self.text,
        }
        metaclass: Any = type(base)
        derived: type[BaseException] = metaclass(name.rpartition(".")[2], (base,), namespace)
        return derived


def as_text(error: BaseException) -> str:
    """Return the result of `str`, or a placeholder: that method may be user code, and may raise."""
    try:
        # A subclass of str might not be picklable.
        return str.__str__(str(error))
    except BaseException:
        return f"<{type(error).__name__} whose text can't be made>"


def is_group(error: BaseException) -> bool:
    """Return True if `error` is a built-in group (Python 3.11 and newer). The package for 3.10 makes ordinary ones."""
    return any(base.__name__ == "BaseExceptionGroup" and base.__module__ == "builtins" for base in type(error).__mro__)


def _made(kind: type[BaseException], arguments: list[Any]) -> BaseException:
    native: Any = next(base for base in kind.__mro__ if not base.__flags__ & _MADE_IN_PYTHON)
    try:
        error: BaseException = native.__new__(kind, *arguments)
    except Exception:  # such as a group whose members do not meet its requirements
        native = BaseException
        error = native.__new__(kind, *arguments)
    # Classes written in C set their fields here: the numbers of an OSError, the place in a UnicodeError.
    with suppress(Exception):
        native.__init__(error, *arguments)
    return error


def _attributes(error: BaseException) -> dict[str, Any]:
    attributes = object.__getattribute__(error, "__dict__")
    return attributes if isinstance(attributes, dict) else {}


def _fields(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of `error` outside of its `__dict__`: slots, and the fields of classes written in C."""
    for base in type(error).__mro__:
        for name, descriptor in vars(base).items():
            if isinstance(descriptor, (MemberDescriptorType, GetSetDescriptorType)):
                skipped = () if base.__flags__ & _MADE_IN_PYTHON else _NOT_FIELDS
                if not name.startswith("__") and name not in skipped:
                    with suppress(AttributeError):  # Not set.
                        yield name, descriptor.__get__(error)


def _pickled(value: Any) -> bytes:
    try:
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        pickle.loads(pickled)
        return pickled
    except BaseException:
        try:
            return pickle.dumps(repr(value))
        except BaseException:
            return pickle.dumps(f"<{type(value).__name__} whose repr can't be made>")


def _loaded(pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)
    except Exception as error:  # The class exists only in the worker.
        return f"<object that can't be unpickled here: {as_text(error)}>"


def _found(module: str, name: str) -> Any:
    with suppress(Exception):
        return reduce(getattr, name.split("."), sys.modules.get(module) or importlib.import_module(module))
    return None


def _living(names: list[tuple[str, str]], address: int) -> type[BaseException] | None:
    """Find a class without an importable name, such as one made in a function: under fork, the consumer has it too."""
    found, waiting, seen = None, [BaseException], {BaseException}
    while waiting:
        kind = waiting.pop()
        if (kind.__module__, kind.__qualname__) == names[0] and _names(kind) == names:
            # Each call of the function makes a class of the same name. One from before the fork has the same address
            # here.
            if id(kind) == address:
                return kind
            found = kind
        fresh = [each for each in type.__subclasses__(kind) if each not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return found


def _names(kind: type[BaseException]) -> list[tuple[str, str]]:
    return [(base.__module__, base.__qualname__) for base in kind.__mro__ if issubclass(base, BaseException)]
