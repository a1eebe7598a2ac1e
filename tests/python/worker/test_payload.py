"""Objects that workers need reach them with every start method, once, and nothing is left behind."""

from __future__ import annotations

import functools
import io
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.spawn
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing

from checks import leaks
from checks.programs import Run, run_script
from checks.resources import links
from sluicegate import SharedList
from sluicegate.worker.payload import Payload

servers, nothing_leaks = leaks.servers, leaks.nothing_leaks

PICKLING = ["spawn", "forkserver"]
WORKERS = 2  # the second one tests that an object is pickled once for all
ONE = 1  # a spawned worker imports torch for seconds


class Images:
    """A dataset that counts how often it is pickled, in the process that pickles it."""

    pickled = 0

    def __init__(self, **attributes: Any) -> None:
        self.__dict__ |= attributes

    def collate(self, samples: Any) -> Any:
        return samples

    def __getstate__(self) -> dict[str, Any]:
        type(self).pickled += 1
        return self.__dict__


class CustomContext(multiprocessing.context.SpawnContext):
    """A user-defined context."""


def report(number: int, needs: Payload, look: Callable[..., Any], results: Any) -> None:
    results.put((number, look(number, **needs.load())))


def in_workers(context: Any, look: Callable[..., Any], count: int = WORKERS, **objects: Any) -> list[Any]:
    """Return the result of `look` in each of `count` workers; the payload is closed once all have been started."""
    if isinstance(context, str):
        context = multiprocessing.get_context(context)
    results = context.SimpleQueue()
    needs = Payload(objects)
    workers = [context.Process(target=report, args=(number, needs, look, results)) for number in range(count)]
    for worker in workers:
        worker.start()
    needs.close()
    found = dict(results.get() for _ in workers)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
        worker.close()
    results.close()
    return [found[number] for number in range(count)]


def look_at_identity(_: int, dataset: Any, collate_fn: Any, init: Any) -> Any:
    left = [link for link in links().values() if "sluicegate-payload" in link]
    maps = Path("/proc/self/maps").read_text()
    return collate_fn.__self__ is dataset, init.args[0] is dataset, left, "sluicegate-payload" in maps


@pytest.mark.parametrize(("method", "count"), [("fork", WORKERS), (CustomContext(), ONE), ("forkserver", WORKERS)])
def test_a_bound_method_and_its_dataset_stay_one_and_nothing_is_left_open(method: Any, count: int) -> None:
    dataset = Images()
    objects = {"dataset": dataset, "collate_fn": dataset.collate, "init": functools.partial(print, dataset)}
    assert in_workers(method, look_at_identity, count, **objects) == [(True, True, [], False)] * count


def fill(number: int, dataset: Any) -> Any:
    dataset.table[number] = number + 1
    # Torch keeps one descriptor per storage; the received one is closed.
    same = dataset.table.data_ptr() == dataset.view.data_ptr()
    return same, dataset.table.is_shared(), sum(1 for link in links().values() if "torch_" in link)


@pytest.mark.parametrize("method", [torch.multiprocessing.get_context("spawn"), "forkserver"])
def test_tensors_are_shared_and_pickled_once(method: Any) -> None:
    table = torch.zeros(WORKERS, 1000)
    Images.pickled = 0
    many = [torch.ones(3) for _ in range(20)]
    found = in_workers(method, fill, dataset=Images(table=table, view=table[:], many=many))
    assert found == [(True, True, 1 + len(many))] * WORKERS
    assert table[:, 0].tolist() == [1, 2]
    assert Images.pickled == 1


def test_a_fork_pickles_nothing() -> None:
    Images.pickled = 0
    assert in_workers("fork", lambda _, dataset: dataset.hook(), dataset=Images(hook=lambda: 5)) == [5] * WORKERS
    assert Images.pickled == 0


def test_torchs_sharing_by_file_name_is_pickled_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_sharing_strategy", lambda: "file_system")
    Images.pickled = 0
    dataset = Images(table=torch.zeros(WORKERS), view=torch.ones(1))
    in_workers("forkserver", fill, dataset=dataset)
    assert Images.pickled == WORKERS
    assert dataset.table.tolist() == [1, 2]


