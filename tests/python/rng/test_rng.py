"""The generators of a sample: seeded by (seed, epoch, index), the same in every process and thread."""

from __future__ import annotations

import json
import multiprocessing
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from checks import global_draws
from checks.global_draws import LIBRARIES, draw_normals, draws, public_states
from checks.programs import Run
from sluicegate import _core
from sluicegate.rng.global_generators import global_generators as generators_of_process
from sluicegate.rng.sample import SampleSeeding, sample_rng

kept = global_draws.kept


GOLDEN = {
    0: [
        *(0.06381829164740493, 51737365197650913685, 0.10439820178690817, 689862193),
        *(0.06155548527841859, 0.31460805227888156, 189620380918),
    ],
    7: [
        *(0.8192169039700198, 777850088289601551431, 0.6915234763477892, 728513888),
        *(0.2041840279060858, 0.036985245726250726, 247920775866),
    ],
    (1 << 64) - 1: [
        *(0.9049688528686166, 1162125702255967816875, 0.7870769945241427, 1064681244),
        *(0.27203368008473783, 0.45809638666850916, 729879441615),
    ],
}


@pytest.mark.parametrize("key", GOLDEN)
def test_the_draws_of_a_key_never_change(key: int) -> None:
    generators_of_process().seed(key)
    assert draws() == GOLDEN[key]


OWN_GOLDEN = [
    *(0.19120621040874952, 0.7266393386498998, 15578577511134939707),
    *(0.353020715589625, 0.5255746873929871),
]


def own_draws() -> list[float]:
    own = sample_rng()
    return [
        own.python.random(),
        float(own.numpy.random()),
        int(own.numpy.bit_generator.random_raw()),
        *torch.rand(2, dtype=torch.float64, generator=own.torch).tolist(),
    ]


def test_the_draws_of_the_generators_of_a_sample_never_change() -> None:
    seeding = SampleSeeding(7, seed_globals=False)
    seeding.begin(3)
    with seeding.batch():
        seeding.sample(42)
        assert own_draws() == OWN_GOLDEN


def test_generator_words_never_change_and_are_the_first_draws() -> None:
    key = 0xFEDC_BA98_7654_3210
    generators_of_process().seed(key)
    for library, state, position in (
        ("python", random.getstate()[1][:-1], random.getstate()[1][-1]),
        ("numpy", np.random.get_state()[1].tolist(), np.random.get_state()[2]),
        ("torch", torch.get_rng_state().numpy()[24:5016].view(np.uint64).tolist(), 0),
    ):
        words = np.frombuffer(_core.generator_words(key, f"global {library}"), "<u4").tolist()
        assert list(state) == words
        assert position == 0
        assert len(set(words)) == 624
    assert torch.initial_seed() == key
    streams = [f"{whose} {library}" for whose in ("global", "sample") for library in LIBRARIES]
    assert len({_core.generator_words(key, stream) for stream in streams}) == 6
    with pytest.raises(ValueError, match='unknown stream "other"'):
        _core.generator_words(key, "other")


def words_by_definition(key: int, stream: int) -> list[int]:
    """Return the words with which the core fills a state, implemented a second time."""
    whole, golden = (1 << 64) - 1, 0x9E37_79B9_7F4A_7C15

    def mix(word: int) -> int:
        word = (word ^ (word >> 30)) * 0xBF58_476D_1CE4_E5B9 & whole
        word = (word ^ (word >> 27)) * 0x94D0_49BB_1331_11EB & whole
        return word ^ (word >> 31)

    left, right, constant = key, stream, mix(3)
    for _ in range(4):
        constant = (constant + golden) & whole
        left ^= mix((right + constant) & whole)
        constant = (constant + golden) & whole
        right ^= mix((left + constant) & whole)
    columns = []
    for lane in range(16):
        upper, lower = (mix((half + lane * golden) & whole) for half in (left, right))
        a, b, c, count = upper & 0xFFFF_FFFF, upper >> 32, lower & 0xFFFF_FFFF, lower >> 32
        column = []
        for _ in range(39):
            drawn = (a + b + count) & 0xFFFF_FFFF
            count = (count + 1) & 0xFFFF_FFFF
            a, b = b ^ (b >> 9), (c + (c << 3)) & 0xFFFF_FFFF
            c = (((c << 21) | (c >> 11)) + drawn) & 0xFFFF_FFFF
            column.append(drawn)
        columns.append(column)
    return [word for row in zip(*columns, strict=True) for word in row]


