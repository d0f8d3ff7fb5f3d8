"""The parts of an instant on the calendar and the clock of a zone: hour, weekday, day, month, year, time of day.

    HOUR(t, zone)      0 to 23            DAY(t, zone)     1 to 31
    WEEKDAY(t, zone)   1 (Monday) to 7    MONTH(t, zone)   1 to 12
    TIME(t, zone)      seconds of the day YEAR(t, zone)

A zone is a name of the IANA time zone database or a fixed offset such as +05:30; UTC if it is not given. TIME is what a clock on
the wall shows, so on a day when clocks change it repeats or leaves out an hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from matchwood.errors import SchemaError
from matchwood.schema.values import describe

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_DAY = 24 * _HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal()
_CACHED_HOURS = 50_000

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_NAME = re.compile(r"[A-Za-z][\w+-]{0,31}(/[\w+-]{1,31}){0,2}", re.ASCII)  # others would reach `importlib`
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


@lru_cache(256)
def zone_of(name: str) -> tzinfo:
    """The zone of that name, or with that offset; `SchemaError` if there is none."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        if _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise SchemaError(
        f"unknown time zone {name!r}; write a name such as 'Europe/Berlin' or an offset such as '+02:00' "
        "(without a time zone database on this system, install matchwood[zones])"
    )


class Offsets:
    """The offsets of a zone from UTC in microseconds, remembered by the hour.

    An hour at whose ends the offset is the same has it throughout; in the others a clock changes, and they are computed each
    time. Safe for several threads: at worst two of them compute the same.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._hours: dict[int, int | None] = {}

    def local(self, moment: float) -> int | None:
        """An instant, in microseconds since 1970, as those of the zone's own clock; None outside the years 1 to 9999. O(1)."""
        try:
            micros = int(moment)
            hour = micros // _HOUR
            offset = self._hours[hour]
        except KeyError:
            offset = self._learn(hour)
        except (OverflowError, ValueError):  # an infinity
            return None
        if offset is None:
            offset = self._compute(micros)
        return None if offset is None else micros + offset

    def _learn(self, hour: int) -> int | None:
        first, last = self._compute(hour * _HOUR), self._compute((hour + 1) * _HOUR - 1)
        if len(self._hours) >= _CACHED_HOURS:
            self._hours.clear()
        self._hours[hour] = offset = first if first == last else None
        return offset

    def _compute(self, micros: int) -> int | None:
        try:
            found = (_EPOCH + timedelta(microseconds=micros)).astimezone(self._zone).utcoffset()
        except OverflowError:
            return None
        return None if found is None else found // timedelta(microseconds=1)


@lru_cache(256)
def offsets_of(name: str) -> Offsets:
    """The offsets of a zone, shared by everything that uses it."""
    return Offsets(zone_of(name))


def part_of(part: str, zone: str | None) -> Callable[[float], float | None]:
    """The function that gives a part of an instant in a zone; None for an instant outside the calendar."""
    local, of = offsets_of(zone or "UTC").local, _PARTS[part]

    def call(moment: float) -> float | None:
        micros = local(moment)
        return None if micros is None or not -_EPOCH_DAY < micros // _DAY <= _LAST_DAY - _EPOCH_DAY else of(micros)

    return call


def _on_calendar(micros: int) -> date:
    return date.fromordinal(micros // _DAY + _EPOCH_DAY)


_PARTS: dict[str, Callable[[int], float]] = {
    "HOUR": lambda micros: micros % _DAY // _HOUR,
    "WEEKDAY": lambda micros: (micros // _DAY + 3) % 7 + 1,
    "TIME": lambda micros: micros % _DAY / _SECOND,
    "DAY": lambda micros: _on_calendar(micros).day,
    "MONTH": lambda micros: _on_calendar(micros).month,
    "YEAR": lambda micros: _on_calendar(micros).year,
}
PARTS = tuple(_PARTS)


def constant_of(part: str, value: object) -> object:
    """A constant that a part is compared with: a name of a day or month, or a time of day, as its number; others unchanged.

    >>> constant_of("WEEKDAY", "Tue"), constant_of("TIME", "09:30"), constant_of("HOUR", 9)
    (2, 34200, 9)
    """
    if not isinstance(value, str):
        return value
    if part in ("WEEKDAY", "MONTH"):
        names = _WEEKDAYS if part == "WEEKDAY" else _MONTHS
        word = value.lower()
        for number, known in enumerate(names, 1):
            if word == known or (len(word) == 3 and known.startswith(word)):
                return number
        raise SchemaError(
            f"expected a number or a name such as '{names[0][:3].upper()}' for {part}, got {describe(value)}"
        )
    if part == "TIME" and (clock := _CLOCK.fullmatch(value)):
        seconds = float(clock[3] or 0)
        if int(clock[1]) <= 24 and int(clock[2]) < 60 and seconds < 60:
            total = int(clock[1]) * 3600 + int(clock[2]) * 60 + seconds
            return int(total) if total == int(total) else total
    expected = "a time such as '09:30' or seconds" if part == "TIME" else "a number"
    raise SchemaError(f"expected {expected} for {part}, got {describe(value)}")
