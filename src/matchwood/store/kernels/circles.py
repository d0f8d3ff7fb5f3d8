"""Circles of rows that are in the store, moved in place. Nearly all rows with a place have one circle and its box, in one piece.

That is three entries, one after the other: longitudes, latitudes, circle. A row that has anything else on the attribute, or whose
circle reaches a pole or the antimeridian, here or there, is not moved here (`lang.moving` does it).
"""

from __future__ import annotations

import math

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.places import reach_of, unit_vector, width_of
from matchwood.store.kernels.rows import GRADED, JOINED, PLAIN, ROUND, SHAPED, raise_ceiling


@helper
def box_around(lon, lat, radius):
    """(west, east, south, north) of a circle; west is NaN if it reaches a pole or the antimeridian."""
    reach = reach_of(radius)
    south, north = lat - reach, lat + reach
    west = east = np.nan
    if south > -90.0 and north < 90.0:
        width = width_of(lat, radius, math.sqrt)
        if lon - width > -180.0 and lon + width < 180.0:
            west, east = lon - width, lon + width
    return west + 0.0, east + 0.0, south + 0.0, north + 0.0


@helper
def only_circle(store, row):
    """Where the only circle among the entries of a row is; -1 if there is none, several, or a region. O(entries)."""
    found, count = np.int64(-1), np.int64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        if store.entries[at].kind == ROUND:
            found = at
            count += 1
        elif store.entries[at].kind == SHAPED:
            count += 2
    return found if count == 1 else np.int64(-1)


@kernel
def find_circles(store, slots, dim, to_lon, to_lat, lon, lat):
    """(lon[i], lat[i]) = the centre of the circle on `dim` in the row at slots[i]; False if a row cannot be moved by
    `move_circles` to (to_lon[i], to_lat[i]). O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start, at = np.int64(row.start), only_circle(store, row)
        if at < start + 2 or np.int64(store.entries[at].dim) != dim:
            return False
        x, y, circle = (
            store.entries[at - 2],
            store.entries[at - 1],
            store.entries[start + np.int64(store.entries[at].more)],
        )
        lon[i], lat[i] = circle.lo, circle.hi
        west, east, south, north = box_around(circle.lo, circle.hi, circle.weight)
        is_whole = (x.lo == west) & (x.hi == east) & (y.lo == south) & (y.hi == north)
        if not (is_whole and circle.weight > 0.0 and x.kind == PLAIN and y.kind == JOINED):
            return False
        if np.isnan(box_around(to_lon[i], to_lat[i], circle.weight)[0]):
            return False
    return True


@helper
def move_grades(store, row, at, from_lon, from_lat, lon, lat):
    """Move the grades behind entry `at`, a circle, that are around its centre. O(grades)."""
    start = np.int64(row.start)
    at += 1
    while at < start + np.int64(row.count) and store.entries[at].kind == GRADED:
        first = start + np.int64(store.entries[at].more)
        best, vector = store.entries[first], store.entries[first + 1]
        if best.lo == from_lon and best.hi == from_lat:
            best.lo, best.hi = lon, lat
            vector.lo, vector.hi, vector.weight = unit_vector(lon, lat)
        at += 1


@kernel
def move_circles(store, slots, lon, lat):
    """Move the circle in the row at slots[i], and its box, to (lon[i], lat[i]); `find_circles` allows it. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start, at = np.int64(row.start), only_circle(store, row)
        x, y, more = store.entries[at - 2], store.entries[at - 1], start + np.int64(store.entries[at].more)
        circle, vector = store.entries[more], store.entries[more + 1]
        move_grades(store, row, at, circle.lo, circle.hi, lon[i], lat[i])
        x.lo, x.hi, y.lo, y.hi = box_around(lon[i], lat[i], circle.weight)
        circle.lo, circle.hi = lon[i], lat[i]
        vector.lo, vector.hi, vector.weight = unit_vector(lon[i], lat[i])
        raise_ceiling(store, np.int64(slots[i]))
