"""`snapshot_every_n_steps` and `in_order=False` with states."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cases.loader_kinds import make, take
from cases.pairs import in_pairs
from doubles.datasets import UnevenStream
from doubles.stateful import CongruentRows, GeneratorStream, Indices

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*forward.*:UserWarning"),
]


class Slow(Indices):
    """Its first two samples are slow, so that others overtake them."""

    def __getitem__(self, index: int) -> Any:
        if index < 2:
            time.sleep(0.2)
        return index


def build(kind: str, num_workers: int, every: int) -> Any:
    if kind == "rows":
        return make("dataset state", num_workers, dataset=CongruentRows(52), snapshot_every_n_steps=every)
    return make("stateful stream", num_workers, dataset=GeneratorStream([52, 3]), snapshot_every_n_steps=every)


STEPS = [(17, 19, 17), (15, 4, 1), (10, 0, 10), (1, 7, 3), (2, 7, 0), (0, 11, 5), (3, 6, 3)]


# Only a stream in workers has snapshots of its own.
@pytest.mark.parametrize(
    ("kind", "num_workers", "every", "stop", "resumed"),
    [
        *((*each, *steps) for each in (("rows", 0), ("stream", 0), ("stream", 2)) for steps in STEPS),
        *(("rows", 2, *steps) for steps in STEPS[::2]),
    ],
)
def test_any_interval_resumes_at_any_step(kind: str, num_workers: int, every: int, stop: int, resumed: int) -> None:
    loader = build(kind, num_workers, every)
    iterator = iter(loader)
    take(iterator, stop)
    state = loader.state_dict()
    rest = take(iterator)
    fresh = build(kind, num_workers, resumed)
    fresh.load_state_dict(state)
    iterator = iter(fresh)
    found = take(iterator, 2)
    again = build(kind, num_workers, every)
    again.load_state_dict(fresh.state_dict())
    assert found + take(iterator) == rest
    assert take(again) == rest[2:]


@pytest.mark.parametrize("every", [0, 4])
def test_every_step_between_snapshots_is_a_step_to_resume_at(every: int) -> None:
    loader = build("stream", 0, every)
    batches, states = [], [loader.state_dict()]
    for batch in loader:
        batches.append(batch.tolist())
        states.append(loader.state_dict())
    for stop, state in enumerate(states):
        fresh = build("stream", 0, every)
        fresh.load_state_dict(state)
        assert take(fresh) == batches[stop:]


@pytest.mark.prefetch
@pytest.mark.parametrize(
    ("kind", "stop", "resumed_in_order"),
    in_pairs(["sequential", "shuffle", "stateful sampler"], [0, 1, 4, 10], [False, True]),
)
def test_out_of_order_map_style_nothing_is_lost_or_repeated(kind: str, stop: int, resumed_in_order: bool) -> None:
    changes = {"sampler": None} if kind != "stateful sampler" else {}
    loader = make(kind, 2, dataset=Slow(11), batch_size=1, in_order=False, **changes)
    iterator = iter(loader)
    seen = take(iterator, stop)
    state = loader.state_dict()
    fresh = make(kind, 2, dataset=Slow(11), batch_size=1, in_order=resumed_in_order, **changes)
    fresh.load_state_dict(state)
    assert sorted(seen + take(fresh)) == [[index] for index in range(11)]


@pytest.mark.parametrize("stop", [4, 8])
def test_out_of_order_streams_resume_in_the_order_of_the_workers(stop: int) -> None:
    loader = make(
        "sequential", 2, dataset=UnevenStream([5, 5], stall=1.0), batch_size=1, in_order=False, prefetch_factor=1
    )
    iterator = iter(loader)
    seen = [item for batch in take(iterator, stop) for item in batch]
    state = loader.state_dict()
    assert seen == [0, 1, 2, 3, 4, 1000, 1001, 1002][:stop]
    fresh = make("sequential", 2, dataset=UnevenStream([5, 5]), batch_size=1)
    fresh.load_state_dict(state)
    rest = [item for batch in take(fresh) for item in batch]
    assert sorted(seen + rest) == [0, 1, 2, 3, 4, 1000, 1001, 1002, 1003, 1004]
    for worker in (0, 1):
        own = [item for item in rest if item // 1000 == worker]
        assert own == sorted(own)
