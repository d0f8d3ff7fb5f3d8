"""Circles and squares on the earth as boxes of longitude and latitude, wrapped at the antimeridian.

A box around a circle only filters, so it is rounded outward; `geo.is_within` decides. Like `geo`, the box uses plain arithmetic
only, so that it is the same to the bit on every machine. `moving` relies on this to tell a circle from one that is cut by a
box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matchwood import geo
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed
from matchwood.schema import Point

_SLACK = 1e-11
"""Outward rounding of a circle's box, in radians: 0.06 millimetres, far above the error of the arithmetic."""
_ROUNDED_UP = 1.0 + 2e-15
"""Factor for a sine before its arc is taken: near 1 the arc magnifies an error of 1e-16 to 1e-8, several centimetres."""
_DEGREES_PER_RADIAN = 57.29577951308232
_ARC_SERIES = [(2 * n - 1) ** 2 / (2 * n * (2 * n + 1)) for n in range(12, 0, -1)]
"""Ratios of adjacent coefficients of the series of asin, last first."""


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
    reach = reach_of(radius)
    south, north = centre.lat - reach, centre.lat + reach
    if south <= -90.0 or north >= 90.0:
        return EVERYTHING, closed(max(south, -90.0), min(north, 90.0))
    width = width_of(centre.lat, radius, math.sqrt)
    return longitudes(centre.lon - width, centre.lon + width), closed(south, north)


def reach_of(radius: Any) -> Any:
    """The degrees that a circle reaches to the north and south. For a float or an array."""
    return (radius / geo.EARTH_RADIUS_M + _SLACK) * _DEGREES_PER_RADIAN


def width_of(lat: Any, radius: Any, sqrt: Callable[[Any], Any]) -> Any:
    """The degrees that a circle without a pole in it reaches to the east and west: asin(sin(angle) / cos(lat)).

    Floats with `math.sqrt`, or arrays with NumPy's, to the same bits: IEEE 754 fixes the square root as it fixes + - * /.
    """
    angle = radius / geo.EARTH_RADIUS_M + _SLACK
    cosine = geo.sine((90.0 - abs(lat)) * geo.RADIANS_PER_DEGREE)
    return (_arc_of(geo.sine(angle) / cosine * _ROUNDED_UP, sqrt) + _SLACK) * _DEGREES_PER_RADIAN


def _arc_of(sine: Any, sqrt: Callable[[Any], Any]) -> Any:
    """asin of a sine from 0 to a few roundings past 1: the angle is halved three times, then its Taylor series converges fast."""
    part = sine
    for _ in range(3):
        rest = (1.0 - part) * (1.0 + part)
        cosine = sqrt((rest + abs(rest)) / 2.0)  # of max(rest, 0)
        part = part / sqrt(2.0 + 2.0 * cosine)
    series = 1.0
    for ratio in _ARC_SERIES:
        series = 1.0 + part * part * ratio * series
    return 8.0 * part * series


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
