"""One set of workers for the loaders of all classes."""

from __future__ import annotations

import gc
import itertools
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import sluicegate
from cases.loader_kinds import plain, take
from sluicegate.worker.process_workers import ProcessWorkers
from sluicegate.worker.thread_workers import ThreadWorkers

pytestmark = pytest.mark.slots

LABELS = [index * index % 7 % 4 for index in range(60)]  # classes 0, 1, and 2, of different sizes
# The last sample of its class, which is not among the first prefetched.
DEADLY = max(index for index, label in enumerate(LABELS) if label == 0)
KINDS = ["process", "thread"]


class Told(torch.utils.data.Dataset[Any]):
    """Samples with their reader; `DEADLY` ends its process if `is_deadly`."""

    def __init__(self, is_deadly: bool = False, seconds: float = 0.0) -> None:
        self.is_deadly = is_deadly
        self.seconds = seconds
        self.epoch = 0

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        if self.is_deadly and index == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return index, os.getpid() if multiprocessing.parent_process() else threading.get_native_id(), self.epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Drawing(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, random.random()


def made(dataset: Any = None, **arguments: Any) -> Any:
    arguments = {"batch_size": 3, "num_workers": 2, "timeout": 60} | arguments
    return sluicegate.class_loaders(Told() if dataset is None else dataset, LABELS, **arguments)


def in_turn(loaders: Any) -> dict[Any, list[Any]]:
    """Return all batches of each class, read from all classes in turn."""
    iterators = {label: iter(loader) for label, loader in loaders.items()}
    found: dict[Any, list[Any]] = {label: [] for label in loaders}
    while iterators:
        for label in list(iterators):
            batch = next(iterators[label], None)
            if batch is None:
                del iterators[label]
            else:
                found[label].append(batch)
    return found


def indices(batches: list[Any]) -> list[int]:
    return [index for batch in batches for index in batch[0].tolist()]


def workers(found: dict[Any, list[Any]]) -> set[int]:
    return {who for batches in found.values() for batch in batches for who in batch[1].tolist()}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("worker_type", KINDS)
def test_all_classes_share_num_workers_workers(worker_type: str, seed: int | None, in_order: bool) -> None:
    loaders = made(worker_type=worker_type, seed=seed, shuffle=seed is not None, in_order=in_order)
    found = in_turn(loaders)
    assert len(workers(found)) <= 2
    for label, batches in found.items():
        alone = indices(list(made(num_workers=0, timeout=0, seed=seed, shuffle=seed is not None)[label]))
        assert sorted(indices(batches)) == sorted(alone)
        assert not in_order or indices(batches) == alone


@pytest.mark.parametrize("prefetch_factor", [3, 5])
@pytest.mark.parametrize("worker_type", KINDS)
def test_out_of_order_no_batch_is_lost_when_loaders_share_workers(worker_type: str, prefetch_factor: int) -> None:
    loaders = made(batch_size=1, prefetch_factor=prefetch_factor, in_order=False, worker_type=worker_type)
    for label, batches in in_turn(loaders).items():
        assert sorted(indices(batches)) == [index for index in range(60) if LABELS[index] == label]


def test_the_processes_end_with_the_last_iterator() -> None:
    loaders = made()
    first, second = iter(loaders[0]), iter(loaders[1])
    next(first), next(second)
    assert len(multiprocessing.active_children()) == 2
    rest = list(first)
    assert rest
    assert len(multiprocessing.active_children()) == 2, "the other one still reads"
    del second
    gc.collect()
    assert not multiprocessing.active_children()
    assert indices(list(loaders[1])), "others start with the next iteration"
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("worker_type", KINDS)
@pytest.mark.parametrize("seed", [None, 5])
def test_persistent_shared_workers_serve_every_epoch(worker_type: str, seed: int | None) -> None:
    loaders = made(persistent_workers=True, worker_type=worker_type, seed=seed)
    seen: set[int] = set()
    for epoch in range(3):
        loaders.set_epoch(epoch)
        found = in_turn(loaders)
        seen |= workers(found)
        assert all(told == epoch for batches in found.values() for batch in batches for told in batch[2].tolist())
        assert sorted(index for batches in found.values() for index in indices(batches)) == list(range(60))
    assert len(seen) == 2


def test_an_epoch_that_is_left_disturbs_no_other() -> None:
    loaders = made(persistent_workers=True)
    other = iter(loaders[1])
    found = [next(other)]
    for _ in range(5):
        take(iter(loaders[0]), 2)
    found += list(other)
    assert indices(found) == [index for index in range(60) if LABELS[index] == 1]
    assert indices(list(loaders[0])) == [index for index in range(60) if LABELS[index] == 0]


def test_the_death_of_a_shared_worker_is_raised_in_every_loader() -> None:
    loaders = made(Told(is_deadly=True))
    label = LABELS[DEADLY]
    others = [each for each in loaders if each != label]
    iterators = {each: iter(loaders[each]) for each in [*others, label]}
    for each in others:
        next(iterators[each])
    for each in [label, *others]:
        with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
            list(iterators[each])
        assert next(iterators[each], None) is None
    assert len(indices(list(loaders[others[0]]))) == LABELS.count(others[0]), "the next iteration has new ones"


@pytest.mark.parametrize("worker_type", KINDS)
def test_threads_may_each_read_a_class(worker_type: str) -> None:
    loaders = made(Told(seconds=0.001), worker_type=worker_type)
    found: dict[Any, list[int]] = {}

    def read(label: Any) -> None:
        found[label] = indices(list(loaders[label]))

    readers = [threading.Thread(target=read, args=(label,)) for label in loaders]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert found == {label: [index for index in range(60) if LABELS[index] == label] for label in loaders}


@pytest.mark.parametrize(("worker_type", "kind"), [("process", ProcessWorkers), ("thread", ThreadWorkers)])
def test_one_thread_at_a_time_receives_for_all(monkeypatch: pytest.MonkeyPatch, worker_type: str, kind: Any) -> None:
    received, receiving, together = kind.receive, set[int](), []

    def receive(self: Any, timeout: float | None) -> bool:
        receiving.add(threading.get_ident())
        together.append(len(receiving))
        try:
            return received(self, timeout)
        finally:
            receiving.discard(threading.get_ident())

    monkeypatch.setattr(kind, "receive", receive)
    loaders = made(Told(seconds=0.001), batch_size=1, prefetch_factor=1, worker_type=worker_type)
    readers = [threading.Thread(target=list, args=(loader,)) for loader in loaders.values()]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert set(together) == {1}


def test_a_fork_has_workers_of_its_own() -> None:
    loaders = made()
    iterator = iter(loaders[0])
    first = next(iterator)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, json.dumps(indices(list(loaders[1]))).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    with open(reading) as pipe:
        assert json.loads(pipe.read()) == [index for index in range(60) if LABELS[index] == 1]
    assert indices([first, *iterator]) == [index for index in range(60) if LABELS[index] == 0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", [Told, Drawing])
def test_each_class_is_resumed_while_others_are_read(kind: Any, persistent: bool) -> None:
    """In seed mode, the draws of a sample do not depend on other samples being read."""

    def loaders_of() -> Any:
        return made(kind(), seed=3, shuffle=True, persistent_workers=persistent)

    def shown(batches: Iterator[Any] | list[Any]) -> list[Any]:
        return [plain(batch[:1] if kind is Told else batch) for batch in batches]

    whole = {label: shown(list(loader)) for label, loader in loaders_of().items()}
    for stop in (0, 1, 3):
        loaders = loaders_of()
        iterators = {label: iter(loader) for label, loader in loaders.items()}
        for label, iterator in iterators.items():
            assert shown(list(itertools.islice(iterator, stop))) == whole[label][:stop]
        states = json.loads(json.dumps([[label, loader.state_dict()] for label, loader in loaders.items()]))
        again = loaders_of()
        for label, state in states:
            again[label].load_state_dict(state)
        rest = in_turn(again)
        for label, batches in rest.items():
            assert shown(batches) == whole[label][stop:]


def test_no_more_is_under_way_than_workers_take_and_each_class_has_something() -> None:
    many = list(range(60))
    loaders = sluicegate.class_loaders(Told(), many, batch_size=1, num_workers=2, prefetch_factor=2, timeout=60)
    found = in_turn(loaders)
    assert {label: indices(batches) for label, batches in found.items()} == {label: [label] for label in many}
    assert len(workers(found)) == 2, "they do not all begin with the same worker"


@pytest.mark.parametrize("worker_type", KINDS)
def test_classes_may_be_in_different_epochs(worker_type: str) -> None:
    loaders = made(seed=5, persistent_workers=True, worker_type=worker_type)
    slow = iter(loaders[1])
    found = [next(slow)]
    for epoch in range(12):
        batches = list(loaders[0])
        assert len(indices(batches)) == LABELS.count(0)
        if worker_type == "process":  # threads share the dataset
            assert {told for batch in batches for told in batch[2].tolist()} == {epoch}
    found += list(slow)
    assert indices(found) == [index for index in range(60) if LABELS[index] == 1]
    if worker_type == "process":
        assert {told for batch in found for told in batch[2].tolist()} == {0}


def test_prefetched_batches_of_a_dropped_iterator_do_not_delay_others() -> None:
    loaders = made(Told(seconds=0.002), prefetch_factor=1, batch_size=1)
    for _ in range(6):
        iterators = [iter(loader) for loader in loaders.values()]
        firsts = [next(iterator) for iterator in iterators]
        assert indices(firsts) == [LABELS.index(label) for label in loaders]
        del iterators[::2]
        gc.collect()
        rest = [batch for iterator in iterators for batch in iterator]
        assert indices(rest) == [index for index in range(60) if LABELS[index] == 1][1:]
        del iterators, rest
    assert not multiprocessing.active_children()
