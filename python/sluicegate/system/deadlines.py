"""How long the package waits for its own workers, in seconds. All such periods are here, read when a wait begins.

Users set none of them; they have `DataLoader(timeout=...)`. The tests shorten them.
"""

from __future__ import annotations

# For workers to finish their work when their iterator is closed. After that, a process is terminated; a thread is left
# running, because it can't be ended from outside.
GRACE = 5.0
# For a terminated process to end before it is killed, and for a killed one to be gone.
TERMINATION = 1.0
# For the other workers to end when one has died; short, because the consumer should learn of the death soon.
DEATH_GRACE = 0.3
# For a worker to write its Python stack.
STACK = 1.0
# After this long, a wait for a silent worker, or for a reader that takes no samples, is reported in a warning, once.
STALL = 60.0
# For another thread to come and empty a full buffer of `split_by_class`, if no known thread would.
SPLIT_GRACE = 10.0
