"""Samplers by class or length: with torch's loader and ours, with labels of every kind, and resumed."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from sluicegate import BalancedBatchSampler, ClassSampler, LengthBucketBatchSampler, StratifiedBatchSampler
from sluicegate.sampler.class_index import ClassIndex

LABELS = [(index * index) % 7 % 5 for index in range(83)]
LENGTHS = [1 + index * 37 % 60 for index in range(83)]

Make = Callable[..., Any]

BATCHES: dict[str, Make] = {
    "balanced": lambda **arguments: BalancedBatchSampler(LABELS, 2, 3, **arguments),
    "stratified": lambda **arguments: StratifiedBatchSampler(LABELS, 8, **arguments),
    "length": lambda **arguments: LengthBucketBatchSampler(LENGTHS, batch_size=8, window=20, **arguments),
    "tokens": lambda **arguments: LengthBucketBatchSampler(LENGTHS, max_tokens=200, window=20, **arguments),
    "length, balanced": lambda **arguments: LengthBucketBatchSampler(LENGTHS, batch_size=3, balance=4, **arguments),
}
ALL: dict[str, Make] = {
    **BATCHES,
    "class": lambda **arguments: ClassSampler(LABELS, [1, 4], shuffle=True, **arguments),
}

batching = pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES.keys())
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())


def taken(iterator: Iterator[Any], count: int) -> list[Any]:
    return list(itertools.islice(iterator, count))


@every
def test_with_a_seed_the_order_is_a_function_of_seed_and_epoch(make: Make) -> None:
    sampler = make(seed=7)
    first = list(sampler)
    assert list(sampler) == list(make(seed=7)) == first
    assert list(make(seed=8)) != first
    sampler.set_epoch(1)
    second = list(sampler)
    assert second != first
    sampler.set_epoch(0)
    assert list(sampler) == first
    other = make(seed=7)
    other.set_epoch(1)
    assert list(other) == second


@every
def test_samplers_with_a_seed_do_not_draw_from_torchs_generator(make: Make) -> None:
    before = torch.get_rng_state()
    list(make(seed=7))
    assert torch.equal(torch.get_rng_state(), before)


@every
def test_without_a_seed_one_is_drawn_at_the_first_next(make: Make) -> None:
    sampler = make()
    before = torch.get_rng_state()
    iterator = iter(sampler)
    assert torch.equal(torch.get_rng_state(), before)
    first = [next(iterator), *iterator]
    drawn = torch.get_rng_state()
    torch.set_rng_state(before)
    torch.empty((), dtype=torch.int64).random_()
    assert torch.equal(torch.get_rng_state(), drawn)
    assert list(sampler) != first
    torch.set_rng_state(before)
    assert list(sampler) == first


@every
def test_without_a_seed_a_generator_decides_alone(make: Make) -> None:
    before = torch.get_rng_state()
    orders = [list(make(generator=torch.Generator().manual_seed(seed))) for seed in (3, 3, 4)]
    assert orders[0] == orders[1] != orders[2]
    assert torch.equal(torch.get_rng_state(), before)


@batching
def test_batch_at_returns_any_batch(make: Make) -> None:
    sampler = make(seed=7)
    sampler.set_epoch(2)
    expected = list(sampler)
    assert len(sampler) == len(expected)
    for position in reversed(range(len(expected))):
        assert sampler.index_at(position).tolist() == sampler.batch_at(position).tolist()
        batch = sampler.batch_at(position)
        assert batch.dtype == numpy.int64
        assert batch.tolist() == expected[position]
    with pytest.raises(
        IndexError, match=f"batch {len(expected)} is out of range for an epoch of {len(expected)} batches"
    ):
        sampler.batch_at(len(expected))
    assert [numpy.frombuffer(sampler.batches(2, seed=9).indices(0), numpy.int64).tolist()] == expected[:1]


@batching
def test_the_seed_of_the_loader_is_used_by_a_sampler_without_one(make: Make) -> None:
    expected = list(make(seed=7))
    batches = make().batches(0, seed=7)
    assert [numpy.frombuffer(batches.indices(at), numpy.int64).tolist() for at in range(len(batches))] == expected
    with pytest.raises(ValueError, match=r"has no seed, so its order is drawn when it is iterated.*pass seed="):
        make().batches(0)


def test_index_at_returns_any_position_of_a_class() -> None:
    sampler = ClassSampler(LABELS, [1, 4], shuffle=True, seed=7)
    sampler.set_epoch(3)
    expected = list(sampler)
    assert [sampler.index_at(position) for position in range(len(sampler))] == expected
    assert ClassSampler(LABELS, [1, 4], shuffle=True).order(3, seed=7).index_at(5) == expected[5]
    assert ClassSampler(LABELS, 1).index_at(0) == LABELS.index(1)
    with pytest.raises(ValueError, match="ClassSampler has no seed"):
        ClassSampler(LABELS, 1, shuffle=True).order(0)


@every
@pytest.mark.parametrize("seed", [7, None])
@pytest.mark.parametrize("read", [0, 1, 5, 100])
def test_a_sampler_resumes_at_the_position_of_its_state(make: Make, seed: int | None, read: int) -> None:
    sampler = make(seed=seed)
    sampler.set_epoch(2)
    fresh = sampler.state_dict()
    iterator = iter(sampler)
    begun = taken(iterator, read)
    state = json.loads(json.dumps(sampler.state_dict()))
    assert state.keys() == fresh.keys()
    assert state["yielded"] == len(begun)
    rest = list(iterator)
    torch.manual_seed(99)
    other = make(seed=seed)
    other.load_state_dict(state)
    if read or seed is not None:
        assert list(other) == rest
        assert other.yielded == len(begun) + len(rest)
    # The state applies once: the next iteration is complete.
    again = list(other)
    assert other.yielded == len(again) > len(again) // 2 + 1
    assert seed is None or again == begun + rest


@every
def test_a_state_of_another_seed_is_refused(make: Make) -> None:
    state = make(seed=7).state_dict()
    for other in (make(seed=8), make()):
        with pytest.raises(ValueError, match=f"with seed={other.seed}, but got one with seed=7"):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="yielded"):
        make(seed=7).load_state_dict({"yielded": -1})


@every
def test_samplers_are_copied_and_pickled(make: Make) -> None:
    sampler = make(seed=7)
    expected = list(sampler)
    assert list(copy.deepcopy(sampler)) == list(pickle.loads(pickle.dumps(sampler))) == expected


@every
@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**64, ValueError), ("7", ValueError), (True, ValueError)]
)
def test_a_seed_has_64_bits(make: Make, seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make(seed=seed)
    assert list(make(seed=2**64 - 1)) != list(make(seed=0))


@batching
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batch_samplers_work_in_torchs_loader_and_ours(
    loader_cls: type[DataLoader[Any]], make: Make, num_workers: int
) -> None:
    sampler = make(seed=7)
    loader = loader_cls(TensorDataset(torch.arange(83)), batch_sampler=sampler, num_workers=num_workers)
    assert [batch.tolist() for (batch,) in loader] == list(sampler)
    assert len(loader) == len(sampler)


def test_a_class_sampler_works_in_torchs_loader_and_ours(loader_cls: type[DataLoader[Any]]) -> None:
    loader = loader_cls(TensorDataset(torch.tensor(LABELS)), sampler=ClassSampler(LABELS, 2), batch_size=6)
    assert Counter(torch.cat([batch for (batch,) in loader]).tolist()) == {2: LABELS.count(2)}
    assert len(loader) == -(-LABELS.count(2) // 6)


def test_a_class_sampler_without_shuffling_keeps_the_sequence() -> None:
    expected = [index for label in (4, 1) for index in range(83) if LABELS[index] == label]
    sampler = ClassSampler(LABELS, [4, 1])
    before = torch.get_rng_state()
    assert list(sampler) == list(sampler) == expected
    assert len(sampler) == len(expected)
    iterator = iter(sampler)
    taken(iterator, 4)
    other = ClassSampler(LABELS, [4, 1])
    other.load_state_dict(sampler.state_dict())
    assert list(other) == list(iterator) == expected[4:]
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="each class once, got 1 twice"):
        ClassSampler(LABELS, [1, 1])


def test_a_class_longer_than_a_block_comes_whole() -> None:
    labels = torch.zeros(10_000, dtype=torch.uint8)
    assert list(ClassSampler(labels, 0)) == list(range(10_000))
    assert sorted(ClassSampler(labels, 0, shuffle=True, seed=3)) == list(range(10_000))


def test_balanced_batches_are_balanced() -> None:
    sampler = BalancedBatchSampler(LABELS, 3, 4, num_batches=40, seed=7)
    visits: Counter[int] = Counter()
    for batch in sampler:
        labels = [LABELS[index] for index in batch]
        assert len(set(batch)) == 12
        assert [labels[at] for at in range(12)] == [labels[at - at % 4] for at in range(12)]
        visits.update(set(labels))
    known = set(LABELS)
    assert {visits[label] for label in known} <= {40 * 3 // len(known), 40 * 3 // len(known) + 1}
    assert len(BalancedBatchSampler(LABELS, 2, 3)) == 83 // 6
    assert BalancedBatchSampler(LABELS, 2, 3).batch_size == 6


def test_stratified_batches_have_the_proportions() -> None:
    share = Counter(LABELS)
    for batch in StratifiedBatchSampler(LABELS, 10, drop_last=True):
        for label, count in Counter(LABELS[index] for index in batch).items():
            assert abs(count - share[label] * 10 / 83) < 1
    assert sorted(itertools.chain.from_iterable(StratifiedBatchSampler(LABELS, 10))) == list(range(83))
    assert (len(StratifiedBatchSampler(LABELS, 10)), len(StratifiedBatchSampler(LABELS, 10, True))) == (9, 8)
    assert list(StratifiedBatchSampler([], 10)) == []


def test_batches_of_similar_lengths_stay_within_max_tokens() -> None:
    read = list(LengthBucketBatchSampler(LENGTHS, max_tokens=200))
    assert sorted(itertools.chain.from_iterable(read)) == list(range(83))
    assert all(len(batch) * max(LENGTHS[index] for index in batch) <= 200 for batch in read)
    sizes = Counter(len(batch) for batch in LengthBucketBatchSampler(LENGTHS, batch_size=8, drop_last=True))
    assert sizes == {8: 10}
    in_order = [
        LENGTHS[index] for batch in LengthBucketBatchSampler(LENGTHS, max_tokens=200, shuffle=False) for index in batch
    ]
    assert in_order == sorted(LENGTHS, reverse=True)


def test_sorting_by_length_needs_no_seed_and_draws_none() -> None:
    before = torch.get_rng_state()
    sampler = LengthBucketBatchSampler(LENGTHS, max_tokens=200, shuffle=False)
    assert len(sampler) == len(list(sampler))
    assert sampler.batch_at(0).tolist() == next(iter(sampler))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_number_of_batches_of_tokens_is_known_once_the_order_is() -> None:
    sampler = LengthBucketBatchSampler(LENGTHS, max_tokens=200)
    with pytest.raises(TypeError, match="pass seed= to LengthBucketBatchSampler"):
        len(sampler)
    assert len(list(sampler)) == len(sampler)
    assert len(LengthBucketBatchSampler(LENGTHS, batch_size=10)) == 9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: BalancedBatchSampler(LABELS, 9, 1),
            "classes_per_batch: expected 1 to .*, the number of classes, but got 9",
        ),
        (lambda: BalancedBatchSampler(LABELS, 0, 1), "classes_per_batch should be a positive integer value"),
        (lambda: BalancedBatchSampler(LABELS, 1, 1.5), "samples_per_class should be a positive integer value"),
        (lambda: BalancedBatchSampler(LABELS, 1, 1, num_batches=0), "num_batches should be a positive integer value"),
        (
            lambda: StratifiedBatchSampler(LABELS, 0),
            "batch_size should be a positive integer value, but got batch_size=0",
        ),
        (lambda: StratifiedBatchSampler(LABELS, 3, 1), "drop_last should be a boolean value, but got drop_last=1"),
        (lambda: LengthBucketBatchSampler([1]), "batch_size, max_tokens: expected exactly one"),
        (
            lambda: LengthBucketBatchSampler([1], batch_size=2, max_tokens=3),
            "batch_size, max_tokens: expected exactly one",
        ),
        (
            lambda: LengthBucketBatchSampler([1, 9], max_tokens=8),
            "sample 1 has the length 9, but a batch may have",
        ),
        (lambda: LengthBucketBatchSampler([1, -9], batch_size=8), "sample 1 has a negative length, -9"),
        (lambda: LengthBucketBatchSampler([1], batch_size=8, window=0), "window should be a positive integer value"),
        (lambda: LengthBucketBatchSampler([1], batch_size=8, balance=0), "balance should be a positive integer value"),
        (lambda: LengthBucketBatchSampler([[1]], batch_size=8), "lengths should have one axis"),
    ],
)
def test_bad_arguments_are_refused_when_the_sampler_is_made(make: Make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_lengths_are_integers() -> None:
    with pytest.raises(TypeError, match="lengths should be integers of up to 64 bits, but got float64"):
        LengthBucketBatchSampler([1.5], batch_size=8)


@pytest.mark.parametrize(
    "labels",
    [
        [3, -1, 3, 9],
        (3, -1, 3, 9),
        torch.tensor([3, -1, 3, 9]),
        torch.tensor([3, -1, 3, 9], dtype=torch.int8),
        torch.tensor([3, 0, -1, 0, 3, 0, 9])[::2],
        numpy.array([3, -1, 3, 9], dtype=numpy.int16),
        numpy.array([3, -1, 3, 9], dtype=">i4"),
        numpy.array([9, 3, -1, 3])[::-1],
        numpy.array([3, -1, 3, 9], dtype=object),
        [torch.tensor(3), numpy.int64(-1), 3, torch.tensor([9])],
        iter([3, -1, 3, 9]),
    ],
)
def test_labels_of_every_kind_make_the_same_index(labels: Any) -> None:
    index = ClassIndex(labels)
    assert sorted((label, index.samples_of(label).size) for label in index.classes) == [(-1, 1), (3, 2), (9, 1)]
    assert all(type(label) is int for label in index.classes)
    assert len(index) == 4


def test_labels_that_are_no_integers_are_classes_too() -> None:
    assert ClassIndex(["b", "a", "b"]).samples_of("b").tolist() == [0, 2]
    assert ClassIndex(numpy.array(["b", "a", "b"])).classes == ["a", "b"]
    assert ClassIndex([True, False]).classes == [False, True]
    assert ClassIndex(torch.tensor([True, False, True])).samples_of(True).tolist() == [0, 2]
    assert ClassIndex([0.5, 0.25]).classes == [0.25, 0.5]
    assert ClassIndex(numpy.array([0.5, 0.25])).classes == [0.25, 0.5]
    mixed = ClassIndex(["b", 1, None, 1])
    assert mixed.classes == ["b", 1, None]
    assert mixed.samples_of(1).tolist() == [1, 3]
    assert ClassIndex([2**70, 3, 2**70]).samples_of(2**70).tolist() == [0, 2]
    assert ClassIndex(numpy.array([2**63 + 1, 3], dtype=numpy.uint64)).classes == [3, 2**63 + 1]
    assert ClassIndex(numpy.array([5, 3], dtype=numpy.uint64)).classes == [3, 5]
    assert ClassIndex([]).classes == ClassIndex(torch.empty(0, dtype=torch.int64)).classes == []
    assert ClassIndex(range(2, 4)).classes == [2, 3]


def test_labels_that_can_not_be_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="labels: expected a class, but got NaN for sample 1"):
        ClassIndex(torch.tensor([1.0, float("nan")]))
    with pytest.raises(ValueError, match="but got nan for sample 1"):
        ClassIndex([1.0, float("nan")])
    with pytest.raises(TypeError, match=r"can be the key of a dict, but got .* for sample 1"):
        ClassIndex([1, [2]])
    with pytest.raises(ValueError, match="labels: expected one value for each sample"):
        ClassIndex(torch.zeros(3, 2))


def test_an_unknown_class_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError) as caught:
        ClassSampler(list(range(50)), 77)
    assert str(caught.value) == (
        "no sample has the class 77; the labels have 50 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"
    )


def test_samplers_share_an_index() -> None:
    first = ClassSampler(LABELS, 1)
    second = StratifiedBatchSampler(first.index, 8)
    assert second.index is first.index
    assert copy.deepcopy(second).index is first.index
