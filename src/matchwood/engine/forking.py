"""Forking: a forked process has only the thread that forked, and memory as it was at that moment.

So a fork waits until no other thread is changing an engine, starts a process or is inside the compiler: it acquires their
locks before, that of an engine for reading, and releases them afterwards in both processes. In the new process engines forget
their planner's thread and all threads that read, which do not exist there.

A call may take long, or may wait for the very thread that forks (expressions that come from a pool of processes). Hence the wait
for engines is limited. An engine that is still being changed then cannot be used in the new process: it may be half changed, and
no thread there can release its lock. A `LostLock` takes the place of the lock and raises a clear error. The first process is not
affected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from numba.core.compiler_lock import global_compiler_lock

from matchwood.engine.locking import ReadWriteLock
from matchwood.errors import MatchwoodError
from matchwood.planner.background import Lock
from matchwood.planner.compiling import SPAWNING

PATIENCE = 5.0
"""Seconds that a fork waits for calls of engines in other threads."""


class Forked(Protocol):
    """An object with a lock that forks wait for, and that they notify in the new process."""

    _lock: ReadWriteLock | LostLock

    def _after_fork(self, *, whole: bool) -> None: ...


class LostLock:
    """The lock of an engine that cannot be used in this process."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._refuse()

    def release(self) -> None:
        self._refuse()

    def read(self) -> Any:
        self._refuse()

    def write(self) -> Any:
        self._refuse()

    def __enter__(self) -> bool:
        self._refuse()

    def __exit__(self, *error: object) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise MatchwoodError(
            "this process was forked while another thread was inside a call of this engine, which may be half changed here; "
            "fork when no thread is, or load a saved engine in the new process"
        )


_all: WeakSet[Forked] = WeakSet()
_one_at_a_time = RLock()
_taken: list[Callable[[], None]] = []  # the releases of all locks that the fork holds


def watch_forks(engine: Forked) -> None:
    """From now on forks wait for calls of the engine."""
    _all.add(engine)


def _before() -> None:
    _take(_one_at_a_time)
    _take(SPAWNING)
    _taken.extend(lock.release_read for lock in _acquired(_locks(), PATIENCE))
    # Last, since a thread that holds an engine's lock may compile, and a thread that compiles waits for no engine.
    global_compiler_lock.acquire()
    _taken.append(global_compiler_lock.release)


def _after_in_parent() -> None:
    while _taken:
        _taken.pop()()


def _after_in_child() -> None:
    for engine in _engines():
        whole = isinstance(engine._lock, ReadWriteLock) and engine._lock.reset_after_fork()
        if not whole:
            _all.discard(engine)
        engine._after_fork(whole=whole)
    _after_in_parent()


def _take(lock: Lock) -> None:
    lock.acquire()
    _taken.append(lock.release)


def _acquired(locks: Sequence[ReadWriteLock], seconds: float) -> list[ReadWriteLock]:
    """Acquire the locks for reading, as far as they can be had in that time; return those.

    While it waits for one it holds no other: a thread that holds it may wait for another one.
    """
    end = time.monotonic() + seconds
    held: list[ReadWriteLock] = []
    try:
        while True:
            busy = None
            for lock in locks:
                if lock not in held and lock.acquire_read(blocking=False):
                    held.append(lock)
                elif lock not in held and time.monotonic() < end:
                    busy = lock
                    break
            if busy is None:
                return held
            while held:
                held.pop().release_read()
            if busy.acquire_read(timeout=max(end - time.monotonic(), 0.0)):
                held.append(busy)
    except BaseException:  # Ctrl-C
        while held:
            held.pop().release_read()
        raise


def _locks() -> list[ReadWriteLock]:
    return [engine._lock for engine in _engines() if isinstance(engine._lock, ReadWriteLock)]


def _engines() -> list[Forked]:
    while True:
        try:
            return list(_all)
        except RuntimeError:  # another thread has just made one
            continue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
