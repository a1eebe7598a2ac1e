"""The process of one turn: `python contender.py TURN`, with TURN in JSON; the last line of stdout is the answer.

The answer is {"metrics": {name: number}, "versions": {package: version}}. On any failure, the exit code is not 0, and
the last line of stderr is the reason.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
import random
import sys

import numpy as np

import protocol


def _seed() -> None:
    """Give all contenders that use a global generator the same order."""
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in packages:
        top = name.partition(".")[0]
        # If packages share a top-level name (nvidia.dali, mlx.data), only the submodule has the version.
        own = next((n for n in (top, name) if hasattr(sys.modules[n], "__version__")), None)
        found[own or top] = sys.modules[own].__version__ if own else importlib.metadata.version(top)
    return found


def main() -> None:
    """Run the turn and print the answer."""
    turn = protocol.Turn(**json.loads(sys.argv[1]))
    workload = protocol.load(turn.workload)
    case = next(case for case in workload.cases if case.name == turn.case)
    contender = next(contender for contender in case.contenders if contender.name == turn.contender)
    for name in contender.imports:
        importlib.import_module(name)
    _seed()
    metrics = workload.measure(case, contender, turn)
    print(json.dumps({"metrics": metrics, "versions": _versions(contender.imports)}), flush=True)


if __name__ == "__main__":
    main()
