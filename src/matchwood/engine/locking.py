"""A fair read-write lock: any number of threads read, or one writes; neither waits for ever.

Each thread that reads has an `RLock` of its own, and reading is holding that: readers share nothing, and it is acquired and
released by one operation of the interpreter, so that Ctrl-C never leaves it held. A writer acquires the locks of all threads.

    read    while the gate is open                    own lock
            while a writer writes or waits            line up, then own lock
    write   at the head of the line: close the gate,  all locks, one after the other: each waits for a reader that is inside

Those who line up go first come, first served; readers that are next to each other go together. So a reader waits for the writers
that came before it, and a writer for the readers that were inside or came before it.

A thread may read or write while it writes, and read while it reads. It cannot write while it reads: two that tried would wait
for each other. A forked process calls `reset_after_fork`, since threads that held or awaited the lock do not exist there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from threading import Lock, RLock, get_ident
from typing import Any
from weakref import ref

from matchwood.errors import MatchwoodError


class _Place:
    """A place in the line."""

    __slots__ = ("called", "reads", "taken", "turn")

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads
        self.called = False  # has its turn come, and not ended?
        self.turn: Any = None  # of a place in the line: a lock that is released when its turn comes
        self.taken: list[Any] = []  # by a writer: the locks of readers

    def wait_in(self, line: deque[_Place]) -> None:
        """Line up."""
        self.turn = Lock()
        self.turn.acquire()
        line.append(self)


class ReadWriteLock:
    """See the module docstring. As a lock of `threading` it is acquired for writing.

    >>> lock = ReadWriteLock()
    >>> with lock.write(), lock.read():
    ...     pass
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._own_locks: set[ref[Any]] = set()  # those of all threads; a thread that ends takes its lock with it
        self._gate_closed = False  # does a thread write, or wait?
        # What follows is changed under the mutex.
        self._mutex = Lock()
        self._line: deque[_Place] = deque()
        self._passing = 0  # readers whose turn it is and who do not hold their locks yet
        self._admitted: _Place | None = None  # the writer whose turn it is
        # What follows is changed by that writer.
        self._writer: int | None = None  # the thread that holds all locks
        self._depth = 0

    # reading

    def read(self) -> AbstractContextManager[Any]:
        """The lock for reading: `with lock.read(): ...`"""
        own: AbstractContextManager[Any] = self._own_lock()
        if self._gate_closed and not own._is_owned():  # type: ignore[attr-defined]
            return _LinedUp(self)
        return own

    def acquire_read(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire for reading, as a lock of `threading`; to be released by `release_read`."""
        own = self._own_lock()
        if self._gate_closed and not own._is_owned():
            return self._read_in_turn(blocking, timeout)
        # A writer that has closed the gate since may hold it.
        return bool(own.acquire(blocking, timeout))

    def release_read(self) -> None:
        """Release what `acquire_read` acquired."""
        self._own_lock().release()

    def _own_lock(self) -> Any:
        try:
            return self._own.lock
        except AttributeError:
            lock = RLock()
            self._remember(lock)
            self._own.lock = lock
            return lock

    def _remember(self, lock: Any) -> None:
        self._own_locks.add(ref(lock, self._own_locks.discard))

    def _read_in_turn(self, blocking: bool, timeout: float) -> bool:
        """Queue if other threads came before, and acquire the thread's own lock when it is its turn."""
        place, own = _Place(reads=True), self._own_lock()
        try:
            with self._mutex:
                if not self._gate_closed:
                    own.acquire()
                    return True
                if blocking:
                    place.wait_in(self._line)
            if (blocking and place.turn.acquire(timeout=timeout)) or place.called:
                own.acquire()  # at once: no writer is admitted meanwhile
            self._end_turn(place)
            return bool(own._is_owned())
        except BaseException:  # Ctrl-C
            if own._is_owned():
                own.release()
            self._end_turn(place)
            raise

    # writing

    def write(self) -> ReadWriteLock:
        """The lock for writing: `with lock.write(): ...`"""
        return self

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire for writing, as a lock of `threading`."""
        me = get_ident()
        if self._writer == me:
            self._depth += 1
            return True
        if self._own_lock()._is_owned():
            raise MatchwoodError("cannot change an engine from within a call that reads it; do so after that call")
        deadline = None if timeout < 0 else time.monotonic() + timeout
        place = _Place(reads=False)
        try:
            if self._is_admitted(place, blocking, timeout) and self._take_all(place, blocking, deadline):
                self._depth, self._writer = 1, me
                return True
        except BaseException:  # Ctrl-C
            self._end_writing(place)
            raise
        self._end_writing(place)
        return False

    def release(self) -> None:
        """Release what `acquire` acquired."""
        place = self._admitted
        if place is None or self._writer != get_ident():
            raise RuntimeError("cannot release a lock that this thread has not acquired for writing")
        if self._depth > 1:
            self._depth -= 1
            return
        try:
            self._end_writing(place)
        except BaseException:  # Ctrl-C: do what has not been done
            self._end_writing(place)
            raise

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        """Does this thread hold the lock for writing?"""
        return self._writer == get_ident()

    def _is_admitted(self, place: _Place, blocking: bool, timeout: float) -> bool:
        """Wait until it is the writer's turn; False if that takes too long. The gate is closed then."""
        with self._mutex:
            if not (self._admitted or self._line or self._passing):  # nobody came before
                place.called = True
                self._admitted = place
                self._gate_closed = True
                return True
            if blocking:
                place.wait_in(self._line)
                self._call_next()
        return place.called or (blocking and place.turn.acquire(timeout=timeout)) or place.called

    def _take_all(self, place: _Place, blocking: bool, deadline: float | None) -> bool:
        """Acquire the locks of all threads: wait for readers that are inside; False if that takes too long.

        A thread puts its lock into the set before it looks at the gate. So one whose lock comes later finds the gate closed.
        """
        for one in self._own_locks.copy():
            lock = one()
            if lock is None:
                continue
            place.taken.append(lock)
            left = -1.0 if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not (lock.acquire(timeout=left) if blocking else lock.acquire(blocking=False)):
                return False
        return True

    def _end_writing(self, place: _Place) -> None:
        """A writer ends, or gives up. May be called again if it was interrupted."""
        if self._admitted is place:
            self._writer, self._depth = None, 0
        while place.taken:
            if place.taken[-1]._is_owned():
                place.taken[-1].release()
            place.taken.pop()
        self._end_turn(place)

    # the line

    def _end_turn(self, place: _Place) -> None:
        """The place is no longer needed: its turn has come and ended, or it leaves the line."""
        with self._mutex:
            if place.called:
                place.called = False
                if place.reads:
                    self._passing -= 1
                elif self._admitted is place:
                    self._admitted = None
            elif place in self._line:
                self._line.remove(place)
            self._call_next()

    def _call_next(self) -> None:
        """Call those whose turn it is: all readers at the head of the line, or a writer. Under the mutex."""
        line = self._line
        while line and self._admitted is None and (line[0].reads or not self._passing):
            place = line.popleft()
            place.called = True
            if place.reads:
                self._passing += 1
            else:
                self._admitted = place
            place.turn.release()
        self._gate_closed = self._admitted is not None or bool(line)

    # forks

    def reset_after_fork(self) -> bool:
        """In a forked process: forget all threads but this one, which keeps what it holds. False if another one was writing."""
        own = self._own_lock()
        if self._writer not in (None, get_ident()):
            return False
        self._mutex, self._line, self._passing = Lock(), deque(), 0
        if self._writer is None:
            self._admitted = None  # another thread may have begun to take the locks
        self._own_locks = set()
        if own._is_owned():
            self._remember(own)
        else:
            self._own = threading.local()
        self._gate_closed = self._admitted is not None
        return True


class _LinedUp:
    """Reading after others: what `read` gives while the gate is closed."""

    __slots__ = ("_lock",)

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> bool:
        return self._lock._read_in_turn(True, -1)

    def __exit__(self, *error: object) -> None:
        self._lock.release_read()
