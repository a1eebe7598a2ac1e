"""The batches of a resumed loader, for every kind of dataset, iterator, and sampler."""

from __future__ import annotations

import copy
import json
import warnings
from typing import Any

import pytest
import torch
from torch.utils.data import RandomSampler, SequentialSampler

from cases.loader_kinds import KINDS, SIZES, STREAM_KINDS, ends, make, plain, take
from checks.equality import assert_same
from doubles.stateful import (
    CountedGeneratorStream,
    CountedOwnIteratorStream,
    CountedPlainStream,
    DrawingStream,
    EpochStream,
    GlobalRngRows,
    GrowingRows,
    Indices,
    OwnIteratorStream,
    PlainStream,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_resumes_wherever_it_was_left(kind: str) -> None:
    for number, state, rest in ends(kind, 0):
        fresh = make(kind)
        fresh.load_state_dict(state)
        assert take(fresh) == rest, number


# Without workers, every kind is resumed at every point.
@pytest.mark.parametrize(
    ("kind", "num_workers", "persistent_workers", "stops"),
    [
        ("shuffle", 2, False, (0, 3)),
        ("dataset state", 2, True, (1, 6)),
        ("dataset state with tensors", 2, False, (0, 3)),
        ("stateful sampler", 2, True, (1, 6)),
        ("stateful sampler iterator", 2, False, (0, 3)),
        ("stateful iterator", len(SIZES), True, (1, 6)),
        ("own iterator", len(SIZES), False, (0, 3)),
        ("stateful stream", len(SIZES), True, (1, 6)),
        ("stream without state", len(SIZES), False, (0, 3)),
        ("unbatched stream", len(SIZES), True, (1, 6)),
    ],
)
def test_rest_of_an_epoch_is_resumed_with_workers(
    kind: str, num_workers: int, persistent_workers: bool, stops: tuple[int, int]
) -> None:
    for number, state, rest in ends(kind, num_workers):
        if number in stops:
            fresh = make(kind, num_workers, persistent_workers=persistent_workers)
            fresh.load_state_dict(state if "tensors" in kind else json.loads(json.dumps(state)))
            assert take(fresh) == rest, number


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["shuffle", "own iterator", "stateful stream"])
def test_old_and_new_loader_may_share_the_dataset(kind: str, num_workers: int) -> None:
    dataset = KINDS[kind]()["dataset"]
    loader = make(kind, num_workers, dataset=dataset)
    iterator = iter(loader)
    take(iterator, 2)
    state = loader.state_dict()
    rest = take(iterator)
    fresh = make(kind, num_workers, dataset=dataset)
    fresh.load_state_dict(state)
    assert take(fresh) == rest


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stream", [CountedPlainStream, CountedGeneratorStream, CountedOwnIteratorStream])
def test_iter_is_called_once_for_a_start_and_once_for_a_resume(stream: type, num_workers: int) -> None:
    def calls(batches: list[Any]) -> set[int]:
        return {count for counts, _ in batches for count in counts}

    loader = make("stateful stream", num_workers, dataset=stream([6, 6]))
    iterator = iter(loader)
    first = take(iterator, 2)
    state = loader.state_dict()
    assert calls(first) | calls(take(iterator)) == {1}
    fresh = make("stateful stream", num_workers, dataset=stream([6, 6]))
    fresh.load_state_dict(state)
    assert calls(take(fresh)) == {1}


@pytest.mark.parametrize("num_workers", [0, 3])
def test_a_stream_without_a_state_is_fast_forwarded_with_a_warning(num_workers: int) -> None:
    loader = make("stream without state", num_workers)
    iterator = iter(loader)
    take(iterator, 3)
    state = loader.state_dict()
    rest = take(iterator)
    fresh = make("stream without state", num_workers, dataset=PlainStream(SIZES))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh.load_state_dict(state)
        assert take(fresh) == rest
    assert [warning for warning in caught if "forward" in str(warning.message) and warning.category is UserWarning]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rng_state_a_dataset_restores_is_in_force_at_the_first_sample(num_workers: int, shuffle: bool) -> None:
    for number, state, rest in ends("sequential", num_workers, dataset=GlobalRngRows(14), shuffle=shuffle):
        if number in (0, 1, 4):
            fresh = make("sequential", num_workers, dataset=GlobalRngRows(14), shuffle=shuffle)
            torch.manual_seed(1000 + number)
            fresh.load_state_dict(state)
            found = take(fresh)
            assert [indices for indices, _ in found] == [indices for indices, _ in rest]
            if number > 0 or not shuffle:  # before the first batch, the sampler still has to draw
                assert found == rest


