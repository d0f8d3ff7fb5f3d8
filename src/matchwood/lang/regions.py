"""Regions: which places are inside a geometry, on its boundary, or outside it. Exact, in plain Python.

Edges are straight lines in longitude and latitude, as GeoJSON (RFC 7946) says: the plane of degrees, not great circles. A place
is located by the even-odd rule in each polygon, so the orientation of rings does not matter, and by exact arithmetic: a place on
an edge is on it, the next float beside it is not.

    outside    in no part
    boundary   on a ring of a polygon, or at an end of a line (of an odd number of lines), and inside no part
    inside     elsewhere in a polygon or on a line, or one of the points

The antimeridian is one line: a place at longitude 180 is also at -180. A part that goes on beyond 180 has a copy, `shift` degrees
to the east; its vertices are rounded to float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from matchwood.errors import ExpressionError
from matchwood.lang.geometry import Geometry, GeometryType, Position
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.places import LONGITUDES
from matchwood.lang.rings import exact_side, fault_of, is_outside
from matchwood.schema import Point

OUTSIDE, BOUNDARY, INSIDE = 1, 2, 4
"""Where a place is; also the bits of what a region accepts."""

_MAX_PARTS = 8
"""Intervals of a box around a region. Where there would be more, those with the smallest gaps are joined: boxes only filter."""


class Kind(IntEnum):
    """What the vertices of a part are. A hole belongs to the polygon of the shell before it."""

    SHELL = 0
    HOLE = 1
    LINE = 2
    POINTS = 3


@dataclass(frozen=True, slots=True)
class Part:
    """A ring (closed), a line or points. `shift`: how far to the east its copy is, 0.0 for none."""

    kind: Kind
    vertices: tuple[Position, ...]
    shift: float = 0.0

    def copy(self) -> Part:
        """The same part on the other side of the antimeridian."""
        return Part(self.kind, tuple([(lon + self.shift, lat) for lon, lat in self.vertices]))


@dataclass(frozen=True, slots=True)
class Region:
    """The places whose location in the parts is one of those that it accepts."""

    parts: tuple[Part, ...]
    accepts: int

    def holds(self, place: Point) -> bool:
        """Is the location of the place one that the region accepts? O(vertices)."""
        return bool(location_of(self.parts, place) & self.accepts)


def location_of(parts: Sequence[Part], place: Point) -> int:
    """Where the place is: OUTSIDE, BOUNDARY or INSIDE. O(vertices)."""
    found = _located(parts, place.lon, place.lat)
    return max(found, _located(parts, -place.lon, place.lat)) if abs(place.lon) == 180.0 else found


def with_copies(parts: Sequence[Part]) -> list[Part]:
    """The parts, then the copies of those that go on beyond the antimeridian."""
    return [*parts, *(part.copy() for part in parts if part.shift)]


def _located(parts: Sequence[Part], x: float, y: float) -> int:
    areas = OUTSIDE
    on_line, ends = False, 0
    for part in with_copies(parts):
        if part.kind is Kind.POINTS:
            areas = INSIDE if (x, y) in part.vertices else areas
        elif part.kind is Kind.LINE and any(_is_on(a, b, x, y) for a, b in pairwise(part.vertices)):
            on_line = True
            if part.vertices[0] != part.vertices[-1]:
                ends += (x, y) in (part.vertices[0], part.vertices[-1])
    for polygon in polygons_of(with_copies(parts)):
        areas = max(areas, _in_polygon(polygon, x, y))
    if on_line:
        areas = max(areas, BOUNDARY if ends % 2 else INSIDE)
    return areas


def polygons_of(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The rings of each polygon."""
    rings: list[Part] = []
    for part in parts:
        if part.kind is not Kind.HOLE and rings:
            yield rings
            rings = []
        if part.kind in (Kind.SHELL, Kind.HOLE):
            rings.append(part)
    if rings:
        yield rings


def _in_polygon(rings: list[Part], x: float, y: float) -> int:
    inside = False
    for ring in rings:
        for a, b in pairwise(ring.vertices):
            if _is_on(a, b, x, y):
                return BOUNDARY
            if (a[1] > y) != (b[1] > y) and (exact_side(a, b, (x, y)) > 0) == (b[1] > a[1]):
                inside = not inside  # the edge passes to the right of the place
    return INSIDE if inside else OUTSIDE


def _is_on(a: Position, b: Position, x: float, y: float) -> bool:
    """Is (x, y) on the edge from a to b?"""
    if not (min(a[0], b[0]) <= x <= max(a[0], b[0]) and min(a[1], b[1]) <= y <= max(a[1], b[1])):
        return False
    return exact_side(a, b, (x, y)) == 0


