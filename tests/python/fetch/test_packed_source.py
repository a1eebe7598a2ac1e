"""Rows that the core packs: equal to the definition and to `PackCollate`, in every mode, at every position."""

from __future__ import annotations

import copy
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
import torch.utils.data
from hypothesis import given, settings

from cases.pairs import in_pairs
from checks.equality import assert_same, error_of
from checks.formats import check_format
from doubles.token_files import flat, megatron
from sluicegate import DataLoader, PackCollate, PackedBatchSampler, TokenDocumentsDataset
from sluicegate.fetch.batch_source import batch_source
from sluicegate.fetch.packed_source import PackedSource
from sluicegate.loader.native_iterator import NativeIterator
from sluicegate.packing import DocumentPieces

STRATEGIES = ["concat", "first_fit", "best_fit"]
LENGTHS = [number * number % 29 for number in range(60)]


def texts(lengths: list[int]) -> list[list[int]]:
    """Return documents whose tokens are all different, and none of them 0."""
    ends = list(itertools.accumulate(lengths))
    return [list(range(end - length + 1, end + 1)) for end, length in zip(ends, lengths, strict=True)]


def written(folder: Path, documents: list[list[int]], dtype: str = "uint16") -> TokenDocumentsDataset:
    return TokenDocumentsDataset(megatron(folder, [[document] for document in documents], dtype=dtype))


def packed(documents: TokenDocumentsDataset, loader_cls: Any = DataLoader, **arguments: Any) -> Any:
    """Return a loader of packed rows of `documents`."""
    ours = ("length", "rows_per_batch", "strategy", "shuffle")
    own = {name: arguments.pop(name) for name in ours if name in arguments}
    sampler_seed = arguments.pop("sampler_seed", None)
    sampler = PackedBatchSampler(documents.lengths, **({"length": 24, "rows_per_batch": 2} | own), seed=sampler_seed)
    collate = arguments.pop("collate", None) or sampler.collate
    return loader_cls(sampler.pieces(documents), batch_sampler=sampler, collate_fn=collate, **arguments)


def is_native(loader: Any) -> bool:
    return isinstance(batch_source(loader.dataset, loader.collate_fn, in_worker=False), PackedSource)


def defined(
    documents: list[list[int]], indices: list[int], length: int, pad_token: int, *, shift_labels: bool
) -> dict[str, list[Any]]:
    """Return the batch for these indices, token by token."""
    rows: list[list[tuple[int, int, int, int]]] = []
    borders = [0]
    for index in indices:
        rest, number = divmod(index, len(documents))
        start, begins_row = divmod(rest, 2)
        if begins_row:
            rows.append([])
        row = rows[-1]
        piece = documents[number][start:][: length - len(row)]
        of_row = 1 + max((document for _, _, _, document in row), default=-1)
        for place, token in enumerate(piece):
            after = piece[place + 1] if place + 1 < len(piece) else -100
            label = after if shift_labels else -100 if place == 0 else token
            row.append((token, label, place, of_row))
        borders.append((len(rows) - 1) * length + len(row))
    for number, row in enumerate(rows):
        padding = length - len(row)
        if padding > 0:
            borders.append((number + 1) * length)
        row.extend((pad_token, -100, place, -1) for place in range(padding))
    names = ("input_ids", "labels", "position_ids", "document_ids")
    fields = {name: [[each[field] for each in row] for row in rows] for field, name in enumerate(names)}
    return fields | {"cu_seqlens": sorted(borders)}


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=40).filter(any),
    length=st.integers(1, 30),
    rows=st.integers(1, 4),
    strategy=st.sampled_from(STRATEGIES),
    shuffle=st.booleans(),
    shift_labels=st.booleans(),
    pad_token=st.sampled_from([0, 7, -(2**63), 2**63 - 1]),
    dtype=st.sampled_from(["uint16", "int32", "int64"]),
    num_workers=st.sampled_from([0, 1]),
)
def test_rows_are_those_of_the_definition_and_of_python(
    lengths: list[int],
    length: int,
    rows: int,
    strategy: str,
    shuffle: bool,
    shift_labels: bool,
    pad_token: int,
    dtype: str,
    num_workers: int,
) -> None:
    lists = texts(lengths)
    with tempfile.TemporaryDirectory() as folder:
        documents = written(Path(folder), lists, dtype)
        collate = PackCollate(length, pad_token=pad_token, shift_labels=shift_labels)
        make: Callable[..., Any] = lambda loader_cls, **more: packed(  # noqa: E731
            documents,
            loader_cls,
            length=length,
            rows_per_batch=rows,
            strategy=strategy,
            shuffle=shuffle,
            sampler_seed=5,
            collate=collate,
            **more,
        )
        loader = make(DataLoader, num_workers=num_workers)
        assert is_native(loader)
        batches = list(loader)
        loader.set_epoch(0)
        expected = [
            defined(lists, indices, length, pad_token, shift_labels=shift_labels) for indices in loader.batch_sampler
        ]
        assert [{name: field.tolist() for name, field in batch.items()} for batch in batches] == expected
        assert_same(batches, list(make(torch.utils.data.DataLoader)))


