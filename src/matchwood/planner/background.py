"""Background: the thread that a planner works in, owned by one object that starts it, waits for it and stops it.

The thread is not a daemon: at exit the interpreter waits for it (a thread inside LLVM when the interpreter shuts down would abort
the process). To keep that wait short, the job calls `check` between its steps, which ends it once the main thread has ended; if
the thread itself compiles, every pass of the compiler is such a step.
A forked process has no such thread: it makes a new `Background`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol

from numba.core.event import Listener, install_listener

NAME = "matchwood-planner"
PAUSE = 0.05  # seconds between two checks while waiting for a lock
MAX_REST = 0.2  # seconds that a job rests after a step, at most


class Lock(Protocol):
    """A lock of `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Stopped(BaseException):
    """The job is to stop. Not an `Exception`, so that no handler takes it for a failure."""


class Background:
    """Runs one job at a time. `start` may be called by one thread at a time, the other methods by any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._stopping = False

    @property
    def running(self) -> bool:
        """Is a job running?"""
        return self._busy

    def start(self, job: Callable[[], None]) -> None:
        """Start the job, unless another one is running. RuntimeError if no thread can be started, or the interpreter is ending.

        An exception in the calling thread (KeyboardInterrupt) may leave the job started. The thread of the job itself records
        that it runs, so there are never two.
        """
        if _interpreter_ends():
            raise RuntimeError("cannot start background work while the interpreter is ending")
        begun = threading.Event()
        threading.Thread(target=self._run, args=(job, begun), name=NAME, daemon=False).start()
        begun.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no job is running; False if that takes longer than `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout)

    def stop(self) -> None:
        """End the job, and every later one, at its next `check`."""
        self._stopping = True

    def check(self) -> None:
        """Called by the job between its steps; raises `Stopped` if it is to end."""
        if self._stopping or _interpreter_ends():
            raise Stopped

    def paced(self) -> Callable[[], None]:
        """A `check` that rests after each step for as long as the step took, so that calls beside the job find a core free."""
        last = time.thread_time()

        def check() -> None:
            nonlocal last
            self.check()
            time.sleep(min(time.thread_time() - last, MAX_REST))
            last = time.thread_time()

        return check

    @contextlib.contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """Hold the lock. Waiting for it ends with `Stopped` if the job is to end: a daemon thread may never release it."""
        while not lock.acquire(timeout=PAUSE):
            self.check()
        try:
            yield
        finally:
            lock.release()

    def _run(self, job: Callable[[], None], begun: threading.Event) -> None:
        with self._changed:
            mine, self._busy = not self._busy, True
        begun.set()
        if not mine:
            return
        _WORKING.add(self)
        try:
            with contextlib.suppress(Stopped), install_listener("numba:run_pass", _EachPass(self.check)):
                job()
        finally:
            _WORKING.discard(self)
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class _EachPass(Listener):  # type: ignore[misc]
    """Calls a function before each pass of the compiler in the thread that created it."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call, self._thread = call, threading.get_ident()

    def on_start(self, event: Any) -> None:
        if threading.get_ident() == self._thread:
            self._call()

    def on_end(self, event: Any) -> None:
        pass


def _interpreter_ends() -> bool:
    """Has the interpreter begun to wait for its threads? It marks the main thread as ended before."""
    return not threading.main_thread().is_alive()


_WORKING: set[Background] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKING.clear)


@atexit.register
def _wait_for_all() -> None:
    """The interpreter has waited for the threads already, unless that was interrupted (Ctrl-C)."""
    for background in list(_WORKING):
        background.stop()
        background.wait()
