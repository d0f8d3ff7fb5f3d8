"""Rows as text, for explanations and listings.

Normalising turns `age < 18` into keys up to the float before 18. Of the two ways to write such an end (`<= 17.999999999999996`,
`< 18`) the shorter one is chosen, so that users read what they wrote. `parse` makes the same rows from the text again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matchwood.errors import SchemaError
from matchwood.lang import places
from matchwood.lang.expression import (
    BBox,
    Between,
    Compare,
    DWithin,
    Expression,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    all_of,
    any_of,
    literal,
)
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed, next_whole
from matchwood.lang.leaves import values_in
from matchwood.lang.row import Absent, Holds, Placed, Row, RowPredicate
from matchwood.schema import CODED, UNKNOWN_SYMBOL, Attribute, Point, Scalar, Schema, Type


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
    """One predicate, with its weight unless that is 1. If it takes several conditions, the first has the weight."""
    if isinstance(predicate, Absent):
        return str(IsNull(predicate.attribute, predicate.weight))
    if isinstance(predicate, Placed):
        return " AND ".join(map(str, _weighed(_place_conditions(predicate), predicate.weight)))
    if predicate.keys == EVERYTHING:
        return str(IsNull(predicate.attribute, predicate.weight, negated=True))
    condition = _keys_condition(predicate, schema)
    return f"({condition})" if isinstance(condition, Or) else str(condition)


def describe_value(attribute: str, value: IntervalSet | Point | None, schema: Schema) -> str:
    """The value of an event; an absent one is NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, Point):
        return f"POINT({value.lon!r} {value.lat!r})"
    known = schema.find(attribute)
    if known.type in CODED:
        parts = [
            f"{_A[known.type]} no subscription names" if lo == UNKNOWN_SYMBOL else literal(schema.value(known, lo))
            for lo, _ in value.parts
        ]
    else:
        ends = [(lo,) if lo == hi else (lo, hi) for lo, hi in value.parts]
        parts = [" to ".join(literal(schema.value(known, key)) for key in keys) for keys in ends]
    return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


_A = {Type.STRING: "a string", Type.ID: "an id"}


def _keys_condition(predicate: Holds, schema: Schema) -> Expression:
    attribute, weight = predicate.attribute, predicate.weight
    known = schema.find(attribute)
    held, gaps = predicate.keys, values_in(~predicate.keys, known.type)
    for keys, negated in ((held, False), (gaps, True)):
        if all(lo == hi for lo, hi in keys.parts):
            values = tuple(schema.value(known, lo) for lo, _ in keys.parts)
            if len(values) > 1:
                return In(attribute, weight, values=values, negated=negated)
            return Compare(attribute, weight, operator=Operator.NE if negated else Operator.EQ, value=values[0])
    if len(gaps.parts) == 1 and len(held.parts) == 2:
        (low, below), (high, above) = _ends(known, *gaps.parts[0], schema)
        if not below and not above:
            return Between(attribute, weight, lo=low, hi=high, negated=True)
    spans = [all_of(*_weighed(_span_conditions(known, lo, hi, schema), weight)) for lo, hi in held.parts]
    return any_of(*spans)


def _span_conditions(known: Attribute, lo: float, hi: float, schema: Schema) -> list[Predicate]:
    """The interval from lo to hi: one comparison or BETWEEN, or two comparisons if it is open at an end."""
    if lo == hi:
        return [Compare(known.name, operator=Operator.EQ, value=schema.value(known, lo))]
    (low, below), (high, above) = _ends(known, lo, hi, schema)
    at_least = Compare(known.name, operator=Operator.GT if below else Operator.GE, value=low)
    at_most = Compare(known.name, operator=Operator.LT if above else Operator.LE, value=high)
    if lo == -math.inf:
        return [at_most]
    if hi == math.inf:
        return [at_least]
    if below or above:
        return [at_least, at_most]
    return [Between(known.name, lo=low, hi=high)]


def _ends(known: Attribute, lo: float, hi: float, schema: Schema) -> tuple[tuple[Scalar, bool], tuple[Scalar, bool]]:
    return _end(known, lo, -math.inf, schema), _end(known, hi, math.inf, schema)


def _end(known: Attribute, key: float, outward: float, schema: Schema) -> tuple[Scalar, bool]:
    """An end as a value, and whether it is open. An open end is the next value outward, used if it is shorter or the only one."""
    if math.isinf(key):
        return key, False
    closed = _value_of(known, key, schema)
    beyond = next_whole(key, outward) if known.type is Type.TIMESTAMP else math.nextafter(key, outward)
    opened = _value_of(known, beyond, schema)
    if closed is None or (opened is not None and len(literal(opened)) < len(literal(closed))):
        assert opened is not None
        return opened, True
    return closed, False


def _value_of(known: Attribute, key: float, schema: Schema) -> Scalar | None:
    """The value of a key; None if there is none (a year that `datetime` lacks, the float after TRUE)."""
    try:
        value = schema.value(known, key)
        return value if schema.key(known, value) == key else None
    except (OverflowError, SchemaError):
        return None


def _place_conditions(predicate: Placed) -> list[Expression]:
    """The circles, and the box unless the circles imply it."""
    name, lon, lat = predicate.attribute, EVERYTHING, EVERYTHING
    conditions: list[Expression] = []
    for circle in predicate.circles:
        within = DWithin(name, centre=circle.centre, radius=circle.radius)
        conditions.append(Not(within) if circle.outside else within)
        if not circle.outside:
            box = places.box_around_circle(circle.centre, circle.radius)
            lon, lat = lon & box[0], lat & box[1]
    if (predicate.lon, predicate.lat) != (lon, lat):
        conditions += _box_conditions(name, predicate.lon, predicate.lat)
    return conditions or [IsNull(name, negated=True)]


def _box_conditions(name: str, lon: IntervalSet, lat: IntervalSet) -> list[Expression]:
    """One box if that is enough; otherwise the complements of boxes."""
    if len(lat.parts) == 1 and (len(lon.parts) == 1 or (len(lon.parts) == 2 and -180.0 in lon)):
        west, east = lon.parts[-1][0], lon.parts[0][1]  # of two parts: across the antimeridian
        south, north = lat.hull
        box = BBox(name, west=max(west, -180.0), east=min(east, 180.0), south=max(south, -90.0), north=min(north, 90.0))
        if (places.longitudes(box.west, box.east), closed(box.south, box.north)) == (lon, lat):
            return [box]
    beside = (places.LONGITUDES - lon).parts
    across = (places.LATITUDES - lat).parts
    gaps = [BBox(name, west=west, east=east, south=-90.0, north=90.0) for west, east in beside]
    gaps += [BBox(name, west=-180.0, east=180.0, south=south, north=north) for south, north in across]
    return [Not(gap) for gap in gaps]


def _weighed(conditions: Sequence[Expression], weight: float) -> list[Expression]:
    """The conditions of one predicate with its weight on the first: the weights of a conjunction add up."""
    weights = [weight] + [0.0] * (len(conditions) - 1)
    return [Not(c.child ^ w) if isinstance(c, Not) else c ^ w for c, w in zip(conditions, weights, strict=True)]