@pytest.mark.parametrize("key", [0, 5, 0x0123_4567_89AB_CDEF, (1 << 64) - 1])
def test_words_are_those_of_the_definition(key: int) -> None:
    names = [f"{whose} {library}" for whose in ("global", "sample") for library in LIBRARIES]
    for stream, name in enumerate(names, 1):
        assert np.frombuffer(_core.generator_words(key, name), "<u4").tolist() == words_by_definition(key, stream)


@pytest.mark.parametrize("key", [0, 1, 1 << 63, (1 << 64) - 1])
def test_every_key_is_legal(key: int) -> None:
    generators_of_process().seed(key)
    first = draws()
    generators_of_process().seed(key)
    assert draws() == first
    with pytest.raises(OverflowError):
        generators_of_process().seed(1 << 64)


PROGRAM = """
import json
assert hash("a") != here, "hashes of strings differ from process to process"
from checks.global_draws import draws
from test_rng import own_draws
from sluicegate.rng.sample import SampleSeeding
seeding = SampleSeeding(11, seed_globals=True)
seeding.begin(2)
with seeding.batch():
    seeding.sample(5)
    print(json.dumps(draws() + own_draws()))
"""


def fetched(seed: int, epoch: int, index: Any) -> list[float]:
    seeding = SampleSeeding(seed, seed_globals=True)
    seeding.begin(epoch)
    with seeding.batch():
        seeding.sample(index)
        return draws() + own_draws()


def test_a_sample_is_the_same_in_every_process(run: Run) -> None:
    ended = run(PROGRAM, here=hash("a"))
    ended.check()
    assert json.loads(ended.stdout) == fetched(11, 2, 5)


def test_a_forked_child_continues_with_its_own_generators() -> None:
    expected = fetched(11, 2, 5)
    before = public_states()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(fetched(11, 2, 5)))
    child.start()
    assert receiver.recv() == expected
    child.join()
    assert public_states() == before


def test_samples_differ_by_seed_epoch_and_index() -> None:
    base = fetched(1, 2, 3)
    assert fetched(1, 2, 3) == base
    for other in (fetched(2, 2, 3), fetched(1, 3, 3), fetched(1, 2, 4), fetched(2, 1, 3), fetched(1, 3, 2)):
        assert not set(other) & set(base)


def chi_square(values: np.ndarray[Any, Any], bins: int = 100) -> float:
    counts, _ = np.histogram(values, bins, (0.0, 1.0))
    expected = len(values) / bins
    return float((((counts - expected) ** 2) / expected).sum())


def test_first_draws_of_neighboring_keys_are_uniform_and_unrelated() -> None:
    generators = generators_of_process()
    size = 10_000
    drawn = np.empty((4, size))
    for key in range(size):
        generators.seed(key)
        drawn[:, key] = random.random(), random.random(), np.random.random_sample(), float(torch.rand(1))
    for values in drawn:
        # 99 degrees of freedom: five standard deviations.
        assert chi_square(values) < 99 + 5 * (2 * 99) ** 0.5
        for lag in (1, 2, 64):
            assert abs(np.corrcoef(values[lag:], values[:-lag])[0, 1]) < 5 / size**0.5
    between = np.corrcoef(drawn) - np.eye(4)
    assert np.abs(between).max() < 5 / size**0.5


