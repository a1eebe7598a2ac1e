"""`CsvDataset`: quotes, types, and headers, with any loader, and its errors for rows that it can't read."""

from __future__ import annotations

import csv
import io
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.text_files import put
from sluicegate import CsvDataset, CsvStream, DataLoader


def table(rows: list[list[Any]], **form: Any) -> str:
    text = io.StringIO()
    csv.writer(text, **form).writerows(rows)
    return text.getvalue()


ROWS: list[list[Any]] = [
    *([1, "plain", 0.5, ""], [-2, 'a "quoted", text', -1e300, "x"], [3, "two\r\nlines\n", float("inf"), "ö"]),
    *([4, "", 2, '"'], [5, ",", 0.25, "\n"], [6, "x\ny", 3.5, "é"]),
]
NAMES = ["n", "text", "f", "last"]


def test_rows_are_samples_like_any_others(tmp_path: Path) -> None:
    samples = [{"n": n, "text": text, "f": float(f), "last": last} for n, text, f, last in ROWS]
    put(tmp_path / "1.csv", "\ufeff" + table([NAMES, *ROWS[:4]]))
    put(tmp_path / "2.csv", table([NAMES]))
    put(tmp_path / "3.csv", "")
    put(tmp_path / "4.csv", "\n\n" + table([NAMES, *ROWS[4:]], lineterminator="\n", quoting=csv.QUOTE_ALL) + "\n")
    check_format(CsvDataset(tmp_path / "*.csv"), samples)


