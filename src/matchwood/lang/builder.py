"""Expressions written in Python: `attr("age", weight=0.4).between(22, 36) & (attr("city") == "Oslo")`.

A builder makes the same trees as `parse`. It converts the values of Python programs (dates, decimals, enums, UUIDs, NumPy and
pandas scalars, sets) to those of trees (datetimes in UTC, Python scalars, tuples).

Python binds `&` before `^`, and both before `<`, so every comparison needs parentheses; `weight=` needs none. A mix of operators
that would lose a condition raises an `ExpressionError`. One case cannot be detected: `attr("a") > 5 ^ 2` is `attr("a") > 7`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NoReturn, Self, overload

from matchwood.errors import ExpressionError, MatchwoodError
from matchwood.lang.expression import Expression, Predicate
from matchwood.lang.geometry import geometry_of
from matchwood.lang.instants import instant
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.temporal import Times
from matchwood.lang.temporal_builder import DerivedTimes
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.lang.units import METRES
from matchwood.lang.wkt import read_wkt
from matchwood.schema import Point, Scalar, describe, is_missing, unwrapped
from matchwood.schema.functions import derived_name

_PLAIN = frozenset((int, str, bool))
_BYTES = (bytes, bytearray, memoryview)


class _Comparable:
    """What can be compared with constants: an attribute, or the values of its list under a quantifier."""

    __slots__ = ("_name", "_quantifier", "_weight")
    __hash__ = None  # type: ignore[assignment]  # `==` makes a predicate, so it cannot be a key

    _name: str
    _weight: float
    _quantifier: Quantifier | None

    def __eq__(self, value: object) -> Compare:  # type: ignore[override]
        return self._compare(Operator.EQ, value)

    def __ne__(self, value: object) -> Compare:  # type: ignore[override]
        return self._compare(Operator.NE, value)

    def __lt__(self, value: object) -> Compare:
        return self._compare(Operator.LT, value)

    def __le__(self, value: object) -> Compare:
        return self._compare(Operator.LE, value)

    def __gt__(self, value: object) -> Compare:
        return self._compare(Operator.GT, value)

    def __ge__(self, value: object) -> Compare:
        return self._compare(Operator.GE, value)

    def between(self, lo: object, hi: object) -> Between:
        """The value lies from `lo` to `hi`, both included.

        >>> print(attr("age").between(22, 36) ^ 0.4)
        age BETWEEN 22 AND 36 ^0.4
        """
        low, high = self._scalar(lo), self._scalar(hi)
        return Between(self._name, self._weight, lo=low, hi=high, quantifier=self._quantifier)

    def is_in(self, values: Iterable[object]) -> In:
        """The value is one of `values`, which keep their order; sets are sorted, so that equal sets make equal trees.

        >>> print(attr("city").is_in(["Oslo", "Bergen"]))
        city IN ('Oslo', 'Bergen')
        """
        return In(self._name, self._weight, values=self._scalars(values), quantifier=self._quantifier)

    def like(self, pattern: str) -> Like:
        r"""The string is of a pattern: `%` is any text, `_` any one character, a backslash takes the next one as it is.

        >>> print(attr("name").like("a%"))
        name LIKE 'a%'
        """
        return Like(self._name, self._weight, pattern=pattern, quantifier=self._quantifier)

    def starts_with(self, text: str) -> TextTest:
        """The string begins with `text`.

        >>> print(attr("path").starts_with("/home/"))
        STARTS_WITH(path, '/home/')
        """
        return self._test(TextOperator.STARTS_WITH, text)

    def ends_with(self, text: str) -> TextTest:
        """The string ends in `text`."""
        return self._test(TextOperator.ENDS_WITH, text)

    def contains_text(self, text: str) -> TextTest:
        """The string contains `text`.

        >>> print(attr("title").contains_text("index"))
        CONTAINS(title, 'index')
        """
        return self._test(TextOperator.CONTAINS, text)

    def matches(self, pattern: str) -> TextTest:
        """A regular expression matches somewhere in the string. Needs the extra `regex`.

        >>> print(attr("name").matches("^a+b"))
        REGEX(name, '^a+b')
        """
        return self._test(TextOperator.REGEX, pattern)

    def in_network(self, network: str) -> TextTest:
        """The string is an address of a network of IPv4 or IPv6.

        >>> print(attr("ip").in_network("10.0.0.0/8"))
        CIDR(ip, '10.0.0.0/8')
        """
        return self._test(TextOperator.CIDR, network)

    def _test(self, operator: TextOperator, argument: str) -> TextTest:
        return TextTest(self._name, self._weight, operator=operator, argument=argument, quantifier=self._quantifier)

    def _compare(self, operator: Operator, value: object) -> Compare:
        return Compare(
            self._name, self._weight, operator=operator, value=self._scalar(value), quantifier=self._quantifier
        )

    def _scalar(self, value: object) -> Scalar:
        """A value in the form of trees; the error for another one says what to write instead."""
        try:
            plain = _plain(value)
        except MatchwoodError as error:
            raise self._error(str(error)) from None
        if isinstance(plain, (int, float, str, datetime)) and plain == plain:
            return plain
        if plain is None or (isinstance(plain, (float, date)) and plain != plain):
            raise self._error(f"{plain} is not a value; use is_null() or is_not_null()")
        if isinstance(value, (Attr, Expression)):
            raise self._error(f"expected a constant, got {value!r}; attributes cannot be compared with each other")
        if isinstance(value, _BYTES):
            raise self._error(f"{describe(value)} is not a value; decode bytes to a string")
        if isinstance(value, Iterable):
            raise self._error(f"expected one value, got {describe(value)}; use is_in(...) for several")
        raise self._error(f"expected a number, string, bool, date or datetime, got {describe(value)}")

    def _scalars(self, values: Iterable[object]) -> tuple[Scalar, ...]:
        if isinstance(values, (str, *_BYTES, Mapping)) or not isinstance(values, Iterable):
            raise self._error(f"expected a list of values, got {describe(values)}")
        ordered: tuple[Any, ...] = tuple(sorted(values, key=repr) if isinstance(values, AbstractSet) else values)
        if set(map(type, ordered)) <= _PLAIN:
            return ordered
        return tuple([self._scalar(value) for value in ordered])

    def _number(self, value: object, what: str) -> float:
        plain = _plain(value)
        if isinstance(plain, bool) or not isinstance(plain, (int, float)):
            raise self._error(f"expected {what}, got {describe(value)}")
        return float(plain)

    def _error(self, message: str) -> ExpressionError:
        return ExpressionError(message).about(f"attribute {self._name!r}")


class Attr(_Comparable, DerivedTimes):
    """An attribute's name and the weight of the predicates made from it. Immutable; made by `attr`.

    Every method is O(1), or O(n) in the number of values it is given.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, weight: float = 1.0) -> None:
        if not isinstance(name, str) or not name:
            raise ExpressionError(f"expected the name of an attribute, got {describe(name)}")
        self._name = str.__str__(name)
        self._quantifier = None
        self._weight = self._number(weight, "a weight")

    def _derived(self, function: str, argument: str | None = None) -> Self:
        return type(self)(derived_name(function, self._name, argument), self._weight)

    def casei(self) -> Attr:
        """The attribute without differences of case; constants that it is compared with are folded in the same way.

        >>> print(attr("city").casei() == "OSLO")
        CASEI(city) = CASEI('oslo')
        """
        return self._derived("CASEI")

    def accenti(self) -> Attr:
        """The attribute without accents; constants that it is compared with lose theirs too.

        >>> print(attr("city").accenti() == "Tromsø")
        ACCENTI(city) = ACCENTI('Tromsø')
        """
        return self._derived("ACCENTI")

    def not_between(self, lo: object, hi: object) -> Between:
        """The value lies below `lo` or above `hi`."""
        return Between(self._name, self._weight, lo=self._scalar(lo), hi=self._scalar(hi), negated=True)

    def not_in(self, values: Iterable[object]) -> In:
        """The event has the attribute, and its value is none of `values`."""
        return In(self._name, self._weight, values=self._scalars(values), negated=True)

    def not_like(self, pattern: str) -> Like:
        """The event has the attribute, and no value is of the pattern."""
        return Like(self._name, self._weight, pattern=pattern, negated=True)

    @overload
    def any(self) -> _Comparable: ...
    @overload
    def any(self, condition: Expression) -> Nested: ...
    def any(self, condition: Expression | None = None) -> Any:
        """Some value of a list, whatever values other conditions are about; with a condition, one object of a list meets it.

        >>> print((attr("size").any() > 3) & (attr("size").any() < 5))
        ANY(size) > 3 AND ANY(size) < 5
        >>> print(attr("items").any((attr("sku") == "a") & (attr("qty") >= 2)))
        ANY(items, sku = 'a' AND qty >= 2)
        """
        return self._quantified(Quantifier.ANY, condition)

    @overload
    def all(self) -> _Comparable: ...
    @overload
    def all(self, condition: Expression) -> Nested: ...
    def all(self, condition: Expression | None = None) -> Any:
        """Every value of a list; with a condition, every object of a list meets it.

        >>> print(attr("size").all() > 3)
        ALL(size) > 3
        """
        return self._quantified(Quantifier.ALL, condition)

    def contains(self, values: Iterable[object]) -> Lists:
        """The list of the event contains all of `values`.

        >>> print(attr("terms").contains(["graph", "index"]))
        A_CONTAINS(terms, ('graph', 'index'))
        """
        return self._lists(ListOperator.CONTAINS, values)

    def contained_by(self, values: Iterable[object]) -> Lists:
        """Every value of the event is one of `values`."""
        return self._lists(ListOperator.CONTAINED_BY, values)

    def equals(self, values: Iterable[object]) -> Lists:
        """The event has all of `values` and no others, in any order."""
        return self._lists(ListOperator.EQUALS, values)

    def overlaps(self, values: Iterable[object]) -> Lists:
        """The list of the event contains at least one of `values`."""
        return self._lists(ListOperator.OVERLAPS, values)

    def count_of(self, values: Iterable[object]) -> ListedCount:
        """How many of `values` the list of the event contains, to be compared with a number.

        >>> print(attr("terms").count_of(["graph", "index", "tree"]) >= 2)
        A_COUNT(terms, ('graph', 'index', 'tree')) >= 2
        """
        return ListedCount(self._name, self._weight, self._scalars(values))

    def _times(self) -> tuple[Times, float]:
        return self._name, self._weight

    def __repr__(self) -> str:
        return f"attr({self._name!r})" if self._weight == 1.0 else f"attr({self._name!r}, weight={self._weight!r})"

    def is_null(self) -> IsNull:
        """The event lacks the attribute."""
        return IsNull(self._name, self._weight)

    def is_not_null(self) -> IsNull:
        """The event has the attribute, whatever its value."""
        return IsNull(self._name, self._weight, negated=True)

    def within(
        self,
        centre: Point | Sequence[float] | Mapping[str, Any] | str | object,
        radius: float | tuple[float, str] | None = None,
        *,
        shape: Shape | str = Shape.CIRCLE,
    ) -> Predicate:
        """The place lies within `radius` of `centre` (longitude, latitude): metres, or an amount and its unit.

        Without a radius, the place lies inside a geometry and not on its boundary (S_WITHIN); see `intersects`.

        >>> print(attr("place").within((-73.98, 40.75), (1, "km"), shape="square"))
        DWITHIN(place, POINT(-73.98 40.75), 1000.0 m, SQUARE)
        >>> print(attr("place").within("POLYGON((0 0, 1 0, 0 1, 0 0))"))
        S_WITHIN(place, POLYGON((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0)))
        """
        if radius is None:
            if isinstance(centre, Point | tuple | list):
                raise self._error(f"expected a radius beside the centre {describe(centre)}, or a geometry")
            return self._spatial(SpatialOperator.WITHIN, centre)
        try:
            form = Shape(shape)
        except ValueError:
            raise self._error(f"expected the shape 'circle' or 'square', got {describe(shape)}") from None
        metres = self._metres(radius)
        place: Any = centre
        if not isinstance(centre, (Mapping, str)) and isinstance(centre, Iterable):
            place = tuple([_plain(number) for number in centre])
        return DWithin(self._name, self._weight, centre=place, radius=metres, shape=form)

    def intersects(self, geometry: Mapping[str, Any] | str | object) -> Predicate:
        """The place lies in a geometry, its boundary included. The geometry is GeoJSON, WKT, or has `__geo_interface__`.

        >>> print(attr("place").intersects({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}))
        S_INTERSECTS(place, POLYGON((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0)))
        """
        return self._spatial(SpatialOperator.INTERSECTS, geometry)

    def disjoint(self, geometry: Mapping[str, Any] | str | object) -> Predicate:
        """The place lies outside a geometry, and not on its boundary."""
        return self._spatial(SpatialOperator.DISJOINT, geometry)

    def touches(self, geometry: Mapping[str, Any] | str | object) -> Predicate:
        """The place lies on the boundary of a geometry: on a ring of a polygon, or at an end of a line."""
        return self._spatial(SpatialOperator.TOUCHES, geometry)

    def in_box(self, west: float, south: float, east: float, north: float) -> BBox:
        """The place lies in the box, borders included; `west > east` crosses the antimeridian.

        >>> print(attr("place").in_box(-74.1, 40.6, -73.8, 40.9))
        BBOX(place, -74.1, 40.6, -73.8, 40.9)
        """
        borders = [self._number(border, "a border in degrees") for border in (west, south, east, north)]
        return BBox(self._name, self._weight, west=borders[0], south=borders[1], east=borders[2], north=borders[3])

    def __bool__(self) -> NoReturn:
        raise self._error(
            f"an attribute has no truth value; write ({self!r} == True), and lo < x < hi as between(lo, hi)"
        )

    def __xor__(self, other: object) -> NoReturn:
        raise self._error(f"a weight belongs to a predicate; write ({self!r} > 5) ^ 0.4 or attr(..., weight=0.4)")

    def __and__(self, other: object) -> NoReturn:
        raise self._error(
            f"&, | and ~ combine predicates, and Python binds them before comparisons; "
            f"put each comparison in parentheses, ({self!r} > 5) & (...), and write a flag as ({self!r} == True)"
        )

    def __add__(self, other: object) -> NoReturn:
        raise self._error("arithmetic is not supported; compare the attribute itself with a constant")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__

    def __neg__(self) -> NoReturn:
        self.__add__(None)

    __or__ = __rand__ = __ror__ = __and__
    __rxor__ = __xor__

    def __invert__(self) -> NoReturn:
        self.__and__(None)

    def _spatial(self, operator: SpatialOperator, value: object) -> Predicate:
        try:
            geometry = read_wkt(value) if isinstance(value, str) else geometry_of(value)
        except ExpressionError as error:
            raise error.about(f"attribute {self._name!r}") from None
        return spatial(self._name, self._weight, operator, geometry)

    def _quantified(self, quantifier: Quantifier, condition: Expression | None) -> _Comparable | Nested:
        if condition is not None:
            return Nested(self._name, self._weight, condition=condition, quantifier=quantifier)
        made = _Comparable()
        made._name, made._weight, made._quantifier = self._name, self._weight, quantifier
        return made

    def _lists(self, operator: ListOperator, values: Iterable[object]) -> Lists:
        return Lists(self._name, self._weight, operator=operator, values=self._scalars(values))

    def _metres(self, radius: object) -> float:
        amount, unit = radius if isinstance(radius, tuple) and len(radius) == 2 else (radius, "m")
        if unit not in METRES:
            raise self._error(f"expected one of the units {', '.join(METRES)}, got {describe(unit)}")
        return self._number(amount, "a radius in metres or a pair such as (1, 'km')") * METRES[unit]


