"""`from_torchdata`: the facts that it reads from recorded states suffice to resume exactly."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data

from cases import torchdata_loaders
from cases.torchdata_loaders import CASES, OLD_CASES
from cases.torchdata_states import NOT_ENOUGH, READABLE, RECORDED, UNREADABLE, plain, state_of
from sluicegate.loader_state.torchdata_state import TorchdataState, from_torchdata, is_torchdata_state

# Torch's warning about three workers on a machine with two processors.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def set_generator(state: dict[str, Any], value: Any) -> dict[str, Any]:
    state["_sampler_iter_state"]["sampler_iter_state"]["generator"] = value
    return state


class StandIn:
    """Torch's own loader, without the argument that it does not take."""

    RandomSampler = torch.utils.data.RandomSampler

    @staticmethod
    def DataLoader(*args: Any, snapshot_every_n_steps: int = 1, **arguments: Any) -> Any:
        return torch.utils.data.DataLoader(*args, **arguments)


def going_on(loader: Any, facts: TorchdataState, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the rest of the epoch in the simplest way: nothing is prefetched, and workers are copies of the dataset."""
    skip = facts.batches_received if facts.is_stateless_stream else facts.steps_since_snapshot
    orders = None if facts.is_iterable else index_batches(loader, facts)
    if facts.finished:
        orders = None if facts.is_iterable else next_index_batches(loader, facts)
        fresh = [
            dataclasses.replace(one, dataset_state=None, iterator_state=None, ended=False) for one in facts.workers
        ]
        facts, skip = dataclasses.replace(facts, workers=tuple(fresh), next_worker=0), 0
    batches = stream_batches(loader, facts, monkeypatch) if orders is None else map_batches(loader, orders, facts)
    return itertools.islice(batches, skip, None)


def next_index_batches(loader: Any, facts: TorchdataState) -> Iterator[Any]:
    """Yield the order of the epoch after the state's, if it is random."""
    sampler, order = loader.sampler, facts.sampler.random_order
    sampler.generator = order.next_generator(
        len(loader.dataset),
        num_samples=sampler.num_samples,
        replacement=sampler.replacement,
        persistent_workers=loader.persistent_workers,
        shares_generator=loader.generator is not None,
    )
    return batches_of(loader, iter(sampler))


def index_batches(loader: Any, facts: TorchdataState) -> Iterator[Any]:
    """Yield the sampler's output from the snapshot on."""
    batched = loader.batch_size is not None
    sampler = loader.sampler if batched or loader.batch_sampler is None else loader.batch_sampler
    return batches_of(loader, restored(sampler, facts, inner=batched))


def batches_of(loader: Any, indices: Iterator[Any]) -> Iterator[Any]:
    batched = loader.batch_size is not None
    if not batched:
        yield from indices
    while batched and (batch := list(itertools.islice(indices, loader.batch_size))):
        if len(batch) == loader.batch_size or not loader.drop_last:
            yield batch


def restored(sampler: Any, facts: TorchdataState, *, inner: bool) -> Iterator[Any]:
    known = facts.sampler
    state, iterator_state = known.outer_state, known.outer_iterator_state
    if inner:
        state, iterator_state = known.state, known.iterator_state
    if known.random_order is not None:
        sampler.generator = known.random_order.generator()
        return itertools.islice(sampler, known.random_order.samples_drawn, None)
    if inner and known.samples_drawn == len(sampler):
        return iter(())
    if state is not None:
        sampler.load_state_dict(state)
    indices = iter(sampler)
    if iterator_state is not None:
        indices.load_state_dict(iterator_state)
    if state is None and iterator_state is None:
        return itertools.islice(indices, known.samples_drawn if inner else known.batches_drawn, None)
    return indices


def map_batches(loader: Any, orders: Iterator[Any], facts: TorchdataState) -> Iterator[Any]:
    datasets = [copy.deepcopy(loader.dataset) for _ in facts.workers]
    for dataset, worker in zip(datasets, facts.workers, strict=True):
        if worker.dataset_state is not None:
            dataset.load_state_dict(worker.dataset_state)
    for turn, indices in enumerate(orders, facts.next_worker):
        dataset = datasets[turn % len(datasets)]
        yield collated(loader, [dataset[i] for i in indices] if isinstance(indices, list) else dataset[indices])


def stream_batches(loader: Any, facts: TorchdataState, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    iterators = []
    for worker in facts.workers:
        info = types.SimpleNamespace(id=worker.worker)
        monkeypatch.setattr(torchdata_loaders, "get_worker_info", lambda info=info: info)
        dataset = copy.deepcopy(loader.dataset)
        if worker.dataset_state is not None:
            dataset.load_state_dict(worker.dataset_state)
        iterators.append(iter(dataset))
        if worker.iterator_state is not None:
            iterators[-1].load_state_dict(worker.iterator_state)
        if worker.ended and not facts.is_stateless_stream:
            iterators[-1] = iter(())
    first = 0 if facts.is_stateless_stream else facts.next_worker
    iterators = iterators[first:] + iterators[:first]
    while iterators:
        iterator = iterators.pop(0)
        # Not by islice, which would request a second iterator of a dataset that is its own iterator.
        if samples := list(map(next, itertools.repeat(iterator, loader.batch_size or 1))):
            iterators.append(iterator)
            yield collated(loader, samples if loader.batch_size is not None else samples[0])


def collated(loader: Any, samples: Any) -> Any:
    batch = loader.collate_fn(samples)
    return [plain(part) for part in batch] if isinstance(batch, list) else plain(batch)


def test_every_case_is_recorded() -> None:
    assert set(RECORDED) == {*CASES, *OLD_CASES}


@pytest.mark.parametrize("name", [name for name in READABLE if name not in NOT_ENOUGH])
def test_facts_of_a_torchdata_state_suffice_to_resume(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(name)
    assert is_torchdata_state(state)
    loader = (CASES | OLD_CASES)[name].make(StandIn)
    assert list(going_on(loader, from_torchdata(state), monkeypatch)) == RECORDED[name]["rest"]


@pytest.mark.parametrize("name", READABLE)
def test_the_next_epoch_is_drawn_as_torchdata_would(name: str) -> None:
    facts, loader = from_torchdata(state_of(name)), (CASES | OLD_CASES)[name].make(StandIn)
    if facts.sampler.random_order is None or name in NOT_ENOUGH:
        return
    batches = list(next_index_batches(loader, facts))
    assert batches == RECORDED[name]["rest" if facts.finished else "next_epoch"]


@pytest.mark.parametrize("name", READABLE)
def test_batches_received_are_counted(name: str) -> None:
    case, facts = (CASES | OLD_CASES)[name], from_torchdata(state_of(name))
    assert facts.finished == (case.received is None)
    if case.received is not None:
        assert facts.batches_received == case.received
    else:
        assert facts.batches_received == len(RECORDED[name]["rest"])
    if not facts.is_iterable:
        assert facts.batches_passed == facts.batches_received
        assert sum(worker.batches_fetched for worker in facts.workers) == facts.sampler.batches_drawn
    loader = case.make(StandIn)
    assert facts.num_workers == loader.num_workers
    assert facts.is_iterable == isinstance(loader.dataset, torch.utils.data.IterableDataset)
    assert (facts.base_seed is None) == (facts.num_workers == 0)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_state_that_is_not_enough_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=UNREADABLE[name]):
        from_torchdata(state_of(name))


def test_old_torchdata_states_are_flagged_if_their_generator_may_be_ahead() -> None:
    orders = {name: from_torchdata(state_of(name)).sampler.random_order for name in READABLE}
    assert {name for name, order in orders.items() if order is not None and order.may_be_late} == {
        name for name in READABLE if name.startswith("0.10:") and ("shuffled" in name or "replacement" in name)
    } - {"0.10: shuffled, 2 workers, between snapshots"}


def test_sorted_keys_are_refused_where_the_version_shows_in_their_order() -> None:
    state = state_of("shuffled, samples as they are")
    with pytest.raises(ValueError, match="without sort_keys"):
        from_torchdata(dict(sorted(state.items())))
    state = state_of("shuffled")
    assert from_torchdata(dict(sorted(state.items()))) == from_torchdata(state)


def test_torchdata_states_between_snapshots_have_the_state_of_each_worker() -> None:
    facts = from_torchdata(state_of("stateful dataset, 2 workers, between snapshots"))
    assert (facts.steps_since_snapshot, facts.next_worker, facts.assumes_in_order) == (1, 0, True)
    assert [worker.batches_fetched for worker in facts.workers] == [3, 3]
    assert facts.workers[1].dataset_state == {"fetched": 6, "by": {7: [6]}}


def test_torchdata_states_of_streams_have_the_place_of_each_iterator() -> None:
    facts = from_torchdata(state_of("stream of stateful iterators, 3 uneven workers"))
    assert [(worker.iterator_state, worker.ended) for worker in facts.workers] == [
        ({"yielded": 3}, True),
        ({"yielded": 4}, False),
        ({"yielded": 4}, False),
    ]
    assert not facts.is_stateless_stream
    assert from_torchdata(state_of("stream, 2 uneven workers")).is_stateless_stream
    assert not from_torchdata(state_of("sequential")).is_stateless_stream


def test_states_of_batch_samplers_are_distinguished_from_those_of_samplers() -> None:
    outer = from_torchdata(state_of("stateful batch sampler")).sampler
    assert (outer.outer_state, outer.state, outer.samples_drawn) == ({"drawn": 3}, None, None)
    inner = from_torchdata(state_of("stateful sampler")).sampler
    assert (inner.outer_state, inner.state, inner.samples_drawn) == (None, {"drawn": 6}, 6)


def test_a_torchdata_state_through_json_has_the_same_facts() -> None:
    order = from_torchdata(state_of("shuffled")).sampler.random_order
    assert from_torchdata(set_generator(state_of("shuffled"), order.generator_state)).sampler.random_order == order
    state = set_generator(state_of("shuffled"), list(order.generator_state))
    assert from_torchdata(json.loads(json.dumps(state))).sampler.random_order == order


@pytest.mark.parametrize(
    "value", [None, "seed", 7, [300], torch.zeros(4), torch.zeros(16, dtype=torch.uint8), [0] * 5056]
)
def test_a_generator_that_cannot_be_set_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="the sampler's generator"):
        from_torchdata(set_generator(state_of("shuffled"), value))


def test_batches_out_of_order_are_refused_where_they_can_be_seen() -> None:
    state = state_of("sequential, 2 workers, between snapshots")
    state["_snapshot"]["_main_snapshot"]["_sampler_iter_yielded"] = 1
    with pytest.raises(ValueError, match="in_order=False"):
        from_torchdata(state)


def test_batches_that_failed_are_passed_but_not_received() -> None:
    state = {**state_of("sequential"), "_num_yielded": 1}
    facts = from_torchdata(state)
    assert (facts.batches_received, facts.batches_passed) == (1, 2)


def test_a_torchdata_state_between_a_resume_and_its_first_batch_is_refused() -> None:
    state = state_of("0.10: shuffled")
    state["_index_sampler_state"]["samples_yielded"] = 0
    state["_index_sampler_state"]["sampler_iter_state"]["yielded"] = 0
    with pytest.raises(ValueError, match="between load_state_dict and the next batch"):
        from_torchdata(state)


@pytest.mark.parametrize(
    "state",
    [None, 3, {}, [], {"_snapshot": {}}, {"_num_yielded": 3}, {"version": 1}, "_num_yielded _sampler_iter_yielded"],
)
def test_states_that_are_not_torchdatas_are_refused(state: Any) -> None:
    assert not is_torchdata_state(state)
    with pytest.raises(ValueError, match="expected a state of torchdata's"):
        from_torchdata(state)


def paths(state: Any, *path: str) -> Iterator[tuple[str, ...]]:
    for key, value in state.items():
        yield (*path, key)
        # The user's own states are below these keys.
        if isinstance(value, dict) and key not in ("_sampler_iter_state", "dataset_state", "dataset_iter_state"):
            yield from paths(value, *path, key)


@pytest.mark.parametrize("name", ["stream of stateful iterators", "stateful stream, 2 workers, between snapshots"])
def test_a_damaged_torchdata_state_is_refused_with_the_name_of_the_key(name: str) -> None:
    for path in paths(state_of(name)):
        if path[-1] in ("worker_id",):
            continue
        damaged = state_of(name)
        part = damaged
        for key in path[:-1]:
            part = part[key]
        value = part.pop(path[-1])
        with pytest.raises(ValueError, match=r"torchdata"):
            from_torchdata(damaged)
        if isinstance(value, int):
            part[path[-1]] = -1
            with pytest.raises(ValueError, match=path[-1]):
                from_torchdata(damaged)
