"""Accelerate on one and more processes: trained, evaluated, killed, and resumed, with torch's loader as the oracle."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest

from cases.accelerated_training import EPOCHS, ORDERS, SAMPLES
from checks.gloo_ranks import DEADLINE, launch
from checks.programs import Run, zygote

# The number of random trainings that are killed.
KILLS = int(os.environ.get("SLUICEGATE_ACCELERATE_KILLS", "1"))
EVALUATIONS = int(os.environ.get("SLUICEGATE_ACCELERATE_EVALUATIONS", "6"))
TRAININGS = int(os.environ.get("SLUICEGATE_ACCELERATE_TRAININGS", "1"))
ORDERS_READ = int(os.environ.get("SLUICEGATE_ACCELERATE_ORDERS", "10"))
CASES = "from cases import accelerated_training; "
TRAIN = CASES + 'accelerated_training.train(f"{lines}-{rank}", kind, **arguments)'


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs in a process that has imported Accelerate, and the modules that the trainings import."""
    print(f"accelerate {accelerate.__version__}")
    # Not datasets, which takes 0.6 s in each: Arrow's allocator starts a thread, after which forks are not safe.
    later = ("torch._dynamo", "torch.distributed.fsdp", "cases.accelerated_training")
    yield from zygote("accelerate", "accelerate.data_loader", *later)


def train(run: Run, lines: Path, world_size: int, kind: str = "sluicegate", **arguments: Any) -> list[list[Any]]:
    """Return the lines that each process wrote."""
    launch(run, TRAIN, world_size, lines=str(lines), kind=kind, arguments=arguments)
    paths = [Path(f"{lines}-{rank}") for rank in range(world_size)]
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def steps(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line[1] != "evaluation"]


def evaluations(lines: list[Any]) -> list[list[int]]:
    return [line[2] for line in lines if line[1] == "evaluation"]


def rest_of(whole: list[Any], resumed: list[Any]) -> list[Any]:
    """Return as many last lines of the whole training as the resumed one has."""
    return whole[len(whole) - len(resumed) :]


