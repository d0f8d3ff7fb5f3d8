"""Bulk changes by several threads: kernels let go of the interpreter's lock, so jobs that share no memory they write run at once.

Threads live as long as a call. A pool that stays would be lost in a forked process, and to start one takes 0.1 ms, where a bulk
change takes tens. There are more jobs than threads: a core that is slower, since others use it too, does fewer of them.
Matching is done by the thread that asks.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

VARIABLE = "MATCHWOOD_THREADS"
"""The environment variable that limits the threads of a bulk change; without it there are as many as cores."""
ENOUGH = 8192  # rows or events of a change for each thread
JOBS = 4  # for each thread


def threads_for(many: int) -> int:
    """By how many threads a change of so many rows or events is made."""
    return 1 if many < 2 * ENOUGH else min(many // ENOUGH, _allowed())


def jobs_for(threads: int) -> int:
    """Into how many jobs a change is parted that so many threads make."""
    return JOBS * threads if threads > 1 else 1


def run(jobs: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """The results of the jobs: one after the other, or, with more than one thread, as many at once, begun in their order."""
    if threads == 1 or len(jobs) == 1:
        return [job() for job in jobs]
    pool = ThreadPoolExecutor(threads, "matchwood")
    try:
        return [done.result() for done in [pool.submit(job) for job in jobs]]
    finally:
        _end(pool)


def _end(pool: ThreadPoolExecutor) -> None:
    """Wait for all jobs, also if an exception comes meanwhile: none may write after the call that began it has ended."""
    interrupt: BaseException | None = None
    while True:
        try:
            pool.shutdown()
            break
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def run_shares(kernel: Callable[..., Any], state: Any, *columns: np.ndarray) -> list[Any]:
    """Call kernel(state, *columns) with equal parts of the columns, by several threads where they are long."""
    threads = threads_for(len(columns[0]))
    if threads == 1:
        return [kernel(state, *columns)]
    parts = shares(len(columns[0]), threads)
    return run([partial(kernel, state, *(column[part] for column in columns)) for part in parts], threads)


def shares(many: int, parts: int) -> list[slice]:
    """Equal parts of so many."""
    return _between(np.arange(parts + 1) * many // parts)


def shares_by(keys: np.ndarray, parts: int) -> list[slice]:
    """Nearly equal parts of ascending keys, equal keys in the same part. O(parts log keys)."""
    cuts = np.arange(parts + 1) * len(keys) // parts
    cuts[1:-1] = np.searchsorted(keys, keys[cuts[1:-1]]) if len(keys) else 0
    return _between(cuts)


def _between(cuts: np.ndarray) -> list[slice]:
    return [slice(begin, end) for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def _allowed() -> int:
    """How many threads there may be. What cannot be understood is one, and a warning: a change may be half made."""
    said = os.environ.get(VARIABLE)
    if said is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not said.isdigit() or not int(said):
        warnings.warn(f"expected {VARIABLE} to be a number of threads, got {said!r}; using one", stacklevel=2)
        return 1
    return int(said)
