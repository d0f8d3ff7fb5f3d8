"""The plan of a split index: what share of events passes a predicate, by dimension, estimated from the rows.

The values that rows name stand for those that events have. A value passes the share of events that have it: the probability that
two values of the dimension are equal. A range passes its mean share of the domain, in quantiles of the ends.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import INTERVAL, JOINED, MORE, Rows
from matchwood.encode.picking import pick_rows
from matchwood.structures.split.kernels.divide import SHARE, divide_rows

SAMPLE = 32_768  # rows


def planned_shares(rows: Rows) -> np.ndarray:
    """The shares of all dimensions, from a sample of the rows. O(sample log sample)."""
    if rows.size > SAMPLE:
        rows = pick_rows(rows, np.arange(0, rows.size, -(-rows.size // SAMPLE)))
    shares = np.ones(int(rows.dims.max(initial=0)) + 1, SHARE)
    heads = np.flatnonzero(rows.kinds != MORE)
    group = np.cumsum(rows.kinds != MORE) - 1  # of each entry
    first, last = heads, np.append(heads, len(rows.kinds))[1:] - 1
    is_interval = (rows.kinds[heads] == INTERVAL) | (rows.kinds[heads] == JOINED)
    are_values = np.bincount(group[rows.lo != rows.hi], minlength=len(heads)) == 0
    is_value = (is_interval & are_values)[group]
    for dim, mine in _by_dimension(rows.dims[is_value], rows.lo[is_value]):
        _, counts = np.unique(mine, return_counts=True)
        shares[dim]["value"] = float((counts.astype(np.float64) ** 2).sum() / counts.sum() ** 2)
    lo, hi = rows.lo[first], rows.hi[last]
    is_range = is_interval & ~are_values & (np.isfinite(lo) | np.isfinite(hi))
    for dim, mine in _by_dimension(rows.dims[first][is_range], np.flatnonzero(is_range)):
        ends = np.sort(np.concatenate([lo[mine], hi[mine]]))
        ends = ends[np.isfinite(ends)]
        inside = np.searchsorted(ends, hi[mine], "right") - np.searchsorted(ends, lo[mine], "left")
        shares[dim]["range"] = min(1.0, float(np.mean(inside) / max(len(ends), 1)))
    return shares


def parts_of(rows: Rows, shares: np.ndarray) -> np.ndarray:
    """The part that each row goes to (`kernels.divide`). O(entries)."""
    parts = np.empty(rows.size, np.int64)
    divide_rows(rows, shares, parts)
    return parts


def _by_dimension(dims: np.ndarray, values: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The values of each dimension."""
    order = np.argsort(dims, kind="stable")
    found, starts = np.unique(dims[order], return_index=True)
    ends = [*starts[1:].tolist(), len(dims)]
    return [(dim, values[order[a:b]]) for dim, a, b in zip(found.tolist(), starts.tolist(), ends, strict=False)]
