"""Predicates of rows as entries: dim, kind, lo, hi and weight of each, one after the other in a flat list."""

from __future__ import annotations

from matchwood.encode.arrays import ABSENT, CIRCLE, INTERVAL, JOINED, MORE
from matchwood.lang.intervals import IntervalSet
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
    else:
        lon, lat = attribute.dims
        _add_intervals(out, lon, INTERVAL, predicate.lon, predicate.weight)
        _add_intervals(out, lat, JOINED, predicate.lat, 0.0)
        for circle in predicate.circles:
            radius = -circle.radius if circle.outside else circle.radius
            out += (lon, CIRCLE, circle.centre.lon, circle.centre.lat, radius)


def _add_intervals(out: list[float], dim: int, kind: int, keys: IntervalSet, weight: float) -> None:
    for lo, hi in keys.parts:
        out += (dim, kind, lo, hi, weight)
        kind, weight = MORE, 0.0
