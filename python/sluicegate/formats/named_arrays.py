"""`NamedArrays`: the rows of arrays that files hold by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluicegate import _core
from sluicegate.native.dataset import NativeDataset
from sluicegate.paths import Paths, expand, listed


class NamedArrays(NativeDataset):
    """One or more files of named arrays: sample i is a dict of row i of each.

    Args:
        paths: a file, several files, or a pattern.
        fields: the names of the arrays that make up a sample, in this order. Default: all. A single name, not in a
            list, makes each sample that array alone.
    """

    def __init__(self, paths: Paths, fields: str | Sequence[str] | None = None) -> None:
        self.paths = expand(paths)
        self.fields = fields if fields is None or isinstance(fields, str) else tuple(fields)
        self._open()

    def _read(self, paths: list[str], names: list[str] | None) -> _core.Dataset:
        """Return the arrays called `names`, or all, of the files at `paths`."""
        raise NotImplementedError

    def _open(self) -> None:
        names = [self.fields] if isinstance(self.fields, str) else self.fields
        core = self._read(self.paths, None if names is None else list(names))
        structure: Any = {name: number for number, (name, _, _) in enumerate(core.fields)}
        if isinstance(self.fields, str):
            structure = 0
        self._set_core(core, structure, ["tensor"] * len(core.fields))

    def _shown(self) -> str:
        return f"{listed(self.paths)}, fields={self.fields!r}"