def parts_of(geometry: Geometry) -> tuple[Part, ...]:
    """The parts of a geometry, without repeated vertices; `ExpressionError` for rings that cross or fold. O(n log n) for most."""
    match geometry.type:
        case GeometryType.POINT:
            return (_part(Kind.POINTS, [geometry.coordinates]),)
        case GeometryType.MULTI_POINT:
            return tuple([_part(Kind.POINTS, [point]) for point in dict.fromkeys(geometry.coordinates)])
        case GeometryType.LINE_STRING:
            return (_line(geometry.coordinates),)
        case GeometryType.MULTI_LINE_STRING:
            return tuple([_line(line) for line in geometry.coordinates])
        case GeometryType.POLYGON:
            return _polygon(geometry.coordinates)
        case GeometryType.MULTI_POLYGON:
            return tuple([part for polygon in geometry.coordinates for part in _polygon(polygon)])
        case GeometryType.BBOX:
            return _box(*geometry.coordinates)
        case _:
            parts = [part for member in geometry.coordinates for part in parts_of(member)]
            points = dict.fromkeys([part for part in parts if part.kind is Kind.POINTS])
            lines = [part for part in parts if part.kind is Kind.LINE]
            return (*points, *lines, *(part for part in parts if part.kind in (Kind.SHELL, Kind.HOLE)))


def geometry_of_parts(parts: Sequence[Part]) -> Geometry:
    """A geometry with these parts."""
    points = [part.vertices[0] for part in parts if part.kind is Kind.POINTS]
    lines = [part.vertices for part in parts if part.kind is Kind.LINE]
    polygons = [tuple([ring.vertices for ring in rings]) for rings in polygons_of(parts)]
    members = [
        _either(GeometryType.POINT, GeometryType.MULTI_POINT, points),
        _either(GeometryType.LINE_STRING, GeometryType.MULTI_LINE_STRING, lines),
        _either(GeometryType.POLYGON, GeometryType.MULTI_POLYGON, polygons),
    ]
    found = [member for member in members if member is not None]
    return found[0] if len(found) == 1 else Geometry(GeometryType.COLLECTION, tuple(found))


def _either(one: GeometryType, several: GeometryType, members: Sequence[object]) -> Geometry | None:
    if not members:
        return None
    return Geometry(one, members[0]) if len(members) == 1 else Geometry(several, tuple(members))


def box_of(parts: Sequence[Part]) -> tuple[IntervalSet, IntervalSet]:
    """Longitudes and latitudes that contain every place that is not outside. O(vertices)."""
    lon, lat = [], []
    for part in with_copies(parts):
        if part.kind is Kind.HOLE:
            continue
        xs, ys = [x for x, _ in part.vertices], [y for _, y in part.vertices]
        west, east = max(min(xs), -180.0), min(max(xs), 180.0)
        if west > east:
            continue
        lon.append((west, east))
        lat.append((min(ys), max(ys)))
        lon += [(180.0, 180.0)] if west == -180.0 else []
        lon += [(-180.0, -180.0)] if east == 180.0 else []
    found = IntervalSet.of(lon)
    return (EVERYTHING if found == LONGITUDES else _joined(found)), _joined(IntervalSet.of(lat))


def is_box(parts: Sequence[Part]) -> bool:
    """Is it one place, or one rectangle along the axes? Then its box is all of it."""
    if len(parts) != 1:
        return False
    (part,) = parts
    if part.kind is Kind.POINTS:
        return True
    if part.kind is not Kind.SHELL or len(part.vertices) != 5:
        return False
    corners = set(part.vertices)
    xs, ys = {x for x, _ in corners}, {y for _, y in corners}
    is_along = all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(part.vertices))
    return len(xs) == len(ys) == 2 and is_along


def _joined(keys: IntervalSet) -> IntervalSet:
    parts = list(keys.parts)
    while len(parts) > _MAX_PARTS:
        gaps = [(after[0] - before[1], at) for at, (before, after) in enumerate(pairwise(parts))]
        cut = sorted(at for _, at in sorted(gaps)[: len(parts) - _MAX_PARTS])
        for at in reversed(cut):
            parts[at : at + 2] = [(parts[at][0], parts[at + 1][1])]
    return IntervalSet(tuple(parts))


def _polygon(rings: Sequence[tuple[Position, ...]]) -> tuple[Part, ...]:
    distinct = [_distinct(ring) for ring in rings]
    if any(len(ring) < 4 for ring in distinct):
        raise ExpressionError(f"the ring that begins at {rings[0][0]} has fewer than 3 different positions")
    fault = fault_of(distinct)
    if fault:
        raise ExpressionError(fault)
    shift = _shift(distinct[0])
    shell = Part(Kind.SHELL, distinct[0], shift)
    holes = [Part(Kind.HOLE, ring, shift) for ring in distinct[1:]]
    for hole in holes:
        if is_outside(hole.vertices, shell.vertices):
            raise ExpressionError(f"the hole that begins at {hole.vertices[0]} is not inside the shell of its polygon")
    return (shell, *holes)


def _line(line: tuple[Position, ...]) -> Part:
    return _part(Kind.LINE, _distinct(line))


def _part(kind: Kind, vertices: Sequence[Position]) -> Part:
    return Part(kind, tuple(vertices), _shift(vertices))


def _box(west: float, south: float, east: float, north: float) -> tuple[Part, ...]:
    if west > east:
        east += 360.0
    ring = ((west, south), (east, south), (east, north), (west, north), (west, south))
    return (Part(Kind.SHELL, ring, _shift(ring)),)


def _shift(vertices: Sequence[Position]) -> float:
    west, east = min(vertices)[0], max(vertices)[0]
    return -360.0 if east > 180.0 else 360.0 if west < -180.0 else 0.0


def _distinct(vertices: tuple[Position, ...]) -> tuple[Position, ...]:
    """Without vertices that repeat the one before."""
    return (vertices[0], *(b for a, b in pairwise(vertices) if a != b))
