"""When things end: ids with the instant from which they are gone."""

from __future__ import annotations

import heapq

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
            self._heap = [(instant, known) for known, instant in self._until.items()]
            heapq.heapify(self._heap)

    def of(self, id_: int) -> float | None:
        """The instant noted for an id."""
        return self._until.get(id_)

    def __bool__(self) -> bool:
        return bool(self._until)

    def take_due(self, now: float) -> Int64s:
        """The ids whose instant has come, which are forgotten here. O(log n) each."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            until, id_ = heapq.heappop(self._heap)
            if self._until.get(id_) == until:
                del self._until[id_]
                due.append(id_)
        return np.array(due, np.int64)

    def arrays(self) -> tuple[Int64s, Float64s]:
        """(ids, instants), ids ascending."""
        noted = sorted(self._until.items())
        return np.array([id_ for id_, _ in noted], np.int64), np.array([until for _, until in noted], np.float64)
