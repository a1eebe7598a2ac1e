"""`growth`: the memory that a forked process copies by reading objects of its parent."""

from __future__ import annotations

from checks.programs import Run

# The parent reads first, because the kernel reports a page that only one process uses as private.
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
    """Return the MiB that become private to a child when it calls `read`, a function of this program."""
    ended = run(source + _READ_TWICE, **values)
    ended.check()
    return int(ended.stdout)
