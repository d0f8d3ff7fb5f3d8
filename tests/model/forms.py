"""The model's expressions and events in every form that the documents describe: text, Python, JSON, tables, JSON lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce
from operator import and_, or_
from random import Random
from typing import Any

import pyarrow as pa

from matchwood import Event, Point, Range, attr, interval, parse
from tests.model.conditions import TEMPORAL, Area, Counted, Decay, Each, Folded, Listed, Nested, Pattern, Ring, Timed
from tests.model.model import (
    And,
    Between,
    Box,
    Circle,
    Compare,
    Constant,
    Expression,
    Happening,
    In,
    IsNull,
    Not,
    Or,
    Span,
    Square,
)

WORDS = set("AND OR NOT BETWEEN IN IS NULL TRUE FALSE INF".split())
UNITS = {"m": 1.0, "km": 1000.0}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


# Text


def text_of(expression: Expression, rng: Random) -> str:
    """The expression as text, with whatever freedom the grammar leaves."""
    return _Text(rng).write(expression, 0)


class _Text:
    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def word(self, text: str) -> str:
        return self.rng.choice((text, text, text.lower(), text.capitalize()))

    def write(self, expression: Expression, level: int) -> str:
        """`level`: 0 inside OR or nothing, 1 inside AND, 2 inside NOT."""
        match expression:
            case Constant(value):
                return self.word("TRUE" if value else "FALSE")
            case Or(children):
                text = f" {self.word('OR')} ".join(self.write(c, 0 if isinstance(c, And) else 2) for c in children)
                return f"({text})" if level > 0 or self.rng.random() < 0.1 else text
            case And(children):
                text = f" {self.word('AND')} ".join(self.write(c, 1) for c in children)
                return f"({text})" if level > 1 or self.rng.random() < 0.1 else text
            case Not(child):
                return f"{self.word('NOT')} {self.write(child, 2)}"
            case leaf:
                weight = (
                    "" if leaf.weight == 1 else f"{self.rng.choice((' ', ''))}^{number_text(leaf.weight, self.rng)}"
                )
                text = self.condition(leaf) + weight + self.decay(getattr(leaf, "decay", None))
                return f"({text})" if self.rng.random() < 0.1 else text

    def decay(self, decay: Decay | None) -> str:
        if decay is None:
            return ""
        if decay.plain:
            return f" {self.word('DECAY')}"
        unit = f" {decay.unit}" if decay.unit else ""
        parts = [f"SCALE {decay.scale!r}{unit}", f"OFFSET {decay.offset!r}{unit}", f"TO {decay.to!r}"]
        parts.append(f"ORIGIN {self.origin(decay.origin)}")
        self.rng.shuffle(parts)
        return f" {self.word('DECAY')}({', '.join([self.word(decay.curve), *parts])})"

    def origin(self, origin: Any) -> str:
        if isinstance(origin, tuple):
            return f"POINT({origin[0]!r} {origin[1]!r})"
        return self.value(origin) if isinstance(origin, datetime) else repr(origin)

    def condition(self, leaf: Any, quantifier: str = "") -> str:
        name = self.name(leaf.attribute)
        name = f"{self.word(quantifier)}({name})" if quantifier else name
        negation = f"{self.word('NOT')} " if getattr(leaf, "negated", False) else ""
        match leaf:
            case Compare(operator=operator, value=value):
                if self.rng.random() < 0.2:
                    return f"{self.value(value)} {self.operator(MIRRORED[operator])} {name}"
                return f"{name} {self.operator(operator)} {self.value(value)}"
            case Between(lo=lo, hi=hi):
                between, and_word = self.word("BETWEEN"), self.word("AND")
                return f"{name} {negation}{between} {self.value(lo)} {and_word} {self.value(hi)}"
            case In(values=values):
                return f"{name} {negation}{self.word('IN')} ({', '.join(map(self.value, values))})"
            case IsNull():
                return f"{name} {self.word('IS')} {negation}{self.word('NULL')}"
            case Circle(lon=lon, lat=lat, radius=radius) | Square(lon=lon, lat=lat, radius=radius):
                unit = self.rng.choice(["", *(u for u, size in UNITS.items() if radius % size == 0)])
                amount = f"{radius / UNITS[unit or 'm']!r} {unit}".strip()
                shape = ", SQUARE" if isinstance(leaf, Square) else self.rng.choice(("", ", CIRCLE"))
                return f"DWITHIN({name}, POINT({lon!r} {lat!r}), {amount}{shape})"
            case Box():
                return f"BBOX({name}, {leaf.west!r}, {leaf.south!r}, {leaf.east!r}, {leaf.north!r})"
            case Each(word=word, leaf=inner):
                return self.condition(inner, word)
            case Nested(word=word, condition=condition):
                return f"{self.word(word)}({name}, {self.write(condition, 0)})"
            case Pattern(function="LIKE", text=text):
                return f"{name} {negation}{self.word('LIKE')} {self.value(text)}"
            case Pattern(function=function, text=text):
                return f"{self.word(function)}({name}, {self.value(text)})"
            case Listed(function=function, values=values):
                return f"{self.word(function)}({name}, {self.list(values)})"
            case Counted(values=values, operator=operator, count=count):
                return f"{self.word('A_COUNT')}({name}, {self.list(values)}) {self.operator(operator)} {count}"
            case Timed(function=function, lo=lo, hi=hi):
                return f"{self.word(function)}({name}, {self.times(lo, hi)})"
            case Area(function=function):
                return f"{self.word(function)}({name}, {wkt(leaf)})"
        raise TypeError(leaf)

    def list(self, values: Sequence[Any]) -> str:
        return f"({', '.join(map(self.value, values))})"

    def times(self, lo: datetime, hi: datetime) -> str:
        if lo == hi:
            return self.value(lo)
        return f"{self.word('INTERVAL')}('{instant_text(lo, self.rng)}', '{instant_text(hi, self.rng)}')"

    def operator(self, operator: str) -> str:
        return self.rng.choice({"=": ("=", "=="), "!=": ("!=", "<>")}.get(operator, (operator,)))

    def name(self, name: str) -> str:
        if isinstance(name, Folded):
            inner = Folded.of(name.functions[1:], name.base) if name.functions[1:] else name.base
            return f"{self.word(name.functions[0])}({self.name(inner)})"
        plain = re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, re.ASCII) and name.upper() not in WORDS
        return name if plain and self.rng.random() < 0.9 else '"' + name.replace('"', '""') + '"'

    def value(self, value: Any) -> str:
        if isinstance(value, bool):
            return self.word("TRUE" if value else "FALSE")
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, datetime):
            if value == datetime(value.year, value.month, value.day, tzinfo=UTC) and self.rng.random() < 0.5:
                return f"DATE('{value.date().isoformat()}')"
            return f"TIMESTAMP('{instant_text(value, self.rng)}')"
        return number_text(value, self.rng)


def wkt(area: Area) -> str:
    """The polygons as well-known text."""

    def ring(corners: Ring) -> str:
        return f"({', '.join(f'{x!r} {y!r}' for x, y in corners)})"

    polygons = [f"({', '.join(map(ring, rings))})" for rings in area.polygons]
    return f"POLYGON{polygons[0]}" if len(polygons) == 1 else f"MULTIPOLYGON({', '.join(polygons)})"


def geojson(area: Area) -> dict[str, Any]:
    """The polygons as GeoJSON."""
    polygons = [[[list(corner) for corner in ring] for ring in rings] for rings in area.polygons]
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def number_text(value: float, rng: Random) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "INF" if value > 0 else "-INF"
    if rng.random() < 0.1 and value > 0:
        return f"+{value!r}"
    return repr(value)


def instant_text(value: datetime, rng: Random) -> str:
    """ISO 8601 with Z, with an offset, or without a zone, which means UTC."""
    way = rng.randrange(3)
    if way == 0:
        return value.astimezone(timezone(timedelta(hours=rng.choice((-5, 2))))).isoformat()
    return value.replace(tzinfo=None).isoformat() + ("Z" if way == 1 else "")


# Python


def built(expression: Expression, rng: Random) -> Any:
    """The expression made by `attr`, `&`, `|` and `~`. TRUE and FALSE have no builder, so they are parsed."""
    match expression:
        case Constant(value):
            return parse("TRUE" if value else "FALSE")
        case And(children):
            return reduce(and_, (built(c, rng) for c in children))
        case Or(children):
            return reduce(or_, (built(c, rng) for c in children))
        case Not(child):
            return ~built(child, rng)
        case leaf:
            name = _named(leaf.attribute)
            if isinstance(leaf, Each):
                name, inner = name.any() if leaf.word == "ANY" else name.all(), leaf.leaf
                return _predicate(name, inner) ^ leaf.weight
            if isinstance(leaf, Nested):
                condition = built(leaf.condition, rng)
                return (name.any(condition) if leaf.word == "ANY" else name.all(condition)) ^ leaf.weight
            if rng.random() < 0.5:
                made = _predicate(_named(leaf.attribute, weight=leaf.weight), leaf)
            else:
                made = _predicate(name, leaf) ^ leaf.weight
            return _graded(made, getattr(leaf, "decay", None))


def _named(name: str, **terms: float) -> Any:
    if not isinstance(name, Folded):
        return attr(name, **terms)
    found: Any = attr(name.base, **terms)
    for function in reversed(name.functions):
        found = found.casei() if function == "CASEI" else found.accenti()
    return found


def _graded(made: Any, decay: Decay | None) -> Any:
    if decay is None:
        return made
    if decay.plain:
        return made.decay()
    scale, offset = ((x, decay.unit) if decay.unit else x for x in (decay.scale, decay.offset))
    return made.decay(decay.curve.lower(), origin=decay.origin, scale=scale, offset=offset, to=decay.to)


def _predicate(name: Any, leaf: Any) -> Any:
    match leaf:
        case Compare(operator=operator, value=value):
            return {
                "=": lambda: name == value,
                "!=": lambda: name != value,
                "<": lambda: name < value,
                "<=": lambda: name <= value,
                ">": lambda: name > value,
                ">=": lambda: name >= value,
            }[operator]()
        case Between(lo=lo, hi=hi, negated=negated):
            return name.not_between(lo, hi) if negated else name.between(lo, hi)
        case In(values=values, negated=negated):
            return name.not_in(list(values)) if negated else name.is_in(list(values))
        case IsNull(negated=negated):
            return name.is_not_null() if negated else name.is_null()
        case Circle(lon=lon, lat=lat, radius=radius):
            return name.within((lon, lat), radius)
        case Square(lon=lon, lat=lat, radius=radius):
            return name.within(Point(lon, lat), (radius, "m"), shape="square")
        case Box():
            return name.in_box(leaf.west, leaf.south, leaf.east, leaf.north)
        case Pattern(function="LIKE", text=text, negated=negated):
            return name.not_like(text) if negated else name.like(text)
        case Pattern(function=function, text=text):
            return getattr(name, PATTERNS[function])(text)
        case Listed(function=function, values=values):
            return getattr(name, LISTS[function])(list(values))
        case Counted(values=values, operator=operator, count=count):
            found = name.count_of(list(values))
            return getattr(found, COMPARISONS[operator])(count)
        case Timed(function=function, lo=lo, hi=hi):
            return getattr(name, TIMES[function])(lo if lo == hi else interval(lo, hi))
        case Area(function=function):
            return getattr(name, function.removeprefix("S_").lower())(geojson(leaf))
    raise TypeError(leaf)


PATTERNS = {
    "STARTS_WITH": "starts_with",
    "ENDS_WITH": "ends_with",
    "CONTAINS": "contains_text",
    "REGEX": "matches",
    "CIDR": "in_network",
}
LISTS = {"A_CONTAINS": "contains", "A_OVERLAPS": "overlaps", "A_CONTAINEDBY": "contained_by", "A_EQUALS": "equals"}
COMPARISONS = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
_WORDS = {"STARTEDBY": "started_by", "FINISHEDBY": "finished_by", "METBY": "met_by", "OVERLAPPEDBY": "overlapped_by"}
TIMES = {f"T_{word}": f"t_{_WORDS.get(word, word.lower())}" for word in [t.removeprefix("T_") for t in TEMPORAL]}
_JSON_WORDS = {
    "t_startedby": "t_startedBy",
    "t_finishedby": "t_finishedBy",
    "t_metby": "t_metBy",
    "t_overlappedby": "t_overlappedBy",
    "a_containedby": "a_containedBy",
}


# JSON


def json_of(expression: Expression, rng: Random) -> Any:
    """The expression as CQL2 JSON."""
    match expression:
        case Constant(value):
            return value
        case And(children) | Or(children):
            op = "and" if isinstance(expression, And) else "or"
            return {"op": op, "args": [json_of(c, rng) for c in children]}
        case Not(child):
            return {"op": "not", "args": [json_of(child, rng)]}
        case leaf:
            found = _json_condition(leaf, rng)
            if leaf.weight != 1 or rng.random() < 0.1:
                found["weight"] = leaf.weight
            if (decay := getattr(leaf, "decay", None)) is not None:
                found["decay"] = _json_decay(decay)
            return {"op": "not", "args": [found]} if getattr(leaf, "negated", False) else found


def _json_decay(decay: Decay) -> dict[str, Any]:
    if decay.plain:
        return {}
    origin = decay.origin
    if isinstance(origin, tuple):
        origin = {"type": "Point", "coordinates": list(origin)}
    elif isinstance(origin, datetime):
        origin = json_value(origin)
    scale, offset = ({"value": x, "unit": decay.unit} if decay.unit else x for x in (decay.scale, decay.offset))
    return {"curve": decay.curve.lower(), "origin": origin, "scale": scale, "offset": offset, "to": decay.to}


def _json_name(name: str) -> dict[str, Any]:
    if not isinstance(name, Folded):
        return {"property": name}
    found: dict[str, Any] = {"property": name.base}
    for function in reversed(name.functions):
        found = {"op": function.lower(), "args": [found]}
    return found


def _json_condition(leaf: Any, rng: Random) -> dict[str, Any]:
    subject = _json_name(leaf.attribute)
    if isinstance(leaf, Nested):
        return {"op": leaf.word.lower(), "args": [subject, json_of(leaf.condition, rng)]}
    if isinstance(leaf, Each):
        subject, leaf = {"op": leaf.word.lower(), "args": [subject]}, leaf.leaf
    match leaf:
        case Compare(operator=operator, value=value):
            op = rng.choice(("<>", "!=")) if operator == "!=" else operator
            return {"op": op, "args": [subject, json_value(value)]}
        case Between(lo=lo, hi=hi):
            return {"op": "between", "args": [subject, json_value(lo), json_value(hi)]}
        case In(values=values):
            return {"op": "in", "args": [subject, [json_value(v) for v in values]]}
        case IsNull():
            return {"op": "isNull", "args": [subject]}
        case Circle(lon=lon, lat=lat, radius=radius) | Square(lon=lon, lat=lat, radius=radius):
            found = {"op": "s_dwithin", "args": [subject, {"type": "Point", "coordinates": [lon, lat]}, radius]}
            return found | ({"shape": "square"} if isinstance(leaf, Square) else {})
        case Box():
            box = [leaf.west, leaf.south, leaf.east, leaf.north]
            return {"op": "s_intersects", "args": [subject, {"bbox": box}]}
        case Pattern(function=function, text=text):
            return {"op": function.lower(), "args": [subject, text]}
        case Listed(function=function, values=values):
            op = _JSON_WORDS.get(function.lower(), function.lower())
            return {"op": op, "args": [subject, [json_value(v) for v in values]]}
        case Counted(values=values, operator=operator, count=count):
            counted = {"op": "a_count", "args": [subject, [json_value(v) for v in values]]}
            return {"op": "<>" if operator == "!=" else operator, "args": [counted, count]}
        case Timed(function=function, lo=lo, hi=hi):
            op = _JSON_WORDS.get(function.lower(), function.lower())
            ends = [json_value(lo)["timestamp"], json_value(hi)["timestamp"]]
            return {"op": op, "args": [subject, json_value(lo) if lo == hi else {"interval": ends}]}
        case Area(function=function):
            return {"op": function.lower(), "args": [subject, geojson(leaf)]}
    raise TypeError(leaf)


def json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"timestamp": value.replace(tzinfo=None).isoformat() + "Z"}
    if isinstance(value, float) and math.isinf(value):
        return {"number": "inf" if value > 0 else "-inf"}
    return value


# Tables of subscriptions


@dataclass(frozen=True)
class Record:
    """A subscription of a table: a conjunction, or any expression in the text forms, and what stands beside it."""

    id: int
    expression: Expression
    priority: float | None = None
    until: datetime | None = None
    circle: tuple[float, float, float] | None = None  # lon, lat, radius

    def whole(self) -> Expression:
        """With the circle, as `AND DWITHIN(place, ...)`."""
        if self.circle is None:
            return self.expression
        circle = Circle("place", *self.circle)
        parts = self.expression.children if isinstance(self.expression, And) else (self.expression,)
        return And((*parts, circle))


def _beside(records: Sequence[Record]) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": pa.array([r.id for r in records], pa.int64())}
    if any(r.priority is not None for r in records):
        columns["priority"] = pa.array([r.priority for r in records], pa.float64())
    if any(r.until is not None for r in records):
        columns["until"] = pa.array([r.until for r in records], pa.timestamp("us", "UTC"))
    if any(r.circle is not None for r in records):
        for i, name in enumerate(("lon", "lat", "radius")):
            columns[name] = pa.array([r.circle and r.circle[i] for r in records], pa.float64())
    return columns


def text_table(records: Sequence[Record], rng: Random) -> pa.Table:
    texts = [
        json.dumps(json_of(r.expression, rng)) if rng.random() < 0.3 else text_of(r.expression, rng) for r in records
    ]
    return pa.table(_beside(records) | {"expression": pa.array(texts, pa.string())})


def json_lines(records: Sequence[Record], rng: Random) -> list[str]:
    lines = []
    for record in records:
        said = json_of(record.expression, rng) if rng.random() < 0.5 else text_of(record.expression, rng)
        line: dict[str, Any] = {"id": record.id, "expression": said}
        if record.priority is not None:
            line["priority"] = record.priority
        if record.until is not None:
            line["until"] = record.until.isoformat()
        if record.circle is not None:
            line |= {"place": list(record.circle[:2]), "radius": record.circle[2]}
        lines.append(json.dumps(line))
    return lines


def conditions_of(expression: Expression) -> tuple[Any, ...]:
    """The predicates of a plain conjunction."""
    match expression:
        case And(children):
            return children
        case Constant():
            return ()
        case leaf:
            return (leaf,)


LIST_FORM = pa.list_(
    pa.struct(
        [
            ("attribute", pa.string()),
            ("lo", pa.float64()),
            ("hi", pa.float64()),
            ("lo_time", pa.timestamp("us", "UTC")),
            ("hi_time", pa.timestamp("us", "UTC")),
            ("value", pa.float64()),
            ("text", pa.string()),
            ("values", pa.list_(pa.string())),
            ("weight", pa.float64()),
        ]
    )
)


def list_table(records: Sequence[Record]) -> pa.Table:
    """`predicates`: a list of structs. Booleans are written as numbers, so the schema must declare them."""
    column = [[_struct(leaf) for leaf in conditions_of(r.expression)] for r in records]
    return pa.table(_beside(records) | {"predicates": pa.array(column, LIST_FORM)})


def _struct(leaf: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"attribute": leaf.attribute, "weight": None if leaf.weight == 1 else leaf.weight}
    match leaf:
        case IsNull(negated=True):
            return found
        case Compare(operator="=", value=str(value)):
            return found | {"text": value}
        case In(values=values) if isinstance(values[0], str):
            return found | {"values": list(values)}
        case Compare(operator="=", value=value) if not isinstance(value, datetime):
            return found | {"value": float(value)}
    lo, hi = ends_of(leaf)
    time = "_time" if isinstance(lo if lo is not None else hi, datetime) else ""
    return found | {f"lo{time}": _float(lo), f"hi{time}": _float(hi)}


def ends_of(leaf: Any) -> tuple[Any, Any]:
    match leaf:
        case Between(lo=lo, hi=hi, negated=False):
            return lo, hi
        case Compare(operator="=", value=value):
            return value, value
        case Compare(operator=">=", value=value):
            return value, None
        case Compare(operator="<=", value=value):
            return None, value
    raise TypeError(leaf)


ARROW = {
    "number": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "point": pa.struct([("lon", pa.float64()), ("lat", pa.float64())]),
}


def wide_table(records: Sequence[Record], types: dict[str, str]) -> pa.Table:
    """Columns `age_lo` and `age_hi`, or `age`, and `age_weight`. A record names an attribute once, in the order of `types`."""
    columns = _beside(records)
    for name, type_ in types.items():
        said = [next((x for x in conditions_of(r.expression) if x.attribute == name), None) for r in records]
        weights = [None if x is None or x.weight == 1 else x.weight for x in said]
        if type_ in ("number", "timestamp"):
            ends = [(None, None) if x is None else ends_of(x) for x in said]
            columns[f"{name}_lo"] = pa.array([_float(lo) for lo, _ in ends], ARROW[type_])
            columns[f"{name}_hi"] = pa.array([_float(hi) for _, hi in ends], ARROW[type_])
        elif any(isinstance(x, In) for x in said):
            lists = [None if x is None else list(x.values if isinstance(x, In) else (x.value,)) for x in said]
            columns[name] = pa.array(lists, pa.list_(ARROW[type_]))
        else:
            columns[name] = pa.array([None if x is None else x.value for x in said], ARROW[type_])
        if any(w is not None for w in weights):
            columns[f"{name}_weight"] = pa.array(weights, pa.float64())
    return pa.table(columns)


# Events


def event_of(
    event: Happening, rng: Random, *, id: Any = None, until: datetime | None = None, pairs: bool = False
) -> Any:
    """As a dict where that is enough, else as an `Event`; a value in one of the shapes that the documents allow.

    `pairs`: the schema knows which attributes are points. Where it does not, a bare pair is a list of two numbers.
    """
    values = {name: _python_value(value, rng, pairs) for name, value in event.values.items()}
    if not event.weights and id is None and until is None and rng.random() < 0.6:
        return values
    place = None
    if isinstance(event.values.get("place"), tuple) and rng.random() < 0.5:
        place = event.values["place"]
        del values["place"]
    return Event(values, weights=dict(event.weights), id=id, place=place, until=until)


def _python_value(value: Any, rng: Random, pairs: bool) -> Any:
    if isinstance(value, list):
        return [_python_value(v, rng, pairs) for v in value]
    if isinstance(value, dict):
        return {name: _python_value(v, rng, pairs) for name, v in value.items()}
    if isinstance(value, Span):
        return Range(value.lo, value.hi)
    if isinstance(value, tuple):
        lon, lat = value
        geo = {"type": "Point", "coordinates": [lon, lat]}
        return rng.choice(
            (Point(lon, lat), {"lon": lon, "lat": lat}, geo, *(((lon, lat), [lon, lat]) if pairs else ()))
        )
    if isinstance(value, datetime) and rng.random() < 0.2:
        return value.astimezone(timezone(timedelta(hours=3)))
    if isinstance(value, datetime) and value.hour == value.minute == value.second == value.microsecond == 0:
        return rng.choice((value, date(value.year, value.month, value.day)))
    return value


def event_lines(events: Sequence[Happening], types: dict[str, str]) -> list[str]:
    """JSON lines. JSON has no infinity, which stands as an end of a range that is missing, or nowhere."""
    lines = []
    for event in events:
        line: dict[str, Any] = {"values": {n: _json_event_value(v) for n, v in event.values.items()}}
        if event.weights:
            line["weights"] = event.weights
        lines.append(json.dumps(line, allow_nan=False))
    return lines


def _json_event_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_event_value(v) for v in value]
    if isinstance(value, Span):
        ends = {"min": value.lo, "max": value.hi}
        return {k: _json_event_value(v) for k, v in ends.items() if v is not None}
    if isinstance(value, tuple):
        return {"lon": value[0], "lat": value[1]}
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    return None if isinstance(value, float) and math.isnan(value) else value


def event_table(events: Sequence[Happening], types: dict[str, str]) -> pa.Table:
    """The wide form: each column of the plainest type that holds all its values."""
    columns: dict[str, Any] = {}
    for name, type_ in types.items():
        values = [event.values.get(name) for event in events]
        columns[name] = _event_column(values, ARROW[type_])
    if any(event.weights for event in events):
        columns["weights"] = pa.array([list(e.weights.items()) for e in events], pa.map_(pa.string(), pa.float64()))
    return pa.table(columns) if columns else pa.table({"id": pa.array(range(len(events)), pa.int64())})


def _float(value: Any) -> Any:
    """Arrow makes no float of a large integer by itself."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _event_column(values: list[Any], type_: pa.DataType) -> pa.Array:
    if any(isinstance(v, tuple) for v in values):
        return pa.array([None if v is None else {"lon": v[0], "lat": v[1]} for v in values], type_)
    lists = any(isinstance(v, list) for v in values)
    ranged = any(isinstance(x, Span) for v in values for x in (v if isinstance(v, list) else [v]))
    if ranged:
        type_ = pa.struct([("lo", type_), ("hi", type_)])

    def one(value: Any) -> Any:
        if value is None or not ranged:
            return _float(value)
        span = value if isinstance(value, Span) else Span(value, value)
        return {"lo": _float(span.lo), "hi": _float(span.hi)}

    if not lists:
        return pa.array([one(v) for v in values], type_)
    parts = [None if v is None else [one(x) for x in (v if isinstance(v, list) else [v])] for v in values]
    return pa.array(parts, pa.list_(type_))


def event_list_table(events: Sequence[Happening]) -> pa.Table:
    """The list form: `values`, a list of structs; the place in a column of its own. Booleans are written as numbers."""
    column = [
        [
            {"attribute": name, "weight": event.weights.get(name)} | _value_struct(part)
            for name, value in event.values.items()
            if name != "place"
            for part in (value if isinstance(value, list) else [value])
        ]
        for event in events
    ]
    places = [event.values.get("place") for event in events]
    table = {"values": pa.array(column, LIST_FORM)}
    if any(p is not None for p in places):
        table["place"] = _event_column(places, ARROW["point"])
    return pa.table(table)


def _value_struct(part: Any) -> dict[str, Any]:
    if isinstance(part, Span):
        time = "_time" if isinstance(part.lo, datetime) or isinstance(part.hi, datetime) else ""
        return {f"lo{time}": _float(part.lo), f"hi{time}": _float(part.hi)}
    if isinstance(part, datetime):
        return {"lo_time": part, "hi_time": part}
    if isinstance(part, str):
        return {"text": part}
    return {} if part is None else {"value": float(part)}
