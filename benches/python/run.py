"""Benchmarks of the Python package against other loaders, side by side.

    python benches/python/run.py [--workloads w1 w2 costs] [--rounds 5] [--markdown] [--quick]

The exit code is 1 if a contender failed, or delivered samples that are not those of its source.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import gather
import machine
import protocol
from harness import Log, Plan, compete
from throughput import METHOD


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benches of sluicegate against other loaders, side by side.")
    known = protocol.names()
    parser.add_argument("--workloads", nargs="+", choices=known, default=known, metavar="W", help=", ".join(known))
    parser.add_argument("--rounds", type=int, help="turns of every contender (5; with --quick 1)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for the README")
    parser.add_argument("--quick", action="store_true", help="short turns, contents compared in part; for a first look")
    args = parser.parse_args()
    args.rounds = args.rounds if args.rounds is not None else 1 if args.quick else 5
    if args.rounds < 1:
        parser.error(f"--rounds: expected at least 1, got {args.rounds}")
    return args


def main() -> int:
    """Run the chosen workloads and print their tables."""
    args = _arguments()
    if args.quick:
        plan = Plan(args.rounds, warm_up=0.5, seconds=0.3, cut=0.6, verify=0.5)
    else:
        plan = Plan(args.rounds, warm_up=1.0, seconds=1.0, cut=2.0, verify=60.0)
    log = Log(show_progress=sys.stderr.isatty())
    begin = time.perf_counter()
    loads = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    busiest = ", ".join(machine.busiest_others(1.0)) or "none above 2 % of a core"
    print(f"{machine.describe()}; load average at the start {loads}; busy processes at the start: {busiest}\n")

    if gather.compiler() is not None:
        gather.library()  # built here, so that no turn includes the time
    for name in args.workloads:
        workload = protocol.load(name)
        log.progress(f"{name}: making the data")
        workload.prepare()
        log.progress("")
        print(f"### {workload.title}\n" if args.markdown else f"== {workload.title} ==\n", flush=True)
        for case in workload.cases:
            standings, consumer = compete(workload, case, plan, log)
            for table in workload.tables(case, standings):
                print(table.markdown() if args.markdown else table.text(), end="\n\n", flush=True)
            if consumer:
                print(f"The consumer takes {consumer * 1e6:.0f} µs a batch.\n", flush=True)

    versions = ", ".join(f"{package} {version}" for package, version in sorted(log.versions.items()))
    print(METHOD.format(**vars(plan)))
    print(f"\n{versions}; OMP_WAIT_POLICY=PASSIVE; {log.load()}; {time.perf_counter() - begin:.0f} s in all")
    return 1 if log.failed else 0


if __name__ == "__main__":
    sys.exit(main())
