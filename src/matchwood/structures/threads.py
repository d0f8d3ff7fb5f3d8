"""The threads that large batches are answered with: one pool for the process, made when it is first used.

Kernels release the interpreter's lock, so threads use all cores. The pool has one thread fewer than there are cores, since the
thread that calls works too. Its threads end with the interpreter; a forked process makes a pool of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Lock

from matchwood.errors import QueryError

VARIABLE = "MATCHWOOD_THREADS"

_pool: ThreadPoolExecutor | None = None
_making = Lock()


def available_threads() -> int:
    """How many threads a batch may use: `MATCHWOOD_THREADS`, or the cores that this process may run on.

    >>> available_threads() >= 1
    True
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        if not given.isdecimal() or int(given) < 1:
            raise QueryError(f"{VARIABLE}: expected a whole number >= 1, got {given!r}")
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


def run_parts(do: Callable[[int], None], count: int, threads: int) -> None:
    """Call do(0), do(1), ... do(count - 1) in this thread and up to threads - 1 others; return when all have ended.

    A part is begun as soon as a thread is free, in that order. The first exception, Ctrl-C included, ends the work: parts that
    have begun are finished, and it is raised here.
    """
    threads = min(threads, count)
    if threads <= 1:
        for number in range(count):
            do(number)
        return
    team = _Team(do, count)
    try:
        _invite(team, threads - 1)
    finally:
        team.work()
        team.end()


class _Team:
    """The threads that work on one batch."""

    def __init__(self, do: Callable[[int], None], count: int) -> None:
        self._do = do
        self._numbers = iter(range(count))
        self._lock = Lock()
        self._changed = Condition()
        self._closed = False
        self._helpers = 0
        self._error: BaseException | None = None

    def help(self) -> None:
        """In a thread of the pool: work, unless the batch has ended already."""
        with self._changed:
            if self._closed:
                return
            self._helpers += 1
        try:
            self.work()
        finally:
            with self._changed:
                self._helpers -= 1
                self._changed.notify_all()

    def work(self) -> None:
        """Do parts until there are none left, or one has failed."""
        try:
            while self._error is None:
                with self._lock:
                    number = next(self._numbers, None)
                if number is None:
                    return
                self._do(number)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        """Wait for the helpers, whatever happens: they read an index that may change afterwards. Raise what went wrong."""
        while True:
            try:
                with self._changed:
                    self._closed = True
                    self._changed.wait_for(lambda: self._helpers == 0)
                break
            except BaseException as error:  # Ctrl-C
                self._error = error
        if self._error is not None:
            raise self._error


def _invite(team: _Team, helpers: int) -> None:
    """Let threads of the pool help. Without them the work is done by the caller alone."""
    global _pool
    try:
        with _making:
            if _pool is None:
                _pool = ThreadPoolExecutor(max(available_threads() - 1, 1), thread_name_prefix="matchwood")
        for _ in range(helpers):
            _pool.submit(team.help)
    except RuntimeError:  # the interpreter is ending, or no thread can be started
        pass


def _forget_pool() -> None:
    global _pool, _making
    _pool, _making = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