def trained_in(epoch: int, ranks: list[list[Any]]) -> Counter[int]:
    return Counter(index for lines in ranks for line in steps(lines) if line[0] == epoch for index in line[1])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("world_size", "arguments"),
    [
        (1, {"num_workers": 0, "draws": True, "dropout": 0.5}),
        (2, {"num_workers": 0, "draws": True, "dropout": 0.5}),
        (1, {"num_workers": 2, "draws": True, "dropout": 0.5}),
        (2, {"num_workers": 2, "draws": True, "dropout": 0.5}),
        (2, {"num_workers": 0, "drop_last": True, "dropout": 0.5, "rng_types": ["torch", "generator"]}),
        (2, {"num_workers": 0, "batch_size": 4, "config": {"split_batches": True}}),
        (2, {"num_workers": 0, "batch_size": 2, "config": {"split_batches": True, "even_batches": True}}),
    ],
)
def test_without_a_seed_it_trains_as_with_torchs_loader(
    run: Run, tmp_path: Path, world_size: int, arguments: dict[str, Any]
) -> None:
    expected = train(run, tmp_path / "torch", world_size, "torch", **arguments)
    assert train(run, tmp_path / "ours", world_size, **arguments) == expected


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("world_size", "num_workers"), [(1, 0), (2, 0), (2, 2), (3, 0)])
def test_with_a_seed_each_sample_is_trained_and_counted_once(
    run: Run, tmp_path: Path, world_size: int, num_workers: int
) -> None:
    ranks = train(run, tmp_path / "lines", world_size, seed=7, num_workers=num_workers, draws=True)
    assert len({str([line[3:] for line in steps(lines)]) for lines in ranks}) == 1
    for epoch in range(EPOCHS):
        counts = trained_in(epoch, ranks)
        assert sorted(counts) == list(range(SAMPLES))  # Accelerate: sharded
        assert sum(counts.values()) == SAMPLES + -SAMPLES % world_size  # The last step is padded.
    for lines in ranks:
        assert [sorted(counted) for counted in evaluations(lines)] == [list(range(SAMPLES))] * EPOCHS
        for epoch in range(EPOCHS):
            flags = [line[3:] for line in steps(lines) if line[0] == epoch]
            assert [is_last for _, is_last in flags] == [False] * (len(flags) - 1) + [True]
            assert flags[-1] == [True, True]  # The last accumulation, a partial one, is synchronized.
            assert len(flags) % 3
    assert steps(ranks[0])[0][1] != steps(ranks[0])[len(steps(ranks[0])) // 2][1]


KILLED: list[tuple[int, dict[str, Any]]] = [
    # Every two values of different parameters occur together.
    (1, {"seed": None}),
    (1, {"seed": 7, "num_workers": 2}),
    (2, {"seed": None, "num_workers": 2}),
    (2, {"seed": 7}),
    (2, {"rng_types": ["torch", "generator"]}),
    # If the end is not known in advance, a batch is read ahead. Processes can't gather uneven batches.
    (2, {"config": {"even_batches": False}, "evaluates": False}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("world_size", "given"), KILLED)
def test_killed_at_a_random_step_it_resumes_bit_for_bit(
    run: Run, tmp_path: Path, world_size: int, given: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"draws": True, "dropout": 0.5, **given}
    whole = train(run, tmp_path / "whole", world_size, **arguments)
    count = len(steps(whole[0]))
    for number, stop in enumerate(random.sample(range(3, count), KILLS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        train(run, folder / "killed", world_size, **arguments, saves="steps", stop=stop, folder=str(folder))
        resumed = train(run, folder / "resumed", world_size, **arguments, resumes=True, folder=str(folder))
        for rank in range(world_size):
            assert 0 < len(steps(resumed[rank])) <= count - stop + 2, (number, stop)
            assert resumed[rank] == rest_of(whole[rank], resumed[rank]), (number, stop)
        reads = Counter((folder / "reads-1").read_text().split())
        trained = Counter(str(index) for lines in resumed for line in steps(lines) for index in line[1])
        assert reads == trained, "the resumed training has read other samples than it trained with"


@pytest.mark.timeout(300)
# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("seed", "world_size", "workers"),
    [
        (None, 1, {}),
        (7, 2, {}),
        (7, 1, {"num_workers": 1}),
        (None, 2, {"num_workers": 1}),
        (7, 1, {"num_workers": 1, "persistent_workers": True}),
        (None, 2, {"num_workers": 1, "persistent_workers": True}),
    ],
)
def test_resumed_after_an_epoch_it_is_the_uninterrupted_training(
    run: Run, tmp_path: Path, world_size: int, seed: int | None, workers: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"seed": seed, "draws": True, "dropout": 0.5, "folder": str(tmp_path), **workers}
    whole = train(run, tmp_path / "whole", world_size, **arguments)
    stop = len(steps(whole[0])) // EPOCHS + 2
    train(run, tmp_path / "killed", world_size, **arguments, saves="epochs", stop=stop)
    resumed = train(run, tmp_path / "resumed", world_size, **arguments, resumes=True)
    for lines, expected in zip(resumed, whole, strict=True):
        assert lines == [line for line in expected if line[0] == 1]


def random_arguments() -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "num_workers": random.choice([0, 1, 2]),
        "draws": random.random() < 0.7,
        "dropout": random.choice([0.0, 0.5]),
        "drop_last": random.random() < 0.3,
        "batch_size": random.choice([2, 4, 6]),
        "config": {"split_batches": random.random() < 0.3},
        "rng_types": random.choice([None, None, ["torch", "generator"]]),
    }
    return arguments | {"persistent_workers": arguments["num_workers"] > 0 and random.random() < 0.6}


@pytest.mark.timeout(120 + 60 * TRAININGS)
@pytest.mark.parametrize("world_size", [1, 2])
def test_random_trainings_are_those_with_torchs_loader_and_resume(run: Run, tmp_path: Path, world_size: int) -> None:
    for number in range(TRAININGS):
        arguments, folder = random_arguments(), tmp_path / str(number)
        folder.mkdir()
        whole = train(run, folder / "ours", world_size, **arguments)
        assert whole == train(run, folder / "torch", world_size, "torch", **arguments), arguments
        if random.random() < 0.3:
            arguments["seed"] = 5
            whole = train(run, folder / "seeded", world_size, **arguments)
        count, saves = len(steps(whole[0])), random.choice(["steps", "epochs"])
        first = 3 if saves == "steps" else count // EPOCHS + 1
        given = arguments | {"folder": str(folder)}
        train(run, folder / "killed", world_size, **given, saves=saves, stop=random.randrange(first, count))
        resumed = train(run, folder / "resumed", world_size, **given, resumes=True)
        for rank in range(world_size):
            assert resumed[rank] == rest_of(whole[rank], resumed[rank]), (arguments, saves)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world_size", [2, 3])
def test_without_a_seed_each_process_gets_the_batches_that_accelerate_gives_it(
    run: Run, tmp_path: Path, world_size: int
) -> None:
    # The last batch does not reach all processes: Accelerate's own length is wrong.
    cases: list[Any] = [({"split_batches": True, "even_batches": False}, {"batch_size": 6}, None, 13)]
    for _ in range(ORDERS_READ):
        order = random.choice([None, None, *ORDERS])
        # Accelerate refuses to split batches that the dataset returns.
        config = {"split_batches": order != "unbatched" and random.random() < 0.3}
        config["even_batches"] = random.random() < 0.7
        arguments: dict[str, Any] = {"num_workers": random.choice([0, 0, 2])}
        if order not in ("batches", "cut", "unbatched"):
            arguments |= {"batch_size": random.randrange(1, 8), "drop_last": random.random() < 0.3}
        if order is None:
            arguments["shuffle"] = random.random() < 0.7
        cases.append((config, arguments, order, random.randrange(1, 40)))
    read = {}
    for kind in ("torch", "sluicegate"):
        program = CASES + 'accelerated_training.read(f"{path}-{kind}-{rank}", kind, cases)'
        launch(run, program, world_size, path=str(tmp_path / "read"), kind=kind, cases=cases)
        read[kind] = [json.loads((tmp_path / f"read-{kind}-{rank}").read_text()) for rank in range(world_size)]
    for rank in range(world_size):
        for case, ours, expected in zip(cases, read["sluicegate"][rank], read["torch"][rank], strict=True):
            assert ours == expected, (rank, case)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3)])
