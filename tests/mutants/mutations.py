"""Mutations of Python source: single changes that a good test must notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
ANNOTATIONS = {"annotation", "returns", "bases", "decorator_list", "type_comment"}


@dataclass(frozen=True, order=True)
class Mutation:
    """A change of one piece of source.

    Attributes:
        start: where the piece starts, in bytes.
        end: where it ends.
        line: the line of its start, from 1.
        new: the source that replaces it.
    """

    start: int
    end: int
    line: int
    new: str

    def apply(self, source: str) -> str:
        """Return `source` with this change."""
        encoded = source.encode()
        return (encoded[: self.start] + self.new.encode() + encoded[self.end :]).decode()

    def describe(self, source: str) -> str:
        """Return the source before and after this change, on one line."""
        old = source.encode()[self.start : self.end].decode()
        return f"{' '.join(old.split())} -> {' '.join(self.new.split())}"


def mutations(source: str) -> list[Mutation]:
    """Return all mutations of a module, in the order of the source.

    Annotations, decorators, bases, docstrings, names in `__all__`, and code for type checkers only are not changed.
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    for node in _code(ast.parse(source)):
        for old, new in _changes(node):
            assert old.end_lineno is not None
            assert old.end_col_offset is not None
            start = starts[old.lineno - 1] + old.col_offset
            end = starts[old.end_lineno - 1] + old.end_col_offset
            found.add(Mutation(start, end, old.lineno, new))
    return sorted(found)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run, without annotations and other descriptions."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ANNOTATIONS or (name == "value" and isinstance(node, ast.FormattedValue)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_a_description(child):
                yield from _code(child)


def _is_a_description(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("__all__", "__slots__") or "TypeVar(" in ast.unparse(node.value)
    is_overload = isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list)
    return is_overload or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        yield node.test, f"(not {ast.unparse(node.test)})"
    if isinstance(node, ast.expr | ast.stmt):
        for new in _instead_of(node):
            yield node, new


def _instead_of(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.Compare(left, [operator], [right]):
            yield f"({ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)})"
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS and not _is_text(left):
            yield f"(({ast.unparse(left)}) {OPERATORS[type(operator)]} ({ast.unparse(right)}))"
        case ast.BoolOp(operator, values):
            other = " or " if isinstance(operator, ast.And) else " and "
            yield f"({other.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield str(value + 1)
        case ast.IfExp(test, body, otherwise):
            yield f"({ast.unparse(otherwise)} if {ast.unparse(test)} else {ast.unparse(body)})"
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(ast.Call() | ast.Await()) | ast.Raise() | ast.Assert() | ast.AugAssign():
            yield "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
