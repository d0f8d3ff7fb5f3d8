"""Rows: conjunctions with at most one predicate for each attribute, the normal form of expressions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matchwood import geo
from matchwood.lang.grade import Grade
from matchwood.lang.intervals import NOTHING, IntervalSet
from matchwood.lang.places import Circle
from matchwood.lang.regions import Region
from matchwood.patterns import Test


@dataclass(frozen=True, slots=True)
class Counted:
    """How many of the intervals of `keys` the value of the event shares a key with: from `least` to `most`."""

    keys: IntervalSet
    least: int
    most: float = math.inf

    def holds(self, value: IntervalSet) -> bool:
        """Is the number of intervals that share a key with the value within the bounds? O(intervals)."""
        met = sum(IntervalSet((part,)).meets(value) for part in self.keys.parts)
        return self.least <= met <= self.most

    @property
    def is_any(self) -> bool:
        """Is it enough that the value shares a key with `keys`?"""
        return self.least == 1 and self.most == math.inf


@dataclass(frozen=True, slots=True)
class Holds:
    """The value of the event shares a key with `keys` and none with `none`, and every count holds.

    A value that is a single key is in `keys`, which has no key of `none`; so `none` matters for lists and ranges only.
    `weight` is what counts in full; grades come on top of it.
    """

    attribute: str
    weight: float
    keys: IntervalSet
    none: IntervalSet = NOTHING
    counts: tuple[Counted, ...] = ()
    grades: tuple[Grade, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Is it one set of keys, and nothing beside it?"""
        return not self.none and not self.counts and not self.grades


@dataclass(frozen=True, slots=True)
class Absent:
    """The event lacks the attribute."""

    attribute: str
    weight: float


@dataclass(frozen=True, slots=True)
class Placed:
    """The event's point lies in the box and satisfies every circle and every region."""

    attribute: str
    weight: float
    lon: IntervalSet
    lat: IntervalSet
    circles: tuple[Circle, ...] = ()
    regions: tuple[Region, ...] = ()
    grades: tuple[Grade, ...] = ()


@dataclass(frozen=True, slots=True)
class Tested:
    """Tests of strings, while an expression is normalised; rows have a `Holds` in its place (`lang.text_tests`).

    One value passes a test of each of `clauses`, no value passes one of `none`, and for each of `some` a value passes one of its
    tests. `held` is what comparisons with constants ask for beside it.
    """

    attribute: str
    weight: float
    clauses: tuple[tuple[Test, ...], ...] = ()
    none: tuple[Test, ...] = ()
    some: tuple[tuple[Test, ...], ...] = ()
    held: Holds | None = None


RowPredicate = Holds | Absent | Placed
DraftPredicate = RowPredicate | Tested
"""Of a row that is being made."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conjunction; without predicates it holds for every event."""

    predicates: tuple[RowPredicate, ...]


def can_hold(predicate: DraftPredicate) -> bool:
    """Is there a value for which the predicate holds? Of circles and regions only some contradictions are noticed. O(shapes)."""
    if isinstance(predicate, Holds):
        return bool(predicate.keys) and all(count.keys.count >= count.least for count in predicate.counts)
    if isinstance(predicate, Absent):
        return True
    if isinstance(predicate, Tested):
        return predicate.held is None or can_hold(predicate.held)
    nowhere = any(circle.outside and circle.radius >= geo.HALF_TURN_M for circle in predicate.circles)
    nowhere = nowhere or not all(region.accepts for region in predicate.regions)
    return bool(predicate.lon) and bool(predicate.lat) and not nowhere
