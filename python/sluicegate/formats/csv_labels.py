"""`CsvLabels`: the labels of files, from a table."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch

from sluicegate.paths import local

LabelType: TypeAlias = Literal["class"] | type[int] | type[float] | None

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|nan|inf)\s*", re.IGNORECASE
)

_Row: TypeAlias = tuple[int, str, list[str]]


class CsvLabels:
    r"""Labels of `ImageFolderDataset` from a CSV file with a header line and one row per image.

    The column `file` names the file of a row. It is matched in this order, and the first kind of match counts:

    1. the path relative to the root of the images;
    2. that path without the extension (`0001` for `0001.jpg`);
    3. the file name alone, anywhere below the root;
    4. the file name without the extension.

    If several files match in the same way, that is an error.

    The type of the labels is inferred from the whole column, so that the folders of a training and a test set that
    share a table agree. If all labels are integers, they are used as int64; if all are numbers, as float64. Otherwise
    they are class names, numbered in sorted order. Several columns make one float32 tensor per image.

    The file is read when a dataset is opened. It must be UTF-8, with or without a byte order mark.

    Args:
        path: the file.
        file: the column that names the file of a row.
        label: the label column, or several.
        type: "class", `int` or `float`; inferred by default. `int` makes several columns int64.
        missing: "error", or "skip": images without a row or with an empty label, and rows without an image, are left
            out.
        delimiter: the separator between columns.

    Raises:
        ValueError: `type` or `missing` is not one of its choices. When a dataset is opened: the file is not such a
            table, a label is not of the type, a row matches several files or a file has several rows, or something is
            missing.
        OSError: when a dataset is opened: the file cannot be read.

    Examples:
        >>> import pathlib, tempfile
        >>> from sluicegate import CsvLabels, ImageFolderDataset
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ("1.pgm", "2.pgm"):
        ...     _ = (folder / name).write_bytes(b"P5 1 1 255 7")
        >>> _ = (folder / "train.csv").write_text("id,breed\n1,poodle\n2,beagle\n")
        >>> dataset = ImageFolderDataset(folder, labels=CsvLabels(folder / "train.csv", file="id", label="breed"))
        >>> dataset.classes, dataset.targets
        (['beagle', 'poodle'], [1, 0])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        file: str = "file",
        label: str | Sequence[str] = "label",
        *,
        type: LabelType = None,
        missing: Literal["error", "skip"] = "error",
        delimiter: str = ",",
    ) -> None:
        self.path = local("path", path)
        self.file = file
        self.label = label if isinstance(label, str) else tuple(label)
        if not self.label:
            raise ValueError("label: expected one or more columns, but got an empty list")
        if type not in (None, "class", int, float) or (type == "class" and not isinstance(self.label, str)):
            of = (
                "None, 'class', int or float" if isinstance(self.label, str) else "None, int or float (several columns)"
            )
            raise ValueError(f"type: expected {of}, but got {type!r}")
        if missing not in ("error", "skip"):
            raise ValueError(f"missing: expected 'error' or 'skip', but got {missing!r}")
        self.type = type
        self.missing = missing
        self.delimiter = delimiter

    def of(self, paths: Sequence[str]) -> tuple[torch.Tensor, list[str], list[int]]:
        """Return the labels of the files at `paths`, which are relative to their root.

        Returns:
            A tensor with a row for each file that has a label, the class names (empty if labels are numbers), and the
                indices of those files in `paths`, ascending.
        """
        rows = self._labeled(list(self._rows()))
        values, classes = self._values(rows)
        files = self._files(rows, paths)
        if len(files) < max(len(rows), len(paths)) and (self.missing == "error" or not files):
            self._refuse_missing(rows, files, paths)
        indices = sorted(files)
        return values[[files[index] for index in indices]], classes, indices

    def _rows(self) -> Iterator[_Row]:
        """Yield the line, the file and the labels of each row."""
        labels = [self.label] if isinstance(self.label, str) else list(self.label)
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=self.delimiter, strict=True)
            try:
                header = next(rows, [])
                for name in (self.file, *labels):
                    if name not in header:
                        raise ValueError(f"expected a column {name!r}, but got the columns {header}")
                first, others = header.index(self.file), [header.index(name) for name in labels]
                for row in rows:
                    if row and len(row) <= max(first, *others):
                        raise ValueError(f"expected {len(header)} columns, but got {len(row)}")
                    if row:
                        yield rows.line_num, row[first], [row[column] for column in others]
            except (csv.Error, ValueError) as error:
                raise ValueError(f"{self.path}, line {rows.line_num}: {error}") from None

    def _labeled(self, rows: list[_Row]) -> list[_Row]:
        """Return the rows whose labels are not empty."""
        whole = [row for row in rows if all(row[2])]
        if len(whole) < len(rows) and self.missing == "error":
            line = next(line for line, _, labels in rows if not all(labels))
            raise ValueError(
                f"{self.path}, line {line}: the label is empty (as in {len(rows) - len(whole)} rows in total); pass "
                "missing='skip' to leave them out"
            )
        return whole

    def _values(self, rows: list[_Row]) -> tuple[torch.Tensor, list[str]]:
        if not isinstance(self.label, str):
            dtype = torch.int64 if self.type is int else torch.float32
            values = [self._numbers(row, int if self.type is int else float) for row in rows]
            return self._tensor(values, dtype).reshape(len(rows), len(self.label)), []
        cells = [labels[0] for _, _, labels in rows]
        kind = self.type or _type_of(cells)
        if kind == "class":
            classes = sorted(set(cells))
            numbers = {name: number for number, name in enumerate(classes)}
            return self._tensor([numbers[cell] for cell in cells], torch.int64), classes
        found = [self._numbers(row, kind)[0] for row in rows]
        return self._tensor(found, torch.int64 if kind is int else torch.float64), []

    def _numbers(self, row: _Row, kind: Any) -> list[Any]:
        line, _, labels = row
        try:
            return [kind(cell) for cell in labels]
        except ValueError:
            raise ValueError(f"{self.path}, line {line}: expected {kind.__name__}, but got {labels}") from None

    def _tensor(self, values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        try:
            return torch.tensor(values, dtype=dtype, device="cpu")
        except (OverflowError, RuntimeError, ValueError) as error:
            raise ValueError(f"{self.path}: a label does not fit in 64 bits ({error})") from None

    def _files(self, rows: list[_Row], paths: Sequence[str]) -> dict[int, int]:
        """Return the row number of each file, by its index in `paths`."""
        files: dict[int, int] = {}
        left = list(range(len(rows)))
        for name_of in (str, _stem, os.path.basename, _stem_of_name):
            indices = _indices_of(map(name_of, paths), {rows[number][1] for number in left})
            unknown = []
            for number in left:
                line, cell, _ = rows[number]
                found = indices[cell]
                if len(found) > 1:
                    raise ValueError(
                        f"{self.path}, line {line}: {cell!r} is ambiguous, {paths[found[0]]!r} or "
                        f"{paths[found[1]]!r}; write the path relative to root"
                    )
                if not found:
                    unknown.append(number)
                elif found[0] in files:
                    first, second = sorted((line, rows[files[found[0]]][0]))
                    raise ValueError(
                        f"{self.path}, lines {first} and {second}: both label {paths[found[0]]!r}; remove one of them"
                    )
                else:
                    files[found[0]] = number
            left = unknown
            if not left:
                break
        return files

    def _refuse_missing(self, rows: list[_Row], files: dict[int, int], paths: Sequence[str]) -> None:
        used = set(files.values())
        without_row = [repr(path) for index, path in enumerate(paths) if index not in files]
        without_file = [f"{cell!r} (line {line})" for number, (line, cell, _) in enumerate(rows) if number not in used]
        problems = [
            f"{len(each)} {what}, such as {', '.join(each[:3])}"
            for each, what in ((without_row, "files have no row"), (without_file, "rows have no file"))
            if each
        ]
        way_out = "pass missing='skip' to leave them out" if files else "check root and the names of columns"
        raise ValueError(f"{self.path}: {', and '.join(problems)}; {way_out}")

    def __repr__(self) -> str:
        """Return the constructor call."""
        label = self.label if isinstance(self.label, str) else list(self.label)
        return f"CsvLabels({self.path!r}, file={self.file!r}, label={label!r})"


def _type_of(cells: Sequence[str]) -> Any:
    if cells and all(map(_INTEGER.fullmatch, cells)):
        return int
    return float if cells and all(map(_NUMBER.fullmatch, cells)) else "class"


def _stem(path: str) -> str:
    return os.path.splitext(path)[0]


def _stem_of_name(path: str) -> str:
    return _stem(os.path.basename(path))


def _indices_of(names: Iterable[str], wanted: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of the wanted names, at most two for each."""
    indices: dict[str, list[int]] = {name: [] for name in wanted}
    for index, name in enumerate(names):
        if name in indices and len(indices[name]) < 2:
            indices[name].append(index)
    return indices
