"""`BlockShuffleSampler` with blocks of any sizes."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset

from sluicegate import BlockShuffleSampler, DataLoader

SIZES = [7, 0, 30, 1, 1, 12, 0, 5, 44, 3]
LENGTH = sum(SIZES)


class Blocks(Dataset[int]):
    """Numbers in blocks of these sizes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.block_sizes = sizes

    def __len__(self) -> int:
        return sum(self.block_sizes)

    def __getitem__(self, index: int) -> int:
        return index


def by_window(read: list[int], sizes: Sequence[int], window: int) -> list[set[int]]:
    """Return the blocks of each window in `read`; fail if samples of a block are in more than one."""
    block_of = np.repeat(np.arange(len(sizes)), sizes)
    windows: list[set[int]] = []
    rest = block_of[read].tolist()
    while rest:
        together = set(itertools.islice(dict.fromkeys(rest), window))
        samples = sum(sizes[block] for block in together)
        assert set(rest[:samples]) == together
        assert not together & set(rest[samples:])
        windows.append(together)
        rest = rest[samples:]
    return windows


@given(
    st.lists(st.integers(0, 40), max_size=30),
    st.integers(1, 9),
    st.integers(0, 2**64 - 1),
    st.integers(0, 3),
)
def test_every_sample_comes_once_and_in_the_window_of_its_block(
    sizes: list[int], window: int, seed: int, epoch: int
) -> None:
    sampler = BlockShuffleSampler(range(sum(sizes)), sizes, window, seed=seed)
    sampler.set_epoch(epoch)
    read = list(sampler)
    assert sorted(read) == list(range(sum(sizes)))
    assert len(sampler) == len(read)
    assert [sampler.index_at(position) for position in range(len(read))] == read
    windows = by_window(read, sizes, window)
    full = [size for size in sizes if size]
    assert [len(blocks) for blocks in windows[:-1]] == [window] * (len(windows) - 1)
    assert sum(map(len, windows)) == len(full)


@pytest.mark.parametrize(("length", "block"), [(0, 4), (1, 4), (100, 7), (98, 7), (1000, 1), (3, 9)])
def test_equal_sizes_are_the_same_as_one_number(length: int, block: int) -> None:
    sizes = [min(block, length - start) for start in range(0, length, block)]
    for given_sizes in (sizes, [0, *sizes, 0], np.array(sizes, np.int32), torch.tensor(sizes, dtype=torch.int64)):
        for window, epoch in ((1, 0), (3, 2), (1000, 1)):
            one = BlockShuffleSampler(range(length), block, window, seed=7)
            each = BlockShuffleSampler(range(length), given_sizes, window, seed=7)
            one.set_epoch(epoch)
            each.set_epoch(epoch)
            assert list(each) == list(one)
            assert each.block == (block if length > block else max(length, 1))


def test_block_sizes_of_the_dataset_are_the_default() -> None:
    dataset = Blocks(SIZES)
    given_sizes = BlockShuffleSampler(dataset, SIZES, 3, seed=7)
    assert list(BlockShuffleSampler(dataset, window=3, seed=7)) == list(given_sizes)
    with pytest.raises(
        ValueError, match=r"block: expected a number, because a range has no block_sizes, but got None; pass"
    ):
        BlockShuffleSampler(range(10), window=3)


