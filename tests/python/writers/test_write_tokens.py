"""`write_tokens`: our datasets of tokens read what was written, as does Megatron's own layout."""

from __future__ import annotations

import itertools
import pathlib
import struct
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate import TokenDocumentsDataset, TokensDataset, write_tokens

DOCUMENTS = [[1, 2, 3], [], [65535], list(range(500)), [7] * 40]


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
@pytest.mark.parametrize("end", [None, 9])
def test_megatrons_files_have_the_documents(tmp_path: pathlib.Path, dtype: str, end: int | None) -> None:
    documents = [torch.tensor(DOCUMENTS[0]), np.array([], np.uint8), *DOCUMENTS[2:]]
    paths = write_tokens(
        documents, tmp_path / "a-{}.bin", dtype=dtype, layout="megatron", end_of_document=end, shard_bytes=900
    )
    expected = [[*document, *([] if end is None else [end])] for document in DOCUMENTS]
    found = TokenDocumentsDataset(paths)
    assert [document.tolist() for document in found] == expected
    assert len(paths) > 1
    for path in paths:
        assert (
            TokenDocumentsDataset(path[:-4]).lengths.sum() * np.dtype(dtype).itemsize
            == pathlib.Path(path).stat().st_size
        )


def test_the_index_is_laid_out_as_megatron_describes_it(tmp_path: pathlib.Path) -> None:
    write_tokens(DOCUMENTS, tmp_path / "{}.bin", dtype=np.int32, layout="megatron")
    index = (tmp_path / "0.idx").read_bytes()
    lengths = [len(document) for document in DOCUMENTS]
    places = [4 * sum(lengths[:place]) for place in range(5)]
    assert index == b"".join(
        (
            b"MMIDIDX\0\0",
            struct.pack("<Q", 1),
            b"\x04",
            struct.pack("<QQ", 5, 6),
            struct.pack("<5i", *lengths),
            struct.pack("<5q", *places),
            struct.pack("<6q", *range(6)),
        )
    )
    assert np.fromfile(tmp_path / "0.bin", "<i4").tolist() == list(itertools.chain(*DOCUMENTS))


def test_flat_files_contain_only_tokens(tmp_path: pathlib.Path) -> None:
    samples = [{"input_ids": torch.tensor(document), "other": "x"} for document in DOCUMENTS]
    paths = write_tokens(samples, tmp_path / "a-{}.bin", field="input_ids", end_of_document=0, shard_bytes=1016)
    expected = [token for document in DOCUMENTS for token in (*document, 0)]
    tokens = [np.fromfile(path, "<u2").tolist() for path in paths]
    assert list(itertools.chain(*tokens)) == expected
    assert len(paths) == 2
    assert TokensDataset(paths, 2, output="tensor")[0].tolist() == expected[:3]
    # A document larger than a shard gets its own shard.
    assert len(write_tokens(DOCUMENTS, tmp_path / "b-{}.bin", shard_bytes=2)) == 4


def test_no_flat_shard_is_without_tokens(tmp_path: pathlib.Path) -> None:
    documents = [[], [], list(range(50)), [], [1, 2], [3, 4, 5]]
    paths = write_tokens(documents, tmp_path / "{}.bin", shard_bytes=10)
    assert [pathlib.Path(path).stat().st_size for path in paths] == [100, 10]
    assert len(TokensDataset(paths, length=4)) > 0


@pytest.mark.parametrize(
    ("documents", "more", "error", "words"),
    [
        (
            [[1], [2, 65536]],
            {},
            ValueError,
            "document 1: expected tokens of uint16, from 0 to 65535, but got 65536 at 1",
        ),
        ([[-1]], {}, ValueError, "document 0: expected tokens of uint16, .*, but got -1 at 0"),
        ([torch.tensor([1.0])], {}, TypeError, "document 0: expected integers, but got float32"),
        ([torch.ones(2, 2, dtype=torch.int64)], {}, ValueError, r"along one axis, but got the shape \(2, 2\)"),
        (["text"], {}, TypeError, "document 0: .*but got str 'text'"),
        ([[1]], {"field": "x"}, TypeError, "expected a dict with 'x'"),
        (
            [[1]],
            {"end_of_document": 70000},
            ValueError,
            "end_of_document: expected tokens of uint16, .*, but got 70000 at 0",
        ),
        ([[1]], {"dtype": "uint32", "layout": "megatron"}, ValueError, "dtype: expected a type of a Megatron index"),
        ([[1]], {"dtype": "float32"}, ValueError, "dtype should be one of"),
        ([[1]], {"layout": "nano"}, ValueError, "layout should be one of"),
        ([[1]], {"shard_bytes": 0}, ValueError, "shard_bytes"),
    ],
)
def test_documents_that_can_not_be_written_are_named(
    tmp_path: pathlib.Path, documents: list[Any], more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        write_tokens(documents, tmp_path / "a-{}.bin", **more)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"ends in '\.bin'"):
        write_tokens(documents, tmp_path / "a-{}.tok")


def test_a_flat_file_is_not_written_next_to_a_foreign_index(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a-0.idx").write_text("foreign")
    with pytest.raises(FileExistsError, match=r"a-0\.idx"):
        write_tokens(DOCUMENTS, tmp_path / "a-{}.bin")
    write_tokens(DOCUMENTS, tmp_path / "b-{}.bin", layout="megatron")
    write_tokens(DOCUMENTS, tmp_path / "b-{}.bin", resume=False)
    assert not (tmp_path / "b-0.idx").exists()
    assert len(TokenDocumentsDataset(tmp_path / "b-0.bin")) == 1
