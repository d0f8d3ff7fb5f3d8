"""Candidates that another library found, verified and answered. In: slots, event by event. Out: matches."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.jit.state import State, array
from matchwood.store.kernels.results import finish_hits, take_hit
from matchwood.store.kernels.verify import ALL, VALUE, load_event, score_row, unload_event


class Stabbed(State):
    """The slots of event e are slots[offsets[e] : offsets[e + 1]]; and what verification needs."""

    slots: np.ndarray = array(np.uint32)
    offsets: np.ndarray = array(np.int64)
    values: np.ndarray = array(VALUE)
    seen: np.ndarray = array(np.uint32)
    candidates: np.ndarray = array(np.int64)


@kernel
def verify_many(stabbed, store, events, first, combine, k, out, ends):
    """Answer events[first:]: every match (k = 0), or the k best; return the first not answered (out is full) or their number."""
    slots, offsets, values = stabbed.slots, stabbed.offsets, stabbed.values
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        load_event(values, events, e)
        stabbed.candidates[0] += offsets[e + 1] - offsets[e]
        for i in range(offsets[e], offsets[e + 1]):
            slot = np.int64(slots[i])
            score = score_row(store, slot, values, events, ALL, combine)
            if not np.isnan(score):
                n = take_hit(store, slot, score, out, begin, n, k, stabbed.seen)
                if n < 0:
                    break
        unload_event(values, events, e)
        if n < 0:
            return e
        finish_hits(out, begin, n, k)
        ends[e] = n
    return ends.size
