"""Rings of one polygon: do two edges cross, or lie on each other? Vectorised, and exact where float64 is not.

Edges may touch at single points: with the even-odd rule that is unambiguous, and real borders do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchwood.lang.geometry import Position

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
Edge = tuple[Position, Position]

_BLOCK = 256
_ERROR = 3.3306690738754716e-16
"""Relative error of the determinant of an orientation (Shewchuk 1997, the bound A of orient2d)."""
_UNDERFLOW = 1e-290
_FEW = 256
"""Edges of a polygon below which a sweep in Python takes less time than the calls of NumPy."""
_TRIED = 8
"""Vertices of a hole that are compared with its shell."""


def fault_of(rings: Sequence[tuple[Position, ...]]) -> str | None:
    """What is wrong with the rings of one polygon, closed and without repeated vertices; None if nothing is.

    O(n log n) where edges are short, O(n^2) where most of them reach across the polygon.
    """
    if sum(map(len, rings)) <= _FEW:
        return next((_fault(*pair) for pair in _swept_pairs(rings) if _is_crossing(*pair)), None)
    corners = [np.array(ring) for ring in rings]
    begin = np.concatenate([ring[:-1] for ring in corners])
    end = np.concatenate([ring[1:] for ring in corners])
    for i, j in _near_pairs(begin, end):
        crossing = _crossing(begin[i], end[i], begin[j], end[j])
        if crossing.any():
            at = int(np.argmax(crossing))
            first, second = ((tuple(begin[k].tolist()), tuple(end[k].tolist())) for k in (i[at], j[at]))
            return _fault(first, second)
    return None


def _fault(first: Edge, second: Edge) -> str:
    edges = " and ".join(f"({a[0]} {a[1]}, {b[0]} {b[1]})" for a, b in (first, second))
    return f"two edges of a polygon cross or overlap, {edges}; correct the ring or split it"


def _swept_pairs(rings: Sequence[tuple[Position, ...]]) -> Iterator[tuple[Edge, Edge]]:
    """Pairs of edges whose boxes share more than a point, each pair once: a sweep from west to east."""
    edges = []
    for ring in rings:
        for edge in pairwise(ring):
            (ax, ay), (bx, by) = edge
            west, east = (ax, bx) if ax < bx else (bx, ax)
            south, north = (ay, by) if ay < by else (by, ay)
            edges.append((west, east, south, north, edge))
    edges.sort()
    reached: list[tuple[float, float, float, float, Edge]] = []
    for box in edges:
        west, east, south, north, edge = box
        reached = [other for other in reached if other[1] >= west]
        for _, far, low, high, other in reached:
            if low <= north and south <= high and (far > west < east or (low < north and south < high)):
                yield other, edge
        reached.append(box)


def _is_crossing(first: Edge, second: Edge) -> bool:
    """As `_crossing`, of one pair."""
    (a, b), (c, d) = first, second
    if {a, b} & {c, d}:  # they cross nowhere else, but may lie on each other
        return (_side(a, b, d) if a == c or b == c else _side(a, b, c)) == 0 and _overlap(a, b, c, d)
    c_side, d_side = _side(a, b, c), _side(a, b, d)
    if c_side == d_side == 0:
        return _overlap(a, b, c, d)
    return c_side * d_side < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _overlap(a: Position, b: Position, c: Position, d: Position) -> bool:
    """Do two edges on one line share more than a point?"""
    shared = [min(max(a[i], b[i]), max(c[i], d[i])) - max(min(a[i], b[i]), min(c[i], d[i])) for i in (0, 1)]
    return min(shared) >= 0.0 and max(shared) > 0.0


def _side(a: Position, b: Position, c: Position) -> int:
    """As `_sides`, of one place."""
    acx, acy, bcx, bcy = a[0] - c[0], a[1] - c[1], b[0] - c[0], b[1] - c[1]
    left, right = acx * bcy, acy * bcx
    found = left - right
    if abs(found) > _ERROR * (abs(left) + abs(right)) + _UNDERFLOW:
        return 1 if found > 0.0 else -1
    if (acx == 0.0 or bcy == 0.0) and (acy == 0.0 or bcx == 0.0):
        return 0
    return exact_side(a, b, c)


def _near_pairs(begin: Float64s, end: Float64s) -> Iterator[tuple[Int64s, Int64s]]:
    """Pairs of edges whose boxes meet, each pair once, in blocks."""
    lo, hi = np.minimum(begin, end), np.maximum(begin, end)
    order = np.argsort(lo[:, 1], kind="stable")
    lo, hi = lo[order], hi[order]
    n = len(order)
    for first in range(0, n, _BLOCK):
        block = slice(first, min(first + _BLOCK, n))
        last = int(np.searchsorted(lo[:, 1], hi[block, 1].max(), "right"))
        lo_i, hi_i = lo[block, None], hi[block, None]
        lo_j, hi_j = lo[None, first:last], hi[None, first:last]
        near = (lo_j[..., 1] <= hi_i[..., 1]) & (lo_j[..., 0] <= hi_i[..., 0]) & (lo_i[..., 0] <= hi_j[..., 0])
        i, j = np.nonzero(np.triu(near, 1))
        if len(i):
            yield order[first + i], order[first + j]


def _crossing(a: Float64s, b: Float64s, c: Float64s, d: Float64s) -> NDArray[np.bool_]:
    """Which edges (a, b) and (c, d) share more than a point that is an end of one of them?"""
    c_side, d_side = _sides(a, b, c), _sides(a, b, d)
    a_side, b_side = _sides(c, d, a), _sides(c, d, b)
    across = (c_side * d_side < 0) & (a_side * b_side < 0)
    along = (c_side == 0) & (d_side == 0)
    if along.any():
        shared = np.minimum(np.maximum(a, b), np.maximum(c, d)) - np.maximum(np.minimum(a, b), np.minimum(c, d))
        across |= along & (shared >= 0.0).all(axis=1) & (shared > 0.0).any(axis=1)
    return np.asarray(across)


def _sides(a: Float64s, b: Float64s, c: Float64s) -> Int64s:
    """1 where c is to the left of the way from a to b, -1 to the right, 0 on their line. Exact."""
    ac, bc = a - c, b - c
    left, right = ac[:, 0] * bc[:, 1], ac[:, 1] * bc[:, 0]
    found = left - right
    is_zero = ((ac[:, 0] == 0.0) | (bc[:, 1] == 0.0)) & ((ac[:, 1] == 0.0) | (bc[:, 0] == 0.0))
    doubtful = ~is_zero & (np.abs(found) <= _ERROR * (np.abs(left) + np.abs(right)) + _UNDERFLOW)
    signs = np.sign(found).astype(np.int64)
    for at in np.flatnonzero(doubtful):
        signs[at] = exact_side(a[at].tolist(), b[at].tolist(), c[at].tolist())
    return signs


def is_outside(hole: tuple[Position, ...], shell: tuple[Position, ...]) -> bool:
    """Is a hole, whose edges cross none of the shell, outside it? The first vertex that is not on the shell decides. O(n).

    Where many are on it, only some are tested: the even-odd rule gives such a hole a meaning in any case.
    """
    corners = np.array(shell)
    a, b = corners[:-1], corners[1:]
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    for vertex in hole[:_TRIED]:
        c = np.broadcast_to(np.array(vertex), a.shape)
        near = np.flatnonzero((lo[:, 1] <= c[:, 1]) & (c[:, 1] <= hi[:, 1]))
        sides = _sides(a[near], b[near], c[near])
        if ((sides == 0) & (lo[near, 0] <= c[near, 0]) & (c[near, 0] <= hi[near, 0])).any():
            continue
        rises = b[near, 1] > a[near, 1]
        passed = ((a[near, 1] > c[near, 1]) != (b[near, 1] > c[near, 1])) & ((sides > 0) == rises)
        return bool(passed.sum() % 2 == 0)
    return False


def exact_side(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> int:
    """1 if c is to the left of the way from a to b, -1 to the right, 0 on their line."""
    (ax, ay), (bx, by), (cx, cy) = map(Fraction, a), map(Fraction, b), map(Fraction, c)
    left = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (left > 0) - (left < 0)
