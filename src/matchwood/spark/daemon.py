"""The process that Spark forks Python workers from, with the indexes and their kernels imported beforehand.

Set `spark.python.daemon.module` to this module (`session.settings` does); without it everything works, and starts later.

Spark collects garbage in a worker after every task. What is here before the fork is *frozen*, so that no collection looks at it
again: it took 70 ms a task, on a core that the rest of a micro-batch had use for.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import daemon

from matchwood.store.kernels.ordering import order_hits
from matchwood.store.workers import VARIABLE as THREADS

_worker = daemon.worker


def worker(sock: Any, authenticated: Any) -> Any:
    """A worker's task, as Spark has it; silent if the session ends while it waits for one."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def prepare() -> None:
    """Import what PyArrow (pandas) and Numba would import at their first use, half a second in each worker; freeze it all.

    A task has one core, so its bulk changes are made by one thread, unless the environment says otherwise.
    """
    os.environ.setdefault(THREADS, "1")
    pa.array(np.zeros(1))
    order_hits(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    prepare()
    daemon.worker = worker
    daemon.manager()
