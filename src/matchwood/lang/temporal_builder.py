"""Temporal functions written in Python: `attr("seen").t_after("2026-01-31")`, `interval(attr("start"), None).t_during(...)`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Self

from matchwood.errors import ExpressionError
from matchwood.lang.instants import instant
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

    @abstractmethod
    def _times(self) -> tuple[Times, float]:
        """The argument that this is, and the weight of what is made from it."""

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


class DerivedTimes(TemporalMethods):
    """Parts and ages of an attribute that is a timestamp. Every method is O(1).

    A zone is a name such as "Europe/Berlin" or an offset such as "+02:00"; UTC if it is not given.
    """

    __slots__ = ()

    @abstractmethod
    def _derived(self, function: str, argument: str | None) -> Self:
        """The attribute that the function makes of this one."""

    def hour(self, zone: str | None = None) -> Self:
        """The hour of the day in a zone, 0 to 23.

        >>> from matchwood import attr
        >>> print(attr("seen").hour("Europe/Berlin").between(9, 17) & attr("seen").weekday("Europe/Berlin").is_in(["SAT", "SUN"]))
        HOUR(seen, 'Europe/Berlin') BETWEEN 9 AND 17 AND WEEKDAY(seen, 'Europe/Berlin') IN (6, 7)
        """
        return self._derived("HOUR", zone)

    def weekday(self, zone: str | None = None) -> Self:
        """The day of the week in a zone, 1 (Monday) to 7; constants may be names, such as "MON"."""
        return self._derived("WEEKDAY", zone)

    def time_of_day(self, zone: str | None = None) -> Self:
        """The time of day in a zone, in seconds; constants may be texts such as "09:30"."""
        return self._derived("TIME", zone)

    def day(self, zone: str | None = None) -> Self:
        """The day of the month in a zone, 1 to 31."""
        return self._derived("DAY", zone)

    def month(self, zone: str | None = None) -> Self:
        """The month in a zone, 1 to 12; constants may be names, such as "JAN"."""
        return self._derived("MONTH", zone)

    def year(self, zone: str | None = None) -> Self:
        """The year in a zone."""
        return self._derived("YEAR", zone)

    def age(self, other: str | None = None) -> Self:
        """The seconds from this instant to the arrival of the event, or to another of its timestamps; constants may be durations.

        >>> from matchwood import attr
        >>> print(attr("created").age() < "1 h", "OR", attr("created").age("received") < "PT5M")
        AGE(created) < 3600 OR AGE(created, received) < 300
        """
        return self._derived("AGE", other)


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
