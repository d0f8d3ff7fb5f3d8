"""Predicates of rows as entries: dim, kind, lo, hi and weight of each, one after the other in a flat list."""

from __future__ import annotations

from collections.abc import Iterable

from matchwood.encode.arrays import (
    ABSENT,
    CIRCLE,
    COUNT,
    CURVE,
    GRADE,
    INTERVAL,
    JOINED,
    MORE,
    PART,
    REGION,
    RING,
    VERTEX,
)
from matchwood.lang.grade import Grade
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.regions import Region
from matchwood.lang.row import Absent, Holds, RowPredicate
from matchwood.schema import Attribute

FIELDS = 5
NAN = float("nan")


def add_entries(out: list[float], attribute: Attribute, predicate: RowPredicate) -> None:
    """Append the entries of a predicate on that attribute. O(entries)."""
    if isinstance(predicate, Absent):
        out += (attribute.dims[0], ABSENT, NAN, NAN, predicate.weight)
    elif isinstance(predicate, Holds):
        _add_intervals(out, attribute.dims[0], INTERVAL, predicate.keys, predicate.weight)
        add_counts(out, attribute.dims[0], predicate)
        add_grades(out, attribute.dims[0], predicate.grades)
    else:
        lon, lat = attribute.dims
        _add_intervals(out, lon, INTERVAL, predicate.lon, predicate.weight)
        _add_intervals(out, lat, JOINED, predicate.lat, 0.0)
        for circle in predicate.circles:
            radius = -circle.radius if circle.outside else circle.radius
            out += (lon, CIRCLE, circle.centre.lon, circle.centre.lat, radius)
        for region in predicate.regions:
            _add_region(out, lon, region)
        add_grades(out, lon, predicate.grades)


def add_grades(out: list[float], dim: int, grades: Iterable[Grade]) -> None:
    """Append the entries of the grades of a predicate, which come last. O(grades)."""
    for grade in grades:
        out += (dim, GRADE, *grade.best, grade.weight)
        out += (dim, CURVE, grade.scale, grade.offset, 0.0)
        out += (dim, CURVE, grade.to, grade.curve, 0.0)


def _add_region(out: list[float], dim: int, region: Region) -> None:
    out += (dim, REGION, region.accepts, 0.0, 0.0)
    for part in region.parts:
        out += (dim, RING, part.kind, part.shift, 0.0)
        for lon, lat in part.vertices:
            out += (dim, VERTEX, lon, lat, 0.0)


def add_counts(out: list[float], dim: int, predicate: Holds) -> None:
    """Append the entries that narrow a predicate, after its intervals: what it excludes, then its counts. O(entries)."""
    if predicate.none:
        _add_count(out, dim, predicate.none, 0, 0.0)
    for count in predicate.counts:
        _add_count(out, dim, count.keys, count.least, count.most)


def _add_count(out: list[float], dim: int, keys: IntervalSet, least: int, most: float) -> None:
    out += (dim, COUNT, least, most, 0.0)
    for lo, hi in keys.parts:
        out += (dim, PART, lo, hi, 0.0)


def _add_intervals(out: list[float], dim: int, kind: int, keys: IntervalSet, weight: float) -> None:
    for lo, hi in keys.parts:
        out += (dim, kind, lo, hi, weight)
        kind, weight = MORE, 0.0
