"""Packed rows: every token once, with document boundaries, and the same with torch's loader and ours."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from checks.equality import assert_same
from doubles.token_files import flat, megatron
from sluicegate import DataLoader, PackCollate, PackedBatchSampler, TokenDocumentsDataset
from sluicegate.packing import Piece

STRATEGIES = ["concat", "first_fit", "best_fit"]


def texts(lengths: list[int]) -> list[torch.Tensor]:
    """Return documents whose tokens are all different."""
    ends = np.cumsum(lengths)
    return [torch.arange(end - length, end) + 1 for end, length in zip(ends.tolist(), lengths, strict=True)]


def check_batch(batch: dict[str, torch.Tensor], length: int) -> list[list[int]]:
    """Return the pieces of a batch, after checking every field that describes them."""
    input_ids, labels, position_ids, document_ids = (
        batch[name] for name in ("input_ids", "labels", "position_ids", "document_ids")
    )
    borders = batch["cu_seqlens"].tolist()
    assert batch["cu_seqlens"].dtype == torch.int32
    assert borders[0] == 0
    assert borders[-1] == input_ids.numel()
    assert input_ids.shape == labels.shape == position_ids.shape == document_ids.shape
    assert input_ids.shape[1:] == (length,)
    assert {input_ids.dtype, labels.dtype, position_ids.dtype, document_ids.dtype} == {torch.int64}
    pieces = []
    for start, stop in itertools.pairwise(borders):
        assert start // length == (stop - 1) // length, "a piece reaches over the end of a row"
        ids, document = input_ids.view(-1)[start:stop], document_ids.view(-1)[start:stop]
        assert position_ids.view(-1)[start:stop].tolist() == list(range(stop - start))
        assert len(set(document.tolist())) == 1
        if document[0] == -1:
            assert stop % length == 0
            assert set(labels.view(-1)[start:stop].tolist()) == {-100}
            assert set(ids.tolist()) == {0}
        else:
            assert document[0] == 0 if start % length == 0 else document_ids.view(-1)[start - 1] + 1
            assert labels.view(-1)[start:stop].tolist() == [-100, *ids.tolist()[1:]]
            pieces.append(ids.tolist())
    return pieces


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 40), max_size=40),
    length=st.integers(1, 30),
    rows=st.integers(1, 4),
    strategy=st.sampled_from(STRATEGIES),
    shuffle=st.booleans(),
)
def test_every_token_of_every_document_comes_once(
    lengths: list[int], length: int, rows: int, strategy: str, shuffle: bool
) -> None:
    documents = texts(lengths)
    sampler = PackedBatchSampler(
        lengths, length=length, rows_per_batch=rows, strategy=strategy, shuffle=shuffle, seed=7
    )
    loader = DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate)
    # Epochs may have different numbers of rows.
    expected = len(loader)
    batches = list(loader)
    assert len(batches) == len(sampler) == expected
    pieces = [piece for batch in batches for piece in check_batch(batch, length)]
    assert sorted(token for piece in pieces for token in piece) == list(range(1, sum(lengths) + 1))
    whole = {tuple(document.tolist()) for document in documents}
    if strategy != "concat":
        assert all(tuple(piece) in whole for piece in pieces if len(piece) < length and piece[0] == 1)
        assert len(pieces) == sum(-(-each // length) for each in lengths)
    total = sum(len(batch["input_ids"]) for batch in batches) * length
    assert sampler.padding_share() == pytest.approx(1 - sum(lengths) / total if total else 0)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_torchs_loader_gives_the_same_batches(tmp_path: Path, strategy: str, num_workers: int) -> None:
    lists = [[[*range(start, start + start % 23 + 1)]] for start in range(80)]
    documents = TokenDocumentsDataset(megatron(tmp_path, lists))
    epochs = []
    for loader_cls in (torch.utils.data.DataLoader, DataLoader):
        sampler = PackedBatchSampler(documents.lengths, length=32, rows_per_batch=3, strategy=strategy, seed=5)
        loader = loader_cls(
            sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate, num_workers=num_workers
        )
        epochs.append(list(loader))
    assert_same(epochs[0], epochs[1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_packed_batches_resume_at_every_position(strategy: str) -> None:
    lengths = [number * number % 29 for number in range(60)]
    documents = texts(lengths)

    def make() -> Any:
        sampler = PackedBatchSampler(lengths, length=24, rows_per_batch=2, strategy=strategy)
        return DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate, seed=3)

    whole = list(make())
    for position in range(len(whole) + 1):
        first = make()
        iterator = iter(first)
        for _ in range(position):
            next(iterator)
        resumed = make()
        resumed.load_state_dict(first.state_dict())
        rest = list(resumed)
        assert_same(rest, whole[position:] if position < len(whole) else rest)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ranks_share_the_batches_and_have_as_many_tokens(strategy: str) -> None:
    lengths = [1 + number * number % 97 for number in range(2000)]
    documents = texts(lengths)
    ranks = []
    for rank in range(3):
        sampler = PackedBatchSampler(lengths, length=128, rows_per_batch=4, strategy=strategy, drop_last=True, seed=3)
        loader = DataLoader(
            sampler.pieces(documents),
            batch_sampler=sampler,
            collate_fn=sampler.collate,
            shard=(rank, 3),
            remainder="drop",
        )
        ranks.append([batch["input_ids"] for batch in loader])
    assert len({len(batches) for batches in ranks}) == 1
    tokens = [torch.cat(batches)[torch.cat(batches) > 0].tolist() for batches in ranks]
    assert len({token for part in tokens for token in part}) == sum(map(len, tokens)) > 0.95 * sum(lengths)
    assert max(map(len, tokens)) < 1.02 * min(map(len, tokens))


def test_the_padding_is_reported() -> None:
    lengths = [1 + number * number % 97 for number in range(3000)]
    shares = {
        strategy: PackedBatchSampler(lengths, length=128, rows_per_batch=4, strategy=strategy, seed=7).padding_share()
        for strategy in STRATEGIES
    }
    assert 0 <= shares["concat"] <= shares["best_fit"] <= shares["first_fit"] < 0.05
    for strategy in STRATEGIES:
        sampler = PackedBatchSampler(lengths, length=128, rows_per_batch=7, strategy=strategy, drop_last=True, seed=7)
        loader = DataLoader(sampler.pieces(texts(lengths)), batch_sampler=sampler, collate_fn=sampler.collate)
        ids = torch.cat([batch["document_ids"] for batch in loader])
        assert sampler.padding_share(0) == pytest.approx(float((ids < 0).double().mean()))
    with pytest.raises(ValueError, match="has no seed"):
        PackedBatchSampler(lengths, length=128).padding_share()
    assert PackedBatchSampler([], length=8).padding_share(seed=1) == 0


def test_batches_of_an_epoch_are_a_function_of_seed_and_epoch() -> None:
    sampler = PackedBatchSampler(range(1, 50), length=64, rows_per_batch=2, seed=7)
    first = list(sampler)
    assert first == list(sampler) == [sampler.batch_at(position).tolist() for position in range(len(sampler))]
    sampler.set_epoch(1)
    assert list(sampler) != first
    loose = PackedBatchSampler(range(1, 50), length=64, rows_per_batch=2)
    torch.manual_seed(1)
    drawn = list(loose)
    torch.manual_seed(1)
    assert drawn == list(loose)
    copy = pickle.loads(pickle.dumps(sampler))
    assert list(copy) == list(sampler)
    iterator = iter(sampler)
    next(iterator)
    copy.load_state_dict(sampler.state_dict())
    assert list(copy) == list(iterator)


def test_the_number_of_batches_needs_a_seed_where_it_depends_on_the_order() -> None:
    assert len(PackedBatchSampler([5, 5, 5], length=4, strategy="concat")) == 4
    assert len(PackedBatchSampler([5, 5, 5], length=4, rows_per_batch=3, strategy="concat", drop_last=True)) == 1
    assert len(PackedBatchSampler([5, 5, 5], length=4, shuffle=False)) == 4
    with pytest.raises(TypeError, match="pass seed= to PackedBatchSampler"):
        len(PackedBatchSampler([5, 5, 5], length=4))


def test_labels_may_be_shifted() -> None:
    pieces = [
        Piece(torch.tensor([7, 8, 9]), 0, 0, True),
        Piece(torch.tensor([4, 5]), 1, 0, False),
        Piece(torch.tensor([1, 2, 3, 6, 6, 6, 6]), 2, 0, True),
    ]
    batch = PackCollate(6, pad_token=99, shift_labels=True)(pieces)
    assert batch["input_ids"].tolist() == [[7, 8, 9, 4, 5, 99], [1, 2, 3, 6, 6, 6]]
    assert batch["labels"].tolist() == [[8, 9, -100, 5, -100, -100], [2, 3, 6, 6, 6, -100]]
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1, 1, -1], [0] * 6]
    assert batch["cu_seqlens"].tolist() == [0, 3, 5, 6, 12]
    with pytest.raises(ValueError, match="the first piece of a row"):
        PackCollate(6)(pieces[1:])
    with pytest.raises(ValueError, match="document 3 does not fit in its row"):
        PackCollate(6)([pieces[2], Piece(torch.tensor([1]), 3, 0, False)])


def test_documents_may_be_of_any_kind() -> None:
    sampler = PackedBatchSampler([2, 3], length=5, shuffle=False)
    for documents in (
        [[1, 2], [3, 4, 5]],
        [np.array([1, 2], dtype=np.uint16), np.array([3, 4, 5], dtype=np.uint16)],
        [{"input_ids": [1, 2]}, {"input_ids": torch.tensor([3, 4, 5])}],
    ):
        (batch,) = DataLoader(sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate)
        assert batch["input_ids"].tolist() == [[3, 4, 5, 1, 2]]
    with pytest.raises(
        ValueError, match=r"document 1: expected 3 tokens, its length in lengths=, but got shape \(4,\)"
    ):
        sampler.pieces([[1, 2], [3, 4, 5, 6]])[1]
    with pytest.raises(ValueError, match="lengths: expected one for each of 1 documents, but got 2"):
        sampler.pieces([[1, 2]])
    pieces = sampler.pieces([[1, 2], [3, 4, 5]])
    assert pieces[4].tokens.tolist() == [2]  # The second token of the first document.
    for index in (-1, 8, len(pieces)):
        with pytest.raises(IndexError, match=f"index: expected a piece of 2 documents, but got {index}"):
            pieces[index]


def test_documents_of_files_are_whole(data: ModuleType, tmp_path: Path) -> None:
    lists = [[[1, 2, 3], [4]], [], [[5, 6]]]
    paths = [megatron(tmp_path, lists, dtype="int32"), flat(tmp_path, [7, 8, 9], "flat")]
    documents = TokenDocumentsDataset(paths)
    assert (len(documents), documents.lengths.tolist()) == (4, [4, 0, 2, 3])
    expected = [[1, 2, 3, 4], [], [5, 6], [7, 8, 9]]
    assert [document.tolist() for document in data.DataLoader(documents, batch_size=None)] == expected
    batches = list(data.DataLoader(documents, batch_size=3, collate_fn=list, num_workers=1))
    assert [document.tolist() for batch in batches for document in batch] == expected
    assert documents[-1].tolist() == [7, 8, 9]
    for index in (4, -5):
        with pytest.raises(IndexError, match="out of range"):
            documents[index]
    copy = pickle.loads(pickle.dumps(documents))
    assert (repr(copy), copy[2].tolist()) == (repr(documents), [5, 6])


def test_arguments_that_make_no_sense_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"length": 0}, "length should be a positive integer value"),
        ({"rows_per_batch": -1}, "rows_per_batch should be"),
        ({"window": 0}, "window should be"),
        ({"strategy": "worst_fit"}, "strategy should be one of 'concat', 'first_fit', 'best_fit'"),
        ({"lengths": [3, -4]}, "lengths: document 1 has a negative length, -4"),
        ({"seed": -1}, "seed should be"),
    ]
    for arguments, text in wrong:
        with pytest.raises(ValueError, match=text):
            PackedBatchSampler(**{"lengths": [3, 4], "length": 8, **arguments})
    with pytest.raises(TypeError, match="lengths should be integers"):
        PackedBatchSampler(np.array([1.5]), length=8)
