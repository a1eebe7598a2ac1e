"""Inspecting batches without loading them, skipping some, and loading one again."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import plain, take
from doubles.stateful import DrawingRows, Indices, IteratorSampler

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZE = 27


class Untouchable(Indices):
    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was loaded")


def loader(dataset: Any = None, **changes: Any) -> Any:
    arguments = {"batch_size": 4, "shuffle": True, "seed": 21} | changes
    return sluicegate.DataLoader(Indices(SIZE) if dataset is None else dataset, **arguments)


def numbered(made: Any) -> dict[int, list[int]]:
    """Return the batches of an epoch by their numbers."""
    found = {}
    for batch, ids in made.with_ids():
        assert plain(batch) == ids.sample_indices.tolist()
        found[ids.batch_index] = plain(batch)
    return found


def epochs(count: int, **changes: Any) -> list[list[Any]]:
    made = loader(**changes)
    return [take(made) for _ in range(count)]


@pytest.mark.parametrize(("there", "here"), [(4, 4), (4, 2), (3, 7)])
def test_samples_of_a_resumed_epoch_are_known_before_it_begins(there: int, here: int) -> None:
    saved = loader(batch_size=there)
    take(iter(saved), 3)
    resumed = loader(batch_size=here)
    resumed.load_state_dict(saved.state_dict())
    known = {number: resumed.samples_of(number).tolist() for number in range(3, 6)}
    batches = {number: plain(resumed.replay(number)) for number in known}
    found = numbered(resumed)
    assert known == batches == {number: found[number] for number in known}


@pytest.mark.parametrize("changes", [{}, {"shuffle": False}, {"drop_last": True}, {"batch_size": 7}], ids=str)
def test_samples_of_any_batch_of_any_epoch_are_known_without_loading(changes: dict[str, Any]) -> None:
    expected = epochs(3, **changes)
    made = loader(Untouchable(SIZE), **changes)
    for epoch in (2, 0, 1):
        for number, batch in enumerate(expected[epoch]):
            samples = made.samples_of(number, epoch=epoch)
            assert isinstance(samples, numpy.ndarray)
            assert samples.dtype == numpy.int64
            assert samples.tolist() == batch
    with pytest.raises(IndexError):
        made.samples_of(len(expected[0]), epoch=0)
    with pytest.raises(IndexError):
        made.samples_of(-len(expected[0]) - 1, epoch=0)


def test_samples_of_the_running_epoch() -> None:
    expected = epochs(2)
    made = loader()
    take(made)
    iterator = iter(made)
    next(iterator)
    assert [made.samples_of(number).tolist() for number in range(7)] == expected[1]
    assert take(iterator) == expected[1][1:]


@pytest.mark.parametrize("generator", [None, torch.Generator()], ids=["global", "given"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_torch_mode_knows_the_batches_of_the_running_epoch(num_workers: int, generator: torch.Generator | None) -> None:
    made = loader(seed=None, num_workers=num_workers, generator=generator)
    drawn_from = torch.default_generator if generator is None else generator
    iterator = iter(made)
    epoch = take(iterator, 2)
    before = drawn_from.get_state()
    known = [made.samples_of(number).tolist() for number in range(7)]
    assert torch.equal(drawn_from.get_state(), before)
    epoch += take(iterator)
    assert known == epoch


@pytest.mark.parametrize("shard", [None, (1, 2)])
@pytest.mark.parametrize("seed", [None, 21])
@pytest.mark.parametrize(
    "given",
    [
        {"sampler": [4, 2, 26, 0, 9]},
        {"sampler": range(20, 3, -2)},
        {"sampler": torch.tensor([3, 1, 2, 8, 5])},
        {"batch_sampler": [[4, 2], [26], [0, 9, 9]], "batch_size": 1},
    ],
    ids=str,
)
def test_indices_that_were_given_are_known_in_every_epoch(
    given: dict[str, Any], seed: int | None, shard: tuple[int, int] | None
) -> None:
    made = loader(shuffle=None, seed=seed, shard=shard, **{"batch_size": 2} | given)
    expected = take(made)
    for epoch in (0, 7, None):
        assert [made.samples_of(number, epoch=epoch).tolist() for number in range(len(expected))] == expected
        assert plain(made.replay(1, epoch=epoch)) == expected[1]
    with pytest.raises(IndexError):
        made.samples_of(len(expected))


@pytest.mark.parametrize("cls", [torch.utils.data.DistributedSampler, sluicegate.DistributedSampler])
def test_torchs_own_shard_is_known_in_every_epoch(cls: Any) -> None:
    sampler = cls(range(SIZE), 2, 1)
    made = loader(shuffle=None, seed=None, sampler=sampler)
    expected = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        expected.append(take(made))
    sampler.set_epoch(0)
    fresh = loader(shuffle=None, seed=None, sampler=sampler)
    for epoch, batches in enumerate(expected):
        assert [fresh.samples_of(number, epoch=epoch).tolist() for number in range(4)] == batches
    assert sampler.epoch == 0
    assert take(fresh) == expected[0]


@pytest.mark.parametrize("seed", [None, 21])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_of_a_sampler_of_ones_own_the_batch_that_was_received_can_be_loaded_again(
    num_workers: int, seed: int | None
) -> None:
    made = loader(shuffle=None, seed=seed, sampler=IteratorSampler(11), num_workers=num_workers)
    iterator = iter(made)
    found = take(iterator, 2)
    assert made.samples_of(1).tolist() == plain(made.replay(1)) == found[1]
    with pytest.raises(ValueError, match="IteratorSampler"):
        made.replay(0)
    assert len(take(iterator)) == 1


def test_samples_of_other_epochs_without_a_seed_is_an_error_that_names_seed() -> None:
    made = loader(seed=None)
    next(iter(made))
    with pytest.raises((ValueError, RuntimeError), match="seed="):
        made.samples_of(0, epoch=5)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    ("batches", "left"), [(2, {2}), (range(1, 4), {1, 2, 3}), ([0, 6], {0, 6}), ((5, 2), {2, 5}), ([], set())]
)
def test_skipped_batches_of_the_next_epoch_do_not_come(batches: Any, left: set[int], num_workers: int) -> None:
    expected = epochs(2)
    made = loader(num_workers=num_workers)
    made.skip(batches)
    assert numbered(made) == {number: batch for number, batch in enumerate(expected[0]) if number not in left}
    assert take(made) == expected[1]


def test_any_iterable_of_batches_can_be_skipped() -> None:
    for batches in ((number for number in (1, 4)), numpy.array([1, 4]), torch.tensor([1, 4])):
        made = loader()
        made.skip(batches)
        assert list(numbered(made)) == [0, 2, 3, 5, 6]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("seed", [21, None])
def test_batches_of_the_running_epoch_are_skipped_also_when_fetched_ahead(num_workers: int, seed: int | None) -> None:
    made = loader(num_workers=num_workers, seed=seed)
    iterator = iter(made)
    found = take(iterator, 2)
    left_out = [made.samples_of(number).tolist() for number in (2, 5)]
    made.skip([2, 5])
    found += take(iterator)
    assert len(found) == 5
    assert sorted(index for batch in found + left_out for index in batch) == list(range(SIZE))
    assert len(take(made)) == 7


def test_batches_of_another_epoch_are_skipped_when_it_comes() -> None:
    expected = epochs(3)
    made = loader()
    made.skip(range(2), epoch=1)
    assert take(made) == expected[0]
    assert take(made) == expected[1][2:]
    assert take(made) == expected[2]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("seed", [21, None])
def test_skipped_samples_are_left_out_from_every_later_batch(num_workers: int, seed: int | None) -> None:
    torch.manual_seed(2)
    expected = epochs(2, num_workers=num_workers, seed=seed)
    bad = [expected[0][2][1], expected[0][4][0], expected[0][4][3]]
    torch.manual_seed(2)
    made = loader(num_workers=num_workers, seed=seed)
    made.skip_samples(bad)
    for epoch in expected:
        left = [[index for index in batch if index not in bad] for batch in epoch]
        assert take(made) == [batch for batch in left if batch]  # an empty batch is not returned


def test_skipped_samples_may_be_an_array_and_add_up() -> None:
    made = loader(batch_size=1, shuffle=False)
    made.skip_samples(numpy.array([3, 4]))
    made.skip_samples([4, 10])
    assert [index for batch in take(made) for index in batch] == [i for i in range(SIZE) if i not in (3, 4, 10)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_samples_are_skipped_in_the_running_epoch(num_workers: int) -> None:
    expected = epochs(1)[0]
    made = loader(num_workers=num_workers)
    iterator = iter(made)
    found = take(iterator, 2)
    bad = [expected[0][0], *expected[5][:2]]
    made.skip_samples(bad)
    found += take(iterator)
    assert found == expected[:2] + [[index for index in batch if index not in bad] for batch in expected[2:]]


@pytest.mark.parametrize("changes", [{"batch_size": 2}, {"shard": (0, 2)}], ids=str)
def test_skipped_batches_that_are_still_to_come_mean_the_same_in_one_layout_alone(changes: dict[str, Any]) -> None:
    made = loader()
    iterator = iter(made)
    take(iterator, 2)
    made.skip([1, 4])
    made.skip_samples([3])
    state = made.state_dict()
    with pytest.raises(ValueError, match=r"batches skipped \(skip\) .* expected \(4, 1\), got"):
        loader(**changes).load_state_dict(state)
    loader().load_state_dict(state)
    take(iterator, 3)
    # No skipped batches are left in the epoch.
    loader(**changes).load_state_dict(made.state_dict())


@pytest.mark.parametrize("seed", [21, None])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_skipped_batches_and_samples_are_part_of_the_state(seed: int | None, num_workers: int) -> None:
    made = loader(num_workers=num_workers, seed=seed)
    iterator = iter(made)
    take(iterator, 1)
    made.skip([3])
    made.skip_samples([2, 7])
    take(iterator, 1)
    state = json.loads(json.dumps(made.state_dict()))
    rest = take(iterator)
    assert len(rest) == 4
    later = take(made)
    assert sum(map(len, later)) == SIZE - 2
    fresh = loader(num_workers=num_workers, seed=seed)
    fresh.load_state_dict(state)
    assert take(fresh) == rest
    assert take(fresh) == later


@pytest.mark.parametrize("seed", [21, None])
def test_batches_skipped_before_a_resume_are_part_of_the_state(seed: int | None) -> None:
    made = loader(seed=seed)
    iterator = iter(made)
    take(iterator, 1)
    state = made.state_dict()
    rest = take(iterator)
    resumed = loader(seed=seed)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    resumed.skip([2])
    again = loader(seed=seed)
    again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    assert take(again) == take(resumed) == [rest[0], *rest[2:]]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("changes", [{}, {"shard": (1, 2)}, {"batch_size": None}], ids=str)
def test_any_batch_can_be_loaded_again_bit_for_bit(num_workers: int, changes: dict[str, Any]) -> None:
    random.seed(1)
    made = loader(DrawingRows(SIZE), num_workers=num_workers, **changes)
    expected = [take(made) for _ in range(2)]
    torch.manual_seed(9)
    for epoch, number in ((1, 0), (0, 3), (1, 2)):
        assert plain(loader(DrawingRows(SIZE), **changes).replay(number, epoch=epoch)) == expected[epoch][number]
        assert plain(made.replay(number, epoch=epoch)) == expected[epoch][number]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loading_a_batch_again_does_not_disturb_the_epoch(num_workers: int) -> None:
    made = loader(DrawingRows(SIZE), num_workers=num_workers)
    expected = take(made)
    made.set_epoch(0)
    before = torch.get_rng_state()
    iterator = iter(made)
    found = take(iterator, 3)
    state = made.state_dict()
    assert plain(made.replay(1)) == expected[1]
    assert plain(made.replay(5)) == expected[5]
    assert made.state_dict() == state
    assert made.last_ids.batch_index == 2
    assert found + take(iterator) == expected
    if num_workers == 0:
        assert torch.equal(torch.get_rng_state(), before)


def test_torch_mode_loads_batches_of_the_running_epoch_again() -> None:
    made = loader(seed=None)
    iterator = iter(made)
    found = take(iterator, 3)
    assert plain(made.replay(1)) == found[1]
    ahead = plain(made.replay(4))
    assert take(iterator)[1] == ahead


def ranks_of(world_size: int, batch_size: int | None, **arguments: Any) -> list[Any]:
    return [
        sluicegate.DataLoader(Indices(24), batch_size, True, seed=3, shard=(rank, world_size), **arguments)
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_ranks_take_equally_many_steps_with_skipped_samples(batch_size: int | None, num_workers: int) -> None:
    whole = [int(ids.sample_indices[0]) for _, ids in sluicegate.DataLoader(Indices(24), None, True, seed=3).with_ids()]
    left_out = {whole[0], *whole[4:8]}  # One sample of a step, and both ranks' samples of two steps.
    steps = []
    seen = []
    for each in ranks_of(2, batch_size, num_workers=num_workers):
        each.skip_samples(left_out)
        pairs = list(each.with_ids())
        steps.append([ids.batch_index for _, ids in pairs])
        for batch, ids in pairs:
            assert numpy.array_equal(numpy.atleast_1d(numpy.asarray(plain(batch))).ravel(), ids.sample_indices)
            assert not left_out & set(ids.sample_indices.tolist())
            seen += ids.sample_indices[ids.valid].tolist()
    assert steps[0] == steps[1]
    assert sorted(seen) == sorted(set(range(24)) - left_out), "each sample counts once"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_padded_samples_can_be_skipped_on_every_rank(num_workers: int) -> None:
    whole = [int(ids.sample_indices[0]) for _, ids in sluicegate.DataLoader(Indices(24), None, True, seed=3).with_ids()]
    steps = []
    for each in ranks_of(2, 1, num_workers=num_workers):
        each.skip_samples([whole[20]])
        iterator = each.with_ids()
        found = [next(iterator)[1].batch_index for _ in range(2)]
        each.skip_samples([whole[21]])  # That step is now empty.
        steps.append(found + [ids.batch_index for _, ids in iterator])
    assert steps == [[*range(10), 11]] * 2


@pytest.mark.parametrize("seed", [None, 3])
def test_the_length_is_without_batches_that_are_left_out(seed: int | None) -> None:
    each = sluicegate.DataLoader(Indices(24), 4, True, seed=seed)
    each.skip([0, 3, 99])
    each.skip(1, epoch=1)
    assert len(each) == 4 == len(list(each))
    assert len(each) == 5 == len(list(each))
    assert len(each) == 6


def test_batches_and_epochs_count_from_0() -> None:
    made = loader()
    for wrong in (-1, [2, -3]):
        with pytest.raises(ValueError, match="must be at least 0"):
            made.skip(wrong)
    with pytest.raises(ValueError, match="must be at least 0"):
        made.skip(1, epoch=-1)
    with pytest.raises(TypeError):
        made.skip(["1"])
    assert len(made) == len(take(made)) == 7