@pytest.mark.parametrize("stream", ["global python", "sample torch"])
def test_each_bit_of_a_key_changes_half_of_every_state(stream: str) -> None:
    def bits(key: int) -> np.ndarray[Any, Any]:
        return np.unpackbits(np.frombuffer(_core.generator_words(key, stream), np.uint8))

    keys = [key * 0x9E37_79B9 for key in range(40)]
    states = [bits(key) for key in keys]
    changes = np.zeros(624 * 32)
    for flipped in range(64):
        for key, state in zip(keys, states, strict=True):
            difference = bits(key ^ (1 << flipped)) ^ state
            # A fair coin for each of 19,968 bits, within six standard deviations.
            assert abs(int(difference.sum()) - 9984) < 6 * 70.7
            changes += difference
    tries = 64 * len(keys)
    assert np.abs(changes - tries / 2).max() < 6 * (tries / 4) ** 0.5


def test_the_words_of_a_state_are_uniform() -> None:
    words = np.stack([np.frombuffer(_core.generator_words(key, "global numpy"), "<u4") for key in range(500)])
    for values in (words.ravel(), words[:, 0], words[:, 623]):
        assert chi_square(values / 2**32) < 99 + 5 * (2 * 99) ** 0.5
    # Correlate neighbors, values within and between rows of the sixteen lanes.
    scaled = words / 2**32
    for lag in (1, 8, 15, 16, 17, 32, 397):
        pairs = np.corrcoef(scaled[:, lag:].ravel(), scaled[:, :-lag].ravel())[0, 1]
        assert abs(pairs) < 5 / (500 * (624 - lag)) ** 0.5


# The generators of a sample.


def test_outside_of_a_fetch_there_are_no_generators() -> None:
    with pytest.raises(RuntimeError, match=r"that calls. under DataLoader\(\.\.\., seed=\.\.\.\)"):
        sample_rng()
    seeding = SampleSeeding(1, seed_globals=False)
    seeding.begin(0)
    with seeding.batch():
        with pytest.raises(RuntimeError, match="not fetching a sample with a seed"):
            sample_rng()
        seeding.sample(0)
        sample_rng()
    with pytest.raises(RuntimeError, match="not fetching a sample with a seed"):
        sample_rng()


def test_the_generators_of_a_sample_advance_and_are_not_shared() -> None:
    seeding = SampleSeeding(1, seed_globals=False)
    seeding.begin(0)
    with seeding.batch():
        seeding.sample(0)
        first = sample_rng()
        assert sample_rng() is first
        assert first.python is first.python
        assert first.numpy is first.numpy
        assert first.torch is first.torch
        drawn = own_draws()
        assert own_draws() != drawn
        seeding.sample(0)
        assert sample_rng() is not first
        assert own_draws() == drawn
        seeding.sample(1)
        assert not set(own_draws()) & set(drawn)
        assert "key 0x" in repr(sample_rng())


def test_the_generators_are_of_the_documented_classes_and_can_spawn() -> None:
    seeding = SampleSeeding(1, seed_globals=False)
    with seeding.batch():
        seeding.sample(0)
        own = sample_rng()
        assert type(own.python) is random.Random
        assert isinstance(own.numpy, np.random.Generator)
        assert isinstance(own.torch, torch.Generator)
        assert own.torch.device.type == "cpu"
        assert own.numpy.spawn(1)[0].random() != own.numpy.random()


def test_own_generators_leave_the_global_ones_alone() -> None:
    seeding = SampleSeeding(1, seed_globals=False)
    before = public_states()
    with seeding.batch():
        seeding.sample(0)
        own_draws()
    assert public_states() == before


def test_a_version_of_torch_with_another_form_still_gets_a_seeded_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate._core.torch_state", lambda key: bytearray(5057))
    assert own_torch(3).initial_seed() == own_torch(3).initial_seed() != own_torch(4).initial_seed()


def own_torch(index: int) -> torch.Generator:
    seeding = SampleSeeding(1, seed_globals=False)
    with seeding.batch():
        seeding.sample(index)
        return sample_rng().torch


