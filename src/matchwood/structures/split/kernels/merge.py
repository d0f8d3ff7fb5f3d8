"""The answers of two parts of a split index made one. In: hits by event, of different subscriptions. Out: the same of both."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.results import worse


@kernel
def join_hits(a, b, joined):
    """All hits of each event, those of `a` first; `joined` has the offsets and room. O(hits)."""
    for e in range(joined.offsets.size - 1):
        n = joined.offsets[e]
        for i in range(a.offsets[e], a.offsets[e + 1]):
            joined.ids[n], joined.scores[n] = a.ids[i], a.scores[i]
            n += 1
        for i in range(b.offsets[e], b.offsets[e + 1]):
            joined.ids[n], joined.scores[n] = b.ids[i], b.scores[i]
            n += 1


@kernel
def merge_best(a, b, k, merged):
    """The k best hits of each event, of two rankings; fills in the offsets too. Return how many there are. O(hits)."""
    n = np.int64(0)
    for e in range(merged.offsets.size - 1):
        i, j = a.offsets[e], b.offsets[e]
        i_end, j_end = a.offsets[e + 1], b.offsets[e + 1]
        for _ in range(min(k, i_end - i + j_end - j)):
            if j == j_end or (i < i_end and not worse(a.scores[i], a.ids[i], b.scores[j], b.ids[j])):
                merged.ids[n], merged.scores[n] = a.ids[i], a.scores[i]
                i += 1
            else:
                merged.ids[n], merged.scores[n] = b.ids[j], b.scores[j]
                j += 1
            n += 1
        merged.offsets[e + 1] = n
    return n
