"""Ages in queries of live events: at one instant, AGE(t) < 60 says that `t` is later than a minute ago.

Live events are kept with their timestamps, and their ages grow. So a subscription that is matched against them is rewritten: each
condition on an age relative to the clock becomes the same condition on its timestamp.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from matchwood.encode.ages import clock_ages
from matchwood.encode.arrays import Rows
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.errors import NeverMatchesError
from matchwood.lang.grade import Grade
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.row import Absent, Counted, Holds, RowPredicate
from matchwood.lang.rows import conjunction
from matchwood.schema import Schema
from matchwood.schema.functions import source_of

_MICROSECONDS = 10**6
_MAX_SECONDS = 1e13
"""Longer than from the first to the last instant that a timestamp can have."""


def at_instant(rows: Rows, schema: Schema, now: float) -> Rows:
    """The rows of one subscription, with conditions on timestamps instead of ages at `now`. O(rows); O(1) without ages.

    Rows that no timestamp can satisfy are left out.
    """
    ages = clock_ages(schema)
    if not np.isin(rows.dims, [age.dims[0] for age in ages]).any():
        return rows
    names = {age.name for age in ages}
    builder = RowsBuilder(schema)
    for row in decode_rows(rows, schema):
        try:
            changed = conjunction([_on_timestamp(predicate, names, now) for predicate in row.predicates])
        except NeverMatchesError:
            continue
        until = math.inf if rows.until is None else float(rows.until[0])
        builder.add(int(rows.ids[0]), float(rows.priority[0]), (changed,), until=until)
    return builder.build()


def _on_timestamp(predicate: RowPredicate, ages: set[str], now: float) -> RowPredicate:
    if predicate.attribute not in ages:
        return predicate
    name = source_of(predicate.attribute)
    if isinstance(predicate, Absent):
        return Absent(name, predicate.weight)
    assert isinstance(predicate, Holds)
    counts = tuple(Counted(_instants(count.keys, now), count.least, count.most) for count in predicate.counts)
    keys, none = _instants(predicate.keys, now), _instants(predicate.none, now)
    return Holds(
        name, predicate.weight, keys, none, counts, tuple(_at_instant(grade, now) for grade in predicate.grades)
    )


def _at_instant(grade: Grade, now: float) -> Grade:
    """The grade of an age as that of its timestamp: the same closeness, but for rounding in the last bits."""
    youngest, oldest = grade.best
    best = now - oldest * _MICROSECONDS, now - youngest * _MICROSECONDS
    return replace(grade, best=best, scale=grade.scale * _MICROSECONDS, offset=grade.offset * _MICROSECONDS)


def _instants(ages: IntervalSet, now: float) -> IntervalSet:
    """The instants whose ages, in seconds, are in the set."""
    return IntervalSet.of([(now - _microseconds(hi), now + _microseconds(-lo)) for lo, hi in ages.parts])


def _microseconds(seconds: float) -> float:
    """The largest whole number of microseconds that is at most so many seconds, by the division that makes ages."""
    if abs(seconds) > _MAX_SECONDS:
        return math.copysign(math.inf, seconds)
    micros = math.floor(Fraction(seconds) * _MICROSECONDS)
    while (micros + 1) / 1e6 <= seconds:
        micros += 1
    while micros / 1e6 > seconds:
        micros -= 1
    return float(micros)
