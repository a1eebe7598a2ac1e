"""`make_dask_synchronous`: makes dask compute in the calling thread of a worker process."""

from __future__ import annotations

import sys
from typing import Any


def make_dask_synchronous() -> None:
    """Set dask's scheduler to "synchronous" in this process, if dask is imported and no scheduler is configured.

    dask's default scheduler for arrays keeps one pool of threads per process. A forked worker inherits the pool but not
    its threads, and would wait forever for results. Workers also compute in parallel already. A `worker_init_fn` may
    still set another scheduler.
    """
    config: Any = sys.modules.get("dask.config")
    if config is not None and config.get("scheduler", None) is None:
        config.set(scheduler="synchronous")
