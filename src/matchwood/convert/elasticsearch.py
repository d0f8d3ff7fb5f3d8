"""Queries of Elasticsearch's percolator -> Expression, and back.

    {"bool": {"must": [{"term": {"city": "Oslo"}}], "must_not": [{"range": {"age": {"lt": 18}}}]}}

Logic is two-valued: `must_not` also matches documents without the field. A list in a document matches by any of its elements, and
one element has to lie in a `range`. `boost` becomes the weight; conditions in `filter` and `must_not` do not score: they weigh 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from functools import partial
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

from matchwood.convert.logic import Span, conjunction, disjunction, finished, optional
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
    wildcards,
)
from matchwood.errors import ExpressionError
from matchwood.lang.expression import Constant, Expression, Not
from matchwood.lang.instants import instant
from matchwood.lang.nested import Nested, leaves, unweighted, with_names
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.place_predicates import BBox, DWithin
from matchwood.lang.predicates import IsNull
from matchwood.patterns.like import escaped
from matchwood.schema import Point, describe
from matchwood.schema.functions import derived_name

MAX_COMBINATIONS = 200
"""Of `should` clauses, for a `minimum_should_match` between one and all of them."""
MAX_OPTIONAL = 6
"""`should` clauses that need not match and only score: n of them are 2^n alternatives."""

_ENDS = {"gt": Operator.GT, "gte": Operator.GE, "lt": Operator.LT, "lte": Operator.LE}
_METRES = {
    "m": 1.0, "meters": 1.0, "km": 1000.0, "kilometers": 1000.0, "cm": 0.01, "mm": 0.001, "mi": 1609.344, "miles": 1609.344,
    "yd": 0.9144, "yards": 0.9144, "ft": 0.3048, "feet": 0.3048, "in": 0.0254, "nmi": 1852.0, "NM": 1852.0,
}  # fmt: skip
_PATTERN = "only prefix and wildcard are supported; use one of them"
_TEXT = "full text search is not supported; use term or terms on a keyword"
_REFUSED = {
    **dict.fromkeys(("regexp", "fuzzy"), _PATTERN),
    **dict.fromkeys(
        ("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "multi_match", "query_string",
         "simple_query_string", "combined_fields", "intervals", "more_like_this", "span_term", "span_near"),
        _TEXT,
    ),
    **dict.fromkeys(("script", "script_score", "function_score"), "scripts are not supported; compare fields with constants"),
    **dict.fromkeys(("has_child", "has_parent"), "other documents are not seen; send the fields with the document"),
    **dict.fromkeys(("geo_shape", "geo_polygon", "shape"), "only geo_distance and geo_bounding_box are supported"),
    "ids": "the id of a document is not an attribute; send it as a field and use terms",
    "terms_set": "it takes its minimum from a field or a script; use bool with should and minimum_should_match",
    "dis_max": "use bool with should, whose best alternative counts here anyway",
}  # fmt: skip


def from_elasticsearch(query: object) -> Expression:
    """The expression of a query, with or without the `{"query": ...}` around it. O(size).

    >>> print(from_elasticsearch({"bool": {"must": {"term": {"city": "Oslo"}}, "must_not": {"term": {"plan": "free"}}}}))
    city = 'Oslo' AND (plan != 'free' ^0.0 OR plan IS NULL ^0.0)
    >>> print(from_elasticsearch({"bool": {"filter": [{"wildcard": {"host": "db-*"}}]}}))
    host LIKE 'db-%' ^0.0
    """
    path = "$"
    if isinstance(query, Mapping) and list(query) == ["query"]:
        query, path = query["query"], "$.query"
    return finished(_query(query, path, _Context(1, 1.0, Leaves())))


class _Context(NamedTuple):
    """How deep a query lies, by how much the weights in it are multiplied, and the attributes so far."""

    depth: int
    boost: float
    leaves: Leaves

    def inside(self, boost: float = 1.0) -> _Context:
        return self._replace(depth=self.depth + 1, boost=self.boost * boost)


def _query(query: object, path: str, context: _Context) -> Expression:
    check_depth(context.depth)
    kind, body = single_item(query, path, "an object with one query")
    place = f"{path}.{kind}"
    reader = _READERS.get(kind)
    if reader is None:
        raise refusal(place, _REFUSED.get(kind, f"unknown query; Matchwood reads {', '.join(_READERS)}"))
    return reader(mapping_at(body, place), place, context)


def _options(body: Mapping[str, Any], known: tuple[str, ...], path: str, context: _Context) -> float:
    """The weight of a query. Keys other than `known`, `boost` and `_name` are refused."""
    for key in body:
        if key not in (*known, "boost", "_name"):
            raise refusal(
                f"{path}.{key}", f"unknown or unsupported option; Matchwood reads {', '.join((*known, 'boost'))}"
            )
    boost = number_at(body.get("boost", 1.0), f"{path}.boost", "a boost")
    if boost < 0:
        raise refusal(f"{path}.boost", f"expected a boost >= 0, got {boost}")
    return context.boost * boost


def _field(body: Mapping[str, Any], path: str) -> tuple[str, Any]:
    """The field of a query and what is said about it; other keys are options of the query."""
    names = [key for key in body if key not in ("boost", "_name")]
    if len(names) != 1:
        raise refusal(path, f"expected one field, got {', '.join(names) or 'none'}; join several with bool")
    return names[0], body[names[0]]


def _bool(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    boost = _options(
        body, ("must", "filter", "should", "must_not", "minimum_should_match", "adjust_pure_negative"), path, context
    )
    scored = context._replace(boost=boost, depth=context.depth + 1)
    silent = scored._replace(boost=0.0)
    required = [*_clauses(body, "must", path, scored), *_clauses(body, "filter", path, silent)]
    should = _clauses(body, "should", path, scored)
    minimum = _minimum(body, len(should), bool(required), path)
    excluded = [Not(clause) for clause in _clauses(body, "must_not", path, silent)]
    if minimum <= 0 and boost == 0.0:
        should = []  # they could only score
    return conjunction([*required, _at_least(minimum, should, path), *excluded])


def _clauses(body: Mapping[str, Any], key: str, path: str, context: _Context) -> list[Expression]:
    value = body.get(key, [])
    if isinstance(value, Mapping):
        return [_query(value, f"{path}.{key}", context)]
    found = list_at(value, f"{path}.{key}", "a query or a list of queries")
    return [_query(clause, f"{path}.{key}[{at}]", context) for at, clause in enumerate(found)]


def _minimum(body: Mapping[str, Any], count: int, has_required: bool, path: str) -> int:
    value = body.get("minimum_should_match")
    if value is None:
        return 0 if has_required or not count else 1
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal(
            f"{path}.minimum_should_match", f"expected an integer, got {describe(value)}; percentages are not supported"
        )
    return max(count + value, 0) if value < 0 else value


def _at_least(minimum: int, clauses: list[Expression], path: str) -> Expression:
    """At least so many of the clauses hold."""
    if minimum > len(clauses):
        return Constant(False)
    if minimum <= 0:  # they only add to the score
        if len(clauses) > MAX_OPTIONAL:
            raise refusal(
                f"{path}.should",
                f"{len(clauses)} optional clauses are too many (limit: {MAX_OPTIONAL}); remove some, they only score",
            )
        return conjunction([optional(clause) for clause in clauses])
    if comb(len(clauses), minimum) > MAX_COMBINATIONS:
        raise refusal(
            f"{path}.minimum_should_match",
            f"{minimum} of {len(clauses)} clauses are too many combinations (limit: {MAX_COMBINATIONS}); use fewer clauses",
        )
    return disjunction([conjunction(chosen) for chosen in combinations(clauses, minimum)])


def _term(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    name, value = _field(body, path)
    place, options = f"{path}.{name}", body
    if isinstance(value, Mapping):
        options = value
        if "value" not in value:
            raise refusal(place, "expected a value")
        weight = _options(value, ("value", "case_insensitive"), place, context)
        value = options["value"]
        if options.get("case_insensitive"):
            return context.leaves.same_text(name, value, place, weight)
    else:
        weight = _options(body, (name,), path, context)
    return context.leaves.compare(name, Operator.EQ, _value(value, place), place, weight)


def _terms(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    name, value = _field(body, path)
    place = f"{path}.{name}"
    if isinstance(value, Mapping):
        raise refusal(place, "values from another index are not supported; list them")
    weight = _options(body, (name,), path, context)
    values = [_value(item, f"{place}[{at}]") for at, item in enumerate(list_at(value, place, "a list of values"))]
    return context.leaves.one_of(name, values, place, weight) if values else Constant(False)


def _pattern(kind: str, body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    """A prefix, or a wildcard with `*` and `?`."""
    name, value = _field(body, path)
    place, folded = f"{path}.{name}", False
    if isinstance(value, Mapping):
        weight = _options(value, ("value", "wildcard", "case_insensitive", "rewrite"), place, context)
        folded = bool(value.get("case_insensitive"))
        value = value.get("value", value.get("wildcard") if kind == "wildcard" else None)
    else:
        weight = _options(body, (name,), path, context)
    text = text_at(value, place)
    pattern = f"{escaped(text)}%" if kind == "prefix" else wildcards(text, place, any_one="?")
    return context.leaves.like(name, pattern, place, weight, folded=folded)


def _value(value: object, path: str) -> object:
    if value is None:
        raise refusal(path, "null is not a value; use exists in must_not")
    return value


def _range(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    name, value = _field(body, path)
    place = f"{path}.{name}"
    ends = mapping_at(value, place, "an object with gt, gte, lt or lte")
    for key in ("format", "time_zone", "relation"):
        if key in ends:
            raise refusal(f"{place}.{key}", "not supported; write times in ISO 8601 with their zone")
    weight = _options(ends, tuple(_ENDS), place, context)
    dated = {key: end for key, end in ends.items() if isinstance(end, str) and end.startswith("now")}
    if dated and len(dated) < sum(ends.get(key) is not None for key in _ENDS):
        raise refusal(place, "one end is relative to now and the other is not; write both in one way")
    read: Callable[..., tuple[Operator, Any]] = _end
    if dated:
        name, read = derived_name("AGE", name), _end_by_age
    found = [
        read(_ENDS[key], end, name, f"{place}.{key}", context.leaves)
        for key, end in ends.items()
        if key in _ENDS and end is not None
    ]
    lower = [end for end in found if end[0] in (Operator.GT, Operator.GE)]
    upper = [end for end in found if end[0] in (Operator.LT, Operator.LE)]
    if len(lower) > 1 or len(upper) > 1:
        raise refusal(place, "two ends on one side; keep one of gt and gte, and one of lt and lte")
    if not found:
        return made(place, IsNull, name, weight, negated=True)
    if len(found) == 1:
        return context.leaves.compare(name, *found[0], place, weight)
    (first, lo), (second, hi) = lower[0], upper[0]
    fields = {"lo": lo, "lo_open": first is Operator.GT, "hi": hi, "hi_open": second is Operator.LT}
    return made(place, Span, name, weight, **fields)


def _end(operator: Operator, value: object, name: str, path: str, leaves: Leaves) -> tuple[Operator, Any]:
    """One end of a range. A date without a time is the whole day: `lte` reaches to its end, `gt` begins after it."""
    if isinstance(value, bool):
        raise refusal(path, "booleans have no order; use term")
    if not isinstance(value, str):
        return operator, leaves.scalar(name, value, path)
    moment = _moment(value, path)
    if len(value) == len("2026-01-31") and operator in (Operator.LE, Operator.GT):
        try:
            moment += timedelta(days=1)
        except OverflowError:
            raise refusal(path, f"nothing lies beyond {value}; leave this end out") from None
        operator = Operator.LT if operator is Operator.LE else Operator.GE
    return operator, leaves.scalar(name, moment, path)


def _end_by_age(operator: Operator, value: str, name: str, path: str, leaves: Leaves) -> tuple[Operator, Any]:
    """One end of a range in date math, relative to the arrival of the event: later than an hour ago is younger than an hour."""
    math = _DATE_MATH.fullmatch(value)
    if math is None:
        raise refusal(
            path, f"of date math, now with weeks, days, hours, minutes and seconds is supported, got {describe(value)}"
        )
    seconds = sum(int(f"{sign}{amount or 1}") * _SECONDS[unit] for sign, amount, unit in _STEPS.findall(math[1]))
    return operator.mirrored, leaves.scalar(name, -seconds, path)


_DATE_MATH = re.compile(r"now((?:[+-][0-9]{0,9}[wdhHms])*)", re.ASCII)
_STEPS = re.compile(r"([+-])([0-9]*)([wdhHms])", re.ASCII)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "H": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def _moment(text: str, path: str) -> datetime:
    try:
        if _TIME.fullmatch(text):
            return instant(text if "T" in text else date.fromisoformat(text))
    except (ValueError, ExpressionError):
        pass
    expected = "a number, 2026-01-31 or 2026-01-31T12:00:00Z"
    raise refusal(
        path,
        f"expected {expected}, got {describe(text)}; strings have no order, and of date math only now is supported",
    )


def _exists(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    weight = _options(body, ("field",), path, context)
    name = body.get("field")
    if not isinstance(name, str):
        raise refusal(f"{path}.field", f"expected a name, got {describe(name)}")
    return made(path, IsNull, name, weight, negated=True)


def _nested(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    """One object of a list meets a query. Its fields are named with the path before them."""
    weight = _options(body, ("path", "query", "score_mode", "ignore_unmapped"), path, context)
    name = text_at(body.get("path"), f"{path}.path")
    if "query" not in body:
        raise refusal(path, "expected a query")
    inner = _query(body["query"], f"{path}.query", _Context(context.depth + 1, 1.0, Leaves()))
    for leaf in leaves(inner):
        if leaf.weight not in (0.0, 1.0):
            raise refusal(f"{path}.query", "boosts inside do not count; boost the nested query")

    def relative(field: str) -> str:
        if not field.startswith(f"{name}."):
            raise refusal(f"{path}.query", f"expected fields of {name!r}, got {field!r}; move the others out")
        return field.removeprefix(f"{name}.")

    condition = with_names(finished(inner), relative)
    return made(path, Nested, name, weight, condition=unweighted(condition), quantifier=Quantifier.ANY)


def _geo_distance(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    rest = {key: value for key, value in body.items() if key not in ("distance", "distance_type")}
    if body.get("distance_type", "arc") != "arc":
        raise refusal(f"{path}.distance_type", f"expected 'arc', got {describe(body['distance_type'])}")
    name, centre = _field(rest, path)
    weight = _options(rest, (name,), path, context)
    metres = _metres(body.get("distance"), f"{path}.distance")
    return made(path, DWithin, name, weight, centre=_point(centre, f"{path}.{name}"), radius=metres)


def _metres(value: object, path: str) -> float:
    if isinstance(value, (int, float)):
        return number_at(value, path, "a distance")
    found = (
        re.fullmatch(r"\s*([0-9]{1,400}(?:\.[0-9]{0,400})?)\s*([A-Za-z]*)\s*", value)
        if isinstance(value, str)
        else None
    )
    unit = _METRES.get(found[2] or "m") if found else None
    if found is None or unit is None:
        raise refusal(path, f"expected a distance such as '12km' ({', '.join(_METRES)}), got {describe(value)}")
    return float(found[1]) * unit


def _point(value: object, path: str) -> Point:
    """A point in one of the forms of Elasticsearch; a string is "lat,lon" or POINT (lon lat)."""
    if isinstance(value, Mapping):
        pair = (value.get("lon"), value.get("lat")) if "lon" in value else None
        if pair is None and value.get("type") == "Point":
            pair = tuple(list_at(value.get("coordinates"), f"{path}.coordinates"))
    elif isinstance(value, (list, tuple)):
        pair = tuple(value)
    else:
        pair = _point_text(value)
    if pair is None or len(pair) != 2:
        raise refusal(
            path,
            f'expected a point such as {{"lat": 59.9, "lon": 10.7}}, got {describe(value)}; geohashes are not supported',
        )
    return Point(number_at(pair[0], path, "a longitude"), number_at(pair[1], path, "a latitude"))


def _point_text(value: object) -> tuple[float, float] | None:
    number = r"\s*([+-]?[0-9]{1,20}(?:\.[0-9]{0,30})?)\s*"
    if not isinstance(value, str):
        return None
    if found := re.fullmatch(f"{number},{number}", value, re.ASCII):
        return float(found[2]), float(found[1])
    if found := re.fullmatch(rf"\s*POINT\s*\({number}\s{number}\)\s*", value, re.ASCII | re.IGNORECASE):
        return float(found[1]), float(found[2])
    return None


def _geo_bounding_box(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    name, value = _field(body, path)
    weight = _options(body, (name,), path, context)
    place = f"{path}.{name}"
    box = mapping_at(value, place, "an object with the corners of a box")
    keys = set(box)
    if keys == {"top_left", "bottom_right"}:
        north_west, south_east = _point(box["top_left"], place), _point(box["bottom_right"], place)
        borders = north_west.lon, south_east.lat, south_east.lon, north_west.lat
    elif keys == {"top_right", "bottom_left"}:
        north_east, south_west = _point(box["top_right"], place), _point(box["bottom_left"], place)
        borders = south_west.lon, south_west.lat, north_east.lon, north_east.lat
    elif keys == {"top", "left", "bottom", "right"}:
        west, south, east, north = (number_at(box[key], f"{place}.{key}") for key in ("left", "bottom", "right", "top"))
        borders = west, south, east, north
    else:
        raise refusal(
            place,
            f"expected two opposite corners, or top, left, bottom and right, got {', '.join(box)}",
        )
    return made(path, BBox, name, weight, **dict(zip(("west", "south", "east", "north"), borders, strict=True)))


def _constant_score(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    """The boost is the score whatever holds inside; a single condition keeps it as its weight."""
    boost = _options(body, ("filter",), path, context)
    inner = context.inside()._replace(boost=boost)
    return _query(body.get("filter"), f"{path}.filter", inner)


def _match_all(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    _options(body, (), path, context)
    return Constant(True)


def _match_none(body: Mapping[str, Any], path: str, context: _Context) -> Expression:
    _options(body, (), path, context)
    return Constant(False)


_READERS: dict[str, Callable[[Mapping[str, Any], str, _Context], Expression]] = {
    "prefix": partial(_pattern, "prefix"),
    "wildcard": partial(_pattern, "wildcard"),
    "bool": _bool,
    "term": _term,
    "terms": _terms,
    "range": _range,
    "exists": _exists,
    "geo_distance": _geo_distance,
    "geo_bounding_box": _geo_bounding_box,
    "constant_score": _constant_score,
    "nested": _nested,
    "match_all": _match_all,
    "match_none": _match_none,
}
