"""A worker's exception at the consumer: its type, content, note, and traceback, for every kind of exception."""

from __future__ import annotations

import builtins
import errno
import multiprocessing
import pickle
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import pytest
import torch

from sluicegate.worker.error import WorkerTraceback, pack, unpack

pytestmark = pytest.mark.slots

WHERE = "in DataLoader worker process 0"
# Only newer Pythons have them.
GROUP: Any = getattr(builtins, "ExceptionGroup", None)


class Odd(ValueError):
    def __init__(self, width: int, height: int) -> None:
        super().__init__(f"{width} x {height}")
        self.width = width


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class Doubling(Exception):
    """Can be pickled, but differs when it is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__(text * 2)


class Slots(Exception):
    __slots__ = ("code", "unset", "void")


class OddNumber(OSError):
    def __init__(self, path: str, *, retries: int) -> None:
        super().__init__(errno.ENOENT, "gone", path)
        self.retries = retries


class OddUnicode(UnicodeDecodeError):
    def __init__(self, *, text: bytes) -> None:
        super().__init__("utf-8", text, 0, 1, "bad")


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class StrRaises(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class ReprRaises(Exception):
    def __repr__(self) -> str:
        raise ZeroDivisionError


class ReduceRaises(Exception):
    def __reduce__(self) -> Any:
        raise SystemExit


class SetstateRaises(Exception):
    def __setstate__(self, state: Any) -> None:
        raise ZeroDivisionError


class NewRaises(Exception):
    def __new__(cls, *, code: int) -> NewRaises:
        return super().__new__(cls, code)

    def __init__(self, *, code: int) -> None:
        pass


class SetattrRaises(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise ZeroDivisionError


class UnprintableValue:
    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __reduce__(self) -> Any:
        raise ZeroDivisionError


class Stop(KeyboardInterrupt):
    pass


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def carried(error: BaseException, note: str | None = None) -> Any:
    return unpack(pack(raised(error), WHERE, note))


ERRORS = [
    ValueError("bad sample"),
    ValueError(),
    ValueError("two", 2),
    KeyError(("a", 1)),
    IndexError(3),
    StopIteration(7),
    OSError("only text"),
    FileNotFoundError(errno.ENOENT, "No such file", "a.jpg"),
    OSError(errno.EXDEV, "Invalid", "a", None, "b"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ImportError("no", name="module", path="path"),
    SyntaxError("bad", ("file.py", 1, 2, "text")),
    SystemExit(3),
    KeyboardInterrupt(),
    pickle.PicklingError("x"),
    RuntimeError("lone \ud800 surrogate"),
    RuntimeError("long " * 1_000_000),
    Odd(2, 3),
    KeywordOnly(code=4),
    Doubling("ab"),
    OddNumber("a.jpg", retries=2),
    OddUnicode(text=b"\xff"),
    Frozen(3),
    ReprRaises("text"),
    ReduceRaises("text"),
    SetstateRaises("text"),
    NewRaises(code=3),
    SetattrRaises("text"),
    Stop("stopped"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_same_type_text_arguments_and_attributes(error: Any) -> None:
    copy = carried(error, "while fetching index 7")
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    attributes = {name: value for name, value in vars(copy).items() if name != "__notes__"}
    assert attributes == vars(error)
    for name in ("errno", "strerror", "filename", "filename2", "object", "start", "name", "path", "value", "lineno"):
        assert getattr(copy, name, "unset") == getattr(error, name, "unset")
    text = str(copy.__cause__)
    assert text.startswith(f"Caught {type(error).__name__} {WHERE}.\nOriginal Traceback (most recent call last):\n")
    assert "in raised\n    raise error" in text
    told = [*getattr(copy, "__notes__", []), *text.splitlines()]
    assert "while fetching index 7" in told


def test_the_cause_is_printed() -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        raise carried(ValueError("bad"), "while fetching index 7")
    printed = "".join(traceback.format_exception(caught.value))
    assert f"WorkerTraceback: Caught ValueError {WHERE}.\nOriginal Traceback" in printed
    assert "direct cause of the following exception" in printed
    assert "while fetching index 7" in printed
    assert type(caught.value.__cause__) is WorkerTraceback


def test_the_causes_of_the_original_are_in_the_text() -> None:
    try:
        try:
            {}["missing"]  # type: ignore[index]
        except KeyError as error:
            raise Odd(1, 2) from error
    except Odd as error:
        text = str(unpack(pack(error, WHERE)).__cause__)
    assert "KeyError: 'missing'" in text
    assert "direct cause" in text


def test_the_original_is_left_alone() -> None:
    error = raised(Odd(1, 2))
    pack(error, WHERE, "a note")
    assert error.__cause__ is None
    assert not hasattr(error, "__notes__")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are new in 3.11")
def test_notes_of_the_original_come_first() -> None:
    for error in (ValueError("x"), Odd(1, 2)):
        error.add_note("first")  # type: ignore[attr-defined]
        assert carried(error, "second").__notes__ == ["first", "second"]
    odd: Any = ValueError("x")
    odd.__notes__ = 3
    copy = carried(odd, "second")
    assert copy.__notes__ == 3
    assert str(copy.__cause__).endswith("\nsecond")


def test_errors_with_slots_keep_their_attributes() -> None:
    for error in (Slots("text"), type("Local", (Slots,), {"__module__": __name__})("text")):
        error.code, error.void = 5, None
        copy = carried(error)
        assert (type(copy), copy.code, copy.void) == (type(error), 5, None)
        assert not hasattr(copy, "unset")


def test_the_name_of_an_attribute_error_is_kept() -> None:
    with pytest.raises(AttributeError) as caught:
        object().missing  # type: ignore[attr-defined]  # noqa: B018
    assert unpack(pack(caught.value, WHERE)).name == "missing"  # type: ignore[attr-defined]


UNPICKLABLE = [threading.Lock(), (each for each in ()), sys.__stderr__, lambda: 0, UnprintableValue()]


@pytest.mark.parametrize("value", UNPICKLABLE, ids=lambda value: type(value).__name__)
def test_unpicklable_parts_of_an_exception_become_their_repr(value: Any) -> None:
    error: Any = ValueError("text", value)
    error.value, error.fine = value, [1]
    copy = carried(error)
    assert (type(copy), copy.args[0], copy.fine) == (ValueError, "text", [1])
    assert type(copy.args[1]) is str
    assert type(value).__name__ in copy.value or "function" in copy.value or "generator" in copy.value
    assert copy.args[1] == copy.value
    if not isinstance(value, UnprintableValue):
        assert str(copy) == str(("text", repr(value)))


def test_tensors_are_carried_by_value() -> None:
    error: Any = ValueError("text", torch.arange(3))
    error.batch = {"image": torch.ones(2, requires_grad=True)}
    copy = carried(error)
    assert copy.args[1].tolist() == [0, 1, 2]
    assert copy.batch["image"].tolist() == [1, 1]


def test_an_error_that_holds_itself() -> None:
    error: Any = ValueError("text")
    error.myself = error
    assert carried(error).myself.args == ("text",)


def test_text_that_cannot_be_made() -> None:
    copy = carried(StrRaises("text"))
    assert type(copy) is StrRaises
    assert copy.args == ("text",)
    assert "StrRaises" in str(copy.__cause__)


def test_a_recursion_error_keeps_its_traceback() -> None:
    def deeper() -> None:
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()
    copy = unpack(pack(caught.value, WHERE))
    assert type(copy) is RecursionError
    assert "deeper" in str(copy.__cause__)


def test_nested_too_deeply_to_be_pickled() -> None:
    nested: Any = None
    for _ in range(100_000):
        nested = [nested]
    assert type(carried(ValueError(nested))) is ValueError
    while nested:  # freeing it at once would recurse as deeply
        nested = nested[0]


@pytest.mark.skipif(GROUP is None, reason="groups are new in 3.11")
def test_groups_have_their_members() -> None:
    class LocalGroup(GROUP):  # type: ignore[misc]
        def __new__(cls, *, members: Any) -> Any:
            return super().__new__(cls, "local", members)

        def __init__(self, **_: Any) -> None:
            pass

    odd, slots = Odd(2, 3), Slots("text")
    slots.code = threading.Lock()
    error = GROUP("outer", [raised(odd), GROUP("inner", [KeyError("key"), slots])])
    copy = carried(error, "a note")
    assert type(copy) is GROUP
    assert str(copy) == str(error)
    assert (type(copy.exceptions[0]), copy.exceptions[0].width) == (Odd, 2)
    assert [type(member) for member in copy.exceptions[1].exceptions] == [KeyError, Slots]
    assert "Original   + Exception Group Traceback" in str(copy.__cause__)
    assert copy.split(KeyError)[0].exceptions[0].exceptions[0].args == ("key",)
    local = carried(LocalGroup(members=[odd]))
    assert (type(local), local.message, type(local.exceptions[0])) == (LocalGroup, "local", Odd)


def local_class(base: Any = ValueError) -> Any:
    class Local(base):  # type: ignore[misc]
        def __init__(self, code: int, *, flag: bool) -> None:
            super().__init__("local", code)
            self.code = code

        def __str__(self) -> str:
            return f"local {self.code}"

    return Local


def test_a_class_that_no_name_leads_to_is_found_among_the_living() -> None:
    kinds = [local_class() for _ in range(3)]
    for kind in kinds:
        copy = carried(kind(3, flag=True))
        assert type(copy) is kind
        assert (copy.code, copy.args, str(copy)) == (3, ("local", 3), "local 3")


def fail(sender: Connection) -> None:
    Here = local_class(Odd.__mro__[1])
    sender.send_bytes(pack(raised(Here(3, flag=True)), WHERE, "while fetching index 7"))
    sender.send_bytes(pack(raised(Odd(2, 3)), WHERE))
    sender.send_bytes(pack(raised(local_class(OSError)(3, flag=True)), WHERE))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_errors_keep_their_type_across_processes(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=fail, args=(sender,))
    process.start()
    sender.close()
    error, odd, os_error = (unpack(receiver.recv_bytes()) for _ in range(3))
    process.join()
    receiver.close()
    assert isinstance(error, ValueError)
    assert type(error).__qualname__ == "local_class.<locals>.Local"
    assert (str(error), error.args, error.code) == ("local 3", ("local", 3), 3)  # type: ignore[attr-defined]
    assert type(odd) is Odd
    assert isinstance(os_error, OSError)
    assert (type(os_error).__name__, str(os_error)) == ("Local", "local 3")


def test_a_class_that_is_gone_is_made_again() -> None:
    kind = local_class(Odd.__mro__[1])
    kind.__qualname__ = kind.__name__ = "Vanished"
    data = pack(raised(kind(3, flag=True)), WHERE)
    kind.__qualname__ = "Renamed"
    copy: Any = unpack(data)
    assert (type(copy).__name__, type(copy).__module__, type(copy).__bases__) == ("Vanished", __name__, (ValueError,))
    assert (str(copy), copy.args, copy.code) == ("local 3", ("local", 3), 3)


def test_unknown_bytes_unpack_to_a_runtime_error() -> None:
    for data in (b"", b"nonsense", pickle.dumps(3), pickle.dumps((1, 2, 3, 4)), pickle.dumps(("t", None, b"x", "y"))):
        assert type(unpack(data)) is RuntimeError
