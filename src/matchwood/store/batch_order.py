"""Answering a batch in an order that memory likes: neighbours one after the other, the answers put back as they were asked.

Two events close to each other in the layers of an MO-Tree look at the same nodes and rows, which are in the caches then. 2,000
events at a time take up to a tenth less at a million city squares, a fifth less at three million; finding the order costs 0.4 us
an event.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchwood.encode.arrays import CIRCLE, Events, Float64s, Int64s, Matches, Rows
from matchwood.store.kernels import batch_order as kernel

FEWEST = 64
"""Batches of fewer stay as they are: hardly two of them meet."""
BITS = 10


def neighbours(ticks: Sequence[np.ndarray]) -> Int64s:
    """The order along a Z-curve through the first two columns of ticks (at most 2 ** BITS), which keeps what is near together."""
    code = np.zeros(len(ticks[0]) if ticks else 0, np.int64)
    for bit in range(BITS):
        for a, column in enumerate(ticks[:2]):
            code |= ((column >> bit) & 1) << (2 * bit + a)
    return np.argsort(code, kind="stable")


def keys_of(events: Events, dim: int) -> Float64s:
    """The (last) key of each event in a dimension, NaN where it has none."""
    keys = np.full(events.size, np.nan)
    at = np.flatnonzero(events.dims == dim)
    keys[np.searchsorted(events.offsets, at, side="right") - 1] = events.lo[at]
    return keys


def centres_of(rows: Rows, heads: Int64s, dim: int) -> Float64s:
    """The middle of each of these rows in a dimension, NaN where it names none or is open."""
    middles = np.full(rows.size, np.nan)
    at = np.flatnonzero((rows.dims == dim) & np.isfinite(rows.lo) & np.isfinite(rows.hi) & (rows.kinds != CIRCLE))
    middles[np.searchsorted(rows.offsets, at, side="right") - 1] = rows.lo[at] / 2 + rows.hi[at] / 2
    return middles[heads]


def put_back(found: Matches, order: Int64s) -> Matches:
    """Answers to a batch that was asked in that order, as if it had been asked as it was. O(hits)."""
    sizes = np.empty(len(order), np.int64)
    sizes[order] = np.diff(found.offsets)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ids, scores = np.empty(len(found.ids), np.int64), np.empty(len(found.ids))
    kernel.put_back(order, found.offsets, found.ids, found.scores, offsets, ids, scores)
    return Matches(offsets, ids, scores)
