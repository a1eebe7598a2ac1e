"""When `state_dict` and `load_state_dict` may be called, and what they do at each of these times."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
from collections.abc import Iterator, Mapping, Sized
from typing import Any

import pytest
import torch

import sluicegate
from cases.loader_kinds import KINDS, MAP_KINDS, SIZE, make, plain, read, take
from checks.equality import assert_same
from doubles.datasets import Rows
from doubles.stateful import EpochStream, Indices, RearmedStream

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]

EVERY_KIND = [(kind, 0) for kind in KINDS] + [
    ("shuffle", 1),
    ("dataset state", 2),
    ("stateful sampler", 1),
    ("own iterator", 2),
    ("stateful stream", 3),
]
every_kind = pytest.mark.parametrize(("kind", "num_workers"), EVERY_KIND)
FEW_KINDS = [("shuffle", 0), ("native", 0), ("stateful sampler", 0), ("own iterator", 0)]


@functools.cache
def whole(kind: str, num_workers: int) -> tuple[list[Any], dict[str, Any]]:
    """Return the batches of an epoch, and the states after iter, on the last batch, and after the loop."""
    loader = make(kind, num_workers)
    states, epoch = read(loader)
    return epoch, {
        "after iter": states[0],
        "on the last batch": states[-1],
        "after the loop": loader.state_dict(),
    }


def resumed_from(time: str, kind: str, num_workers: int) -> tuple[list[Any], Any]:
    """Return the batches of an epoch, and another loader with the state at this time."""
    epoch, states = whole(kind, num_workers)
    fresh = make(kind, num_workers)
    fresh.load_state_dict(copy.deepcopy(states[time]))
    return epoch, fresh


@every_kind
def test_a_state_before_the_first_iter_does_not_disturb_the_epoch(kind: str, num_workers: int) -> None:
    torch.manual_seed(4)
    undisturbed = take(make(kind, num_workers))
    torch.manual_seed(4)
    loader = make(kind, num_workers)
    state = loader.state_dict()
    assert take(loader) == undisturbed
    fresh = make(kind, num_workers)
    torch.manual_seed(4)
    fresh.load_state_dict(state)
    assert take(fresh) == undisturbed


@every_kind
def test_a_state_after_iter_brings_back_the_whole_epoch(kind: str, num_workers: int) -> None:
    epoch, fresh = resumed_from("after iter", kind, num_workers)
    torch.manual_seed(99)
    assert take(fresh) == epoch


@every_kind
def test_a_state_on_the_last_batch_leaves_nothing_and_the_next_epoch_is_full(kind: str, num_workers: int) -> None:
    epoch, fresh = resumed_from("on the last batch", kind, num_workers)
    assert take(fresh) == []
    assert len(take(fresh)) == len(epoch)


@every_kind
def test_a_state_after_the_loop_brings_a_whole_new_epoch(kind: str, num_workers: int) -> None:
    epoch, fresh = resumed_from("after the loop", kind, num_workers)
    torch.manual_seed(8)
    for _ in range(1 if num_workers else 2):  # workers are slow to start
        assert len(take(fresh)) == len(epoch)


BEFORE = ["fresh", "partly read", "asked", "the loader itself", "ended"]


# With workers, each occurs with a dataset or with a stream.
@pytest.mark.parametrize(
    ("kind", "num_workers", "before"),
    [
        *((*each, before) for each in FEW_KINDS for before in BEFORE),
        ("stateful stream", 3, "fresh"),
        ("shuffle", 2, "partly read"),
        ("stateful stream", 3, "asked"),
        ("shuffle", 2, "the loader itself"),
        ("stateful stream", 3, "the loader itself"),
        ("shuffle", 2, "ended"),
    ],
)
def test_a_state_loads_into_any_loader(kind: str, num_workers: int, before: str) -> None:
    source = make(kind, num_workers)
    iterator = iter(source)
    take(iterator, 2)
    state = source.state_dict()
    rest = take(iterator)
    target = source if before == "the loader itself" else make(kind, num_workers)
    if before == "partly read":
        take(iter(target), 3)
    elif before == "asked":
        target.state_dict()
    elif before == "ended":
        take(target)
    target.load_state_dict(state)
    assert take(target) == rest
    assert len(take(target)) == len(rest) + 2, "a loaded state is used once"


@every_kind
def test_state_dict_returns_the_loaded_state_before_iteration(kind: str, num_workers: int) -> None:
    loader = make(kind, num_workers)
    take(iter(loader), 2)
    state = loader.state_dict()
    fresh = make(kind, num_workers)
    fresh.load_state_dict(state)
    assert_same(fresh.state_dict(), state)
    assert_same(fresh.state_dict(), state)


@pytest.mark.parametrize("kind", MAP_KINDS)
def test_state_dict_returns_a_loaded_end_of_epoch_before_iteration(kind: str) -> None:
    loader = make(kind)
    for _ in loader:
        on_the_last_batch = loader.state_dict()
    for state in (on_the_last_batch, loader.state_dict()):
        fresh = make(kind)
        fresh.load_state_dict(state)
        assert_same(fresh.state_dict(), state)


@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_without_a_position_between_epochs_resumes_there(
    num_workers: int, persistent_workers: bool, is_begun: bool
) -> None:
    def new() -> sluicegate.DataLoader[Any]:
        stream = RearmedStream([3, 4])
        return sluicegate.DataLoader(stream, 2, num_workers=num_workers, persistent_workers=persistent_workers)

    loader, resumed = new(), new()
    for _ in loader:
        pass
    rest = iter(loader) if is_begun else loader
    resumed.load_state_dict(loader.state_dict())
    assert_same(list(resumed), list(rest))


def test_the_two_states_of_an_end_differ() -> None:
    loader = make("sequential")
    for _ in loader:
        on_the_last_batch = loader.state_dict()
    assert loader.state_dict() != on_the_last_batch


# With workers, each occurs with a dataset or with a stream.
@pytest.mark.parametrize(
    ("kind", "num_workers", "left"),
    [
        *((*each, left) for each in FEW_KINDS for left in ("thrown away", "break")),
        ("stateful stream", 3, "thrown away"),
        ("shuffle", 2, "break"),
    ],
)
def test_the_loader_keeps_its_iterator(kind: str, num_workers: int, left: str) -> None:
    loader = make(kind, num_workers)
    seen: list[Any] = []
    if left == "break":
        for batch in loader:
            seen.append(plain(batch))
            if len(seen) == 3:
                break
    else:
        iter(loader)
    state = loader.state_dict()
    fresh, again = make(kind, num_workers), make(kind, num_workers)
    again.load_state_dict(state)
    fresh.load_state_dict(state)
    rest = take(fresh)
    assert len(rest) + len(seen) == len(take(fresh))
    assert take(again) == rest
    indices = [index for batch in seen + rest for index in (batch if isinstance(batch, list) else [batch])]
    assert len(set(indices)) == len(indices)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_is_a_sized_mapping_that_can_be_compared(num_workers: int) -> None:
    loader = make("shuffle", num_workers)
    iterator = iter(loader)
    states = [loader.state_dict(), loader.state_dict()]
    next(iterator)
    states.append(loader.state_dict())
    for state in states:
        assert isinstance(state, Mapping)
        assert isinstance(state, Sized)
        assert len(state) > 0
    assert (states[0] == states[1]) is True
    assert (states[0] == states[2]) is False


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_on_every_step_of_a_long_epoch(num_workers: int) -> None:
    loader = make("shuffle", num_workers, dataset=Indices(100), batch_size=1)
    epoch, states = [], []
    for batch in loader:
        epoch.append(plain(batch))
        states.append(loader.state_dict())
    assert sorted(index for batch in epoch for index in batch) == list(range(100))
    for step in (0, 1, 49, 98, 99):
        fresh = make("shuffle", dataset=Indices(100), batch_size=1)
        fresh.load_state_dict(states[step])
        assert take(fresh) == epoch[step + 1 :]


@pytest.mark.parametrize(
    ("kind", "saved", "resumed"),
    [
        *((kind, 0, 1) for kind in ("sequential", "native", "shuffle", "stateful sampler", "batch sampler")),
        *((kind, 2, 0) for kind in ("sequential", "native", "shuffle", "stateful sampler", "batch sampler")),
        ("shuffle", 1, 3),
        ("stateful sampler", 1, 3),
    ],
)
def test_map_style_states_move_to_another_number_of_workers(kind: str, saved: int, resumed: int) -> None:
    loader = make(kind, saved)
    iterator = iter(loader)
    take(iterator, 2)
    state = loader.state_dict()
    rest = take(iterator)
    torch.manual_seed(6)
    fresh = make(kind, resumed)
    fresh.load_state_dict(state)
    assert take(fresh) == rest
    assert len(take(fresh)) == len(rest) + 2


@pytest.mark.parametrize(("saved", "resumed"), [(0, 2), (2, 0), (2, 3)])
@pytest.mark.parametrize("kind", ["own iterator", "stateful stream", "stream without state"])
def test_iter_refuses_a_stream_with_another_number_of_workers(kind: str, saved: int, resumed: int) -> None:
    loader = make(kind, saved)
    take(iter(loader), 2)
    fresh = make(kind, resumed)
    fresh.load_state_dict(loader.state_dict())
    with pytest.raises(AssertionError, match=rf"\b{saved}\b.*\b{resumed}\b|\b{resumed}\b.*\b{saved}\b"):
        iter(fresh)


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_an_iterator_taken_before_a_state_is_loaded_is_abandoned(persistent_workers: bool) -> None:
    loader = make("shuffle", 2, persistent_workers=persistent_workers)
    iterator = iter(loader)
    take(iterator, 1)
    state = loader.state_dict()
    rest = take(iterator)
    abandoned = iter(loader)
    next(abandoned)
    workers = list(abandoned._workers)
    loader.load_state_dict(state)
    assert take(loader) == rest
    assert len(take(loader)) == len(rest) + 1
    del abandoned, iterator, loader
    gc.collect()
    for worker in workers:
        worker.join(20)
        assert worker.exitcode is not None


class DrawnAtOnce(torch.utils.data.Sampler):
    """Draws its order when its iterator is created."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(SIZE).tolist())

    def __len__(self) -> int:
        return SIZE


