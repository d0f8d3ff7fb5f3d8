"""Hypothesis strategies that more than one test module draws from.

`expressions()` makes trees of every node kind, over names, values and weights chosen to be awkward: names that are keywords or
hold quotes, strings that look like syntax, numbers at the edges of float64, timestamps with and without fractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Constant, Expression, Not, Predicate, all_of, any_of
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested, unweighted
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.temporal import Interval, Temporal, TemporalFunction
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.schema import Point, Scalar
from matchwood.schema.functions import derived_name, is_derived

AWKWARD_NAMES = (
    *("a", "age", "a.b", "a.1", "_x", "A1", "date", "timestamp", "point", "km", "e5", "inf.x"),
    *(
        "AND",
        "not",
        "Null",
        "INF",
        "in",
        ".a",
        "a.",
        "a..b",
        "1a",
        "it's",
        'say "x"',
        '"',
        "'",
        " ",
        "a b",
        "\n",
        "é",
        "名",
        "a-1",
    ),
)
AWKWARD_STRINGS = (
    "",
    "'",
    "''",
    '"',
    "it's",
    "a\nb",
    " AND ",
    "^0.4",
    "5",
    "TRUE",
    "\x00",
    "\\",
    "名",
    "🜁",
    "a'b\"c",
    "%",
    "--",
)
AWKWARD_NUMBERS = (
    *(0, 1, -1, 2**53, 2**53 + 1, -(10**30), 0.0, -0.0, 0.1, 1.5, -2.5, 1e16, 1e-7, 5e-324, 1.7976931348623157e308),
    *(math.inf, -math.inf),
)


def names() -> st.SearchStrategy[str]:
    """Attribute names: any text but the empty one."""
    return st.sampled_from(AWKWARD_NAMES) | st.text(min_size=1, max_size=8).filter(lambda name: not is_derived(name))


def functions_of(name: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Functions of an attribute, and functions of those."""
    function = st.sampled_from(("CASEI", "ACCENTI"))
    once = st.builds(derived_name, function, name)
    return once | st.builds(derived_name, function, once)


def numbers() -> st.SearchStrategy[int | float]:
    return st.sampled_from(AWKWARD_NUMBERS) | st.integers() | st.floats(allow_nan=False)


def timestamps() -> st.SearchStrategy[datetime]:
    return st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))  # UTC has no folds


def scalars() -> st.SearchStrategy[Scalar]:
    """A value of any type a comparison takes."""
    return st.one_of(numbers(), st.sampled_from(AWKWARD_STRINGS), st.text(max_size=8), st.booleans(), timestamps())


def patterns() -> st.SearchStrategy[str]:
    """Patterns of LIKE."""
    return st.lists(st.sampled_from(("%", "_", "a", "'", "\\%", "\\_", "\\\\", "é")), max_size=5).map("".join)


def weights() -> st.SearchStrategy[float]:
    return st.sampled_from((1.0, 1.0, 0.0, 0.4, 2.0, 1e-300, 1e300)) | st.floats(0.0, 1e6)


def predicates(attributes: Sequence[str] | None = None) -> st.SearchStrategy[Predicate]:
    """A predicate of any kind, on one of `attributes` or on any name, or on a function of one."""
    plain = names() if attributes is None else st.sampled_from(attributes)
    on = {"attribute": plain if attributes is not None else plain | functions_of(plain), "weight": weights()}
    lon, lat = st.floats(-180.0, 180.0), st.floats(-90.0, 90.0)
    latitudes = st.tuples(lat, lat).map(sorted)
    radius = st.floats(1e-3, 2e7)
    operator, some = st.sampled_from(Operator), st.lists(scalars(), min_size=1, max_size=4).map(tuple)
    quantifier = st.sampled_from(Quantifier)
    return st.one_of(
        st.builds(Compare, operator=operator, value=scalars(), quantifier=st.none() | quantifier, **on),
        st.builds(Between, lo=scalars(), hi=scalars(), negated=st.booleans(), **on),
        st.builds(Between, lo=scalars(), hi=scalars(), quantifier=quantifier, **on),
        st.builds(In, values=some, negated=st.booleans(), **on),
        st.builds(In, values=some, quantifier=quantifier, **on),
        st.builds(Lists, values=some, operator=st.sampled_from(ListOperator), **on),
        st.builds(ListCount, values=some, operator=operator, count=st.integers(-2, 10**30), **on),
        st.builds(IsNull, negated=st.booleans(), **on),
        st.builds(Like, pattern=patterns(), negated=st.booleans(), **on),
        st.builds(Like, pattern=patterns(), quantifier=quantifier, **on),
        st.builds(
            TextTest,
            operator=st.sampled_from((TextOperator.STARTS_WITH, TextOperator.ENDS_WITH, TextOperator.CONTAINS)),
            argument=st.text(max_size=4),
            quantifier=st.none() | quantifier,
            **on,
        ),
        st.builds(DWithin, centre=st.builds(Point, lon, lat), radius=radius, shape=st.sampled_from(Shape), **on),
        st.builds(_box, west=lon, east=lon, latitudes=latitudes, **on),
        st.builds(_located, operator=st.sampled_from(SpatialOperator), geometry=geometries(), **on),
    )


