"""Expiry: which subscriptions or events a worker has to remove at an instant. The only implementation of it in the workers."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s


class Expiring:
    """Ids by ascending `until`; those before a position have been returned as expired.

    The arrays may be mapped from a file: nothing is copied until something is added or discarded.
    """

    def __init__(self, ids: Int64s | None = None, until: Float64s | None = None) -> None:
        self._ids: Int64s = np.zeros(0, np.int64) if ids is None else ids
        self._until: Float64s = np.zeros(0) if until is None else until
        self._done = 0
        self.instant = -np.inf
        """The latest instant that `due` was called with."""

    @property
    def expired(self) -> int:
        """The number of ids that have been returned."""
        return self._done

    def due(self, instant: float) -> Int64s:
        """The ids that expire at an instant or before and have not been returned yet. O(log n)."""
        stop = max(int(np.searchsorted(self._until, instant, side="right")), self._done)
        found = self._ids[self._done : stop]
        self._done = stop
        self.instant = max(self.instant, instant)
        return found

    def add(self, ids: Int64s, until: Float64s) -> None:
        """Add ids; those that never expire are left out. O(n log n)."""
        some = np.isfinite(until)
        ids = np.concatenate([self._ids[self._done :], ids[some]])
        ends = np.concatenate([self._until[self._done :], until[some]])
        order = np.argsort(ends, kind="stable")
        self._ids, self._until, self._done = ids[order], ends[order], 0

    def discard(self, ids: Int64s) -> None:
        """Forget ids, because they are gone or replaced. O(n log n)."""
        kept = ~np.isin(self._ids[self._done :], ids)
        self._ids, self._until = self._ids[self._done :][kept], self._until[self._done :][kept]
        self._done = 0
