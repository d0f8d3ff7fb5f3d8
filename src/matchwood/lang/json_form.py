"""Expression <-> JSON, in the shapes of OGC CQL2 JSON.

    {"op": "and", "args": [{"op": ">", "args": [{"property": "age"}, 31], "weight": 0.4}, ...]}

What exists in CQL2 is written as in CQL2, for exchange with other readers and writers. These are extensions:

    "starts_with", "ends_with",  tests of strings: {"op": "starts_with", "args": [{"property": "name"}, "a"]}
    "contains", "regex", "cidr"
    "weight"                     on a predicate, where it is not 1
    "any", "all", "a_count"      in place of the property: {"op": "any", "args": [{"property": "sizes"}]}
    "decay"                      on a predicate, where its weight counts by closeness (`json_decay`)
    "s_dwithin", "shape"         a radius in metres around a point; the shape where it is not a circle
    {"number": "inf"}            infinity, which JSON cannot write

NOT BETWEEN, NOT IN and IS NOT NULL are a "not" around the predicate, as in CQL2. Trees distinguish `a NOT IN (1)` from
`NOT (a IN (1))`, which have the same meaning; the second has `"prefix": true`, which other readers may ignore. A
`"negated": true` on the predicate would be simpler, but would invert the condition for every reader that ignores it.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any

from matchwood.errors import ExpressionError, SchemaError, TooComplexError
from matchwood.lang import temporal_json
from matchwood.lang.expression import MAX_DEPTH, And, Constant, Expression, Not, Or, Predicate, all_of, any_of
from matchwood.lang.geometry import geojson_of, geometry_of
from matchwood.lang.instants import instant
from matchwood.lang.json_decay import read_decay, written_decay
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, Spatial, spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.temporal import Temporal
from matchwood.lang.text_tests import FOLDED, Like, TextOperator, TextTest
from matchwood.schema import Point, Scalar, describe
from matchwood.schema.functions import (
    FUNCTIONS,
    SEPARATOR,
    derived_name,
    folding_functions,
    function_of,
    is_derived,
    source_of,
)

_TOO_DEEP = f"the expression nests more than {MAX_DEPTH} levels deep; simplify it"
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
_LIST_OPERATORS = {operator.value: operator for operator in ListOperator}
_QUANTIFIERS = {quantifier.value: quantifier for quantifier in Quantifier}
_SPATIAL = {operator.value: operator for operator in SpatialOperator}
_COMPARISONS = {"!=": Operator.NE, **{("<>" if o is Operator.NE else o.value): o for o in Operator}}


def to_json(expression: Expression) -> dict[str, Any] | bool:
    """The expression as a value for `json.dumps`; a bare TRUE or FALSE is a JSON boolean. O(size).

    >>> from matchwood.lang.parser import parse
    >>> to_json(parse("age > 31 ^0.4"))
    {'op': '>', 'args': [{'property': 'age'}, 31], 'weight': 0.4}
    >>> to_json(parse("age IS NOT NULL"))
    {'op': 'not', 'args': [{'op': 'isNull', 'args': [{'property': 'age'}]}]}
    """
    return _written(expression, 1)


def from_json(value: object) -> Expression:
    """The expression of a JSON value (as from `json.loads`); an error names the place: `$.args[1].args[0]`. O(size).

    >>> print(from_json({"op": "in", "args": [{"property": "city"}, ["Oslo", "Bergen"]], "weight": 2}))
    city IN ('Oslo', 'Bergen') ^2.0
    >>> from_json({"op": "and", "args": [{"op": ">", "args": [{"property": "age"}, None]}, True]})
    Traceback (most recent call last):
    ...
    matchwood.errors.ExpressionError: $.args[0].args[1]: null is not a value; use the op "isNull"
    """
    return _read(value, "$", 1)


def _written(expression: Expression, depth: int) -> dict[str, Any] | bool:
    if depth > MAX_DEPTH:
        raise TooComplexError(_TOO_DEEP)
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, (And, Or)):
        op = "and" if isinstance(expression, And) else "or"
        return {"op": op, "args": [_written(child, depth + 1) for child in expression.children]}
    if isinstance(expression, Not):
        child = _written(expression.child, depth + 1)
        negatable = isinstance(child, dict) and child["op"] in _NEGATABLE
        return {"op": "not", "args": [child], **({"prefix": True} if negatable else {})}
    if isinstance(expression, Temporal):
        return temporal_json.written(expression)
    if isinstance(expression, Nested):
        condition = _written(expression.condition, depth + 1)
        weight = {} if expression.weight == 1.0 else {"weight": float(expression.weight)}
        args = [_written_name(expression.attribute), condition]
        return {"op": expression.quantifier.value, "args": args, **weight}
    if isinstance(expression, Predicate):
        return _written_predicate(expression)
    raise ExpressionError(f"expected an expression, got {_described(expression)}")


def _written_predicate(predicate: Predicate) -> dict[str, Any]:
    op, args, extra = _operation(predicate)
    if predicate.weight != 1.0:
        extra["weight"] = float(predicate.weight)
    if predicate.grade is not None:
        extra["decay"] = written_decay(predicate.grade)
    written = {"op": op, "args": [_written_subject(predicate), *args], **extra}
    return {"op": "not", "args": [written]} if getattr(predicate, "negated", False) else written


def _written_subject(predicate: Predicate) -> dict[str, Any]:
    subject = _written_name(predicate.attribute)
    quantifier = getattr(predicate, "quantifier", None)
    if isinstance(predicate, ListCount):
        return {"op": "a_count", "args": [subject, _written_list(predicate, predicate.values)]}
    return subject if quantifier is None else {"op": quantifier.value, "args": [subject]}


def _written_name(attribute: str) -> dict[str, Any]:
    if not is_derived(attribute):
        return {"property": attribute}
    function, inner = function_of(attribute), _written_name(source_of(attribute))
    op = attribute.partition(SEPARATOR)[0].partition(":")[0].lower()
    if function.argument is None:
        return {"op": op, "args": [inner]}
    return {"op": op, "args": [inner, {"property": function.argument} if function.is_age else function.argument]}


def _written_list(predicate: Predicate, values: tuple[Scalar, ...]) -> list[Any]:
    return [_written_constant(predicate, value) for value in values]


def _written_constant(predicate: Predicate, value: Scalar) -> object:
    """A constant in the functions of the attribute that are applied to constants too."""
    written = _written_value(value)
    if isinstance(value, str):
        for function in reversed(folding_functions(predicate.attribute)):
            written = {"op": function.lower(), "args": [written]}
    return written


def _operation(predicate: Predicate) -> tuple[str, list[Any], dict[str, Any]]:
    """The op of a predicate, its arguments after the property, and its further keys."""
    match predicate:
        case Compare(operator=operator, value=value):
            return ("<>" if operator is Operator.NE else operator.value), [_written_constant(predicate, value)], {}
        case Between(lo=lo, hi=hi):
            return "between", [_written_constant(predicate, lo), _written_constant(predicate, hi)], {}
        case In(values=values):
            return "in", [_written_list(predicate, values)], {}
        case IsNull():
            return "isNull", [], {}
        case Lists(operator=listed, values=values):
            return listed.value, [_written_list(predicate, values)], {}
        case ListCount(operator=operator, count=count):
            return ("<>" if operator is Operator.NE else operator.value), [count], {}
        case Like(pattern=pattern):
            return "like", [_written_constant(predicate, pattern)], {}
        case TextTest(operator=tested, argument=argument):
            folds = tested in FOLDED
            return tested.value, [_written_constant(predicate, argument) if folds else argument], {}
        case DWithin(centre=centre, radius=radius, shape=shape):
            point = {"type": "Point", "coordinates": list(centre)}
            return "s_dwithin", [point, radius], ({} if shape is Shape.CIRCLE else {"shape": shape.value})
        case BBox(west=west, south=south, east=east, north=north):
            return "s_intersects", [{"bbox": [west, south, east, north]}], {}
        case Spatial(operator=located, geometry=geometry):
            return located.value, [geojson_of(geometry)], {}
    raise ExpressionError(f"expected a predicate of the language, got {_described(predicate)}")


def _written_value(value: Scalar) -> object:
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat().replace("+00:00", "Z")}
    if isinstance(value, float) and math.isinf(value):
        return {"number": "inf" if value > 0 else "-inf"}
    return value


def _read(value: object, path: str, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise TooComplexError(_TOO_DEEP)
    if isinstance(value, bool):
        return Constant(value)
    if _is_property(value):  # a bool by itself
        return _read_predicate("=", [value, True], {}, path)
    op, args = _checked_operation(value, path)
    if op == "not":
        return _read_not(value, args, path, depth)
    if op in ("and", "or"):
        if not args:
            raise _error(f"{path}.args", "expected at least one expression, got none")
        children = [_read(arg, f"{path}.args[{index}]", depth + 1) for index, arg in enumerate(args)]
        return all_of(*children) if op == "and" else any_of(*children)
    if op in temporal_json.FUNCTIONS:
        return temporal_json.read(op, args, _read_weight(value, path), path)
    if op in _QUANTIFIERS:
        return _read_nested(op, args, value, path, depth)
    return _read_predicate(op, args, value, path)


def _read_nested(op: str, args: list[Any], value: Any, path: str, depth: int) -> Nested:
    """A condition on the elements of a list."""
    if not _is_plain_property(args[0]):
        raise _error(f"{path}.args[0]", f'expected {{"property": NAME}}, got {_described(args[0])}')
    weight = _read_weight(value, path)
    condition = _read(args[1], f"{path}.args[1]", depth + 1)
    try:
        return Nested(args[0]["property"], weight, condition=condition, quantifier=_QUANTIFIERS[op])
    except ExpressionError as error:
        raise error.about(path) from None


def _checked_operation(value: object, path: str) -> tuple[str, list[Any]]:
    """The op and the args of an object; an error if their number is wrong, or a key is unknown to the op."""
    if not isinstance(value, Mapping):
        raise _error(path, f'expected true, false or an object with "op" and "args", got {_described(value)}')
    op, args = value.get("op"), value.get("args")
    if not isinstance(op, str) or op not in _OPERATIONS:
        known = f"expected one of {', '.join(_OPERATIONS)}, got {_described(op)}"
        raise _error(f"{path}.op", f"{known}{_unsupported(op)}")
    count, keys = _OPERATIONS[op]
    if not isinstance(args, (list, tuple)):
        raise _error(f"{path}.args", f"expected a list, got {_described(args)}")
    if count is not None and len(args) != count:
        raise _error(f"{path}.args", f"expected {count} argument{'s' * (count != 1)} of {op!r}, got {len(args)}")
    for key in value:
        if key not in ("op", "args", *keys):
            known = ", ".join(("op", "args", *keys))
            raise _error(f"{path}.{key}", f"unknown key; {op!r} knows {known}")
    return op, list(args)


def _read_not(value: Any, args: list[Any], path: str, depth: int) -> Expression:
    child = _read(args[0], f"{path}.args[0]", depth + 1)
    prefix = value.get("prefix", False)
    if not isinstance(prefix, bool):
        raise _error(f"{path}.prefix", f"expected true or false, got {_described(prefix)}")
    # The op of the argument decides, not the child: the inner one of two "not" is already part of the predicate.
    own = isinstance(args[0], Mapping) and args[0].get("op") in _NEGATABLE
    if (
        own
        and not prefix
        and isinstance(child, (Between, In, IsNull, Like))
        and getattr(child, "quantifier", None) is None
    ):
        return replace(child, negated=True)
    return Not(child)


def _read_predicate(op: str, args: list[Any], value: Any, path: str) -> Predicate:
    places = [f"{path}.args[{index}]" for index in range(len(args))]
    is_call = (
        op in _COMPARISONS and isinstance(args[1], Mapping) and "op" in args[1] and not isinstance(args[0], Mapping)
    )
    if op in _COMPARISONS and not _is_subject(args[0]) and (_is_subject(args[1]) or is_call):
        operator = _COMPARISONS[op].mirrored
        args, places = args[::-1], places[::-1]
    elif op in _LIST_OPERATORS and isinstance(args[0], (list, tuple)) and _is_property(args[1]):
        op = _LIST_OPERATORS[op].mirrored.value
        args, places, operator = args[::-1], places[::-1], Operator.EQ
    else:
        operator = _COMPARISONS.get(op, Operator.EQ)
    weight = _read_weight(value, path)
    grade = read_decay(value["decay"], f"{path}.decay") if "decay" in value else None
    if op in _SPATIAL:
        found = _read_spatial(_SPATIAL[op], args, weight, path)
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


def _read_weight(value: Any, path: str) -> float:
    return _read_number(value.get("weight", 1.0), f"{path}.weight")


def _read_subject(op: str, value: Any, path: str) -> tuple[str, dict[str, Any]]:
    """The attribute that a predicate is about, and its quantifier or the list that is counted."""
    if _is_property(value):
        return _read_name(value, path), {}
    if not _is_subject(value):
        raise _error(path, f'expected {{"property": NAME}}, got {_described(value)}{_unsupported_call(value)}')
    function, (inner, *rest) = value["op"], value["args"] or [None]
    allowed = _QUANTIFIABLE if function in _QUANTIFIERS else _COMPARISONS
    if op not in allowed:
        raise _error(f"{path}.op", f"{function!r} cannot be used in {op!r}, only in {', '.join(allowed)}")
    if not _is_property(inner) or len(rest) != (function == "a_count"):
        raise _error(f"{path}.args", f"expected the arguments of {function!r}, got {_described(value['args'])}")
    name = _read_name(inner, f"{path}.args[0]")
    if function in _QUANTIFIERS:
        return name, {"quantifier": _QUANTIFIERS[function]}
    return name, {"values": _read_list(rest[0], f"{path}.args[1]")}


def _read_name(value: Any, path: str) -> str:
    """The name of a property, or of functions of one."""
    if "property" in value:
        return str(value["property"])
    inner, *rest = value["args"]
    if value["op"].upper() == "AGE":
        rest = [other["property"] if _is_plain_property(other) else None for other in rest]
    if len(rest) > 1 or not all(isinstance(argument, str) for argument in rest):
        more = "a second one" if value["op"].upper() == "AGE" else "one string"
        raise _error(f"{path}.args", f"expected a property and at most {more}, got {_described(value['args'])}")
    name = derived_name(value["op"].upper(), _read_name(inner, f"{path}.args[0]"), rest[0] if rest else None)
    try:
        function_of(name)
    except SchemaError as error:
        raise _error(path, str(error)) from None
    return name


def _count_compared(operator: Operator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "count": _read_value(args[1], places[1])}


def _compared(operator: Operator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "value": _read_value(args[1], places[1])}


def _between(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"lo": _read_value(args[1], places[1]), "hi": _read_value(args[2], places[2])}


def _is_in(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"values": _read_list(args[1], places[1])}


def _lists(operator: ListOperator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "values": _read_list(args[1], places[1])}


def _like(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"pattern": _read_text(args[1], places[1])}


def _text_test(operator: TextOperator, args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {"operator": operator, "argument": _read_text(args[1], places[1])}


def _read_text(value: object, path: str) -> str:
    text = _read_folded(value, path) if _is_function(value) else value
    if not isinstance(text, str):
        raise _error(path, f"expected a string, got {_described(value)}")
    return text


def _read_list(values: Any, path: str) -> tuple[Scalar, ...]:
    if not isinstance(values, (list, tuple)):
        raise _error(path, f"expected a list of values, got {_described(values)}")
    return tuple(_read_value(member, f"{path}[{index}]") for index, member in enumerate(values))


def _is_null(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    return {}


def _dwithin(args: list[Any], places: list[str], value: Any) -> dict[str, Any]:
    if not isinstance(args[1], Mapping) or args[1].get("type") != "Point":
        raise _error(places[1], f'expected {{"type": "Point", "coordinates": [LON, LAT]}}, got {_described(args[1])}')
    lon, lat = _read_numbers(args[1].get("coordinates"), 2, f"{places[1]}.coordinates")
    shape = value.get("shape", "circle")
    if shape not in ("circle", "square"):
        raise _error(
            f"{places[0].removesuffix('.args[0]')}.shape", f'expected "circle" or "square", got {_described(shape)}'
        )
    return {"centre": Point(lon, lat), "radius": _read_number(args[2], places[2]), "shape": Shape(shape)}


def _read_spatial(operator: SpatialOperator, args: list[Any], weight: float, path: str) -> Predicate:
    """A spatial function of a property and a geometry, in either order."""
    at = 0 if _is_property(args[0]) else 1
    if not _is_property(args[at]):
        expected = 'expected a property and a geometry such as {"type": "Polygon", "coordinates": [...]}'
        raise _error(f"{path}.args", f"{expected}, got {_described(args)}")
    if _is_property(args[1 - at]):
        raise _error(f"{path}.args[1]", "expected a geometry, got a property; two geometries cannot be compared")
    if not isinstance(args[1 - at], Mapping):
        raise _error(f"{path}.args[{1 - at}]", f"expected a geometry as GeoJSON, got {_described(args[1 - at])}")
    if set(args[1 - at]) == {"bbox"}:
        _read_numbers(args[1 - at]["bbox"], 4, f"{path}.args[{1 - at}].bbox")
    try:
        geometry = geometry_of(args[1 - at])
    except ExpressionError as error:
        raise error.about(f"{path}.args[{1 - at}]") from None
    try:
        name = _read_name(args[at], f"{path}.args[{at}]")
        return spatial(name, weight, operator if at == 0 else operator.mirrored, geometry)
    except ExpressionError as error:
        raise error.about(path) from None


def _is_property(value: object) -> bool:
    """A property, or functions of one."""
    depth = 0
    while _is_function(value) and value["args"] and depth < MAX_DEPTH:  # type: ignore[index]
        value, depth = value["args"][0], depth + 1  # type: ignore[index]
    return _is_plain_property(value)


def _is_plain_property(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {"property"} and isinstance(value["property"], str)


def _is_function(value: object) -> bool:
    is_call = isinstance(value, Mapping) and set(value) == {"op", "args"} and isinstance(value["args"], (list, tuple))
    return is_call and isinstance(value["op"], str) and value["op"].upper() in FUNCTIONS  # type: ignore[index]


def _is_subject(value: object) -> bool:
    """A property, or a function that takes its place."""
    if _is_property(value):
        return True
    is_call = isinstance(value, Mapping) and set(value) == {"op", "args"} and isinstance(value["args"], (list, tuple))
    return is_call and value["op"] in ("a_count", *_QUANTIFIERS)  # type: ignore[index]


def _read_value(value: object, path: str) -> Scalar:
    if value is None:
        raise _error(path, 'null is not a value; use the op "isNull"')
    if isinstance(value, (bool, int, float, str)):
        return value
    if _is_function(value) and not _is_property(value):
        return _read_folded(value, path)
    if isinstance(value, Mapping) and len(value) == 1:
        key, text = next(iter(value.items()))
        if key == "number" and isinstance(text, str) and text in _INFINITIES:
            return _INFINITIES[text]
        if key in ("timestamp", "date") and isinstance(text, str):
            return _read_instant(key, text, path)
        if key == "property":
            raise _error(path, "expected a constant, got a property; attributes cannot be compared with each other")
    expected = 'a number, string, boolean, {"timestamp": ...}, {"date": ...} or {"number": "inf"}'
    raise _error(path, f"expected {expected}, got {_described(value)}{_unsupported_call(value)}")


def _read_folded(value: Any, path: str, depth: int = 1) -> Scalar:
    """A function of a constant: {"op": "casei", "args": ["Oslo"]}."""
    function = function_of(value["op"].upper())
    if not function.folds_constants or len(value["args"]) != 1 or depth > MAX_DEPTH:
        raise _error(path, f"expected a constant, or casei or accenti of a string, got {_described(value)}")
    inner, place = value["args"][0], f"{path}.args[0]"
    text = _read_folded(inner, place, depth + 1) if _is_function(inner) else inner
    if not isinstance(text, str):
        raise _error(place, f"expected a string, got {_described(inner)}")
    result: Scalar = function.call(text)
    return result


def _unsupported_call(value: object) -> str:
    """What to say about an operand that is a construct of CQL2 without a counterpart here."""
    if not isinstance(value, Mapping):
        return ""
    interval = "; an interval is an argument of a temporal function such as t_during"
    return interval if "interval" in value else _unsupported(value.get("op"))


def _unsupported(op: object) -> str:
    """What to say about an op that is not supported, by the kind of construct."""
    if not isinstance(op, str):
        return ""
    if op in ("+", "-", "*", "/", "%", "^", "div"):
        return f"; arithmetic is not supported, got {op!r}"
    if op in ("casei", "accenti"):
        return f"; {op!r} is used in place of a property or of a string"
    if op.startswith("s_"):
        return f"; this spatial function is not supported, got {op!r}"
    return "" if op in _OPERATIONS else f"; functions are not supported, got {op!r}"


def _read_instant(key: str, text: str, path: str) -> datetime:
    try:
        return instant(text if key == "timestamp" else date.fromisoformat(text))
    except ValueError:
        raise _error(f"{path}.date", f"expected a date such as 2026-01-31, got {text!r}") from None
    except ExpressionError as error:
        raise _error(f"{path}.{key}", str(error)) from None


def _read_number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _error(path, f"expected a number, got {_described(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _error(path, f"expected a number within float64, got {_described(value)}") from None


def _read_numbers(value: object, count: int, path: str) -> list[float]:
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise _error(path, f"expected a list of {count} numbers, got {_described(value)}")
    return [_read_number(number, f"{path}[{index}]") for index, number in enumerate(value)]


def _described(value: object) -> str:
    """A value and its class. Unlike `schema.describe`, shows the outer levels of a deeply nested list."""
    try:
        return f"{_SHORT.repr(value)} ({type(value).__name__})"
    except Exception:  # an integer of more than 4300 digits, which Python does not write, or a `repr` of the user's own
        return describe(value)


def _error(path: str, message: str) -> ExpressionError:
    return ExpressionError(message).about(path)


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
_NEGATABLE = ("between", "in", "isNull", "like")
_QUANTIFIABLE = (*_COMPARISONS, "between", "in", "like", *map(str, TextOperator))
_OPERATIONS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "and": (None, ()),
    "or": (None, ()),
    "not": (1, ("prefix",)),
    **dict.fromkeys(_COMPARISONS, (2, ("weight", "decay"))),
    "between": (3, ("weight", "decay")),
    "in": (2, ("weight", "decay")),
    "isNull": (1, ("weight", "decay")),
    **dict.fromkeys(map(str, ListOperator), (2, ("weight",))),
    "like": (2, ("weight",)),
    **dict.fromkeys(map(str, TextOperator), (2, ("weight",))),
    "s_dwithin": (3, ("weight", "decay", "shape")),
    **dict.fromkeys(map(str, SpatialOperator), (2, ("weight", "decay"))),
    **dict.fromkeys(temporal_json.FUNCTIONS, (2, ("weight",))),
    **dict.fromkeys(_QUANTIFIERS, (2, ("weight",))),
}
"""Each op, the number of its arguments (None: any number), and its keys besides "op" and "args"."""
