"""Workers that are not forked import the main module: an error explains scripts without a guard, and notebooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks.programs import Ended, Run, run_script
from sluicegate.worker.missing_definition import explain_missing

pytestmark = pytest.mark.timeout(120)

DEFINITION = """
import torch
from sluicegate import DataLoader

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return index * index
"""
LOOP = """
loader = DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context={method!r})
print([batch.tolist() for batch in loader])
"""
GUARD = 'if __name__ == "__main__":\n'


def guarded(source: str) -> str:
    return GUARD + "".join(f"    {line}\n" for line in source.splitlines())


def last_line(ended: Ended | subprocess.CompletedProcess[str]) -> str:
    return (ended.stdout + ended.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_without_a_guard(run: Run, tmp_path: Path, method: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(DEFINITION + LOOP.format(method=method))
    said = last_line(run_script(run, script))
    assert said.startswith("RuntimeError: DataLoader worker (pid(s) ")
    assert str(script) in said
    assert 'if __name__ == "__main__":' in said
    script.write_text(DEFINITION + guarded(LOOP.format(method=method)))
    assert last_line(run_script(run, script)) == "[[0, 1, 4, 9], [16, 25, 36, 49]]"


def test_a_class_defined_under_the_guard_is_an_error_with_a_remedy(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(guarded(DEFINITION + LOOP.format(method="spawn")))
    said = last_line(run_script(run, script))
    assert said.startswith("AttributeError: Can't get attribute 'Squares'")
    assert "define it outside of" in said


def test_a_class_of_an_interactive_session() -> None:
    command = [sys.executable, "-c", DEFINITION + LOOP.format(method="spawn")]
    said = last_line(subprocess.run(command, capture_output=True, text=True, timeout=100))
    assert said.startswith("AttributeError: Can't get attribute 'Squares'")
    assert "notebook" in said
    assert "move it to a module" in said


def test_other_errors_are_left_alone() -> None:
    for text in ("no attribute", "Can't get attribute 'x' on <module 'other' from 'other.py'>"):
        error = AttributeError(text)
        explain_missing(error)
        assert error.args == (text,)
