"""Normal form: an Expression as rows, each a conjunction with at most one predicate for each attribute.

    NOT   is pushed to the predicates, which are complemented (an absent attribute still makes them false)
    AND   on one attribute intersects interval sets and adds weights
    OR    on one attribute of equal weight unites interval sets; otherwise it makes another row

The attributes of a row are in the order of their first condition. Rows that can never hold are dropped, in both modes of matching
(docs/decisions/contradictions.md); if none is left, the expression is refused with the reason. Interval sets contain the values
of the type of their attribute and nothing between them (`values_in`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeGuard

from matchwood import geo
from matchwood.errors import ExpressionError, NeverMatchesError, TooComplexError, ValueTypeError
from matchwood.lang import places
from matchwood.lang.expression import (
    And,
    BBox,
    Between,
    Compare,
    Constant,
    DWithin,
    Expression,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    Shape,
)
from matchwood.lang.intervals import EVERYTHING, IntervalSet, above, at_least, at_most, below, closed, points
from matchwood.lang.places import Circle
from matchwood.schema import Attribute, Scalar, Schema, Type, type_of

MAX_ROWS = 1_000
"""The default limit for the rows of a normal form."""


@dataclass(frozen=True, slots=True)
class Holds:
    """The value of the event shares a key with `keys`."""

    attribute: str
    weight: float
    keys: IntervalSet


@dataclass(frozen=True, slots=True)
class Absent:
    """The event lacks the attribute."""

    attribute: str
    weight: float


@dataclass(frozen=True, slots=True)
class Placed:
    """The event's point lies in the box and satisfies every circle."""

    attribute: str
    weight: float
    lon: IntervalSet
    lat: IntervalSet
    circles: tuple[Circle, ...] = ()


RowPredicate = Holds | Absent | Placed


@dataclass(frozen=True, slots=True)
class Row:
    """One conjunction; without predicates it holds for every event."""

    predicates: tuple[RowPredicate, ...]


def normalise(expression: Expression, schema: Schema, *, max_rows: int = MAX_ROWS) -> tuple[Row, ...]:
    """The rows of an expression, at least one. Cost grows with the product of the ORs under an AND.

    Names, types and strings are looked up in the schema (and learnt, if it learns). Raises `TooComplexError` past `max_rows`,
    `NeverMatchesError` if no event can match, `SchemaError` for a value of the wrong type.

    >>> from matchwood.lang.parser import parse
    >>> [len(row.predicates) for row in normalise(parse("a > 1 AND a <= 5 AND (b = 1 OR c = 2)"), Schema())]
    [2, 2]
    """
    reasons: list[str] = []
    try:
        rows = _Normaliser(schema, max_rows, reasons).rows(expression, negated=False)
    except RecursionError:
        raise TooComplexError("the expression is nested too deeply") from None
    if not rows:
        reason = reasons[0] if reasons else "it is always false"
        raise NeverMatchesError(f"no event can match: {reason}")
    return tuple(Row(tuple(row.values())) for row in rows)


def conjunction(predicates: Iterable[RowPredicate]) -> Row:
    """One row from predicates that may name an attribute several times: those are intersected and their weights added, as by AND.

    Raises `NeverMatchesError` if no event can match.
    """
    reasons: list[str] = []
    merged = _merged(({predicate.attribute: predicate} for predicate in predicates), reasons)
    if merged is None:
        raise NeverMatchesError(f"no event can match: {reasons[0]}")
    return Row(tuple(merged.values()))


_Draft = dict[str, RowPredicate]
"""A row under construction: attribute -> predicate, in order of appearance."""


