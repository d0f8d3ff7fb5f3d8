"""What an unseen row can score at most: the bounds that end the Threshold Algorithm.

An entry of dimension d stands for one predicate of a row: its hull, its slot and a key. Streams run in descending keys; t[d] is
the next key of stream d. The keys depend on the `order` of the index:

BY_SCORE   key = total, the row's priority and all its weights. With event weights up to 1 no score is above it, so a row
           that is unseen in all streams has at most the largest t. With a larger weight e: at most t + (e - 1) (t - p), where
           p is the lowest priority.
           In mode `any`, streams whose largest weights together stay below the k-th score are skipped: a row among the best
           comes up in another stream.
BY_WEIGHT  key = p + w, the row's priority and the predicate's weight: the paper's. A row that is unseen in all streams and
           holds in dimension d has p + w[d] <= t[d], so its score is at most
               max over p of  p + sum over d of e[d] * min(W[d], t[d] - p),
           where e are the event's weights, W the largest weights, and p runs over the priorities of rows, up to the
           largest t. This is piecewise linear in p: the maximum is at one of its corners.

For mode `all` with zero weights both are the paper's: streams in score order. Totals for mode `any` are a departure from the
paper: rows whose weights are high together come first, and most streams are skipped.

A user's scoring function is bounded by folding the largest weights in ascending dimensions, skipping any: right for every
monotone function if rows have their dimensions in ascending order; otherwise streams run to their ends.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.state import State, array
from matchwood.store.kernels.verify import ANY, folded

STREAM = np.dtype(
    [
        ("next", "f8"),  # key of the entry that comes next
        ("gain", "f8"),  # the event's weight
        ("max_weight", "f8"),  # of the dimension
        ("hit", "i8"),  # the entry that comes next, negative at the end
        ("dim", "i8"),
        ("is_list", "i8"),  # is the event's value a list?
        ("complete", "i4"),  # does every row of the trees constrain the dimension?
        ("optional", "i4"),  # can no row be among the best that holds in this and other optional dimensions only?
    ]
)
SLACK = 1e-12  # relative: more than sums of weights in different orders differ by
BY_SCORE, BY_WEIGHT = 0, 1


SUMMARY = np.dtype(
    [
        ("lowest", "f8"),  # priority
        ("highest", "f8"),  # priority
        ("rows", "i8"),
        ("order", "i4"),  # BY_SCORE or BY_WEIGHT
        ("ascending", "i4"),  # does every row have its dimensions in ascending order?
    ]
)


class RowBounds(State):
    """What is known of the rows in the trees. Bounds stay valid when rows are deleted."""

    summary: np.ndarray = array(SUMMARY)  # [1]
    max_weight: np.ndarray = array(np.float64)  # by dimension
    counts: np.ndarray = array(np.int64)  # by dimension: rows that constrain it
    max_score: np.ndarray = array(np.float32)  # by slot: priority and all weights, rounded up
    always: np.ndarray = array(np.uint32)  # slots of rows that are in no tree


@helper
def score_at(streams, m, alone, p):
    """The best score of an unseen row of priority p: `alone` is the one stream it is unseen in, or -1 for all."""
    total = p
    for d in range(m):
        gain = streams[d].max_weight
        if alone < 0 or alone == d:
            gain = min(gain, max(0.0, streams[d].next - p))
        total += streams[d].gain * gain
    return total


@helper
def largest_gain(streams, m):
    gain = 1.0
    for d in range(m):
        gain = max(gain, streams[d].gain)
    return gain


@helper
def raised(total, gain, lowest):
    """The best score of a row of that total if event weights are up to 1 + gain."""
    if gain == 0.0:
        return total
    over = gain * (total - lowest)
    return total + over + (abs(total) + abs(lowest) + over) * SLACK


@subroutine
def bound(bounds, streams, m, alone):
    """The best score that a row can have that is unseen in all streams (alone < 0) or in stream `alone`. O(m^2); O(m) often."""
    top = -np.inf
    for d in range(m):
        if (alone == d or (alone < 0 and not streams[d].optional)) and streams[d].next > top:
            top = streams[d].next
    low, high = bounds.summary[0].lowest, min(bounds.summary[0].highest, top)
    if bounds.summary[0].order == BY_SCORE:
        return raised(top, largest_gain(streams, m) - 1.0, low)
    if high < low:
        # Keys are rounded sums: one can lie just below its priority.
        high = low
        if top == -np.inf:
            return -np.inf
    best = score_at(streams, m, alone, low)
    if high > low:
        best = max(best, score_at(streams, m, alone, high))
        for d in range(m):
            if streams[d].next > low:
                best = max(best, score_at(streams, m, alone, min(high, streams[d].next)))
            corner = streams[d].next - streams[d].max_weight
            if low < corner < high:
                best = max(best, score_at(streams, m, alone, corner))
    size = abs(low) + abs(high)
    for d in range(m):
        size += streams[d].gain * streams[d].max_weight
    return best + size * SLACK


@helper
def folded_bound(bounds, streams, m, combine):
    """The bound for a user's scoring function; infinite if rows may fold their weights in another order."""
    if not bounds.summary[0].ascending:
        return np.inf
    top = -np.inf
    for d in range(m):
        top = max(top, streams[d].next)
    if top == -np.inf:
        return -np.inf
    low = bounds.summary[0].lowest
    best = max(low, min(bounds.summary[0].highest, top + abs(top) * SLACK))
    for d in range(m):
        if streams[d].hit >= 0:
            rest = streams[d].next - low
            rest = max(0.0, rest + (abs(streams[d].next) + abs(low)) * SLACK)
            best = max(best, folded(best, streams[d].gain * min(streams[d].max_weight, rest), combine))
    return best


@subroutine
def unseen_bound(bounds, streams, m, c, mode, combine):
    """The best score of rows still unseen, after a pull of stream c."""
    if combine is None:
        if not mode & ANY and streams[c].complete:
            return bound(bounds, streams, m, c)
        return bound(bounds, streams, m, np.int64(-1))
    else:
        return folded_bound(bounds, streams, m, combine)


@subroutine
def mark_optional(bounds, streams, m, least):
    """Skip streams, those with the largest keys first, as long as all their weights together cannot reach the score `least`.

    A row among the best then holds in one of the other dimensions, and comes up there.
    """
    for d in range(m):
        streams[d].optional = np.int32(0)
    reach = bounds.summary[0].highest
    for _ in range(m):
        best = np.int64(-1)
        for d in range(m):
            if streams[d].optional == 0 and (best < 0 or streams[d].next > streams[best].next):
                if reach + streams[d].gain * streams[d].max_weight < least - SLACK * (abs(least) + abs(reach)):
                    best = d
        if best < 0:
            return
        streams[best].optional = np.int32(1)
        reach += streams[best].gain * streams[best].max_weight
