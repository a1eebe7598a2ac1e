"""The global generators: seeded, saved, and restored exactly, in every way; and as text in a state."""

from __future__ import annotations

import json
import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from checks import global_draws
from checks.global_draws import LIBRARIES, draw_normals, draws, public_states
from sluicegate import _core
from sluicegate.rng import global_generators
from sluicegate.rng.generator_state import NumpyAccess, OtherTorchAccess, PythonAccess, TorchAccess
from sluicegate.rng.global_generators import generator_state, global_state, set_generator_state, set_global_state
from sluicegate.rng.global_generators import global_generators as generators_of_process
from sluicegate.rng.sample import GlobalDrawWatch

kept = global_draws.kept


def test_seeding_forgets_normal_deviates() -> None:
    generators = generators_of_process()
    generators.seed(5)
    expected = draw_normals()
    # Each library now keeps one deviate.
    generators.seed(5)
    assert draw_normals() == expected
    generators.seed(5)
    draw_normals()
    generators.seed(6)
    other = draw_normals()
    assert not set(other) & set(expected)


def test_states_come_back_exactly_with_their_normal_deviates() -> None:
    generators = generators_of_process()
    draw_normals()
    states, public = generators.take(), public_states()
    expected = draw_normals() + draws() + draw_normals()
    generators.seed(1)
    generators.put(states)
    assert public_states() == public
    assert generators.take() == states
    assert generators.take_torch() == states[2]
    assert draw_normals() + draws() + draw_normals() == expected


@pytest.mark.parametrize("spent", [1, 311, 623, 624, 625, 1247, 1248, 1249])
def test_states_come_back_at_any_position(spent: int) -> None:
    generators = generators_of_process()
    generators.seed(3)
    for _ in range(spent):
        random.getrandbits(32)
    np.random.bytes(4 * spent)
    torch.randint(100, (spent,))
    states = generators.take()
    expected = draws()
    generators.seed(4)
    generators.put(states)
    assert draws() == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_moved_detects_draws_from_each_global_generator(library: str) -> None:
    generators = generators_of_process()
    states = generators.take()
    assert generators.moved(states) == (False, False, False)
    {"python": random.random, "numpy": np.random.rand, "torch": lambda: torch.rand(1)}[library]()
    assert generators.moved(states) == tuple(library == other for other in LIBRARIES)
    generators.put(states)
    assert generators.moved(states) == (False, False, False)


def test_a_draw_that_only_takes_a_kept_deviate_is_seen() -> None:
    generators = generators_of_process()
    draw_normals()
    states = generators.take()
    random.gauss(0.0, 1.0)
    assert generators.moved(states) == (True, False, False)
    np.random.standard_normal()
    assert generators.moved(states) == (True, True, False)
    torch.randn(1, dtype=torch.float64)
    assert generators.moved(states) == (True, True, True)


def test_the_fast_access_to_generators_works_here() -> None:
    accesses = [getattr(global_generators, f"_global_{library}_access")(True) for library in LIBRARIES]
    assert [type(access) for access in accesses] == [tuple] * 3


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> _core.GlobalGenerators:
    """Yield the global generators through the libraries' public functions."""
    monkeypatch.setattr(global_generators, "_python_addresses", lambda: None)
    monkeypatch.setattr(global_generators, "_numpy_addresses", lambda: None)
    monkeypatch.setattr(global_generators, "_works", lambda *_: False)
    accesses = [getattr(global_generators, f"_global_{library}_access")(True) for library in LIBRARIES]
    assert [type(access) for access in accesses] == [PythonAccess, NumpyAccess, TorchAccess]
    return global_generators._open()


@pytest.mark.parametrize("key", [0, 7, (1 << 64) - 1])
def test_seeding_through_the_public_api_sets_the_same_states(slow: _core.GlobalGenerators, key: int) -> None:
    fast = generators_of_process()
    draw_normals()
    slow.seed(key)
    states = public_states()
    draw_normals()
    fast.seed(key)
    assert public_states() == states