@pytest.mark.parametrize("resumed", [0, 1, 3])
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("sampler", [None, DrawnAtOnce()], ids=["shuffle", "own sampler"])
def test_a_resumed_run_draws_at_the_same_points_as_the_uninterrupted_one(
    sampler: Any, native: bool, resumed: int
) -> None:
    # The consumer draws from the same generator, after the sampler and before the next epoch.
    order = {"shuffle": True} if sampler is None else {"sampler": sampler}
    dataset: Any = torch.arange(SIZE) if native else Indices(SIZE)

    def run(loader: Any, iterator: Any) -> list[Any]:
        return [(plain(batch), torch.rand(1).item()) for batch in iterator]

    loader = make("sequential", 0, dataset=dataset, **order)
    take(iter(loader), 2)
    iterator = iter(loader)
    torch.rand(3)
    state = loader.state_dict()
    expected = run(loader, iterator)
    fresh = make("sequential", resumed, dataset=dataset, **order)
    fresh.load_state_dict(state)
    torch.manual_seed(99)
    assert run(fresh, iter(fresh)) == expected


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resume_advances_the_users_generator_exactly_as_before(native: bool, stop: int) -> None:
    # At the end of an epoch, torch's RandomSampler draws once more without using the result.
    def made() -> tuple[Any, torch.Generator]:
        generator = torch.Generator().manual_seed(8)
        dataset: Any = torch.arange(12) if native else Indices(12)
        return make("sequential", dataset=dataset, batch_size=4, shuffle=True, generator=generator), generator

    loader, generator = made()
    take(iter(loader), stop)
    state, before = loader.state_dict(), generator.get_state()
    expected = [take(loader), take(loader)]
    fresh, generator = made()
    fresh.load_state_dict(state)
    iter(fresh)
    assert torch.equal(generator.get_state(), before)
    assert [take(fresh), take(fresh)] == expected
    ended, _ = made()
    ended.load_state_dict(state)
    assert len(take(ended)) == 3 - stop
    whole, _ = made()
    take(whole)
    assert take(ended) == take(whole)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_native_dataset_resumes_like_any_other(num_workers: int) -> None:
    rows = Rows(SIZE)
    loader = make("native", num_workers, dataset=torch.utils.data.TensorDataset(rows.values, torch.arange(SIZE)))
    iterator = iter(loader)
    take(iterator, 2)
    state = loader.state_dict()
    rest = take(iterator)
    fresh = make("native", num_workers, dataset=rows)
    fresh.load_state_dict(state)
    assert take(fresh) == rest


