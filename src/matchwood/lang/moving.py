"""A subscriber that moves: the same conditions around another place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from matchwood.errors import ExpressionError
from matchwood.lang import places
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.places import Circle
from matchwood.lang.rows import Placed, Row
from matchwood.schema import Point


def moved(rows: Sequence[Row], attribute: str, place: Point) -> tuple[Row, ...]:
    """The rows with every condition on that place moved so that its centre is `place`; the others stay.

    A circle keeps its radius, a box its extent in degrees. Rows without such a condition are an error: there is nothing to
    move. So are conditions that have no single centre (several circles, the outside of a circle, IS NOT NULL).
    """
    if not any(isinstance(p, Placed) and p.attribute == attribute for row in rows for p in row.predicates):
        raise ExpressionError(f"it has no condition on {attribute!r} that could move")
    return tuple(
        Row(
            tuple(_moved(p, place) if isinstance(p, Placed) and p.attribute == attribute else p for p in row.predicates)
        )
        for row in rows
    )


def _moved(predicate: Placed, place: Point) -> Placed:
    if len(predicate.circles) == 1 and not predicate.circles[0].outside:
        (circle,) = predicate.circles
        if (predicate.lon, predicate.lat) == places.box_around_circle(circle.centre, circle.radius):
            lon, lat = places.box_around_circle(place, circle.radius)
            return replace(predicate, lon=lon, lat=lat, circles=(Circle(place, circle.radius),))
    elif not predicate.circles and len(predicate.lat.parts) == 1 and predicate.lon != EVERYTHING:
        return _moved_box(predicate, place)
    raise ExpressionError(f"the condition on {predicate.attribute!r} has no single centre that could move")


def _moved_box(predicate: Placed, place: Point) -> Placed:
    width = sum(hi - lo for lo, hi in predicate.lon.parts)
    south, north = predicate.lat.hull
    half = (north - south) / 2
    lat = IntervalSet(((max(place.lat - half, -90.0), min(place.lat + half, 90.0)),))
    if not math.isfinite(width) or not lat:
        raise ExpressionError(f"the condition on {predicate.attribute!r} has no single centre that could move")
    return replace(predicate, lon=places.longitudes(place.lon - width / 2, place.lon + width / 2), lat=lat)
