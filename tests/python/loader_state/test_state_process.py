"""A state passes through a JSON file into a process with a different seed, and everything that follows is the same.

One process saves all cases and one loads them, because starting a process costs more than a case.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from checks.programs import Run

# The first test waits for both programs, with all cases.
pytestmark = pytest.mark.timeout(480)

PROGRAM = """
import json, random, traceback
import numpy
from cases.loader_kinds import take
from doubles.stateful import DrawingRows, Indices

def sampler(kind):
    return {
        "torch's": lambda: torch.utils.data.RandomSampler(range(13)),
        # Its generator is the sampler's own: the second process seeds it the same way, as the user's program would.
        "torch's with a generator": lambda: torch.utils.data.RandomSampler(
            range(13), generator=torch.Generator().manual_seed(5)
        ),
        "replacement": lambda: data.RandomSampler(range(13), replacement=True, num_samples=17),
        "weighted": lambda: data.WeightedRandomSampler([1.0 + index for index in range(13)], 15),
        "subset": lambda: data.SubsetRandomSampler(range(3, 13)),
        "sequential": lambda: data.SequentialSampler(range(13)),
    }[kind]()

def follows(case, state):
    given = dict(case["arguments"])
    given["num_workers"] = case["resumed_workers"] if load else case["num_workers"]
    if case["own_generator"]:
        given["generator"] = torch.Generator().manual_seed(seed + 1)
    if "sampler" in given:
        given["sampler"] = sampler(given["sampler"])
    if "batch_sampler" in given:
        given["batch_sampler"] = torch.utils.data.BatchSampler(sampler(given["batch_sampler"]), 3, False)
    loader = data.DataLoader({"rows": Indices, "drawing": DrawingRows}[case["dataset"]](13), **given)
    if load:
        loader.load_state_dict(state)
        return None, [take(loader) for _ in range(case["epochs"])]
    for _ in range(case["epochs_before"]):
        take(loader)
    if case["stop"] is None:
        return json.loads(json.dumps(loader.state_dict())), [take(loader) for _ in range(case["epochs"])]
    iterator = iter(loader)
    take(iterator, case["stop"])
    state = json.loads(json.dumps(loader.state_dict()))
    return state, [take(iterator), *(take(loader) for _ in range(case["epochs"] - 1))]

with open(path) as file:
    cases, states = json.load(file)
outcomes, saved = {}, {}
for name, case in cases.items():
    random.seed(seed), numpy.random.seed(seed), torch.manual_seed(seed)
    try:
        saved[name], outcomes[name] = follows(case, states.get(name))
    except Exception:
        outcomes[name] = traceback.format_exc()
if not load:
    with open(path, "w") as file:
        json.dump([cases, saved], file)
print(json.dumps(outcomes))
"""


def case(
    stop: int | None,
    dataset: str = "rows",
    num_workers: int = 0,
    resumed_workers: int | None = None,
    epochs_before: int = 0,
    own_generator: bool = False,
    **arguments: Any,
) -> dict[str, Any]:
    """Return a loader's case, saved after whole epochs and `stop` batches, or between epochs if `stop` is None."""
    if "batch_sampler" not in arguments:
        arguments = {"batch_size": 3} | arguments
    return {
        "stop": stop,
        "dataset": dataset,
        "num_workers": num_workers,
        "resumed_workers": num_workers if resumed_workers is None else resumed_workers,
        "epochs_before": epochs_before,
        # Workers are slow to start.
        "epochs": 2 if num_workers or resumed_workers else 3,
        "own_generator": own_generator,
        "arguments": arguments,
    }


def all_cases() -> dict[str, dict[str, Any]]:
    cases = {}
    for num_workers in (0, 2):
        where = f"{num_workers} workers"
        for number, (own_generator, stop) in enumerate(itertools.product((False, True), (0, 2, 5, None))):
            # With workers, each generator with half of the stops.
            if num_workers and (number + own_generator) % 2:
                continue
            name = f"shuffle, {'a generator' if own_generator else 'none'}, {stop}, {where}"
            before = 0 if stop == 0 else 1
            cases[name] = case(
                stop, num_workers=num_workers, epochs_before=before, own_generator=own_generator, shuffle=True
            )
        for kind in ("torch's", "torch's with a generator", "replacement", "weighted", "subset", "sequential"):
            # One worker reads less ahead.
            cases[f"sampler {kind}, {where}"] = case(2, num_workers=num_workers // 2, sampler=kind)
        for kind in ("torch's", "replacement") if num_workers else ("torch's", "replacement", "weighted", "subset"):
            cases[f"sampler {kind}, later, {where}"] = case(1, num_workers=num_workers, epochs_before=1, sampler=kind)
        for stop in (2, None):
            cases[f"batch sampler, {stop}, {where}"] = case(
                stop, num_workers=num_workers, epochs_before=1, batch_sampler="torch's"
            )
        for name, arguments in {
            "sequential": {},
            "shuffle": {"shuffle": True},
            "sampler": {"sampler": "torch's"},
            "unbatched": {"batch_size": None},
            "seldom": {"snapshot_every_n_steps": 4},
        }.items():
            cases[f"drawing, {name}, {where}"] = case(
                2, "drawing", num_workers=num_workers, epochs_before=1, **arguments
            )
        if num_workers:
            cases["drawing, persistent workers"] = case(
                2, "drawing", num_workers=num_workers, epochs_before=1, persistent_workers=True
            )
        for stop in (0, 2, None):
            cases[f"seed mode, {stop}, {where}"] = case(
                stop,
                "drawing",
                num_workers=num_workers,
                resumed_workers=2 - num_workers,
                epochs_before=2,
                shuffle=True,
                seed=2**64 - 1,
            )
    for saved, resumed in ((0, 2), (2, 0), (2, 3)):
        cases[f"from {saved} to {resumed} workers"] = case(
            3, num_workers=saved, resumed_workers=resumed, epochs_before=1, shuffle=True
        )
    return cases


CASES = all_cases()


@pytest.fixture(scope="module")
def outcomes(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the batches after the state in the process that saved it, and in the one that loaded it."""
    path: Path = tmp_path_factory.mktemp("states") / "states.json"
    path.write_text(json.dumps([CASES, {}]))
    found = []
    for seed, load in ((1, False), (77, True)):
        ended = run(PROGRAM, deadline=170.0, path=str(path), seed=seed, load=load)
        ended.check(stderr=None)
        found.append(json.loads(ended.stdout))
    return found[0], found[1]


@pytest.mark.parametrize("name", CASES)
def test_everything_after_the_state_is_the_same_in_another_process(
    name: str, outcomes: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    saved, loaded = outcomes[0][name], outcomes[1][name]
    assert isinstance(saved, list), saved
    assert isinstance(loaded, list), loaded
    assert sum(map(len, saved[1:])) > 0
    assert loaded == saved
