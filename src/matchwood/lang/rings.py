"""Rings of one polygon: do two edges cross, or lie on each other? Vectorised, and exact where float64 is not.

Edges may touch at single points: with the even-odd rule that is unambiguous, and real borders do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from matchwood.lang.geometry import Position

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

_BLOCK = 256
_ERROR = 3.3306690738754716e-16
"""Relative error of the determinant of an orientation (Shewchuk 1997, the bound A of orient2d)."""
_UNDERFLOW = 1e-290
_TRIED = 8
"""Vertices of a hole that are compared with its shell."""


def fault_of(rings: Sequence[tuple[Position, ...]]) -> str | None:
    """What is wrong with the rings of one polygon, closed and without repeated vertices; None if nothing is.

    O(n log n) where edges are short, O(n^2) where most of them reach across the polygon.
    """
    corners = [np.array(ring) for ring in rings]
    begin = np.concatenate([ring[:-1] for ring in corners])
    end = np.concatenate([ring[1:] for ring in corners])
    for i, j in _near_pairs(begin, end):
        crossing = _crossing(begin[i], end[i], begin[j], end[j])
        if crossing.any():
            at = int(np.argmax(crossing))
            first, second = (f"{_edge(begin[k], end[k])}" for k in (i[at], j[at]))
            return f"two edges of a polygon cross or overlap, {first} and {second}; correct the ring or split it"
    return None


def _edge(begin: Float64s, end: Float64s) -> str:
    return f"({begin[0]} {begin[1]}, {end[0]} {end[1]})"


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