def use(number: int, shared: Any, value: Any, queue: Any, sender: Any, other: Any) -> Any:
    with value.get_lock():
        value.value += 1
    queue.put(number)
    queue.close()
    queue.join_thread()
    sender.send(number)
    with other:
        return list(shared), shared[number]


@pytest.mark.parametrize(("method", "count"), [("fork", WORKERS), ("spawn", ONE), ("forkserver", WORKERS)])
def test_multiprocessings_own_and_shared_lists(method: str, count: int) -> None:
    context: Any = multiprocessing.get_context(method)
    value, queue, lock = context.Value("i", 0), context.Queue(), context.Lock()
    receiver, sender = context.Pipe(duplex=False)
    shared = SharedList([{"label": label} for label in range(5)])
    objects = {"shared": shared[1:3], "value": value, "queue": queue, "sender": sender, "other": lock}
    labels = [{"label": label} for label in (1, 2)]
    assert in_workers(context, use, count, **objects) == [(labels, label) for label in labels[:count]]
    assert value.value == count
    assert sorted(queue.get() for _ in range(count)) == [*range(count)]
    assert sorted(receiver.recv() for _ in range(count)) == [*range(count)]
    queue.close()
    queue.join_thread()
    receiver.close()
    sender.close()


def send(number: int, extra: Any, dataset: Any) -> None:
    dataset.sender.send((number, extra is None))


