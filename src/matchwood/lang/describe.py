"""Rows as text, for explanations and listings.

Normalising turns `age < 18` into keys up to the float before 18. Of the two ways to write such an end (`<= 17.999999999999996`,
`< 18`) the shorter one is chosen, so that users read what they wrote. `parse` makes the same rows from the text again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matchwood.errors import SchemaError
from matchwood.lang import places
from matchwood.lang.describe_grades import with_grades
from matchwood.lang.describe_tests import shown_test, test_conditions
from matchwood.lang.expression import And, Expression, Not, Or, Predicate, all_of, any_of
from matchwood.lang.intervals import EVERYTHING, IntervalSet, closed, next_whole
from matchwood.lang.leaves import needed_by, values_in
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.operators import ListOperator, Operator, Quantifier, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, box_of, geometry_of_parts
from matchwood.lang.row import Absent, Counted, Holds, Placed, Row, RowPredicate
from matchwood.lang.written import literal
from matchwood.schema import CODED, UNKNOWN_SYMBOL, Attribute, Point, Scalar, Schema, Type
from matchwood.schema.functions import has_conditions, is_hidden


def describe_rows(rows: tuple[Row, ...], schema: Schema) -> str:
    """The rows as one expression.

    >>> from matchwood.lang.parser import parse
    >>> from matchwood.lang.rows import normalise
    >>> schema = Schema()
    >>> describe_rows(normalise(parse("NOT (age >= 18 OR plan IN ('pro', 'free'))"), schema), schema)
    "NOT (age >= 18) AND plan NOT IN ('pro', 'free')"
    """
    texts = [" AND ".join(describe_predicate(p, schema) for p in row.predicates) or "TRUE" for row in rows]
    return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


def describe_predicate(predicate: RowPredicate, schema: Schema) -> str:
    """One predicate, with its weight unless that is 1. If it takes several conditions, the first has the weight."""
    if isinstance(predicate, Absent):
        return str(IsNull(predicate.attribute, predicate.weight))
    if isinstance(predicate, Placed):
        found = _place_conditions(predicate)
    else:
        assert isinstance(predicate, Holds)
        if is_hidden(predicate.attribute):
            found = test_conditions(predicate, schema)
        else:
            found = _conditions(predicate, schema.find(predicate.attribute), schema)
    conditions = with_grades(_weighed(found, predicate.weight), predicate, schema)
    return " AND ".join(f"({condition})" if isinstance(condition, Or) else str(condition) for condition in conditions)


def describe_value(attribute: str, value: IntervalSet | Point | None, schema: Schema) -> str:
    """The value of an event; an absent one is NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, Point):
        return f"POINT({value.lon!r} {value.lat!r})"
    known = schema.find(attribute)
    if is_hidden(attribute):
        codes = [int(lo) for lo, _ in value.parts if lo != UNKNOWN_SYMBOL]
        return " and ".join([shown_test(str(schema.value(known, code))) for code in codes]) or (
            "no condition on its objects holds" if has_conditions(attribute) else "passes no test"
        )
    if known.type is Type.OBJECTS:
        return "objects"
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


def _conditions(predicate: Holds, known: Attribute, schema: Schema) -> list[Expression]:
    """Conditions that make the predicate again: what a value meets, what none may meet, and the counts."""
    keys, none = predicate.keys, predicate.none
    asked = keys
    is_needed = not predicate.grades and any(keys in needed_by(count, known.type) for count in predicate.counts)
    if is_needed or keys == values_in(~none, known.type):
        asked = EVERYTHING  # the other conditions imply it
    elif not _is_listed(keys):  # what `none` excludes between the keys need not be left out of them again
        asked = IntervalSet.of(keys.parts + (none & closed(*keys.hull)).parts)
    is_graded = bool(
        predicate.grades
    )  # by the values that meet `keys`, so these are written as a set of values, not as a count
    found = [] if asked == EVERYTHING else _meeting(known, asked, None, schema, as_spans=is_graded)
    found += _excluding(known, none, schema) if none else []
    for count in predicate.counts:
        found += _counting(known, count, schema)
    return found or [IsNull(known.name, negated=True)]


def _meeting(
    known: Attribute, keys: IntervalSet, quantifier: Quantifier | None, schema: Schema, *, as_spans: bool = False
) -> list[Expression]:
    """A value is among the keys."""
    if _is_listed(keys):
        return [_listing(known, keys, quantifier, schema)]
    if not as_spans and _is_listed(gaps := values_in(~keys, known.type)):  # some value is none of the gaps
        return [Not(_listing(known, gaps, Quantifier.ALL, schema))]
    spans = [_span_conditions(known, lo, hi, quantifier, schema) for lo, hi in keys.parts]
    return list(spans[0]) if len(spans) == 1 else [any_of(*(all_of(*span) for span in spans))]


def _is_listed(keys: IntervalSet) -> bool:
    """Are they single keys?"""
    return all(lo == hi for lo, hi in keys.parts)


def _listing(
    known: Attribute, keys: IntervalSet, quantifier: Quantifier | None, schema: Schema, *, negated: bool = False
) -> Predicate:
    values = _values(known, keys, schema)
    if len(values) > 1:
        return In(known.name, values=values, negated=negated, quantifier=quantifier)
    operator = Operator.NE if negated else Operator.EQ
    return Compare(known.name, operator=operator, value=values[0], quantifier=quantifier)


