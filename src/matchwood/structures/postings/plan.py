"""Choosing the axes of `postings`: which dimensions have planes, where they are cut, and which cells have a plane."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood import geo
from matchwood.encode.arrays import CIRCLE, MORE, Float64s, Int64s, Rows
from matchwood.store.kernels.rows import PLACE
from matchwood.structures.postings.kernels.layout import AXIS, BLOCK, CELLS, fill_guides

MAX_AXES = 48
FULL, FLAT = 4.0, 0.02  # see `_Alike.differences`: the full score counts twice, and so much of the rows may be flatter
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


def order_in_blocks(ceilings: np.ndarray) -> Int64s:
    """The order of rows with these ceilings in which the rows of a block are alike: a block at a time, the highest first.

    Rows whose grades are on other attributes or curves are apart; the others are halved until they fit a block, each time along
    that in which they differ most, as far as it changes their scores: the full score, the slopes or the origins. Blocks that
    are not full come last. O(rows log blocks).
    """
    kinds = [ceilings[f"kind{g}"] & (3 | PLACE) for g in (0, 1)]
    alike = np.zeros(len(ceilings), np.int64)
    for g in (0, 1):
        number = np.where(kinds[g] > 0, ceilings[f"dim{g}"].astype(np.int64) << 5 | kinds[g], 0)
        alike = alike << 21 | number
    blocks: list[Int64s] = []
    for key in np.unique(alike):
        mine = np.flatnonzero(alike == key)
        blocks += _halved(mine, _alike(ceilings[mine], [int(kinds[g][mine[0]]) for g in (0, 1)]))
    blocks.sort(key=lambda block: (len(block) < BLOCK, -float(ceilings["full"][block].max())))
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)


class _Alike(NamedTuple):
    """Rows whose grades are on the same attributes and curves."""

    full: Float64s
    grades: list[tuple[Float64s, Float64s, list[Float64s]]]
    """Of each grade: weights, slopes and the coordinates of the origins."""

    def differences(self, mine: Int64s) -> list[tuple[float, Float64s]]:
        """By how much some rows differ in their scores for each number that tells them apart, and these numbers.

        The mean distance from the median: a few distant rows do not decide. The flattest slope of a block is that of its hull.
        """
        sample = mine[:: max(1, len(mine) // (4 * BLOCK))]
        found = [(FULL * _spread(self.full[sample]), self.full)]
        for weights, slopes, origins in self.grades:
            weight, slope = float(weights[sample].mean()), slopes[sample]
            found.append((weight * _spread(slope) / max(float(slope.max()), 1e-300), slopes))
            for origin in origins:
                lost = float(np.quantile(slope, FLAT)) * _spread(origin[sample])
                found.append((weight * min(lost, 1.0), origin))
        return found


def _spread(values: Float64s) -> float:
    return float(np.abs(values - np.median(values)).mean())


def _alike(ceilings: np.ndarray, kinds: list[int]) -> _Alike:
    grades = []
    for g, kind in enumerate(kinds):
        if not kind:
            continue
        weight, slope = (ceilings[name + str(g)].astype(np.float64) for name in ("weight", "slope"))
        key = np.ascontiguousarray(ceilings[f"key{g}"])
        if kind & PLACE:
            x_and_y = key.view(np.float32).reshape(-1, 2).astype(np.float64)
            origins = [*x_and_y.T * geo.EARTH_RADIUS_M, ceilings[f"z{g}"] * geo.EARTH_RADIUS_M]
        else:
            origins = [np.clip(key.view(np.float64), -1e300, 1e300)]
        grades.append((weight, slope, [np.ascontiguousarray(origin) for origin in origins]))
    return _Alike(np.clip(ceilings["full"].astype(np.float64), -1e300, 1e300), grades)


def _halved(rows: Int64s, alike: _Alike) -> list[Int64s]:
    """The rows, of which `alike` tells, in parts of BLOCK rows; only the last may be smaller."""
    parts, stack = [], [np.arange(len(rows))]
    while stack:
        mine = stack.pop()
        if len(mine) <= BLOCK:
            parts.append(rows[mine])
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            _, values = max(alike.differences(mine), key=lambda difference: difference[0])
        half = BLOCK * max(1, len(mine) // (2 * BLOCK))
        order = np.argpartition(values[mine], half)
        stack += [mine[order[half:]], mine[order[:half]]]
    return parts


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
