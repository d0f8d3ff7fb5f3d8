"""Columns of circles to the entries of DWITHIN(place, POINT(lon lat), radius), vectorised.

The boxes equal those of `lang.places.box_around_circle` to the bit: the same arithmetic, on columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import CIRCLE, JOINED, Float64s, Int64s
from matchwood.encode.flat import Entries, IntervalSets, canonical, entries_of, in_order
from matchwood.encode.rejects import Bools
from matchwood.geo import reach_of, width_of
from matchwood.schema import Attribute


class Circles(NamedTuple):
    """Circles, at most one for each record: records ascending, centres in degrees, radii in metres."""

    record: Int64s
    lon: Float64s
    lat: Float64s
    radius: Float64s


def circle_entries(circles: Circles, attribute: Attribute) -> Entries:
    """The entries of the circles, each a point predicate of weight 1. O(circles) vectorised."""
    n = len(circles.record)
    reach = reach_of(circles.radius)
    south, north = circles.lat - reach, circles.lat + reach
    longitudes = _longitudes(circles, (south <= -90.0) | (north >= 90.0))
    first, second = (np.full(n, dim, np.uint16) for dim in attribute.dims)
    around = entries_of(longitudes, circles.record, first, np.ones(n), events=False)
    lat_lo, lat_hi = np.maximum(south, -90.0) + 0.0, np.minimum(north, 90.0) + 0.0
    joined = Entries(circles.record, second, np.full(n, JOINED, np.uint8), lat_lo, lat_hi, np.zeros(n))
    bends = Entries(circles.record, first, np.full(n, CIRCLE, np.uint8), circles.lon, circles.lat, circles.radius)
    return in_order([around, joined, bends])


def _longitudes(circles: Circles, polar: Bools) -> IntervalSets:
    """As `lang.places.longitudes`: every longitude around a pole, two intervals across the antimeridian."""
    west, east = np.full(len(polar), -np.inf), np.full(len(polar), np.inf)
    some = np.flatnonzero(~polar)
    width = width_of(circles.lat[some], circles.radius[some], np.sqrt)
    west[some], east[some] = circles.lon[some] - width, circles.lon[some] + width
    whole = east - west >= 360.0
    past_west, past_east = ~whole & (west <= -180.0), ~whole & (east >= 180.0)
    west[whole], east[whole] = -np.inf, np.inf
    owner = [np.arange(len(polar)), np.flatnonzero(past_west), np.flatnonzero(past_east)]
    lo = [np.where(past_west, -180.0, west), west[past_west] + 360.0, np.full(len(owner[2]), -180.0)]
    hi = [np.where(past_east, 180.0, east), np.full(len(owner[1]), 180.0), east[past_east] - 360.0]
    return canonical(np.concatenate(owner), np.concatenate(lo), np.concatenate(hi))