class ListedCount:
    """How many values of a list the event has; made by `Attr.count_of`, and compared with an integer."""

    __slots__ = ("_name", "_values", "_weight")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, weight: float, values: tuple[Scalar, ...]) -> None:
        self._name, self._weight, self._values = name, weight, values

    def __eq__(self, count: object) -> ListCount:  # type: ignore[override]
        return self._compare(Operator.EQ, count)

    def __ne__(self, count: object) -> ListCount:  # type: ignore[override]
        return self._compare(Operator.NE, count)

    def __lt__(self, count: object) -> ListCount:
        return self._compare(Operator.LT, count)

    def __le__(self, count: object) -> ListCount:
        return self._compare(Operator.LE, count)

    def __gt__(self, count: object) -> ListCount:
        return self._compare(Operator.GT, count)

    def __ge__(self, count: object) -> ListCount:
        return self._compare(Operator.GE, count)

    def _compare(self, operator: Operator, count: object) -> ListCount:
        number: Any = _plain(count)
        return ListCount(self._name, self._weight, values=self._values, operator=operator, count=number)


def attr(name: str, *, weight: float = 1.0) -> Attr:
    """The attribute `name`, to be compared; `weight` goes to every predicate made from it. O(1).

    >>> print((attr("age", weight=0.4) >= 18) & ~attr("city").is_in(["Oslo", "Bergen"]))
    age >= 18 ^0.4 AND NOT (city IN ('Oslo', 'Bergen'))
    >>> 1 < attr("age") < 5
    Traceback (most recent call last):
    ...
    matchwood.errors.ExpressionError: an expression has no truth value; combine with ...
    """
    return Attr(name, weight)


def _plain(value: object) -> object:
    """A value in the form of trees: NumPy's scalars, enums, UUIDs, decimals and dates as Python's own; others unchanged.

    A decimal becomes an integer if it is one, otherwise the nearest float64, as in events.
    """
    if type(value) in (int, float, str, bool):
        return value
    plain = unwrapped(value)
    if is_missing(plain):
        return plain if isinstance(plain, float) else None
    if isinstance(plain, date):
        if getattr(plain, "nanosecond", 0):
            raise ExpressionError(f"{describe(value)} is finer than a microsecond; round it first")
        to_datetime = getattr(plain, "to_pydatetime", None)
        return instant(to_datetime() if callable(to_datetime) else plain)
    if isinstance(plain, Decimal):
        return int(plain) if plain.is_finite() and plain == plain.to_integral_value() else float(plain)
    for base in (int, float):
        if isinstance(plain, base) and not isinstance(plain, bool):
            return base(plain)
    return str.__str__(plain) if isinstance(plain, str) else plain
