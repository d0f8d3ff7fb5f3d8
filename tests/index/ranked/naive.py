"""The obvious answer: all intervals that meet, sorted."""

from __future__ import annotations

import numpy as np

Intervals = dict[int, tuple[float, float, float]]


def some_intervals(rng: np.random.Generator, n: int, first_id: int = 0, *, ties: bool = True) -> Intervals:
    """Intervals on a small grid, so that ends, points and scores coincide often; some reach to infinity."""
    lo = rng.integers(0, 30, n).astype(float)
    hi = lo + rng.integers(0, 9, n)
    lo[rng.random(n) < 0.05] = -np.inf
    hi[rng.random(n) < 0.05] = np.inf
    score = rng.integers(-3, 4, n).astype(float) if ties else rng.normal(size=n)
    ids = first_id + rng.permutation(n)
    return dict(zip(ids.tolist(), zip(lo.tolist(), hi.tolist(), score.tolist(), strict=True), strict=True))


def columns(
    intervals: Intervals, ids: list[int] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """lo, hi, score, ids."""
    chosen = list(intervals) if ids is None else ids
    table = np.array([intervals[i] for i in chosen]).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2], np.array(chosen, np.int64)


def stabbed(intervals: Intervals, first: float, last: float | None = None) -> list[tuple[int, float]]:
    """(id, score) of those that meet [first, last], best first."""
    last = first if last is None else last
    hits = [(i, score) for i, (lo, hi, score) in intervals.items() if lo <= last and first <= hi]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


# Ranked's running example (Figures 2 to 5), put together from what the text says of it: the best score first.
EXAMPLE: Intervals = {
    1: (30.0, 55.0, 10.0),
    2: (65.0, 100.0, 9.0),
    3: (45.0, 55.0, 8.0),
    4: (65.0, 90.0, 7.0),
    5: (10.0, 30.0, 6.0),
    6: (0.0, 30.0, 5.0),
    7: (75.0, 100.0, 4.0),
    8: (75.0, 90.0, 3.0),
    9: (10.0, 45.0, 2.0),
    10: (10.0, 90.0, 1.0),
}