def geometries() -> st.SearchStrategy[Geometry]:
    """A geometry of any type, within float64 as awkward as it may be; rings are closed, but may cross themselves."""
    position = st.tuples(st.floats(-360.0, 360.0), st.floats(-90.0, 90.0))
    near = st.tuples(st.floats(-180.0, 180.0), st.floats(-90.0, 90.0))
    line = st.lists(near, min_size=2, max_size=4).map(tuple)
    ring = st.lists(near, min_size=3, max_size=5).map(lambda ring: (*ring, ring[0]))
    polygon = st.lists(ring, min_size=1, max_size=3).map(tuple)
    sides = st.tuples(st.floats(-180.0, 180.0), st.floats(-90.0, 0.0), st.floats(-180.0, 180.0), st.floats(0.0, 90.0))
    several = {"min_size": 1, "max_size": 3}
    simple = st.one_of(
        st.builds(Geometry, st.just(GeometryType.POINT), position),
        st.builds(Geometry, st.just(GeometryType.MULTI_POINT), st.lists(position, **several).map(tuple)),
        st.builds(Geometry, st.just(GeometryType.LINE_STRING), line),
        st.builds(Geometry, st.just(GeometryType.MULTI_LINE_STRING), st.lists(line, **several).map(tuple)),
        st.builds(Geometry, st.just(GeometryType.POLYGON), polygon),
        st.builds(Geometry, st.just(GeometryType.MULTI_POLYGON), st.lists(polygon, **several).map(tuple)),
    )
    collection = st.builds(Geometry, st.just(GeometryType.COLLECTION), st.lists(simple, **several).map(tuple))
    return st.one_of(simple, collection, st.builds(Geometry, st.just(GeometryType.BBOX), sides))


def _located(attribute: str, weight: float, operator: SpatialOperator, geometry: Geometry) -> Predicate:
    try:
        return spatial(attribute, weight, operator, geometry)
    except ExpressionError:  # WITHIN and TOUCHES of a collection
        return spatial(attribute, weight, SpatialOperator.DISJOINT, geometry)


def temporals(attributes: Sequence[str] | None = None) -> st.SearchStrategy[Temporal]:
    """A temporal function of any arguments that may stand together."""
    name = names() if attributes is None else st.sampled_from(attributes)
    ordered = st.lists(timestamps(), min_size=2, max_size=2).map(lambda ends: Interval(*sorted(ends)))
    constant = timestamps() | ordered | st.builds(Interval, timestamps(), st.none()) | st.just(Interval(None, None))
    anything = constant | name | st.builds(Interval, name | st.none(), name | timestamps())
    sides = st.tuples(anything, constant, st.booleans()).map(lambda pair: pair[1::-1] if pair[2] else pair[:2])
    return st.tuples(st.sampled_from(TemporalFunction), sides, weights()).map(
        lambda parts: Temporal(parts[0], *parts[1], weight=parts[2])
    )


def expressions(attributes: Sequence[str] | None = None, *, max_leaves: int = 8) -> st.SearchStrategy[Expression]:
    """A tree of any node kind, over `attributes` or over any names."""
    leaves: st.SearchStrategy[Expression] = st.one_of(
        predicates(attributes), st.builds(Constant, st.booleans()), temporals(attributes)
    )
    return st.recursive(leaves, _combined if attributes is not None else _with_nested, max_leaves=max_leaves)


def _with_nested(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    nested = st.builds(
        Nested,
        attribute=names(),
        weight=weights(),
        condition=children.map(unweighted),
        quantifier=st.sampled_from(Quantifier),
    )
    return _combined(children) | nested


def _combined(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, min_size=2, max_size=4)
    return st.one_of(
        several.map(lambda parts: all_of(*parts)),
        several.map(lambda parts: any_of(*parts)),
        children.map(Not),
    )


def _box(attribute: str, weight: float, west: float, east: float, latitudes: list[float]) -> BBox:
    return BBox(attribute, weight, west=west, south=latitudes[0], east=east, north=latitudes[1])