@pytest.mark.parametrize("num_workers", [0, 3])
def test_the_rng_state_an_iterator_restores_is_in_force_at_the_first_sample(num_workers: int) -> None:
    for number, state, rest in ends("stateful iterator", num_workers, dataset=DrawingStream([9, 9, 9])):
        if number in (3, 4):
            torch.manual_seed(1000 + number)
            fresh = make("stateful iterator", num_workers, dataset=DrawingStream([9, 9, 9]))
            fresh.load_state_dict(state)
            assert take(fresh) == rest


@pytest.mark.parametrize("kind", ["reseeded generator", "reseeded global", "sequential"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_samplers_without_state_are_read_again(kind: str, num_workers: int) -> None:
    def loader() -> Any:
        torch.manual_seed(12)
        generator = torch.Generator().manual_seed(3) if kind == "reseeded generator" else None
        sampler: Any = SequentialSampler(range(20))
        if kind != "sequential":
            sampler = RandomSampler(range(20), generator=generator)
        return make("sequential", num_workers, dataset=Indices(20), sampler=sampler, batch_size=3)

    source = loader()
    iterator = iter(source)
    take(iterator, 2)
    state = source.state_dict()
    rest = take(iterator)
    fresh = loader()
    fresh.load_state_dict(state)
    assert take(fresh) == rest


@pytest.mark.parametrize(
    ("kind", "num_workers"),
    [
        *((kind, 0) for kind in ("sequential", "shuffle", "native", "shuffle, generator", "dataset state")),
        # Only the state of a dataset is that of each worker.
        *((kind, 1) for kind in ("sequential", "shuffle", "native", "shuffle, generator")),
        ("dataset state", 2),
    ],
)
def test_epochs_after_a_resume_equal_those_of_an_uninterrupted_run(kind: str, num_workers: int) -> None:
    changes = {"persistent_workers": num_workers > 0 and kind == "dataset state"}
    torch.manual_seed(20)
    whole = make(kind, num_workers, **changes)
    expected = [take(whole) for _ in range(4)]
    torch.manual_seed(20)
    loader = make(kind, num_workers, **changes)
    found = [take(loader) for _ in range(2)]
    state = loader.state_dict()
    fresh = make(kind, num_workers, **changes)
    fresh.load_state_dict(state)
    found += [take(fresh) for _ in range(2)]
    assert found == expected


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (2, False), (2, True)])
def test_an_ended_epochs_state_and_a_reseeded_generator_give_the_second_epoch(
    batch_size: int | None, num_workers: int, persistent_workers: bool
) -> None:
    def loader() -> Any:
        return make(
            "dataset state",
            num_workers,
            batch_size=batch_size,
            persistent_workers=persistent_workers,
            generator=torch.Generator().manual_seed(5),
        )

    source = loader()
    take(source)
    state = source.state_dict()
    fresh = loader()
    fresh.load_state_dict(state)
    second = take(source)
    assert take(fresh) == second


