"""What a row can still score that has not come up: the bounds that end the Threshold Algorithm.

An entry of dimension d stands for one predicate of a row: its hull, its slot and a key. Streams run in descending keys; t[d] is
the next key of stream d. Which keys the trees are built on is the plan's `order`:

BY_SCORE   key = total, the row's priority and all its weights. With event weights up to 1 no score is above it, so a row
           that has not come up in any stream has at most the largest t. With a larger weight e: at most t + (e - 1) (t - p), p
           being the least priority.
           Matching `any`, streams whose largest weights together stay below the k-th score are spared: who is to be among the
           best must come up in another one.
BY_WEIGHT  key = p + w, the row's priority and the predicate's weight: the paper's. A row that has not come up in any stream and
           holds in dimension d has p + w[d] <= t[d], so its score is at most
               max over p of  p + sum over d of e[d] * min(W[d], t[d] - p),
           where e are the event's weights, W the largest weights, and p runs over the priorities there are, up to the
           largest t. Piecewise linear in p: its corners are enough, and one place if all priorities are equal.

For exact matching with zero weights both are the paper's: streams in score order. For relaxed matching totals are ours: four
dimensions, 1M rows, k = 20 take a twentieth of the time, since a high threshold asks for rows whose weights are high
together, not in each dimension for itself, and most streams are spared.

A scoring function of the user's is bounded by folding the largest weights in ascending dimensions, skipping any: right for every
monotone function if rows name their dimensions in ascending order; otherwise streams run to their ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.verify import ANY, folded

STREAM = np.dtype(
    [
        ("next", "f8"),  # key of the entry that comes next
        ("gain", "f8"),  # the event's weight
        ("most", "f8"),  # the largest weight of the dimension
        ("hit", "i8"),  # the entry that comes next, negative at the end
        ("dim", "i8"),
        ("complete", "i4"),  # does every row of the trees constrain the dimension?
        ("optional", "i4"),  # can no row be among the best that holds in this and other optional dimensions only?
    ]
)
SLACK = 1e-12
BY_SCORE, BY_WEIGHT = 0, 1


class Plan(NamedTuple):
    """What is known of the rows in the trees. Bounds stay valid when rows go."""

    lowest: np.ndarray  # float64 [1]: least priority
    highest: np.ndarray  # float64 [1]: greatest priority
    ascending: np.ndarray  # bool [1]: does every row name its dimensions in ascending order?
    rows: np.ndarray  # int64 [1]: how many
    order: np.ndarray  # int64 [1]: BY_SCORE or BY_WEIGHT
    weight: np.ndarray  # float64: largest weight, by dimension
    counts: np.ndarray  # int64: rows that constrain it, by dimension
    most: np.ndarray  # float32: priority and all weights, by slot, rounded up
    always: np.ndarray  # uint32: slots that no tree can lead to


@helper
def score_at(streams, m, alone, p):
    """What an unseen row of priority p can have: `alone` is the one stream it is unseen in, or -1 for all."""
    total = p
    for d in range(m):
        gain = streams[d].most
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


@helper
def bound(plan, streams, m, alone):
    """The best score that a row can have that is unseen in all streams (alone < 0) or in stream `alone`. O(m^2); O(m) often."""
    top = -np.inf
    for d in range(m):
        if (alone == d or (alone < 0 and not streams[d].optional)) and streams[d].next > top:
            top = streams[d].next
    low, high = plan.lowest[0], min(plan.highest[0], top)
    if plan.order[0] == BY_SCORE:
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
            corner = streams[d].next - streams[d].most
            if low < corner < high:
                best = max(best, score_at(streams, m, alone, corner))
    size = abs(low) + abs(high)
    for d in range(m):
        size += streams[d].gain * streams[d].most
    return best + size * SLACK


@helper
def folded_bound(plan, streams, m, combine):
    """The bound for a scoring function of the user's; infinite if rows may fold their weights in another order."""
    if not plan.ascending[0]:
        return np.inf
    top = -np.inf
    for d in range(m):
        top = max(top, streams[d].next)
    if top == -np.inf:
        return -np.inf
    low = plan.lowest[0]
    best = max(low, min(plan.highest[0], top + abs(top) * SLACK))
    for d in range(m):
        if streams[d].hit >= 0:
            rest = streams[d].next - low
            rest = max(0.0, rest + (abs(streams[d].next) + abs(low)) * SLACK)
            best = max(best, folded(best, streams[d].gain * min(streams[d].most, rest), combine))
    return best


@helper
def unseen_bound(plan, streams, m, c, how, combine):
    """The best score of rows still unseen, after a pull of stream c."""
    if combine is None:
        if not how & ANY and streams[c].complete:
            return bound(plan, streams, m, c)
        return bound(plan, streams, m, np.int64(-1))
    else:
        return folded_bound(plan, streams, m, combine)


@helper
def mark_optional(plan, streams, m, least):
    """Spare streams, those with the largest keys first, as long as all their weights together cannot reach the score `least`.

    A row among the best must then hold in one of the other streams, and comes up there.
    """
    for d in range(m):
        streams[d].optional = np.int32(0)
    reach = plan.highest[0]
    for _ in range(m):
        best = np.int64(-1)
        for d in range(m):
            if streams[d].optional == 0 and (best < 0 or streams[d].next > streams[best].next):
                if reach + streams[d].gain * streams[d].most < least - SLACK * (abs(least) + abs(reach)):
                    best = d
        if best < 0:
            return
        streams[best].optional = np.int32(1)
        reach += streams[best].gain * streams[best].most
