"""Predicates of a tree as predicates of rows: values become keys, NOT a complement.

Names, types and strings are looked up in the schema, and learnt if it learns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from matchwood.errors import ValueTypeError
from matchwood.lang import places
from matchwood.lang.expression import BBox, Between, Compare, DWithin, In, IsNull, Operator, Predicate, Shape
from matchwood.lang.intervals import EVERYTHING, IntervalSet, above, at_least, at_most, below, closed, points
from matchwood.lang.places import Circle
from matchwood.lang.row import Absent, Holds, Placed, RowPredicate
from matchwood.schema import CODED, Attribute, Scalar, Schema, Type, type_of
from matchwood.schema.keys import keys_of


def leaf_predicates(predicate: Predicate, schema: Schema, negated: bool) -> list[RowPredicate]:
    """A predicate of the tree as alternatives (several only for the outside of a box)."""
    name, weight = predicate.attribute, predicate.weight
    if isinstance(predicate, IsNull):
        if predicate.negated is negated:
            schema.find(name)
            return [Absent(name, weight)]
        return [_present(schema.find(name), weight)]
    if isinstance(predicate, (DWithin, BBox)):
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


_EXACT_INTEGER = 2**53
_BOTH = closed(0.0, 1.0)
"""Both values of a bool."""


def _keys(predicate: Predicate, schema: Schema) -> IntervalSet:
    if isinstance(predicate, Compare):
        return _COMPARISONS[predicate.operator](_key(schema, predicate, predicate.value, predicate.operator))
    if isinstance(predicate, Between):
        if _is_infinite(predicate.lo):  # the other end decides the type, if it is not known
            hi = _key(schema, predicate, predicate.hi, "BETWEEN")
            return closed(_key(schema, predicate, predicate.lo, "BETWEEN"), hi)
        lo = _key(schema, predicate, predicate.lo, "BETWEEN")
        return closed(lo, _key(schema, predicate, predicate.hi, "BETWEEN"))
    assert isinstance(predicate, In)
    values = predicate.values
    known = schema.get(predicate.attribute)
    if known is None or known.type is None:
        _key(schema, predicate, _deciding(values), "IN")
    if len(values) > 1 and len(set(map(type, values))) == 1:
        _key(schema, predicate, values[0], "IN")  # they are all of the type of the attribute, or none is
        return points(keys_of(schema.find(predicate.attribute), values))
    return points([_key(schema, predicate, value, "IN") for value in values])


def _deciding(values: Sequence[Scalar]) -> Scalar:
    """The value of a list that decides the type, if it is not known: one that looks like an id, or the first."""
    return next(filter(_looks_like_id, values), values[0])


_COMPARISONS = {
    Operator.EQ: lambda key: closed(key, key),
    Operator.NE: lambda key: ~closed(key, key),
    Operator.LT: below,
    Operator.LE: at_most,
    Operator.GT: above,
    Operator.GE: at_least,
}
_EQUALITIES = frozenset({Operator.EQ, Operator.NE, "IN"})


def _key(schema: Schema, predicate: Predicate, value: Scalar, operator: str) -> float:
    type_ = type_of(value)
    attribute = schema.get(predicate.attribute)
    known = None if attribute is None else attribute.type
    if type_ is Type.NUMBER:
        if known is Type.TIMESTAMP and _is_infinite(value):
            return float(value)
        if known is Type.ID or (known is None and operator in _EQUALITIES and _looks_like_id(value)):
            type_ = Type.ID
    elif type_ is Type.STRING and known is Type.TIMESTAMP:
        type_ = Type.TIMESTAMP
    if type_ in CODED and known in (None, type_) and operator not in _EQUALITIES:
        raise ValueTypeError(
            f"attribute {predicate.attribute!r}: {type_}s have no order, so {operator} is refused; use =, != or IN"
        )
    try:
        attribute = schema.attribute_for(predicate.attribute, type_)
    except ValueTypeError as error:
        raise error.about(f"{predicate}") from None
    return schema.key(attribute, value)


def _looks_like_id(value: Scalar) -> bool:
    """Is it an integer beyond 2^53? Where float64 holds it by chance, the next one of its attribute would be refused."""
    return type(value) is int and not -_EXACT_INTEGER <= value <= _EXACT_INTEGER


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
