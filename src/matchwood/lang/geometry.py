"""Geometries as expressions name them: points, lines and polygons in degrees, as GeoJSON (RFC 7946) and WKT write them.

A geometry keeps what was written. `lang.regions` says which places are in it, and refuses rings that cross themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.schema import describe, unwrapped

Position = tuple[float, float]
"""Longitude and latitude, in degrees."""

MAX_LONGITUDE = 360.0
"""Beyond 180 a geometry goes on across the antimeridian: 190 is -170."""
_TINY = 1e-150
"""Coordinates nearer to 0 than this are 0: products of larger ones never underflow, so that tests of places are exact."""


class GeometryType(StrEnum):
    """The types of GeoJSON, and the box of CQL2."""

    POINT = "Point"
    MULTI_POINT = "MultiPoint"
    LINE_STRING = "LineString"
    MULTI_LINE_STRING = "MultiLineString"
    POLYGON = "Polygon"
    MULTI_POLYGON = "MultiPolygon"
    COLLECTION = "GeometryCollection"
    BBOX = "BBox"


DEPTHS = {
    GeometryType.POINT: 0,
    GeometryType.MULTI_POINT: 1,
    GeometryType.LINE_STRING: 1,
    GeometryType.MULTI_LINE_STRING: 2,
    GeometryType.POLYGON: 2,
    GeometryType.MULTI_POLYGON: 3,
}
"""How deep the positions are nested in the coordinates of a type."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry. `coordinates` are nested as in GeoJSON, in tuples; those of a collection are geometries, of a box its sides.

    >>> Geometry(GeometryType.POINT, (1, 2)).coordinates
    (1.0, 2.0)
    """

    type: GeometryType
    coordinates: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinates", _checked(GeometryType(self.type), self.coordinates))

    @property
    def size(self) -> int:
        """The number of its positions. O(parts)."""
        if self.type is GeometryType.COLLECTION:
            return sum(member.size for member in self.coordinates)
        if self.type is GeometryType.BBOX:
            return 5
        return _positions(self.coordinates, DEPTHS[self.type])


def geometry_of(value: object) -> Geometry:
    """A geometry from GeoJSON (also a Feature or {"bbox": [...]}), or from anything with `__geo_interface__`.

    >>> geometry_of({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}).size
    4
    """
    if isinstance(value, Geometry):
        return value
    if not isinstance(value, Mapping):
        value = getattr(value, "__geo_interface__", value)
    if not isinstance(value, Mapping):
        raise ExpressionError(f"expected a geometry as GeoJSON, got {describe(value)}")
    if value.get("type") == "Feature":
        return geometry_of(value.get("geometry"))
    if set(value) == {"bbox"}:
        return Geometry(GeometryType.BBOX, value["bbox"])
    try:
        type_ = GeometryType(str(value.get("type")))
        if type_ is GeometryType.BBOX:
            raise ValueError
    except ValueError:
        known = ", ".join(type_ for type_ in GeometryType if type_ is not GeometryType.BBOX)
        raise ExpressionError(f"expected a geometry of type {known}, got {describe(value.get('type'))}") from None
    content = "geometries" if type_ is GeometryType.COLLECTION else "coordinates"
    unknown = set(value) - {"type", content, "bbox"}
    if unknown or content not in value:
        wrong = f"the unknown key {min(map(str, unknown))!r}" if unknown else f"no {content!r}"
        raise ExpressionError(f"expected 'type' and {content!r} of a {type_}, got {wrong}")
    members = value[content]
    if type_ is GeometryType.COLLECTION and isinstance(members, list | tuple):
        members = tuple([geometry_of(member) for member in members])
    return Geometry(type_, members)


def geojson_of(geometry: Geometry) -> dict[str, Any]:
    """The geometry as GeoJSON; a box as {"bbox": [...]}, as in CQL2. O(positions)."""
    if geometry.type is GeometryType.BBOX:
        return {"bbox": list(geometry.coordinates)}
    if geometry.type is GeometryType.COLLECTION:
        return {"type": geometry.type.value, "geometries": [geojson_of(member) for member in geometry.coordinates]}
    return {"type": geometry.type.value, "coordinates": _lists(geometry.coordinates, DEPTHS[geometry.type])}


def _lists(coordinates: Any, depth: int) -> list[Any]:
    return list(coordinates) if depth == 0 else [_lists(member, depth - 1) for member in coordinates]


def _positions(coordinates: Any, depth: int) -> int:
    if depth == 0:
        return 1
    return len(coordinates) if depth == 1 else sum(_positions(member, depth - 1) for member in coordinates)


def _checked(type_: GeometryType, coordinates: Any) -> Any:
    """The coordinates in tuples of floats; an error names the first that is wrong."""
    if type_ is GeometryType.BBOX:
        return _checked_box(coordinates)
    if type_ is GeometryType.COLLECTION:
        return _checked_members(coordinates)
    made = _nested(coordinates, DEPTHS[type_], type_)
    if type_ is GeometryType.POLYGON:
        _check_polygon(made)
    elif type_ is GeometryType.MULTI_POLYGON:
        for polygon in made:
            _check_polygon(polygon)
    elif type_ is GeometryType.LINE_STRING:
        _check_line(made)
    elif type_ is GeometryType.MULTI_LINE_STRING:
        for line in made:
            _check_line(line)
    return made


def _nested(value: Any, depth: int, type_: GeometryType) -> Any:
    if depth == 0:
        return _position(value)
    if not isinstance(value, list | tuple):
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping | set | frozenset):
            raise ExpressionError(f"expected the nested coordinates of a {type_}, got {describe(value)}")
        value = list(value)
    if not value:
        raise ExpressionError(f"expected a {type_} with coordinates, got an empty list")
    if depth == 1:
        return tuple([_position(position) for position in value])
    return tuple([_nested(member, depth - 1, type_) for member in value])


def _position(value: Any) -> Position:
    """A position; an altitude is left out."""
    if (type(value) is tuple or type(value) is list) and len(value) == 2 and type(value[0]) is type(value[1]) is float:
        lon, lat = value
    else:
        lon, lat = _numbers(value)
    if not (-MAX_LONGITUDE <= lon <= MAX_LONGITUDE and -90.0 <= lat <= 90.0):
        raise ExpressionError(
            f"expected a longitude in -180..180 (in -360..360 across the antimeridian) and a latitude in -90..90, "
            f"got ({lon!r}, {lat!r})"
        )
    return (lon if abs(lon) >= _TINY else 0.0), (lat if abs(lat) >= _TINY else 0.0)


def _numbers(value: Any) -> Position:
    found = value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | set | frozenset):
        found = [unwrapped(number) for number in value]
    if (
        not isinstance(found, list)
        or len(found) not in (2, 3)
        or not all(isinstance(number, int | float) and not isinstance(number, bool) for number in found)
    ):
        raise ExpressionError(f"expected a position (lon, lat), got {describe(value)}")
    try:
        return float(found[0]), float(found[1])
    except OverflowError:
        raise ExpressionError(f"expected a position (lon, lat), got {describe(value)}") from None


def _check_polygon(rings: tuple[tuple[Position, ...], ...]) -> None:
    for ring in rings:
        if len(ring) < 4:
            raise ExpressionError(f"expected a ring of at least 4 positions, the last as the first, got {len(ring)}")
        if ring[0] != ring[-1]:
            raise ExpressionError(
                f"the ring that begins at {ring[0]} ends at {ring[-1]}; repeat the first position at the end"
            )
        _check_width(ring)


def _check_line(line: tuple[Position, ...]) -> None:
    if len(line) < 2:
        raise ExpressionError(f"expected a line of at least 2 positions, got {len(line)}")
    _check_width(line)


def _check_width(positions: tuple[Position, ...]) -> None:
    west, east = min(positions)[0], max(positions)[0]
    if east - west > 360.0:
        raise ExpressionError(f"expected longitudes at most 360 degrees apart in a ring or line, got {west} to {east}")


def _checked_box(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) != 4:
        raise ExpressionError(f"expected a box of 4 numbers, west, south, east, north, got {describe(value)}")
    (west, south), (east, north) = _numbers(value[:2]), _numbers(value[2:])
    if not (-180.0 <= west <= 180.0 and -180.0 <= east <= 180.0 and -90.0 <= south <= north <= 90.0):
        raise ExpressionError(
            f"expected a box (west, south, east, north) in degrees, south not above north, got {tuple(value)}"
        )
    return west + 0.0, south + 0.0, east + 0.0, north + 0.0


def _checked_members(value: Any) -> tuple[Geometry, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(member, Geometry) for member in value):
        raise ExpressionError(f"expected a GeometryCollection of at least one geometry, got {describe(value)}")
    for member in value:
        if member.type in (GeometryType.COLLECTION, GeometryType.BBOX):
            raise ExpressionError(f"a GeometryCollection cannot contain a {member.type}; list its parts")
    return tuple(value)
