"""The order in which a batch is answered: neighbours one after the other, since they need the same nodes and rows, which are
in the caches then. The answers are put back into the order of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchwood.encode.arrays import CIRCLE, Events, Float64s, Int64s, Matches, Rows
from matchwood.store.kernels import batch_order as kernel

FEWEST = 64
"""Smaller batches are not reordered: they hold hardly any neighbours."""
BITS = 10  # of a tick


def neighbours(ticks: Sequence[np.ndarray]) -> Int64s:
    """The order along a Z-curve through the first two columns of ticks (below 2 ** BITS), which keeps neighbours together."""
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
    """The middle of each of these rows in a dimension, NaN where it has no finite interval there."""
    middles = np.full(rows.size, np.nan)
    at = np.flatnonzero((rows.dims == dim) & np.isfinite(rows.lo) & np.isfinite(rows.hi) & (rows.kinds < CIRCLE))
    middles[np.searchsorted(rows.offsets, at, side="right") - 1] = rows.lo[at] / 2 + rows.hi[at] / 2
    return middles[heads]


def put_back(found: Matches, order: Int64s) -> Matches:
    """The answers to a batch that was answered in that order, in the order of the batch. O(hits)."""
    sizes = np.empty(len(order), np.int64)
    sizes[order] = np.diff(found.offsets)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ids, scores = np.empty(len(found.ids), np.int64), np.empty(len(found.ids))
    kernel.put_back(order, found.offsets, found.ids, found.scores, offsets, ids, scores)
    return Matches(offsets, ids, scores)