@pytest.mark.parametrize("method", PICKLING)
def test_workers_whose_descriptors_would_have_other_numbers(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    extras = [None, sender] if method == "spawn" else [None, sender, None]
    Images.pickled = 0
    needs = Payload({"dataset": Images(sender=sender)})
    workers = [context.Process(target=send_loaded, args=(number, extra, needs)) for number, extra in enumerate(extras)]
    for worker in workers:
        worker.start()
    needs.close()
    found = sorted(receiver.recv() for _ in workers)
    for worker in workers:
        worker.join()
        worker.close()
    receiver.close()
    sender.close()
    assert found == [(number, extra is None) for number, extra in enumerate(extras)]
    # With forkserver, a descriptor that precedes the payload's shifts those by one.
    assert Images.pickled == (1 if method == "spawn" else 3)


def send_loaded(number: int, extra: Any, needs: Payload) -> None:
    send(number, extra, **needs.load())


@pytest.mark.parametrize("method", PICKLING)
def test_descriptors_that_their_owner_closes_meanwhile(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    shared = [SharedList([1, 2, 3])]
    needs = Payload({"shared": shared})
    workers = [context.Process(target=report, args=(number, needs, look_at, results)) for number in range(2)]
    workers[0].start()
    shared.clear()
    workers[1].start()
    needs.close()
    assert [results.get()[1] for _ in workers] == [[1, 2, 3]] * 2
    for worker in workers:
        worker.join()
        worker.close()
    results.close()


def look_at(_: int, shared: Any) -> Any:
    return list(shared[0])


def test_start_does_not_wait_for_a_worker_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = tmp_path / "interpreter"
    deaf.write_text("#!/bin/sh\nexec sleep 100\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(deaf))
    needs = Payload({"blob": bytes(200 << 20)})
    workers = [multiprocessing.get_context("spawn").Process(target=int, args=(needs,)) for _ in range(WORKERS)]
    begun = time.monotonic()
    for worker in workers:
        worker.start()
    assert time.monotonic() - begun < 50
    needs.close()
    for worker in workers:
        worker.kill()
        worker.join()
        worker.close()


def measure(_: int, blob: bytes) -> int:
    return len(blob)


def test_a_large_payload_reaches_every_worker() -> None:
    assert in_workers("forkserver", measure, blob=bytes(200 << 20)) == [200 << 20] * WORKERS


class LoadFails:
    def __setstate__(self, state: Any) -> None:
        raise LookupError("on purpose")

    def __getstate__(self) -> Any:
        return {"some": "state"}


def load_twice(needs: Payload, results: Any) -> None:
    for _ in range(2):
        try:
            needs.load()
        except Exception as error:
            results.put(f"{type(error).__name__}: {error}")


def test_an_error_in_loading_is_the_workers_to_handle() -> None:
    context: Any = multiprocessing.get_context("forkserver")
    results = context.SimpleQueue()
    needs = Payload({"dataset": LoadFails()})
    worker = context.Process(target=load_twice, args=(needs, results))
    worker.start()
    needs.close()
    assert results.get() == "LookupError: on purpose"
    assert results.get().startswith(
        "RuntimeError: the objects for this worker were loaded before, or the first `load` raised"
    )
    worker.join()
    worker.close()
    results.close()


def test_without_a_process_being_started_it_is_pickled_as_it_is() -> None:
    assert pickle.loads(pickle.dumps(Payload({"dataset": [1]}))).load() == {"dataset": [1]}


def test_main_module_and_lambda_in_a_script(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "from sluicegate.worker.payload import Payload\n"
        "class Data:\n"
        "    size = 7\n"
        "def work(needs, results):\n"
        "    needs = needs.load()\n"
        "    results.put((type(needs['dataset']) is Data, needs['dataset'].size))\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_forkserver_preload(['sluicegate.worker.payload'])\n"
        "    for method in ('spawn', 'forkserver'):\n"
        "        context = multiprocessing.get_context(method)\n"
        "        results, needs = context.SimpleQueue(), Payload({'dataset': Data()})\n"
        "        count = 1 if method == 'spawn' else 2\n"
        "        workers = [context.Process(target=work, args=(needs, results)) for _ in range(count)]\n"
        "        [worker.start() for worker in workers]\n"
        "        needs.close()\n"
        "        print([results.get() for _ in workers])\n"
        "        [worker.join() for worker in workers]\n"
    )
    done = run_script(run, script)
    assert (done.stdout, done.stderr) == ("[(True, 7)]\n[(True, 7), (True, 7)]\n", "")


def test_sockets_go_along() -> None:
    ours, theirs = socket.socketpair()
    assert in_workers("forkserver", say, line=theirs) == [None] * WORKERS
    theirs.close()
    with ours, ours.makefile("rb") as said:
        assert sorted(said.read().decode()) == ["0", "1"]


def say(number: int, line: Any) -> None:
    line.sendall(str(number).encode())
    line.close()


def test_the_pickle_is_multiprocessings() -> None:
    """Reducers that users register are used too."""
    reduction.register(Registered, lambda registered: (Registered, (registered.lock is not None,)))
    try:
        assert in_workers("forkserver", look_at_registered, dataset=Registered(threading.Lock())) == [True] * WORKERS
    finally:
        reduction.ForkingPickler._extra_reducers.pop(Registered)
    with pytest.raises(TypeError):
        reduction.ForkingPickler(io.BytesIO()).dump(Registered(threading.Lock()))


class Registered:
    def __init__(self, lock: Any) -> None:
        self.lock = lock


def look_at_registered(_: int, dataset: Any) -> Any:
    return dataset.lock


PRELOAD = (
    "import multiprocessing, multiprocessing.forkserver as forkserver\n"
    "from sluicegate.worker.payload import preload\n"
    "{before}\n"
    "preload()\n"
    "print(forkserver._forkserver._preload_modules, flush=True)\n"
    "process = multiprocessing.get_context('forkserver').Process(target=print, args=('here',))\n"
    "process.start(), process.join()\n"
    "print(process.exitcode)\n"
)


@pytest.mark.parametrize(
    ("before", "modules"),
    [
        ("", ["__main__", "sluicegate.worker.process_main"]),
        ("forkserver.set_forkserver_preload(['json'])", ["json"]),
        ("forkserver.set_forkserver_preload([])", []),
        ("forkserver.ensure_running()", ["__main__"]),
    ],
)
def test_preload_leaves_the_users_choice(run: Run, before: str, modules: list[str]) -> None:
    """The same if the fork server can't import the module."""
    script = PRELOAD.format(before=before)
    ended = run(script)
    ended.check(within=20.0)
    assert ended.stdout == f"{modules}\nhere\n0\n"


def test_as_many_tensors_as_there_are_descriptors(run: Run) -> None:
    ended = run("""
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        tensors = [torch.tensor([index]) for index in range(150)]
        loader = data.DataLoader(tensors, batch_size=150, num_workers=1, multiprocessing_context="spawn")
        print([int(batch.sum()) for batch in loader])
    """)
    ended.check()
    assert ended.stdout.splitlines() == [str([sum(range(150))])]