def test_without_a_seed_one_is_drawn_at_the_first_index() -> None:
    def make(block: Any) -> BlockShuffleSampler:
        return BlockShuffleSampler(range(LENGTH), block, 3, torch.Generator().manual_seed(3))

    one, other = make(SIZES), make(np.array(SIZES))
    passes = [list(one), list(one)]
    assert passes == [list(other), list(other)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == list(range(LENGTH))
    by_window(passes[0], SIZES, 3)
    torch.manual_seed(0)
    sampler = BlockShuffleSampler(range(LENGTH), SIZES, 3)
    untouched = torch.get_rng_state()
    iterator = iter(sampler)
    assert torch.equal(torch.get_rng_state(), untouched)
    next(iterator)
    # It draws one int64, as torch's own samplers do.
    torch.manual_seed(0)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    assert list(sampler) != list(BlockShuffleSampler(range(LENGTH), SIZES, 3, seed=seed + 1))
    torch.manual_seed(0)
    assert list(sampler) == list(BlockShuffleSampler(range(LENGTH), SIZES, 3, seed=seed))


@pytest.mark.parametrize("arguments", [{"seed": 5}, {}], ids=["seed", "torch"])
def test_a_loader_resumes_at_every_position(arguments: dict[str, Any]) -> None:
    def loader() -> Any:
        torch.manual_seed(11)
        dataset = Blocks(SIZES)
        return DataLoader(dataset, batch_size=4, sampler=BlockShuffleSampler(dataset, window=3), **arguments)

    whole = loader()
    expected = [[batch.tolist() for batch in whole] for _ in range(2)]
    assert expected[0] != expected[1]
    for position in range(len(expected[0])):
        torch.manual_seed(11)
        began = loader()
        iterator = iter(began)
        for _ in range(position):
            next(iterator)
        state = json.loads(json.dumps(began.state_dict()))
        torch.manual_seed(99)
        resumed = loader()
        resumed.load_state_dict(state)
        assert [batch.tolist() for batch in resumed] == expected[0][position:]
        assert [batch.tolist() for batch in resumed] == expected[1]


def test_ranks_share_the_order() -> None:
    dataset = Blocks(SIZES)

    def read(**arguments: Any) -> list[int]:
        sampler = BlockShuffleSampler(dataset, window=3)
        return torch.cat(list(DataLoader(dataset, 4, sampler=sampler, seed=5, **arguments))).tolist()

    parts = [read(shard=(rank, 3), remainder="exact") for rank in range(3)]
    assert set(itertools.chain(*parts)) == set(range(LENGTH))
    assert sorted(read()) == list(range(LENGTH))


def test_a_block_sampler_can_be_pickled_and_copies_its_sizes() -> None:
    sizes = np.array(SIZES)
    sampler = BlockShuffleSampler(range(LENGTH), sizes, 2, seed=7)
    expected = list(sampler)
    sizes[:] = 1
    assert list(sampler) == list(pickle.loads(pickle.dumps(sampler))) == expected
    assert sampler.block.tolist() == SIZES  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="read-only"):
        sampler.block[0] = 3  # type: ignore[index]


def test_many_blocks_are_read_and_found() -> None:
    sizes = np.arange(1_000_000) % 3
    sampler = BlockShuffleSampler(range(int(sizes.sum())), sizes, 1000, seed=7)
    read = torch.tensor(list(sampler))
    assert torch.equal(read.sort().values, torch.arange(len(sampler)))
    assert [sampler.index_at(position) for position in (0, 500_000, 999_998)] == read[[0, 500_000, 999_998]].tolist()


@pytest.mark.parametrize(
    ("sizes", "error", "words"),
    [
        ([3, 3], ValueError, "block: expected blocks of 10 samples in total, .*, but got 2 blocks of 6"),
        ([], ValueError, "block: expected blocks of 10 samples in total, .*, but got 0 blocks of 0"),
        ([11, -1], ValueError, "block 1 has a negative size, -1"),
        ([2**63 - 1, 2**63 - 1, 12], ValueError, "the blocks have more samples than can be counted"),
        ([[5, 5]], ValueError, r"block should have one axis, but got an array of shape \(1, 2\)"),
        ([5.0, 5.0], TypeError, "block should be integers of up to 64 bits, but got float64"),
        ("10", ValueError, "block should be a positive integer value, but got block=10"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        BlockShuffleSampler(range(10), sizes, window=2)


def test_a_dataset_that_grows_does_not_fit_any_more() -> None:
    samples = [0] * 10
    sampler = BlockShuffleSampler(samples, [3, 7], 1, seed=7)
    assert sorted(sampler) == list(range(10))
    samples.append(0)
    with pytest.raises(ValueError, match=r"expected blocks of 11 samples in total, .*, but got 2 blocks of 10"):
        list(sampler)
    with pytest.raises(ValueError, match="window should be a positive integer value, but got window=None"):
        BlockShuffleSampler(samples, 3)
