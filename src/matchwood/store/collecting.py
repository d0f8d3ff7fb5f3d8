"""Growing results: a kernel answers query after query until its room is full, and is called again with more.

Answers that were found in another order than they are returned in are copied, so the memory they are found in is reused from
call to call: fresh memory is mapped page by page, which costs milliseconds where answers are large.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Matches
from matchwood.store.batch_order import put_back
from matchwood.store.kernels.results import Out

MAX_ROOM = 1 << 22  # hits that are allotted by estimate or kept in a buffer: 64 MB


class ResultBuffer:
    """Room for answers that are copied before they are returned; reused and grown from call to call."""

    def __init__(self) -> None:
        self._out = new_out(0)

    def take(self, room: int) -> Out:
        """Room for so many hits; that for very large answers is not kept."""
        if room > MAX_ROOM:
            return new_out(room)
        if len(self._out.ids) < room:
            self._out = new_out(room)
        return self._out


def new_out(room: int) -> Out:
    return Out(np.empty(room, np.int64), np.empty(room))


def collect(
    run: Callable[[int, Out, Int64s], int],
    queries: int,
    *,
    room: int,
    hits_each: float,
    order: Int64s | None,
    buffer: ResultBuffer,
) -> Matches:
    """The hits of all queries; `room` is the least that one answer may need, `hits_each` how many one had lately.

    `run(first, out, ends)` answers the queries from `first` on, each up to its end in `out`, and returns the first that is not
    done, because `out` is full, or their number. If they were put in an `order`, the answers are put back.
    """
    ends = np.zeros(queries, np.int64)
    # Too little room costs a copy of the results.
    room = max(room, 4 * queries, min(int(1.2 * hits_each * queries), MAX_ROOM))
    ids: list[Int64s] = []
    scores: list[Float64s] = []
    done = before = 0
    while done < queries:
        out = buffer.take(room) if order is not None and not ids else new_out(room)
        first, done = done, run(done, out, ends)
        if done == first:
            room *= 4
            continue
        n = int(ends[done - 1])
        ends[first:done] += before
        before += n
        ids.append(out.ids[:n])
        scores.append(out.scores[:n])
        room = max(room, 2 * n)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    if len(ids) == 1:
        found = Matches(offsets, ids[0], scores[0])
    else:
        found = Matches(offsets, np.concatenate([np.zeros(0, np.int64), *ids]), np.concatenate([np.zeros(0), *scores]))
    return found if order is None else put_back(found, order)