class Positioned(torch.utils.data.Sampler[int]):
    """A sampler that continues from its position, as those do that count their samples."""

    def __init__(self, position: int = 0) -> None:
        self.position = position

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[int]:
        while self.position < 8:
            self.position += 1
            yield self.position - 1
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


# Every two values of different parameters occur together; workers are slow to start.
@pytest.mark.parametrize(
    ("start", "begins", "num_workers"),
    [*itertools.product([0, 4], [False, True], [0]), (0, True, 2), (4, False, 2)],
)
def test_a_state_before_the_first_batch_has_the_position_of_the_sampler(
    start: int, begins: bool, num_workers: int
) -> None:
    def made(position: int) -> Any:
        return sluicegate.DataLoader(range(8), 2, sampler=Positioned(position), num_workers=num_workers)

    loader = made(start)
    iterator = iter(loader) if begins else None
    state = loader.state_dict()
    received = next(iter(loader) if iterator is None else iterator)
    assert received.tolist() == [start, start + 1]
    for resumed in (loader, made(0), made(6)):
        resumed.load_state_dict(state)
        epochs = [[index for batch in resumed for index in batch.tolist()] for _ in range(2)]
        assert epochs == [list(range(start, 8)), list(range(8))]


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_a_state_from_the_start_of_a_later_epoch_has_the_count_of_the_stream(
    worker_type: str, persistent_workers: bool
) -> None:
    def loader() -> Any:
        return sluicegate.DataLoader(
            EpochStream([6]), 2, num_workers=1, worker_type=worker_type, persistent_workers=persistent_workers
        )

    undisturbed = loader()
    epochs = [take(undisturbed) for _ in range(3)]
    for epoch, batches in enumerate(epochs):
        original = loader()
        for _ in range(epoch):
            take(original)
        iterator = iter(original)
        states = [original.state_dict()]
        for batch in batches:
            assert next(iterator).tolist() == batch
            states.append(original.state_dict())
        for received, state in enumerate(states):
            resumed = loader()
            resumed.load_state_dict(state)
            assert take(resumed) == batches[received:], (epoch, received)
