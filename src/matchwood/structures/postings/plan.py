"""Choosing the axes of `postings`: which dimensions have planes, where they are cut, and which cells have a plane."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import CIRCLE, MORE, Float64s, Rows
from matchwood.structures.postings.kernels.layout import AXIS, CELLS, fill_guides

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
    guides: np.ndarray
    plane_of: np.ndarray
    planes: int


class Survey(NamedTuple):
    """What axes are chosen from (`kernels.update.survey`)."""

    used: np.ndarray
    """By dimension: rows with a predicate on it."""
    points: np.ndarray
    """Records with dim, key and mentions: the values that predicates of few values name."""
    others: np.ndarray
    """The intervals of all other predicates (`kernels.layout.OTHER`)."""


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


def choose_axes(surveyed: Survey, rows: int) -> Axes:
    """Axes for so many rows that are not filed. O(values log values)."""
    used, points, others = surveyed
    chosen = np.argsort(-used, kind="stable")[:MAX_AXES]
    chosen = np.sort(chosen[used[chosen] > 0])
    points, others = (part[np.argsort(part["dim"], kind="stable")] for part in (points, others))
    planned = []
    for dim in chosen.tolist():
        mine, rest = (
            part[slice(*(np.searchsorted(part["dim"], dim, side) for side in ("left", "right")))]
            for part in (points, others)
        )
        planned.append(_axis(dim, mine, rest))
    return _laid_out(planned, rows, len(used))


def _axis(dim: int, points: np.ndarray, others: np.ndarray) -> _Axis:
    keys, (lo, hi), is_outside = points["key"], (others["lo"], others["hi"]), others["outside"] > 0
    is_range = ~is_outside & (lo < hi)
    with np.errstate(over="ignore"):
        cuts = np.unique(np.concatenate([keys, np.nextafter(keys, np.inf), lo, np.nextafter(hi, np.inf)]))
    cuts = cuts[np.isfinite(cuts)]
    limit = MAX_RANGE_CELLS if is_range.any() else MAX_CELLS
    if len(cuts) > limit:
        cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, limit).astype(np.int64))]
    changes = np.zeros(len(cuts) + 2, np.int64)
    np.add.at(changes, np.searchsorted(cuts, lo[~is_outside], side="right"), 1)
    np.subtract.at(changes, np.searchsorted(cuts, hi[~is_outside], side="right") + 1, 1)
    counts = np.cumsum(changes)[: len(cuts) + 1]
    np.add.at(counts, np.searchsorted(cuts, keys, side="right"), points["mentions"])
    return _Axis(dim, cuts, counts)


def _laid_out(planned: list[_Axis], rows: int, dimensions: int) -> Axes:
    counts = np.concatenate([np.zeros(0, np.int64), *(axis.counts for axis in planned)])
    least = rows // SPARSE
    if (counts > least).sum() > MAX_PLANES:
        least = int(np.sort(counts)[-MAX_PLANES])
    axes, axis_of = np.zeros(len(planned), AXIS), np.full(dimensions, -1, np.int32)
    plane_of = np.full(len(counts), -1, np.int32)
    plane, cut, cell, guide = 1, 0, 0, 0  # the first plane tells which positions are live
    for number, axis in enumerate(planned):
        dense = np.flatnonzero(axis.counts > least)
        plane_of[cell + dense] = plane + CELLS + np.arange(len(dense))
        axes[number] = axis.dim, cut, len(axis.cuts), plane, CELLS + len(dense), 0, guide, *_parts(axis.cuts)
        guide += int(axes[number]["parts"]) + 1
        axis_of[axis.dim] = number
        plane, cut, cell = plane + CELLS + len(dense), cut + len(axis.cuts), cell + len(axis.counts)
    cuts = np.concatenate([np.zeros(0), *(axis.cuts for axis in planned)])
    guides = np.zeros(guide, np.uint32)
    fill_guides(axes, cuts, guides)
    return Axes(axes, axis_of, cuts, guides, plane_of, plane)


def _parts(cuts: Float64s) -> tuple[int, float, float]:
    """Into how many equal parts a guide divides the keys from the first to the last cut, the origin, and the parts a unit."""
    parts = max(2 * len(cuts), 1)
    with np.errstate(over="ignore"):
        span = float(cuts[-1] - cuts[0]) if len(cuts) else 0.0
        scale = parts / span if span > 0.0 else 0.0
    return parts, float(cuts[0]) if len(cuts) else 0.0, scale if np.isfinite(scale) else 0.0
