"""Circles and squares on the earth as boxes of longitude and latitude, wrapped at the antimeridian.

A box around a circle only filters, so it is rounded outward; `geo.is_within` decides. Like `geo`, the box uses plain arithmetic
only, so that it is the same to the bit on every machine. `moving` relies on this to tell a circle from one that is cut by a
box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from matchwood import geo
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed
from matchwood.schema import Point


@dataclass(frozen=True, slots=True)
class Circle:
    """All places within `radius` metres of `centre`; or, with `outside`, all others."""

    centre: Point
    radius: float
    outside: bool = False

    def holds(self, place: Point) -> bool:
        """Is the place in the circle (or, with `outside`, not in it)?"""
        vector = geo.unit_vector(*self.centre)
        return geo.is_within(*place, *vector, geo.chord_squared(self.radius)) != self.outside


Box = tuple[IntervalSet, IntervalSet]
"""Longitudes and latitudes."""

LONGITUDES, LATITUDES = closed(-180.0, 180.0), closed(-90.0, 90.0)
"""All longitudes and latitudes."""


def box_around_circle(centre: Point, radius: float) -> Box:
    """The smallest box around the circle, rounded outward."""
    reach = geo.reach_of(radius)
    south, north = centre.lat - reach, centre.lat + reach
    if south <= -90.0 or north >= 90.0:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    width = geo.width_of(centre.lat, radius, math.sqrt)
    return longitudes(centre.lon - width, centre.lon + width), closed(south, north)


def square(centre: Point, half_side: float) -> Box:
    """MO-Tree's square: `half_side` metres to the east, west, north and south of the centre."""
    reach = math.degrees(half_side / geo.EARTH_RADIUS_M)
    south, north = centre.lat - reach, centre.lat + reach
    shrink = geo.sine_of_degrees(centre.lat + 90.0)  # the cosine; that of libm differs between machines
    if south <= -90.0 or north >= 90.0 or reach >= 180.0 * shrink:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    return longitudes(centre.lon - reach / shrink, centre.lon + reach / shrink), closed(south, north)


def longitudes(west: float, east: float) -> IntervalSet:
    """The longitudes from west to east, in -180..180; west > east or a bound past 180 crosses the antimeridian.

    180 and -180 are one meridian: a set that contains one contains the other.
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
