"""The generators that the core draws from in place of Python code."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from sluicegate.rng.generator_pair import GeneratorPair
from sluicegate.rng.global_generators import global_state


def pair_and_parts(seed: int = 3) -> tuple[GeneratorPair, torch.Generator, random.Random]:
    of_torch, of_python = torch.Generator("cpu").manual_seed(seed), random.Random(seed)
    return GeneratorPair(of_torch, of_python), of_torch, of_python


def drawn(of_torch: torch.Generator, of_python: random.Random) -> tuple[Any, ...]:
    # Odd numbers of normal deviates, so that one of two that were made together is kept.
    return torch.randn(3, generator=of_torch).tolist(), of_python.gauss(0.0, 1.0), of_python.random()


def test_states_that_were_taken_are_set() -> None:
    pair, *parts = pair_and_parts()
    drawn(*parts)
    states = pair.states(has_python=True)
    expected = drawn(*parts)
    drawn(*parts)
    pair.set_states(states)
    assert drawn(*parts) == expected


def test_without_pythons_state_only_torchs_is_set() -> None:
    pair, *parts = pair_and_parts()
    states = pair.states(has_python=False)
    numbers, *_ = drawn(*parts)
    before = parts[1].getstate()
    pair.set_states(states)
    assert parts[1].getstate() == before
    assert drawn(*parts)[0] == numbers


@pytest.mark.parametrize("has_python", [True, False])
def test_text_is_of_the_states_or_as_they_are_now(has_python: bool) -> None:
    pair, *parts = pair_and_parts()
    drawn(*parts)
    states, text = pair.states(has_python=has_python), pair.as_text()
    now = parts[0].get_state(), parts[1].getstate()
    assert pair.as_text(states) == text
    assert torch.equal(parts[0].get_state(), now[0])
    assert parts[1].getstate() == now[1]
    expected = drawn(*parts)
    assert pair.as_text(states)["torch"] == text["torch"] != pair.as_text()["torch"]
    assert (pair.as_text(states)["python"] == text["python"]) is has_python
    pair.set_text(text)
    assert drawn(*parts) == expected


def test_a_worker_and_the_process_have_the_generators_of_the_libraries() -> None:
    torch.manual_seed(5)
    random.seed(5)
    text = global_state(("python", "torch"))
    assert GeneratorPair.of_process().as_text() == GeneratorPair.of_seed(5).as_text() == text
