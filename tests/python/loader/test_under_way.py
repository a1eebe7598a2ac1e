"""`UnderWay`: the batches that can still be delivered, and their order."""

from __future__ import annotations

from sluicegate.loader.under_way import UnderWay
from sluicegate.order.ids import BatchIds
from sluicegate.worker.thread_answer import ThreadAnswer


def asked_in_turns(num_workers: int, batches: int) -> UnderWay:
    under_way = UnderWay()
    for number in range(batches):
        ids = BatchIds(number, 0, number, [number])
        ids.worker = number % num_workers
        under_way.add(number, ids)
    return under_way


def answer(number: int, worker: int, ended: bool = False) -> ThreadAnswer:
    made = ThreadAnswer(worker, 0, number)
    made.ended = ended
    return made


def test_requests_to_a_stream_that_ended_are_skipped() -> None:
    under_way = asked_in_turns(2, 6)
    assert under_way.keep(answer(0, 0, ended=True))
    assert under_way.next([True, True]) == 0
    under_way.remove(0)
    assert under_way.next([False, True]) == 1
    under_way.remove(1)
    assert under_way.next([False, True]) == 3
    assert not under_way.keep(answer(2, 0))
    assert [number for number in range(6) if number in under_way] == [3, 4, 5]
    under_way.remove(3)
    under_way.remove(5)
    assert under_way.next([False, True]) is None
    assert len(under_way) == 0


def test_a_batch_that_arrived_before_its_stream_ended_is_delivered() -> None:
    under_way = asked_in_turns(1, 2)
    assert under_way.keep(answer(0, 0))
    assert under_way.next([False]) == 0


def test_batches_that_are_ready_come_in_order_up_to_the_first_gap() -> None:
    under_way = asked_in_turns(2, 5)
    for number in (3, 1):
        under_way.keep(answer(number, number % 2))
    inbox = [answer(0, 0), answer(4, 0)]
    assert [each.number for each in under_way.ready(inbox, in_order=True)] == [0, 1]
    assert [each.number for each in under_way.ready(inbox, in_order=False)] == [0, 1, 3, 4]
    assert [each.number for each in under_way.answers()] == [1, 3]


def test_the_rest_of_a_batch_takes_its_place() -> None:
    under_way = asked_in_turns(1, 2)
    ids = under_way.remove(0)
    assert 0 not in under_way
    under_way.add(0, ids)
    assert (under_way.next([True]), under_way.asked) == (0, 2)
    under_way.withdraw(0)
    assert under_way.next([True]) == 1
