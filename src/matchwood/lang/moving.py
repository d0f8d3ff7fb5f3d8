"""Moving a subscriber: the same conditions around another place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matchwood.errors import ExpressionError
from matchwood.lang import places
from matchwood.lang.grade import Grade
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.places import Circle
from matchwood.lang.row import Placed, Row
from matchwood.schema import Point

_ROUNDING = 1e-9
"""Degrees by which a box may reach past a pole because of rounding; it is then shifted back, not refused."""


def moved(rows: Sequence[Row], attribute: str, place: Point) -> tuple[Row, ...]:
    """The rows with every condition on that place moved so that its centre is `place`; the others stay.

    A circle keeps its radius, a box its extent in degrees. Raises `ExpressionError` if no row has such a condition, if one has no
    single centre (several circles, the outside of a circle, IS NOT NULL), and if a box would be cut at a pole: the part cut
    off would be missing after the next move.
    """
    if not any(isinstance(p, Placed) and p.attribute == attribute for row in rows for p in row.predicates):
        raise ExpressionError(f"cannot move: it has no condition on {attribute!r}")
    return tuple(
        Row(
            tuple(_moved(p, place) if isinstance(p, Placed) and p.attribute == attribute else p for p in row.predicates)
        )
        for row in rows
    )


def _moved(predicate: Placed, place: Point) -> Placed:
    if predicate.regions:
        raise ExpressionError(
            f"cannot move: the condition on {predicate.attribute!r} names a geometry, which stays where it is; use update"
        )
    if len(predicate.circles) == 1 and not predicate.circles[0].outside:
        (circle,) = predicate.circles
        if (predicate.lon, predicate.lat) == places.box_around_circle(circle.centre, circle.radius):
            lon, lat = places.box_around_circle(place, circle.radius)
            grades = tuple([_moved_grade(grade, circle.centre, place) for grade in predicate.grades])
            return replace(predicate, lon=lon, lat=lat, circles=(Circle(place, circle.radius),), grades=grades)
    elif (
        not predicate.circles
        and not predicate.grades
        and len(predicate.lat.parts) == 1
        and _in_one_piece(predicate.lon)
    ):
        width = sum(hi - lo for lo, hi in predicate.lon.parts)
        lon = places.longitudes(place.lon - width / 2, place.lon + width / 2)
        return replace(predicate, lon=lon, lat=_moved_latitudes(predicate, place))
    raise ExpressionError(f"cannot move: the condition on {predicate.attribute!r} has no single centre; use update")


def _moved_grade(grade: Grade, centre: Point, place: Point) -> Grade:
    """A grade around the centre of the circle moves with it; one around another place stays."""
    return replace(grade, best=(place.lon, place.lat)) if grade.best == (centre.lon, centre.lat) else grade


def _in_one_piece(lon: IntervalSet) -> bool:
    """One interval of longitudes but not all of them, or two that the antimeridian parts."""
    return lon != EVERYTHING and (len(lon.parts) == 1 or (len(lon.parts) == 2 and lon.hull == (-180.0, 180.0)))


def _moved_latitudes(predicate: Placed, place: Point) -> IntervalSet:
    """Latitudes of the same extent around the place; if they were all latitudes, all of them."""
    south, north = predicate.lat.hull
    if south <= -90.0 and north >= 90.0:
        return predicate.lat
    height = north - south
    low, high = place.lat - height / 2, place.lat + height / 2
    if min(low + 90.0, 90.0 - high) < -_ROUNDING:
        raise ExpressionError(
            f"the box on {predicate.attribute!r}, {height:g} degrees high, would be cut at a pole with its centre at "
            f"latitude {place.lat:g}; keep it within {90.0 - height / 2:g} degrees of the equator, or use update"
        )
    if low < -90.0:
        low, high = -90.0, height - 90.0
    elif high > 90.0:
        low, high = 90.0 - height, 90.0
    return IntervalSet(((low, high),))
