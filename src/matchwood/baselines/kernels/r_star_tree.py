"""Candidates that another library found, verified and answered. In: slots, event by event. Out: matches."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.results import best_first, emit, offer
from matchwood.store.kernels.verify import load_event, score_row, unload_event


@kernel
def verify_many(store, values, seen, slots, offsets, events, first, how, combine, k, out, ends, candidates):
    """Every match of events[first:] among slots[offsets[e] : offsets[e + 1]], or for k > 0 the k best; as `scan.match_many`."""
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        load_event(values, events, e)
        candidates[0] += offsets[e + 1] - offsets[e]
        for i in range(offsets[e], offsets[e + 1]):
            slot = np.int64(slots[i])
            score = score_row(store, slot, values, events, how, combine)
            if np.isnan(score) or n < 0:
                continue
            if k > 0:
                n = begin + offer(store, slot, score, out, begin, n - begin, k)
            else:
                n = emit(store, slot, score, out, begin, n, seen)
        unload_event(values, events, e)
        if n < 0:
            return e
        if k > 0:
            best_first(out, begin, n - begin)
        ends[e] = n
    return ends.size
