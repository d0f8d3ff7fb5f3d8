"""Rows assembled column by column: each column has one predicate, or none, of every row.

Columns are in CSR form and in the order of their dimensions, so rows are assembled without sorting: O(intervals).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import INTERVAL, MORE, Float64s, Int64s, Rows, make_rows
from matchwood.workloads.draw import UNUSED, Uint16s, offsets_of

Bools = NDArray[np.bool_]
_GRAIN = 8192


class Column(NamedTuple):
    """The interval sets of one dimension: row r has `sizes[r]` intervals, ascending; 0 for no predicate."""

    dim: int
    sizes: Int64s
    lo: Float64s
    hi: Float64s


def in_column(dim: int, chosen: Uint16s) -> Column:
    """`IN` the keys of each line of a matrix, ascending with `UNUSED` last (`draw.ascending`)."""
    used = chosen != UNUSED
    keys = chosen[used].astype(np.float64)
    return Column(dim, used.sum(axis=1), keys, keys)


def not_in_column(dim: int, chosen: Uint16s) -> Column:
    """`NOT IN` the keys of each line: the gaps between them. Lines without a key have no predicate."""
    excluded = in_column(dim, chosen)
    sizes = np.where(excluded.sizes > 0, excluded.sizes + 1, 0)
    ends = np.cumsum(sizes)
    lo, hi = np.full(int(sizes.sum()), -np.inf), np.full(int(sizes.sum()), np.inf)
    is_last, is_first = np.zeros(len(lo), dtype=bool), np.zeros(len(lo), dtype=bool)
    is_last[ends[sizes > 0] - 1] = True
    is_first[(ends - sizes)[sizes > 0]] = True
    hi[~is_last], lo[~is_first] = before(excluded.lo), after(excluded.lo)
    return Column(dim, sizes, lo, hi)


def range_column(dim: int, used: Bools, lo: Float64s, hi: Float64s) -> Column:
    """`BETWEEN lo AND hi` in the rows that use it."""
    return Column(dim, used.astype(np.int64), lo[used], hi[used])


def rows_of_columns(columns: Sequence[Column], priority: Float64s, weight: float) -> Rows:
    """Rows with the ids 0, 1, 2, ... and the same weight for all predicates."""
    starts = offsets_of(np.sum([column.sizes for column in columns], axis=0, dtype=np.int64))
    count = int(starts[-1])
    dims, kinds = np.empty(count, np.uint16), np.full(count, MORE, np.uint8)
    lo, hi, weights = np.empty(count), np.empty(count), np.zeros(count)
    free = starts[:-1].copy()
    for column in columns:
        first = np.cumsum(column.sizes) - column.sizes
        place = np.repeat(free - first, column.sizes) + np.arange(len(column.lo))
        dims[place], lo[place], hi[place] = column.dim, column.lo, column.hi
        heads = free[column.sizes > 0]
        kinds[heads], weights[heads] = INTERVAL, weight
        free += column.sizes
    return make_rows(np.arange(len(priority)), priority, starts, dims, kinds, lo, hi, weights)


def bids(rng: np.random.Generator, count: int) -> Float64s:
    """Log-normal priorities, multiples of 1/8192, so that scores are exact sums in every order."""
    return np.asarray(np.round(rng.lognormal(0.0, 1.0, count) * _GRAIN) / _GRAIN)


def before(keys: Float64s) -> Float64s:
    """The next lower floats."""
    return np.asarray(np.nextafter(keys, -np.inf) + 0.0)  # -0.0 becomes 0.0


def after(keys: Float64s) -> Float64s:
    """The next higher floats."""
    return np.asarray(np.nextafter(keys, np.inf) + 0.0)