class _Normaliser:
    def __init__(self, schema: Schema, max_rows: int, reasons: list[str]) -> None:
        self.schema = schema
        self.max_rows = max_rows
        self.reasons = reasons

    def rows(self, expression: Expression, *, negated: bool) -> list[_Draft]:
        if isinstance(expression, Not):
            return self.rows(expression.child, negated=not negated)
        if isinstance(expression, Constant):
            return [{}] if expression.value is not negated else []
        if isinstance(expression, And | Or):
            parts = [self.rows(child, negated=negated) for child in expression.children]
            return self._conjunction(parts) if isinstance(expression, And) is not negated else self._disjunction(parts)
        assert isinstance(expression, Predicate)
        return [
            {p.attribute: p} for p in leaf_predicates(expression, self.schema, negated) if self._possible(p, expression)
        ]

    def _possible(self, predicate: RowPredicate, source: Expression) -> bool:
        possible = _can_hold(predicate)
        if not possible:
            self.reasons.append(f"{source} leaves no value")
        return possible

    def _conjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        self._check_size(math.prod(map(len, parts)))
        return _distinct([row for choice in product(*parts) if (row := _merged(choice, self.reasons)) is not None])

    def _disjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        rows: list[_Draft] = []
        # The rows that unite: (attribute, weight) -> position in `rows`, intervals.
        alike: dict[tuple[str, float], tuple[int, list[tuple[float, float]]]] = {}
        for draft in (draft for part in parts for draft in part):
            (predicate,) = draft.values() if len(draft) == 1 else (None,)
            if isinstance(predicate, Holds):
                row, intervals = alike.setdefault((predicate.attribute, predicate.weight), (len(rows), []))
                intervals.extend(predicate.keys.parts)
                if row < len(rows):
                    continue
            rows.append(draft)
        for (attribute, weight), (row, intervals) in alike.items():
            keys = values_in(IntervalSet.of(intervals), self.schema.find(attribute).type)
            rows[row] = {attribute: Holds(attribute, weight, keys)}
        rows = _distinct(rows)
        self._check_size(len(rows))
        return rows

    def _check_size(self, size: int) -> None:
        if size > self.max_rows:
            rows = str(size) if size < 10**15 else "more than 10^15"
            raise TooComplexError(
                f"the normal form has {rows} rows, the limit is {self.max_rows}; split the subscription"
            )


def _merged(drafts: Iterable[_Draft], reasons: list[str]) -> _Draft | None:
    """The conjunction of drafts; None if it can never hold, with the reason appended to `reasons`."""
    groups: dict[str, list[RowPredicate]] = {}
    for draft in drafts:
        for attribute, predicate in draft.items():
            groups.setdefault(attribute, []).append(predicate)
    merged: _Draft = {}
    for attribute, predicates in groups.items():
        together = predicates[0] if len(predicates) == 1 else _together(predicates)
        if together is None or not _can_hold(together):
            reasons.append(f"the conditions on {attribute!r} exclude each other")
            return None
        merged[attribute] = together
    return merged


def leaf_predicates(predicate: Predicate, schema: Schema, negated: bool) -> list[RowPredicate]:
    """A predicate of the tree as alternatives (several only for the outside of a box)."""
    name, weight = predicate.attribute, predicate.weight
    if isinstance(predicate, IsNull):
        if predicate.negated is negated:
            schema.find(name)
            return [Absent(name, weight)]
        return [_present(schema.find(name), weight)]
    if isinstance(predicate, DWithin | BBox):
        schema.attribute_for(name, Type.POINT)
        return _placed(predicate, negated)
    keys = _keys(predicate, schema)
    if negated is not getattr(predicate, "negated", False):
        keys = ~keys
    return [Holds(name, weight, values_in(keys, schema.find(name).type))]


def values_in(keys: IntervalSet, type_: Type | None) -> IntervalSet:
    """The values of a type in a set of keys, in canonical form.

    The keys of a bool are 0 and 1 (both together are every value), those of a timestamp are whole microseconds. Keys between them
    are no values, but a range of an event could share one. The keys of strings are whole numbers too; their sets stay as they
    are, since an event cannot have a range of strings.

    >>> values_in(~points([0.0]) & ~points([1.0]), Type.BOOL)
    IntervalSet(parts=())
    """
    if type_ is Type.TIMESTAMP:
        return keys.whole()
    if type_ is Type.BOOL:
        held = (keys & _BOTH).whole()
        return EVERYTHING if held == _BOTH else held
    return keys


_BOTH = closed(0.0, 1.0)
"""Both values of a bool."""


def _keys(predicate: Predicate, schema: Schema) -> IntervalSet:
    if isinstance(predicate, Compare):
        return _COMPARISONS[predicate.operator](_key(schema, predicate, predicate.value, predicate.operator))
    if isinstance(predicate, Between):
        ends = [predicate.lo, predicate.hi]
        backward = _is_infinite(predicate.lo)  # the other end decides the type, if it is not known
        keys = [_key(schema, predicate, end, "BETWEEN") for end in (reversed(ends) if backward else ends)]
        return closed(*(reversed(keys) if backward else keys))
    assert isinstance(predicate, In)
    return points([_key(schema, predicate, value, "IN") for value in predicate.values])


