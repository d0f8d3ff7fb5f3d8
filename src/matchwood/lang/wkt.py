"""Geometries <-> well-known text: POLYGON((0 0, 1 0, 0 1, 0 0))."""

from __future__ import annotations

import re
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.lang.geometry import DEPTHS, Geometry, GeometryType, Position

WORDS = {type_.upper(): type_ for type_ in GeometryType if type_ is not GeometryType.BBOX}
"""The word of each type in text."""

_GEOMETRY = re.compile(r"\s*([A-Za-z]+)\s*(?:[zZ]\s*)?(\(.*\))\s*", re.ASCII | re.DOTALL)
_GROUP = re.compile(r"\s*\(([^()]*+(?:\([^()]*+\)[^()]*+)*+)\)\s*(,|$)")
_MEMBER = re.compile(
    r"\s*([A-Za-z]+\s*(?:[zZ]\s*)?\([^()]*+(?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)[^()]*+)*+\))\s*(,|$)", re.ASCII
)
_SHOWN = 60


def wkt_of(geometry: Geometry) -> str:
    """The geometry as text; a box as the BBOX(...) of CQL2. O(positions)."""
    if geometry.type is GeometryType.BBOX:
        return f"BBOX({', '.join(map(repr, geometry.coordinates))})"
    if geometry.type is GeometryType.COLLECTION:
        return f"GEOMETRYCOLLECTION({', '.join(map(wkt_of, geometry.coordinates))})"
    if geometry.type is GeometryType.POINT:
        return "POINT({!r} {!r})".format(*geometry.coordinates)
    return geometry.type.upper() + _written(geometry.coordinates, DEPTHS[geometry.type])


def _written(coordinates: Any, depth: int) -> str:
    if depth == 1:
        return f"({', '.join([f'{lon!r} {lat!r}' for lon, lat in coordinates])})"
    return f"({', '.join([_written(member, depth - 1) for member in coordinates])})"


def read_wkt(text: str) -> Geometry:
    """The geometry of a text; `ExpressionError` if it is none. An SRID is refused: places are longitudes and latitudes.

    >>> read_wkt("MULTIPOINT((1 2), (3 4))").coordinates
    ((1.0, 2.0), (3.0, 4.0))
    """
    found = _GEOMETRY.fullmatch(text)
    type_ = WORDS.get(found[1].upper()) if found else None
    if found is None or type_ is None:
        raise ExpressionError(f"expected a geometry such as POLYGON((0 0, 1 0, 0 1, 0 0)), got {_short(text)}")
    if type_ is GeometryType.COLLECTION:
        return Geometry(type_, tuple([read_wkt(member) for member in _split(_MEMBER, found[2][1:-1])]))
    return Geometry(type_, coordinates_of(found[2], type_))


def coordinates_of(text: str, type_: GeometryType) -> Any:
    """The coordinates of a type in their parentheses, nested as in GeoJSON. O(length)."""
    inside = text[1:-1]
    if type_ is GeometryType.POINT:
        return _position(inside)
    if type_ is GeometryType.MULTI_POINT and "(" in inside:
        return tuple([_position(group) for group in _split(_GROUP, inside)])
    return _read(inside, DEPTHS[type_])


def _read(inside: str, depth: int) -> Any:
    if depth == 1:
        items = inside.split(",")
        try:
            if "_" not in inside:  # which Python allows in numbers
                return tuple([(float(lon), float(lat)) for lon, lat in map(str.split, items)])
        except ValueError:  # altitudes, or an error to be placed
            pass
        return tuple([_position(item) for item in items])
    return tuple([_read(group, depth - 1) for group in _split(_GROUP, inside)])


def _position(item: str) -> Position:
    numbers = item.split()
    try:
        if len(numbers) in (2, 3) and "_" not in item:
            lon, lat, *_ = map(float, numbers)
            return lon, lat
    except ValueError:
        pass
    raise ExpressionError(f"expected a position such as 4.35 50.85, a space between the numbers, got {_short(item)}")


def _split(group: re.Pattern[str], inside: str) -> list[str]:
    """The groups that commas separate."""
    found, at = [], 0
    while match := group.match(inside, at):
        found.append(match[1])
        at = match.end()
        if not match[2]:
            return found
    raise ExpressionError(f"expected parts in parentheses, separated by commas, got {_short(inside[at:])}")


def _short(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")
