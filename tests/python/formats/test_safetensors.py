"""`SafetensorsDataset`: its samples, with any loader, and its errors for files that it can't read."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch

from checks.equality import assert_same
from checks.formats import check_format
from doubles.safetensors_files import DTYPES, put, raw, written
from sluicegate import DataLoader, SafetensorsDataset


def some_tensors(rows: int = 7, seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {
        "z": torch.randn(rows, 2, 3).bfloat16(),
        "odd": torch.arange(rows, dtype=torch.uint8),
        "a": torch.arange(rows * 5).reshape(rows, 5),
    }


def samples_of(tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    rows = len(next(iter(tensors.values())))
    return [{name: tensors[name][row].clone() for name in sorted(tensors)} for row in range(rows)]


def test_safetensors_dataset_passes_the_checks_of_every_format(tmp_path: Path) -> None:
    tensors = some_tensors()
    check_format(SafetensorsDataset(written(tmp_path / "x.safetensors", tensors)), samples_of(tensors))


def test_files_come_one_after_the_other(tmp_path: Path) -> None:
    parts = [some_tensors(rows, seed=rows) for rows in (3, 0, 4)]
    for number, part in enumerate(parts):
        # The order of the tensors in a file does not matter.
        written(tmp_path / f"{number}.safetensors", dict(sorted(part.items(), reverse=bool(number % 2))))
    dataset = SafetensorsDataset(str(tmp_path / "*.safetensors"))
    check_format(dataset, [sample for part in parts if len(part["a"]) for sample in samples_of(part)])


@pytest.mark.parametrize("name", DTYPES)
def test_every_data_type_is_read(tmp_path: Path, name: str) -> None:
    dtype = DTYPES[name]
    data = torch.randint(0, 2 if name == "BOOL" else 256, (6 * 3 * dtype.itemsize,), dtype=torch.uint8)
    tensor = data.view(dtype).reshape(6, 3)
    # After a single byte, so that nothing is aligned.
    dataset = SafetensorsDataset(written(tmp_path / "x", {"byte": torch.zeros(1, 1), "x": tensor}), "x")
    assert len(dataset) == 6
    batch = next(iter(DataLoader(dataset, batch_size=6)))
    assert batch.dtype == dtype
    assert raw(batch) == raw(tensor)
    assert raw(dataset[4]) == raw(tensor[4])


def test_fields_choose_and_order(tmp_path: Path) -> None:
    tensors = some_tensors()
    path = written(tmp_path / "x", {**tensors, "other": torch.zeros(2), "scalar": torch.tensor(1)})
    assert list(SafetensorsDataset(path, ["z", "a"])[0]) == ["z", "a"]
    assert_same(SafetensorsDataset(path, "odd")[3], torch.tensor(3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"tensor `a` has 7 rows but tensor `other` has 2"):
        SafetensorsDataset(path)
    with pytest.raises(ValueError, match=r"`scalar` is a scalar"):
        SafetensorsDataset(path, ["a", "scalar"])
    with pytest.raises(ValueError, match=r"there is no tensor `b`; the tensors are \[.a., .odd., .other."):
        SafetensorsDataset(path, ["b"])
    with pytest.raises(ValueError, match="there are no tensors"):
        SafetensorsDataset(path, [])


def test_the_formats_own_library_agrees(tmp_path: Path) -> None:
    import safetensors.torch as library

    tensors = some_tensors()
    library.save_file(tensors, tmp_path / "x", metadata={"format": "pt"})
    assert_same([*SafetensorsDataset(tmp_path / "x")], samples_of(tensors))
    written(tmp_path / "y", tensors, __metadata__={"a": "b"})
    assert_same(library.load_file(tmp_path / "y"), tensors)


def test_files_with_other_tensors_are_named(tmp_path: Path) -> None:
    first = written(tmp_path / "1", {"x": torch.zeros(2, 3)})
    for other in ({"y": torch.zeros(2, 3)}, {"x": torch.zeros(2, 4)}, {"x": torch.zeros(2, 3).half()}):
        second = written(tmp_path / "2", other)
        with pytest.raises(
            ValueError, match=r"/2: its samples are .* but those of the first file, .*/1, are .*float32\[3\]"
        ):
            SafetensorsDataset([first, second])


ONE = '{"x":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}'


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ("", b"", "begin with"),
        ("[]", b"", "begin with"),
        ("{", b"", "the header is invalid"),
        ("{}{}", b"", "trailing"),
        ("{}", b"", "no tensor"),
        ("{}", b"1", "1 bytes at the end of the file belong to no tensor"),
        (ONE, b"123", "truncated or damaged"),
        (ONE, b"12345", "1 bytes at the end"),
        (ONE.replace("[0,4]", "[1,5]"), b"12345", "a hole of 1 bytes between the header and tensor `x`"),
        (ONE.replace("[0,4]", "[4,0]"), b"1234", "ends before that"),
        (ONE.replace("[0,4]", "[0,4,4]"), b"1234", "the header is invalid"),
        (ONE.replace("[0,4]", "[0]"), b"1234", "the header is invalid"),
        (ONE.replace("[0,4]", "[-1,4]"), b"1234", "the header is invalid"),
        (ONE.replace("[0,4]", "[0,18446744073709551615]"), b"1234", "truncated or damaged"),
        (ONE.replace("[2,2]", "[2,3]"), b"1234", "needs 6 bytes, but 4"),
        (ONE.replace("[2,2]", "[4294967296,4294967296,4294967296]"), b"1234", "more bytes than can be counted"),
        (ONE.replace("[2,2]", "[0,18446744073709551615,2]").replace("4]}}", "0]}}"), b"", "more bytes than can be"),
        (ONE.replace("[2,2]", "[2.0,2]"), b"1234", "the header is invalid"),
        (ONE.replace("U8", "U7"), b"1234", "`U7` is unknown"),
        (ONE.replace('"shape"', '"shapes"'), b"1234", "unknown field `shapes`"),
        (ONE.replace("}}", ',"a":1}}'), b"1234", "unknown field `a`"),
        ('{"__metadata__":{"a":1},' + ONE[1:], b"1234", "the header is invalid"),
        (ONE[:-1] + "," + ONE[1:], b"1234", "`x` is there twice"),
        (
            ONE[:-1] + ',"y":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}',
            b"12345",
            "an overlap of 1 bytes between tensor `x` and",
        ),
        ('{"x":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}}', b"12", "smaller than a byte"),
        ('{"x":' + "[" * 100_000, b"", "the header is invalid"),
    ],
)
def test_a_header_that_is_not_the_formats_is_refused(tmp_path: Path, header: str, data: bytes, words: str) -> None:
    path = put(tmp_path / "x.safetensors", header.encode(), data)
    with pytest.raises(ValueError, match=r"x\.safetensors") as caught:
        SafetensorsDataset(path)
    assert words in str(caught.value)


def test_lengths_of_the_header_are_bounded(tmp_path: Path) -> None:
    for length in (2**63, 2**64 - 1, 100_000_001, len(ONE) + 5):
        with pytest.raises(ValueError, match=rf"byte 0: the file declares a header of {length} bytes"):
            SafetensorsDataset(put(tmp_path / "x", ONE.encode(), b"1234", length))
    with pytest.raises(ValueError, match="not UTF-8"):
        SafetensorsDataset(put(tmp_path / "x", b'{"\xff":1}'))


def test_every_truncation_and_many_flipped_bits_are_errors_or_still_the_format(tmp_path: Path) -> None:
    whole = Path(written(tmp_path / "x", some_tensors())).read_bytes()
    for end in range(len(whole)):
        (tmp_path / "y").write_bytes(whole[:end])
        with pytest.raises(ValueError, match="/y"):
            SafetensorsDataset(tmp_path / "y")
    bits = random.Random(0)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[bits.randrange(len(whole))] ^= 1 << bits.randrange(8)
        (tmp_path / "y").write_bytes(damaged)
        try:
            dataset = SafetensorsDataset(tmp_path / "y")
        except ValueError as error:
            assert "/y" in str(error)  # noqa: PT017
            continue
        for index in range(len(dataset)):
            dataset[index]


def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "x", some_tensors())
    dataset = SafetensorsDataset(path)
    os.truncate(path, 100)
    with pytest.raises(OSError, match=r"/x shrank"):
        dataset[0]
    with pytest.raises(FileNotFoundError):
        SafetensorsDataset(tmp_path / "nothing")
    assert "fields=None" in repr(dataset)
