"""Interval sets: sorted lists of disjoint closed intervals of float64 keys, closed under union, intersection and complement.

Open ends are closed ends one float further in (`nextafter`), so a set is exactly the set of floats in it, without any epsilon.
The canonical form also joins intervals between which no float lies, so two sets are equal iff they contain the same floats.
The universe is every float from -inf to +inf, both included; NaN is in no set, and -0.0 is written 0.0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

INF = math.inf
_ALL_WHOLE = 2.0**52
"""From here on every float is a whole number."""


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A canonical interval set. Make one with the functions below, or `IntervalSet.of` from any intervals.

    >>> (at_most(5.0) | at_least(9.0)) & closed(3.0, 10.0)
    IntervalSet(parts=((3.0, 5.0), (9.0, 10.0)))
    >>> ~closed(0.0, INF)
    IntervalSet(parts=((-inf, -5e-324),))
    """

    parts: tuple[tuple[float, float], ...]

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
        return bool(self.parts)


NOTHING = IntervalSet(())
EVERYTHING = IntervalSet(((-INF, INF),))


def closed(lo: float, hi: float) -> IntervalSet:
    """[lo, hi]; nothing if lo > hi."""
    return IntervalSet(((lo + 0.0, hi + 0.0),)) if lo <= hi else NOTHING


def points(keys: Iterable[float]) -> IntervalSet:
    """Each of the keys and nothing between them (but neighbouring floats join)."""
    return IntervalSet.of((key, key) for key in keys)


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
