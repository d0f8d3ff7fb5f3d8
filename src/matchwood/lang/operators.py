"""The operators of conditions, by the words of the language."""

from __future__ import annotations

from enum import StrEnum


class Operator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> Operator:
        """The operator with the same meaning when the sides are exchanged: `5 < age` is `age > 5`."""
        return _MIRRORED.get(self, self)


_MIRRORED = {Operator.LT: Operator.GT, Operator.LE: Operator.GE, Operator.GT: Operator.LT, Operator.GE: Operator.LE}


class Quantifier(StrEnum):
    """Which values of a list a condition is about. A condition without one is about one value, and those that AND joins are
    about the same one (docs/language.md)."""

    ANY = "any"
    ALL = "all"


def opposite(quantifier: Quantifier) -> Quantifier:
    """The quantifier under a NOT: `ALL(x) NOT IN (1)` is `NOT (ANY(x) IN (1))`."""
    return Quantifier.ANY if quantifier is Quantifier.ALL else Quantifier.ALL


class ListOperator(StrEnum):
    """How the values of an event are compared with a list, by the names of CQL2."""

    CONTAINS = "a_contains"
    CONTAINED_BY = "a_containedBy"
    EQUALS = "a_equals"
    OVERLAPS = "a_overlaps"

    @property
    def mirrored(self) -> ListOperator:
        """The operator with the same meaning when the list comes first: A_CONTAINS(('a', 'b'), x) is A_CONTAINEDBY(x, ...)."""
        return _MIRRORED_LISTS.get(self, self)


_MIRRORED_LISTS = {
    ListOperator.CONTAINS: ListOperator.CONTAINED_BY,
    ListOperator.CONTAINED_BY: ListOperator.CONTAINS,
}


class SpatialOperator(StrEnum):
    """How the point of an event lies to a geometry, by the names of CQL2 and with the meaning of OGC Simple Features."""

    INTERSECTS = "s_intersects"
    WITHIN = "s_within"
    DISJOINT = "s_disjoint"
    TOUCHES = "s_touches"
    EQUALS = "s_equals"
    CONTAINS = "s_contains"
    CROSSES = "s_crosses"
    OVERLAPS = "s_overlaps"

    @property
    def mirrored(self) -> SpatialOperator:
        """The operator with the same meaning when the sides are exchanged."""
        return _MIRRORED_PLACES.get(self, self)


_MIRRORED_PLACES = {
    SpatialOperator.WITHIN: SpatialOperator.CONTAINS,
    SpatialOperator.CONTAINS: SpatialOperator.WITHIN,
}


class Shape(StrEnum):
    CIRCLE = "circle"
    SQUARE = "square"
