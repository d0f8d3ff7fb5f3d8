"""Rows: conjunctions with at most one predicate for each attribute, the normal form of expressions."""

from __future__ import annotations

from dataclasses import dataclass

from matchwood import geo
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.places import Circle


@dataclass(frozen=True, slots=True)
class Holds:
    """The value of the event shares a key with `keys`."""

    attribute: str
    weight: float
    keys: IntervalSet


@dataclass(frozen=True, slots=True)
class Absent:
    """The event lacks the attribute."""

    attribute: str
    weight: float


@dataclass(frozen=True, slots=True)
class Placed:
    """The event's point lies in the box and satisfies every circle."""

    attribute: str
    weight: float
    lon: IntervalSet
    lat: IntervalSet
    circles: tuple[Circle, ...] = ()


RowPredicate = Holds | Absent | Placed


@dataclass(frozen=True, slots=True)
class Row:
    """One conjunction; without predicates it holds for every event."""

    predicates: tuple[RowPredicate, ...]


def can_hold(predicate: RowPredicate) -> bool:
    """Is there a value for which the predicate holds? Of circles only some contradictions are noticed. O(circles)."""
    if isinstance(predicate, Holds):
        return bool(predicate.keys)
    if isinstance(predicate, Absent):
        return True
    nowhere = any(circle.outside and circle.radius >= geo.HALF_TURN_M for circle in predicate.circles)
    return bool(predicate.lon) and bool(predicate.lat) and not nowhere
