"""Predicates on places: circles, squares, boxes, and how a point lies to a geometry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.expression import Predicate
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.operators import Shape, SpatialOperator
from matchwood.lang.wkt import wkt_of
from matchwood.lang.written import name, number
from matchwood.schema import Point, point_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DWithin(Predicate):
    """The event's point lies within `radius` metres of `centre`, or, with the square shape, in the square of that half-side."""

    centre: Point
    radius: float
    shape: Shape = Shape.CIRCLE

    _takes_decay: ClassVar[bool] = True
    _has_best: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        try:
            object.__setattr__(self, "centre", point_of(self.centre))
        except SchemaError as error:
            raise ExpressionError(f"attribute {self.attribute!r}: {error}") from None
        if not (0.0 < self.radius < math.inf):
            raise ExpressionError(f"attribute {self.attribute!r}: expected a radius > 0, got {self.radius}")

    def __str__(self) -> str:
        lon, lat = self.centre
        square = ", SQUARE" if self.shape is Shape.SQUARE else ""
        place = f"POINT({number(lon)} {number(lat)})"
        return f"DWITHIN({name(self.attribute)}, {place}, {number(self.radius)} m{square}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BBox(Predicate):
    """The event's point lies in the box, borders included; west > east crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        try:
            point_of((self.west, self.south)), point_of((self.east, self.north))
        except SchemaError as error:
            raise ExpressionError(f"attribute {self.attribute!r}: {error}") from None
        if self.south > self.north:
            raise ExpressionError(
                f"attribute {self.attribute!r}: the box's south {self.south} is above its north {self.north}"
            )

    def __str__(self) -> str:
        corners = ", ".join(map(number, (self.west, self.south, self.east, self.north)))
        return f"BBOX({name(self.attribute)}, {corners}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial(Predicate):
    """How the event's point lies to a geometry. Made by `spatial`: that it intersects a box is a `BBox`."""

    operator: SpatialOperator
    geometry: Geometry

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        kind = self.geometry.type
        if kind is GeometryType.BBOX and self.operator is SpatialOperator.INTERSECTS:
            raise ExpressionError(f"attribute {self.attribute!r}: write a box that the point intersects as BBox")
        if kind is GeometryType.COLLECTION and self.operator in (SpatialOperator.WITHIN, SpatialOperator.TOUCHES):
            raise ExpressionError(
                f"attribute {self.attribute!r}: {self.operator.upper()} is not supported for a GEOMETRYCOLLECTION, "
                "whose boundary is not defined; use S_INTERSECTS, or a MULTIPOLYGON"
            )

    def __str__(self) -> str:
        return f"{self.operator.upper()}({name(self.attribute)}, {wkt_of(self.geometry)}){self._boost()}"


def spatial(attribute: str, weight: float, operator: SpatialOperator, geometry: Geometry) -> Predicate:
    """The predicate of a spatial function."""
    if geometry.type is GeometryType.BBOX and operator is SpatialOperator.INTERSECTS:
        west, south, east, north = geometry.coordinates
        return BBox(attribute, weight, west=west, south=south, east=east, north=north)
    return Spatial(attribute, weight, operator=operator, geometry=geometry)
