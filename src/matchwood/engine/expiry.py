"""Expiry: ids in the order of their `until`. The engine keeps one for its subscriptions and one for its live events."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s

MIN_HEAP = 1024
"""Entries that are merged into the sorted arrays at a time, at least."""
MERGE_SHARE = 8
"""Entries are merged when there are 1 / MERGE_SHARE as many new ones as sorted ones: O(log n) amortised for each."""


class _Run(NamedTuple):
    """Entries ordered by instant."""

    until: Float64s
    ids: Int64s


_NO_RUN = _Run(np.zeros(0), np.zeros(0, np.int64))


class Expiry:
    """Ids in the order in which they expire. One writer.

    `until_of` maps ids to the keys of the instants at which they expire, inf for an id that is unknown or never expires. It is
    the truth: an entry here that disagrees with it is stale (the id was removed, or expires at another instant) and is skipped.
    So removals need not be reported here, and an exception between two steps can at most leave an entry too many.

    Layout: new entries are a heap of (instant, id); a large heap is merged into sorted arrays of 16 bytes an entry, without the
    stale ones. `_due` lists ids whose instant has come and that `due` may have to name again.

    >>> until = {7: 20.0, 8: 10.0}
    >>> expiry = Expiry(lambda ids: np.array([until.get(id_, np.inf) for id_ in ids.tolist()]))
    >>> expiry.add(until)
    >>> expiry.due(10.0).tolist()
    [8]
    """

    def __init__(self, until_of: Callable[[Int64s], Float64s]) -> None:
        self._until_of = until_of
        self._heap: list[tuple[float, int]] = []
        self._run = _NO_RUN
        self._due: list[int] = []
        self.earliest = math.inf
        """No entry is due before this instant, of those that `due` has not named; -inf if it may have to name some again."""

    def __len__(self) -> int:
        """The number of entries, stale ones included."""
        return len(self._heap) + len(self._run.ids) + len(self._due)

    def add(self, until: Mapping[int, float]) -> None:
        """Enter ids with their instants, which `until_of` knows already. O(log n) each, amortised."""
        self.earliest = min(self.earliest, min(until.values(), default=math.inf))  # first: too early does no harm
        if len(until) >= MIN_HEAP:
            self._merge(until)
            return
        for id_, instant in until.items():
            heapq.heappush(self._heap, (instant, id_))
        if len(self._heap) >= max(MIN_HEAP, len(self._run.ids) // MERGE_SHARE):
            self._merge({})

    def is_due(self, now: float, *, at_least: int = 1) -> bool:
        """Might `due` have something to name? O(1)."""
        first, run = self._heap[:1], self._run  # a writer in another thread may empty the heap meanwhile
        return bool(
            (first and first[0][0] <= now)
            or (len(run.ids) and run.until[0] <= now)
            or (self._due and len(self._due) >= at_least)
        )

    def due(self, now: float, *, at_least: int = 1, limit: int | None = None) -> Int64s:
        """The ids that have expired at `now`, ascending; O(1) if there is none.

        None while there are fewer than `at_least`; with `limit` about so many at a time. An id is named by every call until it is
        removed, or expires later.
        """
        heap, run, taken = self._heap, self._run, 0
        while heap and heap[0][0] <= now and taken != limit:
            self._due.append(heap[0][1])  # before the entry is removed: an exception in between must not lose it
            heapq.heappop(heap)
            taken += 1
        if len(run.ids) and run.until[0] <= now:
            stop = int(np.searchsorted(run.until, now, "right"))
            stop = stop if limit is None else min(stop, limit)
            self._due += run.ids[:stop].tolist()
            self._run = _Run(run.until[stop:], run.ids[stop:]) if stop < len(run.ids) else _NO_RUN
        ids = _NO_RUN.ids
        if len(self._due) >= at_least:
            ids = np.unique(np.array(self._due, np.int64))
            ids = ids[self._until_of(ids) <= now]
            self._due = ids.tolist()
        self.earliest = self._earliest()
        return ids

    def _earliest(self) -> float:
        heap, run = self._heap, self._run
        waits = min(heap[0][0] if heap else math.inf, float(run.until[0]) if len(run.ids) else math.inf)
        return -math.inf if self._due else waits

    def _merge(self, new: Mapping[int, float]) -> None:
        """Sort the heap and new entries into the arrays. O(n)."""
        instants, ids_ = [instant for instant, _ in self._heap], [id_ for _, id_ in self._heap]
        until = np.concatenate([self._run.until, instants, np.fromiter(new.values(), np.float64, len(new))])
        ids = np.concatenate([self._run.ids, np.array(ids_, np.int64), np.fromiter(new, np.int64, len(new))])
        current = self._until_of(ids) == until
        until, ids = until[current], ids[current]
        order = np.argsort(until, kind="stable")
        self._run = _Run(until[order], ids[order])
        self._heap = []
