"""Random draws that workloads share: Zipf weights, distinct attributes, sizes; and matrices of predicates as CSR.

A draw of `k` attributes for each of `n` rows is an n x k matrix. If rows differ in size, unused elements are `UNUSED`, which
sorts last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import INTERVAL, Events, Float64s, Int64s, Rows, make_events, make_rows

UNUSED = 0xFFFF
Uint16s = NDArray[np.uint16]
_MAX_CLOCKS = 4_000_000  # in memory at once: 32 MB


def zipf(count: int, skew: float) -> Float64s:
    """Shares of ranks 1..count, proportional to rank ** -skew; skew 0 is uniform."""
    shares = np.arange(1, count + 1, dtype=np.float64) ** -skew
    return np.asarray(shares / shares.sum())


def pick(rng: np.random.Generator, shares: Float64s, shape: int | tuple[int, ...]) -> Int64s:
    """Indices drawn with the given shares, with replacement. O(log n) each."""
    bounds = np.cumsum(shares)
    found = np.searchsorted(bounds, rng.random(shape) * bounds[-1], side="right")
    return np.asarray(np.minimum(found, len(shares) - 1), dtype=np.int64)


def pick_distinct(rng: np.random.Generator, shares: Float64s, count: int, size: int) -> Uint16s:
    """`count` rows of `size` different indices each, drawn one after the other with the given shares, in that order.

    Few out of many are drawn with replacement, and repeated ones drawn again. Otherwise each index gets an exponential clock, and
    the first `size` arrivals have the same distribution.
    """
    if size * 4 > len(shares):
        return _first_arrivals(rng, shares, count, size)
    chosen = pick(rng, shares, (count, size)).astype(np.uint16)
    pending = np.arange(count)
    while len(pending):
        part = chosen[pending]
        repeated = _repeated(part)
        part[repeated] = pick(rng, shares, int(repeated.sum()))
        chosen[pending] = part
        pending = pending[repeated.any(axis=1)]
    return chosen


def _repeated(rows: Uint16s) -> NDArray[np.bool_]:
    """Which entries stand in their row once before. O(entries log row)."""
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return repeated


def _first_arrivals(rng: np.random.Generator, shares: Float64s, count: int, size: int) -> Uint16s:
    chosen = np.empty((count, size), dtype=np.uint16)
    step = max(1, _MAX_CLOCKS // len(shares))
    for start in range(0, count, step):
        stop = min(start + step, count)
        clocks = rng.standard_exponential((stop - start, len(shares))) / shares
        chosen[start:stop] = np.argsort(clocks, axis=1)[:, :size]
    return chosen


def ascending(chosen: Uint16s, sizes: Int64s) -> Uint16s:
    """The first `sizes[r]` choices of row r in ascending order, the rest `UNUSED`."""
    result = np.where(np.arange(chosen.shape[1]) < sizes[:, None], chosen, np.uint16(UNUSED))
    result.sort(axis=1)
    return result


def around(rng: np.random.Generator, middle: int, spread: int, count: int) -> Int64s:
    """Sizes uniform in middle - spread .. middle + spread."""
    return rng.integers(middle - spread, middle + spread + 1, size=count)


def offsets_of(sizes: Int64s) -> Int64s:
    """CSR offsets of runs of the given sizes."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def rows_of(dims: Uint16s, lo: Float64s, hi: Float64s, weight: Float64s, priority: Float64s | None = None) -> Rows:
    """Rows from n x k matrices, one interval per element, without the `UNUSED` ones."""
    used = dims != UNUSED
    count = len(dims)
    return make_rows(
        np.arange(count),
        np.zeros(count) if priority is None else priority,
        offsets_of(used.sum(axis=1)),
        dims[used],
        np.full(int(used.sum()), INTERVAL),
        lo[used],
        hi[used],
        weight[used],
    )


def events_of(dims: Uint16s, values: Float64s) -> Events:
    """Events of single values from n x k matrices, without the `UNUSED` elements."""
    used = dims != UNUSED
    return make_events(offsets_of(used.sum(axis=1)), dims[used], values[used], values[used])


def fixed_rows(lo: Float64s, hi: Float64s, weight: Float64s, priority: Float64s | None = None) -> Rows:
    """Rows that constrain every dimension 0..d-1, from n x d matrices."""
    dims = np.broadcast_to(np.arange(lo.shape[1], dtype=np.uint16), lo.shape)
    return rows_of(dims, lo, hi, weight, priority)


def fixed_events(values: Float64s) -> Events:
    """Events with a value in every dimension 0..d-1, from an n x d matrix."""
    return events_of(np.broadcast_to(np.arange(values.shape[1], dtype=np.uint16), values.shape), values)