def _values(known: Attribute, keys: IntervalSet, schema: Schema) -> tuple[Scalar, ...]:
    return tuple(schema.value(known, lo) for lo, _ in keys.parts)


def _excluding(known: Attribute, none: IntervalSet, schema: Schema) -> list[Expression]:
    """No value is among the keys."""
    allowed = values_in(~none, known.type)
    if _is_listed(none):
        return [_listing(known, none, None, schema, negated=True)]
    if _is_listed(allowed):
        return [Lists(known.name, operator=ListOperator.CONTAINED_BY, values=_values(known, allowed, schema))]
    if allowed.count == 1 and none.count == 2:
        return [*_span_conditions(known, *allowed.parts[0], Quantifier.ALL, schema)]
    single = IntervalSet(tuple((lo, hi) for lo, hi in none.parts if lo == hi))
    found: list[Expression] = [_listing(known, single, None, schema, negated=True)] if single else []
    for lo, hi in (none - single).parts:
        (condition,) = _span_conditions(known, lo, hi, Quantifier.ANY, schema)
        if isinstance(condition, Between):
            found.append(Between(known.name, lo=condition.lo, hi=condition.hi, negated=True))
        else:
            found.append(Not(Compare(known.name, operator=condition.operator, value=condition.value)))
    return found


def _counting(known: Attribute, count: Counted, schema: Schema) -> list[Expression]:
    name = known.name
    if count.is_any:
        return _meeting(known, count.keys, Quantifier.ANY, schema)
    values = _values(known, count.keys, schema)
    if count.least == len(values):
        return [Lists(name, operator=ListOperator.CONTAINS, values=values)]
    if count.least == count.most:
        return [ListCount(name, values=values, operator=Operator.EQ, count=count.least)]
    found: list[Expression] = []
    if count.least > 0:
        found.append(ListCount(name, values=values, operator=Operator.GE, count=count.least))
    if count.most != math.inf:
        found.append(ListCount(name, values=values, operator=Operator.LE, count=int(count.most)))
    return found


def _span_conditions(
    known: Attribute, lo: float, hi: float, quantifier: Quantifier | None, schema: Schema
) -> list[Compare | Between]:
    """The interval from lo to hi: one comparison or BETWEEN; without a quantifier two comparisons if it is open at an end."""
    name = known.name
    if lo == hi:
        return [Compare(name, operator=Operator.EQ, value=schema.value(known, lo), quantifier=quantifier)]
    (low, below), (high, above) = _ends(known, lo, hi, schema)
    at_least = Compare(name, operator=Operator.GT if below else Operator.GE, value=low, quantifier=quantifier)
    at_most = Compare(name, operator=Operator.LT if above else Operator.LE, value=high, quantifier=quantifier)
    if lo == -math.inf:
        return [at_most]
    if hi == math.inf:
        return [at_least]
    if not below and not above:
        return [Between(name, lo=low, hi=high, quantifier=quantifier)]
    if quantifier is None:
        return [at_least, at_most]
    # Two comparisons could be met by different values.
    return [Between(name, lo=schema.value(known, lo), hi=schema.value(known, hi), quantifier=quantifier)]


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
    """The circles and regions, and the box unless they imply it."""
    name, lon, lat = predicate.attribute, EVERYTHING, EVERYTHING
    conditions: list[Expression] = []
    for circle in predicate.circles:
        within = DWithin(name, centre=circle.centre, radius=circle.radius)
        conditions.append(Not(within) if circle.outside else within)
        if not circle.outside:
            box = places.box_around_circle(circle.centre, circle.radius)
            lon, lat = lon & box[0], lat & box[1]
    for region in predicate.regions:
        operator, negated = _ASKED[region.accepts]
        asked = Spatial(name, operator=operator, geometry=geometry_of_parts(region.parts))
        conditions.append(Not(asked) if negated else asked)
        if not region.accepts & OUTSIDE:
            box = box_of(region.parts)
            lon, lat = lon & box[0], lat & box[1]
    if (predicate.lon, predicate.lat) != (lon, lat):
        conditions += _box_conditions(name, predicate.lon, predicate.lat)
    return conditions or [IsNull(name, negated=True)]


_ASKED = {
    BOUNDARY | INSIDE: (SpatialOperator.INTERSECTS, False),
    INSIDE: (SpatialOperator.WITHIN, False),
    BOUNDARY: (SpatialOperator.TOUCHES, False),
    OUTSIDE: (SpatialOperator.DISJOINT, False),
    OUTSIDE | BOUNDARY: (SpatialOperator.WITHIN, True),
    OUTSIDE | INSIDE: (SpatialOperator.TOUCHES, True),
}
"""The operator of what a region accepts, and whether it is negated."""


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
    return [_with_weight(condition, own) for condition, own in zip(conditions, weights, strict=True)]


def _with_weight(condition: Expression, weight: float) -> Expression:
    if isinstance(condition, Not):
        return Not(_with_weight(condition.child, weight))
    if isinstance(condition, Or):
        return any_of(*(_with_weight(child, weight) for child in condition.children))
    if isinstance(condition, And):
        return all_of(*_weighed(condition.children, weight))
    return condition ^ weight
