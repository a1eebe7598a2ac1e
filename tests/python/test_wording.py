"""Prose is plain American English: patterns that readers stumble over are refused.

`CONTRIBUTING.md` names them. Pages, settings, and scripts are checked whole; in Python,
docstrings, comments, and other strings, such as messages; in Rust, comments and strings. Code in backticks is exempt.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
# Folders of builds, tools, and inputs of fuzzers.
EXCLUDED = {".git", ".venv", ".cache", ".hypothesis", "target", "dist", "node_modules", "corpus"}
PAGES = {".c", ".md", ".toml", ".yml", ".ini", ".cff", "Makefile", "run"}

PATTERNS = {
    r"\b(is|are) no (?!longer\b|more\b|other\b)\w+": 'say "is not a ..."; "there is no ..." may stay',
    r"(?i)\b(no|any|some)body('s)?\b|\bwhoever\b": "name the actor: worker, consumer, user, caller",
    r"(?i)\banew\b": "again",
    r"\bfor ever\b": "forever",
    r"(?i)\bbut for\b": "except",
    r"\bin the midst of\b": "in the middle of",
    r"\b[Ss]o (many|much) (?!as\b|that\b)\w+": "say what the number means",
    r"(?<![Tt]here )\b(is|are) none\b(?! of)": 'say "is invalid", "is not a ...", or what was expected',
    r"\bof the user's\b": "user-defined, or the user's ...",
    r"\bof (ours|yours|theirs)\b": "our, your, their",
    r"\b(goes|go|going) on\b": "continue, resume",
    r"\b(is|are) told\b": "receives, is passed",
    r"\balike\b": "the same",
    r"^Whether\b|\b[Rr]eturns? whether\b": "True if ...",
    r"(?i)(?:colour|neighbour|behaviour|favour|honour|labelled|cancelled|modelled|travell(?:ed|ing)|grey)\w*"
    r"|(?:general|initial|maxim|minim|normal|optim|organ|quant|recogn|serial|special|synchron|util|vector)"
    r"is(?:e|ed|es|er|ing|ation)s?(?![a-z])": "American spelling",
}
_PATTERNS = [(re.compile(pattern, re.MULTILINE), instead) for pattern, instead in PATTERNS.items()]
# A comment, a raw string, a string, or a character, which may be a quote.
_RUST = re.compile(r"""//[^\n]*|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL)
_FENCED = re.compile(r"^(\s*//[/!] )?```.*?^(\s*//[/!] )?```", re.DOTALL | re.MULTILINE)
_ALLOWED = re.compile(r"there (is|are) no\b", re.IGNORECASE)


class Found(NamedTuple):
    place: str
    text: str
    instead: str


def files(kinds: set[str]) -> Iterator[Path]:
    """Yield the files whose name or suffix is in `kinds`, except this one."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - EXCLUDED)
        paths = (Path(folder, name) for name in sorted(names))
        yield from (path for path in paths if {path.name, path.suffix} & kinds and path != Path(__file__))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file, with the numbers of the lines where each begins."""
    source = path.read_text("utf-8")
    if path.suffix in (".py", ".pyi"):
        passages = _of_python(source)
    else:
        source = _FENCED.sub(lambda code: "\n" * code[0].count("\n"), source)
        passages = _of_rust(source) if path.suffix == ".rs" else iter([(1, source)])
    for line, text in passages:
        yield line, re.sub(r"`[^`\n]*`", "`code`", text)


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, (ast.Constant, ast.JoinedStr)):
            nodes += ast.iter_child_nodes(node)
        else:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "value" for part in parts)
            yield node.lineno, re.sub(r".*>>>.*", "", text)
    # A "#" in a string begins prose as well, and tokens would take longer than all else.
    for number, line in enumerate(source.splitlines(), 1):
        if "#" in line:
            yield number, line.partition("#")[2].lstrip("# ")


def _of_rust(source: str) -> Iterator[tuple[int, str]]:
    for match in _RUST.finditer(source):
        if not match[0].startswith("'"):
            line = source.count("\n", 0, match.start()) + 1
            yield line, re.sub(r"\\\n\s*", "", match[0].strip('"').lstrip("/! "))


@pytest.mark.parametrize(("kinds", "least"), [(PAGES, 50), ({".py", ".pyi"}, 10_000), ({".rs"}, 10_000)])
def test_wording_is_plain(kinds: set[str], least: int) -> None:
    passages = [(path, line, _ALLOWED.sub("", text)) for path in files(kinds) for line, text in prose(path)]
    assert len(passages) > least
    assert [
        Found(f"{path.relative_to(ROOT)}:{first + text[: match.start()].count(chr(10))}", match[0], instead)
        for path, first, text in passages
        for pattern, instead in _PATTERNS
        for match in pattern.finditer(text)
    ] == []