def test_documents_are_read_as_every_format(tmp_path: Path) -> None:
    lists = texts([3, 0, 7, 1, 0, 12, 0])
    paths = [megatron(tmp_path, [[document] for document in lists]), flat(tmp_path, [9, 8], "flat")]
    samples = [torch.tensor(document, dtype=torch.int64) for document in [*lists, [9, 8]]]
    check_format(TokenDocumentsDataset(paths), samples)


@pytest.mark.parametrize(
    ("strategy", "arguments", "workers"),
    in_pairs(STRATEGIES, [{"seed": 3}, {}, {"sampler_seed": 9}, {"seed": 3, "shard": (1, 2)}], [0, 2]),
    ids=str,
)
def test_packing_resumes_at_every_position_with_any_number_of_workers(
    tmp_path: Path, strategy: str, arguments: dict[str, Any], workers: int
) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    make: Callable[[int], Any] = lambda workers: packed(  # noqa: E731
        documents, strategy=strategy, num_workers=workers, **arguments
    )
    torch.manual_seed(1)
    loader = make(workers)
    assert is_native(loader)
    iterator = iter(loader)
    states, whole = [loader.state_dict()], []
    for batch in iterator:
        whole.append(batch)
        states.append(loader.state_dict())
    following = list(loader)
    for position, state in enumerate(states):
        resumed = make(2 - workers)
        resumed.load_state_dict(state)
        assert_same(list(resumed), whole[position:])
        assert_same(list(resumed), following)


def test_packing_resumes_on_a_different_number_of_ranks(tmp_path: Path) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    whole = list(packed(documents, seed=3, strategy="first_fit"))
    for steps, world_size in itertools.product(range(1, 5), (1, 2, 3)):
        first = packed(documents, seed=3, strategy="first_fit", shard=(0, 4), remainder="drop")
        iterator = iter(first)
        for _ in range(steps):
            next(iterator)
        rest = []
        for rank in range(world_size):
            loader = packed(documents, seed=3, strategy="first_fit", shard=(rank, world_size), remainder="drop")
            loader.load_state_dict(first.state_dict())
            rest.append(list(loader))
        left = whole[4 * steps :]
        left = left[: len(left) - len(left) % world_size]
        if left:
            assert_same([batch for step in zip(*rest, strict=True) for batch in step], left)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ids_are_the_samplers_and_samples_of_knows_every_batch(tmp_path: Path, num_workers: int) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    loader = packed(documents, seed=3, num_workers=num_workers)
    seen = list(loader.with_ids())
    sampler = PackedBatchSampler(documents.lengths, length=24, rows_per_batch=2, seed=3)
    expected = list(sampler)
    assert [ids.sample_indices.tolist() for _, ids in seen] == expected
    for number, (batch, ids) in enumerate(seen):
        assert ids.batch_index == number
        assert loader.samples_of(number, epoch=0).tolist() == expected[number]
        assert_same(loader.replay(number, epoch=0), batch)
    left = packed(documents, seed=3, num_workers=num_workers)
    left.skip([1, 3])
    assert_same(list(left), [batch for number, (batch, _) in enumerate(seen) if number not in (1, 3)])


def test_batches_are_memory_of_their_own(tmp_path: Path) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    expected = list(packed(documents, seed=3))
    kept = []
    for batch in packed(documents, seed=3, num_workers=2):
        kept.append({name: field.clone() for name, field in batch.items()})
        for field in batch.values():
            field.fill_(-1)
    assert_same(kept, expected)


class OwnCollate(PackCollate):
    """Changes the labels."""

    def __call__(self, pieces: Any) -> dict[str, torch.Tensor]:
        batch = super().__call__(pieces)
        return batch | {"labels": batch["labels"] + 1}


