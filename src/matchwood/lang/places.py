"""Circles and squares on the earth as boxes of longitude and latitude, wrapped at the antimeridian.

A box around a circle only filters, so it is rounded outward; the circle itself is judged by `sphere.is_within`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from matchwood import sphere
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed
from matchwood.schema import Point

_SLACK_DEGREES = 1e-9
"""Outward rounding of a circle's box: a tenth of a millimetre, far above the error of the arithmetic."""


@dataclass(frozen=True, slots=True)
class Circle:
    """All places within `radius` metres of `centre`; or, with `outside`, all others."""

    centre: Point
    radius: float
    outside: bool = False

    def holds(self, place: Point) -> bool:
        """Is the place in the circle (or, with `outside`, not in it)?"""
        vector = sphere.unit_vector(*self.centre)
        return sphere.is_within(*place, *vector, sphere.chord_squared(self.radius)) is not self.outside


Box = tuple[IntervalSet, IntervalSet]
"""Longitudes and latitudes."""


def box_around_circle(centre: Point, radius: float) -> Box:
    """The smallest box around the circle, rounded outward."""
    angle = radius / sphere.EARTH_RADIUS_M
    reach = math.degrees(angle) + _SLACK_DEGREES
    south, north = centre.lat - reach, centre.lat + reach
    if south <= -90.0 or north >= 90.0:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    widest = math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(centre.lat))))
    return longitudes(
        centre.lon - math.degrees(widest) - _SLACK_DEGREES, centre.lon + math.degrees(widest) + _SLACK_DEGREES
    ), closed(south, north)


def square(centre: Point, half_side: float) -> Box:
    """MO-Tree's square: `half_side` metres to the east, west, north and south of the centre."""
    reach = math.degrees(half_side / sphere.EARTH_RADIUS_M)
    south, north = centre.lat - reach, centre.lat + reach
    shrink = math.cos(math.radians(centre.lat))
    if south <= -90.0 or north >= 90.0 or reach >= 180.0 * shrink:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    return longitudes(centre.lon - reach / shrink, centre.lon + reach / shrink), closed(south, north)


def longitudes(west: float, east: float) -> IntervalSet:
    """The longitudes from west to east, in -180..180; west > east or a bound past 180 crosses the antimeridian."""
    if east - west >= 360.0:
        return EVERYTHING
    if west < -180.0:
        return IntervalSet.of([(west + 360.0, 180.0), (-180.0, east)])
    if east > 180.0:
        return IntervalSet.of([(west, 180.0), (-180.0, east - 360.0)])
    if west > east:
        return IntervalSet.of([(west, 180.0), (-180.0, east)])
    return closed(west, east)
