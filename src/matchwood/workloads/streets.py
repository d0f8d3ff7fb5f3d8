"""A generated city, used without real pick-ups: districts with street grids, roads between them, and stations.

    district   a centre, an angle, a length and a breadth, and the spacing of its avenues and streets; the first has a park
    pick-up    a point of a district, moved onto the nearest avenue or street, with a kerb's width of noise
    corner     three of ten pick-ups are at one of 2,000 busy crossings, whose popularity follows Zipf's law
    road       a few are on straight roads from the first district to the others, and a few at stations

The extent is that of New York: about 0.35 x 0.34 degrees, with one long dense district at 29 degrees from north and smaller,
sparser ones around it. The city is always the same; pick-ups are drawn from the given stream.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.workloads.draw import pick, zipf

EXTENT = (-74.08, 40.56, -73.73, 40.90)
"""West, south, east, north, in degrees."""

_DISTRICTS = np.array(
    [  # lon, lat, angle, half length, half breadth, avenue spacing, street spacing, share
        (-73.974, 40.766, 61.0, 0.0650, 0.0120, 0.0026, 0.0009, 0.62),
        (-74.004, 40.716, 75.0, 0.0150, 0.0110, 0.0014, 0.0009, 0.12),
        (-73.945, 40.695, 10.0, 0.0420, 0.0260, 0.0022, 0.0010, 0.10),
        (-73.985, 40.650, 55.0, 0.0400, 0.0220, 0.0025, 0.0010, 0.05),
        (-73.915, 40.757, 35.0, 0.0330, 0.0170, 0.0030, 0.0012, 0.05),
        (-73.900, 40.840, 65.0, 0.0450, 0.0260, 0.0028, 0.0012, 0.03),
        (-73.850, 40.715, 25.0, 0.0600, 0.0350, 0.0034, 0.0014, 0.03),
    ]
)
_PARK = (0.004, 0.034, 0.0036)  # of the first district: from and to along it, half breadth
_STATIONS = np.array(
    [(-73.7822, 40.6449), (-73.8740, 40.7740), (-74.0300, 40.7350), (-73.9772, 40.7527), (-73.9935, 40.7505)]
)
_KERB, _FORECOURT = 0.00006, 0.0008
_ON_ROADS, _AT_STATIONS, _AT_CORNERS = 0.01, 0.05, 0.3
_CORNERS = 2000


class Hotspots(NamedTuple):
    """Places and their numbers of pick-ups."""

    lon: Float64s
    lat: Float64s
    pickups: Int64s


def pickups(rng: np.random.Generator, count: int) -> tuple[Float64s, Float64s]:
    """Longitudes and latitudes of `count` pick-ups. O(count)."""
    points = _on_streets(rng, _DISTRICTS[pick(rng, _DISTRICTS[:, 7], count)], crossing=False)
    kind = rng.random(count)
    corner = np.flatnonzero(kind < _AT_CORNERS)
    points[corner] = _corners()[pick(rng, zipf(_CORNERS, 0.7), len(corner))]
    road = np.flatnonzero(kind > 1 - _ON_ROADS)
    end = _DISTRICTS[rng.integers(1, len(_DISTRICTS), size=len(road)), :2]
    points[road] = _DISTRICTS[0, :2] + rng.random((len(road), 1)) * (end - _DISTRICTS[0, :2])
    station = np.flatnonzero((kind > 1 - _ON_ROADS - _AT_STATIONS) & (kind <= 1 - _ON_ROADS))
    points[station] = _STATIONS[rng.integers(len(_STATIONS), size=len(station))]
    points[station] += rng.normal(0, _FORECOURT, (len(station), 2))
    points += rng.normal(0, _KERB, points.shape)
    west, south, east, north = EXTENT
    return np.clip(points[:, 0], west, east), np.clip(points[:, 1], south, north)


def hotspots(rng: np.random.Generator, count: int) -> Hotspots:
    """The `count` busiest squares of 0.0007 degrees: the mean place and the number of their pick-ups. O(sample)."""
    lon, lat = pickups(rng, max(100_000, 40 * count))
    west, south, east, _ = EXTENT
    side = 0.0007
    across = int((east - west) / side) + 1
    square = ((lat - south) / side).astype(np.int64) * across + ((lon - west) / side).astype(np.int64)
    _, member, uses = np.unique(square, return_inverse=True, return_counts=True)
    busiest = np.argsort(-uses, kind="stable")[:count]
    middle_lon, middle_lat = (np.bincount(member, column)[busiest] / uses[busiest] for column in (lon, lat))
    return Hotspots(middle_lon, middle_lat, uses[busiest].astype(np.int64))


def _corners() -> Float64s:
    """The busy crossings, the same in every city."""
    rng = np.random.default_rng(2014)
    return _on_streets(rng, _DISTRICTS[pick(rng, _DISTRICTS[:, 7], _CORNERS)], crossing=True)


def _on_streets(rng: np.random.Generator, district: Float64s, *, crossing: bool) -> Float64s:
    """One point for each given district row, on one of its streets or where two of them cross."""
    count = len(district)
    # The density of Beta(2, 2) falls to 0 at the edge of the district.
    along, beside = ((2 * rng.beta(2, 2, count) - 1) * district[:, axis] for axis in (3, 4))
    park = (district[:, 7] == _DISTRICTS[0, 7]) & (along > _PARK[0]) & (along < _PARK[1]) & (np.abs(beside) < _PARK[2])
    beside = np.where(park, np.sign(beside) * (_PARK[2] + np.abs(beside) * 2), beside)
    avenue = np.rint(beside / district[:, 5]) * district[:, 5]
    street = np.rint(along / district[:, 6]) * district[:, 6]
    on_avenue = rng.random(count) < 0.6
    beside = np.where(crossing | on_avenue, avenue, beside)
    along = np.where(crossing | ~on_avenue, street, along)
    angle = np.deg2rad(district[:, 2])
    # A degree of longitude is shorter than one of latitude; without the factor streets would not cross at right angles.
    stretch = 1 / np.cos(np.deg2rad(district[:, 1]))
    east = (along * np.cos(angle) - beside * np.sin(angle)) * stretch
    north = along * np.sin(angle) + beside * np.cos(angle)
    return np.stack([district[:, 0] + east, district[:, 1] + north], axis=1)
