"""Prose is plain American English: patterns that readers stumble over are refused.

`CONTRIBUTING.md` names them. Pages are checked whole; of Python, docstrings, comments, and other
texts in quotes, such as messages; of Rust, comments and texts in quotes.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
MODULES = sorted((ROOT / "python" / "sluicegate").rglob("*.py"))
SOURCES = sorted((ROOT / "src").rglob("*.rs"))

PATTERNS = {
    r"\b(is|are) no (?!longer\b|more\b|other\b)\w+": 'say "is not a ..."; "there is no ..." may stay',
    r"\b(no|any|some)body('s)?\b|\bwhoever\b": "name the actor: worker, consumer, user, caller",
    r"\banew\b": "again",
    r"\bfor ever\b": "forever",
    r"\bbut for\b": "except",
    r"\bin the midst of\b": "in the middle of",
    r"\bso (many|much) (?!as\b|that\b)\w+": "say what the number means",
    r"\bof the user's\b": "user-defined, or the user's ...",
    r"\bof (ours|yours|theirs)\b": "our, your, their",
    r"\b(goes|go|going) on\b": "continue, resume",
    r"\b(is|are) told\b": "receives, is passed",
    r"\balike\b": "the same",
    r"^Whether\b": "True if ...",
}
# A comment, a raw string, a string, or a character, which may be a quote.
_RUST = re.compile(r"""//[^\n]*|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL)
_ALLOWED = re.compile(r"there (is|are) no\b", re.IGNORECASE)


class Found(NamedTuple):
    place: str
    text: str
    instead: str


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file, with the number of its first line."""
    source = path.read_text("utf-8")
    if path.suffix == ".md":
        without_code = re.sub(
            r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE
        )
        yield 1, re.sub(r"`[^`\n]*`", "`code`", without_code)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            text = "\n".join(line for line in ast.get_docstring(node, clean=False).splitlines() if ">>>" not in line)
            yield docstring.lineno, re.sub(r"`[^`\n]*`", "`code`", text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "`code`", token.string.lstrip("# "))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of `path` that are not docstrings, with their lines; values are left out of f-strings."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, (ast.Constant, ast.JoinedStr)):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        words = [str(part.value) if isinstance(part, ast.Constant) else "value" for part in parts]
        yield node.lineno, re.sub(r"`[^`]*`", "`code`", "".join(words))


def rust_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a Rust file, with their lines; code in backticks is left out."""
    source = path.read_text("utf-8")
    for match in _RUST.finditer(source):
        if match[0].startswith("'"):
            continue
        text = re.sub(r"\\\n\s*", "", match[0].strip('"').lstrip("/! "))
        yield source.count("\n", 0, match.start()) + 1, re.sub(r"`[^`\n]*`", "`code`", text)


def found(path: Path, read: Callable[[Path], Iterator[tuple[int, str]]] = prose) -> Iterator[Found]:
    for first, text in read(path):
        for pattern, instead in PATTERNS.items():
            for match in re.finditer(pattern, _ALLOWED.sub("", text), flags=re.MULTILINE):
                line = first + text[: match.start()].count("\n")
                yield Found(f"{path.relative_to(ROOT)}:{line}", match[0], instead)


def test_pages_are_plain() -> None:
    assert len(PAGES) > 20
    assert [each for page in PAGES for each in found(page)] == []


def test_docstrings_and_comments_are_plain() -> None:
    assert sum(1 for module in MODULES for _ in prose(module)) > 2_000
    assert [each for module in MODULES for each in found(module)] == []


def test_messages_are_plain() -> None:
    assert sum(1 for module in MODULES for _ in texts(module)) > 5_000
    assert [each for module in MODULES for each in found(module, texts)] == []


def test_rust_is_plain() -> None:
    assert sum(1 for source in SOURCES for _ in rust_texts(source)) > 10_000
    assert [each for source in SOURCES for each in found(source, rust_texts)] == []
