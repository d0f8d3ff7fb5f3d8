"""The exact test without branches, for rows of single intervals and events without lists: most rows and most events.

`verify.score_row` asks of each entry what kind it is and stops at the first that fails: 40 ns a candidate, most of it
for branches that nobody can predict. Here every entry is compared and every weight added, and one answer comes
out: 10 ns.
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper
from matchwood.kernels.store import ABSENT


@helper
def has_lists(events, e):
    """Has event e a value of several parts? O(its entries)."""
    several = False
    for i in range(events.offsets[e] + 1, events.offsets[e + 1]):
        several |= events.dims[i] == events.dims[i - 1]
    return several


@helper
def score_plain(store, row, values):
    """(score, is it so?) of a row without extras, in the row's order; NaN if it does not match. O(entries).

    The second is False for a row with an ABSENT entry, whose NaNs fail every comparison. JOINED entries weigh nothing,
    so they may be added like all others.
    """
    entries = store.entries
    start = np.int64(row.start)
    score = row.priority
    holds = True
    kinds = np.uint16(0)
    for at in range(start, start + np.int64(row.count)):
        entry = entries[at]
        value = values[np.int64(entry.dim)]
        holds &= (entry.lo <= value.hi) & (value.lo <= entry.hi)
        score += entry.weight * value.weight
        kinds |= entry.kind
    return score if holds else np.nan, not kinds & ABSENT
