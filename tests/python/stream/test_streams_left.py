"""Epochs of uneven streams that were left: each worker's position does not depend on when the others ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import get_worker_info

import sluicegate
from cases.loader_kinds import take
from doubles.stateful import EpochStream

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


class SlowStream(EpochStream):
    """One of its workers is slow."""

    def __init__(self, sizes: list[int], slow: int) -> None:
        super().__init__(sizes)
        self.slow = slow

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        for item in super().__iter__():
            if info.id == self.slow:
                time.sleep(0.05)
            yield item


@pytest.mark.parametrize("every", [1, 0, 7])
def test_a_stream_that_had_ended_when_the_others_were_left_begins_again(every: int) -> None:
    # The second worker's stream ends early and begins its next epoch; the first one's does not.
    def make() -> Any:
        return sluicegate.DataLoader(
            EpochStream([14, 5, 14]),
            4,
            num_workers=3,
            drop_last=True,
            persistent_workers=True,
            snapshot_every_n_steps=every,
        )

    loader = make()
    assert len(take(iter(loader), 6)) == 6
    iterator = iter(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [take(iterator), take(loader)]
    resumed = make()
    resumed.load_state_dict(state)
    assert [take(resumed), take(resumed)] == expected


def test_positions_in_an_abandoned_epoch_do_not_depend_on_the_speed_of_workers() -> None:
    # The second worker ends long before its turn, or long after the consumer has begun to wait for it.
    def all_that_follows(slow: int) -> list[Any]:
        loader = sluicegate.DataLoader(
            SlowStream([40, 5, 40], slow),
            4,
            num_workers=3,
            drop_last=True,
            persistent_workers=True,
        )
        assert len(take(iter(loader), 3)) == 3
        return [take(loader), take(loader)]

    assert all_that_follows(slow=1) == all_that_follows(slow=2)


# Each number with odd and even others, up to before, at, and after the fourth batch.
@pytest.mark.parametrize(("received", "further"), [(1, 1), (1, 4), (2, 2), (3, 1), (3, 4), (4, 2), (6, 1), (6, 4)])
def test_resumed_epoch_is_prefetched_as_far_as_the_original(received: int, further: int) -> None:
    # The second worker's stream ends before the fourth batch, with samples that drop_last drops.
    def make() -> Any:
        return sluicegate.DataLoader(
            EpochStream([40, 5, 30]), 4, num_workers=3, drop_last=True, persistent_workers=True
        )

    loader = make()
    iterator = iter(loader)
    take(iterator, received)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [take(iterator, further), take(loader), take(loader)]
    resumed = make()
    resumed.load_state_dict(state)
    assert [take(iter(resumed), further), take(resumed), take(resumed)] == expected
