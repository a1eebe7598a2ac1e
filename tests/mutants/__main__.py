"""Mutation testing of the Python package: which changes of its code do its tests notice?

A seed determines the mutations. For each, the tests of its package's mirrored folder run in a copy of the tree, then,
if none fails, those of other folders that use the package. A table lists it as killed, survived, or too slow. A kill
counts only if the failed test passes without the mutation.
"""

from __future__ import annotations

import argparse
import importlib
import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import trial
from mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
PACKAGE = Path("python/sluicegate")
TESTS = Path("tests/python")
# Imported once here, because most tests need them. Not hypothesis: pytest refuses plugins that it has not rewritten.
IMPORTED = ("torch", "torch.utils.data", "torchvision", "numpy", "pyarrow")
NO_TESTS = 5


@dataclass(frozen=True)
class Mutant:
    """A mutation and the module it is in."""

    module: Path
    source: str
    mutation: Mutation


def all_mutants(package: Path, pattern: str) -> list[Mutant]:
    """Return the mutants of every module of the package whose path matches, in the order of paths and lines."""
    modules = sorted(path.relative_to(package) for path in package.glob(pattern))
    sources = {module: (package / module).read_text("utf-8") for module in modules}
    return [Mutant(module, source, each) for module, source in sources.items() for each in mutations(source)]


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return `size` mutants, or all, in a random order that the seed determines."""
    return random.Random(seed).sample(mutants, min(size, len(mutants)))


def judge(mutant: Mutant, copy: Path, limit: float) -> tuple[str, str]:
    """Return a mutant's outcome, and the test that killed it."""
    file = copy / PACKAGE / mutant.module
    own, users = (
        [str(path.relative_to(copy)) for path in files(mutant.module, copy / TESTS)]
        for files in (trial.mirrored, trial.of_users)
    )
    file.write_text(mutant.mutation.apply(mutant.source), "utf-8")
    try:
        outcome = trial.run(copy, own, limit)
        if outcome.code == 0 and users:
            outcome = trial.run(copy, users, limit)
    finally:
        file.write_text(mutant.source, "utf-8")
    # A mutant may also break pytest itself, after a test has failed: by closing its files, for example.
    if outcome.code in (NO_TESTS, trial.BROKEN) and outcome.failed is None:
        raise RuntimeError(f"{mutant.module}: no test ran\n{(copy / trial.OUTPUT).read_text('utf-8')}")
    if outcome.code is None:
        return "too slow", ""
    if outcome.code == 0:
        return "survived", ""
    if outcome.failed is None:
        return "killed", "at import"
    healthy = trial.run(copy, [outcome.failed], limit)
    return ("killed" if healthy.code == 0 else "unclear"), outcome.failed.removeprefix(f"{TESTS}/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--only", default="**/*.py", help="modules, as a pattern of paths in the package")
    parser.add_argument("--limit", type=float, default=900, help="seconds for the tests of one mutant")
    parser.add_argument("--table", type=Path, default=ROOT / ".cache/mutants/python.md", help="where the table goes")
    options = parser.parse_args()
    for name in IMPORTED:
        importlib.import_module(name)
    drawn = sample(all_mutants(ROOT / PACKAGE, options.only), options.sample, options.seed)
    options.table.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, options.table.open("w", encoding="utf-8") as table:
        copy = Path(folder)
        trial.copy_tree(ROOT, copy)
        healthy = trial.run(copy, [f"{TESTS}/test_layout.py"], options.limit)
        if healthy.code != 0:
            said = (copy / trial.OUTPUT).read_text("utf-8")
            raise RuntimeError(f"the tests of the layout fail without a mutation: exit code {healthy.code}\n{said}")
        print("| result | place | change | killed by |\n| --- | --- | --- | --- |", file=table, flush=True)
        for mutant in drawn:
            result, by = judge(mutant, copy, options.limit)
            counts[result] += 1
            change = mutant.mutation.describe(mutant.source).replace("|", "\\|")
            row = f"| {result} | {mutant.module}:{mutant.mutation.line} | `{change}` | {by} |"
            print(row, file=table, flush=True)
            print(row, flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()))
    print(f"table: {options.table}")


if __name__ == "__main__":
    main()
