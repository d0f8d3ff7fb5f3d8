"""Circles and squares on the earth as boxes of longitude and latitude, wrapped at the antimeridian.

A box around a circle only filters, so it is rounded outward; the circle itself is judged by `sphere.is_within`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from matchwood import sphere
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed
from matchwood.schema import Point

_SLACK = 1e-11
"""Outward rounding of a circle's box, in radians: 0.06 millimetres, far above the error of the arithmetic."""
_ROUNDED_UP = 1.0 + 1e-15
"""For a sine that is about to go into `asin`: near 1 that magnifies an error of 1e-16 to 1e-8, several centimetres."""


@dataclass(frozen=True, slots=True)
class Circle:
    """All places within `radius` metres of `centre`; or, with `outside`, all others."""

    centre: Point
    radius: float
    outside: bool = False

    def holds(self, place: Point) -> bool:
        """Is the place in the circle (or, with `outside`, not in it)?"""
        vector = sphere.unit_vector(*self.centre)
        return sphere.is_within(*place, *vector, sphere.chord_squared(self.radius)) != self.outside


Box = tuple[IntervalSet, IntervalSet]
"""Longitudes and latitudes."""

LONGITUDES, LATITUDES = closed(-180.0, 180.0), closed(-90.0, 90.0)
"""All there are."""


def box_around_circle(centre: Point, radius: float) -> Box:
    """The smallest box around the circle, rounded outward."""
    angle = radius / sphere.EARTH_RADIUS_M + _SLACK
    reach = math.degrees(angle)
    south, north = centre.lat - reach, centre.lat + reach
    if south <= -90.0 or north >= 90.0:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    sine = math.sin(angle) / math.cos(math.radians(centre.lat)) * _ROUNDED_UP
    widest = math.degrees(math.asin(min(1.0, sine)) + _SLACK)
    return longitudes(centre.lon - widest, centre.lon + widest), closed(south, north)


def square(centre: Point, half_side: float) -> Box:
    """MO-Tree's square: `half_side` metres to the east, west, north and south of the centre."""
    reach = math.degrees(half_side / sphere.EARTH_RADIUS_M)
    south, north = centre.lat - reach, centre.lat + reach
    shrink = sphere.sine_of_degrees(centre.lat + 90.0)  # the cosine; libm's differs from machine to machine
    if south <= -90.0 or north >= 90.0 or reach >= 180.0 * shrink:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    return longitudes(centre.lon - reach / shrink, centre.lon + reach / shrink), closed(south, north)


def longitudes(west: float, east: float) -> IntervalSet:
    """The longitudes from west to east, in -180..180; west > east or a bound past 180 crosses the antimeridian.

    180 and -180 are one meridian: a set that holds the one holds the other.
    """
    if east - west >= 360.0:
        return EVERYTHING
    if west <= -180.0:
        return IntervalSet.of([(west + 360.0, 180.0), (-180.0, east)])
    if east >= 180.0:
        return IntervalSet.of([(west, 180.0), (-180.0, east - 360.0)])
    if west > east:
        return IntervalSet.of([(west, 180.0), (-180.0, east)])
    return closed(west, east)
