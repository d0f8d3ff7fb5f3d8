"""The process that Spark forks Python workers from, with the indexes and the kernels that all use loaded before the fork.

Kernels are loaded if they are compiled, on this machine or in the package. If they are not, the first task that needs them has
them compiled (`shard_cache.compile_once`): a daemon that compiled would keep its first worker waiting without need.

`session.settings` sets `spark.python.daemon.module` to this module. Without it workers start more slowly.

Spark runs the garbage collector in a worker after every task. Objects that exist before the fork are frozen, so that it skips
them; within a task it runs after every `ALLOCATIONS` new objects, since the records that are read are in no cycles.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import daemon

from matchwood.planner.compiling import is_compiled
from matchwood.planner.exercise import FEW_ROWS, exercise
from matchwood.spark import direct_worker, index_stage, learn_worker, match_worker  # noqa: F401  # imported for the workers
from matchwood.store.kernels.ordering import order_hits

ALLOCATIONS = 100_000
"""Python's default, a thousand or fewer, makes reading text a quarter slower."""

_worker = daemon.worker


def worker(sock: Any, authenticated: Any) -> Any:
    """Spark's loop of a worker, without a traceback if the session ends while the worker is idle."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def prepare() -> None:
    """Trigger the imports that PyArrow and Numba make at first use, load kernels, and freeze all objects."""
    pa.array(np.zeros(1))
    order_hits(np.array([0, 2]), np.arange(2), np.zeros(2))
    if is_compiled("scan"):
        exercise("scan", rows=FEW_ROWS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)


if __name__ == "__main__":
    prepare()
    daemon.worker = worker
    daemon.manager()