def test_each_thread_has_its_own_sample() -> None:
    seeding = SampleSeeding(3, seed_globals=False)
    seeding.begin(0)
    expected = {}
    for index in range(8):
        with seeding.batch():
            seeding.sample(index)
            expected[index] = own_draws()
    found: dict[int, list[float]] = {}
    together = threading.Barrier(8)

    def fetch(index: int) -> None:
        with pytest.raises(RuntimeError):
            sample_rng()
        with seeding.batch():
            seeding.sample(index)
            together.wait()
            found[index] = own_draws()

    with seeding.batch():
        seeding.sample(99)
        own = sample_rng()
        threads = [threading.Thread(target=fetch, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sample_rng() is own
    assert found == expected


@pytest.mark.parametrize("inner_seeds", [True, False])
def test_a_loader_inside_of_a_sample_gives_it_its_generators_back(inner_seeds: bool) -> None:
    def sample_of(inner: Callable[[], object]) -> list[float]:
        outer = SampleSeeding(1, seed_globals=True)
        outer.begin(0)
        with outer.batch():
            outer.sample(5)
            first = own_draws() + draws() + draw_normals()
            inner()
            return first + own_draws() + draw_normals() + draws()

    def fetch_inside() -> None:
        inner = SampleSeeding(2, seed_globals=inner_seeds)
        inner.begin(4)
        with inner.batch():
            with pytest.raises(RuntimeError):
                sample_rng()
            inner.sample(5)
            own_draws()
            if inner_seeds:
                draw_normals()

    assert sample_of(fetch_inside) == sample_of(lambda: None)


def test_the_global_generators_are_restored_after_a_batch_also_after_errors() -> None:
    draw_normals()
    before = public_states()
    seeding = SampleSeeding(1, seed_globals=True)
    seeding.begin(0)

    def fetch() -> None:
        with seeding.batch():
            seeding.sample(0)
            draw_normals()
            raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        fetch()
    assert public_states() == before
    with pytest.raises(RuntimeError, match="not fetching a sample with a seed"):
        sample_rng()


def test_without_seeding_of_globals_they_are_not_touched_at_all() -> None:
    seeding = SampleSeeding(1, seed_globals=False)
    seeding.begin(0)
    expected = public_states()
    with seeding.batch():
        seeding.sample(0)
        assert public_states() == expected
        random.random()
    assert public_states() != expected


def test_samples_are_seeded_before_the_first_batch_and_epoch_too() -> None:
    first, second = SampleSeeding(1, seed_globals=True), SampleSeeding(1, seed_globals=True)
    second.begin(0)
    drawn = []
    with SampleSeeding(9, seed_globals=False).batch():  # must leave no sample behind
        for seeding in (first, second):
            seeding.sample(0)
            drawn.append(draws())
    assert drawn[0] == drawn[1]


def key_of(index: Any) -> str:
    seeding = SampleSeeding(1, seed_globals=False)
    with seeding.batch():
        seeding.sample(index)
        return repr(sample_rng())


def test_integers_of_every_kind_name_the_same_sample() -> None:
    assert key_of(3) == key_of(np.int64(3)) == key_of(np.uint8(3)) == key_of(torch.tensor(3)) == key_of(np.array(3))
    assert key_of(-1) == key_of((1 << 64) - 1) != key_of(1)
    assert len({key_of(index) for index in (0, 1, -1, 1 << 63, 1 << 64, 1 << 200, -(1 << 64))}) == 7


def test_other_index_types_have_different_keys() -> None:
    indices = ["3", "a", b"a", 3.5, (3,), (3, 4), ("3", 4), ((3,), 4), [], ""]
    assert len({key_of(index) for index in [3, *indices]}) == len(indices) + 1
    assert key_of((3, "a")) == key_of((np.int64(3), np.str_("a"))) == key_of((torch.tensor(3), "a"))
    assert key_of((3, 4)) == "<SampleGenerators of key 0x734c0b1785fe188c>"
    for index in (object(), None, {"a": 1}, (1, object())):
        with pytest.raises(TypeError, match=r"index: expected an integer, .* but got a "):
            key_of(index)
