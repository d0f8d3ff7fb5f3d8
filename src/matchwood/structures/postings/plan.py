"""Choosing the axes of `postings`: which dimensions have planes, where they are cut, and which cells have a plane."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, MORE, Float64s, Rows
from matchwood.structures.postings.kernels.layout import AXIS, CELLS

MAX_AXES = 48
RARE = 6144  # see `pivot_limit`
MAX_RANGE_CELLS = 256  # of an axis with ranges: each range is in all the cells that it spans
MAX_CELLS = 1 << 17
MAX_PLANES = 2048
SPARSE = 512  # a cell with more than this part of the rows gets a plane


class Axes(NamedTuple):
    """What `kernels.layout` says of the arrays of these names."""

    axes: np.ndarray
    axis_of: np.ndarray
    cuts: Float64s
    plane_of: np.ndarray
    planes: int


class _Axis(NamedTuple):
    dim: int
    cuts: Float64s
    counts: np.ndarray
    """By cell: rows that it admits, those with NOT IN left out."""


def pivot_limit(sample: Rows, rows: int) -> int:
    """How many rows may name the values of a predicate for it to be a pivot.

    A filed row costs a test for each event that has such a value; in the planes it costs a bit for each dimension and event. So
    the limit is a share of the rows that grows with the number of dimensions that rows use, each counted by how much it is used.
    """
    used = np.bincount(sample.dims[(sample.kinds != MORE) & (sample.kinds < CIRCLE)]).astype(np.float64)
    dimensions = used.sum() ** 2 / max((used**2).sum(), 1.0)
    return max(16, int(rows * min(dimensions, 256.0) / RARE))


def choose_axes(rows: Rows, dimensions: int) -> Axes:
    """Axes for rows that are not filed. O(entries log entries)."""
    whole = rows.kinds < CIRCLE
    dims, kinds, lo, hi = (column[whole] for column in (rows.dims, rows.kinds, rows.lo, rows.hi))
    heads = np.flatnonzero(kinds != MORE)
    used = np.bincount(dims[heads], minlength=dimensions)
    chosen = np.argsort(-used, kind="stable")[:MAX_AXES]
    chosen = np.sort(chosen[used[chosen] > 0])
    # NOT IN, as `excludes` of the kernels tells it: the first interval has no beginning, the last no end.
    ends = np.append(heads, len(kinds))[1:] - 1
    is_outside = np.repeat(np.isneginf(lo[heads]) & np.isposinf(hi[ends]) & (ends > heads), ends - heads + 1)
    by_dim = np.argsort(dims, kind="stable")
    by_dim = by_dim[kinds[by_dim] != ABSENT]
    begins, stops = (np.searchsorted(dims[by_dim], chosen, side) for side in ("left", "right"))
    planned = []
    for dim, begin, stop in zip(chosen.tolist(), begins, stops, strict=True):
        mine = by_dim[begin:stop]
        planned.append(_axis(dim, lo[mine], hi[mine], is_outside[mine]))
    return _laid_out(planned, rows.size, dimensions)


def _axis(dim: int, lo: Float64s, hi: Float64s, is_outside: np.ndarray) -> _Axis:
    is_point = lo == hi
    points, mentions = np.unique(lo[is_point & ~is_outside], return_counts=True)
    is_range = ~is_point & ~is_outside
    others = is_range | is_outside
    with np.errstate(over="ignore"):
        cuts = np.unique(
            np.concatenate([points, np.nextafter(points, np.inf), lo[others], np.nextafter(hi[others], np.inf)])
        )
    cuts = cuts[np.isfinite(cuts)]
    limit = MAX_RANGE_CELLS if is_range.any() else MAX_CELLS
    if len(cuts) > limit:
        cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, limit).astype(np.int64))]
    changes = np.zeros(len(cuts) + 2, np.int64)
    np.add.at(changes, np.searchsorted(cuts, lo[is_range], side="right"), 1)
    np.subtract.at(changes, np.searchsorted(cuts, hi[is_range], side="right") + 1, 1)
    counts = np.cumsum(changes)[: len(cuts) + 1]
    np.add.at(counts, np.searchsorted(cuts, points, side="right"), mentions)
    return _Axis(dim, cuts, counts)


def _laid_out(planned: list[_Axis], rows: int, dimensions: int) -> Axes:
    counts = np.concatenate([np.zeros(0, np.int64), *(axis.counts for axis in planned)])
    least = rows // SPARSE
    if (counts > least).sum() > MAX_PLANES:
        least = int(np.sort(counts)[-MAX_PLANES])
    axes, axis_of = np.zeros(len(planned), AXIS), np.full(dimensions, -1, np.int32)
    plane_of = np.full(len(counts), -1, np.int32)
    plane, cut, cell = 1, 0, 0  # the first plane tells which positions are live
    for number, axis in enumerate(planned):
        dense = np.flatnonzero(axis.counts > least)
        plane_of[cell + dense] = plane + CELLS + np.arange(len(dense))
        axes[number] = axis.dim, cut, len(axis.cuts), plane, CELLS + len(dense), 0
        axis_of[axis.dim] = number
        plane, cut, cell = plane + CELLS + len(dense), cut + len(axis.cuts), cell + len(axis.counts)
    cuts = np.concatenate([np.zeros(0), *(axis.cuts for axis in planned)])
    return Axes(axes, axis_of, cuts, plane_of, plane)