_COMPARISONS = {
    Operator.EQ: lambda key: points([key]),
    Operator.NE: lambda key: ~points([key]),
    Operator.LT: below,
    Operator.LE: at_most,
    Operator.GT: above,
    Operator.GE: at_least,
}
_EQUALITIES = frozenset({Operator.EQ, Operator.NE, "IN"})


def _key(schema: Schema, predicate: Predicate, value: Scalar, operator: str) -> float:
    type_ = type_of(value)
    if type_ is Type.STRING:
        known = schema.get(predicate.attribute)
        if known is not None and known.type is Type.TIMESTAMP:
            type_ = Type.TIMESTAMP
        elif operator not in _EQUALITIES and (known is None or known.type in (None, Type.STRING)):
            raise ValueTypeError(
                f"attribute {predicate.attribute!r}: strings have no order, so {operator} is refused; use =, != or IN"
            )
    elif _is_infinite(value):
        known = schema.get(predicate.attribute)
        if known is not None and known.type is Type.TIMESTAMP:
            return float(value)
    try:
        attribute = schema.attribute_for(predicate.attribute, type_)
    except ValueTypeError as error:
        raise error.about(f"{predicate}") from None
    return schema.key(attribute, value)


def _is_infinite(value: Scalar) -> TypeGuard[float]:
    return isinstance(value, float) and math.isinf(value)


def _present(attribute: Attribute, weight: float) -> RowPredicate:
    if attribute.type is Type.POINT:
        return Placed(attribute.name, weight, EVERYTHING, EVERYTHING)
    return Holds(attribute.name, weight, EVERYTHING)


def _placed(predicate: DWithin | BBox, negated: bool) -> list[RowPredicate]:
    name, weight = predicate.attribute, predicate.weight
    if isinstance(predicate, DWithin) and predicate.shape is Shape.CIRCLE:
        circle = Circle(predicate.centre, predicate.radius, outside=negated)
        box = (EVERYTHING, EVERYTHING) if negated else places.box_around_circle(predicate.centre, predicate.radius)
        return [Placed(name, weight, *box, (circle,))]
    if isinstance(predicate, DWithin):
        lon, lat = places.square(predicate.centre, predicate.radius)
    else:
        lon, lat = places.longitudes(predicate.west, predicate.east), closed(predicate.south, predicate.north)
    if not negated:
        return [Placed(name, weight, lon, lat)]
    beside, above_or_below = places.LONGITUDES - lon, places.LATITUDES - lat
    return [Placed(name, weight, beside, EVERYTHING), Placed(name, weight, EVERYTHING, above_or_below)]


def _together(predicates: Sequence[RowPredicate]) -> RowPredicate | None:
    """The conjunction of several predicates on one attribute; None if they exclude each other. O(n log n) in their parts."""
    weight = 0.0
    for predicate in predicates:  # not `sum`, whose rounding depends on the version of Python
        weight += predicate.weight
    name = predicates[0].attribute
    if weight == math.inf:
        raise ExpressionError(f"attribute {name!r}: the sum of its weights exceeds float64; use smaller weights")
    absent = [isinstance(predicate, Absent) for predicate in predicates]
    if any(absent):
        return Absent(name, weight) if all(absent) else None
    placed = [predicate for predicate in predicates if isinstance(predicate, Placed)]
    if not placed:
        return Holds(name, weight, _intersection([p.keys for p in predicates if isinstance(p, Holds)]))
    # A `Holds` here is an IS NOT NULL that was read before the type of the attribute was known: it adds only its weight.
    circles = tuple(dict.fromkeys(circle for predicate in placed for circle in predicate.circles))
    lon, lat = _intersection([p.lon for p in placed]), _intersection([p.lat for p in placed])
    return Placed(name, weight, lon, lat, circles)


def _intersection(sets: Sequence[IntervalSet]) -> IntervalSet:
    """By halves: one after the other would be quadratic for many `!=`."""
    if len(sets) == 1:
        return sets[0]
    half = len(sets) // 2
    return _intersection(sets[:half]) & _intersection(sets[half:])


def _can_hold(predicate: RowPredicate) -> bool:
    if isinstance(predicate, Holds):
        return bool(predicate.keys)
    if isinstance(predicate, Absent):
        return True
    nowhere = any(circle.outside and circle.radius >= geo.HALF_TURN_M for circle in predicate.circles)
    return bool(predicate.lon) and bool(predicate.lat) and not nowhere


def _distinct(rows: list[_Draft]) -> list[_Draft]:
    if len(rows) < 2:
        return rows
    return list({tuple(row.items()): row for row in rows}.values())
