"""Conditions of MongoDB -> Expression, and back.

    {"age": {"$gte": 18, "$lt": 65}, "city": {"$nin": ["Oslo", "Bergen"]}, "$or": [{"vip": true}, {"orders": {"$gt": 5}}]}

Logic is two-valued: `$ne`, `$nin`, `$not` and `$nor` also match what lacks the field. Each operator asks for some element of a
list by itself: `{"$gt": 3, "$lt": 5}` matches [1, 9]; `$elemMatch` asks for one element, which may be an object.
Null means absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from matchwood.convert.logic import Span, conjunction, disjunction, finished
from matchwood.convert.reading import (
    Leaves,
    check_depth,
    list_at,
    made,
    mapping_at,
    number_at,
    refusal,
    single_item,
    text_at,
)
from matchwood.errors import ExpressionError
from matchwood.geo import EARTH_RADIUS_M
from matchwood.lang.expression import Constant, Expression, Not
from matchwood.lang.instants import instant
from matchwood.lang.list_predicates import Lists
from matchwood.lang.nested import Nested, unweighted
from matchwood.lang.operators import ListOperator, Operator, Quantifier
from matchwood.lang.place_predicates import BBox, DWithin
from matchwood.lang.predicates import IsNull
from matchwood.lang.text_tests import TextOperator
from matchwood.schema import Point, describe

MONGO_RADIUS = 6_378_100.0
"""The radius of the earth by which MongoDB turns metres into angles; the angle is kept."""

_LOGIC = frozenset(("$and", "$or", "$nor"))
_COMPARISONS = {"$eq": Operator.EQ, "$gt": Operator.GT, "$gte": Operator.GE, "$lt": Operator.LT, "$lte": Operator.LE}
_ENDS = {"$gt": ("lo", True), "$gte": ("lo", False), "$lt": ("hi", True), "$lte": ("hi", False)}
_REFUSED = {
    "$options": "it belongs to $regex, which is missing here",
    "$where": "code is not supported; compare fields with constants",
    "$expr": "expressions over several fields are not supported; compare fields with constants",
    "$mod": "arithmetic is not supported; send the remainder as a field of its own",
    "$size": "the length of a list is not supported; send it as a field of its own",
    "$type": "an attribute has one type in Matchwood; $exists tests for presence",
    "$text": "full text search is not supported; send the words as a list and use $all or $in",
    "$jsonSchema": "schemas are not supported; compare fields with constants",
    "$near": "use $nearSphere with $maxDistance; the order by distance is not kept",
    "$geoIntersects": "only $geoWithin with $centerSphere or $box, and $nearSphere, are supported",
    "$maxDistance": "it belongs to $nearSphere, which is missing here",
    "$minDistance": "rings are not supported; use $maxDistance alone, or $not around a second circle",
    **dict.fromkeys(
        ("$bitsAllClear", "$bitsAllSet", "$bitsAnyClear", "$bitsAnySet"),
        "bits are not supported; send each as a boolean field",
    ),
}


def from_mongodb(condition: object) -> Expression:
    """The expression of a condition, a value as from `json.loads` (MongoDB's extended JSON) or from a driver. O(size).

    >>> print(from_mongodb({"city": {"$ne": "Oslo"}, "age": {"$gt": 18}}))
    (city != 'Oslo' OR city IS NULL) AND age > 18
    >>> print(from_mongodb({"age": {"$gte": 18, "$lt": 65}}))
    ANY(age) >= 18 AND ANY(age) < 65
    >>> print(from_mongodb({"$and": [{"name": {"$regex": "^A", "$options": "i"}}]}))
    REGEX(name, '(?i)^A')
    """
    return finished(_document(condition, "$", 1, Leaves()))


def _document(condition: object, path: str, depth: int, leaves: Leaves) -> Expression:
    check_depth(depth)
    parts = []
    for name, value in mapping_at(condition, path, "an object of fields").items():
        place = f"{path}.{name}"
        if name in _LOGIC:
            branches = list_at(value, place, "a list of conditions")
            if not branches:
                raise refusal(place, "expected at least one condition, got none")
            inner = [_document(branch, f"{place}[{at}]", depth + 1, leaves) for at, branch in enumerate(branches)]
            joined = conjunction(inner) if name == "$and" else disjunction(inner)
            parts.append(Not(joined) if name == "$nor" else joined)
        elif name == "$comment":
            continue
        elif name.startswith("$"):
            raise refusal(
                place, _REFUSED.get(name, "unknown operator; at this place Matchwood reads $and, $or and $nor")
            )
        else:
            parts.append(_field(value, _name(name, place), place, depth, leaves))
    return conjunction(parts)


def _name(name: str, path: str) -> str:
    if not name:
        raise refusal(path, "a field without a name; name it")
    if any(part.isdigit() for part in name.split(".")):
        raise refusal(path, "positions in lists are not supported; test the whole list")
    return name


def _field(value: object, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    if isinstance(value, re.Pattern):
        return _regex(value, "", name, path, leaves)
    if not _is_operators(value):
        return _equal(value, name, path, leaves)
    assert isinstance(value, Mapping)
    for key in value:
        if not isinstance(key, str) or not key.startswith("$"):
            raise refusal(path, f"operators and fields are mixed, got {describe(key)}; an object is not a value")
    parts = []
    for key in value:
        place = f"{path}.{key}"
        if key == "$regex":
            parts.append(_regex(value[key], value.get("$options", ""), name, place, leaves))
        elif key == "$options" and "$regex" in value:
            continue
        elif key == "$nearSphere":
            parts.append(_near(value[key], value, name, place))
        elif key != "$maxDistance" or "$nearSphere" not in value:  # which reads it
            parts.append(_operator(key, value[key], name, place, depth + 1, leaves))
    return conjunction(parts)


def _regex(value: object, options: object, name: str, path: str, leaves: Leaves) -> Expression:
    """A regular expression, in the syntax that RE2 shares with PCRE; `$` is the end of the text, not of a last line before it."""
    if isinstance(value, re.Pattern):
        flags = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
        options = "".join([sign for flag, sign in flags.items() if value.flags & flag])
        value = value.pattern
    pattern, signs = text_at(value, path), text_at(options, f"{path.removesuffix('$regex')}$options")
    for sign in signs:
        if sign not in "imsu":
            raise refusal(path, f"the option {sign!r} of regular expressions is not supported; use i, m and s")
    flags_of = "".join(sorted({sign for sign in signs if sign in "ims"}))
    return leaves.test(name, TextOperator.REGEX, f"(?{flags_of}){pattern}" if flags_of else pattern, path)


def _is_operators(value: object) -> bool:
    """An object of operators, not a value of extended JSON."""
    if not isinstance(value, Mapping):
        return False
    keys = set(value)
    return (
        bool(keys) and not (len(keys) == 1 and keys <= set(_EXTENDED)) and any(str(key).startswith("$") for key in keys)
    )


def _equal(value: object, name: str, path: str, leaves: Leaves) -> Expression:
    return _one_of([value], name, path, leaves)


def _one_of(values: list[Any], name: str, path: str, leaves: Leaves) -> Expression:
    scalars = [_value(value, path) for value in values if value is not None]
    parts: list[Expression] = [leaves.one_of(name, scalars, path)] if scalars else []
    if len(scalars) < len(values):
        parts.append(made(path, IsNull, name))
    return disjunction(parts)


def _operator(key: str, value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    check_depth(depth)
    if key == "$eq":
        return _equal(value, name, path, leaves)
    if key == "$ne":
        return Not(_equal(value, name, path, leaves))
    if key in _COMPARISONS:
        return leaves.compare(name, _COMPARISONS[key], _value(value, path), path)
    if key in ("$in", "$nin"):
        found = _one_of(list_at(value, path), name, path, leaves)
        return Not(found) if key == "$nin" else found
    reader = _READERS.get(key)
    if reader is None:
        raise refusal(path, _REFUSED.get(key, "unknown operator"))
    return reader(value, name, path, depth, leaves)


def _exists(value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    if not isinstance(value, (bool, int)):
        raise refusal(path, f"expected true or false, got {describe(value)}")
    return made(path, IsNull, name, negated=bool(value))


def _negated(value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    if not _is_operators(value):
        raise refusal(path, f"expected an object of operators, got {describe(value)}")
    return Not(_field(value, name, path, depth, leaves))


def _all(value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    values = list_at(value, path)
    if not values:
        return Constant(False)
    if all(isinstance(item, Mapping) and list(item) == ["$elemMatch"] for item in values):
        places = [f"{path}[{at}].$elemMatch" for at in range(len(values))]
        each = [_element(v["$elemMatch"], name, p, depth + 1, leaves) for v, p in zip(values, places, strict=True)]
        return conjunction(each)
    scalars = tuple(leaves.scalar(name, _value(item, path), path) for item in values)
    if len(scalars) == 1:
        return leaves.compare(name, Operator.EQ, scalars[0], path)
    return made(path, Lists, name, operator=ListOperator.CONTAINS, values=scalars)


def _element(value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    """One element meets all operators, a range or a single one; or, an object, a condition on its fields."""
    check_depth(depth)
    if not _is_operators(value) or not _LOGIC.isdisjoint(value):
        condition = finished(_document(value, path, depth + 1, Leaves()))
        return made(path, Nested, name, condition=unweighted(condition), quantifier=Quantifier.ANY)
    operators = mapping_at(value, path)
    if len(operators) == 1:
        ((key, operand),) = operators.items()
        place = f"{path}.{key}"
        if key == "$ne":
            return leaves.compare(name, Operator.NE, _value(operand, place), place)
        if key in _COMPARISONS or key == "$in":
            return _operator(key, operand, name, place, depth + 1, leaves)
        raise refusal(place, _REFUSED.get(key, "in $elemMatch, Matchwood reads $eq, $ne, $in, $gt, $gte, $lt and $lte"))
    if len(operators) != 2 or {_ENDS.get(key, ("",))[0] for key in operators} != {"lo", "hi"}:
        raise refusal(path, f"expected one operator, or a lower and an upper end, got {', '.join(operators)}")
    fields: dict[str, Any] = {}
    for key, operand in operators.items():
        end, is_open = _ENDS[key]
        scalar = leaves.scalar(name, _value(operand, f"{path}.{key}"), f"{path}.{key}")
        if isinstance(scalar, (str, bool)):
            raise refusal(f"{path}.{key}", f"expected a number or a date, got {describe(scalar)}")
        fields |= {end: scalar, f"{end}_open": is_open}
    return made(path, Span, name, **fields)


def _within(value: Any, name: str, path: str, depth: int, leaves: Leaves) -> Expression:
    kind, shape = single_item(value, path, "an object with $centerSphere or $box")
    place = f"{path}.{kind}"
    if kind == "$centerSphere":
        centre, radians = _pair(shape, place)
        return _circle(name, _position(centre, place), number_at(radians, place) * EARTH_RADIUS_M, place)
    if kind == "$box":
        south_west, north_east = (_position(corner, place) for corner in _pair(shape, place))
        if south_west.lon > north_east.lon:
            raise refusal(place, "the first corner lies east of the second; a $box does not cross the antimeridian")
        borders = {"west": south_west.lon, "south": south_west.lat, "east": north_east.lon, "north": north_east.lat}
        return made(place, BBox, name, **borders)
    raise refusal(place, "only $centerSphere and $box are supported")


def _near(value: Any, beside: Mapping[str, Any], name: str, path: str) -> Expression:
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("$geometry", "$maxDistance"):
                raise refusal(
                    f"{path}.{key}", _REFUSED.get(str(key), "unknown key; $nearSphere takes $geometry and $maxDistance")
                )
        geometry = value.get("$geometry")
        if not isinstance(geometry, Mapping) or geometry.get("type") != "Point":
            raise refusal(f"{path}.$geometry", f"expected a Point of GeoJSON, got {describe(geometry)}")
        centre, metres = geometry.get("coordinates"), value.get("$maxDistance", beside.get("$maxDistance"))
        scale = EARTH_RADIUS_M / MONGO_RADIUS
    else:
        centre, metres, scale = value, beside.get("$maxDistance"), EARTH_RADIUS_M  # legacy coordinates: radians
    if metres is None:
        raise refusal(path, "without $maxDistance it only sorts; add $maxDistance")
    return _circle(name, _position(centre, path), number_at(metres, f"{path}.$maxDistance") * scale, path)


def _circle(name: str, centre: Point, metres: float, path: str) -> Expression:
    return made(path, DWithin, name, centre=centre, radius=metres)


def _pair(value: object, path: str) -> tuple[Any, Any]:
    items = list_at(value, path)
    if len(items) != 2:
        raise refusal(path, f"expected two items, got {len(items)}")
    return items[0], items[1]


def _position(value: object, path: str) -> Point:
    lon, lat = _pair(value, path)
    return Point(number_at(lon, path, "a longitude"), number_at(lat, path, "a latitude"))


_READERS: dict[str, Callable[[Any, str, str, int, Leaves], Expression]] = {
    "$exists": _exists,
    "$not": _negated,
    "$all": _all,
    "$elemMatch": _element,
    "$geoWithin": _within,
}


def _value(value: object, path: str) -> object:
    if value is None:
        raise refusal(path, "null is not a value here; use $exists, $eq or $in with null")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, re.Pattern):
        raise refusal(path, "a regular expression in a list is not supported; join several $regex with $or")
    if isinstance(value, (list, tuple)):
        raise refusal(
            path, "equality with a whole list depends on its order, which Matchwood does not keep; use $all or $in"
        )
    if isinstance(value, Mapping):
        keys = list(value)
        if len(keys) == 1 and keys[0] in _EXTENDED:
            return _EXTENDED[keys[0]](value[keys[0]], f"{path}.{keys[0]}")
        raise refusal(path, "equality with an object is not supported; name its fields, as in 'user.age'")
    return value


def _date(value: object, path: str) -> datetime:
    if isinstance(value, Mapping) and list(value) == ["$numberLong"]:
        value = _integer(value["$numberLong"], path)
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        if isinstance(value, str):
            return instant(value)
    except (ExpressionError, OverflowError):
        pass
    raise refusal(path, f"expected a timestamp such as 2026-01-31T12:00:00Z, got {describe(value)}")


def _integer(value: object, path: str) -> int:
    if (
        not isinstance(value, (str, int))
        or isinstance(value, bool)
        or not re.fullmatch(r"[+-]?[0-9]{1,19}", str(value))
    ):
        raise refusal(path, f"expected an integer, got {describe(value)}")
    return int(value)


def _double(value: object, path: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise refusal(path, f"expected a number, got {describe(value)}") from None


_EXTENDED: dict[str, Callable[[object, str], object]] = {
    "$date": _date,
    "$numberInt": _integer,
    "$numberLong": _integer,
    "$numberDouble": _double,
}
"""Values of extended JSON."""
