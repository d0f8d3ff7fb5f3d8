"""Temporal functions written in Python: `attr("seen").t_after("2026-01-31")`, `interval(attr("start"), None).t_during(...)`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.lang.expression import instant
from matchwood.lang.temporal import End, Interval, Temporal, TemporalFunction, Times
from matchwood.schema import describe, unwrapped


def _method(function: TemporalFunction) -> Callable[[Any, object], Temporal]:
    def compare(self: TemporalMethods, other: object) -> Temporal:
        left, weight = self._times()
        return Temporal(function, left, _argument(other), weight)

    compare.__doc__ = (
        f"{function.upper()} of this and `other`: an attribute, a date, a datetime, ISO 8601 text or an `interval`."
    )
    return compare


class TemporalMethods:
    """A method for each temporal function. Every one is O(1)."""

    __slots__ = ()

    def _times(self) -> tuple[Times, float]:
        """The argument that this is, and the weight of what is made from it."""
        raise NotImplementedError

    t_after = _method(TemporalFunction.AFTER)
    t_before = _method(TemporalFunction.BEFORE)
    t_contains = _method(TemporalFunction.CONTAINS)
    t_disjoint = _method(TemporalFunction.DISJOINT)
    t_during = _method(TemporalFunction.DURING)
    t_equals = _method(TemporalFunction.EQUALS)
    t_finished_by = _method(TemporalFunction.FINISHED_BY)
    t_finishes = _method(TemporalFunction.FINISHES)
    t_intersects = _method(TemporalFunction.INTERSECTS)
    t_meets = _method(TemporalFunction.MEETS)
    t_met_by = _method(TemporalFunction.MET_BY)
    t_overlapped_by = _method(TemporalFunction.OVERLAPPED_BY)
    t_overlaps = _method(TemporalFunction.OVERLAPS)
    t_started_by = _method(TemporalFunction.STARTED_BY)
    t_starts = _method(TemporalFunction.STARTS)


class IntervalOf(TemporalMethods):
    """An interval or instant that is compared by the methods of temporal functions; made by `interval`. Immutable."""

    __slots__ = ("_argument",)

    def __init__(self, argument: Times) -> None:
        self._argument = argument

    def _times(self) -> tuple[Times, float]:
        return self._argument, 1.0

    def __repr__(self) -> str:
        return str(self._argument)


_NO_END = object()


def interval(start: object, end: object = _NO_END) -> IntervalOf:
    """The interval from `start` to `end`: attributes, dates, datetimes, ISO 8601 texts; None or ".." is an open end. O(1).

    Without an `end` it is the instant `start`.

    >>> from matchwood import attr
    >>> print(interval(attr("starts_at"), attr("ends_at")).t_during(interval("2026-01-31", None)) ^ 0.4)
    T_DURING(INTERVAL(starts_at, ends_at), INTERVAL('2026-01-31T00:00:00Z', '..')) ^0.4
    """
    return IntervalOf(_argument(start) if end is _NO_END else Interval(_end(start), _end(end)))


def _argument(value: object) -> Times:
    if isinstance(value, TemporalMethods):
        return value._times()[0]
    if isinstance(value, Interval):
        return value
    return _instant(value)


def _end(value: object) -> End:
    if value is None or (isinstance(value, str) and value == ".."):
        return None
    found = _argument(value)
    if isinstance(found, Interval):
        raise ExpressionError(f"an end of an interval is an instant or an attribute, got {describe(value)}")
    return found


def _instant(value: object) -> datetime:
    plain = unwrapped(value)
    if not isinstance(plain, (str, date)):
        raise ExpressionError(f"expected an attribute, an instant or an interval, got {describe(value)}")
    to_datetime = getattr(plain, "to_pydatetime", None)
    return instant(to_datetime() if callable(to_datetime) else plain)
