"""Interval sets: sorted lists of disjoint closed intervals of float64 keys, closed under union, intersection and complement.

Open ends are closed ends one float further in (`nextafter`), so a set is exactly the set of floats in it, without any epsilon.
The canonical form also joins intervals between which no float lies, so two sets are equal iff they contain the same floats.
The universe is every float from -inf to +inf, both included; NaN is in no set, and -0.0 is written 0.0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

INF = math.inf
Float64s = NDArray[np.float64]
_MANY = 64
"""From so many keys on, arrays are faster than lists."""
_ALL_WHOLE = 2.0**52
"""From here on every float is a whole number."""


class IntervalSet:
    """A canonical interval set. Make one with the functions below, or `IntervalSet.of` from any intervals. Immutable.

    >>> (at_most(5.0) | at_least(9.0)) & closed(3.0, 10.0)
    IntervalSet(parts=((3.0, 5.0), (9.0, 10.0)))
    >>> ~closed(0.0, INF)
    IntervalSet(parts=((-inf, -5e-324),))
    """

    __slots__ = ("_lo_hi", "_parts")

    def __init__(self, parts: tuple[tuple[float, float], ...]) -> None:
        self._parts: tuple[tuple[float, float], ...] | None = parts
        self._lo_hi: tuple[Float64s, Float64s] | None = None

    @classmethod
    def of_arrays(cls, lo: Float64s, hi: Float64s) -> IntervalSet:
        """The set with these intervals, which are in canonical form. O(1): objects are made if `parts` is asked for."""
        made = cls(())
        made._parts, made._lo_hi = None, (lo, hi)
        return made

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """The intervals (lo, hi), ascending. O(1), the first time O(n) for a set made of arrays."""
        if self._parts is None:
            assert self._lo_hi is not None
            self._parts = tuple(zip(self._lo_hi[0].tolist(), self._lo_hi[1].tolist(), strict=True))
        return self._parts

    def arrays(self) -> tuple[Float64s, Float64s]:
        """The lower and the upper ends. O(1) for a set made of arrays, otherwise O(n)."""
        if self._lo_hi is not None:
            return self._lo_hi
        ends = np.array(self.parts).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    @property
    def count(self) -> int:
        """The number of intervals. O(1)."""
        return len(self._parts) if self._parts is not None else len(self.arrays()[0])

    @classmethod
    def of(cls, intervals: Iterable[tuple[float, float]]) -> IntervalSet:
        """The set that holds every key of the given closed intervals; those with lo > hi hold none. O(n log n)."""
        merged: list[tuple[float, float]] = []
        for lo, hi in sorted((lo + 0.0, hi + 0.0) for lo, hi in intervals if lo <= hi):
            if merged and lo <= math.nextafter(merged[-1][1], INF):
                merged[-1] = (merged[-1][0], max(merged[-1][1], hi))
            else:
                merged.append((lo, hi))
        return cls(tuple(merged))

    def __or__(self, other: IntervalSet) -> IntervalSet:
        return IntervalSet.of(self.parts + other.parts)

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """O(n + m)."""
        found = []
        i = j = 0
        while i < len(self.parts) and j < len(other.parts):
            a, b = self.parts[i], other.parts[j]
            lo, hi = max(a[0], b[0]), min(a[1], b[1])
            if lo <= hi:
                found.append((lo, hi))
            if a[1] < b[1]:
                i += 1
            else:
                j += 1
        return IntervalSet(tuple(found))

    def __invert__(self) -> IntervalSet:
        """O(n)."""
        gaps = []
        start = -INF
        for lo, hi in self.parts:
            if lo > start:
                gaps.append((start, _before(lo)))
            if hi == INF:
                return IntervalSet(tuple(gaps))
            start = _after(hi)
        return IntervalSet((*gaps, (start, INF)))

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        return self & ~other

    def __contains__(self, key: float) -> bool:
        """O(log n)."""
        place = bisect_right(self.parts, (key, INF)) - 1
        return place >= 0 and self.parts[place][0] <= key <= self.parts[place][1]

    def meets(self, other: IntervalSet) -> bool:
        """Do the two sets share a key? O(n + m)."""
        return bool((self & other).parts)

    def covers(self, other: IntervalSet) -> bool:
        """Does this set hold every key of the other? O(n + m)."""
        return (self & other) == other

    def whole(self) -> IntervalSet:
        """The whole numbers of this set, and the infinities in it. O(n).

        Ends are whole, and neighbours between which no whole number lies are joined: two results are equal iff they hold the
        same whole numbers. Meeting and covering sets of the same form stay exact.

        >>> (above(1.0) & below(3.0)).whole(), (above(1.0) & below(2.0)).whole()
        (IntervalSet(parts=((2.0, 2.0),)), IntervalSet(parts=()))
        """
        joined: list[tuple[float, float]] = []
        for lo, hi in ((_ceiling(lo), _floor(hi)) for lo, hi in self.parts):
            if lo > hi:
                continue
            if joined and lo <= next_whole(joined[-1][1]):
                joined[-1] = (joined[-1][0], hi)
            else:
                joined.append((lo, hi))
        return IntervalSet(tuple(joined))

    @property
    def hull(self) -> tuple[float, float]:
        """The smallest interval around the set, the bounding box of the papers; ValueError for the empty set."""
        if not self.parts:
            raise ValueError("the empty interval set has no hull")
        return self.parts[0][0], self.parts[-1][1]

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"IntervalSet(parts={self.parts!r})"

    def __reduce__(self) -> tuple[type[IntervalSet], tuple[tuple[tuple[float, float], ...]]]:
        return IntervalSet, (self.parts,)


NOTHING = IntervalSet(())
EVERYTHING = IntervalSet(((-INF, INF),))


def closed(lo: float, hi: float) -> IntervalSet:
    """[lo, hi]; nothing if lo > hi."""
    return IntervalSet(((lo + 0.0, hi + 0.0),)) if lo <= hi else NOTHING


def points(keys: Iterable[float]) -> IntervalSet:
    """Each of the keys and nothing between them (but neighbouring floats join). O(n log n)."""
    found = keys if isinstance(keys, list) else list(keys)
    if len(found) < _MANY:
        return IntervalSet.of([(key, key) for key in found])
    ordered = np.unique(np.array(found)) + 0.0
    if (np.nextafter(ordered[:-1], INF) >= ordered[1:]).any():
        return IntervalSet.of([(key, key) for key in found])
    return IntervalSet.of_arrays(ordered, ordered)


def at_most(key: float) -> IntervalSet:
    """(-inf, key]."""
    return IntervalSet(((-INF, key + 0.0),))


def at_least(key: float) -> IntervalSet:
    """[key, inf)."""
    return IntervalSet(((key + 0.0, INF),))


def below(key: float) -> IntervalSet:
    """Every float before `key`."""
    return NOTHING if key == -INF else IntervalSet(((-INF, _before(key)),))


def above(key: float) -> IntervalSet:
    """Every float after `key`."""
    return NOTHING if key == INF else IntervalSet(((_after(key), INF),))


def next_whole(key: float, towards: float = INF) -> float:
    """The next whole number in a direction, or the next float where floats are further apart."""
    return max(key + 1.0, math.nextafter(key, INF)) if towards > key else min(key - 1.0, math.nextafter(key, -INF))


def _floor(key: float) -> float:
    return key if abs(key) >= _ALL_WHOLE else float(math.floor(key))


def _ceiling(key: float) -> float:
    return key if abs(key) >= _ALL_WHOLE else float(math.ceil(key))


def _before(key: float) -> float:
    return math.nextafter(key, -INF) + 0.0  # -0.0 becomes 0.0: one key, one spelling


def _after(key: float) -> float:
    return math.nextafter(key, INF) + 0.0