class OwnDocuments(TokenDocumentsDataset):
    """Changes how pieces are read."""

    def read_pieces(self, pieces: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        return [tokens + 1 for tokens in super().read_pieces(pieces)]


def test_subclasses_and_patched_parts_are_packed_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    expected = list(packed(documents, seed=3))

    own = packed(documents, seed=3, collate=OwnCollate(24))
    assert not is_native(own)
    assert_same([batch["labels"] - 1 for batch in own], [batch["labels"] for batch in expected])

    own = packed(OwnDocuments(documents.paths), seed=3)
    assert not is_native(own)
    real = [batch["document_ids"] >= 0 for batch in expected]
    assert_same(
        [batch["input_ids"][mask] - 1 for batch, mask in zip(own, real, strict=True)],
        [batch["input_ids"][mask] for batch, mask in zip(expected, real, strict=True)],
    )

    listed = [documents[number] for number in range(len(documents))]
    sampler = PackedBatchSampler(documents.lengths, length=24, rows_per_batch=2)
    in_python = DataLoader(sampler.pieces(listed), batch_sampler=sampler, collate_fn=sampler.collate, seed=3)
    assert not is_native(in_python)
    assert_same(list(in_python), expected)

    for collate in (PackCollate(25), PackCollate(24, pad_token=True), PackCollate(24, pad_token=2**63)):
        assert not is_native(packed(documents, collate=collate))
    shorter = documents.lengths.copy()
    shorter[1] = 0
    assert batch_source(DocumentPieces(documents, shorter, 24), PackCollate(24), in_worker=False) is None
    same = DocumentPieces(documents, documents.lengths.copy(), 24)
    assert isinstance(batch_source(same, PackCollate(24), in_worker=False), PackedSource)
    assert not isinstance(iter(packed(documents, num_workers=1, worker_init_fn=int)), NativeIterator)

    loader = packed(documents, seed=3)
    assert is_native(copy.deepcopy(loader))
    methods = ((PackCollate, "_batch"), (DocumentPieces, "__getitems__"), (TokenDocumentsDataset, "read_pieces"))
    for cls, name in methods:
        with monkeypatch.context() as patch:
            patch.setattr(cls, name, lambda *_: None)
            assert not is_native(loader)
    loader.collate_fn._batch = loader.collate_fn._batch
    assert not is_native(loader)


def test_changes_are_seen_at_the_next_batch(tmp_path: Path) -> None:
    documents = written(tmp_path, texts(LENGTHS))
    collate = PackCollate(24)
    expected = list(packed(documents, seed=3, collate=PackCollate(24, pad_token=9, shift_labels=True)))
    before = list(packed(documents, seed=3))
    iterator = iter(packed(documents, seed=3, collate=collate))
    assert_same(next(iterator), before[0])
    collate.pad_token, collate.shift_labels = 9, True
    assert_same(list(iterator), expected[1:])


@pytest.mark.parametrize(
    ("indices", "error", "text"),
    [
        ([2], ValueError, "expected a batch that begins with the first piece of a row"),
        ([5, 2, 2, 2, 2, 2, 2, 2, 2], ValueError, "a piece of document 2 does not fit in its row"),
        ([4], IndexError, "index: expected a piece of 3 documents, but got 4"),
        ([5, 8 * 3 + 2], IndexError, "index: expected a piece of 3 documents, but got 26"),
        ([-1], IndexError, "index: expected a piece of 3 documents, but got -1"),
        ([10**15], IndexError, "expected a piece of 3 documents"),
        ([], ValueError, "expected a batch that begins with the first piece of a row"),
    ],
)
def test_indices_that_make_no_rows_are_refused_in_pythons_words(
    tmp_path: Path, indices: list[int], error: type[Exception], text: str
) -> None:
    documents = written(tmp_path, texts([5, 0, 4]))
    for num_workers in (0, 2):
        pieces = DocumentPieces(documents, documents.lengths, 8)
        loader = DataLoader(pieces, batch_sampler=[[3], indices], collate_fn=PackCollate(8), num_workers=num_workers)
        assert is_native(loader)
        iterator = iter(loader)
        assert next(iterator)["input_ids"].tolist() == [[1, 2, 3, 4, 5, 0, 0, 0]]
        with pytest.raises(error, match=text):
            next(iterator)


def test_a_file_that_was_cut_is_named(tmp_path: Path) -> None:
    lists = texts([4000] * 10)
    documents = written(tmp_path, lists)
    loader = packed(documents, length=4000, shuffle=False)
    iterator = iter(loader)
    next(iterator)
    path = f"{documents.paths[0]}.bin"
    with open(path, "r+b") as file:
        file.truncate(100)
    error = error_of(lambda: list(iterator))
    assert isinstance(error, OSError)
    assert "corpus.bin" in str(error)


def test_documents_without_tokens_are_in_no_row(tmp_path: Path) -> None:
    documents = written(tmp_path, [[], [1, 2], []])
    (batch,) = packed(documents, length=3, rows_per_batch=1)
    assert batch["input_ids"].tolist() == [[1, 2, 0]]
    assert np.array_equal(documents.lengths, [0, 2, 0])
    assert documents[:]["offsets"].tolist() == [0, 0, 2, 2]
