"""The reanalysis example, killed and started again: the losses are those of an uninterrupted run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "reanalysis.py"
netcdf = pytest.importorskip("scipy.io").netcdf_file


def _reanalysis(path: Path) -> None:
    """Write a file that is packed like ERA-Interim."""
    generator = np.random.default_rng(0)
    with netcdf(path, "w", version=2) as file:
        for name, size in (("month", 2), ("level", 3), ("latitude", 81), ("longitude", 160)):
            file.createDimension(name, size)
        for name, scale, offset in (("z", -1.7, 66825.5), ("u", -0.0016, 26.9), ("v", -0.0005, -1.4)):
            variable = file.createVariable(name, "h", ("month", "level", "latitude", "longitude"))
            variable.scale_factor, variable.add_offset = np.float64(scale), np.float64(offset)
            variable[:] = generator.integers(-30_000, 30_000, (2, 3, 81, 160))


def _lines(path: Path, checkpoint: Path, kill_after: int | None = None) -> list[str]:
    command = [sys.executable, str(EXAMPLE), str(path), str(checkpoint)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if len(lines) == kill_after:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.read()
        assert process.wait(60) == (0 if kill_after is None else -signal.SIGKILL)
    return lines


@pytest.mark.timeout(300)
def test_a_killed_training_resumes_where_it_was(tmp_path: Path) -> None:
    _reanalysis(tmp_path / "file.nc")
    whole = _lines(tmp_path / "file.nc", tmp_path / "whole")
    assert len(whole) == 2 * 3 + 1
    assert whole[-1] == "trained on 36 windows per epoch\n"
    # Killed in the second epoch.
    before = _lines(tmp_path / "file.nc", tmp_path / "killed", kill_after=4)
    after = _lines(tmp_path / "file.nc", tmp_path / "killed")
    assert before == whole[:4]
    # The last printed step may not have been saved.
    assert after in (whole[4:], whole[3:])
