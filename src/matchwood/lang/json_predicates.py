"""Predicates <-> JSON: {"op": ">", "args": [{"property": "age"}, 31], "weight": 0.4}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Predicate
from matchwood.lang.geometry import geojson_of, geometry_of
from matchwood.lang.json_decay import read_decay, written_decay
from matchwood.lang.json_operands import (
    is_property,
    is_subject,
    read_list,
    read_name,
    read_number,
    read_numbers,
    read_text,
    read_value,
    written_constant,
    written_list,
    written_name,
)
from matchwood.lang.json_operations import (
    COMPARISONS,
    LIST_OPERATORS,
    QUANTIFIABLE,
    QUANTIFIERS,
    SPATIAL,
    described,
    error_at,
    unsupported_call,
)
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.operators import ListOperator, Operator, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, Spatial, spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.text_tests import FOLDED, Like, TextOperator, TextTest
from matchwood.schema import Point


def written_predicate(predicate: Predicate) -> dict[str, Any]:
    """The JSON of a predicate; a "not" around it where it is negated by a word of its own."""
    op, args, extra = _operation(predicate)
    if predicate.weight != 1.0:
        extra["weight"] = float(predicate.weight)
    if predicate.grade is not None:
        extra["decay"] = written_decay(predicate.grade)
    written = {"op": op, "args": [_written_subject(predicate), *args], **extra}
    return {"op": "not", "args": [written]} if getattr(predicate, "negated", False) else written


def _written_subject(predicate: Predicate) -> dict[str, Any]:
    subject = written_name(predicate.attribute)
    quantifier = getattr(predicate, "quantifier", None)
    if isinstance(predicate, ListCount):
        return {"op": "a_count", "args": [subject, written_list(predicate, predicate.values)]}
    return subject if quantifier is None else {"op": quantifier.value, "args": [subject]}


def _operation(predicate: Predicate) -> tuple[str, list[Any], dict[str, Any]]:
    """The op of a predicate, its arguments after the property, and its further keys."""
    match predicate:
        case Compare(operator=operator, value=value):
            return ("<>" if operator is Operator.NE else operator.value), [written_constant(predicate, value)], {}
        case Between(lo=lo, hi=hi):
            return "between", [written_constant(predicate, lo), written_constant(predicate, hi)], {}
        case In(values=values):
            return "in", [written_list(predicate, values)], {}
        case IsNull():
            return "isNull", [], {}
        case Lists(operator=listed, values=values):
            return listed.value, [written_list(predicate, values)], {}
        case ListCount(operator=operator, count=count):
            return ("<>" if operator is Operator.NE else operator.value), [count], {}
        case Like(pattern=pattern):
            return "like", [written_constant(predicate, pattern)], {}
        case TextTest(operator=tested, argument=argument):
            folds = tested in FOLDED
            return tested.value, [written_constant(predicate, argument) if folds else argument], {}
        case DWithin(centre=centre, radius=radius, shape=shape):
            point = {"type": "Point", "coordinates": list(centre)}
            return "s_dwithin", [point, radius], ({} if shape is Shape.CIRCLE else {"shape": shape.value})
        case BBox(west=west, south=south, east=east, north=north):
            return "s_intersects", [{"bbox": [west, south, east, north]}], {}
        case Spatial(operator=located, geometry=geometry):
            return located.value, [geojson_of(geometry)], {}
    raise ExpressionError(f"expected a predicate of the language, got {described(predicate)}")


def read_predicate(op: str, args: list[Any], value: Any, path: str) -> Predicate:
    """The predicate of an op, its args and its whole object."""
    places = [f"{path}.args[{index}]" for index in range(len(args))]
    is_call = (
        op in COMPARISONS and isinstance(args[1], Mapping) and "op" in args[1] and not isinstance(args[0], Mapping)
    )
    if op in COMPARISONS and not is_subject(args[0]) and (is_subject(args[1]) or is_call):
        operator = COMPARISONS[op].mirrored
        args, places = args[::-1], places[::-1]
    elif op in LIST_OPERATORS and isinstance(args[0], (list, tuple)) and is_property(args[1]):
        op = LIST_OPERATORS[op].mirrored.value
        args, places, operator = args[::-1], places[::-1], Operator.EQ
    else:
        operator = COMPARISONS.get(op, Operator.EQ)
    weight = read_weight(value, path)
    grade = read_decay(value["decay"], f"{path}.decay") if "decay" in value else None
    if op in SPATIAL:
        found = _read_spatial(SPATIAL[op], args, weight, path)
        try:
            return found if grade is None else replace(found, grade=grade)
        except ExpressionError as error:
            raise error.about(path) from None
    name, further = _read_subject(op, args[0], places[0])
    kind, fields_of = _READERS.get(op, (Compare, partial(_compared, operator)))
    if "values" in further and kind is Compare:
        kind, fields_of = ListCount, partial(_count_compared, operator)
    fields = fields_of(args, places, value)
    try:
        predicate: Predicate = kind(name, weight, grade=grade, **fields, **further)
    except ExpressionError as error:
        raise error.about(path) from None
    return predicate


def read_weight(value: Any, path: str) -> float:
    """The weight of a predicate, 1 if not given."""
    return read_number(value.get("weight", 1.0), f"{path}.weight")


def _read_subject(op: str, value: Any, path: str) -> tuple[str, dict[str, Any]]:
    """The attribute that a predicate is about, and its quantifier or the list that is counted."""
    if is_property(value):
        return read_name(value, path), {}
    if not is_subject(value):
        raise error_at(path, f'expected {{"property": NAME}}, got {described(value)}{unsupported_call(value)}')
    function, (inner, *rest) = value["op"], value["args"] or [None]
    allowed = QUANTIFIABLE if function in QUANTIFIERS else COMPARISONS
    if op not in allowed:
        raise error_at(f"{path}.op", f"{function!r} cannot be used in {op!r}, only in {', '.join(allowed)}")
    if not is_property(inner) or len(rest) != (function == "a_count"):
        raise error_at(f"{path}.args", f"expected the arguments of {function!r}, got {described(value['args'])}")
    name = read_name(inner, f"{path}.args[0]")
    if function in QUANTIFIERS:
        return name, {"quantifier": QUANTIFIERS[function]}
    return name, {"values": read_list(rest[0], f"{path}.args[1]")}


def _count_compared(operator: Operator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "count": read_value(args[1], places[1])}


def _compared(operator: Operator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "value": read_value(args[1], places[1])}


def _between(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"lo": read_value(args[1], places[1]), "hi": read_value(args[2], places[2])}


def _is_in(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"values": read_list(args[1], places[1])}


def _lists(operator: ListOperator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "values": read_list(args[1], places[1])}


def _like(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"pattern": read_text(args[1], places[1])}


def _text_test(operator: TextOperator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "argument": read_text(args[1], places[1])}


def _is_null(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {}


def _dwithin(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    if not isinstance(args[1], Mapping) or args[1].get("type") != "Point":
        raise error_at(places[1], f'expected {{"type": "Point", "coordinates": [LON, LAT]}}, got {described(args[1])}')
    lon, lat = read_numbers(args[1].get("coordinates"), 2, f"{places[1]}.coordinates")
    shape = value.get("shape", "circle")
    if shape not in ("circle", "square"):
        raise error_at(
            f"{places[0].removesuffix('.args[0]')}.shape", f'expected "circle" or "square", got {described(shape)}'
        )
    return {"centre": Point(lon, lat), "radius": read_number(args[2], places[2]), "shape": Shape(shape)}


def _read_spatial(operator: SpatialOperator, args: list[Any], weight: float, path: str) -> Predicate:
    """A spatial function of a property and a geometry, in either order."""
    at = 0 if is_property(args[0]) else 1
    if not is_property(args[at]):
        expected = 'expected a property and a geometry such as {"type": "Polygon", "coordinates": [...]}'
        raise error_at(f"{path}.args", f"{expected}, got {described(args)}")
    if is_property(args[1 - at]):
        raise error_at(f"{path}.args[1]", "expected a geometry, got a property; two geometries cannot be compared")
    if not isinstance(args[1 - at], Mapping):
        raise error_at(f"{path}.args[{1 - at}]", f"expected a geometry as GeoJSON, got {described(args[1 - at])}")
    if set(args[1 - at]) == {"bbox"}:
        read_numbers(args[1 - at]["bbox"], 4, f"{path}.args[{1 - at}].bbox")
    try:
        geometry = geometry_of(args[1 - at])
    except ExpressionError as error:
        raise error.about(f"{path}.args[{1 - at}]") from None
    try:
        name = read_name(args[at], f"{path}.args[{at}]")
        return spatial(name, weight, operator if at == 0 else operator.mirrored, geometry)
    except ExpressionError as error:
        raise error.about(path) from None


# The class of each op, and the function that reads its fields from (args, the path of each, the whole object).
_READERS: dict[str, tuple[type[Predicate], Callable[[list[Any], list[str], Any], dict[str, Any]]]] = {
    "between": (Between, _between),
    "in": (In, _is_in),
    "isNull": (IsNull, _is_null),
    **{operator.value: (Lists, partial(_lists, operator)) for operator in ListOperator},
    "like": (Like, _like),
    **{operator.value: (TextTest, partial(_text_test, operator)) for operator in TextOperator},
    "s_dwithin": (DWithin, _dwithin),
}
