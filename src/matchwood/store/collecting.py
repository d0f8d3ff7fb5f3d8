"""Collecting answers: kernels answer queries into a buffer, and what it holds is copied into the arrays that are returned.

The buffer is kept from call to call, so its room is that of the largest answer so far, and a kernel is hardly ever called twice.
A large batch is answered in parts, so that the buffer stays small; `Answers` joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Matches
from matchwood.store.batch_order import put_back
from matchwood.store.kernels import batch_order as kernel
from matchwood.store.kernels.results import Out

FIRST_ROOM = 1 << 12
"""Hits that a new buffer has room for."""
MAX_KEPT = 1 << 20
"""Hits of a buffer that is kept between calls, at most: 16 MB."""


class Part(NamedTuple):
    """The answers to some queries of a batch, in a buffer: query i has the hits offsets[i]:offsets[i + 1]."""

    offsets: Int64s
    ids: Int64s
    scores: Float64s
    order: Int64s | None = None
    """Answer i is that to query order[i]; None: to query i."""

    @property
    def queries(self) -> int:
        return len(self.offsets) - 1

    def matches(self) -> Matches:
        """The answers in the order of the queries, in memory of their own."""
        if self.order is None:
            return Matches(self.offsets, self.ids.copy(), self.scores.copy())
        return put_back(Matches(self.offsets, self.ids, self.scores), self.order)


class ResultBuffer:
    """Room for the answers of one part, reused and grown from call to call."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = new_out(FIRST_ROOM)

    def fill(
        self, run: Callable[[int, Out, Int64s], int], queries: int, *, least: int, limit: int | None = None
    ) -> Part:
        """Answer all queries, or the first ones if there are more hits than `limit`; one answer may need room for `least`.

        `run(first, out, ends)` answers the queries from `first` on, each up to its end in `out`, and returns the first that is
        not done, because `out` is full, or their number.
        """
        offsets = np.zeros(queries + 1, np.int64)
        ends, out = offsets[1:], self._out
        if len(out.ids) < least:
            out = self._grow(least, 0)
        done = hits = 0
        while done < queries:
            room = out if hits == 0 else Out(out.ids[hits:], out.scores[hits:])
            first, done = done, run(done, room, ends)
            if done > first:
                if hits:
                    ends[first:done] += hits
                hits = int(ends[done - 1])
            if done < queries and (done == first or 2 * hits > len(out.ids)):
                if hits and limit is not None and len(out.ids) >= limit:
                    break
                out = self._grow(2 * len(out.ids), hits)
        if len(out.ids) > MAX_KEPT:
            self._out = new_out(FIRST_ROOM)
        return Part(offsets[: done + 1], out.ids[:hits], out.scores[:hits])

    def exchange(self, spare: Out | None) -> Out:
        """Let others have the memory of the last part, and continue with the given one, or with new memory of that size."""
        out = self._out
        self._out = new_out(len(out.ids)) if spare is None else spare
        return out

    def _grow(self, room: int, hits: int) -> Out:
        """More room; the first hits are kept."""
        out = new_out(room)
        out.ids[:hits], out.scores[:hits] = self._out.ids[:hits], self._out.scores[:hits]
        self._out = out
        return out


class Answers:
    """The answers to a batch, in the order of the batch. One thread at a time, but for `put`."""

    def __init__(self, queries: int, hits_each: float) -> None:
        """hits_each: how many hits a query is expected to have."""
        self._offsets = np.zeros(queries + 1, np.int64)
        self._hits_each = hits_each
        self._out = new_out(0)
        self._queries = self._hits = 0  # so far

    def append(self, part: Part) -> None:
        """Add the answers to the next queries, in their order. O(hits), amortised."""
        begin = self._hits
        self._add_offsets(part.offsets[1:])
        self._out.ids[begin : self._hits], self._out.scores[begin : self._hits] = part.ids, part.scores

    def reserve(self, sizes: Int64s) -> Int64s:
        """Make room for answers of these sizes to the next queries; return where each begins."""
        first = self._queries
        self._add_offsets(np.cumsum(sizes))
        return self._offsets[first : self._queries]

    def put(self, part: Part, order: Int64s, begins: Int64s) -> None:
        """Put answers, of which number i is that to query order[i], to where that begins. Threads may do so at once. O(hits)."""
        kernel.put_back(order, part.offsets, part.ids, part.scores, begins, self._out.ids, self._out.scores)

    def _add_offsets(self, ends: Int64s) -> None:
        first, begin = self._queries, self._hits
        self._queries += len(ends)
        self._offsets[first + 1 : self._queries + 1] = ends + begin
        self._hits = int(self._offsets[self._queries])
        if self._hits > len(self._out.ids):
            self._make_room()

    def matches(self) -> Matches:
        """What was appended. O(1)."""
        for column in self._out:
            column.resize(self._hits, refcheck=False)
        return Matches(self._offsets, *self._out)

    def _make_room(self) -> None:
        """Room for as many hits as all queries have at the rate so far, and a quarter more.

        Growing is expensive, even where the system does not copy: new pages are cleared one by one. Room that is not used in the
        end costs nothing, and is given back.
        """
        rate = max(self._hits_each, self._hits / max(self._queries, 1))
        room = max(int(1.25 * rate * (len(self._offsets) - 1)), self._hits + self._hits // 4)
        if not len(self._out.ids):
            self._out = new_out(room)
            return
        for column in self._out:
            column.resize(room, refcheck=False)


def new_out(room: int) -> Out:
    return Out(np.empty(room, np.int64), np.empty(room))
