"""The grammar of places.

DWITHIN(place, POINT(-73.98 40.75), 1 km)    BBOX(place, -10, 35, 30, 60)    S_WITHIN(place, POLYGON((0 0, 1 0, 0 1, 0 0)))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from matchwood.lang import template as read
from matchwood.lang.expression import Expression
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.operands import Condition, Operands
from matchwood.lang.operators import Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, spatial
from matchwood.lang.template import CIRCLE, PlacedError
from matchwood.lang.tokens import Token
from matchwood.lang.units import METRES
from matchwood.lang.wkt import WORDS, coordinates_of
from matchwood.lang.written import KEYWORDS
from matchwood.schema import Point

SPATIAL_FUNCTIONS = {operator.upper(): operator for operator in SpatialOperator}


def read_dwithin(grammar: Operands) -> Condition:
    attribute = _place_attribute(grammar)
    if not grammar.calls("POINT"):
        raise grammar.problem(f"expected a centre such as POINT(-73.98 40.75), got {grammar.token}")
    lon = grammar.number(read.longitude, "a longitude")
    if grammar.token.text == ",":
        raise grammar.problem("unexpected ','; a point's longitude and latitude are separated by a space")
    lat = grammar.number(read.latitude, "a latitude")
    grammar.expect(")", "after the point's latitude")
    grammar.expect(",", "and a radius after the centre")
    radius = _radius(grammar)
    shape = Shape.CIRCLE
    if grammar.takes(","):
        if grammar.token.upper not in ("CIRCLE", "SQUARE"):
            raise grammar.problem(f"expected CIRCLE or SQUARE, got {grammar.token}")
        shape = Shape(grammar.token.text.lower())
        grammar.at += 1
    grammar.expect(")", "at the end of DWITHIN")
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        centre = Point(values[lon], values[lat])
        return DWithin(values[attribute], values[weight], centre=centre, radius=values[radius], shape=shape)

    form = CIRCLE if shape is Shape.CIRCLE else ""
    return Condition(step, attribute, weight, form, (lon, lat, radius))


def _radius(grammar: Operands) -> int:
    radius = grammar.number(read.weight, "a radius such as 1 km")
    unit = "m"
    if grammar.token.kind == "w":
        unit = grammar.token.text.lower()
        if unit not in METRES:
            raise grammar.problem(f"expected one of the units {', '.join(METRES)}, got {grammar.token}")
        grammar.at += 1
    grammar.converters[radius] = partial(read.metres, unit=unit)
    return radius


def read_bbox(grammar: Operands) -> Condition:
    attribute = _place_attribute(grammar)
    west, south, east, north = _borders(grammar)
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        sides = {"west": values[west], "south": values[south], "east": values[east], "north": values[north]}
        return BBox(values[attribute], values[weight], **sides)

    return Condition(step, attribute, weight)


def _borders(grammar: Operands) -> tuple[int, int, int, int]:
    """The sides of a box, and the parenthesis behind them."""
    west = grammar.number(read.longitude, "the west border")
    grammar.expect(",", "after the west border")
    south = grammar.number(read.latitude, "the south border")
    grammar.expect(",", "after the south border")
    east = grammar.number(read.longitude, "the east border")
    grammar.expect(",", "after the east border")
    north = grammar.number(read.latitude, "the north border")
    grammar.expect(")", "at the end of BBOX")
    return west, south, east, north


def read_spatial(grammar: Operands) -> Condition:
    """A spatial function of an attribute and a geometry, in either order."""
    function = grammar.token.upper
    operator = SPATIAL_FUNCTIONS[function]
    grammar.at += 2
    if _begins_geometry(grammar):
        geometry = _geometry(grammar)
        grammar.expect(",", f"and an attribute after the geometry in {function}")
        attribute, operator = grammar.attribute(), operator.mirrored
    else:
        attribute = grammar.attribute()
        grammar.expect(",", f"and a geometry after the name in {function}")
        if not _begins_geometry(grammar):
            raise grammar.problem(_why_no_geometry(grammar.token))
        geometry = _geometry(grammar)
    grammar.expect(")", f"at the end of {function}")
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return spatial(values[attribute], values[weight], operator, geometry(values))

    return Condition(step, attribute, weight)


def _begins_geometry(grammar: Operands) -> bool:
    is_word = grammar.token.upper in WORDS and grammar.tokens[grammar.at + 1].text != ","  # else an attribute `point`
    return is_word or grammar.begins_call(("BBOX",))


def _geometry(grammar: Operands) -> Callable[[list[Any]], Geometry]:
    """A geometry as WKT or BBOX(...): what makes it from the values of the template."""
    if grammar.calls("BBOX"):
        borders = itemgetter(*_borders(grammar))
        return lambda values: Geometry(GeometryType.BBOX, borders(values))
    word = grammar.token
    type_ = WORDS[word.upper]
    grammar.at += 1
    grammar.takes("Z")
    if grammar.token.kind == "l":  # all coordinates are one constant
        slot = grammar.token.slot
        grammar.at += 1
        grammar.converters[slot] = partial(coordinates_of, type_=type_)
        return lambda values: Geometry(type_, values[slot])
    if grammar.takes("EMPTY"):
        raise grammar.problem(f"an empty {word.upper} contains no place; leave the condition out", word)
    if type_ not in (GeometryType.POINT, GeometryType.COLLECTION) or grammar.token.text != "(":
        raise _why_no_coordinates(grammar, word)
    grammar.at += 1
    if type_ is GeometryType.POINT:
        slots = [grammar.number(read.degrees, "a longitude"), grammar.number(read.degrees, "a latitude")]
        if grammar.token.kind == "n":  # the altitude, which is left out
            grammar.at += 1
        grammar.expect(")", "after the point's latitude")
        return lambda values: Geometry(type_, tuple([values[slot] for slot in slots]))
    members = [_member(grammar)]
    while grammar.takes(","):
        members.append(_member(grammar))
    grammar.expect(")", "or , in GEOMETRYCOLLECTION")
    return lambda values: Geometry(type_, tuple([member(values) for member in members]))


def _member(grammar: Operands) -> Callable[[list[Any]], Geometry]:
    """A member of a collection, which is not one itself."""
    if not _begins_geometry(grammar) or grammar.token.upper == "GEOMETRYCOLLECTION":
        raise grammar.problem(f"expected a geometry such as POINT(4.35 50.85), got {grammar.token}")
    return _geometry(grammar)


def _why_no_coordinates(grammar: Operands, word: Token) -> PlacedError:
    """The first token that cannot be part of coordinates."""
    while grammar.token.kind == "n" or grammar.token.text in ("(", ")", ","):
        grammar.at += 1
    example = "(0 0, 1 0, 0 1, 0 0)" if "LINE" in word.upper or "POINT" in word.upper else "((0 0, 1 0, 0 1, 0 0))"
    return grammar.problem(f"expected the coordinates of a {word.upper} such as {example}, got {grammar.token}")


def _place_attribute(grammar: Operands) -> int:
    attribute = grammar.attribute()
    grammar.expect(",", "after the name")
    return attribute


def _why_no_geometry(token: Token) -> str:
    if token.kind in "wq" and token.upper not in KEYWORDS:
        expected = "expected a geometry such as POLYGON((0 0, 1 0, 0 1, 0 0))"
        return f"{expected}, got the name {token}; two attributes cannot be compared"
    return f"expected a geometry such as POLYGON((0 0, 1 0, 0 1, 0 0)) or BBOX(-10, 35, 30, 60), got {token}"