def test_columns_are_chosen_and_typed(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", table([NAMES, *ROWS], delimiter="\t").rstrip())
    fields = {"f": torch.float32, "text": bytes, "n": torch.int8}
    dataset = CsvDataset(path, fields, delimiter="\t")
    expected = [
        {
            "f": torch.tensor(float(f), dtype=torch.float32),
            "text": text.encode(),
            "n": torch.tensor(n, dtype=torch.int8),
        }
        for n, text, f, _ in ROWS
    ]
    check_format(dataset, expected)
    assert repr(dataset).startswith("CsvDataset(")


def test_without_a_header_columns_have_numbers(tmp_path: Path) -> None:
    path = put(tmp_path / "x", "1,true,a\r\n2,0,b\r\n3,FALSE,c")
    assert CsvDataset(path, header=False)[1] == {"0": 2, "1": "0", "2": "b"}
    dataset = CsvDataset(path, {"1": bool}, header=False)
    assert [dataset[row]["1"] for row in range(3)] == [True, False, False]
    (batch,) = DataLoader(dataset, 3)
    assert_same(batch, {"1": torch.tensor([True, False, False])})


def test_types_follow_from_the_first_rows(tmp_path: Path) -> None:
    rows = [
        ["i", "f", "s", "e", "d", "big", "u"],
        [1, 1, 1, 1, 1, 2**63 - 1, 2**63],
        ["+2", "2e3", "0x1", "", "", -(2**63), 1],
    ]
    path = put(tmp_path / "x", table(rows))
    assert CsvDataset(path, defaults={"d": 7})[1] == {
        "i": 2,
        "f": 2000.0,
        "s": "0x1",
        "e": "",
        "d": 7,
        "big": -(2**63),
        "u": 1.0,
    }
    with pytest.raises(ValueError, match="there is no column `x`"):
        CsvDataset(path, defaults={"x": 1})
    later = put(tmp_path / "y", table([["a"], *([n] for n in range(1000)), ["x"]]))
    with pytest.raises(ValueError, match=r"line 1002: column 1 \(`a`\): .x. is not a valid int64"):
        CsvDataset(later)[1000]
    assert len(CsvDataset(put(tmp_path / "z", "a,b\n"))) == 0


@pytest.mark.parametrize(
    ("text", "byte", "words"),
    [
        ('a,b\n1,2\n"3\n4",x\n', 14, r'line 4: column 2 \(`b`\): "x" is not a valid int64'),
        ("a,b\n1,2\n1,\n", 10, r'line 3: column 2 \(`b`\): "" is not a valid int64, and it has no default'),
        ("a,b\n1,2\n1\n", 8, "line 3: the row has 1 cells, but 2 are expected"),
        ("a,b\n1,2\n1,2,3\n", 8, "line 3: the row has 3 cells, but 2 are expected"),
        ('a,b\n1,2\n"1"x,2\n', 11, "line 3: unexpected text after a closing quote"),
        (b"a,b\n1,2\n\xff,2\n", 8, r"line 3: column 1 \(`a`\): it is not UTF-8 text"),
        ("a,b\n1,2\n1,99999999999999999999\n", 10, 'line 3: .*"99999999999999999999" is not a valid int64'),
    ],
)
def test_an_error_names_file_line_and_column(tmp_path: Path, text: str | bytes, byte: int, words: str) -> None:
    dataset = CsvDataset(put(tmp_path / "x.csv", text), {"a": str, "b": int})
    assert len(dataset) == 2
    with pytest.raises(ValueError, match=rf"x\.csv, byte {byte}: {words}"):
        list(DataLoader(dataset, batch_size=2))


def test_headers_and_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    one, two = put(tmp_path / "1", "a,b\n1,2\n"), put(tmp_path / "2", "b,a\n1,2\n")
    with pytest.raises(ValueError, match=r'/2, byte 0: the header is \["b", "a"\], but that of the first file'):
        CsvDataset([one, two])
    with pytest.raises(ValueError, match=r"there is no column `c`; the columns are \[.a., .b.\]"):
        CsvDataset(one, {"c": int})
    with pytest.raises(ValueError, match="a cell holds only one value"):
        CsvDataset(one, {"a": [int]})
    with pytest.raises(ValueError, match="two columns are named `a`"):
        CsvDataset(put(tmp_path / "3", "a,a\n"))
    with pytest.raises(ValueError, match="line 2: a quote is opened here and never closed"):
        CsvDataset(put(tmp_path / "4", 'a\n"1\n2\n'))
    with pytest.raises(ValueError, match="UTF-16"):
        CsvDataset(put(tmp_path / "5", "a".encode("utf-16")))
    for delimiter in ('"', "\n", ";;", "ö"):
        with pytest.raises(ValueError, match="delimiter"):
            CsvDataset(one, delimiter=delimiter)


def test_random_files_read_as_by_pythons_csv_module(tmp_path: Path) -> None:
    """Random texts full of quotes, commas, and line feeds, across block boundaries."""
    dice = random.Random(1)
    for size in (5, 40, 3000):
        cells = [["".join(dice.choices('",\n\r ab', k=dice.randrange(size))) for _ in range(3)] for _ in range(300)]
        cells = [[cell.replace("\r", "") if "\n" not in cell else cell for cell in row] for row in cells]
        text = table(cells, quoting=dice.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        path = put(tmp_path / "x", text)
        dataset = CsvDataset(path, {str(column): str for column in range(3)}, header=False)
        expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        assert [[*dataset[row].values()] for row in range(len(dataset))] == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
def test_rows_end_as_in_pythons_csv(tmp_path: Path, end: str) -> None:
    dice = random.Random(end)
    for count in (1, 3, 200_000):  # The last one is longer than a block of the scan.
        rows = [["size", "name"], *([n, dice.choice(["cat", '"a\rb"', '"c\nd"', "x y"])] for n in range(count))]
        text = end.join(f"{size},{name}" for size, name in rows) + dice.choice(["", end])
        path = put(tmp_path / "x.csv", text)
        expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
        dataset = CsvDataset(path)
        assert len(dataset) == count
        for number in {0, count // 2, count - 1, *(dice.randrange(count) for _ in range(50))}:
            assert dataset[number] == {"size": int(expected[number][0]), "name": expected[number][1]}
        stream = [[str(row["size"]), row["name"]] for row in itertools.islice(CsvStream(path), 1000)]
        assert stream == expected[:1000]


def test_a_carriage_return_in_a_cell_without_quotes_ends_the_row(tmp_path: Path) -> None:
    path = put(tmp_path / "x.csv", "a,b\n1,2\n3\r,4\n")
    with pytest.raises(ValueError, match="the row has 1 cells, but 2 are expected"):
        list(CsvStream(path))
    with pytest.raises(ValueError, match="the row has 1 cells, but 2 are expected"):
        CsvDataset(path)[1]


def test_every_truncation_is_read_or_an_error(tmp_path: Path) -> None:
    whole = table([NAMES, *ROWS]).encode()
    for end in range(len(whole)):
        path = put(tmp_path / "x", whole[:end])
        try:
            dataset = CsvDataset(path)
            for index in range(len(dataset)):
                dataset[index]
        except ValueError as error:
            assert "/x" in str(error)  # noqa: PT017
