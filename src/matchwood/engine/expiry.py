"""When things end: ids with the instant from which they are gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s


class Expiry:
    """Ids and the keys of the instants they expire at; the next one due is found in O(1).

    Layout: `_until` is the truth; `_heap` orders it, and an entry that `_until` does not confirm is stale.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def note(self, id_: int, until: float | None) -> None:
        """From `until` on the id is gone; with None it stays. Replaces what was noted before. O(log n)."""
        self._until.pop(id_, None)
        if until is None:
            return
        self._until[id_] = until
        heapq.heappush(self._heap, (until, id_))
        if len(self._heap) > 2 * len(self._until) + 64:  # updates and removals have left more stale ones than live
            self.reorder()

    def forget(self, ids: Iterable[int]) -> None:
        """Nothing is noted for these ids any more. O(ids)."""
        for id_ in ids:
            self._until.pop(id_, None)

    def note_many(self, ids: Int64s, until: Float64s) -> None:
        """As `note` for many ids that are new, inf for those that stay. O(n), or O(log n) each if they are few."""
        some = np.flatnonzero(until < np.inf)
        new = dict(zip(ids[some].tolist(), until[some].tolist(), strict=True))
        self._until |= new
        if len(new) < len(self._until) // 8:
            for id_, instant in new.items():
                heapq.heappush(self._heap, (instant, id_))
        elif new:
            self.reorder()

    def of(self, id_: int) -> float | None:
        """The instant noted for an id."""
        return self._until.get(id_)

    def __bool__(self) -> bool:
        return bool(self._until)

    def is_due(self, now: float) -> bool:
        """Has an instant come? O(1), amortised."""
        heap = self._heap
        while heap and self._until.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return bool(heap) and heap[0][0] <= now

    def due(self, now: float) -> Int64s:
        """The ids whose instant has come; `forget` them when they are gone. O(their number)."""
        heap, due, pending = self._heap, dict[int, None](), [0]
        while pending:  # in a heap those that are due lie together, below the first
            at = pending.pop()
            if at < len(heap) and heap[at][0] <= now:
                until, id_ = heap[at]
                if self._until.get(id_) == until:
                    due[id_] = None
                pending += (2 * at + 1, 2 * at + 2)
        return np.array(list(due), np.int64)

    def reorder(self) -> None:
        """Order anew what is noted: an exception may have come between a note and its place in the order. O(n)."""
        heap = [(instant, id_) for id_, instant in self._until.items()]
        heapq.heapify(heap)
        self._heap = heap

    def arrays(self) -> tuple[Int64s, Float64s]:
        """(ids, instants), ids ascending."""
        noted = sorted(self._until.items())
        return np.array([id_ for id_, _ in noted], np.int64), np.array([until for _, until in noted], np.float64)
