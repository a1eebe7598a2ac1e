"""`NumberFunction`: a user-defined function whose value for a number can depend only on that number."""

from __future__ import annotations

import builtins
import dis
import types
from typing import Any

from sluicegate.transforms.recognize import NotRecognizedError

# Instructions that only read their operands, if these are numbers, texts, and containers of them. Their names differ
# between versions of Python; a function with one that is missing here is not recognized. Loops and methods are not
# included.
_READING = frozenset(
    (
        *("BINARY_ADD", "BINARY_AND", "BINARY_FLOOR_DIVIDE", "BINARY_MODULO", "BINARY_MULTIPLY"),
        *("BINARY_OR", "BINARY_SUBSCR", "BINARY_SUBTRACT", "BINARY_TRUE_DIVIDE", "BINARY_XOR", "CACHE"),
        *("CALL", "CALL_FUNCTION", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS", "DUP_TOP"),
        *("EXTENDED_ARG", "IS_OP", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"),
        *("LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW"),
        *("LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST"),
        *("LOAD_GLOBAL", "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_JUMP_FORWARD_IF_FALSE"),
        *("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_TRUE"),
        *("POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_TRUE"),
        *("POP_TOP", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_CONST", "RETURN_VALUE", "ROT_THREE", "ROT_TWO"),
        *("STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "SWAP", "TO_BOOL"),
        *("UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT"),
    )
)
# Allowed `BINARY_OP` instructions, by sign. One that works in place would change a list.
_SIGNS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "[]")
_CALLED = {each.__name__: each for each in (abs, bool, float, int, len, max, min, range)}
_PLAIN = (int, float, bool, str, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict)
_CONSTANTS = (*_PLAIN, bytes, tuple, frozenset)
# The values are compared before each batch.
_MOST_VALUES = 1 << 14


class NumberFunction:
    """A function of one number that calls only functions that compute.

    It is one of these:

    - `dict.get`, `dict.__getitem__` or `list.__getitem__`, bound to its object;
    - `int` or `float`;
    - a function in Python made only of arithmetic, comparisons, conditions and look-ups, in numbers and texts and
      containers of them.

    The values that it reads in addition to its argument are remembered, to check that they are still the same.

    Args:
        function: any object.

    Raises:
        NotRecognizedError: it may be another kind of function; the message says why.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._code = getattr(function, "__code__", None)
        self._names = _names_read(function)
        self._values = self._read()

    def __call__(self, number: int) -> Any:
        """Return the function's result."""
        return self._function(number)

    def is_same(self) -> bool:
        """Return True if the function, and everything that it reads, is unchanged."""
        try:
            now = self._read()
        except Exception:  # a value of a different type, or one that a different thread is changing
            return False
        is_same = all(
            one is other and one_size == size for (one, one_size), (other, size) in zip(now, self._values, strict=False)
        )
        return is_same and len(now) == len(self._values) and getattr(self._function, "__code__", None) is self._code

    def _read(self) -> list[tuple[Any, int]]:
        """Return all values that the function reads, each with the number of its items."""
        function, found = self._function, list[tuple[Any, int]]()
        if type(function) is types.BuiltinMethodType:
            _gather(function.__self__, found)
        if type(function) is not types.FunctionType:
            return found
        if getattr(function, "__builtins__", None) is not vars(builtins):
            raise NotRecognizedError("its builtins were replaced")
        for name in self._names:
            value = function.__globals__.get(name, vars(builtins).get(name))
            if name in _CALLED and value is _CALLED[name]:
                found.append((value, 0))
            else:
                _gather(value, found, f"`{name}`, which it reads,")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            _gather(cell.cell_contents, found, f"`{name}`, which it reads,")
        for defaults in (function.__defaults__, function.__kwdefaults__):
            _gather(defaults, found, "a default of an argument")
        return found


def _names_read(function: Any) -> list[str]:
    """Return the names of globals that a function reads.

    Raises:
        NotRecognizedError: it may do something other than compute.
    """
    if type(function) is types.BuiltinMethodType:
        if type(function.__self__) in (dict, list) and function.__name__ in ("__getitem__", "get"):
            return []
        raise NotRecognizedError(f"`{function.__name__}` may do more than compute")
    if function is int or function is float:
        return []
    if type(function) is not types.FunctionType:
        raise NotRecognizedError(f"it is a `{type(function).__name__}`, not a function that only computes")
    names = []
    for each in dis.get_instructions(function.__code__):
        is_jump = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        if each.opname == "BINARY_OP":
            is_known = each.argrepr in _SIGNS
        elif each.opname == "LOAD_CONST":
            is_known = type(each.argval) in _CONSTANTS
        else:
            is_known = each.opname in _READING and not (is_jump and each.argval <= each.offset)
        if not is_known:
            raise NotRecognizedError(f"it may do more than compute ({each.opname} {each.argrepr})")
        if each.opname == "LOAD_GLOBAL":
            names.append(str(each.argval))
    return sorted(set(names))


def _gather(value: Any, found: list[tuple[Any, int]], name: str = "its object") -> None:
    """Add `value` and everything in it to `found`.

    Raises:
        NotRecognizedError: it is not made of numbers, texts and containers, or is too large to be compared often.
    """
    waiting = [value]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind not in (*_PLAIN, *_CONTAINERS):
            raise NotRecognizedError(f"{name} is or contains a `{kind.__name__}`, not a plain number or string")
        found.append((value, len(value) if kind in _CONTAINERS else 0))
        if len(found) > _MOST_VALUES:
            raise NotRecognizedError(f"{name} contains more than {_MOST_VALUES:,} values")
        if kind in _CONTAINERS:
            waiting += value
        if kind is dict:
            waiting += value.values()
