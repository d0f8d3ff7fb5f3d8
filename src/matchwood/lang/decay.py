"""DECAY: a predicate whose weight counts in full for the best values, and less the farther a value is from them.

    price <= 300 ^2 DECAY(LINEAR, ORIGIN 100, SCALE 200)
    DWITHIN(place, POINT(-73.98 40.75), 1 km) ^5 DECAY
    seen >= TIMESTAMP('2026-01-31T00:00:00Z') DECAY(EXP, ORIGIN TIMESTAMP('2026-01-31T12:00:00Z'), SCALE 6 h TO 0.25)

`Decay` is what the tree holds, as it was written; `lang.grade` has what rows make of it. The curves are in `matchwood.decay`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.instants import instant
from matchwood.lang.units import METRES, MICROSECONDS
from matchwood.schema import Point, describe, point_of, unwrapped

UNITS = (*METRES, *MICROSECONDS)


class Curve(StrEnum):
    """How closeness falls with the distance, by the names of Elasticsearch."""

    LINEAR = "linear"
    EXP = "exp"
    GAUSS = "gauss"


class Distance(NamedTuple):
    """How far values are apart: without a unit the difference of numbers, or metres between places."""

    amount: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{_number(self.amount)} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Decay:
    """Where closeness is 1, and how it falls from there. `None` is what the predicate implies, or the default.

    origin: the best value; that of a circle is its centre. offset: closeness is 1 up to this distance from it.
    scale, to: so much farther it has fallen to `to`, by default to 0 on a line and to 0.5 on the other curves.
    """

    curve: Curve = Curve.LINEAR
    origin: int | float | datetime | Point | None = None
    scale: Distance | None = None
    offset: Distance | None = None
    to: float | None = None

    def __post_init__(self) -> None:
        origin = self.origin
        if isinstance(origin, Point):
            try:
                point_of(origin)
            except SchemaError as error:
                raise ExpressionError(f"DECAY: the origin: {error}") from None
        elif isinstance(origin, datetime):
            if origin.tzinfo is not UTC:
                raise ExpressionError(f"DECAY: expected an origin in UTC, got {origin!r}; see `instant`")
        elif origin is not None and (isinstance(origin, (bool, str)) or not _is_finite(origin)):
            raise ExpressionError(
                f"DECAY: expected a finite number, a timestamp or a point as origin, got {describe(origin)}"
            )
        if self.scale is not None:
            _check(self.scale, "scale", self.scale.amount > 0.0, "above 0")
        if self.offset is not None:
            _check(self.offset, "offset", self.offset.amount >= 0.0, "of at least 0")
        if self.to is not None and not (0.0 <= self.to < 1.0 and (self.to > 0.0 or self.curve is Curve.LINEAR)):
            least = "0 or more" if self.curve is Curve.LINEAR else "more than 0"
            raise ExpressionError(f"DECAY: expected {least} and less than 1 after TO, got {describe(self.to)}")

    def __str__(self) -> str:
        parts = [self.curve.upper()]
        if self.origin is not None:
            parts.append(f"ORIGIN {_origin(self.origin)}")
        if self.scale is not None:
            parts.append(f"SCALE {self.scale}")
        if self.offset is not None:
            parts.append(f"OFFSET {self.offset}")
        if self.to is not None:
            parts.append(f"TO {_number(self.to)}")
        if self == Decay():
            return "DECAY"
        return f"DECAY({', '.join(parts)})"


def best_value(value: object) -> int | float | datetime | Point | None:
    """The origin of a DECAY from a value of Python: a number, a date or datetime, a point; None stays None."""
    plain = unwrapped(value)
    if plain is None or isinstance(plain, Point):
        return plain
    if isinstance(plain, date):
        return instant(plain)
    if isinstance(plain, Decimal):
        plain = float(plain)
    if isinstance(plain, (int, float)) and not isinstance(plain, bool):
        return plain
    try:
        return point_of(value)
    except SchemaError:
        raise ExpressionError(
            f"DECAY: expected a number, a date, a datetime or a point as origin, got {describe(value)}"
        ) from None


def checked_distance(value: object) -> Distance | None:
    """A distance from a number, a pair of an amount and its unit, or a timedelta; None stays None.

    >>> checked_distance((1, "km"))
    Distance(amount=1, unit='km')
    """
    if value is None or isinstance(value, Distance):
        return value
    if isinstance(value, timedelta):
        return Distance(value.total_seconds(), "s")
    amount, unit = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    plain = unwrapped(amount)
    if isinstance(plain, Decimal):
        plain = float(plain)
    if isinstance(plain, bool) or not isinstance(plain, (int, float)) or not isinstance(unit, str):
        raise ExpressionError(
            f"DECAY: expected a distance, such as 200, (1, 'km') or timedelta(hours=6), got {describe(value)}"
        )
    return Distance(plain, unit)


def _is_finite(value: float) -> bool:
    """Is it a number that float64 has, or an integer near one?"""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond them
        return False


def _check(distance: Distance, what: str, valid: bool, expected: str) -> None:
    if distance.unit and distance.unit not in UNITS:
        raise ExpressionError(f"DECAY: expected one of the units {', '.join(UNITS)}, got {describe(distance.unit)}")
    if not (valid and _is_finite(distance.amount)):
        raise ExpressionError(f"DECAY: expected a finite {what} {expected}, got {describe(distance.amount)}")


def _origin(origin: int | float | datetime | Point) -> str:
    if isinstance(origin, Point):
        return f"POINT({_number(origin.lon)} {_number(origin.lat)})"
    if isinstance(origin, datetime):
        return f"TIMESTAMP('{origin.isoformat().replace('+00:00', 'Z')}')"
    return _number(origin)


def _number(value: float) -> str:
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(float(value))
