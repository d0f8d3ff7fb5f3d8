"""Planned events: the live events of an engine, in plain arrays until the kernels of `LiveEvents` are compiled and loaded.

The first event to be kept decides: if the kernels are compiled, `LiveEvents` has it. Otherwise `PlainEvents` serves, the thread
of `preparing` is asked for the kernels, and the first call after it has loaded them moves the events over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.lang.evaluate import Mode
from matchwood.planner.compiling import compile_now, is_available
from matchwood.planner.exercise import LIVE
from matchwood.planner.preparing import PREPARING, prepare_first_calls
from matchwood.structures import LiveEvents
from matchwood.structures.live.plain import PlainEvents

WHAT = "the matching of live events"


class PlannedEvents:
    """Has the methods of `LiveEvents` that an engine calls, under the lock of the engine."""

    def __init__(self, events: LiveEvents) -> None:
        if len(events):  # loaded from disk
            compile_now([LIVE], WHAT)
        self._events = events
        self._plain: PlainEvents | None = None

    def __len__(self) -> int:
        return len(self._events if self._plain is None else self._plain)

    def insert(self, events: Events, ids: Int64s, until: Float64s) -> None:
        """As `LiveEvents.insert`."""
        if self._plain is None and not len(self._events) and not is_available(LIVE):
            prepare_first_calls()
            self._plain = PlainEvents()
        self._serving().insert(events, ids, until)

    def delete(self, ids: Int64s) -> None:
        """As `LiveEvents.delete`."""
        self._serving().delete(ids)

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """As `LiveEvents.knows`."""
        return self._serving().knows(ids) if len(self) else np.zeros(len(ids), np.bool_)

    def until(self, ids: Int64s) -> Float64s:
        """As `LiveEvents.until`."""
        return self._serving().until(ids) if len(self) else np.full(len(ids), -np.inf)

    def ids(self) -> Int64s:
        """As `LiveEvents.ids`."""
        return self._serving().ids()

    def extract(self, ids: Int64s) -> Events:
        """As `LiveEvents.extract`."""
        return self._serving().extract(ids)

    def check(self) -> None:
        """As `LiveEvents.check`."""
        if self._plain is None:
            self._events.check()

    def match(self, rows: Rows, now: float, *, k: int | None, mode: Mode | str, combine: object) -> Matches:
        """As `LiveEvents.match`, of one subscription."""
        if combine is not None and self._plain is None:
            compile_now([LIVE], f"{WHAT} by a scoring function", scoring=True)
        return self._serving().match(rows, now, k=k, mode=mode, combine=combine)

    def arrays(self) -> dict[str, np.ndarray]:
        """As `LiveEvents.arrays`. Waits for the kernels if events are in plain arrays: call `prepare` first."""
        self.prepare()
        if self._plain is not None and len(self._plain):
            self._move_over(self._plain)
        return self._events.arrays()

    def prepare(self) -> None:
        """Wait for the kernels if events are in plain arrays. Needs no lock: other calls go on meanwhile."""
        plain = self._plain
        if plain is not None and len(plain):
            compile_now([LIVE], WHAT)

    def _serving(self) -> LiveEvents | PlainEvents:
        if self._plain is not None and LIVE in PREPARING.loaded:
            self._move_over(self._plain)
        elif self._plain is not None:
            PREPARING.want(LIVE)  # each time: a forked process has a thread of its own
        return self._events if self._plain is None else self._plain

    def _move_over(self, plain: PlainEvents) -> None:
        """Into new live events: an exception in the middle leaves the plain ones in place."""
        events = LiveEvents(**self._events._parameters())
        events.insert(*plain.all())
        self._events = events
        self._plain = None