def test_access_through_the_public_api_takes_and_puts_the_same_states(slow: _core.GlobalGenerators) -> None:
    fast = generators_of_process()
    for make in (draws, draw_normals, draw_normals, lambda: torch.manual_seed(1 << 40)):
        make()
        states = fast.take()
        assert slow.take() == states
        assert slow.take_torch() == states[2]
        public = public_states()
        for writer in (fast, slow):
            fast.seed(9)
            writer.put(states)
            assert public_states() == public
            assert slow.moved(states) == fast.moved(states) == (False, False, False)
    torch.rand(1)
    assert slow.moved(states) == fast.moved(states) == (False, False, True)


def test_places_that_are_another_generators_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # With seeds that no other test leaves the global generators at.
    other, other_numpy = random.Random(0x5EED_0F_7415), np.random.RandomState(np.random.MT19937(0x5EED_0F_74))
    pythons, numpys = global_generators._python_addresses(), global_generators._numpy_addresses()
    assert pythons is not None
    assert numpys is not None
    other_addresses = pythons(other), numpys(other_numpy, np.random.MT19937(0x5EED_0F_75))
    monkeypatch.setattr(global_generators, "_python_addresses", lambda: lambda generator: other_addresses[0])
    monkeypatch.setattr(global_generators, "_numpy_addresses", lambda: lambda generator, bits: other_addresses[1])
    other_torch = global_generators._torch_addresses(torch.Generator())
    monkeypatch.setattr(global_generators, "_torch_addresses", lambda generator: other_torch)
    assert isinstance(global_generators._global_python_access(True), PythonAccess)
    assert isinstance(global_generators._global_numpy_access(True), NumpyAccess)
    assert isinstance(global_generators._global_torch_access(True), TorchAccess)


def test_without_a_gil_or_cpython_the_public_api_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    monkeypatch.setattr(global_generators, "_global_torch_access", lambda is_fast: taken.append(is_fast))
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    global_generators._open()
    monkeypatch.undo()
    monkeypatch.setattr(global_generators, "_global_torch_access", lambda is_fast: taken.append(is_fast))
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    global_generators._open()
    assert taken == [False, False]


@pytest.mark.parametrize("name", ["PCG64", "Philox", "SFC64", "PCG64DXSM"])
def test_another_bit_generator_of_numpy_is_seeded_saved_and_put_back(name: str) -> None:
    before = np.random.get_bit_generator()
    of_twister = generators_of_process().take()
    np.random.set_bit_generator(getattr(np.random, name)(1))
    try:
        generators = generators_of_process()
        drawn = []
        for key in (1, 2, 1):
            np.random.standard_normal()
            generators.seed(key)
            drawn.append([*np.random.random_sample(3), np.random.standard_normal()])
        assert drawn[0] == drawn[2] != drawn[1]
        text = json.dumps(global_state())
        states = generators.take()
        expected = [np.random.standard_normal(), *np.random.random_sample(3)]
        assert generators.moved(states) == (False, True, False)
        generators.seed(3)
        set_global_state(json.loads(text))
        assert [np.random.standard_normal(), *np.random.random_sample(3)] == expected
        with pytest.raises(ValueError, match=f"expected a state of numpy's {name}"):
            generators.put(of_twister)
    finally:
        np.random.set_bit_generator(before)
    with pytest.raises(ValueError, match="generator of numpy: expected the state of a Mersenne Twister of 2512 bytes"):
        set_global_state(json.loads(text))
    assert generators_of_process() is not generators
    assert generators_of_process().take()[1] == of_twister[1]


# Snapshots as text.


