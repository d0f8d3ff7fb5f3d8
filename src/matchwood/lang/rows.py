"""Normal form: an Expression becomes rows, each a conjunction in which an attribute stands at most once.

    NOT   is pushed to the predicates, which are complemented (an absent attribute still makes them false)
    AND   on one attribute intersects interval sets and adds weights
    OR    on one attribute of equal weight unites interval sets; otherwise it makes another row

A row keeps its predicates in the order in which the expression first names their attributes. Rows that can
never hold are dropped;
if none is left, the expression is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from matchwood.errors import NeverMatchesError, TooComplexError, ValueTypeError
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
"""How many rows a normal form may have unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Holds:
    """The event's value of the attribute meets `keys`."""

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
    """One conjunction; with no predicate at all it holds for every event."""

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


_Draft = dict[str, RowPredicate]
"""A row in the making: attribute -> predicate, in order of appearance."""


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
        size = 1
        for part in parts:
            size *= len(part)
        if size > self.max_rows:
            raise TooComplexError(
                f"the normal form has {size} rows, the limit is {self.max_rows}; split the subscription"
            )
        return _distinct([row for choice in product(*parts) if (row := self._merged(choice)) is not None])

    def _merged(self, drafts: tuple[_Draft, ...]) -> _Draft | None:
        merged: _Draft = {}
        for draft in drafts:
            for attribute, predicate in draft.items():
                before = merged.get(attribute)
                both = predicate if before is None else _both(before, predicate)
                if both is None or not _can_hold(both):
                    self.reasons.append(f"the conditions on {attribute!r} exclude one another")
                    return None
                merged[attribute] = both
        return merged

    def _disjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        rows: list[_Draft] = []
        united: dict[tuple[str, float], int] = {}
        for draft in (draft for part in parts for draft in part):
            (predicate,) = draft.values() if len(draft) == 1 else (None,)
            if isinstance(predicate, Holds):
                place = united.setdefault((predicate.attribute, predicate.weight), len(rows))
                if place < len(rows):
                    before = rows[place][predicate.attribute]
                    assert isinstance(before, Holds)
                    rows[place] = {predicate.attribute: replace(before, keys=before.keys | predicate.keys)}
                    continue
            rows.append(draft)
        rows = _distinct(rows)
        if len(rows) > self.max_rows:
            raise TooComplexError(
                f"the normal form has {len(rows)} rows, the limit is {self.max_rows}; split the subscription"
            )
        return rows


def leaf_predicates(predicate: Predicate, schema: Schema, negated: bool) -> list[RowPredicate]:
    """What a predicate of the tree says, as alternatives (several only for the outside of a box)."""
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
    return [Holds(name, weight, keys)]


def _keys(predicate: Predicate, schema: Schema) -> IntervalSet:
    if isinstance(predicate, Compare):
        return _COMPARISONS[predicate.operator](_key(schema, predicate, predicate.value, predicate.operator))
    if isinstance(predicate, Between):
        return closed(
            _key(schema, predicate, predicate.lo, "BETWEEN"), _key(schema, predicate, predicate.hi, "BETWEEN")
        )
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
        elif operator not in _EQUALITIES:
            raise ValueTypeError(
                f"attribute {predicate.attribute!r}: strings have no order, so {operator} is refused; use =, != or IN"
            )
    elif type_ is Type.NUMBER and isinstance(value, float) and value in (float("inf"), float("-inf")):
        known = schema.get(predicate.attribute)
        if known is not None and known.type is Type.TIMESTAMP:
            return value
    try:
        attribute = schema.attribute_for(predicate.attribute, type_)
    except ValueTypeError as error:
        raise error.about(f"{predicate}") from None
    return schema.key(attribute, value)


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
    return [Placed(name, weight, ~lon, EVERYTHING), Placed(name, weight, EVERYTHING, ~lat)]


def _both(a: RowPredicate, b: RowPredicate) -> RowPredicate | None:
    """The conjunction of two predicates on one attribute; None if they exclude one another."""
    weight = a.weight + b.weight
    if isinstance(a, Absent) and isinstance(b, Absent):
        return Absent(a.attribute, weight)
    if isinstance(a, Absent) or isinstance(b, Absent):
        return None
    if isinstance(a, Holds) and isinstance(b, Holds):
        return Holds(a.attribute, weight, a.keys & b.keys)
    if isinstance(a, Placed) and isinstance(b, Placed):
        circles = a.circles + tuple(circle for circle in b.circles if circle not in a.circles)
        return Placed(a.attribute, weight, a.lon & b.lon, a.lat & b.lat, circles)
    placed = a if isinstance(a, Placed) else b
    return replace(
        placed, weight=weight
    )  # the other one is IS NOT NULL, written before the attribute was known as a point


def _can_hold(predicate: RowPredicate) -> bool:
    if isinstance(predicate, Holds):
        return bool(predicate.keys)
    return not isinstance(predicate, Placed) or (bool(predicate.lon) and bool(predicate.lat))


def _distinct(rows: list[_Draft]) -> list[_Draft]:
    if len(rows) < 2:
        return rows
    return list({tuple(row.items()): row for row in rows}.values())
