"""Preparing: on a new machine, one thread of the process has everything compiled that engines will need, before they need it.

It is started when the first subscription of an engine finds that `scan` is not compiled. The call itself compiles the few kernels
that it needs; meanwhile the thread has the rest of `scan` compiled by another process (`compiling`), and loads it. While no
planner is at work, it goes on with the live events and covering. On a machine where all that is compiled, no thread is started.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from matchwood.planner.background import Background
from matchwood.planner.compiling import LOG, POLL, compile_ahead, is_available
from matchwood.planner.exercise import COVER_UPDATES, COVERED, COVERS, FEW_ROWS, LIVE, exercise

SCAN = "scan"
LOADED = (SCAN, LIVE)
"""The parts that are loaded as well: calls must not wait for them. A query about covers loads what it needs."""


class Preparing:
    """Parts that are wanted, and the thread that prepares them while there are any."""

    def __init__(self, loaded: frozenset[str] = frozenset()) -> None:
        self._changed = threading.Condition()
        self._wanted: list[str] = []
        self._background: Background | None = None
        self.loaded = loaded
        """The parts whose kernels the thread has loaded into this process."""
        self.planners = 0
        """How many planners are at work: they come first."""

    def want(self, *names: str) -> None:
        """Have these parts prepared, unless they are."""
        with self._changed:
            self._wanted += [n for n in names if n not in self._wanted and n not in self.loaded]
            if self._background is None and self._wanted:
                self._background = Background()
                try:
                    self._background.start(self._run)
                except RuntimeError:  # no thread can be started, or the interpreter is ending: calls compile
                    self._background = None
                    self._wanted.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to prepare; False if that takes longer than `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._background is None, timeout)

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """The block in which a planner is at work."""
        with self._changed:
            self.planners += 1
        try:
            yield
        finally:
            with self._changed:
                self.planners -= 1

    def _run(self) -> None:
        background = self._background
        assert background is not None
        try:
            while (name := self._next()) is not None:
                while name != SCAN and self.planners:
                    background.check()
                    time.sleep(POLL)
                self._prepare(name, background)
        finally:
            with self._changed:
                if self._background is background:  # it was stopped
                    self._background = None
                    self._changed.notify_all()

    def _next(self) -> str | None:
        """The part to prepare now. None, and the thread counts as ended, if there is none."""
        with self._changed:
            if not self._wanted:
                self._background = None
                self._changed.notify_all()
            return self._wanted[0] if self._wanted else None

    def _prepare(self, name: str, background: Background) -> None:
        try:
            compile_ahead([name], background.check)
            if name in LOADED:
                exercise(name, rows=FEW_ROWS)
        except Exception as error:
            LOG.warning("cannot compile %s ahead: %r", name, error)
        with self._changed:
            self._wanted.remove(name)
            self.loaded |= {name}


PREPARING = Preparing()
"""That of this process."""


def prepare_first_calls() -> None:
    """Called with the first subscription of an engine: on a new machine, prepare everything that calls may need."""
    if SCAN not in PREPARING.loaded and not is_available(SCAN):
        PREPARING.want(SCAN, LIVE, COVERS, COVER_UPDATES, COVERED)


def _after_fork() -> None:
    """In a new process: there is no thread, but what was loaded is."""
    PREPARING.__init__(PREPARING.loaded)  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
