"""The definition of covering, in plain Python: every covering index is tested against it.

s1 covers s2 iff every event that matches s2 (mode `all`) matches s1 (Covering, Definition 1). What is tested:

    predicate  narrow implies wide if both are about one attribute, narrow's keys are all in wide's, narrow excludes what wide
               excludes, and each count of wide is implied by one of narrow's; absence implies absence
    row        every predicate of the wide row is implied by the narrow row's predicate on that attribute
    several    every row of the narrow subscription is covered by some row of the wide one

Always sound, for events with ranges and lists too: a value that meets the smaller set meets the larger one. So `x != 5` does not
cover `x > 7`, which the list [5, 8] matches.

Complete for single rows of numbers, strings and boxes without counts: a key of the narrow set that the wide one lacks, or an
attribute that only the wide row names, makes an event that tells them apart. Not complete, so that a cover may be missed, where

- several counts (A_CONTAINS, A_COUNT, ANY) imply one only together;
- several rows of the wide subscription cover a row together, none of them alone;
- keys exist that no event can have: `t < seen < t + 1 us`, `vip != true` against `vip = false`, longitudes beyond 180;
- circles: one circle is compared with one circle or with the box, never with several shapes together, and a radius beyond
  15,000 km only with circles of the same centre. A row whose circles exclude one another is not recognised as empty;
- regions: a region is implied by one of the same vertices that accepts no more, or by a box in which its edges do not lie;
- IS NOT NULL on a place was normalised before the schema knew the attribute as a point; its row then names no latitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from matchwood import geo
from matchwood.lang.geometry import Position
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.leaves import needed_by
from matchwood.lang.places import Circle
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, Region, location_of, with_copies
from matchwood.lang.rings import exact_side
from matchwood.lang.row import Absent, Counted, Holds, Placed, Row, RowPredicate
from matchwood.schema import Point

SLACK_M = 1e-3
"""The margin of all comparisons of distances: a thousand times the error of the arithmetic up to LARGEST_M."""
LARGEST_M = 15_000_000.0
"""Beyond it chords hardly grow with the angle, and a rounding error of a chord may be metres of arc."""


def covers(wide: Sequence[Row], narrow: Sequence[Row]) -> bool:
    """Is every row of `narrow` covered by some row of `wide`? O(rows x rows x predicates)."""
    return all(any(row_covers(w, n) for w in wide) for n in narrow)


def row_covers(wide: Row, narrow: Row) -> bool:
    """Does every event that `narrow` holds for satisfy `wide`? O(predicates + intervals)."""
    own = {predicate.attribute: predicate for predicate in narrow.predicates}
    return all(p.attribute in own and implies(own[p.attribute], p) for p in wide.predicates)


def implies(narrow: RowPredicate, wide: RowPredicate) -> bool:
    """Does `wide` hold wherever `narrow` does? Both are about the same attribute."""
    if isinstance(narrow, Absent) or isinstance(wide, Absent):
        return isinstance(narrow, Absent) and isinstance(wide, Absent)
    if isinstance(wide, Holds):
        # `Holds` on a place is IS NOT NULL, which holds for all keys.
        return _implies_values(narrow, wide) if isinstance(narrow, Holds) else True
    if isinstance(narrow, Holds):
        return False
    return (
        wide.lon.covers(narrow.lon)
        and wide.lat.covers(narrow.lat)
        and all(_implies_circle(narrow, circle) for circle in wide.circles)
        and all(_implies_region(narrow, region) for region in wide.regions)
    )


def _implies_values(narrow: Holds, wide: Holds) -> bool:
    sets = [narrow.keys, *(needed for count in narrow.counts for needed in needed_by(count, None))]
    return (
        any(wide.keys.covers(keys) for keys in sets)
        and narrow.none.covers(wide.none)
        and all(_implies_count(narrow, count, sets) for count in wide.counts)
    )


def _implies_count(narrow: Holds, wide: Counted, sets: list[IntervalSet]) -> bool:
    """By an equal count with narrower bounds, or because narrow needs each interval that wide needs."""
    for count in narrow.counts:
        if count.keys == wide.keys and count.least >= wide.least and count.most <= wide.most:
            return True
    if wide.most != math.inf:
        return False
    if wide.least == 1:
        return any(wide.keys.covers(keys) for keys in sets)
    return all(any(IntervalSet((part,)).covers(keys) for keys in sets) for part in wide.keys.parts)


def _implies_circle(narrow: Placed, wide: Circle) -> bool:
    if not wide.outside and (wide.radius >= geo.HALF_TURN_M or _box_in_circle(narrow, wide)):
        return True
    return any(circle_implies(circle, wide) for circle in narrow.circles)


def circle_implies(narrow: Circle, wide: Circle) -> bool:
    """Does every place that satisfies `narrow` satisfy `wide`? By the distance of the centres."""
    if narrow.centre == wide.centre and narrow.outside is wide.outside:
        inner, outer = (wide, narrow) if wide.outside else (narrow, wide)
        return geo.chord_squared(inner.radius) <= geo.chord_squared(outer.radius)
    if max(narrow.radius, wide.radius) > LARGEST_M:
        return False
    if wide.outside and not narrow.outside:  # two circles that do not touch
        return not _near(narrow.centre, wide.centre, narrow.radius + wide.radius + SLACK_M)
    if wide.outside is not narrow.outside:
        return False
    inner, outer = (wide, narrow) if wide.outside else (narrow, wide)
    spare = outer.radius - inner.radius - SLACK_M
    return spare >= 0.0 and _near(narrow.centre, wide.centre, spare)


def _box_in_circle(narrow: Placed, wide: Circle) -> bool:
    """Are the corners of the box in the circle? Then all of it is: within a quarter turn of the centre the distance grows with
    the difference of longitudes, and along a meridian it is largest at an end."""
    reach = wide.radius - SLACK_M
    if reach < 0.0 or wide.radius > geo.HALF_TURN_M / 2.0 - 1.0:
        return False
    west, east = _clipped(narrow.lon.hull, 180.0)
    south, north = _clipped(narrow.lat.hull, 90.0)
    if west < wide.centre.lon - 180.0 or east > wide.centre.lon + 180.0:
        return False  # the far meridian may lie inside the box
    corners = [Point(x, y) for x in (west, east) for y in (south, north)]
    return all(_near(corner, wide.centre, reach) for corner in corners)


def _implies_region(narrow: Placed, wide: Region) -> bool:
    west, east = _clipped(narrow.lon.hull, 180.0)
    south, north = _clipped(narrow.lat.hull, 90.0)
    if _box_in_region(wide, west, east, south, north):
        return True
    return any(own.parts == wide.parts and not own.accepts & ~wide.accepts for own in narrow.regions)


def _box_in_region(region: Region, west: float, east: float, south: float, north: float) -> bool:
    """Does the region accept every place of the box? Where no edge lies in the box, the location of one place is that of all.

    Edges that touch the border of the box put places of it on their boundary. The antimeridian has two longitudes, so outside
    a region it is left alone.
    """
    if west == east and south == north:
        return region.holds(Point(west, south))
    apart = True
    for part in with_copies(region.parts):
        ends = part.vertices if len(part.vertices) > 1 else part.vertices * 2
        for a, b in pairwise(ends):
            found = _separation(a, b, west, east, south, north)
            if found is None:
                return False
            apart = apart and found
    where = location_of(region.parts, Point((west + east) / 2.0, (south + north) / 2.0))
    if where == INSIDE:
        with_boundary = region.accepts & (BOUNDARY | INSIDE) == BOUNDARY | INSIDE
        return bool(region.accepts & INSIDE) and (apart or (west < east and south < north and with_boundary))
    return apart and where == OUTSIDE and bool(region.accepts & OUTSIDE) and west > -180.0 and east < 180.0


def _separation(a: Position, b: Position, west: float, east: float, south: float, north: float) -> bool | None:
    """True if the edge shares no place with the box, False if it only touches its border, None if it enters it."""
    (x0, x1), (y0, y1) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    if x1 < west or x0 > east or y1 < south or y0 > north:
        return True
    sides = [exact_side(a, b, (x, y)) for x in (west, east) for y in (south, north)] if a != b else [1, -1]
    if min(sides) > 0 or max(sides) < 0:
        return True
    beside = x1 <= west or x0 >= east or y1 <= south or y0 >= north
    return False if beside or min(sides) >= 0 or max(sides) <= 0 else None


def _clipped(hull: tuple[float, float], limit: float) -> tuple[float, float]:
    """The part of the hull where places can be; the whole range if there is none."""
    lo, hi = max(hull[0], -limit), min(hull[1], limit)
    return (lo, hi) if lo <= hi else (-limit, limit)


def _near(place: Point, centre: Point, distance: float) -> bool:
    return geo.is_within(*place, *geo.unit_vector(*centre), geo.chord_squared(distance))
