"""`ShardNames`: the file names of numbered shards."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Iterator, Sequence


class ShardNames:
    """The file names of numbered shards.

    Args:
        folder: the folder of the files.
        patterns: for each file of a shard, its name with a placeholder for the number, in the syntax of `str.format`.

    Examples:
        >>> names = ShardNames("/data", ["a-{:03d}.bin", "a-{:03d}.idx"])
        >>> names.paths(7)
        ['/data/a-007.bin', '/data/a-007.idx']
    """

    def __init__(self, folder: str, patterns: Sequence[str]) -> None:
        self.folder = folder
        self.patterns = list(patterns)

    def paths(self, number: int) -> list[str]:
        """Return the paths of all files of shard `number`, present or not."""
        return [os.path.join(self.folder, pattern.format(number)) for pattern in self.patterns]

    def present(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield the paths of the files of shards `numbers` that exist."""
        for number in numbers:
            yield from (path for path in self.paths(number) if os.path.lexists(path))

    def look_alikes(self) -> list[str]:
        """Return the paths in the folder that a reader would take for shards.

        These are names with any number in place of the placeholder, whatever its width: a glob that finds the shards
        finds them too.
        """
        numbered = re.compile("|".join(map(_numbered, self.patterns)))
        with os.scandir(self.folder) as entries:
            return sorted(entry.path for entry in entries if numbered.fullmatch(entry.name))


def without_number(pattern: str) -> str:
    """Return `pattern` without the placeholder for the number."""
    return "".join(literal for literal, *_ in string.Formatter().parse(pattern))


def _numbered(pattern: str) -> str:
    """Return a regular expression for `pattern` with any number in it."""
    expression = ""
    for literal, field, spec, _ in string.Formatter().parse(pattern):
        expression += re.escape(literal)
        if field is not None:
            digits = "0-9a-fA-F" if spec and spec[-1] in "xX" else "0-9"
            expression += f"[-+ ]*(?:0[xXob])?[{digits}][{digits},_]*"
    return expression
