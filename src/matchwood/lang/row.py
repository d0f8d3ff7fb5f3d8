"""Rows: conjunctions with at most one predicate for each attribute, the normal form of expressions."""

from __future__ import annotations

from dataclasses import dataclass

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
