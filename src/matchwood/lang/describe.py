"""Rows back to words: what a normalised predicate says, in the text language, for explanations and listings.

Normalising has turned `age < 18` into keys up to the float before 18; of the two ways to write an end (`<= 17.999999999999996`,
`< 18`) the shorter one is chosen, so that people read what they wrote. `parse` accepts all of it.
"""

from __future__ import annotations

import math

from matchwood.lang.expression import BBox, DWithin, IsNull, literal, name
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.rows import Absent, Holds, Placed, Row, RowPredicate
from matchwood.schema import Point, Schema, Type


def describe_rows(rows: tuple[Row, ...], schema: Schema) -> str:
    """The rows as one expression.

    >>> from matchwood.lang.parser import parse
    >>> from matchwood.lang.rows import normalise
    >>> schema = Schema()
    >>> describe_rows(normalise(parse("NOT (age >= 18 OR plan IN ('pro', 'free'))"), schema), schema)
    "age < 18 AND plan NOT IN ('pro', 'free')"
    """
    texts = [" AND ".join(describe_predicate(p, schema) for p in row.predicates) or "TRUE" for row in rows]
    return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


def describe_predicate(predicate: RowPredicate, schema: Schema) -> str:
    """One predicate, with its weight unless that is 1."""
    weight = "" if predicate.weight == 1.0 else f" ^{predicate.weight!r}"
    if isinstance(predicate, Absent):
        return f"{IsNull(predicate.attribute)}{weight}"
    if isinstance(predicate, Placed):
        return _describe_place(predicate) + weight
    return _describe_keys(predicate, schema, weight)


def describe_value(attribute: str, value: IntervalSet | Point | None, schema: Schema) -> str:
    """An event's value; an absent one is NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, Point):
        return f"POINT({value.lon!r} {value.lat!r})"
    known = schema.find(attribute)
    parts = []
    for lo, hi in value.parts:
        ends = [literal(schema.value(known, key)) for key in ((lo,) if lo == hi else (lo, hi))]
        parts.append(" to ".join(ends))
    return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


def _describe_keys(predicate: Holds, schema: Schema, weight: str) -> str:
    if predicate.keys == EVERYTHING:
        return f"{IsNull(predicate.attribute, negated=True)}{weight}"
    known = schema.find(predicate.attribute)
    gaps = ~predicate.keys
    for keys, one, several in ((predicate.keys, "=", "IN"), (gaps, "!=", "NOT IN")):
        if all(lo == hi for lo, hi in keys.parts):
            values = [literal(schema.value(known, lo)) for lo, _ in keys.parts]
            text = f"{one} {values[0]}" if len(values) == 1 else f"{several} ({', '.join(values)})"
            return f"{name(predicate.attribute)} {text}{weight}"
    if len(gaps.parts) == 1 and len(predicate.keys.parts) == 2:
        ((lo, hi),) = gaps.parts
        return f"NOT ({_describe_span(predicate.attribute, lo, hi, schema)}{weight})"
    spans = [f"{_describe_span(predicate.attribute, lo, hi, schema)}{weight}" for lo, hi in predicate.keys.parts]
    return spans[0] if len(spans) == 1 else f"({' OR '.join(spans)})"


def _describe_span(attribute: str, lo: float, hi: float, schema: Schema) -> str:
    low, below = _end(attribute, lo, -math.inf, schema)
    high, above = _end(attribute, hi, math.inf, schema)
    column = name(attribute)
    if lo == hi:
        return f"{column} = {_literal_key(attribute, lo, schema)}"
    if lo == -math.inf:
        return f"{column} {'<' if above else '<='} {high}"
    if hi == math.inf:
        return f"{column} {'>' if below else '>='} {low}"
    if not below and not above:
        return f"{column} BETWEEN {low} AND {high}"
    return f"{column} {'>' if below else '>='} {low} AND {column} {'<' if above else '<='} {high}"


def _end(attribute: str, key: float, outward: float, schema: Schema) -> tuple[str, bool]:
    """An end as text, and whether it is open: the neighbour further out, if that is shorter to write."""
    closed = _literal_key(attribute, key, schema)
    if math.isinf(key) or schema.find(attribute).type not in (Type.NUMBER, Type.TIMESTAMP):
        return closed, False
    neighbour = math.nextafter(key, outward)
    if math.isinf(neighbour) or (schema.find(attribute).type is Type.TIMESTAMP and neighbour != round(neighbour)):
        return closed, False
    opened = _literal_key(attribute, neighbour, schema)
    return (opened, True) if len(opened) < len(closed) else (closed, False)


def _literal_key(attribute: str, key: float, schema: Schema) -> str:
    return literal(schema.value(schema.find(attribute), key))


def _describe_place(predicate: Placed) -> str:
    if predicate.circles:
        texts = []
        for circle in predicate.circles:
            text = str(DWithin(predicate.attribute, centre=circle.centre, radius=circle.radius))
            texts.append(f"NOT ({text})" if circle.outside else text)
        return " AND ".join(texts)
    if (predicate.lon, predicate.lat) == (EVERYTHING, EVERYTHING):
        return str(IsNull(predicate.attribute, negated=True))
    boxes = [
        str(
            BBox(
                predicate.attribute,
                west=max(west, -180.0),
                east=min(east, 180.0),
                south=max(south, -90.0),
                north=min(north, 90.0),
            )
        )
        for west, east in predicate.lon.parts
        for south, north in predicate.lat.parts
    ]
    return boxes[0] if len(boxes) == 1 else f"({' OR '.join(boxes)})"
