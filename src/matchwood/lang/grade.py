"""Grades of predicates of rows: a weight that counts by the closeness of the event's value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from matchwood import decay, geo
from matchwood.errors import ExpressionError
from matchwood.lang.decay import Curve, Decay, Distance
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.units import METRES, MICROSECONDS
from matchwood.schema import Attribute, Point, Schema, Type

CURVES = {Curve.LINEAR: decay.LINEAR, Curve.EXP: decay.EXPONENTIAL, Curve.GAUSS: decay.GAUSSIAN}
CURVE_OF = {number: curve for curve, number in CURVES.items()}
_UNITS = {
    Type.NUMBER: ({"": 1.0}, "a number without a unit"),
    Type.TIMESTAMP: (MICROSECONDS, f"a time ({', '.join(MICROSECONDS)})"),
    Type.POINT: ({"": 1.0, **METRES}, f"a length ({', '.join(METRES)})"),
}
_DEFAULT_TO = {decay.LINEAR: 0.0, decay.EXPONENTIAL: 0.5, decay.GAUSSIAN: 0.5}


@dataclass(frozen=True, slots=True)
class Grade:
    """weight x closeness of the best value for which the predicate holds.

    `best` are the values of closeness 1: an interval of keys, open at one end where the predicate is; or a place, as longitude
    and latitude. Distances are of keys, or in metres.
    """

    weight: float
    best: tuple[float, float]
    curve: int
    scale: float
    offset: float
    to: float

    def of_keys(self, held: IntervalSet) -> float:
        """The closeness of the nearest of these keys, of which there is one at least. O(intervals)."""
        distance = min(decay.distance_to(*self.best, lo, hi) for lo, hi in held.parts)
        return self._at(distance)

    def of_place(self, place: Point) -> float:
        """The closeness of a place."""
        return self._at(geo.distance(*place, *geo.unit_vector(*self.best), math.sqrt))

    def _at(self, distance: float) -> float:
        return decay.closeness(self.curve, distance, self.scale, self.offset, decay.rate_of(self.curve, self.to))


def largest_gain(weight: float, grades: Iterable[Grade]) -> float:
    """What a predicate of that weight and these grades adds to a score at most, where closeness is 1."""
    for grade in grades:
        weight += grade.weight
    return weight


def grade_of(
    asked: Decay,
    weight: float,
    schema: Schema,
    name: str,
    *,
    towards: int = 0,
    circle: tuple[Point, float] | None = None,
) -> Grade:
    """The grade of a predicate on the attribute, whose type the origin decides if it is not known.

    towards: -1 if the predicate has an upper end only, so that values below the origin are best too, 1 for a lower end only.
    circle: centre and radius, if the predicate has them.
    """
    origin = asked.origin if asked.origin is not None else circle[0] if circle else None
    if origin is None:
        raise _error(name, "DECAY needs the best value; add ORIGIN")
    attribute = schema.attribute_for(name, _type(origin, schema.get(name), name))
    curve = CURVES[asked.curve]
    offset = 0.0 if asked.offset is None else _amount(asked.offset, attribute)
    if asked.scale is not None:
        scale = _amount(asked.scale, attribute)
    elif circle is not None:
        scale = circle[1] - offset
        if not scale > 0.0:
            raise _error(name, f"the offset {asked.offset} of DECAY is not below the radius; add SCALE")
    else:
        raise _error(name, "DECAY needs the distance at which closeness has fallen; add SCALE")
    to = _DEFAULT_TO[curve] if asked.to is None else float(asked.to)
    if isinstance(origin, Point):
        best = origin.lon + 0.0, origin.lat + 0.0
    else:
        key = schema.key(attribute, origin)
        best = -math.inf if towards < 0 else key, math.inf if towards > 0 else key
    return Grade(weight, best, curve, scale, offset, to)


def decay_of(grade: Grade, attribute: Attribute, schema: Schema) -> tuple[Decay, int]:
    """What makes the grade again, and `towards`. The inverse of `grade_of`."""
    curve = CURVE_OF[grade.curve]
    lo, hi = grade.best
    towards = 0
    if attribute.type is Type.POINT:
        origin: object = Point(lo, hi)
    else:
        towards = -1 if math.isinf(lo) else int(math.isinf(hi))
        origin = schema.value(attribute, hi if towards < 0 else lo)
    offset = None if grade.offset == 0.0 else _distance(grade.offset, attribute)
    to = None if grade.to == _DEFAULT_TO[grade.curve] else grade.to
    return Decay(curve, origin, _distance(grade.scale, attribute), offset, to), towards  # type: ignore[arg-type]


def _type(origin: object, known: Attribute | None, name: str) -> Type:
    type_ = (
        Type.POINT if isinstance(origin, Point) else Type.NUMBER if isinstance(origin, (int, float)) else Type.TIMESTAMP
    )
    if known is not None and known.type not in (None, Type.NUMBER, Type.TIMESTAMP, Type.POINT):
        raise _error(name, f"a {known.type} has no distances; DECAY is for numbers, timestamps and places")
    return type_


def _amount(distance: Distance, attribute: Attribute) -> float:
    """A distance in metres, or as a difference of keys."""
    units, expected = _UNITS[attribute.type or Type.NUMBER]
    if distance.unit not in units:
        raise _error(attribute.name, f"DECAY: expected {expected}, got {distance}")
    amount = float(distance.amount * units[distance.unit])
    if not math.isfinite(amount):
        raise _error(attribute.name, f"DECAY: the distance {distance} is too large")
    return amount


def _distance(amount: float, attribute: Attribute) -> Distance:
    """An amount in a unit that gives it again to the bit."""
    if attribute.type is Type.TIMESTAMP:
        seconds = amount / MICROSECONDS["s"]
        return Distance(seconds, "s") if seconds * MICROSECONDS["s"] == amount else Distance(amount, "us")
    return Distance(amount, "m" if attribute.type is Type.POINT else "")


def _error(name: str, message: str) -> ExpressionError:
    return ExpressionError(message).about(f"attribute {name!r}")
