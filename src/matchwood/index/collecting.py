"""Growing results: a kernel answers question after question until its room is full, and is called again with more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Matches
from matchwood.kernels.results import Out

MOST_ROOM_GUESSED = 1 << 22  # hits; 64 MB


def collect(run: Callable[[int, Out, Int64s], int], questions: int, *, room: int, hits_each: float) -> Matches:
    """The hits of all questions; `room` is what one answer may need at least, `hits_each` how many one had lately.

    `run(first, out, ends)` answers the questions from `first` on, each up to its end in `out`, and returns the first that is not
    done, because `out` is full, or their number.
    """
    ends = np.zeros(questions, np.int64)
    # A guess that is too small costs a copy of the results: half as much again as the matching where hits are many.
    room = max(room, 4 * questions, min(int(1.2 * hits_each * questions), MOST_ROOM_GUESSED))
    ids: list[Int64s] = []
    scores: list[Float64s] = []
    done = before = 0
    while done < questions:
        out = Out(np.empty(room, np.int64), np.empty(room))
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
        return Matches(offsets, ids[0], scores[0])
    return Matches(offsets, np.concatenate([np.zeros(0, np.int64), *ids]), np.concatenate([np.zeros(0), *scores]))