@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (3, True)])
@pytest.mark.parametrize("stop", [0, 3, None])
def test_a_datasets_state_carries_over_epochs(num_workers: int, persistent_workers: bool, stop: int | None) -> None:
    def loader() -> Any:
        dataset = EpochStream([5, 0, 4])
        return make("stateful stream", num_workers, dataset=dataset, persistent_workers=persistent_workers)

    source = loader()
    take(source)
    iterator = iter(source)
    take(iterator, stop)
    state = source.state_dict()
    expected = [take(iterator)] if stop is not None else []
    expected += [take(source) for _ in range(2)]
    fresh = loader()
    fresh.load_state_dict(state)
    found = [take(fresh) for _ in expected]
    assert found == expected
    assert {item // 10_000 for batch in found[-1] for item in batch} == {3}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", STREAM_KINDS)
def test_two_epochs_of_a_stateful_stream_are_equal(kind: str, num_workers: int) -> None:
    loader = make(kind, num_workers)
    first = take(loader)
    loader.state_dict()
    assert take(loader) == first
    assert len(first) > 0


@pytest.mark.parametrize(
    ("kind", "every", "num_workers", "persistent_workers"),
    [
        ("shuffle", 1, 0, False),
        ("shuffle", 15, 0, False),
        ("stateful stream", 1, 0, False),
        ("stateful stream", 15, 0, False),
        ("shuffle", 1, 2, False),
        ("stateful stream", 15, 2, True),
    ],
)
def test_an_older_state_brings_the_whole_epoch_again(
    kind: str, every: int, num_workers: int, persistent_workers: bool
) -> None:
    loader = make(kind, num_workers, persistent_workers=persistent_workers, snapshot_every_n_steps=every)
    iterator = iter(loader)
    start = loader.state_dict()
    epoch = take(iterator, 2)
    middle = loader.state_dict()
    loader.load_state_dict(middle)
    epoch += take(loader)
    loader.load_state_dict(start)
    assert take(loader) == epoch
    loader.load_state_dict(middle)
    assert take(loader) == epoch[2:]


@pytest.mark.parametrize(
    ("kind", "num_workers"),
    [
        *((kind, 0) for kind in ("shuffle", "dataset state", "stateful sampler", "own iterator", "stateful stream")),
        *((kind, 2) for kind in ("shuffle", "dataset state", "stateful sampler")),
        *((kind, len(SIZES)) for kind in ("own iterator", "stateful stream")),
    ],
)
def test_a_resumed_loader_has_the_states_of_the_uninterrupted_one(kind: str, num_workers: int) -> None:
    states = [state for _, state, _ in ends(kind, num_workers)]
    fresh = make(kind, num_workers)
    fresh.load_state_dict(states[2])
    iterator = iter(fresh)
    for number in range(3, len(states)):  # the first of them comes before every worker has delivered again
        next(iterator)
        assert_same(fresh.state_dict(), states[number])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_growing_states_of_live_objects_stay_as_they_were_returned(num_workers: int) -> None:
    states, copies, batches = [], [], []
    loader = make("sequential", num_workers, dataset=GrowingRows(12))
    for batch in loader:
        batches.append(plain(batch))
        states.append(loader.state_dict())
        copies.append(copy.deepcopy(states[-1]))
    for number, (state, snapshot) in enumerate(zip(states, copies, strict=True), start=1):
        assert_same(state, snapshot)
        if number in (1, 2, 5):
            fresh = make("sequential", num_workers, dataset=GrowingRows(12))
            fresh.load_state_dict(state)
            assert take(fresh) == batches[number:]
            assert_same(state, snapshot)
    assert str(states[0]) != str(states[1])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dataset state with tensors"])
def test_states_go_through_json(kind: str) -> None:
    for number, state, rest in ends(kind, 0):
        text = json.dumps(state)
        tuples = {name: list(value) for name, value in state.items() if isinstance(value, tuple)}
        assert json.loads(text) == state | tuples
        if number in (0, 1, 4):
            fresh = make(kind)
            fresh.load_state_dict(json.loads(text))
            assert take(fresh) == rest, number


@pytest.mark.parametrize("num_workers", [0, 3])
def test_a_dataset_that_is_its_own_iterator_has_its_state_stored_once_per_worker(num_workers: int) -> None:
    loader = make("own iterator", num_workers, dataset=OwnIteratorStream([9, 7, 5]))
    iterator = iter(loader)
    take(iterator, 3)
    assert json.dumps(loader.state_dict()).count('"limit"') == max(num_workers, 1)


def test_the_size_of_a_state_does_not_grow_with_the_dataset() -> None:
    sizes = []
    for size in (100, 100_000):
        loader = make("shuffle", dataset=Indices(size))
        take(iter(loader), 10)
        sizes.append(len(json.dumps(loader.state_dict())))
    assert abs(sizes[1] - sizes[0]) < 64
    assert sizes[0] < 32_768