def test_global_states_are_json_and_come_back_exactly() -> None:
    draw_normals()
    text = json.dumps(global_state())
    assert len(text) < 3 * 3600
    public = public_states()
    expected = draw_normals() + draws()
    generators_of_process().seed(1)
    set_global_state(json.loads(text))
    assert public_states() == public
    assert draw_normals() + draws() == expected


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("garbage", ["", "AAAA", "no base64", None, 7])
def test_garbage_is_refused_by_name_and_nothing_is_set(library: str, garbage: Any) -> None:
    states = global_state()
    generators_of_process().seed(1)
    before = public_states()
    with pytest.raises(ValueError, match=f"the state of .*{library}"):
        set_global_state({**states, library: garbage})
    with pytest.raises(ValueError, match=f"is missing {library}"):
        set_global_state({name: state for name, state in states.items() if name != library})
    assert public_states() == before


def test_states_that_point_outside_of_their_words_are_refused(slow: _core.GlobalGenerators) -> None:
    fast = generators_of_process()
    python, numpy, torchs = fast.take()
    far = (625).to_bytes(4, "little")
    bad_mersenne = python[:2496] + far + python[2500:]
    bad_torch = torchs[:2496] + (624).to_bytes(4, "little") * 2 + torchs[2504:]
    none_left = torchs[:2500] + bytes(4) + torchs[2504:]
    public = public_states()
    for generators in (fast, slow):
        for states in (
            (bad_mersenne, numpy, torchs),
            (python, bad_mersenne, torchs),
            (python, numpy, bad_torch),
            (python, numpy, none_left),
        ):
            with pytest.raises(ValueError):
                generators.put(states)
    assert public_states() == public


def test_a_generator_of_torch_comes_back_exactly() -> None:
    generator = torch.Generator().manual_seed((1 << 63) + 5)
    torch.randn(1, generator=generator)
    torch.randn(1, dtype=torch.float64, generator=generator)
    state = generator_state(generator)
    assert len(state) < 3600
    other = torch.Generator()
    set_generator_state(other, state)
    assert torch.equal(other.get_state(), generator.get_state())
    assert other.initial_seed() == generator.initial_seed()
    for dtype in (torch.float32, torch.float64):
        ours, theirs = (torch.randn(3, dtype=dtype, generator=one) for one in (generator, other))
        assert torch.equal(ours, theirs)
    for garbage in ("", "AAAA", "?", None):
        with pytest.raises(ValueError, match=r"state of a? ?torch\.Generator"):
            set_generator_state(other, garbage)  # type: ignore[arg-type]


def test_states_of_the_global_torch_generator_and_of_a_generator_are_of_one_form() -> None:
    state = global_state()["torch"]
    assert generator_state(torch.default_generator) == state
    generator = torch.Generator()
    set_generator_state(generator, state)
    assert torch.equal(generator.get_state(), torch.get_rng_state())


def test_a_generator_of_unknown_form_is_kept_as_torch_gives_it() -> None:
    generator = torch.Generator().manual_seed(5)
    way = OtherTorchAccess(generator)
    state = way.take()
    drawn = torch.rand(3, generator=generator)
    way.put(state)
    assert torch.equal(torch.rand(3, generator=generator), drawn)
    with pytest.raises(ValueError, match=r"expected a state of a torch\.Generator on cpu"):
        way.put(state[:-1])
    seeded = generators_of_process().take()[2]
    way.seed(seeded)
    drawn = torch.rand(3, generator=generator)
    way.seed(seeded)
    assert torch.equal(torch.rand(3, generator=generator), drawn)


def test_a_watch_names_the_libraries_whose_generators_were_drawn_from() -> None:
    watch = GlobalDrawWatch()
    assert watch.drawn() == []
    watch.arm()
    assert watch.drawn() == []
    torch.rand(1)
    assert watch.drawn() == ["torch"]
    random.random()
    np.random.rand()
    assert watch.drawn() == ["random", "numpy.random", "torch"]
    watch.arm()
    assert watch.drawn() == []
    generator = torch.Generator()
    torch.rand(1, generator=generator)
    np.random.default_rng(0).random()
    random.Random(0).random()
    assert watch.drawn() == []