def test_with_a_seed_another_number_of_processes_resumes(run: Run, tmp_path: Path, before: int, after: int) -> None:
    arguments: dict[str, Any] = {"seed": 7, "folder": str(tmp_path), "batch_size": 2}
    first = train(run, tmp_path / "before", before, **arguments, saves="steps", stop=3)
    second = train(run, tmp_path / "after", after, **arguments, resumes=True)
    assert trained_in(0, first).total() == 2 * 3 * before
    both = trained_in(0, first) + trained_in(0, second)
    assert sorted(both) == list(range(SAMPLES))
    assert both.total() == SAMPLES + (6 * before - SAMPLES) % after
    assert sorted(trained_in(1, second)) == list(range(SAMPLES))


def test_without_a_seed_another_number_of_processes_is_refused(run: Run, tmp_path: Path) -> None:
    train(run, tmp_path / "before", 2, saves="steps", stop=3, folder=str(tmp_path))
    arguments = {"folder": str(tmp_path), "resumes": True}
    launch(
        run, CASES + "accelerated_training.refused('2 processes', 'sluicegate', **arguments)", 1, arguments=arguments
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_random_evaluations_count_each_sample_once(run: Run, world_size: int) -> None:
    cases = []
    for _ in range(EVALUATIONS):
        split = random.random() < 0.3
        size = random.choice([1, world_size, random.randrange(1, 40)])
        batch_size = random.randrange(1, 6) * (world_size if split else 1)
        arguments = {
            "batch_size": batch_size,
            "shuffle": random.random() < 0.5,
            "num_workers": random.choice([0, 0, 2]),
        }
        if random.random() < 0.6:
            arguments["seed"] = random.randrange(9)
        cases.append(({"split_batches": split}, arguments, size))
    launch(run, CASES + "accelerated_training.evaluate(cases)", world_size, cases=cases)


SCRIPT = f"""
import os, signal, sys
from cases import accelerated_training
signal.alarm({DEADLINE})
accelerated_training.train(sys.argv[1] + "-" + os.environ["RANK"], sys.argv[2])
os._exit(0)  # gloo's threads, which outlive the process group here, sometimes abort the interpreter's end.
"""


@pytest.mark.timeout(300)
def test_accelerate_launch_runs_the_script(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    # Without MPI the launcher starts several processes only for GPUs; the script chooses the CPU itself.
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    command += ["--main_process_port", "0", str(script), str(tmp_path / "launched"), "sluicegate"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE + 20, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    launched = [(tmp_path / f"launched-{rank}").read_text().splitlines() for rank in range(2)]
    # `launch` starts the processes without importing everything again in each, as the launcher does.
    assert [[json.loads(line) for line in lines] for lines in launched] == train(run, tmp_path / "torch", 2, "torch")
