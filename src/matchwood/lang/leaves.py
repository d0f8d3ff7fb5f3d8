"""Predicates of a tree as predicates of rows: values become keys, NOT a complement.

Names, types and strings are looked up in the schema, and learnt if it learns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from matchwood.errors import ExpressionError, ValueTypeError
from matchwood.lang import places, text_tests
from matchwood.lang.expression import Predicate
from matchwood.lang.grade import Grade, grade_of
from matchwood.lang.intervals import EVERYTHING, IntervalSet, above, at_least, at_most, below, closed, points
from matchwood.lang.limits import Limits
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested, element_test
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.places import Circle
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, Kind, Region, box_of, is_box, parts_of
from matchwood.lang.row import Absent, Counted, DraftPredicate, Holds, Placed, RowPredicate, Tested, can_hold
from matchwood.lang.text_tests import Like, TextTest
from matchwood.patterns import OneOf
from matchwood.schema import CODED, Attribute, Scalar, Schema, Type, type_of
from matchwood.schema.keys import keys_of


def nested_predicates(predicate: Nested, schema: Schema, negated: bool, limits: Limits) -> list[DraftPredicate]:
    """A condition on elements as alternatives: a test of the whole list; none if it never holds."""
    test = element_test(predicate, schema, limits)
    if isinstance(test, bool):  # of every list, or of none
        return [] if test is negated else [_present(schema.find(predicate.attribute), predicate.weight)]
    if negated:
        return [Tested(predicate.attribute, predicate.weight, none=(test,))]
    return [Tested(predicate.attribute, predicate.weight, some=((test,),))]


def leaf_predicates(predicate: Predicate, schema: Schema, negated: bool) -> list[DraftPredicate]:
    """A predicate of the tree as alternatives: several for the outside of a box, and for some tests of lists; none if it never
    holds."""
    if predicate.grade is None:
        return _ungraded(predicate, schema, negated)
    if isinstance(predicate, IsNull):
        if predicate.negated is negated:
            raise ExpressionError(
                f"attribute {predicate.attribute!r}: DECAY needs a value; an absent one has no distance"
            )
        grade = _grade(predicate, schema, negated)  # the origin tells the type of an attribute that has none
        return [_graded(_present(schema.find(predicate.attribute), 0.0), grade)]
    found = _ungraded(predicate, schema, negated)
    grade = _grade(predicate, schema, negated)
    return [_graded(one, grade) for one in found]


def _grade(predicate: Predicate, schema: Schema, negated: bool) -> Grade:
    assert predicate.grade is not None
    circle = (predicate.centre, predicate.radius) if isinstance(predicate, DWithin) else None
    towards = direction(predicate)
    return grade_of(
        predicate.grade,
        predicate.weight,
        schema,
        predicate.attribute,
        towards=-towards if negated else towards,
        circle=circle,
    )


def direction(predicate: Predicate) -> int:
    """-1 for a predicate with an upper end only, 1 for one with a lower end only, otherwise 0."""
    return _DIRECTIONS.get(predicate.operator, 0) if isinstance(predicate, Compare) else 0


def _graded(predicate: DraftPredicate, grade: Grade) -> DraftPredicate:
    assert isinstance(predicate, (Holds, Placed))
    return replace(predicate, weight=0.0, grades=(grade,))


def _ungraded(predicate: Predicate, schema: Schema, negated: bool) -> list[DraftPredicate]:
    name, weight = predicate.attribute, predicate.weight
    if isinstance(predicate, IsNull):
        if predicate.negated is negated:
            schema.find(name)
            return [Absent(name, weight)]
        return [_present(schema.find(name), weight)]
    if isinstance(predicate, (DWithin, BBox)):
        schema.attribute_for(name, Type.POINT)
        return _placed(predicate, negated)
    if isinstance(predicate, Spatial):
        schema.attribute_for(name, Type.POINT)
        return _located(predicate, negated)
    if isinstance(predicate, (Lists, ListCount)):
        return _of_lists(predicate, schema, negated)
    if isinstance(predicate, (Like, TextTest)):
        return _of_test(predicate, schema, negated)
    assert isinstance(predicate, (Compare, Between, In))
    if isinstance(predicate, Between) or (isinstance(predicate, Compare) and predicate.operator not in _EQUALITIES):
        known = schema.get(name)
        if known is not None and known.order is not None:
            return [text_tests.ordered(predicate, known, negated)]
    keys = _keys(predicate, schema)
    type_ = schema.find(name).type
    if predicate.quantifier is not None:
        asks_all = predicate.quantifier is Quantifier.ALL
        if negated:
            asks_all, keys = not asks_all, ~keys
        return [_without(name, weight, ~keys, type_) if asks_all else _with(name, weight, keys, type_)]
    excludes = predicate.operator is Operator.NE if isinstance(predicate, Compare) else predicate.negated
    if isinstance(predicate, Compare) and excludes:
        keys = ~keys  # what it excludes
    if negated is not excludes:
        return [_without(name, weight, keys, type_)]
    return [Holds(name, weight, values_in(keys, type_))]


def _of_test(predicate: Like | TextTest, schema: Schema, negated: bool) -> list[DraftPredicate]:
    test = predicate.test()
    if not isinstance(test, OneOf):
        return [text_tests.tested(predicate, schema, negated)]
    # A pattern without wildcards is a comparison.
    negated = negated is not (isinstance(predicate, Like) and predicate.negated)
    name, weight, quantifier = predicate.attribute, predicate.weight, predicate.quantifier
    same = Compare(name, weight, operator=Operator.EQ, value=test.texts[0], quantifier=quantifier)
    return leaf_predicates(same, schema, negated)


def _without(name: str, weight: float, keys: IntervalSet, type_: Type | None) -> Holds:
    """No value is among the keys."""
    return Holds(name, weight, values_in(~keys, type_), values_in(keys, type_))


def _with(name: str, weight: float, keys: IntervalSet, type_: Type | None) -> Holds:
    """Some value is among the keys, whatever other conditions ask for."""
    return Holds(name, weight, EVERYTHING, counts=(Counted(values_in(keys, type_), 1),))


def _of_lists(predicate: Lists | ListCount, schema: Schema, negated: bool) -> list[DraftPredicate]:
    name, weight = predicate.attribute, predicate.weight
    keys = _keys_of_list(predicate, predicate.values, schema)
    type_, listed = schema.find(name).type, points(keys)
    if isinstance(predicate, ListCount):
        bounds = _counts(predicate.operator, predicate.count, negated)
        return [found for least, most in bounds for found in _counted(name, weight, keys, least, most, type_)]
    if predicate.operator is ListOperator.OVERLAPS:
        return [_without(name, weight, listed, type_) if negated else _with(name, weight, listed, type_)]
    within = _with(name, weight, ~listed, type_) if negated else _without(name, weight, ~listed, type_)
    if predicate.operator is ListOperator.CONTAINED_BY:
        return [within]
    size = len(set(keys))
    bounds = [(0, size - 1)] if negated else [(size, math.inf)]
    (contains,) = _counted(name, weight, keys, *bounds[0], type_)
    if predicate.operator is ListOperator.CONTAINS:
        return [contains]
    return [contains, within] if negated else [Holds(name, weight, within.keys, within.none, contains.counts)]


def _counted(name: str, weight: float, keys: list[float], least: int, most: float, type_: Type | None) -> list[Holds]:
    """From `least` to `most` of the keys are there; nothing if that cannot be."""
    # Each key is an interval of its own: they are counted, so neighbouring floats stay apart.
    listed = IntervalSet(tuple([(key, key) for key in sorted({key + 0.0 for key in keys})]))
    size, least = listed.count, max(least, 0)
    if least > size or most < least:
        return []
    if most == 0:
        return [_without(name, weight, points(keys), type_)]
    if least == 0 and most >= size:
        return [Holds(name, weight, EVERYTHING)]
    if least == 1 and most >= size:
        return [_with(name, weight, points(keys), type_)]
    return [Holds(name, weight, EVERYTHING, counts=(Counted(listed, least, most if most < size else math.inf),))]


def _counts(operator: Operator, count: int, negated: bool) -> list[tuple[int, float]]:
    """The numbers that a comparison allows, as ranges."""
    if negated:
        operator = _NEGATIONS[operator]
    below: tuple[int, float] = (0, count - 1)
    above: tuple[int, float] = (count + 1, math.inf)
    ranges: dict[Operator, list[tuple[int, float]]] = {
        Operator.EQ: [(count, count)],
        Operator.NE: [below, above],
        Operator.LT: [below],
        Operator.LE: [(0, count)],
        Operator.GT: [above],
        Operator.GE: [(count, math.inf)],
    }
    return ranges[operator]


_NEGATIONS = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.LE: Operator.GT,
    Operator.GT: Operator.LE,
    Operator.GE: Operator.LT,
}


_DIRECTIONS = {Operator.LT: -1, Operator.LE: -1, Operator.GT: 1, Operator.GE: 1}


def settled(predicate: DraftPredicate, schema: Schema) -> RowPredicate | None:
    """The predicate as rows keep it; None if it can never hold. O(counts^2 + intervals log intervals).

    Counts lose what is excluded anyway, and sets that narrower ones imply are dropped. Of the sets that the value has to meet,
    the one that is likely to exclude most events becomes `keys`, because structures filter by `keys` alone. A graded predicate
    keeps its `keys`, whose values are graded.
    """
    if isinstance(predicate, Tested):
        held = text_tests.settled_tests(predicate, schema)
        return None if held is None or not can_hold(held) else settled(held, schema)
    if not isinstance(predicate, Holds) or not predicate.counts:
        return predicate
    type_, none = schema.find(predicate.attribute).type, predicate.none
    sets, counts = [predicate.keys], []
    for count in predicate.counts:
        left = values_in(count.keys - none, type_) if count.is_any else _apart(count.keys, none)
        if left.count < count.least:
            return None
        kept = Counted(left, count.least, count.most if count.most < left.count else math.inf)
        if kept.is_any:
            sets.append(values_in(IntervalSet.of(left.parts), type_))
        elif kept.least > 0 or kept.most != math.inf:
            counts.append(kept)
    needed = [set_ for count in counts for set_ in needed_by(count, type_)]
    asked = [
        set_
        for at, set_ in enumerate(sets)
        if not any(set_.covers(other) for other in needed)
        and not any(set_.covers(other) and (set_ != other or i < at) for i, other in enumerate(sets) if i != at)
    ]
    keys = predicate.keys if predicate.grades else min(asked + needed, key=_breadth)
    counts += [Counted(set_, 1) for set_ in asked if set_ != keys]
    ordered = sorted(set(counts), key=lambda count: (count.keys.parts, count.least, count.most))
    return Holds(predicate.attribute, predicate.weight, keys, none, tuple(ordered), predicate.grades)


def needed_by(count: Counted, type_: Type | None) -> list[IntervalSet]:
    """Sets each of which the value has to meet if the count is to hold."""
    if count.least == count.keys.count:
        return [IntervalSet((part,)) for part in count.keys.parts]
    return [values_in(IntervalSet.of(count.keys.parts), type_)] if count.least > 0 else []


def _breadth(keys: IntervalSet) -> tuple[bool, int, float]:
    """Single values before ranges, few before many; of the codes of strings those that were registered last, likely rare ones."""
    return any(lo != hi for lo, hi in keys.parts), keys.count, -keys.hull[1]


def _apart(listed: IntervalSet, none: IntervalSet) -> IntervalSet:
    """The listed keys that are not excluded."""
    return IntervalSet(tuple([part for part in listed.parts if part[0] not in none])) if none else listed


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
    return points(_keys_of_list(predicate, predicate.values, schema))


def _keys_of_list(predicate: Predicate, values: tuple[Scalar, ...], schema: Schema) -> list[float]:
    known = schema.get(predicate.attribute)
    if known is None or known.type is None:
        _key(schema, predicate, _deciding(values), "IN")
    if len(values) > 1 and len(set(map(type, values))) == 1:
        _key(schema, predicate, values[0], "IN")  # they are all of the type of the attribute, or none is
        return keys_of(schema.find(predicate.attribute), values)
    return [_key(schema, predicate, value, "IN") for value in values]


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
            + (
                "; a string that is declared as an 'ordered string' or a 'version' has one"
                if type_ is Type.STRING
                else ""
            )
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


def _placed(predicate: DWithin | BBox, negated: bool) -> list[DraftPredicate]:
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


_ACCEPTED = {
    SpatialOperator.INTERSECTS: BOUNDARY | INSIDE,
    SpatialOperator.DISJOINT: OUTSIDE,
    SpatialOperator.WITHIN: INSIDE,
    SpatialOperator.TOUCHES: BOUNDARY,
    SpatialOperator.EQUALS: INSIDE,
    SpatialOperator.CONTAINS: INSIDE,
}
"""The locations of a point for which each operator holds. For the last two the geometry has to be a point itself."""
_ANYWHERE = OUTSIDE | BOUNDARY | INSIDE


def _located(predicate: Spatial, negated: bool) -> list[DraftPredicate]:
    """A point crosses and overlaps nothing, and neither equals nor contains more than a point."""
    name, weight, operator = predicate.attribute, predicate.weight, predicate.operator
    try:
        parts = parts_of(predicate.geometry)
    except ExpressionError as error:
        raise error.about(f"attribute {name!r}") from None
    accepts = _ACCEPTED.get(operator, 0)
    is_point = len(parts) == 1 and parts[0].kind is Kind.POINTS
    if operator in (SpatialOperator.EQUALS, SpatialOperator.CONTAINS) and not is_point:
        accepts = 0
    if operator is SpatialOperator.TOUCHES and all(part.kind is Kind.POINTS for part in parts):
        accepts = 0
    if negated:
        accepts ^= _ANYWHERE
    if accepts in (0, _ANYWHERE):
        return [Placed(name, weight, EVERYTHING, EVERYTHING)] if accepts else []
    if accepts & OUTSIDE:
        return [Placed(name, weight, EVERYTHING, EVERYTHING, regions=(Region(parts, accepts),))]
    exact = is_box(parts) and (accepts == BOUNDARY | INSIDE or is_point)
    return [Placed(name, weight, *box_of(parts), regions=() if exact else (Region(parts, accepts),))]
