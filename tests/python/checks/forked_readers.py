"""`growth`: what a forked process makes its own by reading what its parent holds."""

from __future__ import annotations

from checks.programs import Run

# The parent reads first: the kernel calls a page with one user private.
_READ_TWICE = """
read()
gc.collect()
gc.disable()  # a collection writes to every object of the process
if os.fork() == 0:
    def own():
        fields = dict(line.split(":") for line in open("/proc/self/smaps_rollup") if ":" in line)
        return int(fields["Private_Dirty"].split()[0]) // 1024
    before = own()
    read()
    print(own() - before, flush=True)
    os._exit(0)
os.wait()
"""


def growth(run: Run, source: str, **values: object) -> int:
    """In MiB, what a child makes its own by calling `read`, a function of this program."""
    ended = run(source + _READ_TWICE, **values)
    ended.check()
    return int(ended.stdout)
